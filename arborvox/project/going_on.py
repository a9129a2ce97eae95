"""The recipe of a model that goes on learning: its parent's, for less long and with more care."""

from pathlib import Path
from typing import Any

from arborvox.config import CorpusConfig, Recipe, validate_recipe

# How long: about as much speech whatever there is, but nothing too seldom or too often.
SPEECH_S = 20_000.0
FEWEST_EPOCHS, MOST_EPOCHS = 8, 60
# A model that knows something already is changed more carefully than one that knows nothing.
RATE_SHARE, MOST_RATE = 0.5, 1e-3
WARMUP_SHARE = 0.05
NUM_EVALUATIONS = 12


def go_on(
    before: Recipe,
    parent: Path,
    *,
    name: str,
    seed: int,
    train_s: float,
    cache: Path,
    corpus: CorpusConfig | None = None,
    speech_s: float = SPEECH_S,
) -> Recipe:
    """Return what trains on from a parent with `train_s` seconds of speech."""
    sections: dict[str, Any] = before.model_dump(mode="json")
    config = before.train
    epochs = min(max(round(speech_s / max(train_s, 1.0)), FEWEST_EPOCHS), MOST_EPOCHS)
    steps = max(round(train_s * epochs / (config.batch_s * config.accumulate)), 1)
    every = max(steps // NUM_EVALUATIONS, 1)
    sections["name"] = name
    if corpus is not None:
        sections["corpus"] = corpus.model_dump(mode="json")
    sections["variants"] = []
    sections["features"]["cache"] = str(cache.absolute())
    sections["train"] |= {
        "init_from": str(parent),
        "max_epochs": epochs,
        "max_steps": None,
        "schedule": "cosine",
        "learning_rate": RATE_SHARE * min(config.learning_rate, MOST_RATE),
        "warmup_steps": round(WARMUP_SHARE * steps),
        "regularize_below": None,
        "freeze_steps": 0,
        "evaluate_every": every,
        "save_every": every,
        "patience": None,
        "seed": seed,
    }
    return validate_recipe(sections, name=str(parent))


def expected_steps(recipe: Recipe, train_s: float) -> int:
    """Return about how many steps a recipe takes with so much speech."""
    config = recipe.train
    return max(round(train_s * config.max_epochs / (config.batch_s * config.accumulate)), 1)
