"""The split written down: `split.tsv` for people, and to be kept when recordings are added."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arborvox.corpora.manifests import REPEATED_NAME, SPLIT_TABLE_NAME
from arborvox.corpora.sampling import (
    NOT_IN_KEPT_SPLIT,
    RECORDING_ELSEWHERE,
    SENTENCE_ELSEWHERE,
    SPEAKER_ELSEWHERE,
    TRAIN,
)
from arborvox.corpora.tables import clip, decode_text, is_unicode
from arborvox.errors import ArborvoxError
from arborvox.files import clean_cell, write_lines
from arborvox.manifest import SPLIT_NAMES, Utterance

HEADER = ["id", "set"]


@dataclass(frozen=True)
class KeptSplit:
    """The set of each utterance as an earlier `prepare` wrote it down."""

    path: Path
    codes: dict[str, int] = field(repr=False)

    def gone(self, utterances: Iterable[Utterance]) -> list[str]:
        """List the utterances of the split that are no more."""
        there = {clean_cell(utterance.id) for utterance in utterances}
        return [identity for identity in self.codes if identity not in there]

    def place(
        self, utterances: Sequence[Utterance], given: dict[str, str], *, by_recording: bool
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return a split code for each utterance, and which of them are new.

        New ones are for training. But speakers, or sentences, that were apart stay apart, and so
        do recordings where the split is by them; a held-out set remains what it was.
        """
        old = [self.codes.get(clean_cell(utterance.id)) for utterance in utterances]
        new = np.array([code is None for code in old], dtype=np.bool_)
        codes = np.array([TRAIN if code is None else code for code in old], dtype=np.int64)
        sides = [
            (SENTENCE_ELSEWHERE, [(u.language, u.text) for u in utterances]),
            (SPEAKER_ELSEWHERE, [(u.language, u.speaker or "") for u in utterances]),
        ]
        if by_recording:
            sides.append((RECORDING_ELSEWHERE, [(u.language, u.audio) for u in utterances]))
        for why, keys in sides:
            trained = {key for key, code in zip(keys, old, strict=True) if code == TRAIN}
            held = {key for key, code in zip(keys, old, strict=True) if code not in (None, TRAIN)}
            if held.isdisjoint(trained):
                codes[[is_new and key in held for key, is_new in zip(keys, new, strict=True)]] = why
        elsewhere = [given.get(utterance.id, "train") != "train" for utterance in utterances]
        codes[new & np.array(elsewhere, dtype=np.bool_)] = NOT_IN_KEPT_SPLIT
        return codes, new


def write_split(
    stage: Path, utterances: Sequence[Utterance], codes: npt.NDArray[np.int64]
) -> dict[str, int]:
    """Write the split down, and what is held out though its sentence is not.

    Return how many of such there are in each held-out set. A test sentence counts where training
    or development has it: what development has may have been training's.
    """
    pairs = [
        (utterance, code)
        for utterance, code in zip(utterances, codes.tolist(), strict=True)
        if code >= 0
    ]
    nearest: dict[tuple[str, str], int] = {}  # the set next to training that has a sentence
    for utterance, code in pairs:
        sentence = utterance.language, utterance.text
        nearest[sentence] = min(code, nearest.get(sentence, code))
    repeated = [(u, code) for u, code in pairs if nearest[u.language, u.text] < code]
    _write_table(stage / SPLIT_TABLE_NAME, pairs)
    _write_table(stage / REPEATED_NAME, repeated)
    return dict(Counter(SPLIT_NAMES[code] for _, code in repeated))


def read_split(path: Path) -> KeptSplit:
    """Read a table of ids and sets, as `prepare` writes one."""
    # id⇥set
    # data/a⇥train
    if not path.is_file():
        raise ArborvoxError(f"There is no split {path}; `arborvox prepare` writes a split.tsv.")
    codes: dict[str, int] = {}
    for number, line in enumerate(decode_text(path.read_bytes()).split("\n"), start=1):
        identity, tab, name = line.rstrip("\r").partition("\t")
        if number == 1:
            if [identity, name] != HEADER:
                raise ArborvoxError(f"{path}, line 1: not `id` and `set`, with a tab between.")
            continue
        if not line:
            continue
        if not tab or name not in SPLIT_NAMES or not is_unicode(identity):
            raise ArborvoxError(
                f"{path}, line {number}: not an id, a tab, and one of {', '.join(SPLIT_NAMES)}."
            )
        if identity in codes:
            raise ArborvoxError(f"{path}, line {number}: {clip(identity)} stands there twice.")
        codes[identity] = SPLIT_NAMES.index(name)
    return KeptSplit(path, codes)


def _write_table(path: Path, pairs: Iterable[tuple[Utterance, int]]) -> None:
    rows = (f"{clean_cell(utterance.id)}\t{SPLIT_NAMES[code]}" for utterance, code in pairs)
    write_lines(path, ["\t".join(HEADER), *rows])
