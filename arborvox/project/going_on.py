"""The recipe of a model that goes on learning: its parent's, for less long and with more care."""

import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rapidfuzz.distance import Levenshtein

from arborvox.config import CorpusConfig, Recipe, validate_recipe

# How long: about as much speech whatever there is, but nothing too seldom or too often.
SPEECH_S = 20_000.0
FEWEST_EPOCHS, MOST_EPOCHS = 8, 60
# Of the parent's learning rate. A model that writes well already forgets more than it learns from
# some minutes at a rate that suits one that knows next to nothing (results/learning_round.md).
RATE_SHARE, CAREFUL_SHARE, MOST_RATE = 0.5, 0.1, 1e-3
GOOD_ERROR = 0.3  # of the letters: a model with fewer wrong is changed with care
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
    error: float | None = None,
) -> Recipe:
    """Return what trains on from a parent with `train_s` seconds of speech.

    error: how much of what the parent wrote had to be corrected, where that is known.
    """
    sections: dict[str, Any] = before.model_dump(mode="json")
    config = before.train
    epochs = min(max(round(speech_s / max(train_s, 1.0)), FEWEST_EPOCHS), MOST_EPOCHS)
    steps = max(round(train_s * epochs / (config.batch_s * config.accumulate)), 1)
    every = max(steps // NUM_EVALUATIONS, 1)
    share = CAREFUL_SHARE if error is not None and error < GOOD_ERROR else RATE_SHARE
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
        "learning_rate": share * min(config.learning_rate, MOST_RATE),
        "warmup_steps": round(WARMUP_SHARE * steps),
        "regularize_below": None,
        "freeze_steps": 0,
        "evaluate_every": every,
        "save_every": every,
        "patience": None,
        "seed": seed,
    }
    return validate_recipe(sections, name=str(parent))


def draft_error(pairs: Iterable[tuple[str, str]]) -> float | None:
    """Return how much of drafts was corrected, from each draft and its text; None without any.

    Signs and capitals do not count: models do not write them.
    """
    edits = letters = 0
    for draft, text in pairs:
        bare = _bare(text)
        edits += Levenshtein.distance(_bare(draft), bare)
        letters += len(bare)
    return edits / letters if letters else None


def _bare(text: str) -> str:
    folded = unicodedata.normalize("NFC", text.casefold())
    kept = (c if unicodedata.category(c)[0] in "LMN" else " " for c in folded)
    return " ".join("".join(kept).split())


def expected_steps(recipe: Recipe, train_s: float) -> int:
    """Return about how many steps a recipe takes with so much speech."""
    config = recipe.train
    return max(round(train_s * config.max_epochs / (config.batch_s * config.accumulate)), 1)
