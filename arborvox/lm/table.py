"""The table of all n-grams of a text, with the counts that Kneser–Ney smoothing is made of.

A row is an n-gram; rows are ordered by n, then as the windows are. The n-gram is told by the row of
its suffix (all words but the first) and its first word: 64 bits for any order and any vocabulary.
Row 0 is the empty n-gram.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.kernels.compiling import kernel
from arborvox.lm.counting import (
    BEGIN_WORD,
    NOTHING,
    UNKNOWN_WORD,
    Packing,
    Windows,
    Workspace,
)

EMPTY_ROW, UNKNOWN_ROW, BEGIN_ROW = range(3)
NO_ROW = np.uint32(0xFFFFFFFF)
WORD_BITS = np.uint64(32)
WORD_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class NgramTable:
    """All n-grams of a text; those that are not kept take part in the sums alone."""

    names: NDArray[np.uint64]  # (R,) row of the suffix, first word
    contexts: NDArray[np.uint32]  # (R,) row of all words but the last
    # How many words were seen before the n-gram; where none can be (the highest order, or <s> in
    # front), how often it was seen.
    counts: NDArray[np.uint32]  # (R,)
    kept: NDArray[np.bool_]  # (R,)
    starts: NDArray[np.int64]  # (order + 2,) the first row of each order, 0 to order + 1

    @property
    def order(self) -> int:
        """The highest n."""
        return len(self.starts) - 2

    def rows(self, order: int) -> slice:
        """Return where the n-grams of an order stand."""
        return slice(int(self.starts[order]), int(self.starts[order + 1]))

    def words_of(self, rows: NDArray[np.integer[Any]], order: int) -> NDArray[np.uint32]:
        """Return the words of n-grams of one order: (rows,) -> (rows, order)."""
        words = np.empty((len(rows), order), np.uint32)
        for place in range(order):
            names = self.names[rows]
            words[:, place] = names & WORD_MASK
            rows = (names >> WORD_BITS).astype(np.int64)
        return words


def make_table(
    windows: Windows, packing: Packing, cut_offs: Sequence[int], workspace: Workspace
) -> NgramTable:
    """List all n-grams of the windows, an order after the other.

    An n-gram is not kept if it was seen no more often than its order's cut-off, or holds <unk>.
    """
    sizes = np.zeros(packing.order + 1, np.int64)
    count_ngrams(windows.keys, packing, sizes)
    starts = np.zeros(packing.order + 2, np.int64)
    starts[1] = 1
    np.cumsum(sizes[1:], out=starts[2:])
    starts[2:] += 1
    num_rows = int(starts[-1])
    if num_rows >= int(NO_ROW):
        raise ArborvoxError(f"The text has more than {int(NO_ROW):,} n-grams; give less of it.")
    names = workspace.zeros(num_rows, np.uint64)
    counts, seen = workspace.zeros(num_rows, np.uint32), workspace.zeros(num_rows, np.uint32)
    list_ngrams(windows.keys, windows.counts, packing, starts, names, counts, seen)
    kept = workspace.empty(num_rows, np.bool_)
    mark_kept(names, seen, np.array([0, *cut_offs], np.int64), starts, kept)
    contexts = workspace.zeros(num_rows, np.uint32)
    find_contexts(names, starts, contexts)
    return NgramTable(names, contexts, counts, kept, starts)


@kernel
def word_at(keys: Any, row: int, packing: Any, back: int) -> int:
    """Return the word of a window that stands so many places before its last one."""
    column, place = back // packing.words_a_column, back % packing.words_a_column
    shift = np.uint64(packing.bits * (packing.words_a_column - 1 - place))
    return int((keys[row, column] >> shift) & np.uint64((1 << packing.bits) - 1))


@kernel
def num_shared(keys: Any, row: int, packing: Any) -> int:
    """Count the last words that a window shares with the one above it."""
    shared = 0
    while shared < packing.order and (
        row > 0 and word_at(keys, row, packing, shared) == word_at(keys, row - 1, packing, shared)
    ):
        shared += 1
    return shared


@kernel
def count_ngrams(keys: Any, packing: Any, sizes: Any) -> None:
    """Count the distinct n-grams of each order in sorted windows, <unk> and <s> in any case."""
    sizes[1] = 2
    for row in range(keys.shape[0]):
        for back in range(num_shared(keys, row, packing), packing.order):
            word = word_at(keys, row, packing, back)
            if word == NOTHING:
                break
            if back > 0 or word != UNKNOWN_WORD:
                sizes[back + 1] += 1


@kernel
def list_ngrams(
    keys: Any, times: Any, packing: Any, starts: Any, names: Any, counts: Any, seen: Any
) -> None:
    """Write each distinct n-gram's name and counts."""
    order = packing.order
    free = starts.copy()  # by order, the next row
    current = np.zeros(order + 1, np.int64)  # by order, the row of the window's n-gram
    names[UNKNOWN_ROW], names[BEGIN_ROW] = UNKNOWN_WORD, BEGIN_WORD
    free[1] = BEGIN_ROW + 1
    for row in range(keys.shape[0]):
        shared = num_shared(keys, row, packing)
        for back in range(order):
            word = word_at(keys, row, packing, back)
            if word == NOTHING:
                break
            n = back + 1
            if back >= shared:
                if n == 1 and word == UNKNOWN_WORD:
                    current[n] = UNKNOWN_ROW
                else:
                    current[n] = free[n]
                    free[n] += 1
                name = (np.uint64(current[back]) << WORD_BITS) | np.uint64(word)
                names[current[n]] = name
                if n > 1:
                    counts[current[back]] += np.uint32(1)
            seen[current[n]] += times[row]
            if n == order or word == BEGIN_WORD:
                counts[current[n]] += times[row]


@kernel
def mark_kept(names: Any, seen: Any, cut_offs: Any, starts: Any, kept: Any) -> None:
    """Mark the n-grams that were seen more often than their order's cut-off, without <unk>."""
    kept[EMPTY_ROW] = True
    for n in range(1, len(starts) - 1):
        for row in range(starts[n], starts[n + 1]):
            suffix, word = names[row] >> WORD_BITS, names[row] & WORD_MASK
            if n == 1:
                kept[row] = True
            else:
                is_known = word != UNKNOWN_WORD and suffix != UNKNOWN_ROW
                kept[row] = is_known and kept[suffix] and seen[row] > cut_offs[n]


@kernel
def find_from(names: Any, low: int, high: int, name: Any) -> int:
    """Return the first of some sorted rows whose name is not smaller, near the first of them."""
    step = 1
    while low + step < high and names[low + step] < name:
        low += step
        step *= 2
    high = min(low + step, high)
    while low < high:
        middle = (low + high) // 2
        if names[middle] < name:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_contexts(names: Any, starts: Any, contexts: Any) -> None:
    """Find each n-gram without its last word: the context of its suffix, with its first word."""
    for n in range(2, len(starts) - 1):
        low, before = starts[n - 1], np.uint64(0)
        for row in range(starts[n], starts[n + 1]):
            shorter = np.uint64(contexts[names[row] >> WORD_BITS])
            name = (shorter << WORD_BITS) | (names[row] & WORD_MASK)
            if name < before:  # another last word: from the top again
                low = starts[n - 1]
            low, before = find_from(names, low, starts[n], name), name
            contexts[row] = np.uint32(low)
