"""The hypothesis file that `arborvox decode` writes: a header, then a JSON object a line."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arborvox.errors import ArborvoxError
from arborvox.score.counts import METRICS_OF_UNIT, Metric, metrics_of

FORMAT_KEY, FORMAT_VERSION = "arborvox_hypotheses", 2
NORMALIZATION_IN_VERSION_1 = "normalisation"
# Version 1 did not say by checksums what it was decoded from: enough to be scored.
READABLE_VERSIONS = (1, 2)
UNKNOWN_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # what <unk> is in a decoded text


@dataclass(frozen=True)
class Transcription:
    """What was said in an utterance, and what was heard."""

    id: str
    language: str
    reference: str
    text: str
    num_unknown: int = 0


@dataclass(frozen=True)
class HypothesisFile:
    """A whole hypothesis file, read and checked."""

    path: Path
    unit: str
    run: str
    mode: str
    normalization: str
    transcriptions: tuple[Transcription, ...]
    header: Mapping[str, Any] = field(repr=False)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The error rates that fit the unit, the main one first."""
        return metrics_of(self.unit)


def read_hypotheses(path: Path) -> HypothesisFile:
    """Read a hypothesis file; a damaged line is an error that names it."""
    try:
        with path.open("rb") as lines:
            header = _read_header(path, lines.readline())
            transcriptions = _read_transcriptions(path, lines)
    except FileNotFoundError:
        raise ArborvoxError(f"There is no file {path}; `arborvox decode` writes one.") from None
    except IsADirectoryError:
        raise ArborvoxError(f"{path} is a folder; name the hypothesis file in it.") from None
    if not transcriptions:
        raise ArborvoxError(f"{path} holds no utterances; decode a set that is not empty.")
    return HypothesisFile(
        path=path,
        unit=header["unit"],
        run=str(header.get("run", "")),
        mode=str(header.get("mode", "")),
        normalization=str(
            header.get("normalization") or header.get(NORMALIZATION_IN_VERSION_1) or "not stated"
        ),
        transcriptions=tuple(transcriptions),
        header=header,
    )


def _read_transcriptions(path: Path, lines: Iterable[bytes]) -> list[Transcription]:
    transcriptions: list[Transcription] = []
    line_of_id: dict[str, int] = {}
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        transcription = _transcription(_parse(line, path, number), f"{path}, line {number}")
        first = line_of_id.setdefault(transcription.id, number)
        if first != number:
            raise ArborvoxError(
                f"{path}, line {number}: utterance {transcription.id} stands in line {first} "
                "already; remove one of the two."
            )
        transcriptions.append(transcription)
    return transcriptions


def _read_header(path: Path, line: bytes) -> dict[str, Any]:
    # {"arborvox_hypotheses": 2, "run": "runs/ca", "mode": "ctc-greedy", "unit": "char", ...}
    header = _parse(line, path, 1) if line.strip() else {}
    if FORMAT_KEY not in header:
        raise ArborvoxError(
            f"{path}, line 1: no header of a hypothesis file; `arborvox decode` writes one."
        )
    if header[FORMAT_KEY] not in READABLE_VERSIONS:
        raise ArborvoxError(
            f"{path}, line 1: version {header[FORMAT_KEY]!r} of the format, this program reads "
            f"{FORMAT_VERSION}; decode again with this version."
        )
    unit = header.get("unit")
    if not isinstance(unit, str) or unit not in METRICS_OF_UNIT:
        known = ", ".join(METRICS_OF_UNIT)
        raise ArborvoxError(f"{path}, line 1: unit is {unit!r}, it must be one of {known}.")
    return header


def _parse(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except UnicodeDecodeError:
        raise ArborvoxError(f"{path}, line {number}: not UTF-8 text; decode again.") from None
    except (ValueError, RecursionError) as error:  # also too deep, and numbers of 5,000 digits
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise ArborvoxError(
            f"{path}, line {number}: not valid JSON ({reason}); if decoding was interrupted "
            "there, run it again and it resumes."
        ) from None
    if not isinstance(value, dict):
        raise ArborvoxError(f"{path}, line {number}: a JSON object is expected; decode again.")
    return value


def _transcription(entry: Mapping[str, Any], place: str) -> Transcription:
    # {"id": "ca-x", "language": "ca", "reference": "bon dia", "text": "bon dia", ...}
    texts: dict[str, str] = {}
    for key in ("id", "language", "reference", "text"):
        value = entry.get(key)
        if not isinstance(value, str):
            raise ArborvoxError(
                f"{place}: {key!r} is {'missing' if value is None else 'not a text'}; "
                "only utterances with id, language, reference and text can be scored."
            )
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ArborvoxError(f"{place}: {key!r} holds half a character (a surrogate).")
        texts[key] = value
    num_unknown = entry.get("num_unknown", texts["text"].count(UNKNOWN_CHARACTER))
    if not isinstance(num_unknown, int) or num_unknown < 0:
        raise ArborvoxError(f"{place}: num_unknown is {num_unknown!r}, it must be a count.")
    return Transcription(**texts, num_unknown=num_unknown)
