"""A recording inside a shard: its address, and its bytes as a file that every decoder can open."""

import os
import re
import stat
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from arborvox.audio import AudioProblem
from arborvox.errors import ArborvoxError
from arborvox.manifest import SHARD
from arborvox.shards.addresses import near_file

MOST_OPEN = 64  # shards, in one process
MOST_MEMBER_BYTES = 1 << 30
_REFERENCE = re.compile(r"(.+)#(\d{1,18})\+(\d{1,10})", re.DOTALL)
_open: "OrderedDict[tuple[int, str], int]" = OrderedDict()


@dataclass(frozen=True, slots=True)
class Member:
    """Where a recording lies in a tar file."""

    shard: str  # address
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{SHARD}{self.shard}#{self.offset}+{self.size}"

    def read_bytes(self) -> bytes:
        """Read the recording; AudioProblem where its shard does not have all of it."""
        try:
            data = _read_at(_descriptor(self.shard), self.size, self.offset)
        except FileNotFoundError:
            raise AudioProblem(f"shard {self.shard} is missing") from None
        except OSError as error:
            raise AudioProblem(f"shard {self.shard}: {error.strerror or error}") from None
        if len(data) < self.size:
            raise AudioProblem(f"shard {self.shard} ends in the middle")
        return data


Recording = Path | Member


def find_recording(audio: str) -> Recording:
    """Return what a manifest names as a recording: a file, or a part of a shard."""
    if not audio.startswith(SHARD):
        return Path(audio)
    parts = _REFERENCE.fullmatch(audio.removeprefix(SHARD))
    if parts is None or int(parts[3]) > MOST_MEMBER_BYTES:
        raise ArborvoxError(f"{ascii(audio)[:80]} is no recording in a shard: ADDRESS#OFFSET+SIZE.")
    return Member(parts[1], int(parts[2]), int(parts[3]))


def shard_of(audio: str) -> str:
    """Return the address of a recording's shard; nothing where it is a file of its own."""
    return audio.removeprefix(SHARD).rpartition("#")[0] if audio.startswith(SHARD) else ""


@contextmanager
def recording_file(recording: Recording) -> Iterator[Path]:
    """Yield a file that holds a recording, while it is needed."""
    if isinstance(recording, Path):
        yield recording
        return
    with file_of(recording.read_bytes()) as path:
        yield path


@contextmanager
def file_of(data: bytes) -> Iterator[Path]:
    """Give bytes a name in the file system; decoders look back and forth in a file."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():  # never on a disk
        descriptor = os.memfd_create("recording")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield Path(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory(prefix="arborvox-") as folder:
        path = Path(folder) / "recording"
        path.write_bytes(data)
        yield path


def _read_at(descriptor: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):  # has no position, so that forked processes do not disturb each other
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def _descriptor(shard: str) -> int:
    """Open a shard, or take the one that is open; the system reads it ahead, front to back."""
    key = os.getpid(), shard  # what was opened before a fork is the parent's to close
    if key in _open:
        _open.move_to_end(key)
        return _open[key]
    path = near_file(shard)
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would never answer
        raise AudioProblem(f"shard {shard} is no file")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
    _open[key] = descriptor
    if len(_open) > MOST_OPEN:
        (process, _), oldest = _open.popitem(last=False)
        if process == os.getpid():
            os.close(oldest)
    return descriptor
