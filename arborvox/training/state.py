"""What a run must remember to go on as if it had never stopped, and the folder that holds it.

Random numbers need no memory: each step seeds its own from (seed, step, rank), see `seed_step`.
"""

import contextlib
import dataclasses
import errno
import hashlib
import math
import platform
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from arborvox.config import Recipe, TrainConfig, load_resolved_recipe, show_recipe
from arborvox.errors import ArborvoxError, one_line
from arborvox.files import atomic_folder, read_json, write_json_atomic, write_text_atomic
from arborvox.model.checkpoint import ENCODER, FROZEN, find_checkpoint, recipe_version
from arborvox.model.encoders.pretrained.base_model import is_of_model
from arborvox.team import this_team
from arborvox.typed_json import check_form

STATE_VERSION = 1
SECONDS_TO_APPEAR = 60  # a file that another host has written
STEP_NAME = re.compile("step-[0-9]{6,18}")

# No space, no quota, or a limit on the size of files.
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# The parts of a recipe that training reads.
LEARNED_SECTIONS = ("features", "augment", "model", "train")

# May change between a run and its continuation: they decide how long and where, not what.
FREE_KEYS = {
    "features.cache",
    "train.keep",
    "train.max_epochs",
    "train.max_steps",
    "train.patience",
    "train.workers",
}


@dataclasses.dataclass
class Evaluation:
    """A checkpoint's score: error rate, or training loss where there is no development set."""

    step: int
    score: float


@dataclasses.dataclass
class Progress:
    """How far a run has come; everything in it is saved."""

    step: int = 0  # optimizer steps done
    epoch: int = 0  # place of the next batch
    batch: int = 0
    precision: str = "fp32"
    evaluations: list[Evaluation] = dataclasses.field(default_factory=list)
    loss_sum: float = 0.0  # of the training loss since the last evaluation
    loss_steps: int = 0
    bad_steps: int = 0  # steps skipped because a number was not finite
    bad_in_a_row: int = 0
    unreadable: int = 0  # times that an utterance was left out because of its audio
    infeasible: int = 0  # times that a label was longer than its frames
    audio_s: float = 0.0
    frames: int = 0
    padded_frames: int = 0
    elapsed_s: float = 0.0
    finished: bool = False
    plain: bool = False  # what train.regularize_below keeps waiting still waits
    began: int = 0  # the step after which all weights were drawn; 0 unless they were drawn anew

    @property
    def padding(self) -> float:
        """Share of the frames computed so far that were padding."""
        return 1.0 - self.frames / self.padded_frames if self.padded_frames else 0.0

    def best(self, count: int) -> list[Evaluation]:
        """Return the best evaluations, best first; the later one of equals has learned more."""
        return sorted(self.evaluations, key=lambda e: (e.score, -e.step))[:count]

    @property
    def evaluations_without_gain(self) -> int:
        """Count the evaluations after the first one that nothing has beaten."""
        return self._without_gain()[-1]

    def outgrew(self, config: TrainConfig) -> bool:
        """Whether the run went further than it would have gone with these settings."""
        if config.max_steps is not None:
            too_long = self.step > config.max_steps
        else:
            too_long = (self.epoch, self.batch) > (config.max_epochs, 0)
        waited = max(self._without_gain()[:-1], default=0)  # the last one may have ended the run
        return too_long or (config.patience is not None and waited >= config.patience)

    def _without_gain(self) -> list[int]:
        """Count, at the start and at each evaluation, how many in a row have beaten nothing."""
        counts, best = [0], math.inf
        for evaluation in self.evaluations:
            counts.append(0 if evaluation.score < best else counts[-1] + 1)
            best = min(best, evaluation.score)
        return counts


class RunFolder:
    """Where everything that a run writes has its place."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "config.yaml"
        self.checkpoints = root / "checkpoints"
        self.states = root / "state"
        self.data = root / "data"
        self.frozen = self.data / FROZEN
        self.metrics = root / "metrics.jsonl"
        self.tensorboard = root / "tensorboard"
        self.curves = root / "curves.png"
        self.skipped = root / "skipped.tsv"
        self.final = root / "final"
        self.lock = root / ".lock"

    def claim(self, recipe: Recipe, *, same_start: bool = False) -> None:
        """Make the folder this recipe's; refuse one that was made by another recipe.

        same_start: the caller knows that both start from the same weights, wherever they lie.
        """
        # Without a state nothing was learned yet, and a mistake may be mended.
        newest = self.newest_state()
        if self.config.exists() and newest is not None:
            version = recipe_version(self.checkpoints / newest.name)
            keys = differing_keys(load_resolved_recipe(self.config, version), recipe)
            if same_start and "train.init_from" in keys:
                keys.remove("train.init_from")
            if keys:
                raise ArborvoxError(
                    f"{self.root} was made with another recipe: {', '.join(keys)} differ(s); "
                    f"choose another --out, or set the keys as in {self.config}."
                )
        write_text_atomic(self.config, show_recipe(recipe))

    def checkpoint(self, step: int) -> Path:
        """Return the place of a step's model."""
        return self.checkpoints / f"step-{step:06d}"

    def newest_state(self) -> Path | None:
        """Return the newest trainer state whose model is there too."""
        found = [
            path
            for path in _by_step(self.states)
            if (path / "trainer.json").exists() and (self.checkpoints / path.name).exists()
        ]
        return found[-1] if found else None

    def encoder_files(self, recipe: Recipe) -> Path | None:
        """Return where the run keeps what its encoder is made from, once it has saved that.

        Before that it is where the model keeps it that the run starts from, if that has the same:
        then what the encoder was once made from may be gone.
        """
        state = self.newest_state()
        if state is not None:
            return self.checkpoints / state.name / ENCODER
        if recipe.train.init_from is None or recipe.model.encoder != "pretrained":
            return None
        files = find_checkpoint(Path(recipe.train.init_from)) / ENCODER
        return files if is_of_model(files, recipe.model.pretrained) else None

    def prune(self, progress: Progress, keep: int, average_best: int) -> None:
        """Delete the models and states that are neither among the newest nor among the best."""
        names = [path.name for path in _by_step(self.checkpoints)]
        wanted = {self.checkpoint(e.step).name for e in progress.best(average_best)}
        wanted |= {*names[-keep:], self.checkpoint(progress.step).name}
        for name in names:
            if name not in wanted:
                shutil.rmtree(self.checkpoints / name)
        for path in self.states.glob("step-*"):
            if path.name != self.checkpoint(progress.step).name:
                shutil.rmtree(path)


def newest_common_state(run: RunFolder) -> Path | None:
    """Return the newest state that the first process sees, once this one sees it too.

    File systems of several hosts may be late; processes that went on from different steps would
    mix two trainings.
    """
    found: str | None
    found = this_team().share(lambda: path.name if (path := run.newest_state()) else None)
    if found is None:
        return None
    for _ in range(SECONDS_TO_APPEAR):
        if (run.states / found / "trainer.json").exists() and (run.checkpoints / found).exists():
            return run.states / found
        time.sleep(1)
    raise ArborvoxError(
        f"{platform.node()} does not see {run.states / found}, which the first process goes on "
        "from; --out has to be on a disk that all hosts see."
    )


def differing_keys(old: Recipe, new: Recipe) -> list[str]:
    """List the dotted keys in which two recipes differ and that change what is learned."""
    free = FREE_KEYS
    if new.train.schedule == "cosine":  # its shape depends on where it ends
        free = FREE_KEYS - {"train.max_epochs", "train.max_steps"}
    before, after = (
        _flatten(recipe.model_dump(mode="json", include=set(LEARNED_SECTIONS)))
        for recipe in (old, new)
    )
    return [key for key in after if key not in free and before.get(key) != after[key]]


def save_state(folder: Path, progress: Progress, optimizer: dict[str, Tensor]) -> None:
    """Write the trainer's side of a step; the folder takes its name when all is written."""
    facts = {"version": STATE_VERSION, **dataclasses.asdict(progress)}
    with atomic_folder(folder) as part:
        save_file(optimizer, part / "optimizer.safetensors")
        write_json_atomic(part / "trainer.json", facts)


def load_state(folder: Path) -> tuple[Progress, dict[str, Tensor]]:
    """Read what `save_state` wrote."""
    progress = load_progress(folder)
    try:
        return progress, load_file(folder / "optimizer.safetensors")
    except (OSError, SafetensorError) as error:
        raise _damaged(folder, error) from None


def load_progress(folder: Path) -> Progress:
    """Read how far the run had come when its state was saved."""
    path = folder / "trainer.json"
    facts = read_json(path)
    if isinstance(facts, dict) and facts.get("version") != STATE_VERSION:
        raise ArborvoxError(f"{folder} was written by another version of Arborvox; start anew.")
    return check_form(facts, Progress, path, "delete its folder to start anew")


def _damaged(folder: Path, error: Exception) -> ArborvoxError:
    return ArborvoxError(f"{folder} is damaged ({error}); delete it to start anew.")


def pack_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's tensors under names made of parameter and quantity."""
    return {
        f"{name}|{quantity}": value.detach().contiguous()
        for name, parameter in model.named_parameters()
        for quantity, value in optimizer.state.get(parameter, {}).items()
    }


def unpack_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Put back what `pack_optimizer` gave."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("|")
        if name not in parameters:
            raise ArborvoxError(f"It holds {one_line(name)}, which the model has not.")
        parameter = parameters[name]
        if value.shape not in (parameter.shape, ()):
            raise ArborvoxError(f"It holds {one_line(key)} of another size than the model's.")
        device = (
            "cpu" if quantity == "step" and parameter.device.type == "cpu" else parameter.device
        )
        optimizer.state[parameter][quantity] = value.to(device)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed torch for one step, so that no random state outlives it."""
    mixed = hashlib.blake2b(f"{seed}|{step}|{rank}".encode(), digest_size=4).digest()
    torch.manual_seed(int.from_bytes(mixed, "little"))


@contextlib.contextmanager
def explain_full_disk(run: RunFolder) -> Iterator[None]:
    """Turn a failed write into a sentence; what was saved before stays whole."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        # safetensors tells the error's number in its message only: "... (os error 28)".
        full = getattr(error, "errno", None) in FULL_DISK or any(
            f"(os error {number})" in str(error) for number in FULL_DISK
        )
        if not full:
            raise
        newest = run.newest_state()
        kept = f"{newest.name} is intact" if newest else "nothing had been saved before"
        raise ArborvoxError(
            f"Could not save to {run.root}: the disk is full; {kept}. "
            "Make room and run the same command again to go on from there."
        ) from error


def _by_step(folder: Path) -> list[Path]:
    """List a folder's steps from first to last; as text, 1000000 would stand before 999999."""
    found = [path for path in folder.glob("step-*") if STEP_NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
