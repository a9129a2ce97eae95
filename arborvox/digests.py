"""Marks of contents: whether a file or a value is still the one that something was made from."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arborvox.errors import ArborvoxError

MARK_BYTES = 16


def digest_files(*paths: Path) -> str:
    """Return the mark of what files hold, one after the other."""
    digest = hashlib.blake2b(digest_size=MARK_BYTES)
    for path in paths:
        for block in _blocks_of(path):
            digest.update(block)
    return digest.hexdigest()


def digest_value(value: Any) -> str:
    """Return the mark of a plain value; the order of its keys does not matter."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=MARK_BYTES).hexdigest()


def checksum_file(path: Path) -> str:
    """Return a file's SHA-256, which other tools compute as well."""
    digest = hashlib.sha256()
    for block in _blocks_of(path):
        digest.update(block)
    return digest.hexdigest()


def _blocks_of(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                yield block
    except OSError as error:
        raise ArborvoxError(f"{path} cannot be read: {error.strerror}.") from None
