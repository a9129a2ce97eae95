"""How much like each other phones are, by the way they are made."""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree.articulation import Articulation

# Squared distance of weighted features at which a phone lends another e^-1 of its likelihood:
# phones that differ in voice are at 2, those that have most in common are below 5.
REACH = 4.0


def kin_of(tokenizer: Tokenizer) -> NDArray[np.float64] | None:
    """Return (V, V) what each unit lends to each other one, 1 to itself; None if none is a phone.

    A unit of which nothing is known, and special ones, lend nothing.
    """
    return _kin(tuple(tokenizer.units), tokenizer.num_special) if _has_phones(tokenizer) else None


def nearest_phones(phones: Sequence[str], tokenizer: Tokenizer) -> dict[str, str]:
    """Name the unit that is made most like each phone; those of which nothing is known are left."""
    if not phones or not _has_phones(tokenizer):
        return {}
    units = tokenizer.units[tokenizer.num_special :]
    theirs, ours = _vectors(phones), _vectors(units)
    squared = np.square(theirs[:, None] - ours[None]).sum(axis=2)
    squared[np.isnan(squared)] = np.inf
    best = squared.argmin(axis=1)
    return {
        phone: units[place]
        for row, (phone, place) in enumerate(zip(phones, best.tolist(), strict=True))
        if np.isfinite(squared[row, place])
    }


def _has_phones(tokenizer: Tokenizer) -> bool:
    return tokenizer.unit == "phone" and len(tokenizer.units) > tokenizer.num_special


@functools.lru_cache(maxsize=4)
def _kin(units: tuple[str, ...], num_special: int) -> NDArray[np.float64]:
    vectors = _vectors(units)
    vectors[:num_special] = np.nan
    squared = np.square(vectors[:, None] - vectors[None]).sum(axis=2)
    kin = np.where(np.isnan(squared), 0.0, np.exp(-squared / REACH))
    np.fill_diagonal(kin, 1.0)
    return kin


def _vectors(units: Sequence[str]) -> NDArray[np.float64]:
    return _features().vectors(units)


@functools.cache
def _features() -> Articulation:
    return Articulation()  # panphon reads its tables, which takes a second
