"""Trees out of a trained model: units with like vectors become neighbors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.tree.assembly import Tokens, assemble, probabilities_of, split_repeatedly
from arborvox.tree.clustering import deal_evenly
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.huffman import Count, exact_weights

EMBEDDING_TENSOR = "decoder.embedding.weight"  # (V, D) in a checkpoint's model.safetensors


def embedding_tree(
    counts: Sequence[Count], vectors: NDArray[np.floating], units: Sequence[str] | None = None
) -> CodeTree:
    """Split the units along the main axis of their vectors, at half the mass, again and again."""
    weights = exact_weights(counts)
    if vectors.ndim != 2 or len(vectors) != len(weights) or not vectors.size:
        raise ArborvoxError(
            f"The unit vectors have shape {vectors.shape}, but the vocabulary has {len(weights)} "
            f"units; take the checkpoint that was trained with these tokens."
        )
    if not np.all(np.isfinite(vectors)):
        raise ArborvoxError("The unit vectors hold values that are not finite.")
    points = vectors.astype(np.float64)
    masses = deal_evenly(probabilities_of(weights))

    def split(tokens: Tokens) -> tuple[Tokens, Tokens]:
        along = _main_axis_positions(points[tokens], masses[tokens])
        ordered = tokens[np.lexsort((tokens, along))]
        before = np.cumsum(masses[ordered])  # mass of the first n + 1 units
        cut = int(np.argmin(np.abs(before[:-1] - before[-1] / 2))) + 1
        return ordered[:cut], ordered[cut:]

    left, right = split_repeatedly(np.arange(len(weights)), split)
    return assemble("embedding", left, right, 0, weights, units)


def read_embedding(checkpoint: Path) -> NDArray[np.floating]:
    """Read the decoder's unit vectors from a checkpoint folder or its model.safetensors."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = checkpoint / "model.safetensors" if checkpoint.is_dir() else checkpoint
    if not path.is_file():
        raise ArborvoxError(f"There is no checkpoint file {path}.")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, KeyError, TypeError) as error:
        raise ArborvoxError(f"{path} is not a readable safetensors file ({error}).") from None
    if EMBEDDING_TENSOR not in tensors:
        raise ArborvoxError(f"{path} holds no tensor {EMBEDDING_TENSOR}; is it an Arborvox model?")
    vectors: NDArray[np.floating] = tensors[EMBEDDING_TENSOR]
    return vectors


def _main_axis_positions(
    points: NDArray[np.float64], masses: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Project points (n, D) on the axis of their greatest mass-weighted spread."""
    centered = points - np.average(points, axis=0, weights=masses)
    scaled = centered * np.sqrt(masses)[:, None]
    # Both products have the same spectrum; the smaller one is decomposed.
    if len(points) < points.shape[1]:
        axis = scaled.T @ np.linalg.eigh(scaled @ scaled.T)[1][:, -1]
    else:
        axis = np.linalg.eigh(scaled.T @ scaled)[1][:, -1]
    if axis[np.argmax(np.abs(axis))] < 0:  # an axis has two directions; take one for good
        axis = -axis
    positions: NDArray[np.float64] = centered @ axis
    return positions
