"""Weights of a graph in 8 bits: products that are computed in them, the rest as a smaller file.

In int8, matrix products run in 8 bits. Other weights (convolutions, embeddings, positions, output
layers), or in int8-weights all of them, are kept in 8 bits with a scale for each row or column, and
become fp32 again when the graph is loaded: a cast and a product of constants, computed once.
"""

import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

# Products whose other side is not to be rounded: filter banks and output layers.
EXACT_PARTS = ("/input/", "/ctc/", "/output/")
# Of the weights that are kept smaller: over which axes numbers share a scale.
SHARED_AXES = {"Conv": (-1, -2, -3), "Gather": (-1,), "MatMul": (-2,)}
EXACT_WEIGHTS = "input."  # filter banks
# What has fewer numbers than this does not make a file large.
WORTH = 1 << 12
LARGEST = 127
QUIETEST = 1e-9  # a row of zeros has a scale too


def round_products(model: Any) -> Any:
    """Return the model with matrix products in 8 bits, and all other weights kept smaller."""
    rounded = _round_products(model)
    shrink_weights(rounded)
    return rounded


def _round_products(model: Any) -> Any:
    """Let matrix products run in 8 bits, a scale for each column."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # onnxruntime rounds matrices; what each head has of its own is small.
    stacked = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 2}
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    exact = [
        node.name
        for node in products
        if any(part in node.name for part in EXACT_PARTS) or node.input[1] in stacked
    ]
    _level_rows(model, {node.name for node in products} - set(exact))
    with tempfile.TemporaryDirectory(prefix="arborvox-") as folder:
        whole, rounded = Path(folder) / "whole.onnx", Path(folder) / "rounded.onnx"
        onnx.save_model(model, str(whole))
        logging.disable(logging.WARNING)  # it asks for sizes that are free here
        try:
            quantize_dynamic(
                whole,
                rounded,
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                weight_type=QuantType.QInt8,
                reduce_range=True,  # processors without VNNI add pairs of products in 16 bits
                nodes_to_exclude=exact,
            )
        finally:
            logging.disable(logging.NOTSET)
        return onnx.load_model(str(rounded))


def _level_rows(model: Any, names: set[str]) -> None:
    """Bring each frame to the same largest number before a product that makes it narrower.

    onnxruntime takes one scale for all frames of a batch. What an activation function has widened
    has few large numbers in few frames, and with their scale all other frames lose their digits.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    sizes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    nodes = []
    for node in graph.node:
        wide, narrow = sizes.get(node.input[1], (0, 0)) if node.name in names else (0, 0)
        if wide <= narrow:
            nodes.append(node)
            continue
        rows, product = node.input[0], node.output[0]
        sizes_of, largest, scale, level, narrowed = (
            f"{node.name}_{part}" for part in ("sizes", "largest", "scale", "level", "narrowed")
        )
        node.input[0], node.output[0] = level, narrowed
        nodes += [
            helper.make_node("Abs", [rows], [sizes_of]),
            helper.make_node("ReduceMax", [sizes_of, "last_axis"], [largest], keepdims=1),
            helper.make_node("Max", [largest, "quietest"], [scale]),
            helper.make_node("Div", [rows, scale], [level]),
            node,
            helper.make_node("Mul", [narrowed, scale], [product]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
    constants = {"last_axis": np.array([-1]), "quietest": np.array(QUIETEST, np.float32)}
    graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in constants.items()
    )


def shrink_weights(model: Any) -> None:
    """Keep large weights that are in fp32 as 8 bits and scales, and let all be computed in fp32."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    made = []
    for name, axes in _large_weights(graph).items():
        whole, scales = _round(numpy_helper.to_array(weights[name]), axes)
        graph.initializer.remove(weights[name])
        graph.initializer.append(numpy_helper.from_array(whole, f"{name}_8"))
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}_scale"))
        made += [
            helper.make_node("Cast", [f"{name}_8"], [f"{name}_32"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name}_32", f"{name}_scale"], [name]),
        ]
    nodes = [*made, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _large_weights(graph: Any) -> dict[str, tuple[int, ...]]:
    """Return the names of weights that are worth it, with the axes that share a scale."""
    from onnx import TensorProto

    uses: dict[str, set[str | None]] = {}
    for node in graph.node:
        for place, name in enumerate(node.input):
            is_weight = place == (0 if node.op_type == "Gather" else 1)
            uses.setdefault(name, set()).add(node.op_type if is_weight else None)
    found = {}
    for tensor in graph.initializer:
        (use, *others) = uses.get(tensor.name, {None})
        if (
            use in SHARED_AXES
            and not others
            and tensor.data_type == TensorProto.FLOAT
            and np.prod(tensor.dims) >= WORTH
            and not tensor.name.startswith(EXACT_WEIGHTS)
        ):
            found[tensor.name] = SHARED_AXES[use][: len(tensor.dims) - 1]
    return found


def _round(values: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return whole numbers and scales whose product is nearest to the values."""
    largest = np.abs(values).max(axis=axes, keepdims=True)
    scales = np.where(largest > 0, largest, 1.0).astype(np.float32) / np.float32(LARGEST)
    return np.rint(values / scales).astype(np.int8), scales
