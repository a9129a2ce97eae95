"""The log loses nothing that was confirmed, and has nothing twice, however a process ends."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arborvox.errors import ArborvoxError
from arborvox.project.log import Event, Log


def read(path: Path) -> list[Event]:
    """Read a log as a process does that comes new to it."""
    log = Log(path)
    with log.turn():
        return log.read_new()[1]


def add(log: Log, *texts: str) -> None:
    with log.turn():
        log.read_new()
        log.append(*({"kind": "save", "text": text} for text in texts))


def texts(path: Path) -> list[str]:
    return [event["text"] for event in read(path)]


def test_what_was_added_is_read_in_its_order(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    add(log, "one", "zwei\u2028ὀκτώ")
    add(Log(log.path), "three")
    assert texts(log.path) == ["one", "zwei\u2028ὀκτώ", "three"]
    assert [event["seq"] for event in read(log.path)] == [1, 2, 3]
    with log.turn():  # the first one sees what the second has added, once
        assert [event["text"] for event in log.read_new()[1]] == ["three"]
        assert log.read_new()[1] == []


@pytest.mark.parametrize("kept", [1, 10, -2, -1])
def test_a_torn_last_line_is_cut_off_and_the_rest_stays(kept: int, tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    add(log, "one")
    whole = log.path.read_bytes()
    add(log, "two")
    torn = log.path.read_bytes()[len(whole) :][:kept]
    log.path.write_bytes(whole + torn)
    assert texts(log.path) == ["one"]
    assert log.path.read_bytes() == whole
    add(Log(log.path), "again")
    assert texts(log.path) == ["one", "again"]


def test_a_last_line_of_zeros_is_cut_off(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    add(log, "one")
    with log.path.open("ab") as file:
        file.write(b"\0" * 300)  # as a file system leaves it that lost its power
    assert texts(log.path) == ["one"]


def test_a_damaged_line_in_the_middle_is_told_and_nothing_is_cut(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    add(log, "one", "two", "three")
    changed = log.path.read_bytes().replace(b"two", b"owt")
    log.path.write_bytes(changed)
    with pytest.raises(ArborvoxError, match=r"log\.jsonl: the line at byte \d+ is damaged"):
        read(log.path)
    assert log.path.read_bytes() == changed


def test_lines_that_stand_twice_count_once(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    add(log, "one", "two")
    log.path.write_bytes(log.path.read_bytes() * 2)
    assert texts(log.path) == ["one", "two"]


def test_a_full_disk_is_told_and_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path / "log.jsonl")
    add(log, "one")
    before = log.path.read_bytes()
    write = os.write

    def write_some(handle: int, data: Any) -> int:
        if len(data) > 20:
            return write(handle, data[:20])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space") as caught:
        patch.setattr(os, "write", write_some)
        add(log, "two")
    assert caught.value.filename == str(log.path)
    assert log.path.read_bytes() == before
    add(log, "two")  # room was made
    assert texts(log.path) == ["one", "two"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of processes are Linux's")
def test_a_limit_on_the_size_of_files_is_told_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    add(Log(path), "one")
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from arborvox.project.log import Log\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "log = Log(Path(sys.argv[1]))\n"
        "with log.turn():\n"
        "    log.read_new()\n"
        "    log.append({'kind': 'save', 'text': 'x' * 5000})\n"
    )
    done = _python(code, [str(path)])
    assert done.returncode == 1 and "OSError" in done.stderr
    assert texts(path) == ["one"]


KILLED = """
import os, signal, sys
from pathlib import Path
from arborvox.project import log as module
place, path = sys.argv[1], Path(sys.argv[2])
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
log = module.Log(path)
with log.turn():
    log.read_new()
    if place == "half":
        write = os.write
        def half(handle, data):
            write(handle, data[: len(data) // 2])
            die()
        os.write = half
    elif place == "written":
        os.fsync = die
    log.append({"kind": "save", "text": "two"})
    print("confirmed", flush=True)
    die()
"""


@pytest.mark.parametrize(("place", "left"), [("half", 1), ("written", 2), ("after", 2)])
def test_a_kill_leaves_whole_lines_and_no_lock(place: str, left: int, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    add(Log(path), "one")
    done = _python(KILLED, [place, str(path)])
    assert done.returncode == -signal.SIGKILL
    assert ("confirmed" in done.stdout) == (place == "after")
    assert texts(path) == ["one", "two"][:left]
    add(Log(path), "three")
    assert texts(path)[-1] == "three"


ADDING = """
import sys
from pathlib import Path
from arborvox.project.log import Log
log = Log(Path(sys.argv[1]))
for number in range(40):
    with log.turn():
        log.read_new()
        log.append({"kind": "save", "text": f"{sys.argv[2]} {number}"})
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    both = [
        subprocess.Popen([sys.executable, "-c", ADDING, str(path), name]) for name in ("a", "b")
    ]
    assert [process.wait(120) for process in both] == [0, 0]
    found = texts(path)
    assert len(found) == 80
    for name in ("a", "b"):
        assert [t for t in found if t.startswith(name)] == [f"{name} {n}" for n in range(40)]


def test_who_has_it_open_notices_that_it_was_rewritten(tmp_path: Path) -> None:
    log, other = Log(tmp_path / "log.jsonl"), Log(tmp_path / "log.jsonl")
    add(log, "one", "two", "three")
    with other.turn():
        other.read_new()
    with log.turn():
        log.rewrite(lambda event: None if event["text"] == "two" else event)
    with other.turn():
        anew, events = other.read_new()
    assert anew and [event["text"] for event in events] == ["one", "three"]
    add(other, "four")
    assert [event["seq"] for event in read(log.path)] == [1, 3, 4]


def test_a_log_that_was_rewritten_twice_is_read_anew(tmp_path: Path) -> None:
    """A file system may give the second one the number of the first."""
    log, other = Log(tmp_path / "log.jsonl"), Log(tmp_path / "log.jsonl")
    add(log, "one", "two", "three" * 100)
    with other.turn():
        other.read_new()
    for gone in ("one", "two"):
        with log.turn():
            log.rewrite(lambda event, gone=gone: None if event["text"] == gone else event)  # type: ignore[misc]
    add(log, "four" * 100)
    with other.turn():
        anew, events = other.read_new()
    assert anew and [event["text"][:5] for event in events] == ["three", "fourf"]


def _python(code: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
