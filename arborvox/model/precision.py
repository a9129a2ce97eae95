"""Whether to compute in bf16, decided by what the hardware does natively."""

from contextlib import AbstractContextManager

import torch

from arborvox.config.choices import Precision, values_of
from arborvox.errors import ArborvoxError

# Below this width the products are so small that casting costs more than bf16 saves.
MIN_BF16_WIDTH = 128


def choose_precision(wanted: str, device: torch.device, width: int) -> str:
    """Turn "auto" into "bf16" or "fp32"; a rule, not a stopwatch, so that a resume agrees."""
    if wanted not in (known := values_of(Precision)):
        raise ArborvoxError(f"Unknown precision '{wanted}'; there are: {', '.join(known)}.")
    if wanted != "auto":
        return wanted
    if width < MIN_BF16_WIDTH:
        return "fp32"
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:  # nothing but fp32 was ever tried on mps
        native = device.type == "cpu" and (
            torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        )
    return "bf16" if native else "fp32"


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """Compute in bf16 where it is safe, keeping the weights in fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
