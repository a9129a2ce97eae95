"""One file of results that several processes write: a header, then a line of JSON for each item.

Alone, a process adds its lines to the file itself. Of several, each has a part beside it, and the
first one gathers them in the usual order when all are done. Parts that lost processes left behind
are taken in at the next start, whatever the number of processes then; a line that was being
written when its process died is done again.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path, name_failed_writes
from arborvox.team import Team

Header = dict[str, Any]


class SharedFile:
    """Knows which items are done, and where this process writes."""

    def __init__(
        self,
        path: Path,
        header: Header,
        team: Team,
        compare: Callable[[Path, Header, Header], None],
    ) -> None:
        """`compare` refuses to go on with a file of that path whose header is another."""
        self.path, self._header, self._team, self._compare = path, header, team, compare
        self._is_mixed = team.world > 1  # whether the lines may stand in another order than usual
        self.own = path if team.world == 1 else self._part(team.rank)

    def begin(self) -> set[str]:
        """Begin the file, or go on with it; return the ids of the items that it has."""
        if self._team.first:
            self._begin_one(self.path)
            self._take_in_parts()
        self._team.wait()
        done = {str(fields["id"]) for fields in self.lines()}
        if self._team.world > 1:
            self._begin_one(self.own)
        return done

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what the gathered lines say."""
        for fields, _, _ in self._whole_lines(self.path):
            yield fields

    def gather(self, usual_order: Iterable[str]) -> None:
        """Wait for all processes; then the file has all lines, in the order of these ids."""
        self._team.wait()
        if self._team.first and self._is_mixed:
            self._take_in_parts()
            self._sort(usual_order)
        self._team.wait()

    def remove(self) -> None:
        """Delete the file where it was only a means."""
        if self._team.first:
            self.path.unlink(missing_ok=True)

    def _part(self, rank: int) -> Path:
        return self.path.with_name(f".{self.path.name}.rank-{rank}")

    def _begin_one(self, path: Path) -> None:
        """Write the header, or check the one that is there and cut off half a line."""
        if not path.exists() or not path.stat().st_size:
            with name_failed_writes(path):
                text = json.dumps(self._header, ensure_ascii=False) + "\n"
                path.write_text(text, encoding="utf-8", newline="\n")
            return
        end = self._check_header(path)
        for _, start, length in self._whole_lines(path):
            end = start + length
        if end < path.stat().st_size:
            os.truncate(path, end)

    def _check_header(self, path: Path) -> int:
        """Refuse a file that was begun in another way; return the length of its first line."""
        with path.open("rb") as file:
            line = file.readline()
        try:
            if not line.endswith(b"\n"):
                raise ValueError("half a line")
            self._compare(self.path, json.loads(line), self._header)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._no_line(path, 1) from None
        return len(line)

    def _no_line(self, path: Path, number: int) -> ArborvoxError:
        return ArborvoxError(
            f"{path}, line {number}: not a line of hypotheses; choose another --out."
        )

    def _whole_lines(self, path: Path) -> Iterator[tuple[dict[str, Any], int, int]]:
        """Yield what each whole line after the header says, and where it is."""
        start = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):  # its process was killed while it wrote this one
                    break
                if number > 1:
                    try:
                        fields = json.loads(line)
                        fields["id"]
                    except (ValueError, KeyError, TypeError, RecursionError):
                        raise self._no_line(path, number) from None
                    yield fields, start, len(line)
                start += len(line)

    def _take_in_parts(self) -> None:
        """Put what other processes wrote behind what is there, each item once."""
        parts = sorted(self.path.parent.glob(f".{self.path.name}.rank-*"))
        if not parts:
            return
        self._is_mixed = True
        known = {str(fields["id"]) for fields in self.lines()}
        with name_failed_writes(self.path), self.path.open("ab") as whole:
            for part in parts:
                if not part.stat().st_size:
                    continue
                end = self._check_header(part)
                with part.open("rb") as lines:
                    for fields, start, length in self._whole_lines(part):
                        end = start + length
                        if str(fields["id"]) not in known:
                            known.add(str(fields["id"]))
                            lines.seek(start)
                            whole.write(lines.read(length))
                if end < part.stat().st_size:
                    say(f"{part} ends in half a line, as its process was lost; it is done again.")
            whole.flush()
            os.fsync(whole.fileno())
        for part in parts:  # not before their lines are on the disk
            part.unlink()

    def _sort(self, usual_order: Iterable[str]) -> None:
        places = {
            str(f["id"]): (start, length) for f, start, length in self._whole_lines(self.path)
        }
        known = [name for name in usual_order if name in places]
        wanted = [places[name] for name in dict.fromkeys([*known, *places])]
        if wanted == sorted(wanted):
            return
        with atomic_path(self.path) as part, self.path.open("rb") as old, part.open("wb") as new:
            new.write(old.readline())
            for start, length in wanted:
                old.seek(start)
                new.write(old.read(length))
