"""Files by address: a path, or what fsspec reaches; far ones are fetched whole, front to back.

A stranger's manifest may hold any text as an address. It is only ever read from, over the
protocols listed here, and never becomes the name of a file.
"""

import hashlib
import os
import posixpath
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from arborvox.audio import AudioProblem
from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path

# Read by fsspec alone; others would run programs, log in somewhere or chain file systems.
PROTOCOLS = ("http", "https", "memory", "s3", "gs")
# Where fetched shards lie, and how many bytes of them at most; the least recently fetched goes.
PLACE_VARIABLE = "ARBORVOX_SHARDS"
MOST_FETCHED_BYTES = 20 << 30
ATTEMPTS, PAUSE_S = 3, 1.0
BLOCK_BYTES = 1 << 20


def is_far(address: str) -> bool:
    """Whether an address is no path of this machine; an unknown protocol is refused."""
    protocol, mark, _ = address.partition("://")
    if not mark:
        return False
    if protocol not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise ArborvoxError(
            f"{ascii(address)[:80]} cannot be read: shards are paths or addresses of {known}."
        )
    return True


def join_address(folder: str, name: str) -> str:
    """Return the address of a file in a folder."""
    return posixpath.join(folder, name) if is_far(folder) else str(Path(folder) / name)


def list_folder(folder: str) -> list[str]:
    """Return the names in a folder, sorted; none where there is no such folder."""
    if not is_far(folder):
        near = Path(folder)
        return sorted(entry.name for entry in near.iterdir()) if near.is_dir() else []
    system, path = _file_system(folder)
    try:
        found = system.ls(path, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted({str(entry).rstrip("/").rpartition("/")[2] for entry in found} - {""})


def open_address(address: str) -> IO[bytes]:
    """Open a file for reading from front to back."""
    if not is_far(address):
        return Path(address).open("rb")
    system, path = _file_system(address)
    opened: IO[bytes] = system.open(path, "rb", block_size=BLOCK_BYTES, cache_type="readahead")
    return opened


def near_file(address: str) -> Path:
    """Return a file of this machine with what is at an address, fetched if need be.

    It is fetched once for all processes of a machine. Raises AudioProblem where it cannot be had.
    """
    if not is_far(address):
        return Path(address)
    name = hashlib.blake2b(address.encode(), digest_size=16).hexdigest()
    path = _place() / f"{name}.tar"
    if not path.exists():
        with atomic_path(path) as part:
            _fetch(address, part)
        _make_room(path)
    return path


def _fetch(address: str, part: Path) -> None:
    """Copy a far file, again from the start where the link breaks."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with open_address(address) as source, part.open("wb") as target:
                shutil.copyfileobj(source, target, BLOCK_BYTES)
            return
        except FileNotFoundError:
            raise AudioProblem(f"shard {address} is missing") from None
        except Exception as error:  # each file system has errors of its own
            if attempt == ATTEMPTS:
                told = f"{type(error).__name__}: {error}"
                raise AudioProblem(f"shard {address} cannot be fetched ({told})") from None
            time.sleep(PAUSE_S)


def _place() -> Path:
    named = os.environ.get(PLACE_VARIABLE)
    if named:
        return Path(named)
    owner = os.getuid() if hasattr(os, "getuid") else 0
    place = Path(tempfile.gettempdir()) / f"arborvox-shards-{owner}"
    place.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and place.stat().st_uid != owner:
        raise ArborvoxError(f"{place} belongs to somebody else; name a folder by {PLACE_VARIABLE}.")
    return place


def _make_room(newest: Path) -> None:
    """Delete the shards that were fetched first; who reads one has it open and keeps it."""
    kept = []
    for path in newest.parent.glob("*.tar"):
        with suppress(OSError):
            status = path.stat()
            kept.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept):
        if total <= MOST_FETCHED_BYTES:
            break
        if path != newest:
            path.unlink(missing_ok=True)
            total -= size


def _file_system(address: str) -> tuple[Any, str]:
    import fsspec

    protocol = address.partition("://")[0]
    try:
        system = fsspec.filesystem(protocol)
    except ImportError as error:
        raise ArborvoxError(
            f'{address}: {error}; pip install "arborvox[remote]" for http.'
        ) from None
    return system, address if protocol in ("http", "https") else system._strip_protocol(address)
