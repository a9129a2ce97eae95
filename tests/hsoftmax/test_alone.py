"""The layer stands alone: torch, NumPy and Numba are all that it needs of what we depend on."""

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = {"torch", "numpy", "numba"}
IMPORT_NAMES = {"pyyaml": "yaml"}

# A name that stands for None in sys.modules cannot be imported.
TRAIN_AND_SEARCH = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))

import torch
from arborvox import HierarchicalSoftmax, HuffmanTree, Softmax
from arborvox.hsoftmax import warm_up
from arborvox.hsoftmax.restricted import restrict

warm_up()
tree = HuffmanTree.from_counts([50, 30, 12, 5, 3])
h, targets = torch.randn(6, 8), torch.tensor([0, 1, 2, 3, 4, 0])
for layer in (HierarchicalSoftmax(8, tree, label_smoothing=0.1), Softmax(8, 5)):
    layer.nll(h, targets).mean().backward()
    assert layer.weight.grad.abs().sum() > 0
    for whole in (layer, restrict(layer, [0, 2, 3])):
        values, ids = whole.topk(h, 2)
        assert torch.allclose(values, whole.log_probs(h).gather(1, ids), atol=1e-5)
"""


def foreign_packages() -> list[str]:
    """List the import names of all dependencies that the layer must do without."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    wanted = [*project["dependencies"], *extras]
    names = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in wanted}  # type: ignore[index]
    return sorted(IMPORT_NAMES.get(name, name).replace("-", "_") for name in names - NEEDED)


def test_layer_runs_with_torch_numpy_and_numba_alone() -> None:
    foreign = foreign_packages()
    assert {"lhotse", "matplotlib", "panphon", "pydantic", "rich", "typer", "yaml"} <= set(foreign)
    command = [sys.executable, "-c", TRAIN_AND_SEARCH, *foreign]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
