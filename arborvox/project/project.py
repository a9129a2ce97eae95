"""A project: recordings, what was corrected, and the models that learned from it, in one folder.

project.json    what the project is
log.jsonl       what was done, line by line; everything else about utterances follows from it
audio/SPEAKER/RECORDING/0001.flac, and 0001.txt beside it once somebody has confirmed its text
corrected.tsv   all that is confirmed, a table that `arborvox prepare folder` reads
models/         what was learned
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from arborvox.config.choices import Proposal
from arborvox.console import warn
from arborvox.errors import ArborvoxError
from arborvox.files import make_folder, path_below, write_json_atomic, write_text_atomic
from arborvox.project.items import Change, Conflict, Item, ProjectRecording, Split, State, Summary
from arborvox.project.ledger import ItemRecord, Ledger
from arborvox.project.log import Event, Log
from arborvox.project.models import Models
from arborvox.project.proposals import DEFAULT_PROPOSAL, PROPOSALS
from arborvox.text.codes import check_language
from arborvox.typed_json import read_form

FORMAT = "arborvox-project"
VERSION = 1
SETTINGS = "project.json"
LOG = "log.jsonl"
CORRECTED = "corrected.tsv"

LONGEST_TEXT = 10_000  # characters
LONGEST_AUTHOR = 80
LEASE_S = 600.0  # that a proposed item is kept for the one to whom it was proposed
TEST_TURN = 4  # as long as the test set has gaps, every so many-th utterance is of it


@dataclass(frozen=True)
class Settings:
    """What a project is, as its file says."""

    format: str
    version: int
    language: str
    model: str | None  # the run or checkpoint that the project began with
    propose: Proposal | None = None  # the way that was found best, if none is named


class Project:
    """An open project; any number of threads and processes may have one open at a time."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        base = None if settings.model is None else Path(settings.model)
        self.models = Models(folder / "models", base)
        self.log = Log(folder / LOG)
        self.ledger = Ledger()
        self._guard = threading.RLock()
        self._leases: dict[str, tuple[str, float]] = {}  # by item: who, and until when
        self._in_turn = False

    @classmethod
    def create(cls, folder: Path, *, language: str, model: Path | None = None) -> "Project":
        """Make a folder a project, or open the one that it is."""
        if is_project(folder):
            return cls.open(folder, model=model)
        check_language(language, "language")
        place = None if model is None else str(model.absolute())
        make_folder(folder)
        settings = Settings(FORMAT, VERSION, language, place)
        write_json_atomic(folder / SETTINGS, asdict(settings))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, *, model: Path | None = None) -> "Project":
        """Open a project; a model given here is what it begins with, if it has none yet.

        What an earlier process was killed over is finished first.
        """
        path = folder / SETTINGS
        if not path.is_file():
            raise ArborvoxError(
                f"{folder} is no project: it has no {SETTINGS}; make one with "
                f"`arborvox project add {folder} RECORDINGS --language CODE`."
            )
        settings = read_form(path, Settings, "put a copy in its place")
        if settings.format != FORMAT or settings.version > VERSION:
            raise ArborvoxError(f"{path} is of no version that this Arborvox reads.")
        if settings.model is None and model is not None:
            settings = Settings(**{**asdict(settings), "model": str(model.absolute())})
            write_json_atomic(path, asdict(settings))
        project = cls(folder, settings)
        from arborvox.project.withdrawal import resume_withdrawal

        resume_withdrawal(project)
        with project.turn():
            project._write_files(project.ledger.entries.values())
        return project

    # What is there.

    def item(self, item_id: str) -> Item:
        """Return an utterance as it is now."""
        with self.turn():
            return self._entry(item_id).item(self.models.current)

    def items(
        self,
        *,
        state: State | None = None,
        split: Split | None = None,
        recording: str | None = None,
    ) -> list[Item]:
        """List utterances in the order of their recordings."""
        with self.turn():
            current = self.models.current
            found = [entry.item(current) for entry in self.ledger.entries.values()]
        return [
            item
            for item in found
            if (state is None or item.state == state)
            and (split is None or item.split == split)
            and (recording is None or item.recording == recording)
        ]

    def recordings(self) -> list[ProjectRecording]:
        """List the recordings."""
        with self.turn():
            return list(self.ledger.recordings.values())

    def history(self, item_id: str) -> list[Change]:
        """List what was done to an utterance, the oldest first."""
        with self.turn():
            return list(self._entry(item_id).changes)

    def summary(self) -> Summary:
        """Count what is there and what is done."""
        items = self.items()
        confirmed = [item for item in items if item.state == "confirmed"]
        return Summary(
            num_items=len(items),
            num_confirmed=len(confirmed),
            num_skipped=sum(item.state == "skipped" for item in items),
            total_s=sum(item.duration_s for item in items),
            confirmed_s=sum(item.duration_s for item in confirmed),
            confirmed_train_s=sum(i.duration_s for i in confirmed if i.split != "test"),
            num_test=sum(item.split == "test" and item.state != "skipped" for item in items),
            num_test_confirmed=sum(item.split == "test" for item in confirmed),
            num_recordings=len(self.recordings()),
            num_speakers=len({item.speaker for item in items}),
        )

    def sound_file(self, item_id: str) -> Path:
        """Return the file with an utterance's sound: FLAC, mono."""
        with self.turn():
            entry = self._entry(item_id)
        return path_below(self.folder / "audio", *f"{entry.id}.flac".split("/"))

    @property
    def proposal(self) -> Proposal:
        """How the utterance to correct next is chosen."""
        return self.settings.propose or DEFAULT_PROPOSAL

    # What people do.

    def next_item(self, client: str) -> Item | None:
        """Propose the utterance to correct next, and keep it for this client for a while.

        Two clients get different ones; who asks again without having done anything, the same. None:
        everything is corrected, skipped or proposed to others.
        """
        items = self.items()
        with self._guard:
            now = time.monotonic()
            self._leases = {k: v for k, v in self._leases.items() if v[1] > now}
            taken = {name for name, (who, _) in self._leases.items() if who != client}
            open_ = [item for item in items if item.state == "draft" and item.id not in taken]
            if not open_:
                return None
            done = [item for item in items if item.state != "draft"]
            num_tested = sum(item.split == "test" for item in done)
            test = [item for item in open_ if item.split == "test"]
            rest = [item for item in open_ if item.split != "test"]
            pool = test if test and (TEST_TURN * num_tested <= len(done) or not rest) else rest
            # Of the test set any is as good as another: a hard half would be another test set.
            rank = PROPOSALS["random" if pool is test else self.proposal]
            known = [item for item in done if item.state == "confirmed" and item.split != "test"]
            scores = rank(pool, known)
            best = max(zip(scores, pool, strict=True), key=lambda pair: (pair[0], pair[1].id))[1]
            for name in [name for name, (who, _) in self._leases.items() if who == client]:
                del self._leases[name]
            self._leases[best.id] = (client, now + LEASE_S)
            return best

    def save(self, item_id: str, text: str, *, revision: int, author: str) -> Item:
        """Confirm an utterance's text; it is on the disk when this returns.

        `revision` is the item's as the author saw it. If somebody else changed the item since,
        Conflict is raised and nothing is changed. The same save sent twice counts once.
        """
        text = check_text(text)
        return self._change(item_id, {"kind": "save", "text": text}, revision, author)

    def skip(self, item_id: str, *, revision: int, author: str) -> Item:
        """Set an utterance aside: it is not proposed again, and nothing learns from it."""
        return self._change(item_id, {"kind": "skip"}, revision, author)

    def undo(self, item_id: str, *, revision: int, author: str) -> Item:
        """Take back the last change that stands; what was there before stands again."""
        return self._change(item_id, {"kind": "undo"}, revision, author)

    def draft(self, model: str, drafts: Iterable[tuple[str, str, float]]) -> None:
        """Write down what a model heard: items, texts and confidences."""
        with self.turn():
            known = [
                [name, text, round(confidence, 4)]
                for name, text, confidence in drafts
                if name in self.ledger.entries
            ]
            if known:
                self._log({"kind": "drafts", "model": model, "drafts": known})

    def undrafted(self, model: str | None = None) -> list[Item]:
        """List the open utterances that a model, or the one in use, has not heard yet."""
        with self.turn():
            name = model or self.models.current
            return [
                entry.item(name)
                for entry in self.ledger.entries.values()
                if name not in entry.drafts and not entry.stack
            ]

    def corrections(self, model: str) -> list[tuple[str, str]]:
        """List what a model wrote and what people made of it, draft and text."""
        with self.turn():
            return [
                (entry.drafts[model].text, entry.stack[-1][1])
                for entry in self.ledger.entries.values()
                if model in entry.drafts and entry.stack and entry.stack[-1][0] == "confirmed"
            ]

    # Inside.

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Be the only one at work here, and know all that others have done."""
        with self._guard:
            if self._in_turn:
                yield
                return
            with self.log.turn():
                self._in_turn = True
                try:
                    self.refresh()
                    yield
                finally:
                    self._in_turn = False

    def refresh(self) -> None:
        """Take in what the log has got since; in a turn."""
        anew, events = self.log.read_new()
        if anew:
            self.ledger = Ledger()
        self.ledger.play(events)

    def _log(self, *events: Event) -> None:
        self.ledger.play(self.log.append(*events))

    def add_events(self, make: Callable[[Ledger], Iterable[Event]]) -> None:
        """Add the events that are made of what is known, in one turn."""
        with self.turn():
            self._log(*make(self.ledger))
            self._write_files(self.ledger.entries.values())

    def _entry(self, item_id: str) -> ItemRecord:
        entry = self.ledger.entries.get(item_id)
        if entry is None:
            raise UnknownItem(f"{self.folder} has no utterance {item_id[:200]!a}.")
        return entry

    def _change(self, item_id: str, event: Event, revision: int, author: str) -> Item:
        with self.turn():
            entry = self._entry(item_id)
            current = self.models.current
            if len(entry.changes) != revision:
                if _is_repeated(entry, event, revision, author):
                    return entry.item(current)
                raise Conflict(entry.item(current))
            if event["kind"] == "undo" and not entry.stack:
                raise ArborvoxError(f"{item_id}: there is nothing to take back.")
            self._log({**event, "item": item_id, "author": clean_author(author)})
            self._leases.pop(item_id, None)
            self._write_files([entry])
            return entry.item(current)

    def write_table(self) -> None:
        """Write down all that is confirmed, as `arborvox prepare folder` reads it."""
        current = self.models.current
        items = [entry.item(current) for entry in self.ledger.entries.values()]
        write_text_atomic(self.folder / CORRECTED, table_text(items))

    def _write_files(self, entries: Iterable[ItemRecord]) -> None:
        """Bring the table and some .txt files into step with the log, which is what counts."""
        try:
            self._write_texts(entries)
            self.write_table()
        except OSError as error:  # the next who opens the project mends it
            warn(f"{error.filename}: {error.strerror}; what was corrected is safe in {LOG}.")

    def _write_texts(self, entries: Iterable[ItemRecord]) -> None:
        for entry in entries:
            path = path_below(self.folder / "audio", *f"{entry.id}.txt".split("/"))
            state, text = entry.stack[-1] if entry.stack else ("draft", "")
            if state != "confirmed":
                path.unlink(missing_ok=True)
            elif not path.is_file() or path.read_bytes() != f"{text}\n".encode():
                write_text_atomic(path, f"{text}\n")


class UnknownItem(ArborvoxError):  # noqa: N818 - what it is, not that it is an error
    """There is no utterance of that name, or it was withdrawn."""


def is_project(folder: Path) -> bool:
    """Say whether a folder is a project."""
    return (folder / SETTINGS).is_file()


def table_text(items: Iterable[Item]) -> str:
    """Return a table of the confirmed ones among utterances, paths as seen from the project."""
    rows = [
        "\t".join((item.audio, item.text, item.speaker or "", item.language, item.split))
        for item in items
        if item.state == "confirmed"
    ]
    return "\n".join(("path\ttext\tspeaker\tlanguage\tsplit", *rows, ""))


def check_text(text: str) -> str:
    """Return a corrector's text in one line, or say what is wrong with it."""
    line = " ".join(text.split())
    if not line:
        raise ArborvoxError("The text is empty; skip the utterance if nothing is said in it.")
    if len(line) > LONGEST_TEXT:
        raise ArborvoxError(f"The text is longer than {LONGEST_TEXT:,} characters.")
    if any(0xD800 <= ord(sign) < 0xE000 or sign < " " or sign == "\x7f" for sign in line):
        raise ArborvoxError("The text holds a control character or half a character.")
    return line


def clean_author(author: str) -> str:
    """Return a name as it fits a line."""
    return "".join(c for c in " ".join(author.split()) if c.isprintable())[:LONGEST_AUTHOR]


def _is_repeated(entry: ItemRecord, event: Event, revision: int, author: str) -> bool:
    """Whether this very change was made already: its answer was lost on the way, say."""
    if len(entry.changes) != revision + 1:
        return False
    last = entry.changes[-1]
    same_text = event["kind"] != "save" or last.text == event["text"]
    return last.kind == event["kind"] and same_text and last.author == clean_author(author)
