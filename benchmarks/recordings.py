"""Recordings of a folder, drawn by lot."""

import random
from pathlib import Path

from torch import Tensor

from arborvox import audio
from arborvox.errors import ArborvoxError
from arborvox.features import SpeechInput

ENDINGS = (".flac", ".mp3", ".wav")


def draw_recordings(folder: Path, count: int, take: SpeechInput) -> list[Tensor]:
    """Return an encoder's input of some recordings, (T, M) each; always of the same ones."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS)
    if not paths:
        raise ArborvoxError(f"{folder} has no recordings.")
    sample = random.Random(0).sample(paths, min(count, len(paths)))
    return [take(audio.load(path, take.sampling_rate)) for path in sample]
