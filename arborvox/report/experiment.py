"""Where the parts of a finished experiment lie: `experiment.json`, written by `arborvox run`."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from arborvox.config import ReportConfig
from arborvox.errors import ArborvoxError, one_line
from arborvox.files import path_below, read_json, write_json_atomic
from arborvox.score import Scores, read_scores
from arborvox.typed_json import check_form

EXPERIMENT_NAME = "experiment.json"
FORMAT_KEY, FORMAT_VERSION = "arborvox_experiment", 2
REMEDY = "run the recipe again"
# How each table came about: without and with the test languages' own inventories of units.
SETTINGS = {
    "free": "any unit may be heard",
    "inventory": "only units of the language's inventory may be heard",
}


@dataclass(frozen=True)
class RunEntry:
    """One training of a model; paths are seen from the experiment's folder."""

    seed: int
    run: str
    train_s: float | None
    hypotheses: dict[str, str]  # by setting
    scores: dict[str, str]
    speed: dict[str, str]  # the side files with the times of decoding


@dataclass(frozen=True)
class ModelEntry:
    """A model of the comparison, with what was set for it alone."""

    name: str
    label: str
    changes: dict[str, Any]
    num_parameters: int | None
    runs: tuple[RunEntry, ...]
    against: str | None = None  # the model that it is measured against; the first if not told


@dataclass(frozen=True)
class Experiment:
    """All that a report is made from."""

    name: str
    command: str
    seeds: tuple[int, ...]
    samples: int  # of the bootstrap
    bootstrap_seed: int
    num_examples: int
    recipe: str  # YAML, resolved
    environment: dict[str, str]  # machine and versions, in words
    stats: str  # of the test corpus
    tokens: str  # the tree's, if there is one
    tree: str | None  # the first one that a model uses
    models: tuple[ModelEntry, ...]

    @property
    def settings(self) -> list[str]:
        """The ways of decoding that all models went."""
        every = [set(run.hypotheses) for model in self.models for run in model.runs]
        first = self.models[0].runs[0].hypotheses
        return [name for name in first if all(name in names for names in every)]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The places of each model's opponent and of itself; the first needs none."""
        places = {model.name: place for place, model in enumerate(self.models)}
        pairs = [
            (places[model.against] if model.against else 0, place)
            for place, model in enumerate(self.models)
            if place > 0 or model.against
        ]
        # Two that name each other are one comparison.
        return [pair for place, pair in enumerate(pairs) if pair[::-1] not in pairs[:place]]

    def read_scores(self, folder: Path, setting: str) -> dict[str, list[Scores]]:
        """Read the scores of one way of decoding: by model, a seed after the other."""
        paths = {
            model.label: [folder / run.scores[setting] for run in model.runs]
            for model in self.models
        }
        scores = {label: [read_scores(path) for path in of] for label, of in paths.items()}
        first = self.models[0].label
        asked = scores[first][0]
        for label, of_model in scores.items():
            for path, found in zip(paths[label], of_model, strict=True):
                if (
                    found.edits.references != asked.edits.references
                    or found.metrics.keys() != asked.metrics.keys()
                ):
                    raise ArborvoxError(
                        f"{path} tells of other utterances than {paths[first][0]}: models can only "
                        "be compared on the same test set."
                    )
        return scores

    def save(self, folder: Path) -> None:
        """Write experiment.json."""
        write_json_atomic(folder / EXPERIMENT_NAME, {FORMAT_KEY: FORMAT_VERSION, **asdict(self)})


def load_experiment(folder: Path) -> Experiment:
    """Read experiment.json."""
    path = folder / EXPERIMENT_NAME
    if not path.is_file():
        raise ArborvoxError(
            f"There is no {EXPERIMENT_NAME} in {folder}; `arborvox run` writes it when the last "
            "score is done."
        )
    value = read_json(path)
    if not isinstance(value, dict) or value.pop(FORMAT_KEY, None) != FORMAT_VERSION:
        raise ArborvoxError(f"{path} is not of format {FORMAT_VERSION}; run the recipe again.")
    experiment = check_form(value, Experiment, path, REMEDY)
    for place in _places(experiment):
        path_below(folder, *place.split("/"))
    if flaw := _flaw_of(experiment):
        raise ArborvoxError(f"{path} is damaged ({flaw}); {REMEDY}.")
    return experiment


def _flaw_of(experiment: Experiment) -> str:
    """Say what keeps an experiment from being reported, or nothing."""
    models, names = experiment.models, {model.name for model in experiment.models}
    if not models or not all(model.runs for model in models):
        return "there is a model without a run, or none at all"
    if len(names) < len(models) or len({model.label for model in models}) < len(models):
        return "two models have one name"
    if unknown := [m.against for m in models if m.against and m.against not in names]:
        return f"there is no model {one_line(unknown[0])}"
    runs = [run for model in models for run in model.runs]
    settings = experiment.settings
    if not settings or not set(settings) <= SETTINGS.keys():
        return "the models were not decoded in one known way"
    if not all(
        setting in files
        for run in runs
        for files in (run.scores, run.speed)
        for setting in settings
    ):
        return "a run has no scores"
    numbers = {"samples": experiment.samples, "seed": experiment.bootstrap_seed}
    try:
        ReportConfig(**numbers, examples=experiment.num_examples)
    except ValidationError as error:
        return one_line(error.errors()[0]["msg"])
    return ""


def _places(experiment: Experiment) -> Iterator[str]:
    """Yield every path that an experiment names: what a stranger's file says is not yet one."""
    yield from filter(None, (experiment.stats, experiment.tokens, experiment.tree))
    for model in experiment.models:
        for run in model.runs:
            yield run.run
            for files in (run.hypotheses, run.scores, run.speed):
                yield from files.values()
