"""Laws of Huffman trees: the least code length, one tree for the same counts, exact weights."""

import hashlib
import heapq
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from bitarray.util import huffman_code
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.errors import ArborvoxError
from arborvox.tree import HuffmanTree, joint_counts
from arborvox.tree.measures import entropy_bits, expected_code_length
from arborvox.tree.storage import tree_to_json

LAWS = settings(deadline=None, derandomize=True, max_examples=80)
COUNTS = st.lists(st.integers(0, 1000), min_size=2, max_size=80).filter(any)


def total_length(tree: HuffmanTree, counts: list[int]) -> int:
    """Length of the whole corpus in bits, in whole numbers."""
    return sum(count * int(depth) for count, depth in zip(counts, tree.depths(), strict=True))


def independent_length(counts: list[int]) -> int:
    """The same by another implementation."""
    codes = huffman_code(dict(enumerate(counts)))
    return sum(count * len(codes[token]) for token, count in enumerate(counts))


@LAWS
@given(COUNTS)
def test_code_length_is_that_of_an_independent_implementation(counts: list[int]) -> None:
    assert total_length(HuffmanTree.from_counts(counts), counts) == independent_length(counts)


@pytest.mark.parametrize("size", [2, 3, 340, 5000, 100_000])
@pytest.mark.parametrize("shape", ["zipf", "ties", "with zeros"])
def test_code_length_is_the_least_at_every_size(size: int, shape: str) -> None:
    rng = np.random.default_rng(size)
    counts = {
        "zipf": rng.zipf(1.3, size).clip(max=10**9),
        "ties": rng.integers(1, 4, size),
        # No more than bitarray can take: it hangs zeros one below the other, and recurses.
        "with zeros": np.where(np.arange(size) < min(400, size // 2), 0, rng.integers(1, 50, size)),
    }[shape].tolist()
    tree = HuffmanTree.from_counts(counts)
    assert total_length(tree, counts) == independent_length(counts)
    entropy, length = entropy_bits(tree.probabilities), expected_code_length(tree)
    assert entropy - 1e-9 <= length < entropy + 1


def test_half_the_units_unseen_costs_no_more_than_a_heap_of_merges() -> None:
    rng = np.random.default_rng(7)
    counts = np.where(rng.random(100_000) < 0.5, 0, rng.integers(1, 50, 100_000)).tolist()
    heap = list(counts)
    heapq.heapify(heap)
    merged_mass = 0
    while len(heap) > 1:
        pair = heapq.heappop(heap) + heapq.heappop(heap)
        merged_mass += pair
        heapq.heappush(heap, pair)
    assert total_length(HuffmanTree.from_counts(counts), counts) == merged_mass


@LAWS
@given(COUNTS)
def test_length_lies_between_entropy_and_entropy_plus_one(counts: list[int]) -> None:
    tree = HuffmanTree.from_counts(counts)
    entropy = entropy_bits(tree.probabilities)
    assert entropy - 1e-9 <= expected_code_length(tree) < entropy + 1


@LAWS
@given(COUNTS)
def test_the_left_child_is_never_heavier(counts: list[int]) -> None:
    tree = HuffmanTree.from_counts(counts)
    left, right = tree.sums_below(tree.probabilities)
    assert np.all(left <= right + 1e-12)


@LAWS
@given(COUNTS, st.randoms(use_true_random=False))
def test_the_order_of_counts_does_not_change_a_byte(counts: list[int], random: object) -> None:
    named = {f"unit{token}": count for token, count in enumerate(counts)}
    shuffled = list(named.items())
    random.shuffle(shuffled)
    first, second = HuffmanTree.from_counts(named), HuffmanTree.from_counts(dict(shuffled))
    assert tree_to_json(first) == tree_to_json(second)


def test_another_process_gives_the_same_bytes() -> None:
    program = (
        "import hashlib; from arborvox.tree import HuffmanTree\n"
        "from arborvox.tree.storage import tree_to_json\n"
        "counts = {chr(97 + n): (n * 7) % 5 for n in range(26)}\n"
        "text = tree_to_json(HuffmanTree.from_counts(counts))\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    counts = {chr(97 + n): (n * 7) % 5 for n in range(26)}
    text = tree_to_json(HuffmanTree.from_counts(counts))
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == hashlib.sha256(text.encode()).hexdigest()


def test_ties_go_to_the_lower_token_id() -> None:
    assert HuffmanTree.from_counts([1, 1, 1, 1]).codes() == ["00", "01", "10", "11"]


def test_the_papers_algorithm_by_hand() -> None:
    # 1 + 2 = 3; 3 + 3 (the leaf goes first) = 6; 4 + 6 = 10
    tree = HuffmanTree.from_counts({"a": 4, "b": 3, "c": 2, "d": 1})
    assert dict(zip("abcd", tree.codes(), strict=True)) == {
        "a": "0",
        "b": "10",
        "c": "111",
        "d": "110",
    }


def test_every_unseen_unit_gets_a_leaf_and_a_little_mass() -> None:
    tree = HuffmanTree.from_counts([0, 5, 3, 0, 0])
    assert all(tree.codes())
    assert np.all(tree.probabilities > 0)
    assert tree.probabilities[[0, 3, 4]].sum() < tree.probabilities[2] / 3


@LAWS
@given(st.lists(st.integers(1, 9), min_size=2, max_size=20))
def test_counts_as_floats_and_fractions_are_exact(counts: list[int]) -> None:
    whole = HuffmanTree.from_counts(counts)
    total = sum(counts)
    assert HuffmanTree.from_counts([Fraction(c, total) for c in counts]) == whole
    assert HuffmanTree.from_counts([c / 16 for c in counts]) == whole
    assert HuffmanTree.from_counts(np.array(counts)) == whole
    assert HuffmanTree.from_counts(np.array(counts, np.float32)) == whole


def test_language_weighting_makes_languages_weigh_the_same() -> None:
    counts = {"big": [90, 10, 0], "small": [0, 1, 1]}
    joint = np.array(joint_counts(counts, "language"))
    np.testing.assert_allclose(joint / joint.sum(), [0.45, 0.3, 0.25])
    assert joint_counts(counts, "pooled") == [90, 11, 1]


@LAWS
@given(st.lists(st.lists(st.integers(0, 99), min_size=4, max_size=4), min_size=1, max_size=6))
def test_the_order_of_languages_does_not_change_weights(rows: list[list[int]]) -> None:
    rows.append([1, 2, 3, 4])
    counts = {f"l{n}": row for n, row in enumerate(rows)}
    backwards = dict(reversed(counts.items()))
    for weighting in ("language", "pooled"):
        assert joint_counts(counts, weighting) == joint_counts(backwards, weighting)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([], "at least 2 units"),
        ([5], "at least 2 units"),
        ([0, 0, 0], "corpus is empty"),
        ([1, -1], "below 0"),
        ([1, float("nan")], "not a finite number"),
        ([1, float("inf")], "not a finite number"),
        ([1, "2"], "not a finite number"),
        ([1, None], "not a finite number"),
    ],
)
def test_bad_counts_are_refused(counts: list, message: str) -> None:
    with pytest.raises(ArborvoxError, match=message):
        HuffmanTree.from_counts(counts)


def test_counts_for_other_units_are_refused() -> None:
    with pytest.raises(ArborvoxError, match="not the same units"):
        HuffmanTree.from_counts({"a": 1, "b": 2}, units=("a", "c"))


def test_an_empty_corpus_has_no_joint_counts() -> None:
    with pytest.raises(ArborvoxError, match="empty"):
        joint_counts({"ca": [0, 0]}, "language")
    with pytest.raises(ArborvoxError, match="Unknown weighting"):
        joint_counts({"ca": [1, 0]}, "loud")
