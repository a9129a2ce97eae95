"""The vocabulary of a model: texts to token ids and back, in one JSON file."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from arborvox.config.choices import Unit, values_of
from arborvox.errors import ArborvoxError
from arborvox.files import read_json, write_text_atomic
from arborvox.tokens.segmentation import (
    Characters,
    Graphemes,
    Phones,
    Pieces,
    Segmentation,
)
from arborvox.tree.code_tree import LINE_BREAKS
from arborvox.vocabulary import EOS, UNK, Vocabulary
from arborvox.vocabulary import EOS_ID as EOS_ID
from arborvox.vocabulary import PADDING_ID as PADDING_ID
from arborvox.vocabulary import UNK_ID as UNK_ID

FORMAT = "arborvox-tokens"
VERSION = 1
UNIT_KINDS = values_of(Unit)
MOST_COUNTS = 1 << 25  # languages times units; 300 languages with 100,000 units each

_SURROGATE = re.compile("[\ud800-\udfff]")

Item = TypeVar("Item")


def language_tag(language: str) -> str:
    """Return the token that says which language follows."""
    return f"<{language}>"


@dataclass(frozen=True)
class Tokenizer(Vocabulary):
    """A vocabulary with its counts: what is written, how often, and in which languages."""

    unit: str  # char | phone | bpe
    units: tuple[str, ...]  # by token id, special ones first
    counts: Mapping[str, tuple[int, ...]]  # language -> by token id; <eos> once an utterance
    language_tags: bool = False
    graphemes: bool = False
    model: bytes | None = None  # sentencepiece's, for bpe

    def __post_init__(self) -> None:
        """Refuse a vocabulary that could not be read back or has its ids in another order."""
        if self.unit not in UNIT_KINDS:
            raise ArborvoxError(f"Unknown unit '{self.unit}'; there are: {', '.join(UNIT_KINDS)}.")
        if (self.unit == "bpe") != (self.model is not None):
            raise ArborvoxError(
                "A BPE vocabulary needs its sentencepiece model, and no other does."
            )
        if self.units[: self.num_special] != special_units(self.languages, self.language_tags):
            raise ArborvoxError(
                f"The vocabulary must start with {EOS}, {UNK} and its language tags, if any."
            )
        for token, unit in enumerate(self.units):
            if not unit:
                raise ArborvoxError(f"Token {token} is empty.")
            if flaw := flaw_of(unit):
                raise ArborvoxError(f"Token {token}, {unit!r}, contains {flaw}.")
        if len(self._ids) != len(self.units):
            twice = next(u for token, u in enumerate(self.units) if self._ids[u] != token)
            raise ArborvoxError(f"The unit {twice!r} stands twice in the vocabulary.")
        for language, row in self.counts.items():
            if len(row) != len(self.units) or min(row) < 0:
                raise ArborvoxError(f"The counts of language {language} do not fit the units.")

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that were counted, sorted."""
        return tuple(sorted(self.counts))

    def encode(self, text: str, language: str | None = None) -> list[int]:
        """Turn a text into token ids, after its language's tag if the vocabulary has tags.

        No <eos> is added. Without a language there is no tag.
        """
        id_of = self._ids_of_units.get
        ids = [id_of(unit, UNK_ID) for unit in self._segmentation.split(text)]
        if self.language_tags and language is not None:
            return [self.tag_id(language), *ids]
        return ids

    def join(self, units: Sequence[str]) -> str:
        """Put units together to a text."""
        return self._segmentation.join(units)

    def tag_id(self, language: str) -> int:
        """Return the id of a language's tag."""
        token = self._ids.get(language_tag(language)) if self.language_tags else None
        if token is None:
            known = ", ".join(self.languages) if self.language_tags else "none"
            raise ArborvoxError(
                f"The vocabulary has no tag for language {language}; known: {known}."
            )
        return token

    def count_unknown(self, text: str) -> int:
        """Count the units of a text that the vocabulary does not have."""
        return self.encode(text).count(UNK_ID)

    def save(self, path: Path) -> None:
        """Write the vocabulary in one stroke; the same one gives the same bytes."""
        encode = json.JSONEncoder(ensure_ascii=False).encode
        head = {
            "format": FORMAT,
            "version": VERSION,
            "unit": self.unit,
            "graphemes": self.graphemes,
            "language_tags": self.language_tags,
            "languages": self.languages,
            "model": None if self.model is None else base64.b64encode(self.model).decode("ascii"),
        }
        rows = []
        for token, unit in enumerate(self.units):
            seen = {lang: self.counts[lang][token] for lang in self.languages}
            rows.append(encode([unit, {lang: count for lang, count in seen.items() if count}]))
        fields = "".join(f'"{key}": {encode(value)},\n' for key, value in head.items())
        write_text_atomic(path, f'{{\n{fields}"units": [\n' + ",\n".join(rows) + "\n]\n}\n")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a vocabulary and validate it."""
        value = read_json(path)
        try:
            return cls._from_json(value)
        except ArborvoxError as error:
            raise ArborvoxError(f"{path}: {error}") from None

    @classmethod
    def _from_json(cls, value: Any) -> "Tokenizer":
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise ArborvoxError(f'This is not a token file: "format" must be "{FORMAT}".')
        if value.get("version") != VERSION:
            raise ArborvoxError(
                f"The file has version {value.get('version')!r}; "
                f"this Arborvox reads version {VERSION}."
            )
        languages, rows = value.get("languages"), value.get("units")
        if not _is_list_of(languages, str) or not _is_list_of(rows, list):
            raise ArborvoxError('"languages" must be a list of names, "units" a list of pairs.')
        if len(languages) * len(rows) > MOST_COUNTS:
            raise ArborvoxError(
                f"{len(languages):,} languages and {len(rows):,} units are more than fit together."
            )
        counts: dict[str, list[int]] = {language: [0] * len(rows) for language in languages}
        for token, row in enumerate(rows):
            if len(row) != 2 or not isinstance(row[0], str) or not isinstance(row[1], dict):
                raise ArborvoxError(f'"units", token {token}: must be [unit, counts by language].')
            for language, count in row[1].items():
                if language not in counts or type(count) is not int:
                    raise ArborvoxError(
                        f'"units", token {token}: {json.dumps(language, ensure_ascii=False)} must '
                        f'be one of "languages" with a whole number.'
                    )
                counts[language][token] = count
        return cls(
            unit=str(value.get("unit")),
            units=tuple(row[0] for row in rows),
            counts={language: tuple(row) for language, row in counts.items()},
            language_tags=value.get("language_tags") is True,
            graphemes=value.get("graphemes") is True,
            model=_decode_model(value.get("model")),
        )

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {unit: token for token, unit in enumerate(self.units)}

    @cached_property
    def _ids_of_units(self) -> dict[str, int]:
        # A text may spell out "<eos>": as a unit that is unknown, not special.
        return {unit: token for unit, token in self._ids.items() if token >= self.num_special}

    @cached_property
    def _segmentation(self) -> Segmentation:
        return segmentation_for(self.unit, graphemes=self.graphemes, model=self.model)


def segmentation_for(unit: str, *, graphemes: bool, model: bytes | None) -> Segmentation:
    """Return the way in which a kind of unit is cut out of a text."""
    if unit == "bpe":
        return Pieces(model or b"")
    if unit == "phone":
        return Phones()
    return Graphemes() if graphemes else Characters()


def special_units(languages: Iterable[str], language_tags: bool) -> tuple[str, ...]:
    """Return the tokens before the first unit, in the order of their ids."""
    tags = [language_tag(language) for language in sorted(languages)] if language_tags else []
    return (EOS, UNK, *tags)


def flaw_of(text: str) -> str:
    """Say what keeps a text from standing on one line of a UTF-8 file, or ""."""
    if not LINE_BREAKS.isdisjoint(text):
        return "a newline"
    return "half a surrogate pair" if _SURROGATE.search(text) else ""


def _decode_model(text: Any) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ArborvoxError('"model" is not base64 text.') from None


def _is_list_of(value: Any, kind: type[Item]) -> TypeGuard[list[Item]]:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)
