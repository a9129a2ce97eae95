"""Files that appear whole or not at all, however the process ends."""

import contextlib
import fcntl
import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from arborvox.errors import ArborvoxError


@contextlib.contextmanager
def hold(path: Path, refusal: str) -> Iterator[None]:
    """Keep a file, made if need be, from other processes; the hold ends with the process."""
    make_folder(path.parent)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArborvoxError(refusal) from None
        yield


def make_folder(folder: Path) -> None:
    """Make a folder and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ArborvoxError(f"{folder} cannot be a folder: a file has that name.") from None


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary neighbour of `path`; it takes the final name only if the block succeeds."""
    make_folder(path.parent)
    if path.is_dir():
        raise ArborvoxError(f"{path} is a folder; give the name of a file.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        error.filename = str(path)  # nobody asked for the temporary one
        raise
    os.close(handle)
    part = Path(name)
    try:
        yield part
        _sync(part)
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text_atomic(path: Path, text: str) -> None:
    """Write a UTF-8 text file in one stroke."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def write_json_atomic(path: Path, value: Any) -> None:
    """Write readable JSON in one stroke."""
    write_text_atomic(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file, or say which file and line is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArborvoxError(f"There is no file {path}.") from None
    except UnicodeDecodeError:
        raise ArborvoxError(f"{path} is not UTF-8 text.") from None
    except json.JSONDecodeError as error:
        raise ArborvoxError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}).") from None
    except RecursionError:
        raise ArborvoxError(f"{path} is nested too deeply to be read.") from None
    except ValueError:  # Python refuses to read a number of more than 4,300 digits
        raise ArborvoxError(f"{path} has a number that is too long to be read.") from None


@contextlib.contextmanager
def open_gzip_reproducible(path: Path) -> Iterator[gzip.GzipFile]:
    """Open a gzip file for writing whose bytes depend on its content alone (no name, no time)."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
    ):
        yield packed


@contextlib.contextmanager
def staged_folder(out: Path, seal: str) -> Iterator[Path]:
    """Yield a scratch folder inside `out`; publish all its files together if the block succeeds.

    `seal` is the file that says "this folder is whole": it is withdrawn first and published last.
    """
    make_folder(out)
    stage = Path(tempfile.mkdtemp(prefix=f".staging-{os.getpid()}-", dir=out))
    _remove_deserted(out)
    try:
        yield stage
        names = sorted(entry.name for entry in stage.iterdir())
        for name in names:
            _sync(stage / name)
        (out / seal).unlink(missing_ok=True)
        for name in [n for n in names if n != seal] + [n for n in names if n == seal]:
            (stage / name).chmod(0o666 & ~_umask())
            (stage / name).replace(out / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _remove_deserted(out: Path) -> None:
    """Delete scratch folders whose process was killed."""
    for old in out.glob(".staging-*-*"):
        try:
            os.kill(int(old.name.split("-")[1]), 0)  # asks whether the process is there
        except ProcessLookupError:
            shutil.rmtree(old, ignore_errors=True)
        except (ValueError, PermissionError):
            pass


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file that is not yet under its final name."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
