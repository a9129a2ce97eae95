"""Graphs as ONNX files: traced for any batch and length, in fp32 or int8, metadata inside."""

import io
import logging
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from arborvox.config.choices import ExportPrecision
from arborvox.errors import ArborvoxError
from arborvox.export.graphs import Graph

# The newest that onnxruntime on phones and in browsers has had for years.
OPSET = 18
# Products whose numbers are not to be rounded: filter banks and output layers.
EXACT_PARTS = ("/input/", "/ctc/", "/output/")


def require_onnx() -> Any:
    """Return the library, or say which extra is missing."""
    try:
        import onnx
        import onnxruntime.quantization  # noqa: F401  (needed for int8)
    except ImportError:
        raise ArborvoxError(
            'To export, the extra `onnx` is needed: pip install "arborvox[onnx]".'
        ) from None
    return onnx


def trace(graph: Graph) -> Any:
    """Write a module down as an ONNX model."""
    onnx = require_onnx()
    file = io.BytesIO()
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer: what it warns of is held by tests
        torch.onnx.export(
            graph.module,
            tuple(graph.inputs.values()),
            file,  # type: ignore[arg-type]
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_axes={name: dict(axes) for name, axes in graph.free.items()},
            opset_version=OPSET,
            dynamo=False,
        )
    return onnx.load_from_string(file.getvalue())


def write_model(
    model: Any, path: Path, precision: ExportPrecision, metadata: Mapping[str, str]
) -> None:
    """Write a traced model to a file, its weights rounded to 8 bits where that is asked for."""
    onnx = require_onnx()
    if precision == "int8":
        model = _round_weights(model)
    _shorten_names(model)
    model.producer_name = "arborvox"
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.save_model(model, str(path))


def _round_weights(model: Any) -> Any:
    """Return the model with 8-bit weights, a scale for each column."""
    onnx = require_onnx()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # onnxruntime rounds matrices; what each head has of its own is small.
    stacked = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 2}
    exact = [
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul"
        and (any(part in node.name for part in EXACT_PARTS) or node.input[1] in stacked)
    ]
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


def _shorten_names(model: Any) -> None:
    """Number what stands between nodes: the tracer's names and notes are a large part of a file."""
    graph = model.graph
    kept = {value.name for part in (graph.input, graph.output, graph.initializer) for value in part}
    short: dict[str, str] = {"": ""}
    for node in graph.node:
        node.name, node.doc_string = "", ""
        del node.metadata_props[:]
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name not in kept:
                    names[place] = short.setdefault(name, f"v{len(short)}")
    del graph.value_info[:]
