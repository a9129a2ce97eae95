"""Where the parts of a finished experiment lie: `experiment.json`, written by `arborvox run`."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from arborvox.errors import ArborvoxError
from arborvox.files import path_below, read_json, write_json_atomic
from arborvox.score import Scores, read_scores

EXPERIMENT_NAME = "experiment.json"
FORMAT_KEY, FORMAT_VERSION = "arborvox_experiment", 2
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
    try:
        models = tuple(
            ModelEntry(**{**model, "runs": tuple(RunEntry(**run) for run in model["runs"])})
            for model in value.pop("models")
        )
        seeds = tuple(value.pop("seeds"))
        experiment = Experiment(models=models, seeds=seeds, **value)
        for place in _places(experiment):
            path_below(folder, *place.split("/"))
    except (KeyError, TypeError, AttributeError) as error:
        raise ArborvoxError(f"{path} is damaged ({error}); run the recipe again.") from None
    return experiment


def _places(experiment: Experiment) -> Iterator[str]:
    """Yield every path that an experiment names: what a stranger's file says is not yet one."""
    yield from filter(None, (experiment.stats, experiment.tokens, experiment.tree))
    for model in experiment.models:
        for run in model.runs:
            yield run.run
            for files in (run.hypotheses, run.scores, run.speed):
                yield from files.values()
