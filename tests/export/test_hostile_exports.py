"""An export that was cut, edited or made by a newer version is refused in a sentence."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from checkpoints import make_checkpoint

from arborvox.errors import ArborvoxError
from arborvox.export.exporting import export_onnx
from arborvox.recognizer import load
from arborvox.runtime.graph_safety import check_graph


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a tiny model."""
    folder = tmp_path_factory.mktemp("hostile")
    export_onnx(make_checkpoint(folder / "run"), folder / "export")
    return folder / "export"


@pytest.fixture
def export(whole: Path, tmp_path: Path) -> Path:
    """Copy it, to be spoilt."""
    return Path(shutil.copytree(whole, tmp_path / "export"))


def seal(export: Path) -> None:
    """Make the head fit the graphs again, as a stranger can."""
    head = json.loads((export / "export.json").read_text(encoding="utf-8"))
    for name in head["sha256"]:
        head["sha256"][name] = hashlib.sha256((export / name).read_bytes()).hexdigest()
    (export / "export.json").write_text(json.dumps(head), encoding="utf-8")


def test_a_cut_graph_is_refused(export: Path) -> None:
    path = export / "encoder.onnx"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ArborvoxError, match="damaged or was changed"):
        load(export)
    seal(export)
    with pytest.raises(ArborvoxError, match=r"no whole ONNX file|onnxruntime"):
        load(export)


def test_an_edited_graph_is_refused(export: Path) -> None:
    path = export / "decoder.onnx"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArborvoxError, match=r"decoder\.onnx is damaged"):
        load(export)


def test_a_missing_graph_is_named(export: Path) -> None:
    (export / "frames.onnx").unlink()
    with pytest.raises(ArborvoxError, match=r"there is no frames\.onnx"):
        load(export)


def test_a_newer_export_is_refused(export: Path) -> None:
    head = json.loads((export / "export.json").read_text(encoding="utf-8"))
    (export / "export.json").write_text(json.dumps({**head, "version": 99}), encoding="utf-8")
    with pytest.raises(ArborvoxError, match="install a newer one"):
        load(export)


def edit_description(export: Path, **changes: Any) -> None:
    """Write other metadata into the encoder's graph."""
    path = export / "encoder.onnx"
    model = onnx.load_model(str(path))
    for entry in model.metadata_props:
        if entry.key == "arborvox":
            entry.value = json.dumps({**json.loads(entry.value), **changes})
    onnx.save_model(model, str(path))
    seal(export)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"version": 99}, "install a newer one"),
        ({"format": "other"}, "not that of an export"),
        ({"units": ["a"]}, "units"),
        ({"units": ["<eos>", "<unk>", "a"]}, "fit"),
        ({"sampling_rate": 1e300}, "sampling_rate"),
        ({"state_s": float("nan")}, "state_s"),
        ({"max_segment_s": -1}, "max_segment_s"),
        ({"output_tree": {"left": [0] * 7, "right": [0] * 7}}, "no tree"),
        ({"output_tree": {"left": [10**30], "right": [1]}}, "fit"),
        ({"decode": {"mode": "joint", "beam": 10**9}}, "beam"),
        ({"heads": 10**9}, "heads"),
    ],
)
def test_metadata_is_checked(export: Path, changes: dict[str, Any], told: str) -> None:
    edit_description(export, **changes)
    with pytest.raises(ArborvoxError, match=told):
        load(export)


def test_weights_in_another_file_are_refused(export: Path) -> None:
    path = export / "encoder.onnx"
    model = onnx.load_model(str(path))
    tensor = max(model.graph.initializer, key=lambda each: len(each.raw_data))
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../etc/passwd")
    tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    seal(export)
    with pytest.raises(ArborvoxError, match="lie in another file"):
        load(export)


def test_operators_of_others_are_refused(export: Path) -> None:
    path = export / "encoder.onnx"
    model = onnx.load_model(str(path))
    model.graph.node[0].domain = "com.microsoft"
    path.write_bytes(model.SerializeToString())
    seal(export)
    with pytest.raises(ArborvoxError, match="not ONNX's own"):
        load(export)


BYTES = (b"", b"\x00", b"\xff" * 40, b"\x3a\xff\xff\xff\xff\x7f", b"hello")


@pytest.mark.parametrize("data", BYTES)
def test_any_bytes_get_a_sentence(data: bytes, export: Path) -> None:
    (export / "encoder.onnx").write_bytes(data)
    seal(export)
    with pytest.raises(ArborvoxError):
        load(export)


def test_what_we_write_is_let_through(whole: Path) -> None:
    for path in whole.glob("*.onnx"):
        check_graph(path.read_bytes(), path.name)
