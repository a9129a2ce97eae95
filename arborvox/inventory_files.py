"""Files of units, one a line: which sounds or letters a language has."""

import unicodedata
from collections.abc import Iterable
from pathlib import Path

from arborvox.errors import ArborvoxError
from arborvox.files import read_bounded

SPACE_NAME = "<space>"
MAX_MIB = 16


def read_inventories(paths: Iterable[Path]) -> set[str]:
    """Read the units of several files."""
    return {unit for path in paths for unit in read_inventory(path)}


def read_inventory(path: Path) -> set[str]:
    """Read a file of units."""
    if not path.exists():
        raise ArborvoxError(f"There is no inventory {path}.")
    units = set()
    for number, line in enumerate(read_bounded(path, MAX_MIB).splitlines(), start=1):
        unit = unicodedata.normalize("NFC", line.strip())
        if len(unit.split()) > 1:
            raise ArborvoxError(f"{path}, line {number}: one unit a line, not {unit!r}.")
        if unit:
            units.add(" " if unit == SPACE_NAME else unit)
    if not units:
        raise ArborvoxError(f"{path} lists no units.")
    return units
