"""Counts of n-grams: blocks of packed windows are sorted and merged, however long the text is.

A window of `order` words is packed into as few 64-bit columns as it takes, its last word in the
highest bits. Sorted like this, n-grams that end in the same words stand together, for every n.
"""

import os
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from arborvox.errors import ArborvoxError
from arborvox.files import name_failed_writes
from arborvox.kernels.compiling import kernel

# What stands for no word, and the first words of every model; the others follow.
NOTHING, UNKNOWN_WORD, BEGIN_WORD, END_WORD = range(4)
FIRST_WORD = 4

COLUMN_BITS = 64
MOST_WINDOWS = 2**32 - 1  # counts and rows are 32-bit numbers
BLOCK_WINDOWS = 4_000_000
# An array that takes a larger part of the memory than this becomes a file.
LARGEST_PART = 8


class Packing(NamedTuple):
    """How a window of words lies in columns of 64 bits."""

    order: int
    bits: int  # of a word
    words_a_column: int
    num_columns: int

    @classmethod
    def of(cls, order: int, num_words: int) -> "Packing":
        """Return the packing of windows over so many words, NOTHING included."""
        bits = max(num_words - 1, 1).bit_length()
        words_a_column = COLUMN_BITS // bits
        return cls(order, bits, words_a_column, -(-order // words_a_column))


class Workspace:
    """Arrays as memory allows: small ones in memory, large ones in files that vanish at the end."""

    def __init__(self, memory_bytes: int) -> None:
        """Make a temporary folder; it stays empty while everything is small."""
        self._largest = memory_bytes // LARGEST_PART
        self._folder = tempfile.TemporaryDirectory(prefix="arborvox-lm-")
        self._numbers = count()

    def __enter__(self) -> "Workspace":
        """Give the workspace to a block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of any content."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size <= self._largest:
            return np.empty(shape, dtype)
        path = Path(self._folder.name) / f"{next(self._numbers)}.bin"
        with name_failed_writes(path), path.open("wb") as file:
            reserve_space(file.fileno(), size)
        mapped = np.memmap(path, dtype, "r+", shape=shape)
        path.unlink()  # the mapping keeps the content until nobody needs it
        # Kernels are compiled for plain arrays alone.
        return np.asarray(mapped)

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of zeros."""
        array = self.empty(shape, dtype)
        array.fill(0)
        return array


def reserve_space(file: int, size: int) -> None:
    """Make a file so large; a full disk must say so now, as writing to memory cannot fail later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:  # macOS
        os.truncate(file, size)


class Windows(NamedTuple):
    """Distinct windows in order, and how often each was seen."""

    keys: NDArray[np.uint64]  # (R, columns)
    counts: NDArray[np.uint32]  # (R,)


class WindowCounter:
    """Counts the windows that end in each word and each end of the sentences given to it."""

    def __init__(self, order: int, num_words: int, workspace: Workspace) -> None:
        """Begin with nothing; `num_words` is one more than the highest number of a word."""
        self.packing = Packing.of(order, num_words)
        self.num_windows = 0
        self._workspace = workspace
        self._runs: list[Windows] = []
        self._waiting = array("I")  # sentences, each with what stands before it
        # What stands before a sentence, so that each of its words ends a window.
        self._before = [NOTHING] * max(order - 2, 0) + [BEGIN_WORD] * min(order - 1, 1)

    def add(self, sentences: Iterable[Sequence[int]]) -> None:
        """Count sentences of word numbers, FIRST_WORD or higher, or UNKNOWN_WORD."""
        for words in sentences:
            self._waiting.extend(self._before)
            self._waiting.extend(words)
            self._waiting.append(END_WORD)
            self.num_windows += len(words) + 1
            if len(self._waiting) >= BLOCK_WINDOWS:
                self._count_waiting()

    def finish(self) -> Windows:
        """Return all windows; the counter is empty afterwards."""
        if not self.num_windows:
            raise ArborvoxError("There is no text to make a language model of.")
        self._count_waiting()
        while len(self._runs) > 1:
            self._merge_last()
        return self._runs.pop()

    def _count_waiting(self) -> None:
        """Sort the sentences that wait into a run; each run is at least twice the next one."""
        if not self._waiting:
            return
        if self.num_windows > MOST_WINDOWS:
            raise ArborvoxError(f"The text has more than {MOST_WINDOWS:,} units; give less of it.")
        words = np.array(self._waiting, np.uint32)
        self._waiting = array("I")
        keys = np.empty((len(words), self.packing.num_columns), np.uint64)
        size = pack_windows(
            words, self.packing.order, self.packing.bits, self.packing.words_a_column, keys
        )
        self._runs.append(self._sort(keys[:size]))
        while len(self._runs) > 1 and len(self._runs[-2].counts) < 2 * len(self._runs[-1].counts):
            self._merge_last()

    def _sort(self, keys: NDArray[np.uint64]) -> Windows:
        if keys.shape[1] == 1:
            keys[:, 0].sort()
        else:
            keys = keys[np.lexsort(keys.T[::-1])]
        counts = np.empty(len(keys), np.uint32)
        size = squeeze(keys, counts)
        run_keys = self._workspace.empty((size, keys.shape[1]), np.uint64)
        run_keys[:] = keys[:size]
        return Windows(run_keys, counts[:size].copy())

    def _merge_last(self) -> None:
        second, first = self._runs.pop(), self._runs.pop()
        size = count_union(first.keys, second.keys)
        keys = self._workspace.empty((size, first.keys.shape[1]), np.uint64)
        counts = self._workspace.empty(size, np.uint32)
        merge(first, second, keys, counts)
        self._runs.append(Windows(keys, counts))


@kernel
def pack_windows(words: Any, order: int, bits: int, words_a_column: int, keys: Any) -> int:
    """Pack the window that ends in each word of padded sentences; returns how many there are."""
    size = 0
    for end in range(len(words)):
        if words[end] == NOTHING or words[end] == BEGIN_WORD:
            continue
        for column in range(keys.shape[1]):
            packed = np.uint64(0)
            for place in range(words_a_column):
                back = column * words_a_column + place
                word = words[end - back] if back < order else np.uint32(NOTHING)
                packed = (packed << np.uint64(bits)) | np.uint64(word)
            keys[size, column] = packed
        size += 1
    return size


@kernel
def compare_windows(keys: Any, row: int, other_keys: Any, other: int) -> int:
    """Return -1, 0 or 1: a window stands before another one, is the same, or stands after it."""
    for column in range(keys.shape[1]):
        if keys[row, column] != other_keys[other, column]:
            return -1 if keys[row, column] < other_keys[other, column] else 1
    return 0


@kernel
def squeeze(keys: Any, counts: Any) -> int:
    """Move the distinct ones of sorted windows to the front, count each; returns their number."""
    last = -1
    for row in range(keys.shape[0]):
        if last >= 0 and compare_windows(keys, row, keys, last) == 0:
            counts[last] += np.uint32(1)
        else:
            last += 1
            keys[last] = keys[row]
            counts[last] = np.uint32(1)
    return last + 1


@kernel
def count_union(first: Any, second: Any) -> int:
    """Count the distinct windows of two sorted runs."""
    i = j = size = 0
    while i < len(first) and j < len(second):
        side = compare_windows(first, i, second, j)
        i += side <= 0
        j += side >= 0
        size += 1
    return size + (len(first) - i) + (len(second) - j)


@kernel
def merge(first: Any, second: Any, keys: Any, counts: Any) -> None:
    """Merge two sorted runs into one; the counts of a window that both have are added."""
    i = j = 0
    for row in range(len(counts)):
        if i == len(first.counts):
            side = 1
        elif j == len(second.counts):
            side = -1
        else:
            side = compare_windows(first.keys, i, second.keys, j)
        keys[row] = first.keys[i] if side <= 0 else second.keys[j]
        counts[row] = np.uint32(0)
        if side <= 0:
            counts[row] += first.counts[i]
            i += 1
        if side >= 0:
            counts[row] += second.counts[j]
            j += 1
