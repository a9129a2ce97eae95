"""All kinds of trees by name: how each is built, and what it needs besides counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arborvox.config.choices import TreeKind
from arborvox.errors import ArborvoxError
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.controls import (
    balanced_tree,
    random_tree,
    shuffled_phonetic_tree,
    shuffled_tree,
)
from arborvox.tree.embedding import embedding_tree
from arborvox.tree.huffman import Count, HuffmanTree
from arborvox.tree.limited import limited_tree
from arborvox.tree.phonetic import announce, phonetic_tree
from arborvox.tree.questions import question_tree


@dataclass(frozen=True)
class TreeSource:
    """What trees are built from; each kind takes what it needs."""

    counts: Sequence[Count]  # by token id
    units: Sequence[str]
    special: Sequence[str] = ()  # those of the units that are no sounds or letters
    seed: int = 0
    vectors: NDArray[np.floating] | None = None  # (V, D) of a trained model


@dataclass(frozen=True)
class TreeBuilder:
    """A way to build a tree, and what it needs besides counts."""

    build: Callable[[TreeSource], CodeTree]
    drawn_by_lot: bool = False  # by the seed: as a control it should be drawn anew for each run
    needs_vectors: bool = False  # of a trained model


def _by_vectors(source: TreeSource) -> CodeTree:
    if source.vectors is None:
        raise ArborvoxError("A tree by unit vectors needs those of a trained model.")
    return embedding_tree(source.counts, source.vectors, source.units)


TREES: dict[TreeKind, TreeBuilder] = {
    "huffman": TreeBuilder(lambda source: HuffmanTree.from_counts(source.counts, source.units)),
    "limited": TreeBuilder(lambda source: limited_tree(source.counts, source.units)),
    "balanced": TreeBuilder(lambda source: balanced_tree(source.counts, source.units)),
    "random": TreeBuilder(
        lambda source: random_tree(source.counts, source.units, seed=source.seed),
        drawn_by_lot=True,
    ),
    "shuffled": TreeBuilder(
        lambda source: shuffled_tree(source.counts, source.units, seed=source.seed),
        drawn_by_lot=True,
    ),
    "shuffled-phonetic": TreeBuilder(
        lambda source: shuffled_phonetic_tree(
            source.counts, source.units, source.special, seed=source.seed
        ),
        drawn_by_lot=True,
    ),
    "embedding": TreeBuilder(_by_vectors, needs_vectors=True),
    "phonetic": TreeBuilder(
        lambda source: announce(phonetic_tree(source.counts, source.units, source.special))
    ),
    "questions": TreeBuilder(
        lambda source: announce(question_tree(source.counts, source.units, source.special))
    ),
}
