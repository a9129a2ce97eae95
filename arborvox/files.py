"""Files that appear whole or not at all, however the process ends."""

import contextlib
import functools
import gzip
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from arborvox.errors import ArborvoxError
from arborvox.processes import is_deserted, process_mark

# Read as JSON, a byte can take twenty in memory. Scores of 500,000 utterances are not as large.
MOST_JSON_MIB = 64
LONGEST_NAME = 200  # bytes; file systems take 255, and a part file's name is longer than its own
# Windows has devices of these names in every folder, whatever the ending.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in "123456789¹²³")]
)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def expand_place(place: str, key: str) -> str:
    """Put in what a recipe leaves to the machine, as in `source: ${ARBORVOX_DATA}/ucla`."""
    unset = [name for name in _VARIABLE.findall(place) if name not in os.environ]
    if unset:
        raise ArborvoxError(
            f"{key} is {place}, but {unset[0]} is not set in the environment; export it, or write "
            "the folder in the recipe."
        )
    place = os.path.expandvars(place)
    return place if "://" in place else os.path.abspath(place)  # noqa: PTH100 (links stay links)


@contextlib.contextmanager
def hold(path: Path, refusal: str, patience_s: float = 0.0) -> Iterator[None]:
    """Hold a lock file, made if need be, that no other process holds; it ends with the process.

    Whoever else holds it is waited for, but not for longer than patience lasts.
    """
    make_folder(path.parent)
    # Children that are forked do not inherit the hold: an orphan would keep it.
    from filelock import FileLock, Timeout  # who reads an export does without

    lock = FileLock(path, timeout=patience_s)
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


def path_below(folder: Path, *names: str) -> Path:
    """Return a path below a folder, a name a level; what could lead anywhere else is refused.

    Whatever comes from a file (a language, a unit, the name of a model) becomes a path here alone.
    """
    for name in names:
        if flaw := _flaw_of_name(name):
            shown = ascii(name if len(name) <= LONGEST_NAME else f"{name[:40]}…")
            raise ArborvoxError(f"{shown} cannot be the name of a file in {folder}: {flaw}.")
    return folder.joinpath(*names)


def _flaw_of_name(name: str) -> str:
    """Say why a name is no name of a file on every system, or nothing."""
    if not name.strip(". "):
        return "it is empty or dots alone"
    if any(sign in name for sign in '/\\:<>"|?*'):
        return "it holds a sign that separates folders or names a drive, or that Windows forbids"
    if not name.isprintable():  # control characters, line ends, halves of surrogate pairs
        return "it holds a character that cannot be printed"
    if name[-1] in ". ":
        return "it ends in a dot or a space, which Windows drops"
    if name.partition(".")[0].rstrip().lower() in _DEVICES:
        return "Windows keeps it for a device"
    if len(name.encode()) > LONGEST_NAME:
        return f"it is longer than {LONGEST_NAME} bytes"
    return ""


def make_folder(folder: Path) -> None:
    """Make a folder and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ArborvoxError(f"{folder} cannot be a folder: a file has that name.") from None


@contextlib.contextmanager
def name_failed_writes(path: Path, part: Path | None = None) -> Iterator[None]:
    """Let an error of the block that names no file name `path`, also instead of `part`."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        elif part is not None and Path(str(error.filename)).is_relative_to(part):
            error.filename = str(path / Path(error.filename).relative_to(part))
            error.filename2 = None
        raise


def check_target(path: Path) -> None:
    """Refuse to write a file where something stands that is none: /dev/null would be replaced."""
    if path.is_dir():
        raise ArborvoxError(f"{path} is a folder; give the name of a file.")
    if path.exists() and not path.is_file():
        raise ArborvoxError(f"{path} is a device or a pipe; give the name of a file.")


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or where the disk knows no such thing make a copy of it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary neighbor of `path`; it takes the final name only if the block succeeds."""
    check_target(path)
    if path.is_symlink():  # what it points to is meant, and not to lose its link
        path = path.resolve()
    make_folder(path.parent)
    _remove_deserted(path.parent.absolute())
    try:
        handle, name = tempfile.mkstemp(**_scratch_name(path))
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(".part"):
            error.filename, error.filename2 = str(path), None
        raise
    os.close(handle)
    part = Path(name)
    try:
        with name_failed_writes(path, part):
            yield part
            _sync(part)
            part.chmod(0o666 & ~_umask())
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary neighbor of a folder; if the block succeeds, it replaces the old one.

    Whoever is killed in between leaves the old one under its own name or that of `set_aside`.
    """
    make_folder(folder.parent)
    _remove_deserted(folder.parent.absolute())
    part = Path(tempfile.mkdtemp(**_scratch_name(folder)))
    try:
        with name_failed_writes(folder, part):
            yield part
            for file in filter(Path.is_file, part.iterdir()):
                _sync(file)
            part.chmod(0o777 & folder.parent.stat().st_mode)
            _publish(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def set_aside(folder: Path) -> Path:
    """Name the place of an old folder while its successor takes over the name."""
    return folder.with_name(f".{folder.name}.previous")


def _publish(part: Path, folder: Path) -> None:
    """Give the finished folder its name; the old one steps aside, so one of them always stands."""
    aside = set_aside(folder)
    try:
        part.rename(folder)  # also replaces an empty folder
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
        part.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def write_text_atomic(path: Path, text: str) -> None:
    """Write a UTF-8 text file in one stroke."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def write_json_atomic(path: Path, value: Any) -> None:
    """Write readable JSON in one stroke."""
    write_text_atomic(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_bounded(path: Path, most_mib: int) -> str:
    """Read a UTF-8 text file whole, unless it is larger than any that is meant to be read so."""
    try:
        with path.open("rb") as file:  # its size is not asked for: a device or a pipe has none
            data = file.read((most_mib << 20) + 1)
        if len(data) > most_mib << 20:
            raise ArborvoxError(f"{path} is larger than {most_mib} MiB, so it is none of ours.")
        return data.decode("utf-8")
    except FileNotFoundError:
        raise ArborvoxError(f"There is no file {path}.") from None
    except UnicodeDecodeError:
        raise ArborvoxError(f"{path} is not UTF-8 text.") from None


def read_json(path: Path, most_mib: int = MOST_JSON_MIB) -> Any:
    """Read a JSON file, or say which file and line is damaged."""
    text = read_bounded(path, most_mib)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ArborvoxError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}).") from None
    except RecursionError:
        raise ArborvoxError(f"{path} is nested too deeply to be read.") from None
    except ValueError:  # Python refuses to read a number of more than 4,300 digits
        raise ArborvoxError(f"{path} has a number that is too long to be read.") from None


@contextlib.contextmanager
def open_gzip_reproducible(path: Path) -> Iterator[gzip.GzipFile]:
    """Open a gzip file for writing whose bytes depend on its content alone."""
    with name_failed_writes(path), path.open("wb") as raw, pack_reproducible(raw) as packed:
        yield packed


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file for reading; one that is called .gz is unpacked on the way."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def pack_reproducible(raw: BinaryIO) -> gzip.GzipFile:
    """Pack into an open file so that the bytes depend on the content alone (no name, no time)."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=0)


@contextlib.contextmanager
def staged_folder(out: Path, seal: str) -> Iterator[Path]:
    """Yield a scratch folder inside `out`; publish all its files together if the block succeeds.

    `seal` is the file that says "this folder is whole": it is withdrawn first and published last.
    A folder that was not there before stays only if there is something in it.
    """
    is_new = not out.exists()
    make_folder(out)
    _remove_deserted(out.absolute())
    stage = Path(tempfile.mkdtemp(prefix=f".staging-{process_mark()}-", dir=out))
    try:
        with name_failed_writes(out, stage):
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
        if is_new:
            with contextlib.suppress(OSError):  # it is not empty
                out.rmdir()


def _scratch_name(path: Path) -> dict[str, Any]:
    """Return what `tempfile` needs for a neighbor whose owner can be found out."""
    start = path.name[:40]  # the whole name may be as long as a name can be
    return {"prefix": f".{start}.{process_mark()}-", "suffix": ".part", "dir": path.parent}


@functools.cache  # once is enough: this process leaves nothing while it lives
def _remove_deserted(folder: Path) -> None:
    """Delete scratch files and folders whose process was killed."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in [entry for entry in entries if is_deserted(entry.name)]:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry, ignore_errors=True)
            else:
                Path(entry).unlink(missing_ok=True)


def clean_cell(text: str) -> str:
    """Make any text fit a cell of a TSV file, undecodable bytes included."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file that is not yet under its final name."""
    with name_failed_writes(path), path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _sync(path: Path) -> None:
    with name_failed_writes(path), path.open("rb+") as file:  # Windows syncs what may be written
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
