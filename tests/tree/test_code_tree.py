"""Laws of the tree type: shape, codes, paths, tables, and what it refuses."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.errors import ArborvoxError
from arborvox.tree import CodeTree, HuffmanTree

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
COUNTS = st.lists(st.integers(0, 50), min_size=2, max_size=60).filter(any)


def tables_from_codes(codes: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Build the paper's three tables the slow way, from nothing but the codes."""
    prefixes = {code[:n] for code in codes for n in range(len(code))}
    number = {p: i for i, p in enumerate(sorted(prefixes, key=lambda p: (len(p), p)))}
    depth = max(map(len, codes))
    index = np.zeros((len(codes), depth), int)
    sign = np.zeros((len(codes), depth), int)
    bias = np.ones((len(codes), depth), int)
    for token, code in enumerate(codes):
        for n, digit in enumerate(code):
            index[token, n] = number[code[:n]]
            sign[token, n] = 1 if digit == "0" else -1
            bias[token, n] = 0 if digit == "0" else 1
    return index, sign, bias


@LAWS
@given(COUNTS)
def test_codes_are_prefix_free_and_complete(counts: list[int]) -> None:
    codes = HuffmanTree.from_counts(counts).codes()
    ordered = sorted(codes)
    assert len(set(codes)) == len(counts)
    assert not any(b.startswith(a) for a, b in pairwise(ordered))
    assert sum(2.0 ** -len(code) for code in codes) == 1.0  # Kraft: no code is left unused


@LAWS
@given(COUNTS)
def test_path_tables_equal_a_naive_second_implementation(counts: list[int]) -> None:
    tree = HuffmanTree.from_counts(counts)
    for table, expected in zip(tree.path_tables(), tables_from_codes(tree.codes()), strict=True):
        np.testing.assert_array_equal(table, expected)


@LAWS
@given(COUNTS)
def test_every_unit_has_one_leaf_and_there_are_v_minus_1_inner_nodes(counts: list[int]) -> None:
    tree = HuffmanTree.from_counts(counts)
    children = np.concatenate((tree.left, tree.right))
    assert tree.num_inner == len(counts) - 1 == tree.num_leaves - 1
    assert sorted(~children[children < 0]) == list(range(len(counts)))
    assert sorted(children[children >= 0]) == list(range(1, tree.num_inner))


@LAWS
@given(COUNTS)
def test_depths_are_code_lengths(counts: list[int]) -> None:
    tree = HuffmanTree.from_counts(counts)
    assert tree.depths().tolist() == [len(code) for code in tree.codes()]
    assert tree.depth == max(tree.depths())


@LAWS
@given(COUNTS)
def test_leaves_below_count_the_paths_through_each_side(counts: list[int]) -> None:
    tree = HuffmanTree.from_counts(counts)
    _, nodes, signs = tree.paths()
    n_left, n_right = tree.leaves_below()
    np.testing.assert_array_equal(n_left, np.bincount(nodes[signs > 0], minlength=tree.num_inner))
    np.testing.assert_array_equal(n_right, np.bincount(nodes[signs < 0], minlength=tree.num_inner))


@LAWS
@given(COUNTS)
def test_path_probabilities_sum_to_one_for_any_gates(counts: list[int]) -> None:
    tree = HuffmanTree.from_counts(counts)
    gates = np.random.default_rng(len(counts)).normal(size=tree.num_inner)
    index, sign, bias = tree.path_tables()
    probabilities = (sign / (1 + np.exp(-gates[index])) + bias).prod(axis=1)
    assert probabilities.sum() == pytest.approx(1.0)


@LAWS
@given(COUNTS, st.floats(0.01, 0.99))
def test_with_leaf_adds_one_decision_to_every_code(counts: list[int], probability: float) -> None:
    tree = HuffmanTree.from_counts(counts)
    grown = tree.with_leaf(probability)
    side = "1" if probability <= 0.5 else "0"
    assert grown.codes()[:-1] == [side + code for code in tree.codes()]
    assert len(grown.codes()[-1]) == 1
    assert grown.probabilities[-1] == probability
    assert grown.probabilities.sum() == pytest.approx(1.0)


def test_with_leaf_refuses_a_mass_outside_0_and_1() -> None:
    tree = HuffmanTree.from_counts([1, 2])
    for probability in (0.0, 1.0, -0.5, float("nan")):
        with pytest.raises(ArborvoxError, match="between 0 and 1"):
            tree.with_leaf(probability)


def test_arrays_are_read_only() -> None:
    tree = HuffmanTree.from_counts([1, 2, 3])
    for array in (tree.left, tree.right, tree.probabilities, *tree.paths()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_equality_is_by_structure_and_masses() -> None:
    tree = HuffmanTree.from_counts([1, 2, 3])
    assert tree == HuffmanTree.from_counts([1, 2, 3], units="abc")
    assert hash(tree) == hash(HuffmanTree.from_counts([1, 2, 3]))
    assert tree != HuffmanTree.from_counts([1, 2, 4])
    assert tree != HuffmanTree.from_counts([2, 1, 3])


def test_a_5000_deep_tree_works() -> None:
    chain = CodeTree(
        left=[~token for token in range(5000)],
        right=[*range(1, 5000), ~5000],
        probabilities=np.full(5001, 1 / 5001),
    )
    assert chain.depth == 5000
    assert chain.codes()[4999] == "1" * 4999 + "0"
    assert chain.leaves_below()[1][0] == 5000
    assert len(chain.paths().nodes) == sum(range(1, 5001)) + 5000


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([~0, 1], [~1, ~2], "cyclic"),  # node 1 is its own child
        ([1, 0], [~0, ~1], "incomplete"),  # token 2 has no leaf
        ([1, ~0], [~0, ~1], "incomplete"),  # token 0 has two
        ([2, ~2, ~3], [1, ~1, ~0], "level order"),
        ([1, ~2, ~3], [1, ~1, ~0], "level order"),  # node 1 has two parents, node 2 none
        ([5, ~0], [~1, ~2], "outside"),
        ([1, ~9], [~1, ~2], "outside"),
        ([1.5, ~0], [~1, ~2], "whole numbers"),
        (["a", "b"], [~1, ~2], "list of numbers"),
        ([2**40, ~0], [~1, ~2], "whole numbers"),
    ],
)
def test_what_is_not_a_tree_is_refused(left: list, right: list, message: str) -> None:
    with pytest.raises(ArborvoxError, match=message):
        CodeTree(left, right, np.full(len(left) + 1, 1 / (len(left) + 1)))


def test_lists_of_unlike_length_are_refused() -> None:
    with pytest.raises(ArborvoxError, match="inner nodes"):
        CodeTree([1, ~0], [~1], np.full(3, 1 / 3))
    with pytest.raises(ArborvoxError, match="inner nodes"):
        CodeTree([1, ~0], [~1, ~2], np.full(4, 1 / 4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probabilities": [0.5, 0.6, 0.1]}, "sum to 1"),
        ({"probabilities": [0.5, 0.6, -0.1]}, "not below 0"),
        ({"probabilities": [0.5, np.nan, 0.5]}, "finite"),
        ({"units": ("a", "b")}, "3 leaves but 2 units"),
        ({"units": ("a", "b", "a")}, "twice"),
        ({"units": ("a", "b", "c\n")}, "newline"),
        ({"kind": "oak"}, "Unknown kind"),
    ],
)
def test_bad_labels_are_refused(changes: dict, message: str) -> None:
    sound = {"left": [1, ~0], "right": [~2, ~1], "probabilities": [0.2, 0.3, 0.5]}
    with pytest.raises(ArborvoxError, match=message):
        CodeTree(**{**sound, **changes})
