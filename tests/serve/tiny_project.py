"""A project of tones: each letter is a pitch, so that even a tiny model can learn from it."""

from pathlib import Path

import numpy as np
import soundfile
from checkpoints import make_checkpoint
from running_server import RunningServer
from tiny_corpus import PHONES, RATE, tone

from arborvox.project import Project
from arborvox.project.adding import add_recordings
from arborvox.project.drafting import draft_items

# Two letters that keyboards lack, and a mark that stands on others.
UNITS = ("<eos>", "<unk>", " ", *PHONES, "ɛ", "ŋ", "\u0301")
SPEAKERS = ("ana", "bo")


def make_model(folder: Path) -> Path:
    """Write an untrained model of the tones' letters."""
    return make_checkpoint(
        folder, units=UNITS, languages=("x-a",), decoder="none", output="softmax", ctc="softmax",
        max_duration_s=10.0, decode={"mode": "ctc-greedy"}, seed=3,
    )  # fmt: skip


def make_project(folder: Path, run: Path, num_each: int = 8) -> tuple[Project, dict[str, str]]:
    """Make a project of both speakers' recordings, drafted; return it with what is really said."""
    chance = np.random.default_rng(3)
    said = {}
    for speaker in SPEAKERS:
        home = folder.with_name(f"{folder.name}-recordings") / speaker
        home.mkdir(parents=True)
        for number in range(num_each):
            letters = [str(letter) for letter in chance.choice(PHONES, chance.integers(3, 7))]
            sound = np.concatenate([tone(letter, chance) for letter in letters])
            soundfile.write(home / f"tale{number}.wav", sound, RATE)
            said[f"{speaker}/tale{number}/0001"] = " ".join(letters)
    project = Project.create(folder, language="x-a", model=run)
    add_recordings(project, [folder.with_name(f"{folder.name}-recordings")])
    draft_items(project)
    return project, said


class Tales:
    """A project, what is really said in it, and its server."""

    def __init__(self, folder: Path) -> None:
        run = make_model(folder / "first")
        self.project, self.said = make_project(folder / "tales", run, num_each=14)
        self._folder = folder / "server"
        self.server = RunningServer(self._arguments, self._folder)

    @property
    def _arguments(self) -> list[str]:
        return [f"--project={self.project.folder}"]

    def kill_and_start(self) -> None:
        """Kill the server as a lost plug would, and start it again at the same address."""
        self.server.process.kill()
        self.server.process.wait()
        self.server = RunningServer(self._arguments, self._folder, self.server.port)
