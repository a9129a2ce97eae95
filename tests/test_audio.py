"""Laws of reading audio: good files of every kind are read, broken ones named, none is fatal."""

import builtins
import contextlib
import multiprocessing
import os
import signal
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from arborvox import audio
from arborvox.audio.chatter import catch_chatter
from arborvox.audio.parallel import Verdict, map_surviving
from arborvox.audio.recording import open_recording

RATE = 16000


def tone(duration_s: float = 1.0, rate: int = RATE, channels: int = 1) -> np.ndarray:
    """A sine of 220 Hz in the first channel, and quieter ones in the others."""
    wave = 0.5 * np.sin(2 * np.pi * 220 * np.arange(round(duration_s * rate)) / rate)
    return np.stack([wave / (1 + channel) for channel in range(channels)], axis=1)


def write(path: Path, samples: np.ndarray, rate: int = RATE, **options: Any) -> Path:
    soundfile.write(path, samples, rate, **options)
    return path


def speech(duration_s: float = 1.0, rate: int = RATE, channels: int = 1) -> np.ndarray:
    """Noise that swells and falls: codecs spend as many bits on it as on a voice."""
    num = round(duration_s * rate)
    envelope = 0.2 + 0.2 * np.sin(2 * np.pi * 3 * np.arange(num) / rate)
    return envelope[:, None] * np.random.default_rng(0).uniform(-1, 1, (num, channels))


def write_mp3_without_table(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    """An MP3 as Common Voice has it: its first frame, which states the length, is left out."""
    content = write(path, samples, rate).read_bytes()
    path.write_bytes(content[content.index(content[:2], 200) :])
    return path


def cut(path: Path, ratio: float) -> Path:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * ratio)])
    return path


def reason(path: Path, *, decode: bool = True, **limits: float) -> str:
    with pytest.raises(audio.AudioProblem) as caught:
        audio.check(path, **{"max_duration_s": 60.0, **limits}, decode=decode)
    assert str(path) not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.wav", {"subtype": "PCM_16"}),
        ("a.wav", {"subtype": "PCM_U8"}),
        ("a.wav", {"subtype": "PCM_24"}),
        ("a.wav", {"subtype": "FLOAT"}),
        ("a.wav", {"subtype": "ULAW"}),
        ("a.wav", {"subtype": "MS_ADPCM"}),
        ("a.aiff", {}),
        ("a.flac", {}),
        ("a.ogg", {}),
        ("a.opus", {"format": "OGG", "subtype": "OPUS"}),
        ("a.mp3", {}),
    ],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_every_format_is_read_as_the_mean_of_its_channels(
    tmp_path: Path, name: str, options: dict[str, str], channels: int
) -> None:
    original = tone(channels=channels)
    path = write(tmp_path / name, original, **options)
    samples = audio.load(path)
    info = audio.check(path, max_duration_s=60, decode=True)
    assert samples.dtype == np.float32 and samples.ndim == 1
    assert info.num_channels == channels and info.sampling_rate == RATE
    assert len(samples) == info.num_samples == pytest.approx(RATE, abs=1200)
    inner = slice(4000, 12000)
    assert np.sqrt(np.mean((samples[inner] - original.mean(axis=1)[inner]) ** 2)) < 0.05


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_resampling_keeps_duration_and_pitch(tmp_path: Path, rate: int) -> None:
    samples = audio.load(write(tmp_path / "a.wav", tone(2.0, rate), rate))
    assert len(samples) == 2 * RATE
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) / 2.0 == pytest.approx(220, abs=1)


@pytest.mark.parametrize("rate", [RATE, 22050])
@pytest.mark.parametrize("block_s", [0.3, 1.0, 100.0])
def test_streamed_blocks_make_the_whole(tmp_path: Path, rate: int, block_s: float) -> None:
    path = write(tmp_path / "a.wav", tone(2.5, rate, channels=2), rate)
    blocks = list(audio.stream(path, RATE, block_s))
    assert all(len(block) == round(block_s * RATE) for block in blocks[:-1])
    assert 0 < len(blocks[-1]) <= round(block_s * RATE)
    np.testing.assert_allclose(np.concatenate(blocks), audio.load(path), atol=1e-5)


def test_streaming_needs_memory_for_a_block_only(tmp_path: Path) -> None:
    path = write(tmp_path / "long.wav", tone(600.0))  # 38 MB as float32
    tracemalloc.start()
    try:
        total = sum(len(block) for block in audio.stream(path, RATE, 5.0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == 600 * RATE
    assert peak < 8e6


def test_loud_floats_are_left_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", 4 * tone(), subtype="FLOAT")
    assert np.abs(audio.load(path)).max() == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("extension", [".mp3", ".flac", ".vox", ".txt", ""])
def test_content_decides_and_not_the_name(tmp_path: Path, extension: str) -> None:
    path = write(tmp_path / "a.wav", tone())
    renamed = path.rename(tmp_path / f"renamed{extension}")
    assert audio.check(renamed, max_duration_s=60, decode=True).num_samples == RATE


@pytest.mark.parametrize("name", ["a.mp3", "a.wav", "a.vox"])
@pytest.mark.parametrize("content", ["plain words\n" * 99, "<!DOCTYPE html>", "Ünïcödé ไทย " * 500])
def test_text_is_not_audio(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert reason(path, decode=False) == "not audio (looks like text)"


@pytest.mark.parametrize(
    "content", [bytes(5000), bytes(range(1, 256)) * 20, b"\x89PNG\r\n\x1a\n\0"]
)
def test_other_bytes_are_not_audio(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(content)
    assert reason(path) == "not audio"


@pytest.mark.parametrize("name", ["a.flac", "a.mp3", "a.wav"])
def test_truncated_file_says_how_much_is_left(tmp_path: Path, name: str) -> None:
    path = cut(write(tmp_path / name, tone(4.0)), 0.5)
    assert reason(path).startswith("truncated: header says 4.0 s, ")
    with pytest.raises(audio.AudioProblem, match="truncated"):
        audio.load(path)
    with pytest.raises(audio.AudioProblem, match="truncated"):
        list(audio.stream(path))


@pytest.mark.parametrize("name", ["a.wav", "a.aiff"])
def test_truncated_samples_are_seen_in_the_header(tmp_path: Path, name: str) -> None:
    path = cut(write(tmp_path / name, tone(4.0)), 0.5)
    assert reason(path, decode=False) == "truncated: header says 4.0 s, 2.0 s decoded"


def test_wav_with_an_open_length_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone())
    content = bytearray(path.read_bytes())
    at = content.index(b"data") + 4
    content[at : at + 4] = struct.pack("<I", 0xFFFFFFFF)  # what a recorder leaves in a pipe
    path.write_bytes(content)
    assert audio.check(path, max_duration_s=60, decode=True).num_samples == RATE


def test_flac_with_an_open_length_is_measured(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", tone())
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0  # the 36 bits of STREAMINFO that count samples
    content[22:26] = bytes(4)
    path.write_bytes(content)
    assert audio.read_info(path).num_samples == RATE
    assert reason(path, max_duration_s=0.5) == "too long: more than 0.5 s"


def test_mp3_behind_a_large_tag_is_still_checked_for_its_length(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp3", tone(4.0))
    tag = b"ID3\x04\0\0" + bytes([0, 0, 40, 0]) + bytes(40 << 7)
    path.write_bytes(tag + path.read_bytes())
    assert audio.check(path, max_duration_s=60, decode=True).duration_s == pytest.approx(4, abs=0.1)
    assert reason(cut(path, 0.6)).startswith("truncated: header says 4.0 s")


OGG_KINDS = [("a.ogg", {}), ("a.opus", {"format": "OGG", "subtype": "OPUS"})]


@pytest.mark.parametrize(("name", "options"), OGG_KINDS)
@pytest.mark.parametrize("ratio", [0.3, 0.6, 0.9, 0.999])
def test_ogg_without_its_end_is_truncated(
    tmp_path: Path, name: str, options: dict[str, str], ratio: float
) -> None:
    path = cut(write(tmp_path / name, speech(4.0), **options), ratio)
    assert reason(path).startswith(("truncated: ", "no samples"))


@pytest.mark.parametrize(("name", "options"), OGG_KINDS)
def test_ogg_cut_between_two_pages_is_truncated(
    tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    path = write(tmp_path / name, speech(4.0), **options)
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(b"OggS")])
    assert reason(path) == "truncated: no end page (Ogg)"
    path.write_bytes(content + bytes(100))  # what follows the end is nobody's business
    audio.check(path, max_duration_s=60, decode=True)


@pytest.mark.parametrize(("name", "options"), OGG_KINDS)
def test_every_flipped_bit_of_an_ogg_is_noticed(
    tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    path = write(tmp_path / name, speech(4.0), **options)
    content = path.read_bytes()
    for place in np.random.default_rng(1).integers(0, len(content), 40):
        flipped = bytearray(content)
        flipped[place] ^= 0x10
        path.write_bytes(flipped)
        assert reason(path)
    pages = [at for at in range(len(content)) if content.startswith(b"OggS", at)]
    path.write_bytes(content[: pages[2]] + content[pages[3] :])
    assert reason(path).startswith(("damaged: Ogg pages are missing", "damaged Ogg"))


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
@pytest.mark.parametrize("channels", [1, 2])
def test_mp3_without_a_table_that_is_cut_is_truncated(
    tmp_path: Path, rate: int, channels: int
) -> None:
    path = write_mp3_without_table(tmp_path / "a.mp3", speech(4.0, rate, channels), rate)
    assert audio.check(path, max_duration_s=60, decode=True).duration_s == pytest.approx(4, abs=0.3)
    content = path.read_bytes()
    for ratio in (0.3, 0.6, 0.95):
        frame = content.index(content[:2], int(len(content) * ratio))
        path.write_bytes(content[: frame - 5])
        assert reason(path).startswith("truncated: the last MP3 frame ")


@pytest.mark.parametrize("loud_at", [0, 1])
def test_mp3_of_varying_bit_rate_is_read_to_its_end_without_a_table(
    tmp_path: Path, loud_at: int
) -> None:
    pytest.importorskip("av", reason="needs the extra `formats`")
    samples = speech(6.0) * np.linspace(1 - loud_at, loud_at, 6 * RATE)[:, None] ** 8
    path = write_mp3_without_table(tmp_path / "a.mp3", samples)
    with soundfile.SoundFile(path) as sound:
        assert not 5 * RATE < sound.frames < 7 * RATE  # what libsndfile takes it for
    assert audio.check(path, max_duration_s=60, decode=True).duration_s == pytest.approx(6, abs=0.2)
    assert audio.read_info(path).duration_s == pytest.approx(6, abs=0.2)
    assert len(audio.load(path)) == pytest.approx(6 * RATE, abs=0.2 * RATE)


@pytest.mark.parametrize(
    "tail", [b"", bytes(999), b"TAG".ljust(128, b"x"), bytes(7) + b"APETAGEX" + bytes(90)]
)
@pytest.mark.parametrize("head", [b"", b"ID3\x04\0\0\0\0\0\x05title"])
def test_tags_and_padding_are_no_damage(tmp_path: Path, head: bytes, tail: bytes) -> None:
    path = write(tmp_path / "a.mp3", speech())
    path.write_bytes(head + path.read_bytes() + tail)
    audio.check(path, max_duration_s=60, decode=True)


def test_mp3_frames_that_do_not_follow_each_other_are_damage(tmp_path: Path) -> None:
    path = write_mp3_without_table(tmp_path / "a.mp3", speech(4.0))
    content = path.read_bytes()
    middle = len(content) // 2
    for damaged in (
        content[:middle] + content[middle + 10 :],
        content[:middle] + bytes(500) + content[middle + 500 :],
        content[:middle] + b"\xff" * 700 + content[middle:],
    ):
        path.write_bytes(damaged)
        assert reason(path).startswith("damaged: ")


def test_mp3_whose_frames_claim_each_others_bytes_is_damaged(tmp_path: Path) -> None:
    path = write_mp3_without_table(tmp_path / "a.mp3", speech(4.0))
    content = bytearray(path.read_bytes())
    at = content.index(content[:2], len(content) // 2)  # a frame's header, whatever its bit rate
    content[at + 4 : at + 6] = b"\xff\xff"  # its samples begin as far back as can be
    path.write_bytes(content)
    assert reason(path).startswith("damaged: side information of MP3 frame ")


def test_what_the_decoder_complains_of_is_a_reason_and_not_on_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.mp3", speech(4.0), bitrate_mode="CONSTANT")
    content = path.read_bytes()
    random = np.random.default_rng(0)
    paths = [tmp_path / f"{number}.mp3" for number in range(60)]
    for path in paths:
        flipped = bytearray(content)
        for place in random.integers(300, len(content), 12):
            flipped[place] ^= 1 << random.integers(8)
        path.write_bytes(flipped)
        with contextlib.suppress(audio.AudioProblem):
            audio.load(path)
    reasons = list(map(str, audio.check_many(paths, max_duration_s=60, decode=True, jobs=1)))
    assert any("dequantization failed" in verdict for verdict in reasons)
    assert sum(verdict.startswith("damaged") for verdict in reasons) > 10
    assert capfd.readouterr().err == ""


def test_what_others_say_while_the_decoder_is_caught_is_passed_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    complaints: list[str] = []
    with catch_chatter(complaints):
        os.write(2, b"ours\nNote: Trying to resync...\n")
        os.write(2, b"[src/libmpg123/layer3.c:f():18] error: dequantization failed!\n")
        os.write(2, b"warning: ours too\n")
    assert complaints == ["dequantization failed!"]
    assert capfd.readouterr().err == "ours\nwarning: ours too\n"


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3"])
def test_file_cut_inside_its_header_is_damaged(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, tone())
    path.write_bytes(path.read_bytes()[:30])
    assert reason(path).startswith("damaged ")


def test_unusable_content_is_named(tmp_path: Path) -> None:
    nan = tone()
    nan[500] = np.nan
    assert reason(write(tmp_path / "n.wav", nan, subtype="FLOAT")) == "NaN or infinite samples"
    assert reason(write(tmp_path / "s.wav", 1e-5 * tone(), subtype="FLOAT")) == "silent"
    assert reason(write(tmp_path / "z.flac", 0 * tone())) == "silent"
    assert reason(write(tmp_path / "e.wav", tone(0))) == "no samples"
    long = write(tmp_path / "l.wav", tone(3.0))
    assert reason(long, max_duration_s=2) == "too long: 3 s"
    assert reason(long, min_duration_s=4) == "too short: 3.00 s"


def test_paths_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    os.mkfifo(tmp_path / "pipe.wav")
    assert reason(tmp_path / "empty.wav") == "0 bytes"
    assert reason(tmp_path / "folder.wav") == "a folder"
    assert reason(tmp_path / "loop.wav") == "symlink loop"
    assert reason(tmp_path / "pipe.wav") == "not a regular file"
    assert reason(tmp_path / "none.wav") == "no such file"
    assert reason(tmp_path / "empty.wav" / "a.wav") == "no such file"
    assert reason(tmp_path / "zero\0byte.wav") == "no such file"
    assert reason(tmp_path / ("long" * 100)) == "file name too long"


@pytest.fixture
def m4a(tmp_path: Path) -> Path:
    """One second of stereo AAC at 44.1 kHz."""
    av = pytest.importorskip("av", reason="needs the extra `formats`")
    path = tmp_path / "a.m4a"
    samples = tone(1.0, 44100, channels=2).T.astype(np.float32)
    with av.open(str(path), "w") as container:
        track = container.add_stream("aac", rate=44100, layout="stereo")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), "fltp", "stereo")
        frame.sample_rate = 44100
        container.mux(track.encode(frame))
        container.mux(track.encode(None))
    return path


def test_other_formats_are_read_by_pyav(m4a: Path) -> None:
    info = audio.check(m4a, max_duration_s=60, decode=True)
    assert (info.sampling_rate, info.num_channels) == (44100, 2)
    assert info.duration_s == pytest.approx(1, abs=0.06)
    samples = audio.load(m4a)
    assert samples.dtype == np.float32
    assert np.abs(samples[4000:12000]).max() == pytest.approx(
        0.375, abs=0.03
    )  # mean of 0.5 and 0.25


def test_without_pyav_the_reason_says_what_to_install(
    m4a: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_import = builtins.__import__

    def refuse_av(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "av":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    damaged = write(m4a.with_name("a.wav"), tone())
    damaged.write_bytes(damaged.read_bytes()[:30])
    monkeypatch.setattr(builtins, "__import__", refuse_av)
    assert reason(damaged) == "damaged WAV, or a codec that needs PyAV"
    assert reason(m4a) == "MP4/M4A needs PyAV: install arborvox[formats]"


def test_damaged_m4a_is_named(m4a: Path) -> None:
    assert reason(cut(m4a, 0.5)) == "damaged MP4/M4A"


def test_truncated_webm_is_named(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="needs the extra `formats`")
    path = tmp_path / "a.webm"
    samples = speech(4.0, 48000).T.astype(np.float32)
    with av.open(str(path), "w") as container:
        track = container.add_stream("libopus", rate=48000, layout="mono")
        for start in range(0, samples.shape[1], 960):
            part = np.ascontiguousarray(samples[:, start : start + 960])
            frame = av.AudioFrame.from_ndarray(part, "fltp", "mono")
            frame.sample_rate, frame.pts = 48000, start
            container.mux(track.encode(frame))
        container.mux(track.encode(None))
    assert audio.check(path, max_duration_s=60, decode=True).duration_s == pytest.approx(4, abs=0.1)
    assert reason(cut(path, 0.6)).startswith("truncated: header says 4.0 s")


def test_files_are_closed_again(tmp_path: Path) -> None:
    good = write(tmp_path / "a.wav", tone())
    bad = cut(write(tmp_path / "b.flac", tone()), 0.5)
    worse = cut(write(tmp_path / "c.flac", tone()), 0.001)
    open_files = Path("/proc/self/fd")
    if not open_files.is_dir():
        pytest.skip("needs /proc to count open files")
    num_before = len(list(open_files.iterdir()))
    for _ in range(20):
        audio.load(good)
        next(audio.stream(good))
        for path in (bad, worse, tmp_path / "none.wav"):
            with contextlib.suppress(audio.AudioProblem):
                audio.load(path)
    assert len(list(open_files.iterdir())) == num_before


def test_many_files_are_judged_in_order(tmp_path: Path) -> None:
    good = [write(tmp_path / f"{i}.wav", tone(0.1 + i / 100)) for i in range(12)]
    bad = tmp_path / "bad.wav"
    bad.touch()
    paths = [path for good_path in good for path in (good_path, bad)]
    verdicts = list(audio.check_many(iter(paths), max_duration_s=9, decode=True, jobs=2))
    assert verdicts[1::2] == ["0 bytes"] * 12
    assert verdicts[::2] == [audio.read_info(path) for path in good]


def test_nothing_to_judge_is_no_error() -> None:
    assert list(audio.check_many([], max_duration_s=9)) == []


def judge_or_die(path: Path) -> Verdict:
    if path.name == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    return path.name


def test_crash_of_a_decoder_costs_one_file(tmp_path: Path) -> None:
    names = ["a", "b", "dies", "c", "dies", "dies", "d"]
    verdicts = list(map_surviving(judge_or_die, map(Path, names), jobs=2))
    assert verdicts == [n if n != "dies" else "crashes the decoder" for n in names]


def test_abandoned_run_leaves_no_process(tmp_path: Path) -> None:
    def endless() -> Iterator[Path]:
        while True:
            yield Path("a")

    verdicts = map_surviving(judge_or_die, endless(), jobs=1)
    assert next(verdicts) == "a"
    verdicts.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


@pytest.mark.real_data
def test_real_clips_are_usable(data_root: Path) -> None:
    clips = sorted((data_root / "common_voice").glob("*/clips/*.mp3"))[::10]
    flacs = sorted((data_root / "ucla").glob("*/audio/*.flac"))[::200]
    verdicts = list(audio.check_many(clips + flacs, max_duration_s=60, decode=True, jobs=2))
    assert [verdict for verdict in verdicts if isinstance(verdict, str)] == []
    with open_recording(clips[0]) as recording:
        assert (
            not recording.is_exact
        )  # these clips have no table of contents: lengths are estimates
