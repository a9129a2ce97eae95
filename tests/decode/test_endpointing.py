"""Speech is cut at pauses as it comes, and what comes later changes no cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.decode.endpointing import PAUSE_S, PauseCutter, cut_at_pauses
from arborvox.decode.segments import Samples, SpeechSegment

RATE = 8000


def talk(*parts: tuple[float, float], floor: float = 0.001) -> Samples:
    """Return speech and pause in turn, in seconds."""
    chance = np.random.default_rng(0)
    pieces = [
        level * chance.normal(size=round(length * RATE))
        for speech_s, pause_s in parts
        for length, level in ((speech_s, 0.2), (pause_s, floor))
    ]
    return np.concatenate(pieces).astype(np.float32)


def cut(samples: Samples, max_segment_s: float = 6.0, size: int = 1000) -> list[SpeechSegment]:
    blocks = (samples[start : start + size] for start in range(0, len(samples), size))
    return list(cut_at_pauses(blocks, RATE, max_segment_s))


def test_each_pause_ends_a_segment() -> None:
    parts = [(2.0, 0.8), (3.0, 0.9), (1.5, 1.0), (2.5, 0.8)]
    found = cut(talk(*parts))
    starts = np.cumsum([0.0, *(sum(part) for part in parts[:-1])])
    assert [segment.start_s for segment in found] == pytest.approx(starts, abs=0.25)
    lengths = [len(segment.samples) / RATE for segment in found]
    assert lengths == pytest.approx([speech_s for speech_s, _ in parts], abs=0.55)


def test_short_pauses_end_nothing() -> None:
    assert len(cut(talk((1.0, 0.2), (1.0, 0.3), (1.0, 0.2)))) == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 9000), min_size=1, max_size=40))
def test_the_size_of_blocks_changes_nothing(sizes: list[int]) -> None:
    samples = talk((1.0, 0.7), (7.5, 0.8), (0.5, 1.2), (2.0, 0.1))
    cutter = PauseCutter(RATE, 6.0)
    found, start = [], 0
    for size in sizes:
        found += cutter.push(samples[start : start + size])
        start += size
    found += cutter.push(samples[start:])
    found += cutter.finish()
    wanted = cut(samples)
    assert [segment.start_s for segment in found] == [segment.start_s for segment in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one.samples, other.samples)
    assert cutter.num_samples == len(samples)


def test_the_future_changes_no_cut() -> None:
    """What was given out when speech went on is given out when it ends there, too."""
    samples = talk((2.0, 0.9), (1.0, 0.9), (3.0, 0.9))
    cutter = PauseCutter(RATE, 6.0)
    early = cutter.push(samples[: 5 * RATE])
    late = cut(samples)
    assert early
    for one, other in zip(early, late, strict=False):
        assert one.start_s == other.start_s
        assert np.array_equal(one.samples, other.samples)


def test_no_segment_is_longer_than_the_model_knows() -> None:
    found = cut(talk((40.0, 0.5)), max_segment_s=6.0)
    lengths = [len(segment.samples) / RATE for segment in found]
    assert max(lengths) <= 6.0
    assert sum(lengths) > 39.0  # nothing is lost
    ends = [segment.start_s + length for segment, length in zip(found, lengths, strict=True)]
    assert [segment.start_s for segment in found[1:]] == pytest.approx(ends[:-1])


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.5, 20.0])
def test_silence_is_no_speech(seconds: float) -> None:
    assert cut(np.zeros(round(seconds * RATE), np.float32)) == []


def test_little_is_held_however_long_nobody_speaks() -> None:
    cutter = PauseCutter(RATE, 6.0)
    for _ in range(100):
        cutter.push(np.zeros(RATE, np.float32))
        assert len(cutter._waiting) < RATE
    assert cutter.running is None
    assert cutter.num_samples == 100 * RATE


def test_what_is_running_is_there_to_be_heard() -> None:
    cutter = PauseCutter(RATE, 6.0)
    samples = talk((2.0, PAUSE_S + 0.3))
    cutter.push(samples[:RATE])
    running = cutter.running
    assert running is not None
    assert np.array_equal(running.samples, samples[:RATE])
    assert len(cutter.push(samples[RATE:])) == 1
    assert cutter.running is None


def test_after_a_little_quiet_the_segment_is_known() -> None:
    """Unless somebody goes on, what is running then is what the end of the pause gives out."""
    samples = talk((1.0, 0.9), (2.0, 0.42), (1.0, 0.8))
    cutter = PauseCutter(RATE, 6.0)
    foreseen: list[SpeechSegment] = []
    ended: list[SpeechSegment] = []
    for start in range(0, len(samples), 90):
        found = cutter.push(samples[start : start + 90])
        ended += found
        if cutter.is_quiet:
            running = cutter.running
            assert running is not None
            foreseen.append(running)
        for segment in found:
            assert segment.start_s == foreseen[-1].start_s
            assert np.array_equal(segment.samples, foreseen[-1].samples)
    assert len(ended) == 2
    # The two, and the half of the second one, which somebody paused in for less than a pause.
    assert len({(each.start_s, len(each.samples)) for each in foreseen}) == 3
    assert not cutter.is_quiet
