"""Pictures that look the same on every machine and are the same bytes each time."""

from pathlib import Path
from typing import Any

from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path

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
    """Write a figure in one stroke; glyphs are drawn as shapes, so no viewer lacks a font."""
    from matplotlib import rc_context

    name = picture_format(path)
    settings = {"svg.hashsalt": "arborvox", "svg.fonttype": "path", "font.family": "DejaVu Sans"}
    with rc_context(settings), atomic_path(path) as part:
        figure.savefig(part, format=name, dpi=150, metadata=_METADATA[name])
