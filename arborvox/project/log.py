"""The log of a project: lines that are only ever added, each whole or not there.

{"seq":12,"time":"2026-05-01T10:00:00Z","kind":"save","item":"ana/story/0003",…,"sum":"1c0ffee2"}

A line counts once it is on the disk. One that a killed process or a full disk left unfinished can
only be the last, was never confirmed to anybody, and is cut off by whoever comes next.
"""

import contextlib
import io
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path, make_folder, name_failed_writes

Event = dict[str, Any]

PATIENCE_S = 30.0  # with another process that writes; a turn takes milliseconds
MOST_LINE_BYTES = 64 << 20
HEAD_BYTES = 80  # more than the first line of a rewritten log has before its mark ends
_SUM = ',"sum":"'


class Log:
    """An append-only file that several processes write in turns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0  # of what was read
        self._head = b""  # how the file began that it was read from
        self._seq = 0

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Be the only process that reads and writes; the turn ends with the process."""
        from filelock import FileLock, Timeout

        make_folder(self.path.parent)
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=PATIENCE_S)
        try:
            lock.acquire()
        except Timeout:
            raise ArborvoxError(
                f"Another process has kept {self.path} busy for {PATIENCE_S:g} s; if it was "
                "stopped, let it go on or end it."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def read_new(self) -> tuple[bool, list[Event]]:
        """Return what was added since the last time, and whether it begins anew; in a turn."""
        try:
            file = self.path.open("rb+")
        except FileNotFoundError:
            return False, []
        with file:
            head, size = file.read(HEAD_BYTES), file.seek(0, os.SEEK_END)
            fresh = size < self._offset or not head.startswith(self._head) or not self._head
            if fresh:
                self._offset = self._seq = 0
            self._head = head
            file.seek(self._offset)
            lines = list(io.BytesIO(file.read()))
            events, good = [], 0
            for number, line in enumerate(lines):
                event = _read_line(line)
                if event is None:
                    if number + 1 < len(lines):
                        raise ArborvoxError(
                            f"{self.path}: the line at byte {self._offset + good} is damaged, and "
                            "others follow it; put a copy of the file in its place, or delete "
                            "that line."
                        )
                    file.truncate(self._offset + good)
                    os.fsync(file.fileno())
                    self._head = head[: self._offset + good]
                    break
                good += len(line)
                if event["seq"] > self._seq:  # a line that stands twice counts once
                    self._seq = event["seq"]
                    events.append(event)
            self._offset += good
        return fresh, events

    def append(self, *events: Event) -> list[Event]:
        """Add events, in a turn and after `read_new`; they are on the disk when this returns."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        numbered = [
            {"seq": self._seq + number, "time": now, **event}
            for number, event in enumerate(events, start=1)
        ]
        data = b"".join(map(_write_line, numbered))
        with name_failed_writes(self.path):
            is_new = not self.path.exists()
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0))
            try:
                try:
                    _write_at(handle, data, self._offset)
                except OSError:
                    # Whoever fails to add leaves nothing of it; giving back needs no space.
                    os.ftruncate(handle, self._offset)
                    raise
            finally:
                os.close(handle)
            if is_new:
                _sync_folder(self.path.parent)
        self._head = (self._head + data)[:HEAD_BYTES]
        self._offset += len(data)
        self._seq += len(numbered)
        return numbered

    def rewrite(self, keep: Callable[[Event], Event | None]) -> None:
        """Replace the log by one in which each event is as `keep` returns it; in a turn."""
        # Its first line tells whoever has read another one to begin anew.
        first = {"seq": 0, "kind": "rewritten", "mark": secrets.token_hex(8)}
        kept = filter(None, map(keep, self._all()))
        with atomic_path(self.path) as part, part.open("wb") as file:
            for event in (first, *kept):
                file.write(_write_line(event))
        _sync_folder(self.path.parent)

    def _all(self) -> Iterable[Event]:
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            for line in file:
                event = _read_line(line)
                if event is not None and event["seq"] > 0:
                    yield event


def _write_line(event: Event) -> bytes:
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":"))[:-1]
    return f'{body}{_SUM}{zlib.crc32(body.encode()):08x}"}}\n'.encode()


def _read_line(line: bytes) -> Event | None:
    """Return the event of a line, without its sum; None if the line is not whole."""
    if not line.endswith(b'"}\n') or len(line) > MOST_LINE_BYTES:
        return None
    try:
        body, mark, told = line.decode().rpartition(_SUM)
        if not mark or told != f'{zlib.crc32(body.encode()):08x}"}}\n':
            return None
        event = json.loads(f"{body}}}")
    except ValueError:
        return None
    return event if isinstance(event, dict) and type(event.get("seq")) is int else None


def _write_at(handle: int, data: bytes, offset: int) -> None:
    os.lseek(handle, offset, os.SEEK_SET)
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]
    os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    """Let a new name survive the loss of power, too, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
