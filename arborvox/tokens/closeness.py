"""How close languages are by the units they use, and in which order they stand best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree.clustering import merge_nearest
from arborvox.vocabulary import PIECE_SPACE

# Above this many languages a number in each cell could not be read.
MAX_LANGUAGES_WITH_NUMBERS = 40


@dataclass(frozen=True)
class Closeness:
    """Languages, neighbors side by side, with how alike their unit distributions are."""

    languages: tuple[str, ...]
    similarity: NDArray[np.float64]  # (L, L) 1 - Jensen-Shannon divergence in bits: 1 is the same


def unit_frequencies(
    tokenizer: Tokenizer, *, spaces: bool = True
) -> dict[str, NDArray[np.float64]]:
    """Return each language's distribution over the units, special tokens (and spaces) aside."""
    units = tokenizer.units[tokenizer.num_special :]
    counted = np.array([spaces or bool(unit.strip(f" {PIECE_SPACE}")) for unit in units])
    rows = {}
    for language in tokenizer.languages:
        counts = np.array(tokenizer.counts[language][tokenizer.num_special :], np.float64)
        counts *= counted
        if not counts.sum():
            raise ArborvoxError(f"The tokens have no counts for language {language}.")
        rows[language] = counts / counts.sum()
    return rows


def language_closeness(tokenizer: Tokenizer) -> Closeness:
    """Compare all languages of a vocabulary with each other.

    The space is no letter: every fifth sign, it would make languages alike that share no other.
    """
    frequencies = unit_frequencies(tokenizer, spaces=False)
    languages = order_by_closeness(frequencies)
    rows = np.stack([frequencies[language] for language in languages])  # (L, V)
    divergence = np.array([_divergence_from(row, rows) for row in rows])
    # Rounded far below what is shown, so that the matrix is exactly symmetric.
    return Closeness(tuple(languages), np.round(1.0 - (divergence + divergence.T) / 2, 12))


def order_by_closeness(frequencies: Mapping[str, NDArray[np.float64]]) -> Sequence[str]:
    """Order languages so that those that were clustered together stand together."""
    languages = sorted(frequencies)
    # Distances between roots of frequencies (Hellinger) go with the divergence that is shown.
    roots = np.sqrt(np.stack([frequencies[language] for language in languages]))
    left, right = merge_nearest(roots, np.full(len(languages), 1.0 / len(languages)))
    members: list[list[str]] = []
    for pair in zip(left, right, strict=True):
        a, b = ([languages[~child]] if child < 0 else members[child] for child in pair)
        members.append(a + b)
    return members[-1] if members else languages


def draw_closeness(closeness: Closeness, path: Path) -> None:
    """Draw the heat map as SVG or PNG, by the ending of the name."""
    from arborvox.tree.pictures import new_figure, save_figure

    size = len(closeness.languages)
    with_numbers = size <= MAX_LANGUAGES_WITH_NUMBERS
    side = max(4.0, size * (0.48 if with_numbers else 0.17))  # inches
    figure = new_figure(side + 1.6, side + 0.9)
    axes = figure.add_subplot()
    values = closeness.similarity
    apart = values[~np.eye(size, dtype=bool)]
    floor = float(apart.min()) if apart.size else 0.0
    image = axes.imshow(values, cmap="YlGnBu", vmin=floor, vmax=1.0)
    fontsize = 9 if with_numbers else 6
    axes.set_xticks(range(size), closeness.languages, rotation=90, fontsize=fontsize)
    axes.set_yticks(range(size), closeness.languages, fontsize=fontsize)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if with_numbers:
        dark = floor + 0.6 * (1.0 - floor)
        for row, column in np.ndindex(values.shape):
            shade = "white" if values[row, column] > dark else "#222222"
            axes.text(
                column, row, f"{100 * values[row, column]:.0f}",
                ha="center", va="center", fontsize=8, color=shade,
            )  # fmt: skip
    axes.set_xlabel(
        "likeness of unit frequencies, 100 · (1 − Jensen–Shannon divergence)", fontsize=9
    )
    figure.colorbar(image, ax=axes, shrink=0.7, format=lambda value, _: f"{100 * value:.0f}")
    save_figure(figure, path)


def _divergence_from(row: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Jensen-Shannon divergence in bits of one distribution from each of several."""
    middle = (row + rows) / 2
    halves = [
        _relative_entropy(np.broadcast_to(row, rows.shape), middle),
        _relative_entropy(rows, middle),
    ]
    return (halves[0] + halves[1]) / 2


def _relative_entropy(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    ratio = np.divide(p, q, out=np.ones_like(q), where=p > 0)
    bits: NDArray[np.float64] = (p * np.log2(ratio)).sum(axis=-1)
    return bits
