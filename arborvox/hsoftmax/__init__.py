"""The paper's output layer, its baseline, and all that they need: torch, NumPy and Numba alone.

One contract (`nll`, `log_probs`, `topk`); H-Softmax by Numba (CPU), by Triton (GPU), and in plain
PyTorch, which the other two equal.
"""

from arborvox.hsoftmax.contract import OutputLayer
from arborvox.hsoftmax.hierarchical import HierarchicalSoftmax
from arborvox.hsoftmax.softmax import Softmax
from arborvox.hsoftmax.tied import TiedSoftmax

__all__ = ["HierarchicalSoftmax", "OutputLayer", "Softmax", "TiedSoftmax", "warm_up"]


def warm_up() -> None:
    """Compile the CPU kernels, or load them from disk, before they are first needed."""
    from arborvox.hsoftmax import cpu
    from arborvox.hsoftmax.tables import TreeTables
    from arborvox.tree import HuffmanTree

    cpu.warm_up(TreeTables.of_tree(HuffmanTree.from_counts([2, 1, 1])))
