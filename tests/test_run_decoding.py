"""Decoding with each language's own inventory: one model for all, and it may stop anywhere."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_experiment import LANGUAGES, VARIANTS, write_recipe, write_recordings

from arborvox.config import load_recipe
from arborvox.decode.network import Network
from arborvox.model import checkpoint
from arborvox.pipeline.decoding import HYPOTHESES, decode_test_set
from arborvox.pipeline.experiment import run_experiment


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment with one trained model."""
    folder = tmp_path_factory.mktemp("experiment")
    table = write_recordings(folder / "tones")
    recipe = write_recipe(folder / "recipe.yaml", table, variants=VARIANTS[1:])
    run_experiment(recipe, folder / "out", [0])
    return folder


def decode_by_inventory(finished: Path, folder: Path) -> list[dict[str, Any]]:
    """Decode the test set with the units of each language; return the hypotheses in order."""
    folder.mkdir(exist_ok=True)
    recipe, out = load_recipe(finished / "recipe.yaml"), finished / "out"
    decode_test_set(
        recipe.decode,
        "inventory",
        recipe.corpus,
        out / "runs/huffman/seed-0/train",
        out / "prepare/cuts_test.jsonl.gz",
        out / "tokens/tokens.json",
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
    heard = decode_by_inventory(finished, tmp_path / "decoded")
    assert {entry["language"] for entry in heard} == set(LANGUAGES)
    assert made == ["weights", "network"]


def test_a_stop_within_a_language_changes_no_hypothesis(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = decode_by_inventory(finished, tmp_path / "whole")
    encode = Network.encode

    def encode_until_the_second_language(network: Network, *arguments: Any) -> Any:
        if (tmp_path / f"stopped/languages/{LANGUAGES[1]}.jsonl").exists():
            raise KeyboardInterrupt
        return encode(network, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Network, "encode", encode_until_the_second_language)
        with pytest.raises(KeyboardInterrupt):
            decode_by_inventory(finished, tmp_path / "stopped")
    first = tmp_path / f"stopped/languages/{LANGUAGES[0]}.jsonl"
    assert len(first.read_text(encoding="utf-8").splitlines()) > 1
    assert decode_by_inventory(finished, tmp_path / "stopped") == whole
