"""The Python API: any recording in, text with times out, in bounded memory."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

sys.path.insert(0, str(Path(__file__).parent / "decode"))
from checkpoints import LETTERS, make_checkpoint

import arborvox
from arborvox.config import DecodeConfig
from arborvox.errors import ArborvoxError
from arborvox.files import read_json, write_json_atomic
from arborvox.recognizer import Recognizer, load


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("model") / "run", max_duration_s=6.0)


@pytest.fixture(scope="module")
def recognizer(run: Path) -> Recognizer:
    return load(run, DecodeConfig(mode="ctc-greedy"))


def speech(seconds: float, rate: int = 16000, seed: int = 0) -> np.ndarray:
    """Return noise with a pause of 0.6 s in every 3 s."""
    chance = np.random.default_rng(seed)
    samples = 0.1 * chance.normal(size=round(seconds * rate))
    samples[np.arange(len(samples)) % (3 * rate) > 2.4 * rate] *= 0.001
    return samples.astype(np.float32)


@pytest.mark.parametrize("ending", ["wav", "flac", "mp3", "ogg"])
def test_any_format_is_read(recognizer: Recognizer, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    soundfile.write(path, speech(2.0), 16000)
    found = recognizer.transcribe(path)
    assert found.duration_s == pytest.approx(2.0, abs=0.1)
    assert len(found.segments) == 1


def test_rates_and_channels_do_not_matter(recognizer: Recognizer, tmp_path: Path) -> None:
    mono, stereo, slow = (tmp_path / name for name in ("mono.wav", "stereo.wav", "slow.wav"))
    samples = speech(2.0)
    soundfile.write(mono, samples, 16000, subtype="FLOAT")
    soundfile.write(stereo, np.stack((samples, samples), axis=1), 16000, subtype="FLOAT")
    soundfile.write(slow, speech(2.0, rate=8000), 8000)
    assert recognizer.transcribe(mono) == recognizer.transcribe(str(stereo))
    assert recognizer.transcribe(slow).duration_s == pytest.approx(2.0)


def test_long_files_are_split_with_times(recognizer: Recognizer, tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, speech(20.0), 16000)
    found = recognizer.transcribe(path)
    starts = [segment.start_s for segment in found.segments]
    assert starts == pytest.approx([0, 3, 6, 9, 12, 15, 18], abs=0.3)
    assert all(s.end_s - s.start_s <= 6.0 for s in found.segments)
    for segment in found.segments:
        assert segment.text == " ".join(word.text for word in segment.words)
        for word in segment.words:
            assert word.start_s is not None
            assert word.end_s is not None
            assert segment.start_s <= word.start_s < word.end_s <= segment.end_s + 0.1


def test_batches_of_segments_change_nothing(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, speech(20.0), 16000)
    alone = load(run, DecodeConfig(mode="ctc-greedy", batch_s=0.1)).transcribe(path)
    together = load(run, DecodeConfig(mode="ctc-greedy", batch_s=100.0)).transcribe(path)
    assert alone.text == together.text
    assert len(alone.segments) == len(together.segments)


@pytest.mark.parametrize("num_samples", [0, 1, 200, 80_000, 320_000])
def test_silence_says_nothing(recognizer: Recognizer, tmp_path: Path, num_samples: int) -> None:
    path = tmp_path / "silence.wav"
    soundfile.write(path, np.zeros(num_samples, np.float32), 16000)
    found = recognizer.transcribe(path)
    assert (found.text, found.segments) == ("", ())
    assert found.duration_s == pytest.approx(num_samples / 16000)


def test_text_named_wav_is_refused(recognizer: Recognizer, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_text("bon dia")
    with pytest.raises(ArborvoxError, match=r"\S+: .*looks like text"):
        recognizer.transcribe(path)


def test_language_is_told_where_the_model_has_tags(tmp_path: Path) -> None:
    units = (*LETTERS[:2], "<ca>", "<es>", *LETTERS[2:])
    run = make_checkpoint(tmp_path / "run", units=units, languages=("ca", "es"), language_tags=True)
    inventory = tmp_path / "only_a.txt"
    inventory.write_text("a\n")
    soundfile.write(tmp_path / "x.wav", speech(4.0), 16000)
    config = DecodeConfig(mode="ctc-beam", inventory=inventory)
    found = load(run, config).transcribe(tmp_path / "x.wav")
    assert set(found.text) <= {"a", " "}
    assert found.language in ("ca", "es", None)


def test_phones_are_words(tmp_path: Path) -> None:
    units = ("<eos>", "<unk>", "a", "t͡ʃ", "ŋ", "o")
    run = make_checkpoint(tmp_path / "run", units=units, unit="phone")
    soundfile.write(tmp_path / "x.wav", speech(2.0), 16000)
    found = load(run, DecodeConfig(mode="ctc-beam")).transcribe(tmp_path / "x.wav")
    words = [word.text for segment in found.segments for word in segment.words]
    assert " ".join(words) == found.text
    assert set(words) <= {*units[2:], "\ufffd"}


def test_newer_checkpoints_are_told_from_ours(run: Path, tmp_path: Path) -> None:
    new = make_checkpoint(tmp_path / "new")
    head = read_json(new / "checkpoint.json")
    write_json_atomic(new / "checkpoint.json", {**head, "version": 99})
    with pytest.raises(ArborvoxError, match=r"format version 99.*newer Arborvox"):
        load(new)
    with pytest.raises(ArborvoxError, match="no checkpoint folder"):
        load(tmp_path / "nothing")


@pytest.mark.slow
def test_an_hour_fits_in_bounded_memory(recognizer: Recognizer, tmp_path: Path) -> None:
    import resource  # where POSIX is

    def grown_mb(minutes: int) -> float:
        path = tmp_path / f"{minutes}.wav"
        with soundfile.SoundFile(path, "w", 16000, 1) as file:
            for minute in range(minutes):
                file.write(speech(60.0, seed=minute))
        recognizer.transcribe(path)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    short = grown_mb(5)
    assert grown_mb(60) - short < 100  # an hour of samples alone would be 230 MB


def test_samples_are_heard_like_the_file(recognizer: Recognizer, tmp_path: Path) -> None:
    """A path, an open file, floats, 16-bit integers, two channels, blocks: one transcript."""
    path = tmp_path / "x.wav"
    samples = np.round(speech(14.0) * 32768).astype(np.int16)
    soundfile.write(path, samples, 16000, subtype="PCM_16")
    wanted = recognizer.transcribe(path)
    assert len(wanted.segments) > 1
    with path.open("rb") as file:
        assert recognizer.transcribe(file) == wanted
    assert recognizer.transcribe(io.BytesIO(path.read_bytes())) == wanted
    floats = samples.astype(np.float32) / 32768
    blocks = np.array_split(samples, 9)
    for given in (samples, floats, floats.tolist(), np.stack((samples, samples), 1), iter(blocks)):
        assert recognizer.transcribe(given, rate=16000) == wanted


def test_samples_of_another_rate_are_resampled(recognizer: Recognizer, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    samples = speech(2.0, rate=48000)
    soundfile.write(path, samples, 48000, subtype="FLOAT")
    wanted = recognizer.transcribe(path)
    assert recognizer.transcribe(samples, rate=48000) == wanted
    assert wanted.duration_s == pytest.approx(2.0, abs=0.01)


def test_segments_come_as_they_are_finished(recognizer: Recognizer) -> None:
    """The first is there long before the sound ends, and in the end they are the same."""
    samples = speech(40.0)
    given: list[int] = []

    def blocks() -> Iterator[np.ndarray]:
        for number, block in enumerate(np.array_split(samples, 40)):
            given.append(number)
            yield block

    segments = recognizer.stream(blocks(), rate=16000)
    first = next(segments)
    assert given[-1] < 10
    found = [first, *segments]
    wanted = recognizer.transcribe(samples, rate=16000).segments
    assert [(s.start_s, s.end_s, s.text) for s in found] == [
        (s.start_s, s.end_s, s.text) for s in wanted
    ]


@pytest.mark.parametrize(
    ("sound", "rate", "told"),
    [
        (np.zeros(100, np.float32), None, "need their rate"),
        (np.zeros(100, np.float32), 0, "not 0"),
        (np.zeros(100, np.float32), 2.5, r"not 2\.5"),
        (np.zeros((2, 3, 4), np.float32), 16000, "shape"),
        (np.array(["a", "b"]), 16000, "numbers"),
        (np.array([1.0, np.nan], np.float32), 16000, "NaN"),
        (np.zeros(9, np.int64), 16000, "32 bits"),
        ([[1.0], [1.0, 2.0]], 16000, "array of numbers"),
        (io.StringIO("text"), None, "binary mode"),
        ("x.wav", 16000, "its own rate"),
    ],
)
def test_what_is_no_sound_is_refused(
    recognizer: Recognizer, sound: object, rate: Any, told: str
) -> None:
    with pytest.raises(ArborvoxError, match=told):
        recognizer.transcribe(sound, rate)


def test_a_device_is_chosen_by_name(run: Path, tmp_path: Path) -> None:
    assert load(run, device="cpu").engine.network.device.type == "cpu"
    with pytest.raises(ArborvoxError, match="Device cuda:99 cannot be used"):
        load(run, DecodeConfig(beam=2), device="cuda:99")
    with pytest.raises(ArborvoxError, match="device: choose auto"):
        load(run, device="gpu")
    tuned = make_checkpoint(tmp_path / "tuned", decode={"ctc_weight": 0.5})
    config = load(tuned, DecodeConfig(beam=2), device="cpu").engine.config
    assert (config.beam, config.ctc_weight) == (2, 0.5)  # what was left open still is


def test_the_package_offers_what_the_api_needs() -> None:
    assert arborvox.DecodeConfig is DecodeConfig
    assert arborvox.load is load
