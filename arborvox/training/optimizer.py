"""The optimizer, and the mean of several of its results."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from arborvox.config import TrainConfig
from arborvox.hsoftmax import OutputLayer
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import load_weights


def _uncompiled(kind: type[torch.optim.Adam]) -> type[torch.optim.Adam]:
    """Return an optimizer without the wrappers by which torch's compiler knows it.

    They import that compiler at the first call: as long as torch itself takes to import, and
    100 MB. Compiled models (`train.compile`) don't miss them, because steps are never compiled.
    """
    step = torch.no_grad()(inspect.unwrap(kind.step))
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in ("add_param_group", "zero_grad")}
    return type(kind.__name__, (kind,), {"step": step, **plain})


ADAM = _uncompiled(torch.optim.Adam)
ADAMW = _uncompiled(torch.optim.AdamW)


def make_optimizer(model: ASR, config: TrainConfig) -> torch.optim.Optimizer:
    """Build Adam without decay, or AdamW with decay of the matrices only.

    Each group's rate is the schedule's times its `rate_factor`.
    """
    held = {
        id(p)
        for layer in model.modules()
        if isinstance(layer, OutputLayer)
        for p in layer.held_parameters()
    }
    given = {id(p) for p in model.encoder.given_parameters()}
    parameters = [p for p in model.parameters() if p.requires_grad]
    fresh = [p for p in parameters if id(p) not in given]
    parts = [(fresh, 1.0)]
    if given:
        factor = (config.encoder_learning_rate or config.learning_rate) / config.learning_rate
        parts.append(([p for p in parameters if id(p) in given], factor))
    groups: list[dict[str, Any]] = []
    for part, factor in parts:
        if config.optimizer == "adam":
            groups.append({"params": part, "rate_factor": factor})
            continue
        # Decay would pull norms' scales and biases to 0 without making the function simpler.
        free = [p for p in part if id(p) not in held]
        kinds = [
            ([p for p in free if p.dim() > 1], config.weight_decay),
            ([p for p in free if p.dim() <= 1], 0.0),
        ]
        if len(free) < len(part):
            kinds.append(([p for p in part if id(p) in held], config.deviation_decay))
        for members, decay in kinds:
            groups.append({"params": members, "weight_decay": decay, "rate_factor": factor})
    make = ADAM if config.optimizer == "adam" else ADAMW
    return make(groups, lr=config.learning_rate, fused=True)


def average_weights(checkpoints: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the models in some checkpoint folders."""
    sums: dict[str, Tensor] = {}
    for folder in checkpoints:
        for name, value in load_weights(folder).items():
            # In float64: five float32 values of the same size would lose bits.
            sums[name] = sums[name] + value.double() if name in sums else value.double()
    first = load_weights(checkpoints[0])
    return {name: (total / len(checkpoints)).to(first[name].dtype) for name, total in sums.items()}
