"""Speech cut at its pauses while it is being said: what comes later changes no cut."""

import math
from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from arborvox.decode.segments import MARGIN_S, MIN_SPEECH_S, SpeechSegment, last_pause
from arborvox.decode.voice_activity import (
    HOP_S,
    SILENCE_DB,
    SMOOTHING_HOPS,
    TINY_POWER,
    Samples,
    quiet_below,
)

PAUSE_S = 0.5  # of quiet ends a segment
MEMORY_S = 30.0  # of levels tell loud from quiet
JUDGED_HOPS = 10  # what is quiet is judged anew after so many


class PauseCutter:
    """Takes samples as they come and gives a segment when somebody has paused.

    The size of the blocks changes nothing. At most a segment, which is never longer than
    `max_segment_s`, and a block are held.
    """

    def __init__(self, sampling_rate: int, max_segment_s: float) -> None:
        """Begin with nothing heard."""
        self._rate = sampling_rate
        self._hop = round(HOP_S * sampling_rate)
        self._margin = round(MARGIN_S * sampling_rate)
        self._longest = round(max_segment_s * sampling_rate)
        self._waiting: Samples = np.zeros(0, np.float32)
        self._start = 0  # of what waits, in samples from the beginning
        self._heard = 0  # where the next step of levels begins
        self._powers: deque[float] = deque(maxlen=SMOOTHING_HOPS)
        self._levels: deque[float] = deque(maxlen=round(MEMORY_S / HOP_S))
        self._num_hops = 0
        self._quiet_below = SILENCE_DB
        self._begin: int | None = None  # of the running segment
        self._num_loud = self._num_quiet = 0  # steps of it, and of the quiet at its end

    @property
    def num_samples(self) -> int:
        """How many samples were given."""
        return self._start + len(self._waiting)

    @property
    def running(self) -> SpeechSegment | None:
        """What was said since the last pause, if anything; of quiet behind it a margin at most."""
        if self._begin is None:
            return None
        end = self._end_of_running() if self.is_quiet else self.num_samples
        return self._cut_out(self._begin, end)

    @property
    def is_quiet(self) -> bool:
        """Whether `running` is the segment that it will be unless somebody goes on speaking."""
        return self._begin is not None and self._num_quiet * self._hop >= self._margin

    def push(self, block: Samples) -> list[SpeechSegment]:
        """Take the next samples; return the segments that they have ended."""
        self._waiting = np.concatenate((self._waiting, block))
        num_hops = (self.num_samples - self._heard) // self._hop
        first = self._heard - self._start
        steps = self._waiting[first : first + num_hops * self._hop].reshape(-1, self._hop)
        found: list[SpeechSegment] = []
        for power in np.square(steps, dtype=np.float64).mean(axis=1).tolist():
            found += self._step(power, self._hop)
        self._let_go()
        return found

    def finish(self) -> list[SpeechSegment]:
        """Return what was still running when the sound ended."""
        rest = self._waiting[self._heard - self._start :]
        found = (
            self._step(float(np.square(rest, dtype=np.float64).mean()), len(rest))
            if len(rest)
            else []
        )
        found += self._end()
        self._let_go()
        return found

    def _step(self, power: float, length: int) -> list[SpeechSegment]:
        """Look at one more step of sound."""
        self._powers.append(power)
        level = 10.0 * math.log10(sum(self._powers) / len(self._powers) + TINY_POWER)
        self._levels.append(level)
        self._num_hops += 1
        if self._num_hops % JUDGED_HOPS == 0:
            self._quiet_below = quiet_below(np.array(self._levels))
        begin, self._heard = self._heard, self._heard + length
        if level < self._quiet_below:
            self._num_quiet += 1
            if self._begin is not None and self._num_quiet * HOP_S >= PAUSE_S:
                return self._end()
            return []
        if self._begin is None:
            self._begin = max(begin - self._margin, self._start)
            self._num_loud = 0
        self._num_loud += 1
        self._num_quiet = 0
        if self._heard - self._begin < self._longest:
            return []
        # Somebody speaks without a pause for longer than the model was trained on.
        whole = self._cut_out(self._begin, self._heard)
        cut = last_pause(whole.samples, self._rate)
        self._begin += cut
        return [SpeechSegment(whole.start_s, whole.samples[:cut])]

    def _end(self) -> list[SpeechSegment]:
        """End the running segment, with a margin of the quiet behind it."""
        if self._begin is None:
            return []
        begin, end = self._begin, self._end_of_running()
        self._begin = None
        if self._num_loud * HOP_S < MIN_SPEECH_S and self._num_hops * HOP_S >= MIN_SPEECH_S:
            return []  # a click
        return [self._cut_out(begin, end)]

    def _end_of_running(self) -> int:
        """Where the running segment ends if nothing more is said."""
        quiet = max(self._num_quiet * self._hop - self._margin, 0)
        return max(self._heard - quiet, self._begin or 0)

    def _let_go(self) -> None:
        """Forget what no segment can hold any more."""
        kept = self._heard - self._margin if self._begin is None else self._begin
        passed = max(kept - self._start, 0)
        self._waiting, self._start = self._waiting[passed:], self._start + passed

    def _cut_out(self, begin: int, end: int) -> SpeechSegment:
        samples = self._waiting[begin - self._start : end - self._start]
        return SpeechSegment(begin / self._rate, samples)


def cut_at_pauses(
    blocks: Iterable[Samples], sampling_rate: int, max_segment_s: float
) -> Iterator[SpeechSegment]:
    """Yield segments as a `PauseCutter` ends them, whatever the size of the blocks."""
    cutter = PauseCutter(sampling_rate, max_segment_s)
    for block in blocks:
        yield from cutter.push(block)
    yield from cutter.finish()
