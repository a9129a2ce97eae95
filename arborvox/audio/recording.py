"""An open recording, whichever library decodes it: its header and its samples in blocks."""

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from arborvox.audio.chatter import catch_chatter
from arborvox.audio.containers import (
    Container,
    recognize,
    stated_aiff_frames,
    stated_wav_frames,
)
from arborvox.audio.mp3 import ID3_MAGIC, id3_size, states_length, walk_mp3

Samples = NDArray[np.float32]  # (T,) mono
Catch = Callable[[], contextlib.AbstractContextManager[None]]

_HEAD_SIZE = 4096
# Decoding in pieces of this size keeps memory flat however long the file is.
_BLOCK_SAMPLES = 1 << 18
# libsndfile gives the largest integer where a header leaves the length open (streamed FLAC).
_UNKNOWN_NUM_SAMPLES = 1 << 62
# Without the second Windows would turn bytes that look like ends of lines into others.
_READ_BYTES = os.O_RDONLY | getattr(os, "O_BINARY", 0)
# Encoders pad and trim a little; a file that was cut off lacks more than this.
_TOLERANCE_S = 0.1
_TOLERANCE_RATIO = 0.02
_STATED_FRAMES = {Container.WAV: stated_wav_frames, Container.AIFF: stated_aiff_frames}
# What libsndfile gives to a decoder that writes to standard error.
_TALKATIVE = (Container.MP3, Container.UNKNOWN)


class AudioProblem(Exception):  # noqa: N818  (a verdict on a file, not a failure of ours)
    """Why a recording cannot be used: a short reason without its path."""


@dataclass(frozen=True)
class AudioInfo:
    """What is known of a recording without keeping its samples."""

    sampling_rate: int
    num_samples: int
    num_channels: int

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.num_samples / self.sampling_rate


@dataclass(frozen=True)
class Recording:
    """An open file; `num_samples` is None where the header leaves it open."""

    sampling_rate: int
    num_channels: int
    num_samples: int | None
    is_exact: bool  # the header states the length; otherwise it is estimated from the file's size
    container: Container
    blocks: Callable[[], Iterator[Samples]]  # mono, at the file's own rate; to be called once
    complaints: list[str]  # of the decoder, about the blocks so far


@contextlib.contextmanager
def open_recording(path: Path) -> Iterator[Recording]:
    """Open a file as audio by its content, whatever its name; raise AudioProblem if it is none."""
    head = _read_head(path)
    container = recognize(head)
    if container is Container.TEXT:
        raise AudioProblem("not audio (looks like text)")
    complaints: list[str] = []
    listen: Catch = contextlib.nullcontext
    if container in _TALKATIVE:
        listen = functools.partial(catch_chatter, complaints)
    with contextlib.ExitStack() as stack:
        try:
            # A descriptor, not a name: libsndfile would let the extension decide for some formats.
            with listen():
                sound = stack.enter_context(soundfile.SoundFile(os.open(path, _READ_BYTES)))
        except (soundfile.LibsndfileError, OSError):
            if container.is_read_by_soundfile:
                raise AudioProblem(f"damaged {container.value}") from None
            yield stack.enter_context(_open_with_pyav(path, container))
        else:
            if sound.frames >= _UNKNOWN_NUM_SAMPLES:
                # libsndfile then fails on the last block, with an error instead of its samples.
                yield stack.enter_context(_open_with_pyav(path, container))
                return
            is_exact = container is not Container.MP3 or states_length(head)
            num_samples = sound.frames if is_exact else _mp3_length(path, sound.frames)
            if num_samples > sound.frames:
                # libsndfile takes the first frame's bit rate for all, and reads no further.
                yield stack.enter_context(_open_with_pyav(path, container, num_samples))
                return
            if container in _STATED_FRAMES:
                # libsndfile quietly shortens the length to what is there; the header knows better.
                num_stated = _STATED_FRAMES[container](path) or 0
                refuse_truncated(num_stated, sound.frames, sound.samplerate)
            yield Recording(
                sampling_rate=sound.samplerate,
                num_channels=sound.channels,
                num_samples=num_samples,
                is_exact=is_exact,
                container=container,
                blocks=lambda: _decode_with_soundfile(sound, listen),
                complaints=complaints,
            )


def refuse_truncated(num_stated: int, num_found: int, sampling_rate: int) -> None:
    """Raise AudioProblem if clearly fewer samples are found than the header states."""
    allowed = max(_TOLERANCE_S * sampling_rate, _TOLERANCE_RATIO * num_stated)
    # A very short file may lack less than that and still have lost most of its samples.
    if num_stated - num_found > min(allowed, num_stated / 2):
        stated_s, found_s = num_stated / sampling_rate, num_found / sampling_rate
        raise AudioProblem(f"truncated: header says {stated_s:.1f} s, {found_s:.1f} s decoded")


def _read_head(path: Path) -> bytes:
    """Read the first bytes, or say why there are none."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise AudioProblem("a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file")
        if status.st_size == 0:
            raise AudioProblem("0 bytes")
        with path.open("rb") as file:
            head = file.read(_HEAD_SIZE)
            if tag_size := id3_size(head):
                file.seek(tag_size)
                head = ID3_MAGIC + file.read(_HEAD_SIZE)
            return head
    except (FileNotFoundError, NotADirectoryError):
        raise AudioProblem("no such file") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise AudioProblem("symlink loop") from None
        raise AudioProblem((error.strerror or "cannot be read").lower()) from None
    except ValueError:  # a zero byte in the name
        raise AudioProblem("no such file") from None


def _mp3_length(path: Path, num_estimated: int) -> int:
    """Return the samples of an MP3 without a length table: the estimate, unless it is far off."""
    walk = walk_mp3(path, deep=False)
    if walk is None or walk.problem:
        return num_estimated
    is_near = abs(walk.num_samples - num_estimated) <= _TOLERANCE_RATIO * num_estimated
    return num_estimated if is_near else walk.num_samples


def _decode_with_soundfile(sound: Any, listen: Catch) -> Iterator[Samples]:
    while True:
        with listen():
            block = sound.read(_BLOCK_SAMPLES, dtype="float32", always_2d=True)  # (T, C)
        if len(block) == 0:
            return
        yield block[:, 0] if block.shape[1] == 1 else block.mean(axis=1)


@contextlib.contextmanager
def _open_with_pyav(
    path: Path, container: Container, num_samples: int | None = None
) -> Iterator[Recording]:
    """Open with PyAV; a length that is known already is better than what it estimates."""
    is_known = container is not Container.UNKNOWN
    try:
        import av
    except ImportError:
        if not is_known:
            raise AudioProblem("not audio") from None
        if container is Container.MP3:
            raise AudioProblem(
                "MP3 of varying bit rate without a length table needs PyAV: "
                "install arborvox[formats]"
            ) from None
        if container in (Container.WAV, Container.AIFF):  # mostly read without PyAV
            raise AudioProblem(f"damaged {container.value}, or a codec that needs PyAV") from None
        raise AudioProblem(f"{container.value} needs PyAV: install arborvox[formats]") from None
    try:
        with av.open(str(path)) as opened:
            if not opened.streams.audio:
                raise AudioProblem("no audio track" if is_known else "not audio")
            track = opened.streams.audio[0]
            if num_samples is None:
                num_samples = _stated_length(av, opened, track, container)
            yield Recording(
                sampling_rate=track.rate,
                num_channels=track.channels,
                num_samples=num_samples,
                is_exact=True,
                container=container,
                blocks=lambda: _decode_with_pyav(av, opened, track),
                complaints=[],
            )
    except av.FFmpegError:
        raise AudioProblem(f"damaged {container.value}" if is_known else "not audio") from None


def _stated_length(av: Any, opened: Any, track: Any, container: Container) -> int | None:
    """Return the samples that a header promises: of the track, or else of the whole file."""
    if track.duration:
        return round(float(track.duration * track.time_base * track.rate))
    # Pictures may go on after the sound, and other containers' lengths are often mere estimates.
    if container is Container.MATROSKA and len(opened.streams) == 1 and opened.duration:
        return round(float(opened.duration / av.time_base * track.rate))
    return None


def _decode_with_pyav(av: Any, opened: Any, track: Any) -> Iterator[Samples]:
    planar = av.AudioResampler(format="fltp")  # the file's own rate and channels, as floats
    for frame in opened.decode(track):
        for converted in planar.resample(frame):
            yield converted.to_ndarray().mean(axis=0, dtype=np.float32)  # (C, T) -> (T,)
