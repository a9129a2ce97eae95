"""Inventories: which sounds or letters a language has, as a file that a linguist can write."""

from pathlib import Path

from arborvox.console import warn
from arborvox.errors import ArborvoxError
from arborvox.tokens.inventories import read_inventory
from arborvox.tokens.segmentation import PIECE_SPACE
from arborvox.tokens.tokenizer import EOS_ID, UNK_ID, Tokenizer

MAX_NAMED = 10


def load_inventory(path: Path, tokenizer: Tokenizer) -> list[int]:
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
        warn(f"{path}: {len(missing)} of {len(listed)} units are not in the model: {names}")
    assert EOS_ID in allowed
    return allowed + known


def language_inventory(language: str, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that the training data of a language had, of the tags its own alone."""
    if language not in tokenizer.counts:
        known = ", ".join(tokenizer.languages)
        raise ArborvoxError(f"The model has not learnt {language!r}; it knows: {known}.")
    counts = tokenizer.counts[language]
    tags = {tokenizer.tag_id(language)} if tokenizer.language_tags else set()
    written = range(tokenizer.num_special, len(tokenizer))
    return [EOS_ID, *sorted(tags), *(token for token in written if counts[token])]
