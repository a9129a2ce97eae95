"""A recipe that was made for an encoder of ours, put on one that others have trained."""

import json
from pathlib import Path
from typing import Any

from arborvox.config.loading import load_recipe
from arborvox.config.model import ModelConfig
from arborvox.config.speech import FeaturesConfig

# What stands on a pretrained encoder needs less depth than one that hears for itself, and half of
# its states: letters are rarely shorter than 40 ms.
ON_TOP: dict[str, Any] = {
    "model.layers": "upper",
    "model.silence": "as-taught",
    "model.quantize": "feed-forward",
    "model.stride": 2,
    "model.width": 256,
    "model.heads": 4,
    "model.feed_forward": 1024,
    "model.encoder_layers": 2,
}
# And it learns sooner: what results/languages.md tells took eight to twelve rounds.
MOST_EPOCHS = 12


def put_on_pretrained(recipe: Path, name: str) -> list[str]:
    """Return the overrides that put a pretrained encoder under a recipe, by a folder or name.

    A recipe that is made for one keeps all else that it says.
    """
    settings: dict[str, Any] = {"model.pretrained": name}
    made_for = load_recipe(recipe)
    if made_for.model.encoder != "pretrained":
        unread = {f"features.{key}": field for key, field in FeaturesConfig.model_fields.items()}
        unread["model.channels"] = ModelConfig.model_fields["channels"]
        del unread["features.cache"]
        settings |= {key: field.default for key, field in unread.items()}
        settings |= {"model.encoder": "pretrained", **ON_TOP}
        settings["train.max_epochs"] = min(made_for.train.max_epochs, MOST_EPOCHS)
    return [f"{key}={json.dumps(value)}" for key, value in settings.items()]
