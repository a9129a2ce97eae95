"""How well a model predicts a text: perplexity, as KenLM's query tells it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arborvox.kernels.compiling import kernel
from arborvox.lm.counting import BEGIN_WORD, END_WORD, UNKNOWN_WORD
from arborvox.lm.kneser_ney import NgramModel
from arborvox.lm.table import BEGIN_ROW, EMPTY_ROW, NO_ROW, UNKNOWN_ROW, WORD_BITS, find_from


@dataclass(frozen=True)
class Perplexity:
    """What a text cost; the end of a sentence is predicted like a unit."""

    log10_prob: float = 0.0
    num_predicted: int = 0
    num_sentences: int = 0
    unknown_log10_prob: float = 0.0  # the part of units that the model does not list
    num_unknown: int = 0

    @property
    def value(self) -> float:
        """The perplexity a unit, unknown ones included."""
        return math.pow(10.0, -self.log10_prob / max(self.num_predicted, 1))

    @property
    def without_unknown(self) -> float:
        """The perplexity of the units that the model lists."""
        known = self.num_predicted - self.num_unknown
        return math.pow(10.0, -(self.log10_prob - self.unknown_log10_prob) / max(known, 1))


def measure_perplexity(model: NgramModel, sentences: Iterable[Sequence[int]]) -> Perplexity:
    """Predict each unit of sentences of word numbers, and each end."""
    table = model.table
    total = unknown = 0.0
    num_predicted = num_sentences = num_unknown = 0
    for words in sentences:
        padded = np.array([BEGIN_WORD, *words, END_WORD], np.uint32)
        log_probs = np.empty(len(padded) - 1)
        are_unknown = np.empty(len(padded) - 1, np.bool_)
        score_sentence(
            padded, table.names, table.kept, table.starts, model.probabilities, model.backoffs,
            log_probs, are_unknown,
        )  # fmt: skip
        total += float(log_probs.sum())
        unknown += float(log_probs[are_unknown].sum())
        num_predicted += len(log_probs)
        num_sentences += 1
        num_unknown += int(are_unknown.sum())
    return Perplexity(total, num_predicted, num_sentences, unknown, num_unknown)


@kernel
def find_row(names: Any, kept: Any, starts: Any, suffix: int, word: int, order: int) -> Any:
    """Return the row of an n-gram that the model lists, by its suffix and first word."""
    name = (np.uint64(suffix) << WORD_BITS) | np.uint64(word)
    row = find_from(names, starts[order], starts[order + 1], name)
    if row < starts[order + 1] and names[row] == name and kept[row]:
        return row
    return int(NO_ROW)


@kernel
def score_sentence(
    words: Any,
    names: Any,
    kept: Any,
    starts: Any,
    probabilities: Any,
    backoffs: Any,
    log_probs: Any,
    are_unknown: Any,
) -> None:
    """Write log10 P of each word after the first, and whether the model does not list it."""
    order = len(starts) - 2
    before = np.full(order + 1, int(NO_ROW), np.int64)  # by n, the n-gram that ends one word before
    current = np.full(order + 1, int(NO_ROW), np.int64)
    before[0], before[1] = EMPTY_ROW, BEGIN_ROW
    for end in range(1, len(words)):
        current[:] = int(NO_ROW)
        current[0] = EMPTY_ROW
        longest = 0
        while longest < min(order, end + 1):
            row = find_row(names, kept, starts, current[longest], words[end - longest], longest + 1)
            if row == int(NO_ROW):
                break
            longest += 1
            current[longest] = row
        are_unknown[end - 1] = longest == 0 or words[end] == UNKNOWN_WORD
        if longest == 0:
            longest, current[1] = 1, UNKNOWN_ROW
        score = math.log10(probabilities[current[longest]])
        for n in range(longest, order):
            if before[n] != int(NO_ROW):
                score += math.log10(backoffs[before[n]])
        log_probs[end - 1] = score
        before[:] = current
