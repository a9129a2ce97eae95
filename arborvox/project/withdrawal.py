"""Taking a recording back: it goes, and so does everything that was made from it."""

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arborvox.errors import ArborvoxError
from arborvox.files import path_below, write_json_atomic
from arborvox.processes import is_deserted
from arborvox.project.log import PATIENCE_S, Event
from arborvox.project.models import LEARNED
from arborvox.project.progress import OUTPUT, STATUS, WORK, hold_learning
from arborvox.typed_json import read_form

if TYPE_CHECKING:
    from arborvox.project.project import Project

INTENT = ".withdrawing.json"
CACHE = "cache"


@dataclass(frozen=True)
class Withdrawal:
    """What was taken back."""

    recordings: tuple[str, ...]
    num_items: int
    seconds: float
    models: tuple[str, ...]  # that heard some of it, and may still know it


def withdraw(
    project: "Project", *, recording: str | None = None, speaker: str | None = None
) -> Withdrawal:
    """Delete a recording, or all of a speaker's, and everything that was made from it.

    Whoever is killed in between has it finished by the next who opens the project.
    """
    if (recording is None) == (speaker is None):
        raise ArborvoxError("Name a recording or a speaker to withdraw, one of the two.")
    with hold_learning(project.folder):
        with project.turn():
            gone = {
                known.id
                for known in project.ledger.recordings.values()
                if known.id == recording or (speaker is not None and known.speaker == speaker)
            }
            # Whoever was killed while adding has left some that the log does not know.
            gone |= {
                f"{home.parent.name}/{home.name}"
                for home in (project.folder / "audio").glob("*/*")
                if f"{home.parent.name}/{home.name}" == recording or home.parent.name == speaker
            }
            if not gone:
                named = recording if speaker is None else speaker
                kind = "recording" if speaker is None else "speaker"
                raise ArborvoxError(f"{project.folder} has no {kind} {str(named)[:200]!a}.")
            entries = list(project.ledger.items_of(gone))
            told = Withdrawal(
                recordings=tuple(sorted(gone)),
                num_items=len(entries),
                seconds=sum(entry.end_s - entry.start_s for entry in entries),
                models=tuple(
                    model.name for model in project.models.learned() if gone & set(model.heard)
                ),
            )
            # From here on it will be done, whatever happens to this process.
            write_json_atomic(project.folder / INTENT, sorted(gone))
        _finish(project, gone)
    return told


def resume_withdrawal(project: "Project") -> None:
    """Finish a withdrawal that a killed process has begun."""
    if (project.folder / INTENT).exists():
        # Another process may be at it just now.
        with hold_learning(project.folder, patience_s=PATIENCE_S):
            if not (project.folder / INTENT).exists():
                return
            _finish(project, set(read_form(project.folder / INTENT, list[str], "delete it")))


def _finish(project: "Project", gone: set[str]) -> None:
    """Delete what belongs to recordings; each step may be done twice, the last one ends it."""
    folder = project.folder
    with project.turn():
        # Rounds that are not finished, and states of the encoder, have it in a hundred places.
        for name in (WORK, CACHE):
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        for name in (OUTPUT, STATUS):
            (folder / name).unlink(missing_ok=True)
        for recording in gone:
            home = path_below(folder / "audio", *recording.split("/"))
            if home.exists():
                shutil.rmtree(home)
            if home.parent.exists() and not any(home.parent.iterdir()):
                home.parent.rmdir()
        for model in project.models.learned():
            heard = tuple(name for name in model.heard if name not in gone)
            lost = len(model.heard) - len(heard)
            if lost:
                told = {**asdict(model), "heard": list(heard)}
                told["num_withdrawn"] = model.num_withdrawn + lost
                write_json_atomic(project.models.folder / model.name / LEARNED, told)
        project.log.rewrite(lambda event: _without(event, gone))
        project.refresh()
        project.write_table()
        for path in _deserted(folder):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        (folder / INTENT).unlink()


def _without(event: Event, gone: set[str]) -> Event | None:
    """Return an event of the log without what it says about some recordings."""
    if event.get("recording") in gone or _home(event.get("item", "")) in gone:
        return None
    if event.get("kind") == "drafts":
        kept = [draft for draft in event["drafts"] if _home(draft[0]) not in gone]
        return {**event, "drafts": kept} if kept else None
    return event


def _home(item_id: str) -> str:
    return item_id.rpartition("/")[0]


def _deserted(folder: Path) -> Iterator[Path]:
    """Yield scratch files of killed processes, which may hold anything."""
    return (path for path in list(folder.rglob(".*")) if is_deserted(path.name) and path.exists())
