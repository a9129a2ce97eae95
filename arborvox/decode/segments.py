"""Long recordings cut at their pauses, as they stream by, in bounded memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arborvox.decode.voice_activity import HOP_S, FindQuiet, Samples, levels_db, quiet_by_energy

MIN_PAUSE_S = 0.4
MARGIN_S = 0.2  # kept on both sides of speech
MIN_SPEECH_S = 0.06  # shorter bursts are clicks


@dataclass(frozen=True)
class SpeechSegment:
    """A stretch of speech, and where it begins in its recording."""

    start_s: float
    samples: Samples


def split_at_pauses(
    blocks: Iterable[Samples],
    sampling_rate: int,
    max_segment_s: float,
    find_quiet: FindQuiet = quiet_by_energy,
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
            cut = last_pause(waiting[:window], sampling_rate, find_quiet)
            yield from _speech_in(waiting[:cut], start, sampling_rate, find_quiet, is_long)
            waiting, start = waiting[cut:], start + cut
    yield from _speech_in(waiting, start, sampling_rate, find_quiet, is_long)


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
    samples: Samples, start: int, sampling_rate: int, find_quiet: FindQuiet, is_long: bool
) -> Iterator[SpeechSegment]:
    quiet = find_quiet(samples, sampling_rate)
    if quiet.all():
        return
    spans = _speech_spans(quiet) if is_long else [(0, len(quiet))]
    hop, margin = round(HOP_S * sampling_rate), round(MARGIN_S * sampling_rate)
    for first, last in spans:
        begin, end = max(0, first * hop - margin), min(len(samples), last * hop + margin)
        yield SpeechSegment((start + begin) / sampling_rate, samples[begin:end])


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return begin and end of each run of true values."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def _pauses(quiet: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return begin and end of the pauses; at the edges any quiet is one, as it was cut short."""
    return [
        (begin, end)
        for begin, end in _runs(quiet)
        if (end - begin) * HOP_S >= MIN_PAUSE_S or begin == 0 or end == len(quiet)
    ]


def _speech_spans(quiet: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return begin and end of the stretches between pauses."""
    silent = np.zeros(len(quiet), np.bool_)
    for begin, end in _pauses(quiet):
        silent[begin:end] = True
    return [run for run in _runs(~silent) if (run[1] - run[0]) * HOP_S >= MIN_SPEECH_S]


def last_pause(
    samples: Samples, sampling_rate: int, find_quiet: FindQuiet = quiet_by_energy
) -> int:
    """Return where to cut: in the last pause, else where the second half is quietest."""
    quiet = find_quiet(samples, sampling_rate)
    hop = round(HOP_S * sampling_rate)
    # The pause must have begun to matter: a cut at the very start would leave as much to cut again.
    pauses = [(a, b) for a, b in _pauses(quiet) if (a + b) * HOP_S / 2 >= MIN_PAUSE_S]
    if pauses:
        return (pauses[-1][0] + pauses[-1][1]) // 2 * hop
    levels = levels_db(samples, sampling_rate)
    middle = len(levels) // 2
    return max(1, (middle + int(levels[middle:].argmin())) * hop)
