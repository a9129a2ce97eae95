"""An export on onnxruntime says what torch says: at any length and batch, in every mode."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from checkpoints import make_checkpoint
from numpy.typing import NDArray

from arborvox.config import DecodeConfig, FeaturesConfig
from arborvox.decode.searches import SEARCHES
from arborvox.errors import ArborvoxError
from arborvox.export.exporting import export_onnx
from arborvox.export.inputs import input_graph
from arborvox.features import LogMel, SpeechInput
from arborvox.model.encoders.pretrained.inputs import RawSamples, StackedFilterBanks, WhisperMel
from arborvox.recognizer import load
from arborvox.runtime.manifest import GateTree
from arborvox.runtime.outputs import GateOutput, PlainOutput, RestrictedOutput
from arborvox.transcribe import transcribe_files
from arborvox.tree import HuffmanTree
from arborvox.vocabulary import join_pieces

# The graph is traced at two seconds: one of these is shorter than a window, one far longer.
LENGTHS = (16_000, 23_456, 4_000, 300, 70_001)
Samples = NDArray[np.float32]


def noises(lengths: tuple[int, ...] = LENGTHS) -> list[Samples]:
    """Make noise that swells."""
    rng = np.random.default_rng(0)
    swell = [np.abs(np.sin(np.arange(n) / 3000)) for n in lengths]
    return [(0.1 * rng.standard_normal(len(s)) * s).astype(np.float32) for s in swell]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Export two models: a tree on the decoder, a tree on CTC; the second without gates too."""
    folder = tmp_path_factory.mktemp("models")
    make_checkpoint(folder / "decoder-tree")
    make_checkpoint(
        folder / "ctc-tree", output="softmax", ctc="hierarchical", encoder="transformer"
    )
    for name in ("decoder-tree", "ctc-tree"):
        export_onnx(folder / name, folder / f"{name}-onnx")
    export_onnx(folder / "ctc-tree", folder / "leaves-onnx", leaves=True)
    export_onnx(folder / "decoder-tree", folder / "int8-onnx", precision="int8")
    return {path.name: path for path in folder.iterdir()}


def recognize(run: Path, batch: list[Samples], **options: Any) -> list[Any]:
    """Return hypotheses of one batch."""
    engine: Any = load(run, **options).engine
    return list(engine.recognize([engine.features(samples) for samples in batch]))


@pytest.mark.parametrize("mode", SEARCHES)
@pytest.mark.parametrize("name", ["decoder-tree", "ctc-tree"])
def test_every_search_finds_the_same_in_an_export(
    models: dict[str, Path], name: str, mode: str
) -> None:
    batch = noises()
    wanted = recognize(models[name], batch, mode=mode, precision="fp32", device="cpu")
    found = recognize(models[f"{name}-onnx"], batch, mode=mode)
    alone = recognize(models[f"{name}-onnx"], batch[:1], mode=mode)
    assert [best.tokens for best in found] == [best.tokens for best in wanted]
    assert [best.frames for best in found] == [best.frames for best in wanted]
    assert alone[0].tokens == wanted[0].tokens
    for best, other in zip(found, wanted, strict=True):
        assert best.score == pytest.approx(other.score, abs=1e-4)
        assert best.confidences == pytest.approx(other.confidences, abs=1e-4)


def test_leaves_say_what_gates_say(models: dict[str, Path]) -> None:
    batch = noises()
    gates = recognize(models["ctc-tree-onnx"], batch, mode="ctc-beam")
    leaves = recognize(models["leaves-onnx"], batch, mode="ctc-beam")
    assert [best.tokens for best in leaves] == [best.tokens for best in gates]


def test_an_inventory_holds_in_an_export(models: dict[str, Path], tmp_path: Path) -> None:
    units = tmp_path / "units.txt"
    units.write_text("a\nc\n", encoding="utf-8")
    for mode in ("ctc-beam", "joint"):
        wanted = recognize(
            models["ctc-tree"], noises(), mode=mode, inventory=units, precision="fp32", device="cpu"
        )
        found = recognize(models["ctc-tree-onnx"], noises(), mode=mode, inventory=units)
        assert [best.tokens for best in found] == [best.tokens for best in wanted]


def test_transcripts_are_the_same(models: dict[str, Path]) -> None:
    samples = np.concatenate(noises())
    wanted = load(models["decoder-tree"], precision="fp32", device="cpu")
    found = load(models["decoder-tree-onnx"])
    ours, theirs = (each.transcribe(samples, rate=16_000) for each in (found, wanted))
    assert ours.text == theirs.text
    assert ours.duration_s == theirs.duration_s
    for segment, other in zip(ours.segments, theirs.segments, strict=True):
        assert (segment.start_s, segment.end_s) == (other.start_s, other.end_s)
        assert segment.confidence == pytest.approx(other.confidence, abs=1e-3)
        times = [
            [(word.text, word.start_s, word.end_s) for word in each.words]
            for each in (segment, other)
        ]
        assert times[0] == times[1]


def test_int8_is_smaller_and_close(models: dict[str, Path]) -> None:
    def scores(name: str) -> Samples:
        engine: Any = load(models[name], mode="ctc-beam").engine
        network = engine.network
        return np.exp(network.ctc_scores(network.encode(noises()[:1])).log_probs)

    assert np.abs(scores("int8-onnx") - scores("decoder-tree-onnx")).max() < 0.1


INPUTS: dict[str, Callable[[], SpeechInput]] = {
    "corpus": lambda: LogMel(FeaturesConfig(), 7),
    "utterance": lambda: LogMel(FeaturesConfig(normalize="utterance"), 7),
    "sherpa": lambda: LogMel(FeaturesConfig(high_freq=-400.0, scale="unit"), 7),
    "8 kHz": lambda: LogMel(FeaturesConfig(sampling_rate=8000, num_mels=40), 7),
    "whisper": lambda: WhisperMel(num_mels=80, sampling_rate=16_000, window=400, hop=160),
    "samples": lambda: RawSamples(sampling_rate=16_000, normalize=True, min_samples=400),
    "stacked": lambda: StackedFilterBanks(num_mels=80, sampling_rate=16_000, stride=2),
}


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_graph_gives_the_frames_of_each_utterance(name: str) -> None:
    make = INPUTS[name]()
    graph, batch = input_graph(make), noises((16_000, 12_345, 399, 100))
    padded = np.full((len(batch), max(16_000, graph.min_samples)), 7.0, np.float32)
    for row, samples in zip(padded, batch, strict=True):
        row[: len(samples)] = samples
    lens = torch.tensor([len(samples) for samples in batch])
    frames, frame_lens = graph(torch.from_numpy(padded), lens)
    for row, length, samples in zip(frames, frame_lens.tolist(), batch, strict=True):
        wanted = make(samples)
        assert length == len(wanted)
        torch.testing.assert_close(row[:length], wanted, atol=2e-3, rtol=0)


def test_the_best_leaves_are_the_best_of_all() -> None:
    tree = HuffmanTree.from_counts(range(1, 60))
    output = GateOutput(GateTree(tree.left.astype(np.int64), tree.right.astype(np.int64)))
    gates = np.random.default_rng(1).normal(scale=3, size=(20, 58)).astype(np.float32)
    every = output.log_probs(gates)
    np.testing.assert_allclose(np.exp(every).sum(axis=1), 1.0, rtol=1e-5)
    for k in (1, 7, 59):
        values, ids = output.topk(gates, k)
        wanted, wanted_ids = PlainOutput(59).topk(every, k)
        np.testing.assert_allclose(values, wanted, atol=1e-5)
        assert (ids == wanted_ids).all()
    some = RestrictedOutput(output, [0, 5, 9, 11])
    np.testing.assert_allclose(np.exp(some.log_probs(gates)).sum(axis=1), 1.0, rtol=1e-5)
    assert set(some.topk(gates, 2)[1].ravel()) <= {0, 5, 9, 11}


def test_options_of_an_export_are_checked(models: dict[str, Path]) -> None:
    for options, told in (
        ({"baem": 3}, "did you mean beam"),
        ({"beam": 0}, "beam lies between"),
        ({"mode": "best"}, "There is no mode"),
    ):
        with pytest.raises(ArborvoxError, match=told):
            load(models["decoder-tree-onnx"], **options)


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "run")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-her.txt").write_text("…", encoding="utf-8")
    with pytest.raises(ArborvoxError, match="holds other files"):
        export_onnx(tmp_path / "run", tmp_path / "letters")
    assert (tmp_path / "letters" / "to-her.txt").exists()


def test_pieces_are_joined_as_sentencepiece_does() -> None:
    assert join_pieces(["▁a", "b", "▁c"]) == "ab c"
    assert join_pieces(["▁", "<0xC3>", "<0xA9>"]) == "é"


def test_the_command_transcribes_into_a_folder_by_an_export(
    models: dict[str, Path], tmp_path: Path
) -> None:
    sound, out = tmp_path / "x.wav", tmp_path / "out"
    soundfile.write(sound, noises()[0], 16_000)
    assert (
        transcribe_files(models["ctc-tree-onnx"], [sound], DecodeConfig(), kind="json", out=out)
        == 0
    )
    assert [path.name for path in out.iterdir()] == ["x.json"]
