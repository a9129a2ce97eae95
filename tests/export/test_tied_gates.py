"""Gates that share questions leave for other runtimes as plain gates."""

import pytest
import torch

from arborvox.export.graphs import ScoresGraph
from arborvox.hsoftmax.tied import TiedSoftmax
from arborvox.runtime.manifest import GateTree
from arborvox.runtime.outputs import GateOutput
from arborvox.tree import CodeTree


@pytest.fixture
def layer() -> TiedSoftmax:
    """A layer whose gates deviate from their questions, over a tree with a unit never heard."""
    questions = ("a", "b", "b")
    tree = CodeTree([1, -1, -3], [2, -2, -4], [0.4, 0.3, 0.3, 0], None, "questions", questions)
    made = TiedSoftmax(4, tree).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    return made


def test_leaves_and_gates_say_what_the_layer_says(layer: TiedSoftmax) -> None:
    h = torch.randn(1, 7, 4, generator=torch.Generator().manual_seed(1))
    wanted = layer.log_probs(h[0]).detach()
    torch.testing.assert_close(ScoresGraph(layer, leaves=True)(h)[0], wanted)
    gates = ScoresGraph(layer, leaves=False)(h)[0].detach().numpy()
    tree = GateTree(layer.tree.left, layer.tree.right)
    found = torch.from_numpy(GateOutput(tree).log_probs(gates))
    torch.testing.assert_close(found, wanted)
