"""Speech is told from pauses: by energy where it is quiet, by Silero in noise as well."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from arborvox.config import DecodeConfig
from arborvox.config.choices import values_of
from arborvox.decode import voice_activity
from arborvox.decode.segments import SpeechSegment, split_at_pauses
from arborvox.decode.voice_activity import VOICE_ACTIVITIES, Samples, load_silero, quiet_by_energy
from arborvox.errors import ArborvoxError
from arborvox.recognizer import load

sys.path.insert(0, str(Path(__file__).parent.parent))
from checkpoints import make_checkpoint

RATE = 16_000
SPOKEN_S = ((2.0, 4.5), (7.0, 9.5), (13.0, 15.5))  # where something is said
LENGTH_S = 18.0


@pytest.fixture(scope="module")
def silero() -> voice_activity.SileroQuiet:
    for module in ("silero_vad", "onnxruntime"):
        pytest.importorskip(module, reason="needs the extra: pip install 'arborvox[vad]'")
    return load_silero()


@pytest.fixture(scope="module")
def speech() -> Samples:
    """Three sentences between pauses."""
    pytest.importorskip("espeakng_loader", reason="needs the extra: pip install 'arborvox[demo]'")
    import soxr

    from arborvox.corpora.espeak import ESPEAK_RATE_HZ, Espeak, Voice

    here = Path.cwd()
    espeak = Espeak()
    spoken = np.zeros(round(LENGTH_S * RATE), np.float32)
    voice = Voice("es", "f2", 150, 50, 50)
    for seed, (start_s, end_s) in enumerate(SPOKEN_S):
        said = espeak.speak("la casa grande de la montaña tiene una puerta verde", voice, seed=seed)
        samples = np.frombuffer(said.pcm, np.int16).astype(np.float32) / 2**15
        samples = soxr.resample(samples, ESPEAK_RATE_HZ, RATE)[: round((end_s - start_s) * RATE)]
        at = round(start_s * RATE)
        spoken[at : at + len(samples)] = samples
    os.chdir(here)  # the library takes the working directory
    return spoken / np.abs(spoken).max() * 0.3


def in_noise(speech: Samples, ratio_db: float) -> Samples:
    """Mix speech with brown noise, as wind and engines are, at a ratio of their powers."""
    noise = np.cumsum(np.random.default_rng(0).normal(size=len(speech)))
    noise -= np.convolve(noise, np.ones(801) / 801, "same")
    power = np.mean(np.square(speech[np.abs(speech) > 0.01]))
    scale = np.sqrt(power / 10 ** (ratio_db / 10) / np.mean(np.square(noise)))
    return (speech + scale * noise).astype(np.float32)


def agreement(quiet: NDArray[np.bool_]) -> float:
    """How many steps are judged as they were made, a fifth of a second around edges aside."""
    middles = (np.arange(len(quiet)) + 0.5) * voice_activity.HOP_S
    spoken = np.zeros(len(quiet), bool)
    near = np.zeros(len(quiet), bool)
    for start_s, end_s in SPOKEN_S:
        spoken |= (middles >= start_s) & (middles < end_s)
        near |= (np.abs(middles - start_s) < 0.2) | (np.abs(middles - end_s) < 0.2)
    return float(np.mean((quiet != spoken)[~near]))


@pytest.mark.parametrize("ratio_db", [40.0, 10.0, 5.0])
def test_silero_tells_speech_from_noise(
    silero: voice_activity.SileroQuiet, speech: Samples, ratio_db: float
) -> None:
    assert agreement(silero(in_noise(speech, ratio_db), RATE)) > 0.9


def test_energy_does_so_where_it_is_quiet_alone(speech: Samples) -> None:
    assert agreement(quiet_by_energy(in_noise(speech, 40.0), RATE)) > 0.9
    assert agreement(quiet_by_energy(in_noise(speech, 5.0), RATE)) < 0.8


def test_noisy_recordings_are_cut_at_their_pauses(
    silero: voice_activity.SileroQuiet, speech: Samples
) -> None:
    found = list(split_at_pauses([in_noise(speech, 5.0)], RATE, 8.0, silero))
    middles = [(start_s + end_s) / 2 for start_s, end_s in SPOKEN_S]
    assert [_middle(segment) for segment in found] == pytest.approx(middles, abs=0.6)


def _middle(segment: SpeechSegment) -> float:
    return segment.start_s + len(segment.samples) / RATE / 2


@pytest.mark.parametrize("rate", [8000, 11_025, 44_100])
def test_silero_hears_at_any_rate(
    silero: voice_activity.SileroQuiet, speech: Samples, rate: int
) -> None:
    import soxr

    quiet = silero(soxr.resample(in_noise(speech, 20.0), RATE, rate), rate)
    hop = round(voice_activity.HOP_S * rate)
    assert len(quiet) == -(-round(LENGTH_S * rate) // hop)
    assert agreement(quiet) > 0.85


@pytest.mark.parametrize("kind", values_of(voice_activity.VoiceActivity))
@pytest.mark.parametrize("num_samples", [0, 1, 319, 320, 321, 511, 513])
def test_every_step_of_any_length_is_judged(
    silero: voice_activity.SileroQuiet, kind: str, num_samples: int
) -> None:
    find_quiet = VOICE_ACTIVITIES[kind]()  # type: ignore[index]
    quiet = find_quiet(np.zeros(num_samples, np.float32), RATE)
    assert len(quiet) == -(-num_samples // 320)
    assert quiet.all()


def test_likely_speech_goes_on_until_it_is_unlikely() -> None:
    probs = np.array([0.4, 0.6, 0.4, 0.3, 0.4, 0.9], np.float32)
    told = voice_activity._with_inertia(probs)
    assert told.tolist() == [False, True, True, False, False, True]


def test_a_recognizer_cuts_as_it_is_asked(
    silero: voice_activity.SileroQuiet, speech: Samples, tmp_path: Path
) -> None:
    run = make_checkpoint(tmp_path / "run", max_duration_s=8.0)
    noisy = in_noise(speech, 5.0)
    config = DecodeConfig(mode="ctc-greedy", vad="silero")
    found = load(run, config).transcribe(noisy, RATE).segments
    assert len(found) == len(SPOKEN_S)
    streamed = load(run, config).stream(noisy, RATE)
    assert [s.start_s for s in streamed] == [s.start_s for s in found]
    plain = load(run, DecodeConfig(mode="ctc-greedy")).transcribe(noisy, RATE).segments
    assert [s.start_s for s in plain] != [s.start_s for s in found]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_activity.util, "find_spec", lambda name: None)
    load_silero.cache_clear()
    with pytest.raises(ArborvoxError, match=r"pip install 'arborvox\[vad\]'"):
        VOICE_ACTIVITIES["silero"]()
    load_silero.cache_clear()
