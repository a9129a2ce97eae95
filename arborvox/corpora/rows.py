"""An utterance as its source tells it, and the paths that sources name."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from arborvox.config import FolderCorpus, OwnCorpus
from arborvox.config.choices import SpeakerFrom
from arborvox.corpora.manifests import Skipped
from arborvox.corpora.tables import is_unicode, show_name
from arborvox.errors import ArborvoxError

_NAME_END = re.compile(r"[_-]")


@dataclass(frozen=True, slots=True)
class Row:
    """One utterance as its source tells it, before text and audio are looked at."""

    id: str
    audio: Path
    text: str
    language: str
    shown: str  # how the list of left-out files names it
    speaker: str | None = None
    recording_id: str | None = None
    start_s: float = 0.0
    segment_s: float | None = None
    given: str | None = None  # the set that the corpus has it in
    called: str = ""  # what the corpus calls that set, where a column says it


def keep_unique(rows: Iterable[Row], skipped: list[Skipped]) -> list[Row]:
    """Return the rows that a manifest can name, each name once."""
    unique: dict[str, Row] = {}
    for row in rows:
        if not is_unicode(str(row.audio)):
            # A manifest is JSON, and JSON is Unicode: there is no way to write such a name.
            reason = f"file name is not UTF-8: {show_name(str(row.audio))}"
            skipped.append(Skipped(show_name(row.shown), reason))
        elif row.id in unique:
            skipped.append(Skipped(row.shown, f"duplicate row: {row.id} came before"))
        else:
            unique[row.id] = row
    return list(unique.values())


def one_language(config: OwnCorpus, source: Path) -> str:
    """Return the language of a source that does not say it itself."""
    if not config.language:
        raise ArborvoxError(f"{source} does not say its language: give --language, such as sah.")
    return config.language


def speaker_of(path: Path, told: str, rule: SpeakerFrom | None) -> str | None:
    """Return who speaks: as it is told, or by the recording's place or name."""
    if told or rule is None:
        return told or None
    if rule == "folder":
        return path.parent.name
    return _NAME_END.split(path.stem, maxsplit=1)[0] or None


def inside(root: Path, name: str, *, below: bool = True) -> Path | None:
    """Return a path as seen from the root; None where it must be `below` and is not, or is none."""
    path = Path(os.path.normpath(root / name))
    is_below = path != root and path.is_relative_to(root)
    return path if "\0" not in name and (is_below or not below) else None


def strip(name: str, config: FolderCorpus) -> str:
    """Take off what is to be taken off the paths of a table."""
    return name.removeprefix(config.strip_prefix) if config.strip_prefix else name
