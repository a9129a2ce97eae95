"""Annotation files of other programs: ELAN's EAF and Praat's TextGrid, read and written.

Pure and light: what is in a file becomes tiers, and tiers become bytes.
"""

from arborvox.annotations.eaf import EafDocument, Media, read_eaf, spoken_spans
from arborvox.annotations.eaf_editing import add_tiers, make_eaf
from arborvox.annotations.textgrid import (
    TextGrid,
    add_grid_tiers,
    read_textgrid,
    write_textgrid,
)
from arborvox.annotations.tiers import Annotation, Tier

__all__ = [
    "Annotation",
    "EafDocument",
    "Media",
    "TextGrid",
    "Tier",
    "add_grid_tiers",
    "add_tiers",
    "make_eaf",
    "read_eaf",
    "read_textgrid",
    "spoken_spans",
    "write_textgrid",
]
