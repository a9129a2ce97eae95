"""Language models as ARPA files, which our searches, KenLM and other tools read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path, pack_reproducible
from arborvox.kernels.compiling import kernel
from arborvox.lm.kneser_ney import NgramModel

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
SPACE = "<space>"  # how the unit " " is written, as spaces stand between units

ROWS_AT_ONCE = 1 << 16
DECIMALS = 6
# Sign, three digits before the point, the point, the decimals, and what stands after the number.
NUMBER_BYTES = 6 + DECIMALS
MINUS, POINT, ZERO, TAB, BLANK, NEWLINE = b"-.0\t \n"


def words_of_units(units: Sequence[str]) -> list[str]:
    """Return how units are written between the spaces of an ARPA file."""
    words = [SPACE if unit == " " else unit for unit in units]
    seen: set[str] = {BEGIN, END, UNKNOWN}
    for unit, word in zip(units, words, strict=True):
        if word in seen:
            raise ArborvoxError(f"The unit {unit!r} has the name of another word in an ARPA file.")
        if word.split() != [word]:
            raise ArborvoxError(
                f"The unit {unit!r} holds a space, and an ARPA file has spaces between units."
            )
        seen.add(word)
    return words


def write_arpa(path: Path, model: NgramModel, words: Sequence[str]) -> None:
    """Write a model in one stroke; `words` are the names by word number. A .gz is packed."""
    table = model.table
    encoded = [word.encode() for word in words]
    letters = np.frombuffer(b"".join(encoded), np.uint8)
    ends = np.cumsum([0, *map(len, encoded)])
    longest = max(map(len, encoded))
    with _open_whole(path) as file:
        counts = [f"ngram {n}={model.num_kept(n)}\n" for n in range(1, table.order + 1)]
        file.write(("\\data\\\n" + "".join(counts)).encode())
        for n in range(1, table.order + 1):
            file.write(f"\n\\{n}-grams:\n".encode())
            lines = np.empty(ROWS_AT_ONCE * (2 * NUMBER_BYTES + n * (longest + 1)), np.uint8)
            for rows in _kept_rows(model, n):
                log_probs = np.log10(model.probabilities[rows])
                backoffs = np.zeros(len(rows), np.float32)
                if n < table.order:
                    # What nothing was seen after keeps a weight of 1, which is left out.
                    backoffs = np.log10(model.backoffs[rows])
                size = format_lines(
                    table.words_of(rows, n), log_probs, backoffs, letters, ends, lines
                )
                file.write(lines[:size].tobytes())
        file.write(b"\n\\end\\\n")


def _kept_rows(model: NgramModel, order: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of an order that the model lists, some at a time."""
    rows = model.table.rows(order)
    for start in range(rows.start, rows.stop, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, rows.stop)
        yield start + np.flatnonzero(model.table.kept[start:stop])


@contextmanager
def _open_whole(path: Path) -> Iterator[BinaryIO]:
    with atomic_path(path) as part, part.open("wb") as raw:
        if path.suffix != ".gz":
            yield raw
            return
        with pack_reproducible(raw) as packed:
            yield cast(BinaryIO, packed)


@kernel
def format_number(value: float, lines: Any, at: int) -> int:
    """Write a logarithm, which is 0 or less and above -1000; returns where the next byte goes."""
    scaled = round(-value * 10**DECIMALS)
    if scaled > 0:
        lines[at] = MINUS
        at += 1
    whole, rest = scaled // 10**DECIMALS, scaled % 10**DECIMALS
    divisor = 100 if whole >= 100 else 10 if whole >= 10 else 1
    while divisor:
        lines[at] = ZERO + whole // divisor % 10
        at += 1
        divisor //= 10
    lines[at] = POINT
    at += 1
    divisor = 10 ** (DECIMALS - 1)
    while divisor:
        lines[at] = ZERO + rest // divisor % 10
        at += 1
        divisor //= 10
    return at


@kernel
def format_lines(
    words: Any, log_probs: Any, backoffs: Any, letters: Any, ends: Any, lines: Any
) -> int:
    """Write a line for each n-gram (rows of `words`); returns the number of bytes."""
    at = 0
    for row in range(words.shape[0]):
        at = format_number(log_probs[row], lines, at)
        for place in range(words.shape[1]):
            lines[at] = BLANK if place else TAB
            at += 1
            word = words[row, place]
            for letter in range(ends[word], ends[word + 1]):
                lines[at] = letters[letter]
                at += 1
        if backoffs[row] != 0:
            lines[at] = TAB
            at = format_number(backoffs[row], lines, at + 1)
        lines[at] = NEWLINE
        at += 1
    return at
