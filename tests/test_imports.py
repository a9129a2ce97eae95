"""Imports point one way, and the command line starts without the heavy libraries."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoints import make_checkpoint

PACKAGE = Path(__file__).parent.parent / "arborvox"

# Layers from the ground up: a module imports from its own layer or from those before it.
LAYERS = [
    {"version", "errors", "choices"},
    {"processes", "batching", "digests", "files", "typed_json", "console", "pooling", "yaml12"},
    {"vocabulary", "inventory_files", "spectra"},
    {"config", "text", "audio", "annotations", "tree", "score"},
    {"manifest"},
    {"tokens", "kernels", "features", "augment", "pauses", "team", "shards"},
    {"hsoftmax", "lm"},
    {"corpora", "model"},
    {"data", "decode"},
    {"recognizer", "runtime", "training", "tuning"},
    {"annotate", "align", "transcribe"},
    {"train"},
    {"doctor", "report"},
    {"project"},
    {"pipeline", "serve", "export", "elan"},
    {"cli"},
    {"__init__", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# These know nothing of ours but how to speak, fail and write files.
GROUND = {"config", "text", "tree", "score", "audio", "annotations"}


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _part(path: Path) -> str:
    if path == PACKAGE / "config" / "choices.py":  # beside the sections, but below everything
        return "choices"
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            words = node.module.split(".")
            if words[1:] == ["config", "choices"]:
                parts.add("choices")
            elif words[0] == "arborvox":
                parts |= {words[1]} if len(words) > 1 else {a.name for a in node.names}
        elif isinstance(node, ast.Import):
            parts |= {
                alias.name.split(".")[1]
                for alias in node.names
                if alias.name.startswith("arborvox.")
            }
    return parts


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    own = _part(path)
    assert own in LEVEL, f"{own} has no place in the layers yet"
    for part in _imported_parts(path) - {own}:
        assert LEVEL[part] <= LEVEL[own], f"{own} imports {part}, which stands above it"
        if own in GROUND:
            assert LEVEL[part] < LEVEL["config"], f"{own} stands on the ground, not on {part}"


def test_scoring_renders_nothing_and_loads_no_network() -> None:
    """`score/` gives numbers; pages, terminals and Markdown are for `report/`."""
    for path in (PACKAGE / "score").glob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert "rich" not in _imported_libraries(source), f"{path.name} draws on a terminal"
        assert "| ---" not in source and "<table" not in source, f"{path.name} writes pages"
    code = (
        "import sys\n"
        "import arborvox.report.score_report, arborvox.report.comparison_report\n"
        "sys.exit(', '.join({'torch', 'matplotlib', 'lhotse'} & set(sys.modules)) or None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"`arborvox score` imports {done.stderr}"


def _imported_libraries(source: str) -> set[str]:
    libraries = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            libraries.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            libraries |= {alias.name.split(".")[0] for alias in node.names}
    return libraries


def test_help_needs_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "from arborvox.cli import app\n"
        "heavy = {'torch', 'numpy', 'lhotse', 'pydantic', 'numba', 'matplotlib'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the command line imports {done.stderr}"


def test_loading_and_training_leave_the_compiler_out(tmp_path: Path) -> None:
    """It takes as long to import as all of torch, and nothing of it is used."""
    folder = make_checkpoint(tmp_path / "checkpoint")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from arborvox.config import TrainConfig\n"
        "from arborvox.model.checkpoint import load_checkpoint\n"
        "from arborvox.training.optimizer import make_optimizer\n"
        "model = load_checkpoint(Path(sys.argv[1])).model\n"
        "for kind in ('adam', 'adamw'):\n"
        "    optimizer = make_optimizer(model, TrainConfig(optimizer=kind))\n"
        "    sum(weight.sum() for weight in model.parameters()).backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad(set_to_none=True)\n"
        "sys.exit('torch._dynamo' if 'torch._dynamo' in sys.modules else None)\n"
    )
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"training imports {done.stderr}"
