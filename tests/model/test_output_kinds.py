"""Output layers by name: every name of the configuration has its layer, and they keep to it."""

from typing import get_args

import pytest
import torch

from arborvox.config import ModelConfig
from arborvox.errors import ArborvoxError
from arborvox.model.outputs import OUTPUTS, OutputRequest, make_output
from arborvox.tree import CodeTree, HuffmanTree


@pytest.mark.parametrize("key", ["output", "ctc"])
def test_every_name_of_the_configuration_has_its_layer(key: str) -> None:
    assert set(get_args(ModelConfig.model_fields[key].annotation)) == set(OUTPUTS)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_every_layer_can_be_trained_searched_and_restricted(kind: str) -> None:
    torch.manual_seed(0)
    shape = HuffmanTree.from_counts([5, 4, 3, 2, 1])
    asked = ("a", "b", "a", None)  # for the kind that needs to know
    tree = CodeTree(shape.left, shape.right, shape.probabilities, questions=asked)
    layer = make_output(kind, "output", OutputRequest(8, 5, tree, label_smoothing=0.1))
    h = torch.randn(3, 8)
    layer.nll(h, torch.tensor([0, 4, 2])).sum().backward()
    assert layer.num_tokens == 5
    torch.testing.assert_close(layer.log_probs(h).exp().sum(1), torch.ones(3))
    part = layer.restricted(torch.tensor([1, 3]).numpy())
    assert set(part.topk(h, 2)[1].flatten().tolist()) == {1, 3}
    with pytest.raises(ArborvoxError, match="restricted already"):
        part.restricted(torch.tensor([1, 3]).numpy())


@pytest.mark.parametrize("kind", [kind for kind, output in OUTPUTS.items() if output.needs_tree])
def test_layer_without_its_tree_names_the_key(kind: str) -> None:
    with pytest.raises(ArborvoxError, match=rf"model\.ctc is {kind}, but no tree"):
        make_output(kind, "ctc", OutputRequest(8, 5, None))
