"""Features on disk, one file for each shard: a file for each of millions of utterances is too many.

The file is an SQLite database, so that several processes may add to it and a kill leaves it whole.
What is in it counts only for the same bytes of audio: a shard that was changed is computed anew.
"""

import hashlib
import io
import os
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from arborvox.shards.members import Member

MOST_OPEN = 16  # databases, in one process
PATIENCE_S = 30.0  # for another process that is writing
# A power cut may cost the cache, but never a result: what cannot be read is computed.
SETTINGS = "PRAGMA synchronous = OFF"
TABLE = (
    "CREATE TABLE IF NOT EXISTS features "
    "(place INTEGER, variant TEXT, audio INTEGER, frames BLOB, PRIMARY KEY (place, variant))"
)
FIND = "SELECT frames FROM features WHERE place = ? AND variant = ? AND audio = ?"
KEEP = "INSERT OR REPLACE INTO features VALUES (?, ?, ?, ?)"


class ShardFeatureCache:
    """Looks features up by shard, place in it and variant ("start:duration:speed")."""

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key
        self._open: OrderedDict[tuple[int, str], sqlite3.Connection] = OrderedDict()
        self.problem = ""  # why the last write failed; the features themselves are still good

    def __getstate__(self) -> dict[str, object]:
        """Let each process open its own databases."""
        return {**vars(self), "_open": OrderedDict()}

    def get(self, member: Member, variant: str, compute: Callable[[], Tensor]) -> Tensor:
        """Return the stored features of a variant, or make and store."""
        audio = zlib.crc32(member.read_bytes())
        try:
            database = self._database(member.shard)
            row = database.execute(FIND, (member.offset, variant, audio)).fetchone()
            if row is not None:
                return torch.from_numpy(np.load(io.BytesIO(row[0]), allow_pickle=False))
        except (sqlite3.Error, OSError, ValueError, EOFError) as error:
            self.problem = f"{error} ({self._folder})"
            return compute()
        features = compute()
        packed = io.BytesIO()
        np.save(packed, features.numpy(), allow_pickle=False)
        try:
            with database:
                database.execute(KEEP, (member.offset, variant, audio, packed.getvalue()))
        except sqlite3.Error as error:
            self.problem = f"{error} ({self._folder})"
        return features

    def _database(self, shard: str) -> sqlite3.Connection:
        key = os.getpid(), shard  # a connection does not survive a fork
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        name = hashlib.blake2b(f"{self._key}|{shard}".encode(), digest_size=20).hexdigest()
        self._folder.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self._folder / f"{name}.features", timeout=PATIENCE_S)
        database.execute(SETTINGS)
        database.execute(TABLE)
        self._open[key] = database
        if len(self._open) > MOST_OPEN:
            (process, _), oldest = self._open.popitem(last=False)
            if process == os.getpid():
                oldest.close()
        return database
