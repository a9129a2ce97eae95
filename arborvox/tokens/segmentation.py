"""How a text falls into units, and how units become a text again."""

import io
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol

import regex

from arborvox.errors import ArborvoxError
from arborvox.vocabulary import PIECE_SPACE, UNKNOWN_CHARACTER

_UNK_PIECE_ID = 0  # sentencepiece's own
_UNKNOWN_BYTES = [f"<0x{byte:02X}>" for byte in UNKNOWN_CHARACTER.encode()]
_GRAPHEME = regex.compile(r"\X")


class Segmentation(Protocol):
    """A way to cut texts into units; `join` undoes `split`."""

    def split(self, text: str) -> list[str]:
        """Cut a text into units."""

    def join(self, units: Sequence[str]) -> str:
        """Put units together again."""


class Characters:
    """Each code point is a unit, the space too."""

    def split(self, text: str) -> list[str]:
        """Cut a text into code points."""
        return list(text)

    def join(self, units: Sequence[str]) -> str:
        """Put units together again."""
        return "".join(units)


class Graphemes(Characters):
    """What a reader sees as one character is a unit: a letter with its marks."""

    def split(self, text: str) -> list[str]:
        """Cut a text into extended grapheme clusters."""
        return list(_GRAPHEME.findall(text))


class Phones:
    """What stands between spaces is a unit."""

    def split(self, text: str) -> list[str]:
        """Cut a text at its spaces."""
        return text.split()

    def join(self, units: Sequence[str]) -> str:
        """Put phones together again, a space between them."""
        return " ".join(units)


class Pieces:
    """Pieces of a sentencepiece BPE model."""

    def __init__(self, model: bytes) -> None:
        """Keep the model; it is only unpacked when a text is cut."""
        self._model = model

    @cached_property
    def _processor(self) -> Any:
        from sentencepiece import SentencePieceProcessor

        try:
            return SentencePieceProcessor(model_proto=self._model)
        except (RuntimeError, OSError):
            raise ArborvoxError("The sentencepiece model inside the tokens is damaged.") from None

    @property
    def pieces(self) -> list[str]:
        """All pieces that the model can write."""
        size = self._processor.get_piece_size()
        return [self._processor.id_to_piece(n) for n in range(size) if n != _UNK_PIECE_ID]

    @property
    def scores(self) -> dict[str, float]:
        """The pieces of letters, bytes left out; those with a higher score are merged first."""
        model = self._processor
        numbers = (n for n in range(model.get_piece_size()) if n != _UNK_PIECE_ID)
        return {model.id_to_piece(n): model.get_score(n) for n in numbers if not model.is_byte(n)}

    def split(self, text: str) -> list[str]:
        """Cut a text into pieces; stretches that the model does not know come out as they are."""
        text = text.replace(PIECE_SPACE, UNKNOWN_CHARACTER)
        pieces: list[str] = self._processor.encode(text, out_type=str)
        return _mend_unknown(pieces) if UNKNOWN_CHARACTER in text else pieces

    def join(self, units: Sequence[str]) -> str:
        """Put pieces together again."""
        return str(self._processor.decode(list(units)))


def _mend_unknown(pieces: list[str]) -> list[str]:
    """Put U+FFFD together again where byte fallback took it apart: it is unknown, not covered."""
    mended: list[str] = []
    for piece in pieces:
        mended.append(piece)
        if mended[-len(_UNKNOWN_BYTES) :] == _UNKNOWN_BYTES:
            mended[-len(_UNKNOWN_BYTES) :] = [UNKNOWN_CHARACTER]
    return mended


def train_pieces(texts: Iterable[str], num_pieces: int, *, byte_fallback: bool) -> bytes:
    """Train a BPE model that changes nothing in a text: no normalization, no lost spaces."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    # Sorted, because the trainer breaks ties by what it saw first.
    never_pieces = str.maketrans(PIECE_SPACE + UNKNOWN_CHARACTER, "  ")
    ordered = sorted(text.translate(never_pieces) for text in texts)
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(ordered),
            model_writer=model,
            model_type="bpe",
            vocab_size=num_pieces + 1,  # its own <unk> aside
            character_coverage=1.0,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            byte_fallback=byte_fallback,
            max_sentence_length=1 << 24,  # bytes; longer ones are silently left out
            unk_id=_UNK_PIECE_ID,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ArborvoxError(_refusal(str(error), num_pieces)) from None
    return model.getvalue()


def _refusal(message: str, num_pieces: int) -> str:
    """Say how many pieces there may be, out of what sentencepiece says; it counts its own <unk>.

    Vocabulary size is smaller than required_chars. 7 vs 11. Increase vocab_size or …
    Vocabulary size too high (199). Please set it to a value <= 37.
    """
    asked = f"but --vocab-size leaves room for {num_pieces} besides the special tokens"
    if least := re.search(r"required_chars\. \d+ vs (\d+)", message):
        needed = int(least[1]) - 1
        return f"BPE needs {needed} pieces to spell this corpus, {asked}; make it larger."
    if most := re.search(r"too high .* <= (\d+)", message):
        found = int(most[1]) - 1
        return f"BPE finds {found} pieces in this corpus, {asked}; make it smaller."
    return f"BPE training failed: {message}"
