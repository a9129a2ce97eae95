"""Decoding with each language's own inventory: one model for all, and it may stop anywhere."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_experiment import LANGUAGES, VARIANTS, write_recipe, write_recordings
from torch import Tensor

from arborvox.config import load_recipe
from arborvox.decode.encoded_memory import EncodedMemory
from arborvox.decode.network import Network
from arborvox.model import checkpoint
from arborvox.model.asr import ASR
from arborvox.pipeline.decoding import HYPOTHESES, TIMING, decode_test_set
from arborvox.pipeline.experiment import run_experiment


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment with one trained model."""
    folder = tmp_path_factory.mktemp("experiment")
    table = write_recordings(folder / "tones")
    recipe = write_recipe(folder / "recipe.yaml", table, variants=VARIANTS[1:])
    run_experiment(recipe, folder / "out", [0])
    return folder


def decode(
    finished: Path,
    folder: Path,
    setting: str = "inventory",
    memory: EncodedMemory | None = None,
    **changes: Any,
) -> list[dict[str, Any]]:
    """Decode the test set, by the units of each language or freely; return what was heard."""
    folder.mkdir(exist_ok=True)
    recipe, out = load_recipe(finished / "recipe.yaml"), finished / "out"
    decode_test_set(
        recipe.decode.whole(**changes),
        setting,
        recipe.corpus,
        out / "runs/huffman/seed-0/train",
        out / "prepare/cuts_test.jsonl.gz",
        out / "tokens/tokens.json",
        memory or EncodedMemory(),
        folder,
    )
    _, *lines = (folder / HYPOTHESES).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_model_is_loaded_and_made_ready_once_for_all_languages(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    load, make_ready = checkpoint.load_file, Network.__init__

    def load_counted(*arguments: Any, **options: Any) -> Any:
        made.append("weights")
        return load(*arguments, **options)

    def make_ready_counted(*arguments: Any, **options: Any) -> None:
        made.append("network")
        make_ready(*arguments, **options)

    monkeypatch.setattr(checkpoint, "load_file", load_counted)
    monkeypatch.setattr(Network, "__init__", make_ready_counted)
    heard = decode(finished, tmp_path / "decoded")
    assert {entry["language"] for entry in heard} == set(LANGUAGES)
    assert made == ["weights", "network"]


def test_a_stop_within_a_language_changes_no_hypothesis(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = decode(finished, tmp_path / "whole")
    encode = Network.encode

    def encode_until_the_second_language(network: Network, *arguments: Any) -> Any:
        if (tmp_path / f"stopped/languages/{LANGUAGES[1]}.jsonl").exists():
            raise KeyboardInterrupt
        return encode(network, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Network, "encode", encode_until_the_second_language)
        with pytest.raises(KeyboardInterrupt):
            decode(finished, tmp_path / "stopped")
    first = tmp_path / f"stopped/languages/{LANGUAGES[0]}.jsonl"
    assert len(first.read_text(encoding="utf-8").splitlines()) > 1
    assert decode(finished, tmp_path / "stopped") == whole


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all batches that an encoder worked on."""
    sizes: list[int] = []
    encode = ASR.encode

    def encode_counted(model: ASR, features: Tensor, lens: Tensor) -> Any:
        sizes.append(len(lens))
        return encode(model, features, lens)

    monkeypatch.setattr(ASR, "encode", encode_counted)
    return sizes


def test_a_second_search_of_a_model_does_not_encode_and_finds_the_same(
    finished: Path, tmp_path: Path, encoded: list[int]
) -> None:
    memory = EncodedMemory()
    decode(finished, tmp_path / "greedy", "free", memory)
    first = len(encoded)
    assert first >= 2  # a rehearsal, and the test set
    found = decode(finished, tmp_path / "beam", "free", memory, mode="ctc-beam")
    assert len(encoded) == first
    assert found == decode(finished, tmp_path / "alone", "free", mode="ctc-beam")
    assert len(encoded) == 2 * first
    seconds = [
        json.loads((tmp_path / name / TIMING).read_text())["seconds"] for name in ("greedy", "beam")
    ]
    assert seconds[0]["encoder"] == seconds[1]["encoder"] > 0, "charged as if it were alone"
    assert all(spent >= 0 for spent in seconds[1].values())


def test_another_model_is_encoded_and_what_is_too_much_is_not_kept(
    finished: Path, tmp_path: Path, encoded: list[int]
) -> None:
    memory = EncodedMemory()
    decode(finished, tmp_path / "one", "free", memory)
    first = len(encoded)
    memory.turn_to("another")
    decode(finished, tmp_path / "two", "free", memory)
    assert len(encoded) == 2 * first
    small = EncodedMemory(most_bytes=1)
    for name in ("three", "four"):
        decode(finished, tmp_path / name, "free", small)
    assert len(encoded) == 4 * first
