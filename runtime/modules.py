"""Which modules of Arborvox the runtime is made of: what its recognizer imports, and no more."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "arborvox"
# What `arborvox.load` needs for an export; the second is imported where an export is opened.
ROOTS = ("arborvox.recognizer", "arborvox.runtime.engine")


def runtime_modules() -> list[str]:
    """Return the names of the modules, packages included, sorted."""
    found: set[str] = set()
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        parent = name.rpartition(".")[0]
        if parent:
            waiting.append(parent)
        waiting += [part for part in imported(name) if part.split(".")[0] == "arborvox"]
    return sorted(found)


def imported(name: str) -> list[str]:
    """Return what a module imports when it is imported: not what functions import."""
    source = file_of(name).read_text(encoding="utf-8")
    return [part for node in _at_import(ast.parse(source).body) for part in _names(node)]


def file_of(name: str) -> Path:
    """Return a module's file."""
    place = PACKAGE.parent.joinpath(*name.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _at_import(body: list[ast.stmt]) -> list[ast.Import | ast.ImportFrom]:
    """List the imports of a module's top level; a `try` may do without what it imports."""
    found: list[ast.Import | ast.ImportFrom] = []
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif isinstance(node, ast.If) and not _is_for_types(node):
            found += _at_import(node.body)
    return found


def _is_for_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    module = node.module or ""
    if module.split(".")[0] != "arborvox":
        return [module]
    inner = [f"{module}.{alias.name}" for alias in node.names]
    return [module, *(name for name in inner if file_of(name).is_file())]
