"""Output layers: one contract (`nll`, `log_probs`, `topk`), a softmax and the paper's H-Softmax."""

from arborvox.model.outputs.contract import OutputLayer
from arborvox.model.outputs.hierarchical import HierarchicalSoftmax
from arborvox.model.outputs.softmax import Softmax

__all__ = ["HierarchicalSoftmax", "OutputLayer", "Softmax"]
