"""int8 exports: small whatever the network, and every weight within half a step of its own."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from checkpoints import make_checkpoint
from onnx import TensorProto, helper, numpy_helper

from arborvox.config.choices import ExportPrecision, values_of
from arborvox.export.exporting import export_onnx
from arborvox.export.rounding import round_products
from arborvox.recognizer import load

PRECISIONS = values_of(ExportPrecision)


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Export a network of a width that is used, with few layers, in both precisions."""
    folder = tmp_path_factory.mktemp("rounding")
    units = ("<eos>", "<unk>", *(chr(0x4E00 + number) for number in range(50)))
    wide = {"width": 128, "heads": 2, "feed_forward": 512, "channels": 32, "encoder_layers": 2}
    run = make_checkpoint(folder / "run", units=units, size="small", decoder_layers=1, **wide)
    for precision in PRECISIONS:
        export_onnx(run, folder / precision, precision=precision)  # type: ignore[arg-type, unused-ignore]
    return {precision: folder / precision for precision in PRECISIONS}


def weights_of(path: Path) -> dict[str, Any]:
    """Return a graph's weights by name."""
    tensors = onnx.load(str(path)).graph.initializer
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}


def test_eight_bits_take_less_than_a_third(exports: dict[str, Path]) -> None:
    sizes = {
        precision: sum(path.stat().st_size for path in folder.glob("*.onnx"))
        for precision, folder in exports.items()
    }
    for precision in ("int8", "int8-weights"):
        assert sizes[precision] <= 0.31 * sizes["fp32"]  # filter banks weigh more in few layers


@pytest.mark.parametrize("part", ["encoder", "decoder"])
@pytest.mark.parametrize("precision", ["int8", "int8-weights"])
def test_weights_that_are_kept_smaller_come_back_within_half_a_step(
    exports: dict[str, Path], part: str, precision: str
) -> None:
    whole, small = (weights_of(exports[key] / f"{part}.onnx") for key in ("fp32", precision))
    kept = [name.removesuffix("_8") for name in small if name.endswith("_8")]
    assert kept
    for name in kept:
        steps = small[f"{name}_scale"]
        away = np.abs(small[f"{name}_8"] * steps - whole[name])
        assert (away <= 0.501 * steps).all(), name
        assert small[f"{name}_8"].dtype == np.int8


def test_filter_banks_are_never_rounded(exports: dict[str, Path]) -> None:
    whole, small = (weights_of(exports[key] / "encoder.onnx") for key in ("fp32", "int8"))
    assert (small["input.bands"] == whole["input.bands"]).all()


def test_weights_alone_change_less_than_products(exports: dict[str, Path]) -> None:
    samples = 0.1 * np.random.default_rng(0).standard_normal(16_000).astype(np.float32)

    def scores(precision: str) -> Any:
        engine: Any = load(exports[precision]).engine
        return engine.network.ctc_scores(engine.network.encode([samples])).log_probs

    away = {key: np.abs(scores(key) - scores("fp32")).max() for key in ("int8", "int8-weights")}
    assert 0 < away["int8-weights"] < away["int8"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_no_constant_is_written_twice(exports: dict[str, Path], precision: str) -> None:
    for path in exports[precision].glob("*.onnx"):
        nodes = [node for node in onnx.load(str(path)).graph.node if node.op_type == "Constant"]
        values = [node.attribute[0].SerializeToString(deterministic=True) for node in nodes]
        assert len(values) == len(set(values))


def product_in_eight_bits(frames: Any, weights: Any) -> Any:
    """Multiply by a graph of one product that was rounded."""
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [None, weights.shape[0]]), ("y", [None, weights.shape[1]]))
    ]
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="contract")
    tensors = [numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph([node], "one", values[:1], values[1:], initializer=tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(round_products(model).SerializeToString())
    return session.run(None, {"x": frames})[0]


def test_a_loud_frame_leaves_the_others_their_digits() -> None:
    """With one scale for all frames the quiet ones would be rounded to nothing."""
    chance = np.random.default_rng(0)
    frames, weights = (
        chance.standard_normal(size).astype(np.float32) for size in ((8, 256), (256, 64))
    )
    frames[3] *= 1000.0
    frames[5] = 0.0
    exact, rounded = frames @ weights, product_in_eight_bits(frames, weights)
    away = np.linalg.norm(rounded - exact, axis=1) / np.maximum(np.linalg.norm(exact, axis=1), 1.0)
    assert (away < 0.03).all()
    assert not rounded[5].any()
