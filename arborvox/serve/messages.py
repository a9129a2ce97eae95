"""What the server and its processes say to each other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arborvox.decode.segments import SpeechSegment
from arborvox.decode.transcript import Segment


@dataclass(frozen=True)
class Wishes:
    """How speech is to be recognized; what is alike can be recognized together."""

    model: str
    language: str | None = None
    inventory: str | None = None
    mode: str | None = None
    beam: int | None = None
    alternatives: int = 0
    explained: bool = False
    draft: bool = False  # cheaply: a better one follows


@dataclass(frozen=True)
class UnitChoice:
    """A unit that was written, when, and how it was chosen (see decode.explanation.Choice)."""

    unit: str
    start_s: float | None
    end_s: float | None
    probability: float
    rivals: tuple[tuple[str, float], ...]
    turns: tuple[tuple[int, bool, float], ...]


@dataclass(frozen=True)
class Heard:
    """What was found in a stretch of speech."""

    segment: Segment
    tokens: tuple[int, ...]
    mean_log_prob: float
    alternatives: tuple[tuple[str, float], ...] = ()  # texts and scores, the best one first
    choices: tuple[UnitChoice, ...] = ()


@dataclass(frozen=True)
class ModelFacts:
    """What requests and the page need to know of a model."""

    name: str
    sampling_rate: int
    max_segment_s: float
    languages: tuple[str, ...]
    unit: str
    mode: str  # what is used where a request says nothing
    modes: tuple[str, ...]
    beam: int
    inventories: tuple[str, ...]  # those that have units of this model
    letters: tuple[str, ...]  # those it writes that ASCII has not
    created: int
    tree: dict[str, Any] | None  # units and children, as the page draws them


@dataclass(frozen=True)
class Question:
    """Speech for a recognizing process; all of it is one batch."""

    wishes: Wishes
    batch: tuple[SpeechSegment, ...]


@dataclass(frozen=True)
class Refusal:
    """A sentence for whoever asked."""

    sentence: str


@dataclass(frozen=True)
class Fault:
    """A fault of ours, for the log."""

    traceback: str


@dataclass(frozen=True)
class FileTask:
    """A recording for a decoding process."""

    path: Path
    sampling_rate: int
    max_segment_s: float
    max_duration_s: float


@dataclass(frozen=True)
class FileEnd:
    """A recording was read to its end."""

    duration_s: float
