"""The optimizers without torch's compiler take the same steps as torch's own."""

import pytest
import torch

from arborvox.training.optimizer import ADAM, ADAMW


@pytest.mark.parametrize(("ours", "theirs"), [(ADAM, torch.optim.Adam), (ADAMW, torch.optim.AdamW)])
def test_steps_are_those_of_torch(
    ours: type[torch.optim.Adam], theirs: type[torch.optim.Adam]
) -> None:
    after = []
    for kind in (ours, theirs):
        torch.manual_seed(0)
        layer = torch.nn.Linear(5, 3)
        optimizer = kind(layer.parameters(), lr=0.1, weight_decay=0.1, fused=True)
        for _ in range(3):
            layer(torch.ones(2, 5)).square().sum().backward()
            optimizer.step()
            assert all(weight.grad is not None for weight in layer.parameters())
            optimizer.zero_grad(set_to_none=True)
            assert all(weight.grad is None for weight in layer.parameters())
        after.append([weight.detach().clone() for weight in layer.parameters()])
        assert all(len(state) == 3 for state in optimizer.state.values())
    for mine, torchs in zip(*after, strict=True):
        assert torch.equal(mine, torchs)
