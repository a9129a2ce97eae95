"""Trees by name: every name of the configuration has its builder, and builders keep their word."""

import numpy as np
import pytest

from arborvox.config.choices import TreeKind, values_of
from arborvox.errors import ArborvoxError
from arborvox.tree import TREES, TreeSource

UNITS = ["<eos>", "<unk>", *"abdeiknopstu"]
COUNTS = [7, 0, 30, 4, 9, 21, 13, 8, 11, 10, 5, 12, 14, 6]


def source(seed: int = 0) -> TreeSource:
    vectors = np.random.default_rng(1).normal(size=(len(UNITS), 6))
    return TreeSource(COUNTS, UNITS, UNITS[:2], seed, vectors)


def test_every_name_of_the_configuration_has_its_builder() -> None:
    assert tuple(TREES) == values_of(TreeKind)


@pytest.mark.parametrize("kind", TREES)
def test_builders_make_trees_of_their_kind_over_all_units(kind: TreeKind) -> None:
    tree = TREES[kind].build(source())
    assert (tree.kind, tree.units) == (kind, tuple(UNITS))


@pytest.mark.parametrize("kind", TREES)
def test_only_what_is_drawn_by_lot_changes_with_the_seed(kind: TreeKind) -> None:
    trees = {TREES[kind].build(source(seed)) for seed in range(4)}
    assert (len(trees) > 1) is TREES[kind].drawn_by_lot


@pytest.mark.parametrize("kind", TREES)
def test_only_who_says_so_needs_vectors(kind: TreeKind) -> None:
    without = TreeSource(COUNTS, UNITS, UNITS[:2])
    if TREES[kind].needs_vectors:
        with pytest.raises(ArborvoxError, match="vectors"):
            TREES[kind].build(without)
    else:
        assert TREES[kind].build(without).num_leaves == len(UNITS)
