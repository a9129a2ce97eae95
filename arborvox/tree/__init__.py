"""Trees over the output units: one type, several ways to build it; nothing here needs torch."""

from arborvox.tree.code_tree import CodeTree, Paths
from arborvox.tree.controls import balanced_tree, random_tree, shuffled_tree
from arborvox.tree.embedding import embedding_tree, read_embedding
from arborvox.tree.frequencies import WEIGHTINGS, joint_counts
from arborvox.tree.huffman import HuffmanTree
from arborvox.tree.kinds import TREES, TreeBuilder, TreeSource
from arborvox.tree.phonetic import PhoneticTree, phonetic_tree
from arborvox.tree.storage import check_units, load_tree, save_tree

__all__ = [
    "TREES",
    "WEIGHTINGS",
    "CodeTree",
    "HuffmanTree",
    "Paths",
    "PhoneticTree",
    "TreeBuilder",
    "TreeSource",
    "balanced_tree",
    "check_units",
    "embedding_tree",
    "joint_counts",
    "load_tree",
    "phonetic_tree",
    "random_tree",
    "read_embedding",
    "save_tree",
    "shuffled_tree",
]
