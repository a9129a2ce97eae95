"""Files that appear whole or not at all, however the process ends."""

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from arborvox.errors import ArborvoxError


@contextlib.contextmanager
def hold(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file, made if need be, that no other process holds; it ends with the process."""
    make_folder(path.parent)
    # Children that are forked do not inherit the hold: an orphan would keep it.
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise ArborvoxError(refusal) from None
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    try:
        yield
    finally:
        lock.release()


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
    start = path.name[:40]  # the whole name may be as long as a name can be
    with naming(path):
        handle, name = tempfile.mkstemp(prefix=f".{start}.", suffix=".part", dir=path.parent)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            _sync(part)
            part.chmod(0o666 & ~_umask())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the disk name the file that was to be written, not a temporary one."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(".part"):
            error.filename, error.filename2 = str(path), None
        raise


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


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    if sys.platform == "win32":  # there the question below would stop the process
        return
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
    with path.open("rb+") as file:  # Windows syncs only what may be written
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
