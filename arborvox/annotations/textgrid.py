"""Praat's TextGrids: long and short, in UTF-8 or UTF-16, intervals and points.

Praat reads only texts in quotes, numbers that stand free and flags in angle brackets, and passes
over everything else; so both forms are one to a reader:

    intervals [1]:
        xmin = 0
        xmax = 1.05
        text = "bon ""dia"", va dir"
"""

import codecs
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from arborvox.annotations.tiers import MOST_SECONDS, Annotation, Tier
from arborvox.errors import ArborvoxError

MOST_MIB = 128
LONGEST_VALUE = 100_000
# Times of other programs miss each other by their rounding.
TOLERANCE_S = 1e-6
_TOKEN = re.compile(r'"(?:[^"]|"")*+"|<[^<>\s]*>|![^\n\r]*|[^\s"]+')
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class TextGrid:
    """The tiers of a recording, from its beginning to its end."""

    start_s: float
    end_s: float
    tiers: tuple[Tier, ...]

    def tier(self, name: str) -> Tier | None:
        """Return the first tier of a name."""
        return next((tier for tier in self.tiers if tier.name == name), None)


def read_textgrid(source: Path | bytes, name: str = "the file") -> TextGrid:
    """Read a TextGrid, or its bytes, of either text form."""
    if isinstance(source, Path):
        name, source = str(source), read_grid_bytes(source)
    return _Reader(_decode(source, name), name).read()


def read_grid_bytes(path: Path) -> bytes:
    """Read a TextGrid whole, to edit it."""
    with path.open("rb") as file:
        data = file.read((MOST_MIB << 20) + 1)
    if len(data) > MOST_MIB << 20:
        raise ArborvoxError(f"{path} is larger than {MOST_MIB} MiB; split it in Praat.")
    return data


def write_textgrid(grid: TextGrid, *, short: bool = False, encoding: str = "utf-8") -> bytes:
    """Write a TextGrid in the long form, or the short one; UTF-16 begins with its mark.

    Praat wants intervals to follow each other from the beginning to the end: what is between
    annotations becomes an empty one, and one that begins before the last has ended begins there.
    """
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', ""]
    put = _Lines(lines, short)
    put.number(0, "xmin", grid.start_s)
    put.number(0, "xmax", grid.end_s)
    lines.append("<exists>" if short else "tiers? <exists>")
    put.number(0, "size", len(grid.tiers))
    put.mark(0, "item []:")
    for number, tier in enumerate(grid.tiers, start=1):
        _put_tier(put, number, tier, grid)
    text = "\n".join(lines) + "\n"
    return text.encode("utf-16" if encoding == "utf-16" else "utf-8")


def add_grid_tiers(data: bytes, tiers: Sequence[Tier], name: str) -> bytes:
    """Add tiers behind those that a TextGrid has, in its own form and encoding.

    Every byte of the file remains but the number of its tiers. `name` is for messages.
    """
    mark, encoding = _encoding_of(data)
    text = _decode(data, name)
    reader = _Reader(text, name)
    grid = reader.read()
    if reader.count is None:
        raise ArborvoxError(f"{name} says that it has no tiers; write a new file instead.")
    names = {tier.name for tier in grid.tiers}
    for tier in tiers:
        if tier.name in names:
            raise ArborvoxError(f"{name} has a tier {tier.name!r} already; choose another name.")
        names.add(tier.name)
    # tiers? <exists> \nsize = 2 \n   or, in the short form,   <exists>\n2\n
    first, past = reader.count
    is_short = "size" not in text[text.rindex(">", 0, first) : first]
    lines: list[str] = []
    put = _Lines(lines, is_short)
    for number, tier in enumerate(tiers, start=len(grid.tiers) + 1):
        _put_tier(put, number, tier, grid)
    line_end = "\r\n" if "\r\n" in text else "\n"
    added = "".join(f"{line}{line_end}" for line in lines)
    end = reader.end
    rest = re.match(r"[ \t]*(?:\r\n|\n|\r)?", text[end:])
    end += len(rest[0]) if rest else 0
    if not text[:end].endswith(("\n", "\r")):
        added = f"{line_end}{added}"
    total = len(grid.tiers) + len(tiers)
    edited = f"{text[:first]}{total}{text[past:end]}{added}{text[end:]}"
    return mark + edited.encode(encoding)


def _put_tier(put: "_Lines", number: int, tier: Tier, grid: TextGrid) -> None:
    put.mark(1, f"item [{number}]:")
    put.text(2, "class", "TextTier" if tier.is_point else "IntervalTier")
    put.text(2, "name", tier.name)
    put.number(2, "xmin", grid.start_s)
    put.number(2, "xmax", grid.end_s)
    if tier.is_point:
        put.number(2, "points: size", len(tier.annotations))
    else:
        tier = fill_gaps(tier, grid.start_s, grid.end_s)
        put.number(2, "intervals: size", len(tier.annotations))
    for place, annotation in enumerate(tier.annotations, start=1):
        put.mark(2, f"{'points' if tier.is_point else 'intervals'} [{place}]:")
        if tier.is_point:
            put.number(3, "number", annotation.start_s)
            put.text(3, "mark", annotation.value)
        else:
            put.number(3, "xmin", annotation.start_s)
            put.number(3, "xmax", annotation.end_s)
            put.text(3, "text", annotation.value)


def fill_gaps(tier: Tier, start_s: float, end_s: float) -> Tier:
    """Return a tier whose intervals follow each other without a gap, none of them empty in time."""
    filled: list[Annotation] = []
    reached = start_s
    for annotation in sorted(tier.annotations, key=lambda a: (a.start_s, a.end_s)):
        begin, end = max(annotation.start_s, reached), min(annotation.end_s, end_s)
        if begin - reached <= TOLERANCE_S:
            begin = reached
        if end - begin <= TOLERANCE_S:
            continue
        if begin > reached:
            filled.append(Annotation(reached, begin, ""))
        if end_s - end <= TOLERANCE_S:
            end = end_s
        filled.append(Annotation(begin, end, annotation.value))
        reached = end
    if reached < end_s or not filled:
        filled.append(Annotation(reached, end_s, ""))
    return Tier(tier.name, tuple(filled))


class _Lines:
    """Writes values with their names around them, or alone."""

    def __init__(self, lines: list[str], short: bool) -> None:
        self._lines, self._short = lines, short

    def mark(self, depth: int, text: str) -> None:
        if not self._short:
            self._lines.append("    " * depth + text)

    def number(self, depth: int, name: str, value: float) -> None:
        told = f"{value!r}".removesuffix(".0")
        self._put(depth, name, told)

    def text(self, depth: int, name: str, value: str) -> None:
        doubled = value.replace("\0", "\ufffd").replace('"', '""')
        self._put(depth, name, f'"{doubled}"')

    def _put(self, depth: int, name: str, told: str) -> None:
        self._lines.append(told if self._short else f"{'    ' * depth}{name} = {told} ")


def _encoding_of(data: bytes) -> tuple[bytes, str]:
    """Return the mark that a file begins with, if any, and the encoding of what follows."""
    marks = (
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF8, "utf-8"),
    )
    return next(((m, encoding) for m, encoding in marks if data.startswith(m)), (b"", "utf-8"))


def _decode(data: bytes, name: str) -> str:
    mark, encoding = _encoding_of(data)
    if data.startswith(b"ooBinaryFile"):
        raise ArborvoxError(f"{name} is a binary file; save it as a text file in Praat.")
    try:
        return data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        raise ArborvoxError(
            f"{name} is neither UTF-8 nor UTF-16; open it in Praat, choose UTF-8 under "
            "Preferences > Text writing, and save it again."
        ) from None


class _Reader:
    """Takes what it expects from the tokens, or says in which line they are not so."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._tokens = self._find_tokens()
        self._at = 0
        self.count: tuple[int, int] | None = None  # where the number of tiers stands
        self.end = 0  # of what was read

    def read(self) -> TextGrid:
        """Read it all."""
        kinds = self._string(), self._string()
        if kinds[0] not in ("ooTextFile", "ooTextFile short") or kinds[1] != "TextGrid":
            raise self._refusal("not a TextGrid in one of Praat's text forms")
        start_s, end_s = self._span()
        tiers = []
        if self._flag() == "<exists>":
            num_tiers = self._count()
            self.count = (self._at, self.end)
            for _ in range(num_tiers):
                tiers.append(self._tier())
        return TextGrid(start_s, end_s, tuple(tiers))

    def _tier(self) -> Tier:
        kind, name = self._string(), self._string()
        if kind not in ("IntervalTier", "TextTier"):
            raise self._refusal(f"a tier is an IntervalTier or a TextTier, not {kind[:40]!r}")
        self._span()
        is_point = kind == "TextTier"
        found = []
        for _ in range(self._count()):
            start_s = self._seconds()
            end_s = start_s if is_point else self._seconds()
            found.append(Annotation(start_s, end_s, self._string()))
        return Tier(name, tuple(found), is_point=is_point)

    def _find_tokens(self) -> Iterator[str]:
        for match in _TOKEN.finditer(self._text):
            self._at, self.end = match.span()
            token = match.group()
            if token[0] in '"<' or _NUMBER.fullmatch(token):
                yield token

    def _next(self, wanted: str) -> str:
        token = next(self._tokens, None)
        if token is None:
            self._at = len(self._text)
            raise self._refusal(f"the file ends where {wanted} should stand")
        return token

    def _string(self) -> str:
        token = self._next("a text in quotes")
        if token[0] != '"':
            raise self._refusal(f"a text in quotes should stand here, not {token[:40]!a}")
        if len(token) > LONGEST_VALUE:
            raise self._refusal(f"a text of more than {LONGEST_VALUE:,} characters")
        return token[1:-1].replace('""', '"')

    def _flag(self) -> str:
        token = self._next("<exists>")
        if token not in ("<exists>", "<absent>"):
            raise self._refusal(f"<exists> should stand here, not {token[:40]!a}")
        return token

    def _number(self) -> float:
        token = self._next("a number")
        if token[0] in '"<':
            raise self._refusal(f"a number should stand here, not {token[:40]!a}")
        return float(token)

    def _seconds(self) -> float:
        value = self._number()
        if not math.isfinite(value) or abs(value) > MOST_SECONDS:
            raise self._refusal("a time that no recording has")
        return value

    def _count(self) -> int:
        value = self._number()
        if not 0 <= value <= len(self._text) or value != int(value):
            raise self._refusal(f"a count should stand here, not {value:g}")
        return int(value)

    def _span(self) -> tuple[float, float]:
        return self._seconds(), self._seconds()

    def _refusal(self, reason: str) -> ArborvoxError:
        line = self._text.count("\n", 0, self._at) + 1
        return ArborvoxError(f"{self._name}, line {line}: {reason}.")
