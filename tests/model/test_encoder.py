"""The encoder: lengths, short utterances, and the law that padding never changes a result."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from arborvox.errors import ArborvoxError
from arborvox.features import CMVN
from arborvox.model.asr import ASR
from arborvox.model.encoders.subsampling import Subsampling, subsampled_lens

ENCODERS = ["conformer", "transformer"]


def encode_alone(model: ASR, features: Tensor, length: int) -> Tensor:
    """Encode one utterance without padding."""
    return model.encode(features[None, :length], torch.tensor([length]))[0][0]


@pytest.mark.parametrize("num_frames", [0, 1, 2, 6, 7, 8, 10, 11, 12, 61, 64])
def test_subsampled_lens_are_what_the_convolutions_give(num_frames: int) -> None:
    layer = Subsampling(num_mels=16, channels=2, width=4)
    lens = torch.tensor([num_frames])
    encoded, encoded_lens = layer(torch.zeros(1, num_frames, 16), lens)
    assert encoded.shape[1] == int(encoded_lens) == int(subsampled_lens(lens)) >= 1


def test_subsampling_equals_two_plain_convolutions() -> None:
    torch.manual_seed(0)
    layer = Subsampling(num_mels=16, channels=3, width=5).double()
    x = torch.randn(2, 23, 16, dtype=torch.float64)
    plain = layer.second(layer.first(x.unsqueeze(1)).relu()).relu()  # (B, C, T', M')
    rows = plain.permute(0, 2, 3, 1).flatten(2)
    torch.testing.assert_close(layer(x, torch.tensor([23, 23]))[0], layer.project(rows))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_padding_and_batch_mates_never_change_a_result(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...], encoder: str
) -> None:
    model = make_model(encoder=encoder)
    features, lens = batch[:2]
    for garbage in (0.0, 1e6, float("nan")):
        padded = features.clone()
        for row, length in enumerate(lens.tolist()):
            padded[row, length:] = garbage
        encoded, encoded_lens = model.encode(padded, lens)
        for row, length in enumerate(lens.tolist()):
            alone = encode_alone(model, features[row], length)
            torch.testing.assert_close(
                encoded[row, : int(encoded_lens[row])], alone, rtol=0, atol=1e-12
            )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_padding_law_holds_within_rounding(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...], precision: str
) -> None:
    model = make_model().float()
    features, lens = batch[0].float(), batch[1]
    tolerance = 1e-5 if precision == "fp32" else 0.05
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        encoded, encoded_lens = model.encode(features, lens)
        for row, length in enumerate(lens.tolist()):
            alone = encode_alone(model, features[row], length)
            difference = (encoded[row, : int(encoded_lens[row])] - alone).detach().abs().max()
            assert float(difference) < tolerance


def test_gradients_do_not_leak_into_padding(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    model = make_model()
    features = batch[0].clone().requires_grad_()
    losses = model(features, *batch[1:])
    (gradient,) = torch.autograd.grad(losses.total, features)
    for row, length in enumerate(batch[1].tolist()):
        assert torch.count_nonzero(gradient[row, length:]) == 0
        assert torch.count_nonzero(gradient[row, :length]) > 0


def test_cmvn_is_applied_first(make_model: Callable[..., ASR], batch: tuple[Tensor, ...]) -> None:
    model = make_model()
    features, lens = batch[:2]
    plain = model.encode(features, lens)[0]
    mean, istd = torch.randn(16).double(), torch.rand(16).double() + 0.5
    model.encoder.set_statistics(CMVN(mean, istd))
    mean, istd = model.encoder.cmvn_mean, model.encoder.cmvn_istd
    torch.testing.assert_close(model.encode(features / istd + mean, lens)[0], plain)


def test_too_few_mel_bins_are_refused() -> None:
    with pytest.raises(ArborvoxError, match="num_mels must be at least 7"):
        Subsampling(num_mels=6, channels=2, width=4)
