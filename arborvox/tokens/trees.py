"""Trees for a vocabulary: its counts, its special tokens, its languages as colors."""

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from arborvox.config.choices import ColorBy, TreeKind, values_of
from arborvox.errors import ArborvoxError
from arborvox.text.characters import script_name
from arborvox.tokens.closeness import order_by_closeness, unit_frequencies
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import TREES, CodeTree, TreeSource, joint_counts, read_embedding
from arborvox.tree.drawing import Coloring, palette, sequential_palette

COLORINGS = values_of(ColorBy)
MAX_LANGUAGE_COLORS = 20
NO_SCRIPT = "no script"
SHARING_CLASSES = (1, 2, 4, 8, 16, 32)  # each begins a class: 1, 2-3, 4-7, ...


def build_tree(
    tokenizer: Tokenizer,
    kind: TreeKind = "huffman",
    *,
    weighting: str = "language",
    seed: int = 0,
    embedding_from: Path | None = None,
    counts: Mapping[str, Sequence[int]] | None = None,
) -> CodeTree:
    """Build a tree over a vocabulary, from its own counts or from others by language."""
    if kind not in TREES:
        raise ArborvoxError(f"Unknown kind of tree '{kind}'; there are: {', '.join(TREES)}.")
    builder = TREES[kind]
    vectors = None
    if builder.needs_vectors:
        if embedding_from is None:
            raise ArborvoxError(f"A tree '{kind}' needs a trained checkpoint: --embedding-from.")
        vectors = read_embedding(embedding_from)
    weights = joint_counts(tokenizer.counts if counts is None else counts, weighting)
    return builder.build(TreeSource(weights, tokenizer.units, tokenizer.special, seed, vectors))


def languages_of_units(tokenizer: Tokenizer) -> list[list[str]]:
    """Return the languages in which each token was counted."""
    return [
        [language for language in tokenizer.languages if tokenizer.counts[language][token]]
        for token in range(len(tokenizer))
    ]


def color_units(tokenizer: Tokenizer, by: str) -> Coloring:
    """Return the colors of a vocabulary's units; special tokens have none."""
    if by == "language":
        return _color_by_language(tokenizer)
    if by == "script":
        classes = [_script_of(unit) for unit in tokenizer.units]
        names = sorted(set(classes[tokenizer.num_special :]), key=lambda n: (n == NO_SCRIPT, n))
        return _one_color_each("script", classes, names, palette(len(names)), tokenizer)
    if by == "sharing":
        classes = [_sharing_class(len(langs)) for langs in languages_of_units(tokenizer)]
        ordered = [_sharing_class(start) for start in SHARING_CLASSES]
        names = [name for name in ordered if name in classes[tokenizer.num_special :]]
        colors = sequential_palette(len(names))
        return _one_color_each("languages that use it", classes, names, colors, tokenizer)
    raise ArborvoxError(f"Unknown coloring '{by}'; there are: {', '.join(COLORINGS)}.")


def _color_by_language(tokenizer: Tokenizer) -> Coloring:
    """Give each unit the colors of its languages, by how much each one uses it."""
    if len(tokenizer.languages) > MAX_LANGUAGE_COLORS:
        raise ArborvoxError(
            f"Nobody can tell {len(tokenizer.languages)} colors apart; with more than "
            f"{MAX_LANGUAGE_COLORS} languages use --color sharing."
        )
    frequencies = unit_frequencies(tokenizer)
    names = tuple(order_by_closeness(frequencies))  # neighbors get neighboring hues
    rows = np.stack([frequencies[language] for language in names], axis=1)  # (units, L)
    totals = rows.sum(axis=1, keepdims=True)
    shares = np.divide(rows, totals, out=np.zeros_like(rows), where=totals > 0)
    special = np.zeros((tokenizer.num_special, len(names)))
    return Coloring("language", names, palette(len(names)), np.concatenate((special, shares)))


def _one_color_each(
    title: str,
    classes: Sequence[str],
    names: Sequence[str],
    colors: tuple[str, ...],
    tokenizer: Tokenizer,
) -> Coloring:
    shares = np.array([[float(own == name) for name in names] for own in classes])
    shares[: tokenizer.num_special] = 0.0
    return Coloring(title, tuple(names), colors, shares)


def _script_of(unit: str) -> str:
    # Modifier letters (Lm), such as the Uzbek apostrophe, belong to every script.
    letters = [c for c in unit if c.isalpha() and unicodedata.category(c) != "Lm"]
    return script_name(letters[0]) if letters else NO_SCRIPT


def _sharing_class(num_languages: int) -> str:
    """Return the name of the class that a number of languages falls into."""
    for start, following in pairwise(SHARING_CLASSES):
        if num_languages < following:
            return str(start) if following == start + 1 else f"{start}–{following - 1}"
    return f"{SHARING_CLASSES[-1]} or more"
