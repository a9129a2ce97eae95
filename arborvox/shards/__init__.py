"""Corpora in shards: recordings in tar files that are read from front to back, near or far.

A manifest names a recording in a shard by address, offset and size; `find_recording` makes of that
what `recording_file` opens like any other file. `corpora/shards.py` reads shards into manifests,
`packing.py` writes them.
"""

from arborvox.shards.members import Member, find_recording, recording_file, shard_of

__all__ = ["Member", "find_recording", "recording_file", "shard_of"]
