"""Fonts for letters of all scripts: those of this machine, and which ones it would need."""

import contextlib
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BASE_FONT = "DejaVu Sans"  # comes with matplotlib, so it is on every machine
# Scripts whose letters' names begin otherwise than the font is called.
_FONT_NAMES = {
    "CJK": "CJK",
    "HIRAGANA": "CJK",
    "KATAKANA": "CJK",
    "HANGUL": "CJK",
    "BOPOMOFO": "CJK",
    "OL": "Ol Chiki",
    "NKO": "NKo",
    "PHAGS-PA": "PhagsPa",
}


def find_fonts(characters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Return the fonts that together have the characters, and the characters that none has."""
    from matplotlib import font_manager

    base = font_manager.get_font(font_manager.findfont(BASE_FONT))
    missing = {c for c in characters if c.isprintable() and not base.get_char_index(ord(c))}
    families = [BASE_FONT]
    # Asked anew each time: matplotlib's own list does not know a font installed after it was made.
    paths = font_manager.findSystemFonts() if missing else []
    for path in sorted(paths, key=lambda path: ("Noto" not in path, Path(path).name)):
        found = set()
        with contextlib.suppress(OSError, RuntimeError):  # no font, or one that cannot be read
            font = font_manager.get_font(path)
            found = {c for c in missing if font.get_char_index(ord(c))}
            if found:
                font_manager.fontManager.addfont(path)
                families.append(font.family_name)
        missing -= found
        if not missing:
            break
    return families, missing


def name_fonts(characters: Iterable[str]) -> list[str]:
    """Return the fonts to install for some characters, by the names of their scripts."""
    return sorted({_font_name(character) for character in characters})


def _font_name(character: str) -> str:
    if unicodedata.category(character)[0] not in "LMN":
        return "Noto Sans Symbols"
    script = unicodedata.name(character, "Symbols").split()[0]
    return f"Noto Sans {_FONT_NAMES.get(script, script.capitalize())}"


def texts_of(figure: Any) -> list[Any]:
    """Return all pieces of text of a figure."""
    from matplotlib.text import Text

    found: list[Any] = figure.findobj(Text)
    return found
