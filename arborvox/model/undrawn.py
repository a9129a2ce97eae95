"""Models whose weights are not drawn, because a file's take their place or only shapes count."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

# Those that modules of ours and torch's call. On the meta device `normal_` imports torch's
# compiler, which takes as long as torch itself.
DRAWING = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_, torch.Tensor.normal_)


class Undrawn(TorchFunctionMode):
    """Leave tensors as they are where initialization would fill them with random numbers."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function, unless it draws."""
        kwargs = kwargs or {}
        if func in DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
