"""Every choice that a recipe or a command offers, written once.

Sections, command-line options, messages and the tests of the implementing dicts follow from these.
Nothing but typing is imported, so that the command line and the lowest layers can use them.
"""

from typing import Literal, get_args

# What is written, and the tree over it.
TreeKind = Literal["huffman", "limited", "balanced", "random", "shuffled", "embedding", "phonetic"]
Weighting = Literal["language", "pooled"]
Coloring = Literal["language", "script", "sharing"]
UnitOrder = Literal["mass", "code", "id"]


def values_of(choice: object) -> tuple[str, ...]:
    """Return what a choice offers, in its order: `values_of(Unit)` is char, phone, bpe."""
    return get_args(choice)
