"""Errors of each test utterance, kept beside the tables: seeds trained on other days are pooled.

A training takes half an hour and its counts a few kilobytes, so the counts are kept, a file for
each corpus: whoever trains another seed adds it, and all intervals and differences are computed
anew from the utterances.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel

from arborvox.config import Recipe
from arborvox.corpora.manifests import REPEATED_NAME
from arborvox.digests import digest_value
from arborvox.errors import ArborvoxError
from arborvox.files import clean_cell, read_json, write_json_atomic
from arborvox.report.experiment import ModelEntry, load_experiment
from arborvox.score import Scores, Selection
from arborvox.score.bootstrap import errors_of, lengths_of
from arborvox.score.counts import IntTable, Metric
from arborvox.score.rates import EditCounts, PartScores, score_tables
from arborvox.typed_json import check_form

SETTING = "free"  # no inventories
ALL = "all"  # utterances; corpora of one language have no others
SAMPLES, BOOTSTRAP_SEED = 1000, 0
# What a training follows from; where it is found, and by which seed, is told apart.
SECTIONS = ("tokens", "tree", "augment", "model", "train", "decode")
ELSEWHERE = ("train.seed", "train.workers", "model.pretrained", "decode.lm")


Numbers = str  # one for each utterance, in one line of the file


@dataclass
class KeptModel:
    """A model of the comparison: what it was made by, and its errors by seed."""

    settings: str  # mark of what was trained and how it was searched
    errors: dict[str, dict[Metric, Numbers]] = field(default_factory=dict)


@dataclass
class KeptScores:
    """The test utterances of a corpus, and the errors of each model in each of them."""

    references: str  # mark of ids and texts
    lengths: dict[Metric, Numbers]  # of the references
    is_new: Numbers  # 1 where training lacks the sentence
    models: dict[str, KeptModel] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> "KeptScores | None":
        """Read what was kept, if anything was."""
        return check_form(read_json(path), cls, path, "delete it") if path.is_file() else None

    def save(self, path: Path) -> None:
        """Write it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomic(path, asdict(self))

    def take(self, other: "KeptScores") -> None:
        """Add an experiment's seeds; those that are here already are replaced."""
        if other.references != self.references:
            raise ArborvoxError("The experiment was tested on other utterances than those kept.")
        for label, model in other.models.items():
            mine = self.models.setdefault(label, KeptModel(model.settings))
            if mine.settings != model.settings:
                raise ArborvoxError(
                    f"{label} was trained or searched with other settings than the seeds that are "
                    f"kept; take another --as, or delete what is kept."
                )
            mine.errors |= model.errors

    @property
    def repeated(self) -> float:
        """The share of utterances whose sentence training has, too."""
        return float(1 - _read(self.is_new).mean())

    def seeds(self, *labels: str) -> list[str]:
        """List the seeds that all of these models were trained with."""
        of = [set(self.models[label].errors) for label in labels if label in self.models]
        return sorted(set.intersection(*of), key=int) if of else []

    def scores(self, label: str, seeds: Sequence[str], *, new: bool) -> list[PartScores]:
        """Score a model, a seed after the other, on all utterances or on new sentences alone."""
        is_new = _read(self.is_new) > 0
        chosen = is_new if new else np.ones_like(is_new)
        return [self._score(self.models[label].errors[seed], chosen) for seed in seeds]

    def _score(self, errors: dict[Metric, Numbers], chosen: NDArray[np.bool_]) -> PartScores:
        tables = {
            metric: {ALL: _edits(_read(of), _read(self.lengths[metric]))[chosen]}
            for metric, of in errors.items()
        }
        metrics = score_tables(tables, seed=BOOTSTRAP_SEED, num_samples=SAMPLES)
        return PartScores(metrics, EditCounts({}, tables, {}, self.references))


def _read(numbers: Numbers) -> IntTable:
    return np.array(numbers.split(), np.int64)


def _write(numbers: Sequence[IntTable]) -> Numbers:
    return " ".join(map(str, np.concatenate(numbers).tolist()))


def _edits(errors: IntTable, lengths: IntTable) -> IntTable:
    """Return a table of edits with so many errors, (N, 4); which edits they were is not kept."""
    wrong = np.minimum(errors, lengths)
    return np.stack((lengths - wrong, wrong, np.zeros_like(wrong), errors - wrong), axis=1)


def read_experiment_scores(folder: Path) -> KeptScores:
    """Take the counts of an experiment that `arborvox run` has finished."""
    experiment = load_experiment(folder)
    scores = experiment.read_scores(folder, SETTING)
    first = next(iter(scores.values()))[0]
    repeated = (folder / experiment.stats).with_name(REPEATED_NAME)
    known = Selection.read(None, repeated).unwanted if repeated.is_file() else frozenset()
    recipe = yaml.safe_load(experiment.recipe)
    kept = KeptScores(
        references=first.edits.references,
        lengths={
            metric: _write([lengths_of(table) for table in of.values()])
            for metric, of in first.edits.tables.items()
        },
        is_new=_write(
            [
                np.array([int(clean_cell(id_) not in known) for id_ in ids])
                for ids in first.edits.ids.values()
            ]
        ),
    )
    for model in experiment.models:
        kept.models[model.label] = KeptModel(
            _mark_settings(recipe, model),
            {
                str(run.seed): _errors(of_seed)
                for run, of_seed in zip(model.runs, scores[model.label], strict=True)
            },
        )
    return kept


def _errors(scores: Scores) -> dict[Metric, Numbers]:
    return {
        metric: _write([errors_of(table) for table in of.values()])
        for metric, of in scores.edits.tables.items()
    }


def _mark_settings(recipe: dict[str, Any], model: ModelEntry) -> str:
    """Name what a model was made by: the recipe's sections and what was set for it alone.

    What a key is by default is left out, so that a younger key that is left alone changes nothing.
    """
    settings = {
        f"{section}.{key}": value
        for section in SECTIONS
        for key, value in (recipe.get(section) or {}).items()
    }
    settings |= model.changes
    told = {
        key: value
        for key, value in settings.items()
        if key not in ELSEWHERE and value != _default_of(key)
    }
    return digest_value(told)


def _default_of(key: str) -> object:
    section, _, name = key.partition(".")
    form = Recipe.model_fields[section].annotation
    assert isinstance(form, type)
    assert issubclass(form, BaseModel)
    return form.model_fields[name].default
