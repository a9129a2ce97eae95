"""Arborvox: speech recognition for languages with little data.

The names below are imported when they are first used, so that `import arborvox` costs nothing.
"""

from typing import TYPE_CHECKING, Any

from arborvox.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from arborvox.config import DecodeConfig
    from arborvox.errors import ArborvoxError
    from arborvox.hsoftmax import HierarchicalSoftmax, Softmax
    from arborvox.recognizer import load
    from arborvox.tree import CodeTree, HuffmanTree

_HOMES = {
    "ArborvoxError": "arborvox.errors",
    "HierarchicalSoftmax": "arborvox.hsoftmax",
    "Softmax": "arborvox.hsoftmax",
    "CodeTree": "arborvox.tree",
    "DecodeConfig": "arborvox.config",
    "HuffmanTree": "arborvox.tree",
    "load": "arborvox.recognizer",
}

__all__ = [
    "ArborvoxError",
    "CodeTree",
    "DecodeConfig",
    "HierarchicalSoftmax",
    "HuffmanTree",
    "Softmax",
    "__version__",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'arborvox' has no attribute {name!r}")
