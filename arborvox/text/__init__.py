"""Sentences as a recogniser should learn them: Unicode normalisation per language."""

from arborvox.text.normalizer import Normalizer

__all__ = ["Normalizer"]
