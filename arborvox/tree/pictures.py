"""Pictures that are the same bytes each time; letters that matplotlib lacks come from elsewhere."""

import warnings
from pathlib import Path
from typing import Any

from arborvox.console import warn
from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path
from arborvox.tree.fonts import BASE_FONT, find_fonts, name_fonts, texts_of

# Dates and versions would make each run's file another one.
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def new_figure(width_in: float, height_in: float) -> Any:
    """Return an empty matplotlib figure, without pyplot's global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_in, height_in), layout="constrained")


def picture_format(path: Path) -> str:
    """Return svg or png by the ending of the name, or say that there is no other."""
    name = path.suffix.lower().removeprefix(".")
    if name not in _METADATA:
        raise ArborvoxError(f"{path}: a picture's name must end in .svg or .png.")
    return name


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in one stroke.

    An SVG's text stays text, in the viewer's own fonts. A PNG's is drawn here, with the fonts that
    this machine has; where it has none for a script, one sentence says which to install.
    """
    from matplotlib import rc_context

    name = picture_format(path)
    families = ["sans-serif"]
    if name == "png":
        families, missing = find_fonts({c for text in texts_of(figure) for c in text.get_text()})
        if missing:
            warn(
                f"{path}: {len(missing)} letters are boxes, because this machine has no font for "
                f"them; install {', '.join(name_fonts(missing))}, or draw an .svg, which the "
                "viewer's fonts are used for."
            )
    for text in texts_of(figure):
        text.set_fontfamily(families)
    settings = {
        "svg.hashsalt": "arborvox",
        "svg.fonttype": "none",
        "font.sans-serif": [BASE_FONT],  # and in an SVG, after it, any that the viewer has
    }
    with rc_context(settings), warnings.catch_warnings(), atomic_path(path) as part:
        # Told above, once; matplotlib says it for each letter, and for an SVG it is no matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(part, format=name, dpi=150, metadata=_METADATA[name])
