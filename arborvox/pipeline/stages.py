"""A stage of an experiment: a folder, what it is made from, and the record that it is whole.

The record, `stage.json`, is written when the work begins and again when it is done. A stage whose
record is done, whose settings and inputs are those of the record and whose outputs are still there
has nothing to do. One that was killed goes on in its folder; one whose settings have changed starts
over, and what took long to make is set aside rather than deleted.
"""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from arborvox.config.migration import RECIPE_VERSION, migrate_recipe
from arborvox.digests import digest_files
from arborvox.errors import ArborvoxError
from arborvox.files import read_json, write_json_atomic
from arborvox.pipeline.fingerprints import flatten
from arborvox.team import this_team
from arborvox.typed_json import check_form

RECORD_NAME = "stage.json"


class RunInterruptedError(Exception):
    """Somebody asked to stop; all work so far is saved."""


@dataclass(frozen=True)
class Stage:
    """One piece of work with a folder of its own."""

    kind: str  # prepare, tokens, tree, lm, train, decode or score
    folder: Path
    settings: dict[str, Any]  # what decides the result; plain values
    work: Callable[[Path], None]
    outputs: tuple[str, ...]  # files in the folder that must be there afterwards
    after: tuple["Stage", ...] = ()
    inputs: dict[str, Path] = field(default_factory=dict)  # outputs of the stages before
    source_mark: Callable[[], str] | None = None  # for what lies outside the experiment
    # What a setting was before it could be chosen: a new one that is left alone changes nothing.
    defaults: dict[str, Any] = field(default_factory=dict)
    # Settings that may change while the work goes on where it was.
    free: frozenset[str] = frozenset()
    # Whether what lies in the folder has gone further than the settings of now allow.
    outgrown: Callable[[Path], bool] | None = None
    # Took long: it mends a lost output itself, and is set aside when it has to start over.
    precious: bool = False
    version: int = 1  # raised where the same settings and inputs give another result than before
    shared: bool = False  # whether all processes work on it, or the first one for all


@dataclass(frozen=True)
class Standing:
    """How a stage stands before it runs."""

    facts: dict[str, Any]  # what the result follows from, as it is now
    changed: tuple[str, ...]  # what differs from the record
    fresh: bool  # nothing to do
    begun: bool  # there is a record, of this or of other settings


@dataclass(frozen=True)
class _OutputFacts:
    size: int
    mtime_ns: int
    blake2b: str


@dataclass(frozen=True)
class _Record:
    """The form of a stage's record."""

    stage: str = ""
    status: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    recipe: int = 1
    folder: str | None = None
    outputs: dict[str, _OutputFacts] = field(default_factory=dict)


def look_at(stage: Stage) -> Standing:
    """Compare a stage's record with the settings and files of now; all see what the first sees."""
    seen = this_team().share(lambda: asdict(_look(stage)))
    return Standing(**{**seen, "changed": tuple(seen["changed"])})


def _look(stage: Stage) -> Standing:
    facts = _current_facts(stage)
    record = _read_record(stage.folder)
    if record is None:
        return Standing(facts, (), fresh=False, begun=False)
    then = flatten({"settings": stage.defaults}) | flatten(record.get("facts", {}))
    now = flatten(facts)
    changed = tuple(sorted(k for k in {*then, *now} if then.get(k) != now.get(k)))
    if changed or record.get("status") != "done":
        return Standing(facts, changed, fresh=False, begun=True)
    lost = _lost_outputs(stage, record)
    return Standing(facts, lost, fresh=not lost, begun=True)


def run_stage(stage: Stage, standing: Standing, root: Path) -> None:
    """Do a stage's work, from where it stands or from the start, and seal its folder."""
    team = this_team()
    record = _begin(stage, standing, root) if team.first else {}
    if stage.shared:
        team.wait()
    if stage.shared or team.first:
        stage.work(stage.folder)
    if team.first:
        _seal(stage, record)
    team.wait()


def _begin(stage: Stage, standing: Standing, root: Path) -> dict[str, Any]:
    """Make room for a stage and note that it has begun; return its record."""
    if standing.begun and not _may_go_on(stage, standing):
        _clear(stage, root)
    stage.folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        "stage": stage.kind,
        "recipe": RECIPE_VERSION,
        "status": "begun",
        "folder": str(stage.folder),
        "facts": standing.facts,
    }
    write_json_atomic(stage.folder / RECORD_NAME, record)
    return record


def _seal(stage: Stage, record: dict[str, Any]) -> None:
    """Note that a stage is done and what it made."""
    missing = [name for name in stage.outputs if not (stage.folder / name).is_file()]
    if missing:
        raise ArborvoxError(f"{stage.folder}: {stage.kind} ended without {', '.join(missing)}.")
    outputs = {name: _file_facts(stage.folder / name) for name in stage.outputs}
    write_json_atomic(stage.folder / RECORD_NAME, {**record, "status": "done", "outputs": outputs})


def was_made_with(folder: Path, settings: dict[str, Any], defaults: dict[str, Any]) -> bool:
    """Whether the stage in this folder was last made with these settings."""
    record = _read_record(folder)
    recorded = None if record is None else record.get("facts", {}).get("settings")
    return recorded is not None and flatten(defaults) | flatten(recorded) == flatten(settings)


def output_digest(folder: Path, name: str) -> str:
    """Return the mark of a stage's output, from its record where the file was not touched."""
    record = _read_record(folder) or {}
    known = record.get("outputs", {}).get(name)
    path = folder / name
    if known and [known["size"], known["mtime_ns"]] == _size_and_time(path):
        return str(known["blake2b"])
    return digest_files(path)


def _current_facts(stage: Stage) -> dict[str, Any]:
    folders = {before.folder for before in stage.after}
    digests = {}
    for name, path in stage.inputs.items():
        owner = next((folder for folder in folders if path.is_relative_to(folder)), None)
        if owner is None:
            digests[name] = digest_files(path)
        else:
            digests[name] = output_digest(owner, path.relative_to(owner).as_posix())
    facts: dict[str, Any] = {
        "version": stage.version,
        "settings": stage.settings,
        "inputs": digests,
    }
    if stage.source_mark is not None:
        facts["source"] = stage.source_mark()
    return facts


def _read_record(folder: Path) -> dict[str, Any] | None:
    path = folder / RECORD_NAME
    if not path.is_file():
        return None
    record: dict[str, Any] = read_json(path)
    check_form(record, _Record, path, "delete its folder to have the stage done again")
    return _migrate(record)


def _migrate(record: dict[str, Any]) -> dict[str, Any]:
    """Bring a record's settings, which are sections of a recipe, to the names of today."""
    version, facts = record.get("recipe", 1), record.get("facts")
    if not isinstance(facts, dict) or not isinstance(facts.get("settings"), dict):
        return record
    settings = facts["settings"]
    if record.get("stage") == "prepare":
        settings = migrate_recipe({"corpus": settings}, version)["corpus"]
    elif record.get("stage") == "train":
        settings = migrate_recipe(settings, version)
    return {**record, "facts": {**facts, "settings": settings}}


def _lost_outputs(stage: Stage, record: dict[str, Any]) -> tuple[str, ...]:
    """List the outputs that are gone or are not what the stage wrote."""
    known = record.get("outputs", {})
    return tuple(
        name
        for name in stage.outputs
        if not (stage.folder / name).is_file()
        or output_digest(stage.folder, name) != known.get(name, {}).get("blake2b")
    )


def _may_go_on(stage: Stage, standing: Standing) -> bool:
    """Whether what lies in the folder was begun with the same settings, as far as they bind."""
    free = {f"settings.{key}" for key in stage.free}
    if stage.precious:
        outgrown = stage.outgrown is not None and stage.outgrown(stage.folder)
        return set(standing.changed) <= free | set(stage.outputs) and not outgrown
    # Half a result names the files that it was made from: in a copied experiment they are others.
    begun_here = (_read_record(stage.folder) or {}).get("folder") in (None, str(stage.folder))
    return set(standing.changed) <= free and begun_here


def _clear(stage: Stage, root: Path) -> None:
    """Make room for a stage that starts over."""
    if not stage.precious:
        shutil.rmtree(stage.folder)
        return
    name = stage.folder.relative_to(root).as_posix().replace("/", "-")
    number = 1
    while (aside := root / "set-aside" / f"{name}-{number}").exists():
        number += 1
    aside.parent.mkdir(parents=True, exist_ok=True)
    stage.folder.rename(aside)


def _file_facts(path: Path) -> dict[str, Any]:
    size, mtime_ns = _size_and_time(path)
    return {"size": size, "mtime_ns": mtime_ns, "blake2b": digest_files(path)}


def _size_and_time(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
