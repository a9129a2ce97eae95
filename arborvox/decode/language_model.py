"""n-gram language models from ARPA files, such as KenLM's lmplz writes, over the model's units.

The model becomes an automaton: a state for each listed context, a transition for each n-gram, and
back-off as a step to the next shorter context. Searches walk it in compiled code.
"""

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.kernels.compiling import kernel
from arborvox.lm.arpa import BEGIN, END, SPACE, UNKNOWN
from arborvox.tokens.tokenizer import EOS_ID, UNK_ID, Tokenizer

# How people write a space in a file whose words are separated by spaces.
SPACES = (SPACE, "▁", "|", "_")
# What KenLM gives to a word that neither it nor <unk> is listed for, a power of ten.
UNLISTED_LOG10 = -100.0
NOT_SCORED = -1  # a language tag: no part of what the language model has read

NO_ENTRY = np.uint64(0xFFFFFFFFFFFFFFFF)
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
HASH_SHIFT = np.uint64(29)
HALF = np.uint64(32)

Ngram = tuple[int, ...]


class LanguageModel(NamedTuple):
    """The automaton as arrays; state 0 is the empty context."""

    keys: NDArray[np.uint64]  # (slots,) state and word of a transition, hashed; a power of 2
    log_probs: NDArray[np.float32]  # (slots,)
    next_states: NDArray[np.int32]  # (slots,)
    backoffs: NDArray[np.float32]  # (states,)
    shorter: NDArray[np.int32]  # (states,) the context without its first word
    words: NDArray[np.int32]  # (V,) the word of each token
    first_state: int  # after <s>
    unknown_log_prob: float

    @classmethod
    def none(cls) -> "LanguageModel":
        """Return what stands for no language model: it says 0 to everything."""
        return cls(
            keys=np.full(1, NO_ENTRY),
            log_probs=np.zeros(1, np.float32),
            next_states=np.zeros(1, np.int32),
            backoffs=np.zeros(1, np.float32),
            shorter=np.zeros(1, np.int32),
            words=np.zeros(0, np.int32),
            first_state=0,
            unknown_log_prob=0.0,
        )


@kernel
def find_transition(keys: Any, state: int, word: int) -> int:
    """Return the slot of a transition, or the free slot where it would stand."""
    key = (np.uint64(state) << HALF) | np.uint64(word)
    last = np.uint64(keys.shape[0] - 1)
    mixed = key * HASH_FACTOR
    slot = (mixed ^ (mixed >> HASH_SHIFT)) & last
    while keys[slot] != key and keys[slot] != NO_ENTRY:
        slot = (slot + np.uint64(1)) & last
    return int(slot)


@kernel
def read_token(model: Any, state: int, token: int) -> Any:
    """Return log P of a token after a state, and the state after it."""
    if token >= model.words.shape[0] or model.words[token] == NOT_SCORED:
        return 0.0, state
    word = model.words[token]
    score = 0.0
    while True:
        slot = find_transition(model.keys, state, word)
        if model.keys[slot] != NO_ENTRY:
            return score + model.log_probs[slot], model.next_states[slot]
        if state == 0:
            return score + model.unknown_log_prob, 0
        score += model.backoffs[state]
        state = model.shorter[state]


@kernel
def add_transitions(keys: Any, slots: Any, states: Any, words: Any) -> None:
    """Enter transitions into the hash table; notes the slot of each."""
    for i in range(len(states)):
        slots[i] = find_transition(keys, states[i], words[i])
        keys[slots[i]] = (np.uint64(states[i]) << HALF) | np.uint64(words[i])


def load_language_model(path: Path, tokenizer: Tokenizer) -> LanguageModel:
    """Read an ARPA file (.arpa or .arpa.gz) whose words are the units of a vocabulary."""
    ids: dict[str, int] = {}
    probabilities: dict[Ngram, tuple[float, float]] = {}
    for words, log_prob, backoff in _read_arpa(path):
        ngram = tuple(ids.setdefault(word, len(ids)) for word in words)
        probabilities[ngram] = (log_prob, backoff)
    words_of_tokens = _words_of_tokens(tokenizer, ids)
    if not any(word in ids for word in tokenizer.units[tokenizer.num_special :]):
        raise ArborvoxError(
            f"{path} lists none of the model's units ({tokenizer.unit}); make the language model "
            f"with `arborvox lm` and the model's tokens.json, or of texts with a space between "
            f"units and {SPACE} for the space itself."
        )
    return _automaton(path, probabilities, ids, words_of_tokens)


def _automaton(
    path: Path,
    probabilities: dict[Ngram, tuple[float, float]],
    ids: dict[str, int],
    words: NDArray[np.int32],
) -> LanguageModel:
    order = max(map(len, probabilities))
    states: dict[Ngram, int] = {(): 0}
    for ngram in probabilities:
        if len(ngram) < order:
            states[ngram] = len(states)

    def longest_context(ngram: Ngram) -> int:
        while ngram not in states:
            ngram = ngram[1:]
        return states[ngram]

    missing = next((ngram for ngram in probabilities if ngram[:-1] not in states), None)
    if missing is not None:
        names = {number: word for word, number in ids.items()}
        told = " ".join(names[word] for word in missing)
        raise ArborvoxError(f"{path}: the n-gram '{told}' is listed, but not its context.")
    size = 1 << (2 * len(probabilities)).bit_length()
    keys = np.full(size, NO_ENTRY)
    slots = np.empty(len(probabilities), np.int64)
    origins = np.array([states[ngram[:-1]] for ngram in probabilities], np.int64)
    add_transitions(keys, slots, origins, np.array([ngram[-1] for ngram in probabilities]))
    log_probs, next_states = np.zeros(size, np.float32), np.zeros(size, np.int32)
    log_probs[slots] = [log_prob for log_prob, _ in probabilities.values()]
    next_states[slots] = [longest_context(ngram) for ngram in probabilities]
    shorter = [longest_context(context[1:]) for context in states]
    backoffs = [probabilities[context][1] if context else 0.0 for context in states]
    unlisted = (UNLISTED_LOG10 * math.log(10), 0.0)
    begin = states.get((ids[BEGIN],), 0) if BEGIN in ids else 0
    return LanguageModel(
        keys=keys,
        log_probs=log_probs,
        next_states=next_states,
        backoffs=np.array(backoffs, np.float32),
        shorter=np.array(shorter, np.int32),
        words=words,
        first_state=begin,
        unknown_log_prob=probabilities.get((ids.get(UNKNOWN, -1),), unlisted)[0],
    )


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
    opened = gzip.open if path.suffix == ".gz" else open
    order, ended, number = 0, False, 0
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                number += 1
                text = line.strip()
                if text.startswith("\\"):
                    ended = text == "\\end\\"
                    order = int(text[1:].partition("-")[0]) if text.endswith("-grams:") else 0
                elif order and text:
                    log_prob, *rest = text.split()
                    # A highest-order n-gram has no back-off, and others may leave it out.
                    backoff = float(rest[order]) if len(rest) > order else 0.0
                    if len(rest) < order:
                        raise ValueError("too few words")
                    yield rest[:order], float(log_prob) * math.log(10), backoff * math.log(10)
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
