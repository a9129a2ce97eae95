"""What a project is about: recordings, the utterances cut from them, and what was done to each."""

from dataclasses import dataclass
from typing import Literal

from arborvox.errors import ArborvoxError

State = Literal["draft", "confirmed", "skipped"]
Split = Literal["train", "dev", "test"]

NO_SPEAKER = "unknown"  # the folder of recordings whose speaker nobody has named


@dataclass(frozen=True, slots=True)
class ProjectRecording:
    """A recording as it was brought; its sound is in the pieces that were cut from it."""

    id: str  # SPEAKER/NAME, which is also its folder below audio/
    speaker: str | None
    language: str
    duration_s: float
    digest: str  # of the file that was brought
    num_items: int

    @property
    def folder(self) -> str:
        """Its folder as seen from the project's."""
        return f"audio/{self.id}"


@dataclass(frozen=True, slots=True)
class Item:
    """An utterance: a piece of a recording, with the best text that there is for it."""

    id: str  # SPEAKER/NAME/0001
    recording: str
    speaker: str | None
    language: str
    start_s: float  # in the recording
    end_s: float
    split: Split
    state: State
    text: str  # what somebody confirmed, else the draft
    draft: str  # what the model wrote
    confidence: float | None  # the model's, 0 to 1; None: not yet drafted
    revision: int  # counts the changes; 0: nobody has touched it
    author: str  # of the last change; "" if there is none
    time: str  # of the last change, ISO 8601 in UTC

    @property
    def audio(self) -> str:
        """Its sound as seen from the project's folder; a text beside it once it is confirmed."""
        return f"audio/{self.id}.flac"

    @property
    def duration_s(self) -> float:
        """The length of the piece."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Change:
    """One line of an item's history, as the log has it."""

    revision: int
    kind: Literal["save", "skip", "undo"]
    state: State  # after it
    text: str  # after it
    author: str
    time: str


@dataclass(frozen=True, slots=True)
class Summary:
    """How far a project is: counts of utterances and seconds of speech."""

    num_items: int
    num_confirmed: int
    num_skipped: int
    total_s: float
    confirmed_s: float
    confirmed_train_s: float  # of the training and development sets
    num_test: int
    num_test_confirmed: int
    num_recordings: int
    num_speakers: int


class Conflict(ArborvoxError):  # noqa: N818 - what it is, not that it is an error
    """Somebody else changed the item in between; `item` is what stands there now."""

    def __init__(self, item: Item) -> None:
        super().__init__(
            f"{item.id} was changed by {item.author or 'somebody else'} in between; "
            "look at what stands there now, then save again."
        )
        self.item = item
