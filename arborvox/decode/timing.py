"""Where the time of decoding went, as the file beside the hypotheses tells it."""

from dataclasses import dataclass
from pathlib import Path

from arborvox.typed_json import read_form

REMEDY = "delete it and the hypotheses beside it, and decode again"


@dataclass(frozen=True)
class Timing:
    """Seconds of audio and of work, and how the work was done."""

    audio_s: float
    seconds: dict[str, float]  # by stage
    rtf: dict[str, float]  # the same, and in total, for a second of audio
    mode: str
    beam: int
    precision: str
    threads: int
    batch_s: float


def read_timing(path: Path) -> Timing:
    """Read what `arborvox decode` wrote beside its hypotheses."""
    return read_form(path, Timing, REMEDY)
