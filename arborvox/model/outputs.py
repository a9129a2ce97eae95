"""Output layers by the names that recipes give them."""

from collections.abc import Callable
from dataclasses import dataclass

from arborvox.config import ModelConfig
from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer, Softmax, TiedSoftmax
from arborvox.tree import CodeTree


@dataclass(frozen=True)
class OutputRequest:
    """What a layer is made from; who needs no tree does not look at it."""

    hidden_size: int
    num_tokens: int
    tree: CodeTree | None
    label_smoothing: float = 0.0
    smoothing: str = "leaves"


@dataclass(frozen=True)
class Output:
    """A kind of output layer: how it is made, and what for."""

    make: Callable[[OutputRequest], OutputLayer]
    needs_tree: bool
    title: str  # in a model card


def _make_softmax(request: OutputRequest) -> OutputLayer:
    return Softmax(request.hidden_size, request.num_tokens, label_smoothing=request.label_smoothing)


def _make_hierarchical(request: OutputRequest) -> OutputLayer:
    assert request.tree is not None
    return HierarchicalSoftmax(
        request.hidden_size,
        request.tree,
        label_smoothing=request.label_smoothing,
        smoothing=request.smoothing,
    )


def _make_tied(request: OutputRequest) -> OutputLayer:
    assert request.tree is not None
    return TiedSoftmax(
        request.hidden_size,
        request.tree,
        label_smoothing=request.label_smoothing,
        smoothing=request.smoothing,
    )


OUTPUTS: dict[str, Output] = {
    "softmax": Output(_make_softmax, needs_tree=False, title="softmax"),
    "hierarchical": Output(_make_hierarchical, needs_tree=True, title="hierarchical softmax"),
    "tied": Output(_make_tied, needs_tree=True, title="hierarchical softmax with tied gates"),
}


def make_output(kind: str, key: str, request: OutputRequest) -> OutputLayer:
    """Make the layer that `model.<key>` asks for."""
    output = OUTPUTS[kind]
    if output.needs_tree and request.tree is None:
        raise ArborvoxError(f"model.{key} is {kind}, but no tree was given.")
    return output.make(request)


def needs_tree(config: ModelConfig) -> bool:
    """Say whether a network has an output layer that is built on a tree."""
    return any(OUTPUTS[kind].needs_tree for kind in (config.output, config.ctc))
