"""A corpus's own split: a folder or a table for each set, or a column that names them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from arborvox.config import FolderCorpus
from arborvox.corpora.tables import TABLE_ENDINGS, clip
from arborvox.errors import ArborvoxError
from arborvox.files import clean_cell

# What corpora call their sets.
USUAL_NAMES = {
    "train": ("train", "training"),
    "dev": ("dev", "devel", "development", "valid", "validation", "val"),
    "test": ("test", "testing"),
}
# Kaldi's table of recordings, by which its folders are known.
RECORDINGS_NAME = "wav.scp"
MOST_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Part:
    """A piece of a source that is read on its own, and the set that it is, if it is one."""

    path: Path
    given: str | None = None


def name_sets(config: FolderCorpus) -> dict[str, str]:
    """Return the set that each name stands for, names in small letters."""
    said = {"train": config.train_sets, "dev": config.dev_sets, "test": config.test_sets}
    usual = {name: part for part, names in USUAL_NAMES.items() if not said[part] for name in names}
    return usual | {name.casefold(): part for part, names in said.items() for name in names or ()}


def find_parts(source: Path, config: FolderCorpus) -> list[Part]:
    """Return the sets that lie side by side in a folder, or else the source as it is."""
    if config.split not in ("auto", "given") or not source.is_dir():
        return [Part(source)]
    if kaldi_prefix(source) is not None:
        return [Part(source)]
    names = name_sets(config)
    folders, tables = [], []
    for child in sorted(source.iterdir()):
        if child.is_dir() and child.name.casefold() in names:
            folders.append(Part(child, names[child.name.casefold()]))
        elif child.suffix.lower() in TABLE_ENDINGS and child.stem.casefold() in names:
            tables.append(Part(child, names[child.stem.casefold()]))
    kaldi = [part for part in folders if kaldi_prefix(part.path) is not None]
    # Beside a table the folders of its sets hold the audio, unless they are whole by themselves.
    for parts in (kaldi, tables, folders):
        if is_split(part.given for part in parts):
            return parts
    return [Part(source)]


def is_split(sets: Iterable[str | None]) -> bool:
    """Whether sets are those of a split: one to train on, and one held out."""
    found = set(sets)
    return "train" in found and not found.isdisjoint({"dev", "test"})


def kaldi_prefix(folder: Path) -> str | None:
    """Return what stands before the names of a Kaldi folder's files; None if it is no such folder.

    `train_wav.scp` and `train_text` have `train_`, usual files nothing.
    """
    if (folder / RECORDINGS_NAME).is_file():
        return ""
    found = sorted(path.name for path in folder.glob(f"*{RECORDINGS_NAME}") if path.is_file())
    own = [name for name in found if name.startswith(folder.name)] or found
    if len(own) > 1:
        raise ArborvoxError(
            f"{folder} has several tables of recordings ({_show(own)}); a Kaldi folder has one."
        )
    return own[0].removesuffix(RECORDINGS_NAME) if own else None


def no_split(source: Path, config: FolderCorpus, called: Iterable[str]) -> ArborvoxError:
    """Return the complaint that a corpus has no split of its own; `called` are the names it has."""
    names = ", ".join(name_sets(config))
    there = sorted({name for name in called if name})
    met = f" (it has {_show(there)})" if there else ""
    return ArborvoxError(
        f"{source} has no split of its own: neither a folder nor a table for each set, nor a "
        f"column {config.split_column}, with the names {names}{met}; name yours with "
        "--train-sets, --dev-sets and --test-sets, or use another --split."
    )


def _show(names: list[str]) -> str:
    shown = ", ".join(clean_cell(clip(name)) for name in names[:MOST_NAMES_SHOWN])
    return shown + (", …" if len(names) > MOST_NAMES_SHOWN else "")
