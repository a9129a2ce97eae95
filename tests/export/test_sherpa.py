"""sherpa-onnx's own recognizer writes what our greedy CTC search writes."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from arborvox import audio
from arborvox.config import validate_recipe
from arborvox.errors import ArborvoxError
from arborvox.export.sherpa import export_sherpa, sherpa_tokens
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import save_checkpoint
from arborvox.recognizer import load
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import HuffmanTree

UNITS = ("<eos>", "<unk>", "<x-x>", " ", "a", "b", "c", "d", "e")
MATCHED = {"high_freq": -400, "scale": "unit", "normalize": "utterance"}


def make_run(folder: Path, features: dict[str, Any], unit: str = "char") -> Path:
    """Write a checkpoint whose features are those of sherpa-onnx, or others."""
    units = UNITS if unit == "char" else tuple(u for u in UNITS if u != " ")
    counts = {"x-x": tuple(range(1, len(units) + 1))}
    tokenizer = Tokenizer(unit, units, counts, language_tags=True)
    tree = HuffmanTree.from_counts(range(1, len(units) + 1), units)
    sections = {
        "name": "tiny",
        "model": {"size": "tiny", "decoder": "none", "ctc": "hierarchical"},
        "features": features,
    }
    recipe = validate_recipe(sections, name="test")
    torch.manual_seed(1)
    model = ASR(recipe.model, recipe.features, len(units), tree).eval()
    assert model.ctc is not None
    torch.nn.init.normal_(model.ctc.output.weight, std=3.0)
    save_checkpoint(folder, model, recipe, tokenizer, tree)
    return folder


def texts(run: Path, form: Path, recordings: list[np.ndarray]) -> tuple[list[str], list[str]]:
    """Return what each recognizer writes."""
    sherpa_onnx: Any = pytest.importorskip("sherpa_onnx")
    theirs = sherpa_onnx.OfflineRecognizer.from_zipformer_ctc(
        model=str(form / "model.onnx"), tokens=str(form / "tokens.txt"), num_threads=1
    )
    engine: Any = load(run, mode="ctc-greedy", precision="fp32", device="cpu").engine
    ours, found = [], []
    for samples in recordings:
        stream = theirs.create_stream()
        stream.accept_waveform(16_000, samples)
        theirs.decode_stream(stream)
        found.append(stream.result.text.strip())
        tokens = engine.recognize([engine.features(samples)])[0].tokens
        ours.append(engine.tokenizer.decode(tokens).strip())
    return ours, found


@pytest.mark.parametrize("unit", ["char", "phone"])
def test_sherpa_onnx_writes_the_same(tmp_path: Path, unit: str) -> None:
    run = make_run(tmp_path / "run", MATCHED, unit)
    export_sherpa(run, tmp_path / "form")
    rng = np.random.default_rng(0)
    recordings = [
        (0.2 * rng.standard_normal(n) * np.sin(np.arange(n) / 900)).astype(np.float32)
        for n in (16_000, 23_456, 50_000)
    ]
    ours, theirs = texts(run, tmp_path / "form", recordings)
    assert theirs == ours
    assert any(ours) or unit == "char"  # of so small a model the blank may win throughout


def test_other_features_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"features\.high_freq=-400"):
        export_sherpa(make_run(tmp_path / "run", {}), tmp_path / "form")


def test_a_space_is_written_as_sherpa_onnx_reads_it() -> None:
    tokenizer = Tokenizer("char", UNITS, {"x-x": (1,) * len(UNITS)}, language_tags=True)
    assert sherpa_tokens(tokenizer)[3:5] == ["▁ 3", "a 4"]
    assert sherpa_tokens(tokenizer)[-1] == "<blk> 9"


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif("ARBORVOX_DATA" not in os.environ, reason="ARBORVOX_DATA is not set")
def test_sherpa_onnx_writes_the_same_of_50_recordings(tmp_path: Path) -> None:
    clips = sorted(Path(os.environ["ARBORVOX_DATA"]).glob("common_voice/*/clips/*.mp3"))[::30][:50]
    assert len(clips) == 50
    run = make_run(tmp_path / "run", MATCHED)
    export_sherpa(run, tmp_path / "form")
    ours, theirs = texts(run, tmp_path / "form", [audio.load(path, 16_000) for path in clips])
    assert theirs == ours
    assert len(set(ours)) > 1
