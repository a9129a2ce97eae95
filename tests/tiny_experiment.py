"""A whole experiment in seconds: a folder of tones in two languages, and models that are tiny."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import yaml
from tiny_corpus import PHONES, RATE, tone

LANGUAGES = ("x-a", "x-b")
VARIANTS = [
    {"name": "softmax", "label": "Softmax", "set": {"model.output": "softmax"}},
    {"name": "huffman", "label": "H-Softmax", "set": {"model.output": "hierarchical"}},
]


def write_recordings(folder: Path, count: int = 40, seed: int = 0) -> Path:
    """Write wavs and the table that names them; return the table."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        phones = [str(p) for p in chance.choice(PHONES, chance.integers(3, 7))]
        name = f"{number:03d}.wav"
        soundfile.write(folder / name, np.concatenate([tone(p, chance) for p in phones]), RATE)
        language = LANGUAGES[number % 2]
        rows.append({"path": name, "text": " ".join(phones), "language": language})
    table = folder / "table.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return table


def write_recipe(path: Path, table: Path, **sections: Any) -> Path:
    """Write a recipe for the recordings; sections given here are merged into the usual ones."""
    recipe: dict[str, Any] = {
        "name": "Tones",
        "corpus": {
            "kind": "folder",
            "source": str(table),
            "unit": "phones",
            "split": "sentence",
            "check": "headers",
        },
        "tokens": {"unit": "phone"},
        "model": {"size": "tiny"},
        "train": {
            "batch_s": 6.0,
            "max_steps": 6,
            "save_every": 2,
            "learning_rate": 2e-3,
            "warmup_steps": 4,
            "workers": 0,
        },
        "decode": {"mode": "ctc-greedy"},
        "report": {"samples": 100},
        "variants": VARIANTS,
    }
    for name, values in sections.items():
        merged = {**recipe.get(name, {}), **values} if isinstance(values, dict) else values
        recipe[name] = merged
    path.write_text(yaml.safe_dump(recipe, allow_unicode=True), encoding="utf-8")
    return path
