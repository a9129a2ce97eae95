"""The fast paths of H-Softmax: Numba (CPU), Triton (GPU), and PyTorch, which the others equal."""


def warm_up() -> None:
    """Compile the CPU kernels, or load them from disk, before they are first needed."""
    from arborvox.kernels import cpu
    from arborvox.kernels.tables import TreeTables
    from arborvox.tree import HuffmanTree

    cpu.warm_up(TreeTables.of_tree(HuffmanTree.from_counts([2, 1, 1])))
