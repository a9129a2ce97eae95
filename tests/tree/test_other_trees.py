"""Laws of the trees that are not Huffman's, and of what is measured between trees."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from arborvox.errors import ArborvoxError
from arborvox.tree import (
    CodeTree,
    HuffmanTree,
    balanced_tree,
    embedding_tree,
    phonetic_tree,
    random_tree,
    read_embedding,
    shuffled_tree,
)
from arborvox.tree.controls import shuffled_phonetic_tree
from arborvox.tree.embedding import EMBEDDING_TENSOR
from arborvox.tree.measures import compare_trees, expected_code_length, explain_meeting

LAWS = settings(deadline=None, derandomize=True, max_examples=40)
COUNTS = st.lists(st.integers(0, 50), min_size=2, max_size=70).filter(any)
PHONES = ["<eos>", "<unk>", *"aebdɡktpszʃimnŋouw", "tʰ", "aː", "d͡ʒ"]


def vectors_for(size: int, width: int = 8) -> np.ndarray:
    return np.random.default_rng(size).normal(size=(size, width))


@LAWS
@given(COUNTS)
def test_all_kinds_have_one_leaf_per_token_and_the_lighter_side_left(counts: list[int]) -> None:
    trees = (
        balanced_tree(counts),
        random_tree(counts, seed=1),
        shuffled_tree(counts, seed=1),
        embedding_tree(counts, vectors_for(len(counts))),
    )
    for tree in trees:
        assert tree.num_leaves == len(counts)
        left, right = tree.sums_below(tree.probabilities)
        assert np.all(left <= right + 1e-12)
        assert (
            expected_code_length(tree)
            >= expected_code_length(HuffmanTree.from_counts(counts)) - 1e-9
        )


@LAWS
@given(COUNTS)
def test_balanced_and_random_trees_are_as_flat_as_can_be(counts: list[int]) -> None:
    for tree in (balanced_tree(counts), random_tree(counts, seed=5)):
        assert tree.depth == math.ceil(math.log2(len(counts)))
        assert tree.depths().min() >= tree.depth - 1


def test_random_trees_differ_by_seed_only() -> None:
    counts = list(range(1, 60))
    assert random_tree(counts, seed=3) == random_tree(counts, seed=3)
    assert random_tree(counts, seed=3) != random_tree(counts, seed=4)


def test_random_trees_never_change() -> None:
    # Written down once: the control of an experiment must stay what it was.
    assert random_tree([1, 1, 1, 1, 1], seed=0).codes() == ["110", "111", "10", "00", "01"]


@LAWS
@given(COUNTS)
def test_shuffled_trees_keep_the_length_of_every_code_of_huffmans(counts: list[int]) -> None:
    huffman, shuffled = HuffmanTree.from_counts(counts), shuffled_tree(counts, seed=2)
    lengths = zip(huffman.depths().tolist(), shuffled.depths().tolist(), strict=True)
    assert all(ours == theirs for ours, theirs in lengths)
    assert shuffled == shuffled_tree(counts, seed=2)


def test_shuffled_trees_have_other_neighbors() -> None:
    counts = list(range(1, 60))
    trees = [HuffmanTree.from_counts(counts), *(shuffled_tree(counts, seed=s) for s in (0, 1))]
    assert len({tuple(tree.codes()) for tree in trees}) == 3


def test_shuffled_phonetic_trees_keep_shape_and_lengths_but_not_the_neighbors() -> None:
    counts = list(range(1, len(PHONES) + 1))
    phonetic = phonetic_tree(counts, PHONES, ["<eos>", "<unk>"]).tree
    drawn = [
        shuffled_phonetic_tree(counts, PHONES, ["<eos>", "<unk>"], seed=seed) for seed in (0, 1, 0)
    ]
    assert drawn[0] == drawn[2] != drawn[1]
    for tree in drawn:
        assert (tree.kind, tree.units) == ("shuffled-phonetic", phonetic.units)
        assert tree.depths().tolist() == phonetic.depths().tolist()
        assert tree.codes() != phonetic.codes()


@pytest.mark.parametrize("size", [50, 1000])
def test_embedding_trees_stay_near_log_v_deep(size: int) -> None:
    counts = (np.random.default_rng(0).zipf(1.2, size).clip(max=10**8)).tolist()
    tree = embedding_tree(counts, vectors_for(size, 32))
    assert tree.depth <= math.log2(size) + 6


def test_embedding_trees_keep_clusters_together() -> None:
    vectors = vectors_for(32) * 0.1
    vectors[16:] += 5
    codes = embedding_tree([1] * 32, vectors).codes()
    assert {code[0] for code in codes[:16]} != {code[0] for code in codes[16:]}
    assert len({code[0] for code in codes[:16]}) == 1


def test_embedding_trees_work_when_all_vectors_are_the_same() -> None:
    assert embedding_tree([1] * 9, np.ones((9, 4))).depth == 4


def test_embedding_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(ArborvoxError, match="4 units"):
        embedding_tree([1, 2, 3, 4], vectors_for(5))
    with pytest.raises(ArborvoxError, match="not finite"):
        embedding_tree([1, 2], np.array([[np.nan], [1.0]]))


def test_embedding_is_read_from_a_checkpoint(tmp_path: Path) -> None:
    vectors = vectors_for(6).astype(np.float32)
    save_file({EMBEDDING_TENSOR: vectors}, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(read_embedding(tmp_path), vectors)
    save_file({"other": vectors}, tmp_path / "other.safetensors")
    with pytest.raises(ArborvoxError, match="holds no tensor"):
        read_embedding(tmp_path / "other.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(ArborvoxError, match="not a readable"):
        read_embedding(tmp_path / "broken.safetensors")
    with pytest.raises(ArborvoxError, match="no checkpoint"):
        read_embedding(tmp_path / "missing")


def test_phones_made_alike_are_nearer_than_phones_made_otherwise() -> None:
    tree = phonetic_tree([5] * len(PHONES), PHONES, ("<eos>", "<unk>")).tree

    def shared(a: str, b: str) -> int:
        return len(explain_meeting(tree, a, b).prefix)

    assert shared("p", "b") > shared("p", "a")
    assert shared("t", "tʰ") > shared("t", "m")
    assert shared("a", "aː") > shared("a", "s")
    assert shared("m", "n") > shared("m", "e")


def test_special_tokens_stand_above_all_phones() -> None:
    tree = phonetic_tree([9, 1, *[5] * 21], PHONES, ("<eos>", "<unk>")).tree
    codes = dict(zip(PHONES, tree.codes(), strict=True))
    phone_root = codes["a"][:1]
    assert all(codes[phone].startswith(phone_root) for phone in PHONES[2:])
    assert not codes["<eos>"].startswith(phone_root)


def test_units_unknown_to_panphon_are_placed_by_their_relative_and_listed() -> None:
    units = ["p", "d", "a", "ȡ", "Q", "ш", "☃"]
    made = phonetic_tree([5, 5, 5, 1, 1, 1, 1], units)
    assert made.relatives == {"ȡ": "d", "Q": "q"}
    assert made.unplaced == ("ш", "☃")
    assert explain_meeting(made.tree, "d", "ȡ").are_siblings


def test_a_phonetic_tree_without_phones_is_refused() -> None:
    with pytest.raises(ArborvoxError, match="--unit phone"):
        phonetic_tree([1, 2, 3], ["<eos>", "ш", "ж"], ("<eos>",))


def test_a_tree_is_equal_to_itself_whatever_its_ids() -> None:
    counts = {"a": 8, "b": 4, "c": 2, "d": 1}
    first = HuffmanTree.from_counts(counts)
    second = HuffmanTree.from_counts(counts, units=("d", "b", "a", "c"))
    result = compare_trees(first, second)
    assert result.same_codes == 4
    assert result.shared_groups == result.num_groups == 2
    assert result.shared_siblings == 1
    assert result.moved == []


def test_comparison_counts_what_differs() -> None:
    units = ("a", "b", "c", "d")
    chain = CodeTree(np.array([~0, ~1, ~2]), np.array([1, 2, ~3]), np.full(4, 0.25), units)
    flat = CodeTree(np.array([1, ~0, ~2]), np.array([2, ~1, ~3]), np.full(4, 0.25), units)
    result = compare_trees(chain, flat)
    assert result.lengths == (2.25, 2.0)
    assert (result.shared_groups, result.num_groups) == (1, 2)  # {c, d}
    assert result.moved == [("a", 1), ("c", -1), ("d", -1)]


def test_trees_over_other_units_cannot_be_compared() -> None:
    with pytest.raises(ArborvoxError, match="different units"):
        compare_trees(
            HuffmanTree.from_counts({"a": 1, "b": 1}), HuffmanTree.from_counts({"a": 1, "c": 1})
        )
    with pytest.raises(ArborvoxError, match="does not name its units"):
        compare_trees(HuffmanTree.from_counts([1, 2]), HuffmanTree.from_counts([1, 2]))


def test_why_finds_where_two_units_part() -> None:
    tree = HuffmanTree.from_counts({"a": 8, "b": 4, "c": 2, "d": 1})
    meeting = explain_meeting(tree, "c", "d")
    assert meeting.are_siblings
    assert meeting.merge == 1
    assert meeting.node_mass == pytest.approx(3 / 15)
    top = explain_meeting(tree, "a", "d")
    assert (top.prefix, top.merge, top.node_leaves) == ("", 3, 4)
    assert top.sides == (("a",), ("b", "c", "d"))
    with pytest.raises(ArborvoxError, match="no unit 'x'"):
        explain_meeting(tree, "a", "x")
    with pytest.raises(ArborvoxError, match="twice"):
        explain_meeting(tree, "a", "a")


@pytest.mark.parametrize("shape", [(3,), (3, 0), (2, 4), (3, 1, 2)])
def test_vectors_that_do_not_fit_the_units_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ArborvoxError, match="unit vectors have shape"):
        embedding_tree([3, 2, 1], np.zeros(shape))
