"""The tokens and tree sections: what the model writes, and the code tree over it."""

from typing import Literal

from pydantic import Field

from arborvox.config.choices import TreeKind, Weighting
from arborvox.config.section import Section


class TokensConfig(Section):
    """Which units the model writes."""

    unit: Literal["char", "phone", "bpe"] = "char"
    vocab_size: int = Field(500, gt=2)
    graphemes: bool = False
    byte_fallback: bool = False
    language_tags: bool = False


class TreeConfig(Section):
    """How the code tree over the units is built."""

    kind: TreeKind = "huffman"
    weighting: Weighting = "language"
    seed: int = Field(0, ge=0)
    embedding_from: str | None = None
