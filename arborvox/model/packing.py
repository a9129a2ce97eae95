"""Weights laid out once for the processor, instead of at every product."""

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """A linear layer in bf16 whose weight oneDNN has already put in its own order."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.out_features = linear.out_features
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Multiply, (..., D) -> (..., E)."""
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return out


def pack_linear_layers(module: nn.Module) -> None:
    """Replace the bf16 linear layers below a module, where this build of torch can pack them."""
    if not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.weight.dtype is torch.bfloat16:
            setattr(module, name, PackedLinear(child))
        else:
            pack_linear_layers(child)
