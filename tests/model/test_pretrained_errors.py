"""What is wrong with a pretrained model is said in one sentence; nothing in it is ever run."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers")

from tiny_pretrained import make_model, save_model

from arborvox.config import FeaturesConfig, ModelConfig, validate_recipe
from arborvox.errors import ArborvoxError
from arborvox.model.asr import ASR

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model, to be broken."""
    return save_model("whisper", tmp_path / "base")


def start(pretrained: Path | str) -> ASR:
    """Build a network and take the pretrained weights, as training does."""
    keys = {"size": "tiny", "output": "softmax", "encoder": "pretrained"}
    config = ModelConfig.model_validate({**keys, "pretrained": str(pretrained)})
    model = ASR(config, FeaturesConfig(), 7, None)
    model.encoder.load_start()
    return model


def change_config(folder: Path, **keys: Any) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **keys}), encoding="utf-8")


def change_weights(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def test_encoder_alone_is_enough(folder: Path) -> None:
    """Weights of the decoder may be missing, and weights may be in half precision."""
    change_weights(
        folder, lambda w: {k: v.half() for k, v in w.items() if k.startswith("encoder.")}
    )
    state = start(folder).encoder.network.model.state_dict()
    expected = make_model("whisper").encoder.state_dict()
    for name, tensor in expected.items():
        assert torch.equal(state[name], tensor.half().float()), name


def test_wrong_folders(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"there is no folder /no/such/model"):
        start("/no/such/model")
    with pytest.raises(ArborvoxError, match=r"is no pretrained model: there is no config\.json"):
        start(tmp_path)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model_type": "bert"}, "'bert', which is no family of speech encoders known here"),
        ({"model_type": "gpt2"}, "there are: whisper, wav2vec2"),
        ({"d_model": -5}, '"d_model" must be a whole number above 0, not -5'),
        ({"d_model": "wide"}, '"d_model" must be a whole number above 0'),
        ({"encoder_layers": 10**9}, '"encoder_layers" is 1000000000, more than any model has'),
        ({"encoder_attention_heads": 3}, "describes no network that can be built"),
        ({"d_model": 32}, "config.json asks for"),
    ],
)
def test_strange_configs(folder: Path, keys: dict[str, Any], message: str) -> None:
    change_config(folder, **keys)
    with pytest.raises(ArborvoxError) as caught:
        start(folder)
    assert message in str(caught.value)


def test_config_that_is_no_json(folder: Path) -> None:
    (folder / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ArborvoxError, match=r"config\.json, line 1: not valid JSON"):
        start(folder)


def test_missing_weight(folder: Path) -> None:
    change_weights(folder, lambda w: {k: v for k, v in w.items() if "layers.2.fc1.bias" not in k})
    with pytest.raises(ArborvoxError, match=r"1 of the encoder's \d+ weights are missing, such as"):
        start(folder)


def test_decoder_alone(folder: Path) -> None:
    change_weights(folder, lambda w: {k: v for k, v in w.items() if k.startswith("decoder.")})
    with pytest.raises(ArborvoxError, match="a decoder alone cannot listen"):
        start(folder)


def test_half_downloaded(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    for size in (0, 5, len(whole) // 2):
        (folder / WEIGHTS).write_bytes(whole[:size])
        with pytest.raises(ArborvoxError, match="was not downloaded to its end"):
            start(folder)
    (folder / WEIGHTS).unlink()
    with pytest.raises(ArborvoxError, match="has no weights"):
        start(folder)


def test_parts_are_read_from_their_folder_alone(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    names = sorted(weights)
    places = {}
    for number, part in enumerate((names[::2], names[1::2])):
        file = f"model-{number}.safetensors"
        save_file({name: weights[name] for name in part}, folder / file)
        places |= dict.fromkeys(part, file)
    (folder / WEIGHTS).unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}), encoding="utf-8")
    start(folder)
    places[names[0]] = "../elsewhere.safetensors"
    index.write_text(json.dumps({"weight_map": places}), encoding="utf-8")
    with pytest.raises(ArborvoxError, match="does not name files of its folder"):
        start(folder)


def test_pickle_gives_tensors_and_runs_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = start(folder).encoder.network.state_dict()
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    found = start(folder).encoder.network.state_dict()
    assert "is a PyTorch pickle" in capsys.readouterr().err.replace("\n", " ")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (folder / "sprung",))

    torch.save({"encoder.conv1.bias": Trap()}, folder / "pytorch_model.bin")
    with pytest.raises(ArborvoxError, match="holds more than tensors"):
        start(folder)
    assert not (folder / "sprung").exists()


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(ArborvoxError, match=r"cannot be had from the hub .*no route to host"):
        start("someone/some-model")


def test_what_was_downloaded_is_not_asked_for_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str, *, local_files_only: bool = False, **options: Any) -> str:
        assert name == "someone/some-model"
        assert local_files_only
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", find)
    assert start("someone/some-model").encoder.card_rows()[0] == (
        "Base model",
        "someone/some-model",
    )


def test_missing_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ArborvoxError, match=r"pip install 'arborvox\[pretrained\]'"):
        start(folder)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"encoder": "pretrained"}, "needs the key pretrained"),
        ({"pretrained": "x"}, "pretrained is read with encoder: pretrained alone"),
        ({"freeze": 2}, "freeze is read with encoder: pretrained alone"),
        ({"encoder_layers": 0}, "encoder_layers must be above 0"),
        ({"encoder": "pretrained", "pretrained": "x", "freeze": "some"}, "must be all, none"),
        (
            {"encoder": "pretrained", "pretrained": "x", "layers": []},
            "must be last, upper, mixture",
        ),
    ],
)
def test_keys_that_contradict(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.model_validate({"size": "tiny", **keys})


def test_rates_of_an_encoder_that_does_not_learn_are_refused() -> None:
    frozen = {"encoder": "pretrained", "pretrained": "x"}
    for model in ({}, frozen):
        with pytest.raises(ArborvoxError, match=r"train\.freeze_steps is read with a pretrained"):
            validate_recipe({"model": model, "train": {"freeze_steps": 5}}, name="test")
    learning = {**frozen, "freeze": 2}
    validate_recipe({"model": learning, "train": {"freeze_steps": 5}}, name="test")
