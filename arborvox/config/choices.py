"""Every choice that a recipe or a command offers, written once.

Sections, command-line options, messages and the tests of the implementing dicts follow from these.
Nothing but typing is imported, so that the command line and the lowest layers can use them.
"""

from typing import Literal, get_args

Precision = Literal["auto", "bf16", "fp32"]
Search = Literal[
    "ctc-greedy", "ctc-beam", "attention-greedy", "attention-beam", "joint", "rescoring", "mbr"
]
SearchMode = Literal["auto", Search]
InventoryUse = Literal["none", "corpus", "both"]
OutputFormat = Literal["txt", "json", "srt", "vtt"]


def values_of(choice: object) -> tuple[str, ...]:
    """Return what a choice offers, in its order: `values_of(Unit)` is char, phone, bpe."""
    return get_args(choice)
