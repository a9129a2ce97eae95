"""Token ids and what they stand for: what every reader of a model needs, with or without torch."""

import re
from collections.abc import Iterable, Sequence

from arborvox.errors import ArborvoxError

# The special ids. <eos> also starts the decoder. Language tags follow, then the units.
# Padding and the CTC blank (`Vocabulary.blank_id`) are no tokens: they lie outside 0..V-1.
EOS_ID, UNK_ID, PADDING_ID = 0, 1, -1
EOS, UNK = "<eos>", "<unk>"

# What stands in a text where a unit was not in the vocabulary: one character, so one error.
UNKNOWN_CHARACTER = "\ufffd"

# sentencepiece writes spaces as this character, so where a text has it itself BPE says <unk>.
PIECE_SPACE = "▁"

_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


class Vocabulary:
    """Units by token id, special ones first: <eos>, <unk>, language tags if there are any."""

    unit: str  # char | phone | bpe
    units: tuple[str, ...]
    language_tags: bool

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that it was made from, sorted."""
        raise NotImplementedError

    def __len__(self) -> int:
        """V: special tokens, tags and units."""
        return len(self.units)

    @property
    def num_special(self) -> int:
        """How many tokens stand before the first unit."""
        return 2 + (len(self.languages) if self.language_tags else 0)

    @property
    def special(self) -> tuple[str, ...]:
        """The tokens that stand for nothing written: <eos>, <unk> and language tags."""
        return self.units[: self.num_special]

    @property
    def blank_id(self) -> int:
        """The CTC blank, one past the last token."""
        return len(self.units)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn token ids into a text: special tokens vanish, <unk> becomes U+FFFD."""
        units = []
        for token in ids:
            if not 0 <= token < len(self.units):
                raise ArborvoxError(f"There is no token {token}: they are 0..{len(self) - 1}.")
            if token >= self.num_special:
                units.append(self.units[token])
            elif token == UNK_ID:
                units.append(UNKNOWN_CHARACTER)
        return self.join(units)

    def language_of(self, ids: Iterable[int]) -> str | None:
        """Return the language that the first tag among the ids names, if there is one."""
        tags = range(2, self.num_special)
        return next((self.languages[token - 2] for token in ids if token in tags), None)

    def join(self, units: Sequence[str]) -> str:
        """Put units together to a text."""
        if self.unit == "bpe":
            return join_pieces(units)
        return (" " if self.unit == "phone" else "").join(units)


def join_pieces(pieces: Sequence[str]) -> str:
    """Put the pieces of a sentencepiece model together; its byte pieces are UTF-8."""
    parts = b""
    for piece in pieces:
        byte = _BYTE_PIECE.fullmatch(piece)
        parts += bytes([int(byte[1], 16)]) if byte else piece.encode()
    text = parts.decode("utf-8", "replace").replace(PIECE_SPACE, " ")
    return text.removeprefix(" ")
