"""A part of the test set, scored by itself: the utterances that a table names, or all others."""

from dataclasses import dataclass, replace
from pathlib import Path

from arborvox.errors import ArborvoxError
from arborvox.files import clean_cell
from arborvox.score.hypotheses import HypothesisFile


@dataclass(frozen=True)
class Selection:
    """Which utterances are scored; without tables, all."""

    only: Path | None = None
    left_out: Path | None = None
    wanted: frozenset[str] = frozenset()
    unwanted: frozenset[str] = frozenset()

    @classmethod
    def read(cls, only: Path | None, left_out: Path | None) -> "Selection":
        """Read the tables of ids."""
        wanted = _read_ids(only) if only else frozenset()
        unwanted = _read_ids(left_out) if left_out else frozenset()
        return cls(only, left_out, wanted, unwanted)

    @property
    def suffix(self) -> str:
        """What the names of result files get, so that those of the whole set stay."""
        only = f".only-{self.only.stem}" if self.only else ""
        return only + (f".except-{self.left_out.stem}" if self.left_out else "")

    @property
    def notes(self) -> list[str]:
        """Say in sentences what was scored."""
        notes = []
        if self.only:
            notes.append(f"Only the utterances of {self.only.name} are scored.")
        if self.left_out:
            notes.append(f"The utterances of {self.left_out.name} are left out.")
        return notes

    def of(self, file: HypothesisFile) -> HypothesisFile:
        """Return what is to be scored of a hypothesis file."""
        if self.only is None and self.left_out is None:
            return file
        kept = []
        for transcription in file.transcriptions:
            identity = clean_cell(transcription.id)  # as tables have it
            if (not self.only or identity in self.wanted) and identity not in self.unwanted:
                kept.append(transcription)
        if not kept:
            tables = " and ".join(str(path) for path in (self.only, self.left_out) if path)
            raise ArborvoxError(f"{file.path}: no utterance is left to score after {tables}.")
        return replace(file, transcriptions=tuple(kept))


EVERYTHING = Selection()


def _read_ids(path: Path) -> frozenset[str]:
    """Return the first column of a table whose header is `id`."""
    # id⇥set
    # speaker1/a⇥test
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ArborvoxError(f"There is no table {path}.") from None
    except UnicodeDecodeError:
        raise ArborvoxError(f"{path} is not UTF-8 text.") from None
    cells = [line.rstrip("\r").partition("\t")[0] for line in lines]
    if cells[0] != "id":
        raise ArborvoxError(f"{path}, line 1: the first column has to be called id.")
    return frozenset(cell for cell in cells[1:] if cell)
