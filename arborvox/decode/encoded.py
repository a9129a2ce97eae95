"""Encoded speech, what CTC says of it, and what a search may ask of a network; no torch."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

STAGES = ("features", "encoder", "decoder", "output", "search")


class StageClock:
    """Adds up where the time of decoding goes."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start from nought."""
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._earlier_s = 0.0

    @contextlib.contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Charge the time of a block to a stage."""
        start_s = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - start_s

    def charge_earlier(self, stage: str, seconds: float) -> None:
        """Charge a stage with what its work took when it was done, before now."""
        self.seconds[stage] += seconds
        self._earlier_s += seconds

    @contextlib.contextmanager
    def rest(self, stage: str) -> Iterator[None]:
        """Charge to a stage what a block takes beyond the stages that are charged inside it."""
        start_s, charged_s = time.perf_counter(), self._charged_now_s
        try:
            yield
        finally:
            inside_s = self._charged_now_s - charged_s
            self.seconds[stage] += time.perf_counter() - start_s - inside_s

    @property
    def _charged_now_s(self) -> float:
        return sum(self.seconds.values()) - self._earlier_s


@dataclass(frozen=True)
class CtcScores:
    """What CTC says of each frame: a column for each label that may be written, and no other.

    So an inventory makes every search over labels cheaper. <eos> is the first column and the blank
    the last, with an inventory as without one.
    """

    log_probs: NDArray[np.float32]  # (B, T', C)
    labels: NDArray[np.int64]  # (C,) the token of each column, rising
    columns: NDArray[np.int64]  # (V + 1,) the column of each token that has one


@dataclass
class Encoded:
    """Encoded utterances side by side."""

    states: Any  # (B, T', D), as the network that made it keeps it
    lens: NDArray[np.int64]  # (B,)
    ctc: CtcScores | None = None  # once they were asked for

    def __len__(self) -> int:
        return len(self.lens)


class SearchNetwork(Protocol):
    """What searches ask of a network: torch's, or one of an export on onnxruntime.

    States and caches belong to the network that made them; scores are plain arrays.
    """

    blank: int
    clock: StageClock

    @property
    def has_ctc(self) -> bool:
        """Whether there is a CTC branch."""

    @property
    def num_choices(self) -> int:
        """How many tokens the decoder may choose from."""

    def ctc_scores(self, encoded: Encoded) -> CtcScores:
        """Return log-probabilities of tokens and blank in each frame."""

    def ctc_best(self, encoded: Encoded) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the best label of each frame and its log-probability, (B, T') each."""

    def start(self, encoded: Encoded, num_beams: int, max_tokens: int) -> Any:
        """Begin a search: keys and values of the frames are computed here, once."""

    def keep(self, cache: Any, utterances: NDArray[np.int64]) -> None:
        """Go on with these utterances only, (B',)."""

    def reorder(self, cache: Any, parents: NDArray[np.int64]) -> None:
        """Let beam k of utterance b go on from beam parents[b, k], (B, K')."""

    def step(self, tokens: NDArray[np.int64], cache: Any) -> Any:
        """Feed the newest token of each beam, (B, K), -> states (B, K, D)."""

    def read_tree(
        self,
        encoded: Encoded,
        tokens: NDArray[np.int64],
        depths: NDArray[np.int64],
        past: NDArray[np.bool_],
    ) -> Any:
        """Return the decoder's states at the nodes of prefix trees, (B, Q, D)."""

    def topk(self, states: Any, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k best log-probabilities and their tokens, (B, K, D) -> (B, K, k) each."""

    def token_log_probs(
        self, states: Any, rows: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return log P of a token after each of some states, (B, Q, D), (N,), (N,) -> (N,)."""
