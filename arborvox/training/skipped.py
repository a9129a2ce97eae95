"""What training could not read: utterances are listed, each kind of trouble is warned of once."""

from collections.abc import Sequence
from pathlib import Path

from arborvox.console import warn
from arborvox.data import Batch


class SkippedList:
    """A file with the utterances that were left out; several processes may write to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cache_warned = False
        self._broken_shards: set[str] = set()

    def note(self, group: Sequence[Batch], *, first: bool) -> None:
        """List what a step's batches lack; warn of the first, and of a failing cache."""
        problem = next((batch.cache_problem for batch in group if batch.cache_problem), "")
        if problem and not self._cache_warned:
            self._cache_warned = True
            warn(f"Features cannot be cached, and are computed each time: {problem}.")
        skipped = [entry for batch in group for entry in batch.skipped]
        shards = {why for _, why in skipped if why.startswith("shard ")}
        for reason in shards - self._broken_shards:
            self._broken_shards.add(reason)
            warn(f"{reason}; what it lacks is left out, see {self.path}.")
        if skipped:
            if first:
                warn(f"{skipped[0][0]}: {skipped[0][1]}; left out, see {self.path}.")
            # One short line a write: ranks may append at the same time.
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(f"{name}\t{reason}\n" for name, reason in skipped)
