"""Inventories: which sounds or letters a language has, as a file that a linguist can write."""

import unicodedata
import warnings
from pathlib import Path

from arborvox.errors import ArborvoxError
from arborvox.files import read_bounded
from arborvox.vocabulary import EOS_ID, PIECE_SPACE, UNK_ID, Vocabulary

SPACE_NAME = "<space>"
MAX_NAMED = 10
MAX_MIB = 16


def load_inventory(path: Path, tokenizer: Vocabulary) -> list[int]:
    """Read units, one a line, and return the tokens that they allow, special ones included.

    The end, language tags and, between characters, the space are always allowed; <unk> never is.
    Of a BPE vocabulary all pieces are allowed that are made of the listed characters.
    """
    listed = _read_units(path)
    allowed = [token for token in range(tokenizer.num_special) if token != UNK_ID]
    written = range(tokenizer.num_special, len(tokenizer))
    if tokenizer.unit == "bpe":
        letters = {character for unit in listed for character in unit} | {PIECE_SPACE}
        known = [token for token in written if letters.issuperset(tokenizer.units[token])]
        missing: set[str] = set()
    else:
        known = [token for token in written if tokenizer.units[token] in {*listed, " "}]
        missing = listed - {tokenizer.units[token] for token in known} - {" "}
    if not any(tokenizer.units[token] != " " for token in known):
        raise ArborvoxError(f"{path}: the model has none of its {len(listed)} units.")
    if missing:
        names = " ".join(sorted(missing)[:MAX_NAMED]) + (" …" if len(missing) > MAX_NAMED else "")
        _warn(f"{path}: {len(missing)} of {len(listed)} units are not in the model: {names}")
    assert EOS_ID in allowed
    return allowed + known


def _read_units(path: Path) -> set[str]:
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


def _warn(message: str) -> None:
    try:
        from arborvox.console import warn
    except ModuleNotFoundError:  # of Rich, which `arborvox-runtime` does without
        warnings.warn(message, stacklevel=3)
        return
    warn(message)
