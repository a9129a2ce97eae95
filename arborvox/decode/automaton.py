"""A language model as searches walk it: a state for each context, a transition for each n-gram."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arborvox.kernels.compiling import kernel

NOT_SCORED = -1  # a language tag: no part of what the language model has read

NO_ENTRY = np.uint64(0xFFFFFFFFFFFFFFFF)
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
HASH_SHIFT = np.uint64(29)
HALF = np.uint64(32)


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
