"""Long recordings cut at their pauses, as they stream by, in bounded memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

HOP_S = 0.02  # energies are measured in steps of this
SMOOTHING_HOPS = 5  # and averaged over so many, so that a closed stop is no pause
MIN_PAUSE_S = 0.4
MARGIN_S = 0.2  # kept on both sides of speech
MIN_SPEECH_S = 0.06  # shorter bursts are clicks
# Quiet is what lies nearer to the recording's floor than to its loud parts, in decibels.
QUIET_SHARE = 0.35
# A recording that is even to this degree is all speech, or all noise.
MIN_CONTRAST_DB = 12.0
# Nothing is said where not even the loudest step reaches this, relative to full scale.
SILENCE_DB = -60.0
TINY_POWER = 1e-12


@dataclass(frozen=True)
class SpeechSegment:
    """A stretch of speech, and where it begins in its recording."""

    start_s: float
    samples: Samples


def split_at_pauses(
    blocks: Iterable[Samples], sampling_rate: int, max_segment_s: float
) -> Iterator[SpeechSegment]:
    """Yield stretches of speech of at most `max_segment_s`, without the silence between them.

    A recording that fits in one stretch is not cut. Of a longer one at most two stretches and a
    block are held at a time.
    """
    window = round(max_segment_s * sampling_rate)
    waiting: Samples = np.zeros(0, np.float32)
    start = 0  # of what waits, in samples
    is_long = False
    for block in blocks:
        waiting = np.concatenate((waiting, block))
        while len(waiting) > window:
            is_long = True
            cut = last_pause(waiting[:window], sampling_rate)
            yield from _speech_in(waiting[:cut], start, sampling_rate, is_long)
            waiting, start = waiting[cut:], start + cut
    yield from _speech_in(waiting, start, sampling_rate, is_long)


def cut_spans(
    blocks: Iterable[Samples], sampling_rate: int, spans: Sequence[tuple[float, float]]
) -> Iterator[SpeechSegment]:
    """Yield the samples of stretches that are known, in seconds and in the order they begin.

    What lies beyond the recording is cut off. The longest stretch and a block are held at a time.
    """
    edges = [(round(a * sampling_rate), round(b * sampling_rate)) for a, b in sorted(spans)]
    waiting: Samples = np.zeros(0, np.float32)
    start = done = 0  # of what waits, in samples; of the stretches
    for block in blocks:
        waiting = np.concatenate((waiting, block))
        while done < len(edges) and edges[done][1] <= start + len(waiting):
            begin, end = edges[done]
            yield SpeechSegment(begin / sampling_rate, waiting[begin - start : end - start])
            done += 1
        if done == len(edges):
            return
        passed = min(max(edges[done][0] - start, 0), len(waiting))
        waiting, start = waiting[passed:], start + passed
    for begin, end in edges[done:]:
        samples = waiting[max(begin - start, 0) : max(end - start, 0)]
        yield SpeechSegment(begin / sampling_rate, samples)


def _speech_in(
    samples: Samples, start: int, sampling_rate: int, is_long: bool
) -> Iterator[SpeechSegment]:
    levels = _levels_db(samples, sampling_rate)
    if not len(levels) or levels.max() < SILENCE_DB:
        return
    spans = _speech_spans(levels) if is_long else [(0, len(levels))]
    hop, margin = round(HOP_S * sampling_rate), round(MARGIN_S * sampling_rate)
    for first, last in spans:
        begin, end = max(0, first * hop - margin), min(len(samples), last * hop + margin)
        yield SpeechSegment((start + begin) / sampling_rate, samples[begin:end])


def _levels_db(samples: Samples, sampling_rate: int) -> NDArray[np.float64]:
    """Return the level of each step in decibels below full scale; the last may be shorter."""
    hop = round(HOP_S * sampling_rate)
    if not len(samples):
        return np.zeros(0)
    starts = np.arange(0, len(samples), hop)
    power = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    power /= np.diff(np.append(starts, len(samples)))
    # The same width at the edges: what lies beyond them is left out of the mean.
    kernel = np.ones(min(SMOOTHING_HOPS, len(power)))
    smooth = np.convolve(power, kernel, "same") / np.convolve(np.ones(len(power)), kernel, "same")
    levels: NDArray[np.float64] = 10.0 * np.log10(smooth + TINY_POWER)
    return levels


def quiet_below(levels: NDArray[np.float64]) -> float:
    """Return the level in decibels below which a recording with these levels is quiet."""
    floor, loud = np.percentile(levels, (5, 95))
    if loud - floor < MIN_CONTRAST_DB:
        return SILENCE_DB
    return max(float(floor + QUIET_SHARE * (loud - floor)), SILENCE_DB)


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return begin and end of each run of true values."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def _pauses(levels: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return begin and end of the pauses; at the edges any quiet is one, as it was cut short."""
    return [
        (begin, end)
        for begin, end in _runs(np.asarray(levels < quiet_below(levels)))
        if (end - begin) * HOP_S >= MIN_PAUSE_S or begin == 0 or end == len(levels)
    ]


def _speech_spans(levels: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return begin and end of the stretches between pauses."""
    silent = np.zeros(len(levels), np.bool_)
    for begin, end in _pauses(levels):
        silent[begin:end] = True
    return [run for run in _runs(~silent) if (run[1] - run[0]) * HOP_S >= MIN_SPEECH_S]


def last_pause(samples: Samples, sampling_rate: int) -> int:
    """Return where to cut: in the last pause, else where the second half is quietest."""
    levels = _levels_db(samples, sampling_rate)
    hop = round(HOP_S * sampling_rate)
    # The pause must have begun to matter: a cut at the very start would leave as much to cut again.
    pauses = [(a, b) for a, b in _pauses(levels) if (a + b) * HOP_S / 2 >= MIN_PAUSE_S]
    if pauses:
        return (pauses[-1][0] + pauses[-1][1]) // 2 * hop
    middle = len(levels) // 2
    return max(1, (middle + int(levels[middle:].argmin())) * hop)
