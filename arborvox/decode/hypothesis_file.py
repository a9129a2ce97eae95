"""The file of hypotheses: what it was decoded from and how, then a line for each utterance.

The header holds checksums, so that nothing is added to a file whose model, manifest, inventory or
language model is no longer what it was. Where they lie is told too, but may change.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from arborvox.decode.engine import Engine
from arborvox.decode.hypothesis import Hypothesis
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError
from arborvox.manifest import Utterance
from arborvox.model.checkpoint import TOKENS, TREE, WEIGHTS
from arborvox.score.hypotheses import FORMAT_KEY, FORMAT_VERSION
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.vocabulary import UNK_ID

NORMALIZATION = (
    "References are the manifest's texts, as `arborvox prepare` normalized them (docs/text.md); "
    "hypotheses are what the model wrote, unchanged."
)
CHECKSUMS = "sha256"
# What was read, and what a person calls it.
SOURCES = {
    "weights": "the model's weights",
    "tokens": "the model's tokens",
    "tree": "the model's tree",
    "manifest": "the manifest",
    "inventory": "the inventory",
    "lm": "the language model",
}
# Where things lie; the checksums say whether they are the same.
PLACES = frozenset({"run", "manifest", "inventory", "lm"})


def make_header(engine: Engine, manifest: Path) -> dict[str, Any]:
    """Return what a file of hypotheses says of itself in its first line."""
    config, search = engine.config, engine.search
    files = {"manifest": manifest, "inventory": config.inventory, "lm": config.lm}
    model = {"weights": WEIGHTS, "tokens": TOKENS, "tree": TREE}
    return {
        FORMAT_KEY: FORMAT_VERSION,
        "run": str(engine.folder),
        "manifest": str(manifest.absolute()),
        "mode": engine.mode,
        "beam": config.beam if search.wide else 1,
        "unit": engine.tokenizer.unit,
        "normalization": NORMALIZATION,
        "settings": {
            "ctc_weight": config.ctc_weight if search.weighs_ctc else None,
            "lm": None if config.lm is None else str(config.lm.absolute()),
            "lm_weight": None if config.lm is None else config.lm_weight,
            "length_bonus": config.length_bonus if search.wide else None,
            "inventory": None if config.inventory is None else str(config.inventory.absolute()),
            "precision": engine.network.precision,
            "back_off": config.back_off,
        },
        CHECKSUMS: {
            **{key: engine.checksums.get(name) for key, name in model.items()},
            **{key: None if path is None else checksum_file(path) for key, path in files.items()},
        },
    }


def make_line(utterance: Utterance, found: Hypothesis, engine: Engine) -> str:
    """Return the line of an utterance."""
    tokenizer: Tokenizer = engine.tokenizer
    fields = {
        "id": utterance.id,
        "language": utterance.language,
        "reference": utterance.text,
        "text": tokenizer.decode(found.tokens),
        "score": round(found.score, 4),
        "duration_s": utterance.duration_s,
        "tokens": [tokenizer.units[token] for token in found.tokens],
        "confidences": [round(confidence, 4) for confidence in found.confidences],
        "times_s": found.times_s(engine.frame_s),
        "num_unknown": found.tokens.count(UNK_ID),
        **({"unsure": found.unsure} if found.unsure else {}),
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"


def write_through(results: TextIO, lines: Iterable[str]) -> None:
    """Append lines, down to the disk."""
    results.writelines(lines)
    results.flush()
    os.fsync(results.fileno())


def compare_headers(out: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to continue what was decoded in another way, or from something else."""
    advice = "choose another --out, or delete it"
    if found[FORMAT_KEY] != FORMAT_VERSION:
        raise ArborvoxError(
            f"{out} was written by another version of Arborvox and does not say by checksums what "
            f"it was decoded from, so it can be scored, but not continued; {advice}."
        )
    before = {**found, **found["settings"]}
    now = {**wanted, **wanted["settings"]}
    for key, value in now.items():
        if key not in PLACES | {"settings", CHECKSUMS} and before.get(key) != value:
            raise ArborvoxError(
                f"{out} was begun with {key} {before.get(key)!r}, not {value!r}; {advice}."
            )
    changed = [
        name
        for key, name in SOURCES.items()
        if found[CHECKSUMS].get(key) != wanted[CHECKSUMS].get(key)
    ]
    if changed:
        raise ArborvoxError(
            f"{out} was begun with another content of {' and '.join(changed)}, so what is in it "
            f"no longer fits; {advice}."
        )
