"""Bottom-up clustering of vectors that carry mass: Huffman's rule with a price on distance."""

import numpy as np
from numpy.typing import NDArray

# What a merge costs, per mass, where two clusters do not differ at all. At 0 only likeness would
# count and codes grow long; when it outweighs all distances, what comes out is Huffman's tree.
BASE_PRICE = 0.1

# How much of the mass is dealt out evenly, so that rare units keep a say in where they stand.
EVEN_SHARE = 0.1


def deal_evenly(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mix masses with uniform ones: a unit without mass has no place of its own otherwise."""
    shares: NDArray[np.float64] = probabilities / probabilities.sum()
    return (1.0 - EVEN_SHARE) * shares + EVEN_SHARE / len(shares)


def merge_nearest(
    vectors: NDArray[np.float64], masses: NDArray[np.float64]
) -> tuple[list[int], list[int]]:
    """Merge the two cheapest clusters until one is left; row i is leaf ~i, merge n is node n.

    The price is the mass that is merged (as in Huffman's algorithm) times the squared distance
    of the centers plus a base. Equal prices: the lower rows first.
    """
    centers, weight = vectors.astype(np.float64), masses.astype(np.float64)
    node = [~row for row in range(len(vectors))]
    price = np.full((len(vectors), len(vectors)), np.inf)  # upper triangle: row < column
    for row in range(len(vectors) - 1):
        price[row, row + 1 :] = _prices(centers, weight, row)[row + 1 :]

    left: list[int] = []
    right: list[int] = []
    for merge in range(len(vectors) - 1):
        keep, gone = divmod(int(np.argmin(price)), len(vectors))
        left.append(node[keep])
        right.append(node[gone])
        node[keep] = merge
        total = weight[keep] + weight[gone]
        centers[keep] = (weight[keep] * centers[keep] + weight[gone] * centers[gone]) / total
        weight[keep] = total
        price[gone, :] = price[:, gone] = np.inf
        renewed = _prices(centers, weight, keep)
        for line, prices in ((price[:keep, keep], renewed[:keep]), (price[keep], renewed)):
            alive = np.isfinite(line)
            line[alive] = prices[alive]
    return left, right


def _prices(
    centers: NDArray[np.float64], weight: NDArray[np.float64], row: int
) -> NDArray[np.float64]:
    """Return what it costs to merge one cluster with each of the others."""
    distance = ((centers - centers[row]) ** 2).sum(axis=1)
    prices: NDArray[np.float64] = (weight + weight[row]) * (distance + BASE_PRICE)
    return prices
