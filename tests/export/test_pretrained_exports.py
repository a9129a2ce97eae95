"""Encoders that others have trained export through the same contract as our own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_pretrained import MODELS, save_model

from arborvox.config import validate_recipe
from arborvox.export.exporting import export_onnx
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import save_checkpoint
from arborvox.recognizer import load
from arborvox.tokens.tokenizer import Tokenizer

UNITS = ("<eos>", "<unk>", "a", "b", "c")


@pytest.mark.parametrize(
    ("name", "silence"), [*((name, "none") for name in MODELS), ("whisper", "as-taught")]
)
def test_a_pretrained_encoder_says_the_same_in_an_export(
    name: str, silence: str, tmp_path: Path
) -> None:
    base = save_model(name, tmp_path / "base")
    model = {
        "size": "tiny", "encoder": "pretrained", "pretrained": str(base),
        "decoder": "none", "ctc": "softmax", "output": "softmax", "encoder_layers": 1,
        "silence": silence,
    }  # fmt: skip
    recipe = validate_recipe({"name": "tiny", "model": model}, name="test")
    tokenizer = Tokenizer("char", UNITS, {"x-x": (1, 2, 3, 4, 5)})
    torch.manual_seed(1)
    network = ASR(recipe.model, recipe.features, len(UNITS), None).eval()
    network.encoder.load_start()
    save_checkpoint(tmp_path / "run", network, recipe, tokenizer, None)
    export_onnx(tmp_path / "run", tmp_path / "export")
    rng = np.random.default_rng(0)
    # Whisper's tiny positions hold one second.
    batch = [0.1 * rng.standard_normal(n).astype(np.float32) for n in (15_000, 9_001, 12_345, 900)]
    whole: Any = load(tmp_path / "run", precision="fp32", device="cpu").engine
    export: Any = load(tmp_path / "export").engine
    wanted, lens = whole.ctc_scores([whole.features(samples) for samples in batch])
    encoded = export.network.encode(batch)
    assert encoded.lens.tolist() == lens
    found = export.network.ctc_scores(encoded)
    for row, length in enumerate(lens):
        np.testing.assert_allclose(
            found.log_probs[row, :length], wanted.log_probs[row, :length], atol=1e-3
        )
