"""Files and folders appear whole, say which one could not be written, and leave nothing behind."""

import errno
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from arborvox.console import say, warn
from arborvox.errors import ArborvoxError
from arborvox.files import (
    atomic_folder,
    atomic_path,
    clean_cell,
    link_or_copy,
    name_failed_writes,
    open_gzip_reproducible,
    read_bounded,
    read_json,
    set_aside,
    staged_folder,
    write_lines,
    write_text_atomic,
)
from arborvox.processes import count_cores, is_deserted, process_mark
from arborvox.typed_json import read_form

FULL = Path("/dev/full")  # every write to it fails as on a full disk
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def fail_to_sync(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def left_behind(name: str) -> str:
    """Return the name of what a process left that has ended, as its own mark tells."""
    code = "from arborvox.processes import process_mark; print(process_mark())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return name.format(done.stdout.strip())


def test_a_full_disk_is_told_with_the_final_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", fail_to_sync)
    for write, named in (
        (write_text_atomic, "out"),
        (atomic_folder_of, "out/inner.txt"),
        (stage_file, "out/inner.txt"),
    ):
        folder = tmp_path / write.__name__
        with pytest.raises(OSError, match="No space left") as caught:
            write(folder / "out", "x")
        assert caught.value.filename == str(folder / named)
        assert [name for name in folder.rglob("*") if name.is_file()] == []


def atomic_folder_of(path: Path, text: str) -> None:
    with atomic_folder(path) as part:
        (part / "inner.txt").write_text(text)


def stage_file(folder: Path, text: str) -> None:
    with staged_folder(folder, seal="stats.json") as stage:
        (stage / "inner.txt").write_text(text)


@needs_full
def test_a_failed_write_within_the_block_is_told_with_the_final_name(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="No space left") as caught,
        atomic_path(tmp_path / "curves.png"),
        FULL.open("w") as full,
    ):
        full.write("x")
        full.flush()
    assert caught.value.filename == str(tmp_path / "curves.png")
    assert names_in(tmp_path) == []


@needs_full
def test_a_staged_file_that_cannot_be_written_is_told_by_its_place(tmp_path: Path) -> None:
    for name, write in (
        ("cuts_train.jsonl.gz", write_gzip),
        ("skipped.tsv", lambda path: write_lines(path, ["x"] * 9)),
    ):
        with (
            pytest.raises(OSError, match="No space left") as caught,
            staged_folder(tmp_path, seal="stats.json") as stage,
        ):
            (stage / name).symlink_to(FULL)
            write(stage / name)
        assert caught.value.filename == str(tmp_path / name)
    assert names_in(tmp_path) == []


def write_gzip(path: Path) -> None:
    with open_gzip_reproducible(path) as packed:
        packed.write(os.urandom(1 << 20))


def test_a_failed_block_leaves_no_folder_where_there_was_none(tmp_path: Path) -> None:
    for folder, stays in ((tmp_path / "new", False), (tmp_path, True)):
        with pytest.raises(ZeroDivisionError), staged_folder(folder, seal="stats.json") as stage:
            (stage / "cuts.txt").write_text("half")
            raise ZeroDivisionError
        assert folder.exists() == stays
    assert not list(tmp_path.iterdir())


def test_an_error_that_names_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, name_failed_writes(tmp_path / "out"):
        (tmp_path / "input").read_bytes()
    assert caught.value.filename == str(tmp_path / "input")


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_writes_is_not(
    tmp_path: Path,
) -> None:
    dead = [".curves.png.{}-abcdefgh.part", ".other.json.{}-abcdefgh.part", ".staging-{}-abcdefgh"]
    for name in map(left_behind, dead):
        (tmp_path / name).mkdir() if "staging" in name else (tmp_path / name).touch()
    kept = [
        f".curves.png.{process_mark()}-abcdefgh.part",  # ours
        ".curves.png.00000000-999999999-abcdefgh.part",  # another machine's
        ".notes.part",
        "curves.png",
    ]
    for name in kept:
        (tmp_path / name).touch()
    write_text_atomic(tmp_path / "curves.png", "x")
    assert names_in(tmp_path) == sorted(kept)


def test_a_process_killed_in_the_middle_leaves_nothing_for_the_next(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from arborvox.files import atomic_folder, atomic_path\n"
        "with atomic_path(Path(sys.argv[1]) / 'a.png'), atomic_folder(Path(sys.argv[1]) / 'b'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert len(names_in(tmp_path)) == 2
    assert all(map(is_deserted, names_in(tmp_path)))
    write_text_atomic(tmp_path / "a.png", "x")
    assert names_in(tmp_path) == ["a.png"]


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    atomic_folder_of(folder, "first")
    with pytest.raises(KeyboardInterrupt), atomic_folder(folder) as part:
        (part / "inner.txt").write_text("half")
        raise KeyboardInterrupt
    assert (folder / "inner.txt").read_text() == "first"
    atomic_folder_of(folder, "second")
    assert (folder / "inner.txt").read_text() == "second"
    assert names_in(tmp_path) == ["table"]


def test_while_a_folder_is_replaced_one_of_the_two_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "final"
    atomic_folder_of(folder, "first")
    rename = Path.rename

    def stop_before_the_last(path: Path, target: Path) -> Path:
        if target == folder and not folder.exists():
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", stop_before_the_last)
    with pytest.raises(KeyboardInterrupt):
        atomic_folder_of(folder, "second")
    assert (set_aside(folder) / "inner.txt").read_text() == "first"


def test_cells_have_no_tabs_and_no_line_ends() -> None:
    assert clean_cell("a\tb\nc\udcff") == "a\\tb\\nc\\udcff"


def test_there_is_a_core() -> None:
    assert 1 <= count_cores() <= (os.cpu_count() or 1)


def test_errors_and_messages_are_shown_by_a_terminal_and_not_obeyed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    hostile = "a\x1b]0;owned\x07b\x9b2J\ud800\nc"
    assert str(ArborvoxError(hostile)) == "a�]0;owned�b�2J� c"
    warn(hostile)
    say(hostile)
    assert "\x1b" not in capfd.readouterr().err


def test_a_file_is_not_read_beyond_its_bound(tmp_path: Path) -> None:
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(3 << 20)  # sparse
    with pytest.raises(ArborvoxError, match="larger than 2 MiB"):
        read_json(tmp_path / "large.json", most_mib=2)
    with pytest.raises(ArborvoxError, match="larger than 1 MiB"):  # it has no size
        read_bounded(Path("/dev/zero"), most_mib=1)


@dataclass(frozen=True)
class Form:
    """What a file should hold."""

    names: tuple[str, ...]
    length_s: float = 0.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"names": ["a"], "length_s": 3}', ""),
        ('{"names": [], "length_s": Infinity, "more": 1}', ""),
        ("[]", "should be"),
        ('{"names": "a"}', "names"),
        ('{"names": ["a", 1]}', r"names\.1"),
        ('{"names": [], "length_s": "3"}', "length_s"),
        ("{}", "names"),
    ],
)
def test_a_json_file_is_used_only_if_all_of_it_has_the_form(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    if not told:
        assert isinstance(read_form(path, Form, "do it again").names, tuple)
        return
    with pytest.raises(ArborvoxError, match=rf"a\.json is damaged \(.*{told}.*\); do it again"):
        read_form(path, Form, "do it again")


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ArborvoxError, match="give the name of a file"):
            write_text_atomic(path, "x")
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "file")
    write_text_atomic(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "file").read_text() == "x"


def test_a_file_gets_a_second_name_or_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some disks have no hard links."""

    def refuse(source: Path, target: Path) -> None:
        raise OSError(95, "Operation not supported")

    source = tmp_path / "source"
    source.write_bytes(b"weights")
    link_or_copy(source, tmp_path / "link")
    assert (tmp_path / "link").samefile(source)
    monkeypatch.setattr(os, "link", refuse)
    link_or_copy(source, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"weights"
    assert not (tmp_path / "copy").samefile(source)
