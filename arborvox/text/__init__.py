"""Sentences as a recognizer should learn them: Unicode normalization per language."""

from arborvox.text.normalizer import Normalizer

__all__ = ["Normalizer"]
