"""Why the network's parts are computed as they are: each part in several ways, as ratios.

    python benchmarks/network_parts.py [--threads 1]

Times are of forward and backward pass in bf16 at the shapes of 100 s batches, divided by the time
of the way that the network takes.
"""

import argparse
from collections.abc import Callable

import torch
from plain_network import PlainRelativeAttention
from timing import Case, describe_machine, interleave
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model import attention
from arborvox.model.attention import RelativeSelfAttention, sinusoids
from arborvox.model.dropout import dropout_mask
from arborvox.model.encoders.subsampling import Subsampling
from arborvox.model.kernels.ctc import CTCLoss
from arborvox.model.kernels.depthwise import DepthwiseConvolution
from arborvox.model.kernels.dispatch import KERNELS, without_kernels
from arborvox.model.layers import ConvolutionModule, FeedForward

BF16 = torch.bfloat16


def with_backward(function: Callable[[Tensor], Tensor], x: Tensor) -> Case:
    """Return a case that runs a function and its backward pass."""
    with torch.no_grad():
        gradient = torch.ones_like(function(x))
    return lambda: torch.autograd.backward(function(x), gradient)


def by_torch(function: Callable[[], Tensor]) -> Tensor:
    """Run a function while none of our kernels is used but dropout's mask, a part of its own."""
    with without_kernels(*(name for name in KERNELS if name != "dropout")):
        return function()


def attention_cases(batch: int, num_frames: int, heads: int = 4, size: int = 64) -> dict[str, Case]:
    """Relative self-attention by our kernel, by torch's products, fused, and by a table."""
    width = heads * size
    x = torch.randn(batch, num_frames, width, dtype=BF16, requires_grad=True)
    bias = torch.zeros(batch, 1, 1, num_frames, dtype=BF16)
    waves = sinusoids(num_frames, size, like=x)
    ours = RelativeSelfAttention(width, heads).to(BF16)
    table = PlainRelativeAttention(width, heads).to(BF16)

    def fused(x: Tensor) -> Tensor:
        limit, attention.MAX_PLAIN_KEYS = attention.MAX_PLAIN_KEYS, 0
        try:
            return ours.forward(x, waves, bias)
        finally:
            attention.MAX_PLAIN_KEYS = limit

    def products(x: Tensor) -> Tensor:
        return by_torch(lambda: ours.forward(x, waves, bias))

    return {
        "one kernel": with_backward(lambda x: ours.forward(x, waves, bias), x),
        "products and torch's passes": with_backward(products, x),
        "scaled_dot_product_attention": with_backward(fused, x),
        "table of distances": with_backward(lambda x: table.forward(x, waves, bias), x),
    }


def dropout_cases(shape: tuple[int, ...]) -> dict[str, Case]:
    """Dropout by our mask, by torch, and by bytes of 64-bit draws."""
    x = torch.randn(shape, dtype=BF16, requires_grad=True)

    def by_bytes(x: Tensor) -> Tensor:
        draws = torch.empty(x.numel() // 8, dtype=torch.int64).random_(-(2**63), None)
        return x * (draws.view(torch.uint8) >= 26).view(x.shape).to(x.dtype) * (256 / 230)

    return {
        "hashed counter": with_backward(lambda x: x * dropout_mask(x, 0.1), x),
        "functional.dropout": with_backward(lambda x: functional.dropout(x, 0.1), x),
        "bytes of random_": with_backward(by_bytes, x),
    }


def depthwise_cases(batch: int, num_frames: int, width: int = 256) -> dict[str, Case]:
    """The depthwise convolution by our kernel, as a channels-last picture, in one dimension."""
    x = torch.randn(batch, num_frames, width, dtype=BF16, requires_grad=True)
    kernel = nn.Parameter(torch.randn(width, 1, 1, 15, dtype=BF16))
    bias = nn.Parameter(torch.randn(width, dtype=BF16))

    def picture(x: Tensor) -> Tensor:
        seen = x.unsqueeze(1).permute(0, 3, 1, 2)
        return functional.conv2d(seen, kernel, bias, padding=(0, 7), groups=width)

    def line(x: Tensor) -> Tensor:
        seen = x.transpose(1, 2)
        return functional.conv1d(seen, kernel.squeeze(2), bias, padding=7, groups=width)

    def kernels(x: Tensor) -> Tensor:
        out: Tensor = DepthwiseConvolution.apply(x, kernel.flatten(1), bias)  # type: ignore[no-untyped-call]
        return out

    return {
        "kernel": with_backward(kernels, x),
        "conv2d, channels last": with_backward(picture, x),
        "conv1d": with_backward(line, x),
    }


def convolution_module_cases(batch: int, num_frames: int, width: int = 256) -> dict[str, Case]:
    """The convolution module with our kernels, and with torch's passes."""
    layer = ConvolutionModule(width, 15).to(BF16)
    x = torch.randn(batch, num_frames, width, dtype=BF16, requires_grad=True)
    return {
        "kernels": with_backward(lambda x: layer.forward(x, None), x),
        "torch": with_backward(lambda x: by_torch(lambda: layer(x, None)), x),
    }


def feed_forward_cases(rows: int, width: int = 256, hidden: int = 2048) -> dict[str, Case]:
    """Two linear layers with bias, SiLU and dropout in one kernel, or in torch's passes."""
    layer = FeedForward(width, hidden, 0.1).to(BF16)
    x = torch.randn(rows, width, dtype=BF16, requires_grad=True)
    return {
        "kernel": with_backward(layer.forward, x),
        "torch": with_backward(lambda x: by_torch(lambda: layer(x)), x),
    }


def front_end_cases(batch: int, num_frames: int, channels: int) -> dict[str, Case]:
    """The front end with the first convolution as a product over patches, and as a convolution."""
    layer = Subsampling(80, channels, 256).to(BF16)
    x = torch.randn(batch, num_frames, 80, dtype=BF16)
    lens = torch.full((batch,), num_frames)

    def convolutions(x: Tensor) -> Tensor:
        seen = layer.second(layer.first(x.unsqueeze(1)).relu_()).relu_()
        out: Tensor = layer.project(seen.permute(0, 2, 3, 1).flatten(2))
        return out

    return {
        "patches, channels last": with_backward(lambda x: layer(x, lens)[0], x),
        "two convolutions": with_backward(convolutions, x),
    }


def ctc_cases(batch: int, num_frames: int, num_tokens: int, size: int = 340) -> dict[str, Case]:
    """The CTC loss by our kernel and by torch."""
    logits = torch.randn(batch, num_frames, size + 1, requires_grad=True)
    tokens = torch.randint(0, size, (batch, num_tokens))
    lens = torch.full((batch,), num_frames), torch.full((batch,), num_tokens)

    def kernel(x: Tensor) -> Tensor:
        out: Tensor = CTCLoss.apply(x.log_softmax(-1), tokens, *lens, size)  # type: ignore[no-untyped-call]
        return out

    def torchs(x: Tensor) -> Tensor:
        log_probs = x.log_softmax(-1).transpose(0, 1)
        return functional.ctc_loss(log_probs, tokens, *lens, blank=size, reduction="none")

    return {"kernel": with_backward(kernel, logits), "torch": with_backward(torchs, logits)}


def main() -> None:
    """Time every part and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--budget-s", type=float, default=4.0, help="time for each part")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(", ".join(f"{name} {value}" for name, value in describe_machine().items()))
    print(f"{options.threads} threads")
    parts = {
        "attention, 66 x 36 frames": attention_cases(66, 36),
        "attention, 10 x 249 frames": attention_cases(10, 249),
        "attention, 2 x 1500 frames": attention_cases(2, 1500),
        "dropout, 2490 x 2048": dropout_cases((2490, 2048)),
        "depthwise convolution, 66 x 36 frames": depthwise_cases(66, 36),
        "depthwise convolution, 10 x 249 frames": depthwise_cases(10, 249),
        "convolution module, 10 x 249 frames": convolution_module_cases(10, 249),
        "feed-forward, 2490 x 256 x 2048": feed_forward_cases(2490),
        "CTC, 10 x 249 frames, 120 tokens": ctc_cases(10, 249, 120),
        "front end, 10 x 1000 frames, 64 channels": front_end_cases(10, 1000, 64),
        "front end, 10 x 1000 frames, 256 channels": front_end_cases(10, 1000, 256),
    }
    for part, cases in parts.items():
        times = interleave(cases, budget_s=options.budget_s)
        ours = next(iter(times.values())).median_s
        print(f"\n{part} ({ours * 1e3:.1f} ms)")
        for name, timing in times.items():
            print(f"  {name:<32}{timing.median_s / ours:>6.2f}")


if __name__ == "__main__":
    main()
