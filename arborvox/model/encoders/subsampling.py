"""The front end: two 3x3 convolutions of stride 2, so that a frame stands for four."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.errors import ArborvoxError
from arborvox.model.kernels.dispatch import is_exported
from arborvox.model.products import Linear

FRAMES_A_STATE = 4

# Two valid 3x3 convolutions of stride 2 need seven frames for one output frame.
MIN_FRAMES = 7


def subsampled_lens(lens: Tensor) -> Tensor:
    """Return how many encoder frames feature frames become; never fewer than one."""
    return _halved(_halved(lens.clamp(min=MIN_FRAMES)))


def _halved(size: Tensor) -> Tensor:
    """Return the output size of one valid convolution of kernel 3 and stride 2."""
    return torch.div(size - 1, 2, rounding_mode="floor")


class Subsampling(nn.Module):
    """Log-mel frames to encoder frames at a quarter of the rate.

    The convolutions are not padded: an output frame sees input frames of its own utterance only, so
    no mask is needed between them. Utterances of fewer than seven frames are filled up with zeros.
    """

    def __init__(self, num_mels: int, channels: int, width: int) -> None:
        super().__init__()
        if num_mels < MIN_FRAMES:
            raise ArborvoxError(
                f"features.num_mels must be at least {MIN_FRAMES} for the encoder's front end, "
                f"but it is {num_mels}."
            )
        self.first = nn.Conv2d(1, channels, kernel_size=3, stride=2)
        self.second = nn.Conv2d(channels, channels, kernel_size=3, stride=2)
        num_bins = ((num_mels - 1) // 2 - 1) // 2
        self.project = Linear(num_bins * channels, width)

    def forward(self, features: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Subsample; (B, T, M), (B,) -> (B, T', D), (B,); frames beyond `lens` must be zero."""
        if not is_exported():  # who runs the graph gives it enough samples
            missing = max(0, MIN_FRAMES - features.shape[1])
            features = functional.pad(features, (0, 0, 0, missing))
        x = self._convolve_first(features)  # (B, C, T1, M1)
        x = self.second(x).relu_()  # (B, C, T', M')
        x = x.permute(0, 2, 3, 1).flatten(2)  # (B, T', M' * C), a view
        return self.project(x), subsampled_lens(lens)

    def _convolve_first(self, features: Tensor) -> Tensor:
        """Convolve the one input channel and rectify, (B, T, M) -> (B, C, T1, M1), channels last.

        With one channel in, torch's convolution is slow and always answers channels first; the
        second convolution would then have to copy this, the largest tensor of the network. So it
        is a matrix product over 3x3 patches.
        """
        if is_exported():
            convolved: Tensor = self.first(features[:, None]).relu()
            return convolved
        patches = features.unfold(1, 3, 2).unfold(2, 3, 2)  # (B, T1, M1, 3, 3)
        rows = functional.linear(
            patches.reshape(-1, 9), self.first.weight.flatten(1), self.first.bias
        )
        # In place before the view is taken: on a view, autograd would copy the whole tensor.
        return rows.relu_().view(*patches.shape[:3], -1).permute(0, 3, 1, 2)
