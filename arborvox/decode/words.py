"""Words with their times; where a script has no spaces, what a reader sees as one character."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arborvox.decode.clusters import cluster_functions

_clusters, _is_unspaced = cluster_functions()


@dataclass(frozen=True)
class Word:
    """A word, or a phone, with its times in the recording; None where the model cannot tell."""

    text: str
    start_s: float | None
    end_s: float | None
    confidence: float


def cut_text(text: str) -> list[str]:
    """Cut a stretch without spaces into its words: where none can be seen, into characters.

    A character is a grapheme cluster, a letter with its marks, never less. Letters of scripts
    that have spaces stay together: 我用arborvox is three words.
    """
    pieces: list[str] = []
    was_spaced = False
    for cluster in _clusters(text):
        is_spaced = not _is_unspaced(cluster)
        if is_spaced and was_spaced:
            pieces[-1] += cluster
        else:
            pieces.append(cluster)
        was_spaced = is_spaced
    return pieces


def cut_clusters(text: str) -> list[str]:
    """Cut a text into what a reader sees as its characters."""
    return _clusters(text)


def num_columns(text: str) -> int:
    """Count how many columns a text takes on a screen: wide letters two, marks on others none."""
    columns = 0
    for character in text:
        if unicodedata.east_asian_width(character) in "WF":
            columns += 2
        elif unicodedata.category(character) not in ("Mn", "Me", "Cf"):
            columns += 1
    return columns


def cut_word(word: Word, units: Sequence[Word]) -> Iterator[Word]:
    """Yield the words of a stretch without spaces, timed by the units that it was written with.

    Where the units do not add up to the text, as bytes of a letter do not, they count as one.
    """
    pieces = cut_text(word.text)
    if len(pieces) == 1:
        yield word
        return
    if "".join(unit.text for unit in units) != word.text:
        units = [word]
    done = 0
    for piece in pieces:
        begin, done = done, done + len(piece)
        parts = list(_overlaps(units, begin, done))
        confidence = sum(part.confidence for part in parts) / len(parts)
        yield Word(piece, parts[0].start_s, parts[-1].end_s, round(confidence, 4))


def _overlaps(units: Sequence[Word], begin: int, end: int) -> Iterator[Word]:
    """Yield the parts of units that cover some characters; a unit's time is shared out evenly."""
    place = 0
    for unit in units:
        first, last = max(begin, place), min(end, place + len(unit.text))
        if first < last:
            yield Word(
                unit.text[first - place : last - place],
                _between(unit, (first - place) / len(unit.text)),
                _between(unit, (last - place) / len(unit.text)),
                unit.confidence,
            )
        place += len(unit.text)


def _between(unit: Word, share: float) -> float | None:
    if unit.start_s is None or unit.end_s is None:
        return None
    return round(unit.start_s + share * (unit.end_s - unit.start_s), 3)
