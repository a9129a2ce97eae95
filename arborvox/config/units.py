"""The tokens and tree sections: what the model writes, and the code tree over it."""

from pydantic import Field

from arborvox.config.choices import TreeKind, Unit, Weighting
from arborvox.config.section import Section, Seed


class TokensConfig(Section):
    """Which units the model writes."""

    unit: Unit = "char"
    vocab_size: int = Field(500, gt=2, le=1_000_000)
    graphemes: bool = False
    byte_fallback: bool = False
    language_tags: bool = False
    # Units that the corpus lists for its languages get a token even if training has none of them.
    inventories: bool = False


class TreeConfig(Section):
    """How the code tree over the units is built."""

    kind: TreeKind = "huffman"
    weighting: Weighting = "language"
    seed: Seed = 0
    embedding_from: str | None = None
