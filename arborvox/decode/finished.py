"""What a command that fills a folder has finished: kept until all is done, for who starts it again.

The list's name is made of everything that decides the results. So the same command goes on where
it was, with any number of processes, and another one knows nothing of it.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arborvox.console import say
from arborvox.decode.engine import Engine
from arborvox.decode.hypothesis_file import write_through
from arborvox.decode.shared_file import Header, SharedFile
from arborvox.digests import digest_value
from arborvox.files import make_folder
from arborvox.team import Team


class Finished:
    """The list of what is finished in a folder."""

    def __init__(self, folder: Path, engine: Engine, settings: Sequence[Any], team: Team) -> None:
        self._team = team
        make_folder(folder)
        mark = digest_value([engine.checksums, repr(engine.config), *settings])[:16]
        path = folder / f".finished-{mark}.jsonl"
        self._file = SharedFile(path, {"finished": mark}, team, _same)
        self.done = self._file.begin()
        self._lines = self._file.own.open("a", encoding="utf-8", newline="\n")
        if self.done:
            say(f"{len(self.done)} are in {folder} already, from before it was stopped.")

    def add(self, identity: str, **facts: Any) -> None:
        """Note that something is finished, and what is to be known of it at the end."""
        line = json.dumps({"id": identity, **facts}, ensure_ascii=False) + "\n"
        write_through(self._lines, [line])

    def gather(self, usual_order: Iterable[str]) -> list[dict[str, Any]]:
        """Wait for all processes; the first one gets what was noted, in the usual order."""
        self._lines.close()
        self._file.gather(usual_order)
        return list(self._file.lines()) if self._team.first else []

    def forget(self) -> None:
        """Delete the list: everything is done."""
        self._file.remove()


def _same(path: Path, found: Header, wanted: Header) -> None:
    """Take any list of that name for the same: the name says what it is of."""
