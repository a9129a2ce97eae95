"""When each word of a known text was said, in recordings of any length and in bounded memory.

The text may lack words that were said, and have words that were not. Frames come in as they are
recognized; what is older than a minute is settled, as nothing later would change it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arborvox.decode import alignment_kernels as kernels
from arborvox.decode.boundaries import BoundaryPlacer, Loudness, Peak
from arborvox.decode.network import CtcScores

# The price of passing a word over, for each of its tokens, and of a frame of speech that is not
# in the text, in nats below the best label: text that was said costs less than either.
SKIP_PRICE = 3.0
STAR_PRICE = 3.0
BEAM = 200.0
WIDTH = 4096  # states that are looked at in a frame, at most
MOST_TOKENS = 500  # of a word: what is alive has to fit in that width
IMPOSSIBLE = -1e4
LAG_FRAMES = 3000  # two minutes of frames of 40 ms; half of them are settled at a time


@dataclass(frozen=True)
class TokenSpan:
    """When a token was said, and how well it fits."""

    start_s: float
    end_s: float
    log_prob: float  # mean over its frames


@dataclass(frozen=True)
class _Block:
    """Frames whose path is not settled yet."""

    start_s: float
    frames: NDArray[np.float32]  # (T, C)
    back: NDArray[np.int32]
    lows: NDArray[np.int64]
    loudness: Loudness | None


class Aligner:
    """Takes frames and tells when words were said."""

    def __init__(
        self,
        words: Sequence[Sequence[int]],
        free: Sequence[int],
        frame_s: float,
        *,
        exact: bool = False,
        placer: BoundaryPlacer | None = None,
    ) -> None:
        """Take the tokens of each word, and those that may stand between words.

        With `exact` no word is passed over, and nothing is said that is not in the text. Times are
        those of CTC's frames, or as a placer corrects them.
        """
        self._placer = placer
        self._free = np.array(free, np.int64)
        self._frame_s = frame_s
        lens = np.array([2 * len(tokens) for tokens in words], np.int64)
        self._firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lens)])
        S = int(self._firsts[-1]) + 1
        self._word_of = np.full(S, len(words), np.int64)
        self._labels = np.zeros(S, np.int64)  # the token of each state that is one
        for word, tokens in enumerate(words):
            first, past = self._firsts[word : word + 2]
            self._word_of[first:past] = word
            self._labels[first + 1 : past : 2] = tokens
        self._star_price = np.inf if exact else STAR_PRICE
        self._beam = np.inf if exact else BEAM
        price = np.inf if exact else SKIP_PRICE
        self._prices = np.array([price * len(tokens) for tokens in words], np.float64)
        self._scores, self._new = np.full(S, kernels.NEVER), np.full(S, kernels.NEVER)
        self._scores[0] = 0.0
        self._entries = np.full(len(words) + 1, kernels.NEVER)
        self._sources = np.full(len(words) + 1, -1, np.int64)
        self._span = np.array([0, 1], np.int64)
        self._blocks: list[_Block] = []
        self._found: dict[int, TokenSpan] = {}  # by state

    def add(
        self,
        scores: CtcScores,
        b: int,
        num_frames: int,
        start_s: float,
        loudness: Loudness | None = None,
    ) -> None:
        """Take the frames of utterance b, which begins at a time in the recording."""
        if num_frames == 0:
            return
        # Before an utterance there was a pause: a frame of nothing but a blank.
        pause = np.full((1, scores.log_probs.shape[2]), IMPOSSIBLE, np.float32)
        pause[0, -1] = 0.0
        frames = np.concatenate([pause, scores.log_probs[b, :num_frames]])
        columns = scores.columns[self._labels]
        free = [*scores.columns[self._free].tolist(), frames.shape[1] - 1]
        stars = frames.max(axis=1) - self._star_price
        gaps = np.maximum(frames[:, free].max(axis=1), stars).astype(np.float64)
        start_s -= self._frame_s
        for begin in range(0, len(frames), LAG_FRAMES // 2):
            part = slice(begin, begin + LAG_FRAMES // 2)
            T = len(frames[part])
            back = np.empty((T, min(len(self._labels), WIDTH)), np.int32)
            lows = np.empty(T, np.int64)
            kernels.advance(
                frames[part], gaps[part], self._firsts, self._word_of, columns, self._prices,
                self._beam, self._scores, self._new, self._entries, self._sources, self._span,
                back, lows,
            )  # fmt: skip
            begin_s = start_s + begin * self._frame_s
            self._blocks.append(_Block(begin_s, frames[part], back, lows, loudness))
            if sum(len(block.frames) for block in self._blocks) > LAG_FRAMES:
                low, high = self._span.tolist()
                best = low + int(np.argmax(self._scores[low:high]))
                self._settle(best, LAG_FRAMES // 2, scores)

    def finish(self, scores: CtcScores | None) -> list[tuple[TokenSpan, ...]]:
        """Return the tokens of each word, none where it was not found; `scores` names columns."""
        if self._blocks and scores is not None:
            low, high = self._span.tolist()
            kernels.enter_words(
                self._scores, self._firsts, self._prices, self._word_of[low],
                self._word_of[high - 1], kernels.NEVER, self._entries, self._sources,
            )  # fmt: skip
            if self._entries[-1] > kernels.NEVER:  # else there is no way through the text
                self._settle(int(self._sources[-1]), 0, scores)
        spans = []
        for first, past in zip(self._firsts[:-1].tolist(), self._firsts[1:].tolist(), strict=True):
            found = [self._found.get(state) for state in range(first + 1, past, 2)]
            whole = tuple(span for span in found if span is not None)
            spans.append(whole if len(whole) == len(found) else ())
        return spans

    def _settle(self, state: int, num_left: int, scores: CtcScores) -> None:
        """Read off the best path to a state, and forget all blocks but the last frames."""
        paths: list[NDArray[np.int64]] = []
        for block in reversed(self._blocks):
            paths.append(np.empty(len(block.frames), np.int64))
            state = int(kernels.trace(block.back, block.lows, state, paths[-1]))
        left = sum(len(block.frames) for block in self._blocks)
        while self._blocks and left - len(self._blocks[0].frames) >= num_left:
            block = self._blocks.pop(0)
            left -= len(block.frames)
            self._read_path(block, paths.pop(), scores)

    def _read_path(self, block: _Block, path: NDArray[np.int64], scores: CtcScores) -> None:
        edges = np.flatnonzero(np.diff(path, prepend=-1, append=-1))
        found: dict[int, Peak] = {}  # by state
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            state = int(path[begin])
            word = int(self._word_of[state])
            if (state - int(self._firsts[word])) % 2 == 1 and state not in self._found:
                found[state] = Peak(begin, end, int(self._labels[state]), word)
        peaks = list(found.values())
        if self._placer is not None and block.loudness is not None:
            times = self._placer.place(
                peaks, block.frames, scores.labels, block.start_s, block.loudness
            )
        else:
            frames = ((peak.begin, peak.end) for peak in peaks)
            times = [
                (block.start_s + begin * self._frame_s, block.start_s + end * self._frame_s)
                for begin, end in frames
            ]
        for (state, peak), (start_s, end_s) in zip(found.items(), times, strict=True):
            of_token = block.frames[peak.begin : peak.end, scores.columns[peak.token]]
            self._found[state] = TokenSpan(start_s, end_s, float(of_token.mean(dtype=np.float64)))
