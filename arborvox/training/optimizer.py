"""The optimizer, and the mean of several of its results."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from arborvox.config import TrainConfig
from arborvox.model.checkpoint import load_weights


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Build Adam without decay, or AdamW with decay of the matrices only."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)
    # Decay would pull norms' scales and biases to 0 without making the function simpler.
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)


def average_weights(checkpoints: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the models in some checkpoint folders."""
    sums: dict[str, Tensor] = {}
    for folder in checkpoints:
        for name, value in load_weights(folder).items():
            # In float64: five float32 values of the same size would lose bits.
            sums[name] = sums[name] + value.double() if name in sums else value.double()
    first = load_weights(checkpoints[0])
    return {name: (total / len(checkpoints)).to(first[name].dtype) for name, total in sums.items()}
