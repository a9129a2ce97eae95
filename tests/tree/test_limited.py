"""Laws of length-limited trees: never too deep, and the best of all that are not."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.errors import ArborvoxError
from arborvox.tree import HuffmanTree
from arborvox.tree.limited import MARGIN_BITS, code_lengths, limited_tree
from arborvox.tree.measures import expected_code_length

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
COUNTS = st.lists(st.integers(0, 10**6), min_size=2, max_size=60).filter(any)


def every_code(num_leaves: int, max_depth: int) -> Iterator[tuple[int, ...]]:
    """Yield the falling lengths of all full codes: Kraft's sum is 1 at each."""

    def extend(lengths: tuple[int, ...], room: int) -> Iterator[tuple[int, ...]]:
        if len(lengths) == num_leaves:
            if room == 0:
                yield lengths
            return
        for length in range(lengths[-1] if lengths else max_depth, 0, -1):
            if (cost := 2 ** (max_depth - length)) <= room:
                yield from extend((*lengths, length), room - cost)

    yield from extend((), 2**max_depth)


@LAWS
@given(st.lists(st.integers(1, 40), min_size=2, max_size=7), st.integers(0, 3))
def test_no_tree_within_the_bound_is_better(weights: list[int], more: int) -> None:
    weights.sort()
    max_depth = (len(weights) - 1).bit_length() + more
    best = min(
        sum(weight * length for weight, length in zip(weights, lengths, strict=True))
        for lengths in every_code(len(weights), max_depth)
    )
    found = code_lengths(weights, max_depth)
    assert sum(weight * length for weight, length in zip(weights, found, strict=True)) == best
    assert max(found) <= max_depth


@LAWS
@given(COUNTS, st.integers(0, 4))
def test_no_code_is_longer_than_the_bound_and_the_lighter_side_is_left(
    counts: list[int], more: int
) -> None:
    flattest = (len(counts) - 1).bit_length()
    tree = limited_tree(counts, max_depth=flattest + more)
    assert tree.depth <= flattest + more
    left, right = tree.sums_below(tree.probabilities)
    assert np.all(left <= right + 1e-12)
    assert (
        expected_code_length(tree) >= expected_code_length(HuffmanTree.from_counts(counts)) - 1e-9
    )


@LAWS
@given(COUNTS)
def test_with_room_enough_it_is_as_good_as_huffmans(counts: list[int]) -> None:
    huffman = HuffmanTree.from_counts(counts)
    tree = limited_tree(counts, max_depth=huffman.depth)
    assert expected_code_length(tree) == pytest.approx(expected_code_length(huffman), abs=1e-12)


@LAWS
@given(COUNTS, st.randoms(use_true_random=False))
def test_every_unit_keeps_its_code_length_whatever_the_order(counts: list[int], random) -> None:
    units = [f"unit {place}" for place in range(len(counts))]
    places = list(range(len(counts)))
    random.shuffle(places)
    moved = limited_tree([counts[p] for p in places], [units[p] for p in places])
    assert sorted(moved.depths().tolist()) == sorted(limited_tree(counts, units).depths().tolist())


def test_fibonacci_counts_are_where_it_helps() -> None:
    counts = [1, 1]
    while len(counts) < 40:
        counts.append(counts[-1] + counts[-2])
    assert HuffmanTree.from_counts(counts).depth == 39
    assert limited_tree(counts).depth == 6 + MARGIN_BITS


def test_a_bound_that_no_tree_can_keep_is_refused() -> None:
    with pytest.raises(ArborvoxError, match="9 units has at least 4 levels, not 3"):
        limited_tree([1] * 9, max_depth=3)
