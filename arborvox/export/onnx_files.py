"""Graphs as ONNX files: traced for any batch and length, in fp32 or int8, metadata inside."""

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from arborvox.config.choices import ExportPrecision
from arborvox.errors import ArborvoxError
from arborvox.export.graphs import Graph
from arborvox.export.rounding import round_products, shrink_weights

# The newest that onnxruntime on phones and in browsers has had for years.
OPSET = 18


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
        model = round_products(model)
    elif precision == "int8-weights":
        shrink_weights(model)
    _merge_constants(model)
    _shorten_names(model)
    model.producer_name = "arborvox"
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.save_model(model, str(path))


def _merge_constants(model: Any) -> None:
    """Keep one of equal constants: the tracer writes a layer's own down for every layer."""
    graph = model.graph
    first: dict[bytes, str] = {}
    same: dict[str, str] = {}
    nodes = []
    for node in graph.node:
        if node.op_type == "Constant":
            value = node.attribute[0].SerializeToString(deterministic=True)
            same[node.output[0]] = first.setdefault(value, node.output[0])
        if same.get(node.output[0], node.output[0]) == node.output[0]:
            nodes.append(node)
        for place, name in enumerate(node.input):
            node.input[place] = same.get(name, name)
    del graph.node[:]
    graph.node.extend(nodes)


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
