"""A frozen Whisper that multiplies 8-bit numbers: near what it was, and never where it learns."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

pytest.importorskip("transformers")

from tiny_pretrained import WIDTH, make_asr, save_model, speech

from arborvox.model.encoders.pretrained import whisper
from arborvox.model.encoders.pretrained.whisper_joined import Int8FeedForward
from arborvox.model.kernels.int8 import is_fast_here


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A Whisper, and another family's model."""
    root = tmp_path_factory.mktemp("models")
    return {name: save_model(name, root / name) for name in ("whisper", "hubert")}


@pytest.mark.skipif(not is_fast_here(), reason="this processor has no 8-bit products")
@pytest.mark.parametrize("silence", ["none", "as-taught"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_states_by_8_bit_products_are_near_and_the_same_in_any_company(
    folders: dict[str, Path], silence: str, dtype: torch.dtype
) -> None:
    keys = {"layers": [0, 1, 3], "silence": silence, "quantize": "feed-forward"}
    encoder = make_asr(folders["whisper"], **keys).encoder
    pieces = [encoder.input(speech(s, i)) for i, s in enumerate((0.9, 0.03, 0.4, 0.41, 0.9))]
    with torch.no_grad():
        wanted = encoder.frozen_states_of_each(pieces)
        rough = copy.deepcopy(encoder).to(dtype)
        rough.pack()
        together = rough.frozen_states_of_each(pieces)
        moved = [*rough.frozen_states_of_each(pieces[3:]), *rough.frozen_states_of_each(pieces[:3])]
        lens = torch.tensor([len(piece) for piece in pieces])
        batched, _ = rough.frozen_states(pad_sequence(pieces, batch_first=True), lens)
    for number, (states, exact) in enumerate(zip(together, wanted, strict=True)):
        assert torch.equal(states, moved[(number + 2) % len(pieces)])
        for near in (states, batched[number, : len(states)]):
            likeness = functional.cosine_similarity(
                near.unflatten(-1, (3, WIDTH)), exact.unflatten(-1, (3, WIDTH)), dim=-1
            )
            assert likeness.min() > 0.995
    assert any(
        not torch.allclose(a, b, atol=1e-4)
        for a, b in zip(together, _without_int8(encoder, pieces, dtype), strict=True)
    )


def _without_int8(encoder: Any, pieces: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Return the states as the type alone has them."""
    plain = copy.deepcopy(encoder).to(dtype)
    plain.network.quantize(0)
    plain.pack()
    with torch.no_grad():
        states: list[Tensor] = plain.frozen_states_of_each(pieces)
    return states


@pytest.mark.skipif(not is_fast_here(), reason="this processor has no 8-bit products")
def test_layers_that_learn_are_not_quantized(folders: dict[str, Path]) -> None:
    def count(freeze: str | int, dtype: torch.dtype) -> int:
        keys = {"freeze": freeze, "quantize": "feed-forward"}
        encoder = make_asr(folders["whisper"], **keys).encoder.to(dtype)
        encoder.pack()
        parts = [layer.feed_forward for layer in encoder.network.layers]
        return [isinstance(part, Int8FeedForward) for part in parts].count(True)

    num_layers = len(make_asr(folders["whisper"]).encoder.network.layers)
    assert count("all", torch.bfloat16) == num_layers
    assert count(2, torch.bfloat16) == 2
    assert count("all", torch.float32) == num_layers
    assert count("none", torch.bfloat16) == 0


def test_fp32_is_laid_out_only_for_8_bit_products(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    quantized = make_asr(folders["whisper"], quantize="feed-forward").encoder
    plain = make_asr(folders["whisper"]).encoder
    for is_fast in (True, False):
        monkeypatch.setattr(whisper, "is_fast_here", lambda is_fast=is_fast: is_fast)
        assert quantized.gains_by_packing("fp32") == is_fast
        assert not plain.gains_by_packing("fp32")
        assert plain.gains_by_packing("bf16") and quantized.gains_by_packing("bf16")


def test_caches_tell_8_bit_products_apart(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    quantized = make_asr(folders["whisper"], quantize="feed-forward").encoder
    assert make_asr(folders["whisper"]).encoder.packed_key == ""
    assert make_asr(folders["hubert"], quantize="feed-forward").encoder.packed_key == ""
    for is_fast, key in ((True, f"|int8 {len(quantized.network.layers)}"), (False, "")):
        monkeypatch.setattr(whisper, "is_fast_here", lambda is_fast=is_fast: is_fast)
        assert quantized.packed_key == key
