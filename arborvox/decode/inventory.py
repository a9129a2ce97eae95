"""Inventories: which sounds or letters a language has, as a file that a linguist can write."""

import warnings
from pathlib import Path

from arborvox.errors import ArborvoxError
from arborvox.inventory_files import read_inventory
from arborvox.vocabulary import EOS_ID, PIECE_SPACE, UNK_ID, Vocabulary

MAX_NAMED = 10


def load_inventory(path: Path, tokenizer: Vocabulary) -> list[int]:
    """Read units, one a line, and return the tokens that they allow, special ones included.

    The end, language tags and, between characters, the space are always allowed; <unk> never is.
    Of a BPE vocabulary all pieces are allowed that are made of the listed characters.
    """
    listed = read_inventory(path)
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


def _warn(message: str) -> None:
    try:
        from arborvox.console import warn
    except ModuleNotFoundError:  # of Rich, which `arborvox-runtime` does without
        warnings.warn(message, stacklevel=3)
        return
    warn(message)
