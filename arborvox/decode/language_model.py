"""n-gram language models from ARPA files, such as KenLM's lmplz writes, over the model's units.

The model becomes an automaton: a state for each listed context, a transition for each n-gram, and
back-off as a step to the next shorter context. Searches walk it in compiled code.
"""

import io
import math
import zlib
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arborvox.decode.automaton import HALF, NO_ENTRY, NOT_SCORED, find_transition
from arborvox.decode.automaton import LanguageModel as LanguageModel
from arborvox.decode.automaton import read_token as read_token
from arborvox.errors import ArborvoxError
from arborvox.files import open_unpacked
from arborvox.kernels.compiling import kernel
from arborvox.lm.arpa import BEGIN, END, SPACE, UNKNOWN
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.vocabulary import EOS_ID, UNK_ID

# How people write a space in a file whose words are separated by spaces.
SPACES = (SPACE, "▁", "|", "_")
# What KenLM gives to a word that neither it nor <unk> is listed for, a power of ten.
UNLISTED_LOG10 = -100.0
MOST_LOG10 = 1e6  # of a score in a file, either way
MOST_LINE = 1 << 20
MOST_UNPACKED = 64  # times a packed file's size; real ones have four to eight


@kernel
def follow(keys: Any, next_states: Any, words: Any) -> int:
    """Return the state of a listed context by its words, from the empty one on, or -1."""
    state = 0
    for word in words:
        slot = find_transition(keys, state, word)
        if keys[slot] == NO_ENTRY:
            return -1
        state = next_states[slot]
    return state


@kernel
def longest_context(keys: Any, next_states: Any, words: Any) -> int:
    """Return the state of the longest listed context that some words end in."""
    for start in range(len(words)):
        state = follow(keys, next_states, words[start:])
        if state >= 0:
            return state
    return 0


@kernel
def add_ngrams(model: Any, ngrams: Any, weights: Any, first: int) -> int:
    """Enter the n-grams of an order (M, n) with log P and back-off (M, 2), shorter ones before.

    Their states are numbered from `first`; those of the highest order, with 0, have none. Returns
    the row of an n-gram whose context is not listed, or -1.
    """
    for row in range(ngrams.shape[0]):
        words = ngrams[row]
        context = follow(model.keys, model.next_states, words[:-1])
        if context < 0:
            return row
        shorter = longest_context(model.keys, model.next_states, words[1:])
        slot = find_transition(model.keys, context, words[-1])
        model.keys[slot] = (np.uint64(context) << HALF) | np.uint64(words[-1])
        model.log_probs[slot] = weights[row, 0]
        model.next_states[slot] = shorter
        if first > 0:
            model.next_states[slot] = first + row
            model.backoffs[first + row] = weights[row, 1]
            model.shorter[first + row] = shorter
    return -1


def load_language_model(path: Path, tokenizer: Tokenizer) -> LanguageModel:
    """Read an ARPA file (.arpa or .arpa.gz) whose words are the units of a vocabulary."""
    ids: dict[str, int] = {}
    sections: dict[int, _Section] = {}
    for words, log_prob, backoff in _read_arpa(path):
        section = sections.setdefault(len(words), _Section(array("i"), array("d")))
        try:
            section.words.extend([ids[word] for word in words])
        except KeyError:  # a new one, as unigrams are
            section.words.extend([ids.setdefault(word, len(ids)) for word in words])
        section.weights.extend((log_prob, backoff))
    words_of_tokens = _words_of_tokens(tokenizer, ids)
    if not any(word in ids for word in tokenizer.units[tokenizer.num_special :]):
        raise ArborvoxError(
            f"{path} lists none of the model's units ({tokenizer.unit}); make the language model "
            f"with `arborvox lm` and the model's tokens.json, or of texts with a space between "
            f"units and {SPACE} for the space itself."
        )
    return _automaton(path, sections, ids, words_of_tokens)


class _Section(NamedTuple):
    """The n-grams of one order, as they stand in the file."""

    words: "array[int]"  # n for each
    weights: "array[float]"  # log P and back-off of each


def _automaton(
    path: Path, sections: dict[int, _Section], ids: dict[str, int], words: NDArray[np.int32]
) -> LanguageModel:
    num_ngrams = {n: len(section.weights) // 2 for n, section in sections.items()}
    order = max(sections)
    num_states = 1 + sum(number for n, number in num_ngrams.items() if n < order)
    size = 1 << (2 * sum(num_ngrams.values())).bit_length()
    model = LanguageModel(
        keys=np.full(size, NO_ENTRY),
        log_probs=np.zeros(size, np.float32),
        next_states=np.zeros(size, np.int32),
        backoffs=np.zeros(num_states, np.float32),
        shorter=np.zeros(num_states, np.int32),
        words=words,
        first_state=0,
        unknown_log_prob=UNLISTED_LOG10 * math.log(10),
    )
    first = 1
    for n, section in sorted(sections.items()):
        ngrams = np.array(section.words, np.int32).reshape(-1, n)
        weights = np.array(section.weights).reshape(-1, 2)
        row = add_ngrams(model, ngrams, weights, first if n < order else 0)
        if row >= 0:
            names = list(ids)
            told = " ".join(names[word] for word in ngrams[row])
            raise ArborvoxError(f"{path}: the n-gram '{told}' is listed, but not its context.")
        first += len(ngrams)
        if n == 1 and len(unknown := np.flatnonzero(ngrams[:, 0] == ids.get(UNKNOWN, -1))):
            model = model._replace(unknown_log_prob=float(weights[unknown[-1], 0]))
    begin = follow(model.keys, model.next_states, np.array([ids.get(BEGIN, len(ids))]))
    return model._replace(first_state=max(begin, 0))


def _words_of_tokens(tokenizer: Tokenizer, ids: dict[str, int]) -> NDArray[np.int32]:
    """Return each token's word; unlisted ones get numbers that no n-gram has."""
    space = next((name for name in SPACES if name in ids), SPACES[0])
    words = []
    for token, unit in enumerate(tokenizer.units):
        if token == EOS_ID:
            words.append(ids.get(END, NOT_SCORED))
        elif token == UNK_ID:
            words.append(ids.get(UNKNOWN, len(ids)))
        elif token < tokenizer.num_special:
            words.append(NOT_SCORED)
        else:
            words.append(ids.get(space if unit == " " else unit, len(ids)))
    return np.array(words, np.int32)


def _read_arpa(path: Path) -> Iterator[tuple[Sequence[str], float, float]]:
    """Yield words, log P and log back-off of each n-gram, natural logarithms."""
    # \data\
    # ngram 1=5
    #
    # \1-grams:
    # -1.2041	a	-0.30103
    #
    # \end\
    order, ended, number, ln10 = 0, False, 0, math.log(10)
    try:
        most = MOST_UNPACKED * path.stat().st_size + MOST_LINE
        with io.TextIOWrapper(open_unpacked(path), encoding="utf-8") as lines:
            while line := lines.readline(MOST_LINE + 1):
                number += 1
                most -= len(line)
                if len(line) > MOST_LINE:
                    raise ValueError(f"more than {MOST_LINE:,} characters")
                if most < 0:
                    raise ValueError(f"unpacked it is more than {MOST_UNPACKED} times as large")
                fields = line.split()
                if not fields:
                    continue
                if fields[0].startswith("\\"):
                    text = line.strip()
                    ended = text == "\\end\\"
                    order = int(text[1:].partition("-")[0]) if text.endswith("-grams:") else 0
                elif order:
                    if len(fields) <= order:
                        raise ValueError("too few words")
                    # A highest-order n-gram has no back-off, and others may leave it out.
                    backoff = float(fields[order + 1]) if len(fields) > order + 1 else 0.0
                    log_prob = float(fields[0])
                    # NaN is not, either.
                    if not (abs(log_prob) <= MOST_LOG10 and abs(backoff) <= MOST_LOG10):
                        raise ValueError("not the logarithm of a probability")
                    yield fields[1 : order + 1], log_prob * ln10, backoff * ln10
    except FileNotFoundError:
        raise ArborvoxError(f"There is no language model {path}.") from None
    except ValueError as error:  # UnicodeDecodeError is one
        raise ArborvoxError(
            f"{path}, line {number}: not an ARPA language model ({error}); KenLM's binary files "
            f"must be given as the .arpa that they were built from."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise ArborvoxError(f"{path} is damaged: {error}.") from None
    if not ended:
        raise ArborvoxError(f"{path} is not a whole ARPA language model: \\end\\ is missing.")
