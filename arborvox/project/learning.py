"""A round of learning: what was corrected in, a model that was compared with the last one out.

work/plan.json       what the round is: the model it begins with, the one it makes
work/corrected.tsv   what it learns from, as it was when the round began
work/data            manifests, tokens and tree
work/run             the training
work/old.jsonl, work/new.jsonl    the test set as both models hear it

A round that was killed goes on with its plan and ends as if it had not been. When it is over, its
model is in models/ and work/ is deleted.
"""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from arborvox.config import (
    DecodeConfig,
    FolderCorpus,
    Recipe,
    load_resolved_recipe,
)
from arborvox.console import warn
from arborvox.corpora import prepare
from arborvox.decode.corpus_decoding import decode_manifest
from arborvox.errors import ArborvoxError
from arborvox.files import atomic_folder, write_json_atomic, write_text_atomic
from arborvox.manifest import append_cuts, load_manifest, split_file
from arborvox.model.checkpoint import (
    CONFIG,
    TOKENS,
    find_checkpoint,
    read_search,
    recipe_version,
    save_search,
)
from arborvox.processes import count_cores
from arborvox.project.drafting import model_path, write_drafts
from arborvox.project.going_on import draft_error, expected_steps, go_on
from arborvox.project.items import Item
from arborvox.project.models import LEARNED, LearnedModel, Verdict
from arborvox.project.progress import (
    WORK,
    LearningStatus,
    Stage,
    hold_learning,
    write_status,
)
from arborvox.project.project import CORRECTED, Project, table_text
from arborvox.project.vocabulary import write_vocabulary
from arborvox.project.withdrawal import CACHE
from arborvox.recognizer import load
from arborvox.score import Comparison, Difference, compare_hypotheses, read_hypotheses
from arborvox.tokens import Tokenizer
from arborvox.train import train
from arborvox.typed_json import read_form

PLAN = "plan.json"
# Fewer say nothing: neither what to learn, nor whether it was learned.
FEWEST_TRAIN, FEWEST_TEST = 5, 3

# Sections of the parent's corpus that say how its texts were written.
TEXT_KEYS = ("unit", "digits", "foreign", "harakat", "look_alikes")


@dataclass(frozen=True)
class RoundPlan:
    """What a round is to do, written down before anything else."""

    model: str
    parent: str
    also: str | None
    train_s: float
    error: float | None  # of the parent's drafts, by what people made of them
    test_s: float
    num_test: int
    heard: tuple[str, ...]
    num_withdrawn: int


def learn(project: Project, *, also: Path | None = None) -> LearnedModel:
    """Train on from the model in use with what was corrected, and compare the two."""
    with hold_learning(project.folder):
        status = _Status(project.folder)
        with status.telling_the_end(), _heeding_sigterm():
            return _Round(project, status, also).run()


class _Round:
    """One round, from the plan to the model."""

    def __init__(self, project: Project, status: "_Status", also: Path | None) -> None:
        self.project, self.status = project, status
        self.work = project.folder / WORK
        self.data, self.trained = self.work / "data", self.work / "run"
        status.tell("prepare", "looking at what was corrected")
        self.plan = self._plan(also)
        status.model = self.plan.model
        self.parent = find_checkpoint(model_path(project, self.plan.parent))
        self.began_s = time.monotonic()
        self.num_steps = 0

    def run(self) -> LearnedModel:
        """Do what is left of the round."""
        home = self.project.models.folder / self.plan.model
        if not (home / LEARNED).is_file():
            recipe = self._prepare()
            self._train(recipe)
            self._publish(self._compare(), home)
        self._draft(home)
        shutil.rmtree(self.work)
        learned = {model.name: model for model in self.project.models.learned()}
        model = learned[self.plan.model]
        offered = "offered" if model.offered else "not offered, as the test set says it is worse"
        self.status.tell("done", f"model {model.name} is {offered}")
        return model

    def _plan(self, also: Path | None) -> RoundPlan:
        """Go on with the plan of a round that was killed, or make one of what is confirmed now."""
        path = self.work / PLAN
        if path.is_file():
            return read_form(path, RoundPlan, f"delete {self.work}")
        if self.work.exists():
            shutil.rmtree(self.work)
        items = self.project.items(state="confirmed")
        train_items = [item for item in items if item.split != "test"]
        test_items = [item for item in items if item.split == "test"]
        for found, fewest, name in (
            (train_items, FEWEST_TRAIN, "to learn from"),
            (test_items, FEWEST_TEST, "of the test set"),
        ):
            if len(found) < fewest:
                raise ArborvoxError(
                    f"{self.project.folder}: {len(found)} confirmed utterances {name} are too few; "
                    f"confirm {fewest} or more."
                )
        models = self.project.models
        model_path(self.project, models.current)
        before = next((model for model in models.learned() if model.name == models.current), None)
        heard = {item.recording for item in train_items}
        plan = RoundPlan(
            model=models.next_name(),
            parent=models.current,
            also=None if also is None else str(also.absolute()),
            train_s=_seconds(train_items),
            error=draft_error(self.project.corrections(models.current)),
            test_s=_seconds(test_items),
            num_test=len(test_items),
            # What a model knows, those know that went on from it.
            heard=tuple(sorted(heard | set(before.heard if before else ()))),
            num_withdrawn=before.num_withdrawn if before else 0,
        )
        write_text_atomic(self.work / CORRECTED, table_text(items))
        write_json_atomic(path, asdict(plan))
        return plan

    def _prepare(self) -> Recipe:
        """Make manifests, tokens and tree of what was corrected; return the recipe."""
        before = load_resolved_recipe(self.parent / CONFIG, recipe_version(self.parent))
        corpus = self._corpus(before)
        if not (self.data / "tree.done").is_file():
            if self.data.exists():
                shutil.rmtree(self.data)
            prepare(corpus, self.data, jobs=count_cores())
            if self.plan.also is not None:
                more = Path(self.plan.also) / split_file("train")
                append_cuts(more, self.data / split_file("train"))
            write_vocabulary(
                self.parent,
                before,
                [self.data / split_file(split) for split in ("train", "dev")],
                self.data / "tokens.json",
                self.data / "tree.json",
            )
            (self.data / "tree.done").touch()
        return self._recipe(before, corpus)

    def _corpus(self, before: Recipe) -> FolderCorpus:
        written = before.corpus.model_dump()
        manner = {key: written[key] for key in TEXT_KEYS if key in written}
        return FolderCorpus(
            source=str((self.work / CORRECTED).absolute()),
            audio_root=str(self.project.folder.absolute()),
            split="given",
            **manner,
        )

    def _recipe(self, before: Recipe, corpus: FolderCorpus) -> Recipe:
        """Return the parent's recipe, with the settings of a training that goes on."""
        train_s = sum(u.duration_s for u in load_manifest(self.data / split_file("train")))
        recipe = go_on(
            before,
            self.parent,
            name=f"{before.name.partition(', learned')[0]}, learned {self.plan.model}",
            seed=int(self.plan.model),
            train_s=train_s,
            cache=self.project.folder / CACHE,
            corpus=corpus,
            error=self.plan.error,
        )
        self.num_steps = expected_steps(recipe, train_s)
        return recipe

    def _train(self, recipe: Recipe) -> None:
        self.status.tell(
            "train",
            f"learning from {self.plan.train_s / 60:.1f} minutes of corrections",
            total=self.num_steps,
        )
        tree = self.data / "tree.json"
        result = train(
            recipe,
            out=self.trained,
            manifests=self.data,
            tokens=self.data / "tokens.json",
            tree=tree if tree.is_file() else None,
        )
        if result.interrupted:
            raise KeyboardInterrupt
        hand_down_search(self.parent, find_checkpoint(self.trained))

    def _compare(self) -> Comparison:
        """Let both models hear the test set."""
        files = []
        for number, (name, model) in enumerate((("old", self.parent), ("new", self.trained))):
            told = "hearing the test set, as the model in use and as the new one"
            self.status.tell("test", told, done=number, total=2)
            out = self.work / f"{name}.jsonl"
            decode_manifest(model, self.data / split_file("test"), DecodeConfig(), out)
            files.append(read_hypotheses(out))
        return compare_hypotheses(files)

    def _publish(self, comparison: Comparison, home: Path) -> None:
        """Give the model its place, with what the test set says of it."""
        metric = comparison.main_metric
        compared = comparison.metrics[metric]
        found = compared.differences[0].pooled
        old, new = (scores.pooled.rate for scores in compared.scores)
        verdict = judge(found)
        told = LearnedModel(
            name=self.plan.model,
            parent=self.plan.parent,
            time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            offered=verdict != "worse",
            verdict=verdict,
            metric=metric.upper(),
            parent_rate=old.value,
            parent_low=old.low,
            parent_high=old.high,
            rate=new.value,
            low=new.low,
            high=new.high,
            difference=found.estimate.value,
            difference_low=found.estimate.low,
            difference_high=found.estimate.high,
            p_value=found.p_value,
            num_test=sum(comparison.num_utterances.values()),
            test_s=self.plan.test_s,
            train_s=self.plan.train_s,
            elapsed_s=round(time.monotonic() - self.began_s, 1),
            heard=self.plan.heard,
            num_withdrawn=self.plan.num_withdrawn,
        )
        with atomic_folder(home) as part:
            shutil.copytree(find_checkpoint(self.trained), part, dirs_exist_ok=True)
            write_json_atomic(part / LEARNED, {**asdict(told), "heard": list(told.heard)})

    def _draft(self, home: Path) -> None:
        """Let the new model hear what nobody has corrected yet."""
        name = self.plan.model
        items = self.project.undrafted(name)
        self.status.tell("draft", "writing new drafts", total=len(items))
        if items:
            recognizer = load(home)
            write_drafts(
                self.project,
                name,
                recognizer,
                items,
                lambda done: self.status.tell("draft", "writing new drafts", done, len(items)),
            )


def hand_down_search(parent: Path, child: Path) -> None:
    """Let a new model search as the one in use was tuned to, or the two do not compare."""
    search = read_search(parent)
    if search is None:
        return
    save_search(child, search)
    known = set(Tokenizer.load(parent / TOKENS).units)
    new = [unit for unit in Tokenizer.load(child / TOKENS).units if unit not in known]
    if new and search.lm is not None:
        warn(
            f"the model's language model does not know {' '.join(new)}; make it again with "
            f"`arborvox lm` and `arborvox tune --apply`"
        )


def judge(found: Difference) -> Verdict:
    """Say what the paired test says of a model; one that is not worse may be offered."""
    if not found.is_significant:
        return "same"
    return "worse" if found.estimate.value > 0 else "better"


class _Status:
    """Tells how far a round is, in the file that pages look at."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, ""

    def tell(self, stage: Stage, message: str, done: int = 0, total: int = 0) -> None:
        """Write it down."""
        told = LearningStatus(stage, done, total, message, self.model, os.getpid())
        write_status(self.folder, told)

    @contextlib.contextmanager
    def telling_the_end(self) -> Iterator[None]:
        """Say why a round ended that did not come to its end."""
        try:
            yield
        except KeyboardInterrupt:
            self._end("stopped", "stopped; learning again goes on from here")
            raise
        except Exception as error:
            named = getattr(error, "filename", None)
            told = f"{named}: {getattr(error, 'strerror', error)}" if named else str(error)
            self._end("failed", told)
            raise

    def _end(self, stage: Stage, message: str) -> None:
        with contextlib.suppress(OSError):  # on a full disk there is no place to say it
            self.tell(stage, message)


@contextlib.contextmanager
def _heeding_sigterm() -> Iterator[None]:
    """Let a request to stop end the round as Ctrl-C does; a training saves first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _seconds(items: list[Item]) -> float:
    return round(sum(item.duration_s for item in items), 3)
