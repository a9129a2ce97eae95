"""What an export says of itself, and what is checked before anything of it is used.

FOLDER/
  export.json     format, version, and the checksums of the files below
  encoder.onnx    with the description as metadata: units, tree, rate, features, licence, …
  frames.onnx     where there is a decoder
  decoder.onnx
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError, one_line
from arborvox.files import read_json
from arborvox.vocabulary import EOS, UNK, Vocabulary

FORMAT = "arborvox-export"
VERSION = 1
HEAD = "export.json"
ENCODER, FRAMES, DECODER = "encoder.onnx", "frames.onnx", "decoder.onnx"
GRAPHS = (ENCODER, FRAMES, DECODER)
METADATA_KEY = "arborvox"
MAX_HEAD_MIB = 1
MAX_UNITS = 1 << 20
MAX_RATE = 768_000
MAX_SEGMENT_S = 86_400.0

Item = TypeVar("Item")


@dataclass(frozen=True)
class ExportVocabulary(Vocabulary):
    """The units of an exported model."""

    unit: str
    units: tuple[str, ...]
    known_languages: tuple[str, ...]
    language_tags: bool

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that it was made from, sorted."""
        return self.known_languages


@dataclass(frozen=True)
class GateTree:
    """A code tree over rows of gates: c >= 0 is an inner node, c < 0 is leaf ~c."""

    left: NDArray[np.int64]  # (M,)
    right: NDArray[np.int64]

    @classmethod
    def read(cls, value: Any, num_leaves: int, name: str) -> "GateTree | None":
        """Check a tree of the description: every inner node and leaf is reached once."""
        if value is None:
            return None
        both = isinstance(value, dict) and ("left", "right")
        sides: list[Any] = [value.get(side) for side in both or ()]
        if len(sides) != 2 or not all(_is_list_of(side, int) for side in sides):
            raise ArborvoxError(f'"{name}" has no lists "left" and "right" of whole numbers.')
        most = num_leaves + 1
        if any(len(side) != num_leaves - 1 for side in sides) or any(
            not -most <= child <= most for side in sides for child in side
        ):
            raise ArborvoxError(f'"{name}" does not fit {num_leaves} leaves.')
        left, right = (np.array(side, np.int64) for side in sides)
        children = np.concatenate((left, right))
        parents = np.concatenate((np.arange(len(left)), np.arange(len(left))))
        inner = children >= 0
        whole = (
            np.array_equal(np.sort(children[inner]), np.arange(1, len(left)))
            and np.array_equal(np.sort(~children[~inner]), np.arange(num_leaves))
            and bool((children[inner] > parents[inner]).all())
        )
        if not whole:
            raise ArborvoxError(f'"{name}" is no tree: a node or a leaf is missing or met twice.')
        return cls(left, right)


@dataclass(frozen=True)
class Description:
    """All that a graph says of the model."""

    name: str
    arborvox: str  # the version that wrote it
    license: str
    precision: str
    features: str
    sampling_rate: int
    state_s: float  # seconds that an encoder state stands for
    max_segment_s: float
    min_samples: int  # that the encoder must be given
    vocabulary: ExportVocabulary
    has_ctc: bool
    has_decoder: bool
    ctc_tree: GateTree | None  # where CTC gives gates
    output_tree: GateTree | None  # where the decoder gives gates
    layers: int  # of the decoder
    heads: int
    head_size: int
    decode: dict[str, Any]  # how it was tuned


def is_export(folder: Path) -> bool:
    """Say whether a folder was written by `arborvox export --to onnx`."""
    return (folder / HEAD).is_file()


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the graphs of an export, if they are those that its head was written with."""
    head = read_json(folder / HEAD, MAX_HEAD_MIB)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ArborvoxError(f'{folder / HEAD} is no export: "format" is not "{FORMAT}".')
    check_version(folder / HEAD, head.get("version"))
    stated = head.get("sha256")
    if not isinstance(stated, dict) or ENCODER not in stated or not set(stated) <= set(GRAPHS):
        raise ArborvoxError(f'{folder / HEAD} is damaged: "sha256" does not list the graphs.')
    files = {}
    for name in stated:
        path = folder / name
        try:
            files[name] = path.read_bytes()
        except FileNotFoundError:
            raise ArborvoxError(f"{folder} is not whole: there is no {name}.") from None
        if hashlib.sha256(files[name]).hexdigest() != stated[name]:
            raise ArborvoxError(
                f"{path} is damaged or was changed: its checksum is not that of {HEAD}; "
                f"copy the folder again."
            )
    return files


def check_version(path: Path, version: Any) -> None:
    """Refuse what a newer Arborvox wrote."""
    if type(version) is not int or version < 1:
        raise ArborvoxError(f'{path} is damaged: "version" is no whole number.')
    if version > VERSION:
        raise ArborvoxError(
            f"{path}: the export has format version {version}, and this Arborvox reads up to "
            f"{VERSION}; install a newer one."
        )


def read_description(path: Path, text: str | None) -> Description:
    """Check the metadata of the encoder's graph."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        raise ArborvoxError(
            f'{path} was not exported by Arborvox: it has no metadata "{METADATA_KEY}".'
        ) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ArborvoxError(f'{path}: the metadata "{METADATA_KEY}" is not that of an export.')
    check_version(path, value.get("version"))
    try:
        return _description(value)
    except ArborvoxError as error:
        raise ArborvoxError(f"{path}: {error}") from None


def _description(value: dict[str, Any]) -> Description:
    units = value.get("units")
    languages = value.get("languages")
    if not _is_list_of(units, str) or not 2 < len(units) <= MAX_UNITS or units[:2] != [EOS, UNK]:
        raise ArborvoxError(f'"units" is no list that begins with {EOS} and {UNK}.')
    if not _is_list_of(languages, str) or len(languages) > len(units):
        raise ArborvoxError('"languages" is no list of codes.')
    vocabulary = ExportVocabulary(
        _word(value, "unit"), tuple(units), tuple(languages), value.get("language_tags") is True
    )
    if vocabulary.num_special > len(units):
        raise ArborvoxError('"units" is too short for its language tags.')
    decode = value.get("decode")
    if not isinstance(decode, dict):
        raise ArborvoxError('"decode" is missing.')
    has_decoder = value.get("has_decoder") is True
    return Description(
        name=_word(value, "name"),
        arborvox=_word(value, "arborvox"),
        license=_word(value, "license"),
        precision=_word(value, "precision"),
        features=_word(value, "features"),
        sampling_rate=int(_number(value, "sampling_rate", 1, MAX_RATE)),
        state_s=_number(value, "state_s", 1e-5, 10.0),
        max_segment_s=_number(value, "max_segment_s", 1e-3, MAX_SEGMENT_S),
        min_samples=int(_number(value, "min_samples", 1, MAX_RATE)),
        vocabulary=vocabulary,
        has_ctc=value.get("has_ctc") is True,
        has_decoder=has_decoder,
        ctc_tree=GateTree.read(value.get("ctc_tree"), len(units) + 1, "ctc_tree"),
        output_tree=GateTree.read(value.get("output_tree"), len(units), "output_tree"),
        layers=int(_number(value, "layers", 1, 1000)) if has_decoder else 0,
        heads=int(_number(value, "heads", 1, 1024)) if has_decoder else 0,
        head_size=int(_number(value, "head_size", 1, 16_384)) if has_decoder else 0,
        decode=decode,
    )


def _word(value: dict[str, Any], key: str) -> str:
    if not isinstance(value.get(key), str):
        raise ArborvoxError(f'"{key}" is no text.')
    return one_line(cast(str, value[key]))


def _number(value: dict[str, Any], key: str, least: float, most: float) -> float:
    number = value.get(key)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ArborvoxError(f'"{key}" is no number.')
    if not least <= number <= most:  # NaN is not, either
        raise ArborvoxError(f'"{key}" is {number}, not between {least} and {most}.')
    return float(number)


def _is_list_of(value: Any, kind: type[Item]) -> TypeGuard[list[Item]]:
    return isinstance(value, list) and all(type(item) is kind for item in value)
