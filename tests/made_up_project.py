"""A project whose recordings are tones, one for each letter: a tiny model can learn them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
from checkpoints import make_checkpoint
from tiny_corpus import PHONES, RATE, tone

from arborvox.project import Item, Project
from arborvox.project.adding import add_recordings

SPEAKERS = ("ana", "ivo", "oyo")
LANGUAGE = "x-a"


def make_recordings(
    folder: Path, speakers: Sequence[str] = SPEAKERS, number: int = 6, *, seed: int = 0
) -> dict[str, str]:
    """Write short recordings in a folder for each speaker; return what is said, by SPEAKER/NAME."""
    chance = np.random.default_rng(seed)
    said = {}
    for speaker in speakers:
        (folder / speaker).mkdir(parents=True, exist_ok=True)
        for place in range(number):
            phones = [str(phone) for phone in chance.choice(PHONES, chance.integers(3, 7))]
            samples = np.concatenate([tone(phone, chance) for phone in phones])
            soundfile.write(folder / speaker / f"r{seed}{place}.wav", samples, RATE)
            said[f"{speaker}/r{seed}{place}"] = " ".join(phones)
    return said


def make_project(folder: Path, *, number: int = 6) -> tuple[Project, dict[str, str]]:
    """Make a project of short recordings with an untrained model; nothing is drafted."""
    said = make_recordings(folder / "brought", number=number)
    model = make_checkpoint(
        folder / "model",
        units=("<eos>", "<unk>", *PHONES),
        unit="phone",
        languages=(LANGUAGE,),
        max_duration_s=30.0,
        decode={"mode": "ctc-greedy"},
    )
    project = Project.create(folder / "project", language=LANGUAGE, model=model)
    add_recordings(project, [folder / "brought"])
    return project, said


def confirm(project: Project, item: Item, text: str, author: str = "eva") -> Item:
    """Save a text as somebody does who has just looked at the item."""
    return project.save(item.id, text, revision=item.revision, author=author)


def confirm_all(project: Project, said: dict[str, str]) -> None:
    """Confirm what is really said in every utterance."""
    for item in project.items(state="draft"):
        confirm(project, item, said[item.recording])
