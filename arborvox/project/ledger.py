"""What the log says, played back: the recordings, their utterances, and who did what to them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from arborvox.errors import ArborvoxError, one_line
from arborvox.project.items import Change, Item, ProjectRecording, Split, State
from arborvox.project.log import Event


@dataclass(slots=True)
class Draft:
    """What a model wrote, and how sure it was."""

    text: str
    confidence: float


@dataclass(slots=True)
class ItemRecord:
    """An utterance as the log tells it."""

    id: str
    recording: ProjectRecording
    start_s: float
    end_s: float
    split: Split
    drafts: dict[str, Draft] = field(default_factory=dict)  # by model, the newest last
    stack: list[tuple[State, str]] = field(default_factory=list)  # what stands; undo takes one off
    changes: list[Change] = field(default_factory=list)

    def item(self, model: str) -> Item:
        """Return it with the draft of a model, or the newest where that one wrote none."""
        draft = self.drafts.get(model) or next(reversed(self.drafts.values()), None)
        written = "" if draft is None else draft.text
        state, text = self.stack[-1] if self.stack else ("draft", "")
        last = self.changes[-1] if self.changes else None
        return Item(
            id=self.id,
            recording=self.recording.id,
            speaker=self.recording.speaker,
            language=self.recording.language,
            start_s=self.start_s,
            end_s=self.end_s,
            split=self.split,
            state=state,
            text=text if state == "confirmed" else written,
            draft=written,
            confidence=None if draft is None else draft.confidence,
            revision=len(self.changes),
            author="" if last is None else last.author,
            time="" if last is None else last.time,
        )


class Ledger:
    """All that a project knows, and how each event of the log changes it."""

    def __init__(self) -> None:
        self.recordings: dict[str, ProjectRecording] = {}
        self.entries: dict[str, ItemRecord] = {}

    def play(self, events: Iterable[Event]) -> None:
        """Take in events in their order; of what is not known here, such as newer kinds, none."""
        for event in events:
            kind = event.get("kind")
            if kind not in _FORMS:
                continue
            form, play = _FORMS[kind]
            try:
                checked = form.validate_python(event)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                place = one_line(".".join(map(str, first["loc"])))
                raise ArborvoxError(
                    f"The log has a line of another form (seq {event['seq']}, {kind}: {place} "
                    f"{one_line(first['msg'])}); put a copy of the file in its place."
                ) from None
            play(self, checked)

    def items_of(self, recordings: Iterable[str]) -> Iterator[ItemRecord]:
        """Yield the utterances of some recordings."""
        wanted = set(recordings)
        return (entry for entry in self.entries.values() if entry.recording.id in wanted)

    def _play_recording(self, event: "RecordingEvent") -> None:
        recording = ProjectRecording(
            id=event.recording,
            speaker=event.speaker,
            language=event.language,
            duration_s=event.duration_s,
            digest=event.digest,
            num_items=len(event.items),
        )
        self.recordings[recording.id] = recording
        for number, (start_s, end_s, split) in enumerate(event.items, start=1):
            name = item_id(recording.id, number)
            self.entries[name] = ItemRecord(name, recording, start_s, end_s, split)

    def _play_drafts(self, event: "DraftsEvent") -> None:
        for name, text, confidence in event.drafts:
            if (entry := self.entries.get(name)) is not None:
                entry.drafts.pop(event.model, None)  # so that it comes last
                entry.drafts[event.model] = Draft(text, confidence)

    def _play_change(self, event: "ChangeEvent") -> None:
        entry = self.entries.get(event.item)
        if entry is None:
            return
        if event.kind == "save":
            entry.stack.append(("confirmed", event.text))
        elif event.kind == "skip":
            entry.stack.append(("skipped", ""))
        elif entry.stack:
            entry.stack.pop()
        state, text = entry.stack[-1] if entry.stack else ("draft", "")
        entry.changes.append(
            Change(len(entry.changes) + 1, event.kind, state, text, event.author, event.time)
        )


@dataclass(frozen=True, slots=True)
class RecordingEvent:
    """A recording was brought."""

    recording: str
    speaker: str | None
    language: str
    duration_s: float
    digest: str
    items: list[tuple[float, float, Split]]


@dataclass(frozen=True, slots=True)
class DraftsEvent:
    """A model has heard some utterances."""

    model: str
    drafts: list[tuple[str, str, float]]


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """Somebody has changed an utterance."""

    kind: Literal["save", "skip", "undo"]
    item: str
    author: str
    time: str
    text: str = ""


_CHANGE: tuple[TypeAdapter[Any], Any] = (TypeAdapter(ChangeEvent), Ledger._play_change)
_FORMS: dict[str | None, tuple[TypeAdapter[Any], Any]] = {
    "recording": (TypeAdapter(RecordingEvent), Ledger._play_recording),
    "drafts": (TypeAdapter(DraftsEvent), Ledger._play_drafts),
    "save": _CHANGE,
    "skip": _CHANGE,
    "undo": _CHANGE,
}


def item_id(recording: str, number: int) -> str:
    """Name the N-th utterance of a recording."""
    return f"{recording}/{number:04d}"
