"""The whole network: gradients against finite differences, losses as sums, odd batches."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.errors import ArborvoxError
from arborvox.model.asr import ASR
from arborvox.tree import HuffmanTree

OUTPUTS = ["softmax", "hierarchical"]


@pytest.mark.parametrize("output", OUTPUTS)
def test_gradients_equal_finite_differences(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...], output: str
) -> None:
    """Every parameter tensor, along a random direction of its own."""
    model = make_model(output=output, ctc=output)
    generator = torch.Generator().manual_seed(0)
    model(*batch).total.backward()
    step = 1e-6
    for name, parameter in model.named_parameters():
        direction = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
        direction /= direction.norm()
        totals = []
        with torch.no_grad():
            for sign in (1, -1):
                parameter += sign * step * direction
                totals.append(float(model(*batch).total))
                parameter -= sign * step * direction
        measured = (totals[0] - totals[1]) / (2 * step)
        assert parameter.grad is not None, name
        computed = float((parameter.grad * direction).sum())
        assert computed == pytest.approx(measured, rel=1e-5, abs=1e-6), name


def test_every_parameter_gets_a_gradient_with_dropout(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    model = make_model(dropout=0.1).train()
    model(*batch).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("output", OUTPUTS)
def test_losses_of_pieces_sum_to_those_of_the_batch(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...], output: str
) -> None:
    model = make_model(output=output)
    whole = model(*batch)
    pieces = [model(*(tensor[row : row + 1] for tensor in batch)) for row in range(3)]
    for name in ("total", "ctc", "attention"):
        parts = torch.stack([getattr(piece, name) for piece in pieces])
        torch.testing.assert_close(parts.sum(), getattr(whole, name))
    for name in ("num_tokens", "num_utterances", "num_infeasible"):
        assert sum(getattr(piece, name) for piece in pieces) == getattr(whole, name)


def test_labels_longer_than_frames_are_counted_and_cost_nothing(
    make_model: Callable[..., ASR],
) -> None:
    model = make_model()
    features = torch.randn(2, 15, 16, dtype=torch.float64)  # three encoder frames
    lens, token_lens = torch.tensor([15, 15]), torch.tensor([3, 3])
    # 2 3 4 fits in three frames; 2 2 3 needs a blank between its twins.
    losses = model(features, lens, torch.tensor([[2, 3, 4], [2, 2, 3]]), token_lens)
    alone = model(features[:1], lens[:1], torch.tensor([[2, 3, 4]]), token_lens[:1])
    assert losses.num_infeasible == 1
    torch.testing.assert_close(losses.ctc, alone.ctc)
    losses.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_ctc_log_probs_sum_to_one_with_the_blank_last(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    for ctc in OUTPUTS:
        model = make_model(ctc=ctc)
        log_probs = model.ctc_log_probs(model.encode(*batch[:2])[0])
        assert log_probs.shape[-1] == model.num_tokens + 1
        sums = log_probs.logsumexp(-1)
        torch.testing.assert_close(sums, torch.zeros_like(sums), rtol=0, atol=1e-9)


def test_total_is_the_weighted_sum_of_the_branches(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    losses = make_model(ctc_weight=0.3)(*batch)
    torch.testing.assert_close(losses.total, 0.3 * losses.ctc + 0.7 * losses.attention)
    ctc_only = make_model(decoder="none")(*batch)
    torch.testing.assert_close(ctc_only.total, ctc_only.ctc)
    attention_only = make_model(ctc_weight=0.0)(*batch)
    torch.testing.assert_close(attention_only.total, attention_only.attention)


def test_the_middle_has_its_share_in_ctc(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    model, plain = make_model(middle_ctc=0.25), make_model()
    middle = plain.encoder.layers[: len(plain.encoder.layers) // 2]
    shallow = make_model(encoder_layers=len(middle))
    shallow.load_state_dict({k: plain.state_dict()[k] for k in shallow.state_dict()})
    expected = 0.75 * plain(*batch).ctc + 0.25 * shallow(*batch).ctc
    torch.testing.assert_close(model(*batch).ctc, expected)
    torch.testing.assert_close(model.encode(*batch[:2])[0], plain.encode(*batch[:2])[0])


def test_utterances_without_a_label_work(make_model: Callable[..., ASR]) -> None:
    tokens, token_lens = torch.empty(2, 0, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    features = torch.randn(2, 9, 16, dtype=torch.float64)
    losses = make_model()(features, torch.tensor([9, 3]), tokens, token_lens)
    assert losses.num_tokens == 2
    assert torch.isfinite(losses.total)


@pytest.mark.parametrize("output", OUTPUTS)
def test_bf16_losses_are_near_those_of_fp32(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...], output: str
) -> None:
    model = make_model(output=output).float()
    inputs = (batch[0].float(), *batch[1:])
    exact = model(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(*inputs)
    assert rounded.total.dtype == torch.float32
    assert float(rounded.total.detach()) == pytest.approx(float(exact.total.detach()), rel=0.02)


def test_same_seed_gives_the_same_losses_with_dropout(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    model = make_model(dropout=0.2).train()
    totals = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        totals.append(float(model(*batch).total.detach()))
    assert totals[0] == totals[1] != totals[2]


@pytest.mark.parametrize(("size", "low", "high"), [("small", 5e6, 10e6), ("paper", 40e6, 50e6)])
def test_sizes_have_the_parameters_they_promise(size: str, low: float, high: float) -> None:
    config = ModelConfig.model_validate({"size": size, "output": "softmax"})
    with torch.device("meta"):
        model = ASR(config, FeaturesConfig(), num_tokens=340, tree=None)
    assert low < sum(p.numel() for p in model.parameters()) < high


def test_tree_of_another_vocabulary_is_refused(tree: HuffmanTree) -> None:
    config = ModelConfig.model_validate({"size": "tiny"})
    with pytest.raises(ArborvoxError, match="7 leaves, but there are 9 tokens"):
        ASR(config, FeaturesConfig(num_mels=16), num_tokens=9, tree=tree)
    with pytest.raises(ArborvoxError, match="no tree was given"):
        ASR(config, FeaturesConfig(num_mels=16), num_tokens=9, tree=None)


@pytest.mark.parametrize(
    "keys",
    [
        {"decoder": "none", "ctc_weight": 0.5},
        {"decoder": "none", "decoder_layers": 2},
        {"ctc_weight": 1.0},
        {"decoder_layers": 0},
        {"width": 30, "heads": 2},
        {"middle_ctc": 0.3, "ctc_weight": 0.0},
        {"middle_ctc": 0.3, "encoder_layers": 1},
    ],
)
def test_contradictory_keys_are_refused(keys: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs"):
        ModelConfig.model_validate({"size": "tiny", **keys})
