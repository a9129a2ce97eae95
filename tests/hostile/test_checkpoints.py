"""Checkpoint folders from strangers: used as they are, or refused in a sentence that names a file.

Whoever changes a file can write its checksum anew, so each example does: what is tried is all that
lies behind the checksums.
"""

import copy
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from budgets import bounded_memory, examples
from checkpoints import make_checkpoint
from hypothesis import given
from hypothesis import strategies as st
from mutations import STRANGE, changed, places

from arborvox.config import DecodeConfig
from arborvox.decode.engine import load_engine
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError, harmless
from arborvox.model.checkpoint import CONFIG, HEAD, TOKENS, TREE, WEIGHTS
from arborvox.recognizer import Recognizer
from arborvox.tokens.tokenizer import Tokenizer

NOISE = np.random.default_rng(0).normal(0, 0.1, 8000).astype(np.float32)
EXTREMES = st.sampled_from(
    [2_000_000, 10**9, 2**31, 2**63, 10**17, 1e-9, 1e300, -1, 0, 1, 7, "huge", "conformer"]
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("sound") / "final")


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return tmp_path / "changed"


@pytest.fixture(autouse=True)
def little_memory(sound: Path) -> Iterator[None]:
    transcribe_or_refuse(sound)  # what is compiled and loaded once is no part of it
    with bounded_memory():
        yield


def transcribe_or_refuse(folder: Path) -> None:
    """The law: a model that can be used, or one sentence about it."""
    try:
        engine = load_engine(folder, DecodeConfig(device="cpu", precision="fp32"))
        said = Recognizer(engine, max_segment_s=30.0).transcribe(NOISE, rate=16000)
        said.text.encode("utf-8")
    except ArborvoxError as error:
        assert "\n" not in str(error)
        assert harmless(str(error)) == str(error)
        assert len(str(error)) < 1000


def copy_of(sound: Path, folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(sound, folder)
    return folder


def seal(folder: Path) -> None:
    """Write the checksums of what is there now."""
    head = json.loads((folder / HEAD).read_text(encoding="utf-8"))
    head["sha256"] = {
        name: checksum_file(folder / name)
        for name in (WEIGHTS, CONFIG, TOKENS, TREE)
        if (folder / name).exists()
    }
    (folder / HEAD).write_text(json.dumps(head), encoding="utf-8")


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[float, bytes, int]]:
    """Where in a file, as a share of it, which bytes replace how many."""
    return draw(
        st.lists(
            st.tuples(st.floats(0, 1), st.binary(max_size=8), st.integers(0, 30)),
            min_size=1,
            max_size=4,
        )
    )


@examples(40, 2000)
@given(
    name=st.sampled_from([HEAD, CONFIG, TOKENS, TREE, WEIGHTS]),
    changes=edits(),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
def test_torn_and_flipped_files_are_used_or_refused(
    sound: Path, folder: Path, name: str, changes: list[tuple[float, bytes, int]], cut: float | None
) -> None:
    copy_of(sound, folder)
    data = (folder / name).read_bytes()
    # Weights are for the greater part numbers; their header is what can be misread.
    part = 2000 if name == WEIGHTS else len(data)
    for share, new, taken_out in changes:
        at = int(share * part)
        data = data[:at] + new + data[at + taken_out :]
    if cut is not None:
        data = data[: int(cut * len(data))]
    (folder / name).write_bytes(data)
    if name != HEAD:
        seal(folder)
    transcribe_or_refuse(folder)


@examples(40, 2000)
@given(data=st.data())
def test_a_changed_configuration_is_used_or_refused(
    sound: Path, folder: Path, data: st.DataObject
) -> None:
    copy_of(sound, folder)
    recipe = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
    for _ in range(data.draw(st.integers(1, 3))):
        section = data.draw(st.sampled_from(["model", "features", "decode", "train"]))
        place = data.draw(st.sampled_from(places(recipe[section], (section,))))
        recipe = changed(recipe, place, data.draw(EXTREMES | STRANGE))
    text = json.dumps(recipe).replace("NaN", ".nan").replace("Infinity", ".inf")
    (folder / CONFIG).write_text(text, encoding="utf-8")
    seal(folder)
    transcribe_or_refuse(folder)


@examples(40, 2000)
@given(data=st.data(), name=st.sampled_from([HEAD, TOKENS, TREE]))
def test_changed_values_of_json_files_are_used_or_refused(
    sound: Path, folder: Path, data: st.DataObject, name: str
) -> None:
    copy_of(sound, folder)
    value = json.loads((folder / name).read_text(encoding="utf-8"))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(value)))
        value = changed(value, place, data.draw(EXTREMES | STRANGE))
    (folder / name).write_text(json.dumps(value), encoding="utf-8")
    if name != HEAD:
        seal(folder)
    transcribe_or_refuse(folder)


@examples(40, 2000)
@given(data=st.data())
def test_a_changed_header_of_the_weights_is_used_or_refused(
    sound: Path, folder: Path, data: st.DataObject
) -> None:
    copy_of(sound, folder)
    content = (folder / WEIGHTS).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    names = sorted(set(header) - {"__metadata__"})
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(names))
        if name not in header:
            continue
        entry = header[name]
        match data.draw(st.sampled_from(["value", "rename", "delete", "exchange", "type"])):
            case "value":
                value = data.draw(EXTREMES | STRANGE)
                if isinstance(entry, dict):
                    place = data.draw(st.sampled_from([(), *places(entry)]))
                    header[name] = changed(entry, place, value)
            case "rename":
                header[data.draw(st.text(max_size=9))] = header.pop(name)
            case "delete":
                del header[name]
            case "exchange":
                other = data.draw(st.sampled_from(names))
                header[name], header[other] = copy.deepcopy((header.get(other), entry))
            case "type":
                kinds = ["F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "C64", "x"]
                given = entry if isinstance(entry, dict) else {}
                header[name] = {**given, "dtype": data.draw(st.sampled_from(kinds))}
    packed = json.dumps(header).encode()
    told = data.draw(st.just(len(packed)) | st.sampled_from([0, 2**63, 10**9, len(packed) - 1]))
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", told) + packed + content[8 + length :])
    seal(folder)
    transcribe_or_refuse(folder)


@examples(40, 2000)
@given(numbers=st.lists(st.tuples(st.floats(0, 1), st.floats(width=32)), min_size=1, max_size=20))
def test_weights_with_any_numbers_are_used_or_refused(
    sound: Path, folder: Path, numbers: list[tuple[float, float]]
) -> None:
    copy_of(sound, folder)
    content = bytearray((folder / WEIGHTS).read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    weights = np.frombuffer(content, np.float32, offset=8 + length)
    for share, number in numbers:
        weights[int(share * (len(weights) - 1))] = number
    (folder / WEIGHTS).write_bytes(content)
    seal(folder)
    transcribe_or_refuse(folder)


@examples(100, 2000)
@given(mutations=st.data())
def test_changed_tokens_are_read_or_refused(
    sound: Path, folder: Path, mutations: st.DataObject
) -> None:
    value = json.loads((sound / TOKENS).read_text(encoding="utf-8"))
    for _ in range(mutations.draw(st.integers(1, 4))):
        place = mutations.draw(st.sampled_from(places(value)))
        value = changed(value, place, mutations.draw(STRANGE))
    folder.mkdir(exist_ok=True)
    path = folder / TOKENS
    path.write_text(json.dumps(value), encoding="utf-8")
    try:
        tokenizer = Tokenizer.load(path)
    except ArborvoxError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        return
    tokenizer.save(path)
    assert Tokenizer.load(path) == tokenizer
    assert tokenizer.decode(range(len(tokenizer))).encode("utf-8")
    tokenizer.encode("ab cd")


def test_many_languages_and_many_units_are_refused_before_they_are_multiplied(
    tmp_path: Path,
) -> None:
    value = {
        "format": "arborvox-tokens",
        "version": 1,
        "unit": "char",
        "languages": [f"x-{number}" for number in range(60_000)],
        "units": [[f"u{number}", {}] for number in range(60_000)],
    }
    path = tmp_path / TOKENS
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(ArborvoxError, match="60,000 languages"):
        Tokenizer.load(path)
