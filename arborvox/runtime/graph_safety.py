"""Looks through an ONNX file before onnxruntime does: nothing in it may reach for other files.

An ONNX file is a protobuf message. Only the fields that can name another file, or an operator that
is none of ONNX's own, are looked at; the weights are passed over.
"""

from collections.abc import Iterator

from arborvox.errors import ArborvoxError

# Field numbers of onnx.proto, and where to go on from them.
MODEL = {7: "graph", 8: "opset", 20: "refused", 25: "refused"}  # training, functions
GRAPH = {1: "node", 5: "tensor", 15: "refused"}  # sparse tensors
NODE = {4: "operator", 5: "attribute", 7: "domain"}
ATTRIBUTE = {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "refused", 23: "refused"}
TENSOR = {13: "external", 14: "location"}
OPSET = {1: "domain"}
MESSAGES = {
    "model": MODEL,
    "graph": GRAPH,
    "node": NODE,
    "attribute": ATTRIBUTE,
    "tensor": TENSOR,
    "opset": OPSET,
}
OWN_DOMAINS = (b"", b"ai.onnx")
MAX_DEPTH = 16


def check_graph(data: bytes, name: str) -> None:
    """Refuse a model that names other files, or operators that are not ONNX's own."""
    try:
        _check(memoryview(data), "model", 0)
    except (ValueError, IndexError):
        raise ArborvoxError(f"{name} is no whole ONNX file; copy it again.") from None
    except _RefusedError as refused:
        raise ArborvoxError(f"{name} is refused: it holds {refused}.") from None


class _RefusedError(Exception):
    """What a model must not hold."""


def _check(data: memoryview, kind: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _RefusedError("graphs inside graphs")
    fields = MESSAGES[kind]
    for number, value in _fields(data):
        part = fields.get(number)
        if part in MESSAGES:
            if not isinstance(value, memoryview):
                raise ValueError
            _check(value, part, depth + 1)
        elif part == "external" or (part == "location" and value != 0):
            raise _RefusedError("weights that lie in another file")
        elif part == "domain" and bytes(value if isinstance(value, memoryview) else b"?") not in (
            OWN_DOMAINS
        ):
            raise _RefusedError("operators that are not ONNX's own")
        elif part == "refused":
            raise _RefusedError("parts that no export of Arborvox has")


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and value of each field of a message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield number, value
        elif wire == 2:
            size, place = _varint(data, place)
            if size > len(data) - place:
                raise ValueError
            yield number, data[place : place + size]
            place += size
        elif wire in (1, 5):
            place += 8 if wire == 1 else 4
            if place > len(data):
                raise ValueError
        else:
            raise ValueError


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError
