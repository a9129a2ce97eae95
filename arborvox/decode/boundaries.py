"""Where units begin and end, around the moments at which CTC is sure of them.

CTC says a unit late and for a moment. Next to a pause its loudness tells where speech begins and
ends. Between phones that join, the boundary is where the later one becomes likelier than the
earlier one, by the likelihoods of all phones that are made like the two: a phone of a language
that was never heard is seldom heard as itself. Other units begin when CTC says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arborvox.decode.voice_activity import MIN_CONTRAST_DB, QUIET_SHARE, TINY_POWER, Samples

HOP_S, WINDOW_S = 0.005, 0.02  # of loudness
MIN_PAUSE_S = 0.25  # a closed stop is shorter
# A unit begins at most so long before CTC is sure of it, and goes on for at most so long.
EARLIEST_S, LATEST_S = 0.4, 0.5
# The loudest moment of a unit is sought from so long before CTC is sure of it until so long after.
AROUND_S, AFTER_S = 0.05, 0.15
JOIN_S = 0.5  # what CTC says later than this after a unit does not join it
# Without a pause the last unit of a word lasts so much longer than CTC says it, if there is room.
LAST_UNIT_S = 0.08
TINY_PROB = 1e-8


@dataclass(frozen=True)
class Peak:
    """A unit where CTC says it: some frames of a block, and the place of its word in the text."""

    begin: int
    end: int
    token: int
    word: int


class Loudness:
    """How loud a stretch of a recording is, in steps of `HOP_S`."""

    def __init__(self, samples: Samples, sampling_rate: int, start_s: float) -> None:
        hop, window = round(HOP_S * sampling_rate), round(WINDOW_S * sampling_rate)
        power = np.concatenate([np.zeros(1), np.cumsum(np.square(samples, dtype=np.float64))])
        middles = np.arange(hop // 2, max(len(samples), hop // 2 + 1), hop)
        first = np.maximum(middles - window // 2, 0)
        past = np.minimum(np.maximum(middles + window // 2, first + 1), len(samples))
        mean = (power[past] - power[first]) / np.maximum(past - first, 1)
        self._levels = 10.0 * np.log10(np.maximum(mean, 0.0) + TINY_POWER)
        self._start_s = start_s
        self._floor, loud = np.percentile(self._levels, (5, 95))
        self.has_pauses = bool(loud - self._floor >= MIN_CONTRAST_DB)

    def onset_s(self, sure_s: float, earliest_s: float) -> float | None:
        """Return when speech begins before CTC is sure of it; None if it goes on all along."""
        first, past = self._step(earliest_s), self._step(sure_s + AROUND_S) + 1
        if first >= past or not self.has_pauses:
            return None
        levels = self._levels[first:past]
        quiet = np.flatnonzero(levels[: levels.argmax()] < self._limit(levels))
        return self._time(first + int(quiet[-1]) + 1) if len(quiet) else None

    def offset_s(self, sure_s: float, latest_s: float) -> float | None:
        """Return when speech ends after CTC was sure of it; None if it goes on all along."""
        first, past = self._step(sure_s - AROUND_S), self._step(latest_s)
        if first >= past or not self.has_pauses:
            return None
        levels = self._levels[first:past]
        loudest = int(levels[: self._step(sure_s + AFTER_S) - first].argmax())
        quiet = np.flatnonzero(levels[loudest:] < self._limit(levels))
        return self._time(first + loudest + int(quiet[0])) if len(quiet) else None

    def pause_s(self, begin_s: float, end_s: float) -> tuple[float, float] | None:
        """Return the longest pause between two times, if there is one."""
        first, past = self._step(begin_s), self._step(end_s)
        if (past - first) * HOP_S < MIN_PAUSE_S or not self.has_pauses:
            return None
        quiet = self._levels[first:past] < self._limit(self._levels[first:past])
        edges = np.flatnonzero(np.diff(quiet.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
        longest = max(edges.tolist(), key=lambda edge: edge[1] - edge[0], default=(0, 0))
        if (longest[1] - longest[0]) * HOP_S < MIN_PAUSE_S:
            return None
        return self._time(first + longest[0]), self._time(first + longest[1])

    def _limit(self, levels: NDArray[np.float64]) -> float:
        """What is quiet beside the loudest of some levels."""
        return float(self._floor + QUIET_SHARE * (levels.max() - self._floor))

    def _step(self, at_s: float) -> int:
        return min(max(round((at_s - self._start_s) / HOP_S), 0), len(self._levels))

    def _time(self, step: int) -> float:
        return self._start_s + step * HOP_S


class BoundaryPlacer:
    """Gives units their times."""

    def __init__(
        self, frame_s: float, shift_s: float, kin: NDArray[np.float64] | None = None
    ) -> None:
        """Take what is added to times that CTC alone tells, and how much like each other units are.

        kin is (V, V), ones for a unit and itself; None: units are no phones.
        """
        self._frame_s, self._shift_s, self._kin = frame_s, shift_s, kin

    def place(
        self,
        peaks: Sequence[Peak],
        log_probs: NDArray[np.float32],
        labels: NDArray[np.int64],
        start_s: float,
        loudness: Loudness,
    ) -> list[tuple[float, float]]:
        """Return begin and end of each unit of a block of frames (T, C) that begins at a time."""
        if not peaks:
            return []
        sure = [start_s + peak.begin * self._frame_s for peak in peaks]
        begins = [at_s + self._shift_s for at_s in sure]
        ends = [start_s + p.end * self._frame_s + self._shift_s + LAST_UNIT_S for p in peaks]
        found = loudness.onset_s(sure[0], max(sure[0] - EARLIEST_S, start_s))
        begins[0] = begins[0] if found is None else found
        for k in range(1, len(peaks)):
            before, peak = peaks[k - 1], peaks[k]
            pause = loudness.pause_s(sure[k - 1], sure[k])
            if pause is not None:
                ends[k - 1], begins[k] = pause
            elif peak.word - before.word <= 1 and sure[k] - sure[k - 1] <= JOIN_S:
                if self._kin is not None:
                    crossed = self._crossing(before, peak, log_probs, labels, self._kin)
                    begins[k] = start_s + crossed * self._frame_s + self._shift_s
                if self._kin is not None or peak.word == before.word:
                    ends[k - 1] = begins[k]
        found = loudness.offset_s(sure[-1], sure[-1] + LATEST_S)
        ends[-1] = ends[-1] if found is None else found
        for k in range(1, len(peaks)):  # nothing ends after what comes next has begun
            begins[k] = max(begins[k], begins[k - 1])
            ends[k - 1] = min(max(ends[k - 1], begins[k - 1]), begins[k])
        ends[-1] = max(ends[-1], begins[-1])
        return list(zip(begins, ends, strict=True))

    def _crossing(
        self,
        before: Peak,
        peak: Peak,
        log_probs: NDArray[np.float32],
        labels: NDArray[np.int64],
        kin: NDArray[np.float64],
    ) -> float:
        """Return the place, in frames, where one phone becomes likelier than the one before it."""
        first, last = before.begin, peak.begin
        weights = kin[labels[:-1]][:, [before.token, peak.token]]  # the last column is the blank
        probs = np.exp(log_probs[first : last + 1, :-1].astype(np.float64)) @ weights
        logs = np.log(probs + TINY_PROB)
        ahead = logs[:, 0] - logs[:, 1]  # of the earlier one
        # So many frames belong to the earlier one as make all frames together likeliest.
        mine = 1 + int(np.argmax(np.cumsum(ahead)[:-1])) if len(ahead) > 1 else 1
        if mine < len(ahead) and ahead[mine - 1] > 0 > ahead[mine]:
            # Between the middles of two frames, where the line through them is nought.
            share = float(ahead[mine - 1] / (ahead[mine - 1] - ahead[mine]))
            return first + mine - 0.5 + share
        return float(first + mine)
