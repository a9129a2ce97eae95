"""Long recordings fall apart at their pauses; nothing that was said is lost."""

from collections.abc import Iterator

import numpy as np
import pytest

from arborvox.decode.segments import Samples, SpeechSegment, split_at_pauses

RATE = 8000


def noise(seconds: float, level: float, seed: int = 0) -> Samples:
    chance = np.random.default_rng(seed)
    return (level * chance.normal(size=round(seconds * RATE))).astype(np.float32)


def split(samples: Samples, max_segment_s: float, block_s: float = 1.0) -> list[SpeechSegment]:
    size = round(block_s * RATE)
    blocks: Iterator[Samples] = (samples[i : i + size] for i in range(0, len(samples), size))
    return list(split_at_pauses(blocks, RATE, max_segment_s))


def talk(*parts: tuple[float, float]) -> Samples:
    """Return speech and pause in turn, in seconds."""
    pieces = [
        noise(length, level, seed)
        for seed, (speech_s, pause_s) in enumerate(parts)
        for length, level in ((speech_s, 0.2), (pause_s, 0.001))
    ]
    return np.concatenate(pieces)


def test_short_recordings_stay_whole() -> None:
    samples = talk((1.0, 1.0), (1.0, 1.0))
    (only,) = split(samples, max_segment_s=30.0)
    assert only.start_s == 0.0
    assert np.array_equal(only.samples, samples)


def test_long_recordings_are_split_at_their_pauses() -> None:
    parts = [(2.0, 0.8), (3.0, 0.6), (1.5, 1.0), (2.5, 0.7), (2.0, 0.9)]
    found = split(talk(*parts), max_segment_s=6.0)
    begin = 0.0
    starts = []
    for speech_s, pause_s in parts:
        starts.append(begin)
        begin += speech_s + pause_s
    assert [segment.start_s for segment in found] == pytest.approx(starts, abs=0.3)
    lengths = [len(segment.samples) / RATE for segment in found]
    assert lengths == pytest.approx([speech_s for speech_s, _ in parts], abs=0.5)


@pytest.mark.parametrize("block_s", [0.1, 1.0, 7.0, 100.0])
def test_blocks_do_not_matter(block_s: float) -> None:
    samples = talk((2.0, 0.8), (9.0, 0.6), (1.5, 1.0), (14.0, 0.7))
    wanted, found = split(samples, 6.0), split(samples, 6.0, block_s)
    assert [s.start_s for s in wanted] == [s.start_s for s in found]
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(wanted, found, strict=True))


@pytest.mark.parametrize("level", [0.2, 0.005])
def test_speech_without_pauses_is_cut_and_complete(level: float) -> None:
    samples = noise(20.0, level)
    found = split(samples, max_segment_s=3.0)
    assert np.array_equal(np.concatenate([segment.samples for segment in found]), samples)
    assert all(len(segment.samples) <= 3.0 * RATE for segment in found)


def test_no_segment_is_longer_than_allowed() -> None:
    found = split(talk((2.0, 0.3), (9.0, 0.6), (14.0, 0.1), (3.0, 5.0)), max_segment_s=4.0)
    assert max(len(segment.samples) for segment in found) <= 4.0 * RATE


@pytest.mark.parametrize("seconds", [0.0, 0.001, 3.0, 50.0])
def test_silence_has_no_segments(seconds: float) -> None:
    assert split(np.zeros(round(seconds * RATE), np.float32), max_segment_s=10.0) == []


def test_faint_noise_is_silence() -> None:
    assert split(noise(50.0, 1e-4), max_segment_s=10.0) == []
