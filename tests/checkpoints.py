"""A checkpoint folder of a tiny untrained model, for tests that start from files."""

from pathlib import Path

import torch

from arborvox.config import validate_recipe
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import save_checkpoint
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import HuffmanTree

LETTERS = ("<eos>", "<unk>", " ", "a", "b", "c", "d", "e")


def make_checkpoint(
    folder: Path,
    *,
    units: tuple[str, ...] = LETTERS,
    unit: str = "char",
    languages: tuple[str, ...] = ("x-x",),
    language_tags: bool = False,
    max_duration_s: float = 30.0,
    decode: dict[str, object] | None = None,
    seed: int = 1,
    **model_keys: object,
) -> Path:
    """Write a checkpoint with seeded weights; keywords are keys of the recipe's model section."""
    counts = {language: tuple(range(1, len(units) + 1)) for language in languages}
    tokenizer = Tokenizer(unit, units, counts, language_tags)
    tree = HuffmanTree.from_counts(range(1, len(units) + 1), units)
    sections = {
        "name": "tiny",
        "model": {"size": "tiny", **model_keys},
        # Who learns on from it reads audio itself: a process of its own takes seconds to start.
        "train": {"max_duration_s": max_duration_s, "workers": 0},
        "decode": decode or {},
    }
    recipe = validate_recipe(sections, name="test")
    torch.manual_seed(seed)
    model = ASR(recipe.model, recipe.features, len(units), tree).eval()
    for output in (model.output, model.ctc.output if model.ctc else None):
        if output is not None:
            torch.nn.init.normal_(output.weight, std=0.5)
    save_checkpoint(folder, model, recipe, tokenizer, tree)
    return folder
