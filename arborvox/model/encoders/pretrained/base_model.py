"""A pretrained model's folder, as `transformers` lays it out: found, checked, and read safely.

config.json                what it is; the key "model_type" names the family
preprocessor_config.json   what it takes, where that is not what the family always takes
model.safetensors          weights; in parts (model.safetensors.index.json), or a PyTorch pickle
README.md                  a card whose head names license and languages
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from torch import Tensor

from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.files import read_json

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
ORIGIN = "origin.json"  # ours: what the checkpoint's encoder was made from
CARD = "README.md"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
UNKNOWN = "not stated"
# More than any model has; what a config asks for is built before its weights are seen.
MOST = 100_000
MOST_LAYERS = 500
COUNTED_LAYERS = ("encoder_layers", "num_hidden_layers", "decoder_layers")


@dataclass(frozen=True)
class BaseModel:
    """A pretrained model without its weights."""

    name: str  # as the recipe has it
    folder: Path
    config: dict[str, Any]
    preprocessor: dict[str, Any]
    license: str
    languages: str

    def check_sizes(self) -> None:
        """Refuse a config whose network nobody could hold."""
        for key, value in self.config.items():
            for number in value if isinstance(value, list) else [value]:
                most = MOST_LAYERS if key in COUNTED_LAYERS else MOST
                if isinstance(number, int) and abs(number) > most:
                    raise ArborvoxError(
                        f'{self.folder / CONFIG}: "{key}" is {number}, more than any model has.'
                    )

    @property
    def family(self) -> str:
        """Return the model's family, as `transformers` names it."""
        return str(self.config.get("model_type", ""))

    def count(self, key: str, default: int | None = None, *, part: str = "config") -> int:
        """Return a whole number above 0 from one of the two JSON files."""
        fields = self.config if part == "config" else self.preprocessor
        value = fields.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MOST:
            file = CONFIG if part == "config" else PREPROCESSOR
            raise ArborvoxError(
                f'{self.folder / file}: "{key}" must be a whole number above 0, not {value!r}.'
            )
        return value

    def files(self) -> dict[str, str]:
        """Return what must stand beside the weights to build the network again."""
        origin = {"name": self.name, "license": self.license, "languages": self.languages}
        texts = {CONFIG: self.config, PREPROCESSOR: self.preprocessor, ORIGIN: origin}
        return {
            name: json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
            for name, fields in texts.items()
        }


def open_base_model(name: str | None, home: Path | None) -> BaseModel:
    """Find a model in a checkpoint folder, in a folder of its own, or on the hub."""
    if home is not None:
        origin = read_json(home / ORIGIN)
        return BaseModel(
            name=str(origin.get("name")),
            folder=home,
            config=_read_object(home / CONFIG),
            preprocessor=_read_object(home / PREPROCESSOR),
            license=str(origin.get("license")),
            languages=str(origin.get("languages")),
        )
    assert name is not None  # the recipe's check
    folder = Path(name)
    if not folder.is_dir():
        folder = _download(name)
    if not (folder / CONFIG).is_file():
        raise ArborvoxError(
            f"model.pretrained: {folder} is no pretrained model: there is no {CONFIG} in it."
        )
    preprocessor = folder / PREPROCESSOR
    license, languages = _read_card(folder / CARD)
    return BaseModel(
        name=name,
        folder=folder,
        config=_read_object(folder / CONFIG),
        preprocessor=_read_object(preprocessor) if preprocessor.is_file() else {},
        license=license,
        languages=languages,
    )


def is_of_model(home: Path, name: str | None) -> bool:
    """Whether the files of a checkpoint's encoder are those of the model of this name."""
    return (home / ORIGIN).is_file() and read_json(home / ORIGIN).get("name") == name


def read_weights(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a pretrained model, from safetensors where there are any."""
    if (folder / WEIGHTS).is_file():
        yield from _read_safetensors(folder / WEIGHTS)
    elif (folder / INDEX).is_file():
        for part in _list_parts(folder / INDEX):
            yield from _read_safetensors(folder / part)
    elif (folder / PICKLE).is_file():
        say(
            f"{folder / PICKLE} is a PyTorch pickle: its tensors alone are read, nothing in it is "
            f"run, and checkpoints keep them as safetensors."
        )
        yield from _read_pickle(folder / PICKLE).items()
    else:
        raise ArborvoxError(
            f"{folder} has no weights: neither {WEIGHTS} nor {INDEX} nor {PICKLE}; "
            f"download the model again."
        )


def _read_safetensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (no mapping)
                yield name, file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise ArborvoxError(
            f"{path} is damaged or was not downloaded to its end ({error}); download it again."
        ) from None


def _list_parts(index: Path) -> list[str]:
    """List the files that hold a model's weights; names lead nowhere but into its folder."""
    # {"metadata": {...}, "weight_map": {"encoder.conv1.bias": "model-00001-of-00002.safetensors"}}
    places = _read_object(index).get("weight_map")
    parts = sorted(set(places.values())) if isinstance(places, dict) else []
    if not parts or not all(isinstance(p, str) and Path(p).name == p for p in parts):
        raise ArborvoxError(f'{index}: "weight_map" does not name files of its folder.')
    return parts


def _read_pickle(path: Path) -> dict[str, Tensor]:
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # whatever a damaged archive makes torch say
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArborvoxError(
            f"{path} holds more than tensors, or was not downloaded to its end ({first[:200]}); "
            f"take a model that is published as safetensors."
        ) from None
    if not isinstance(tensors, dict):
        raise ArborvoxError(f"{path} holds no tensors by name.")
    return {str(name): value for name, value in tensors.items() if isinstance(value, Tensor)}


def _read_object(path: Path) -> dict[str, Any]:
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise ArborvoxError(f"{path} is not a JSON object.")
    return fields


def _read_card(path: Path) -> tuple[str, str]:
    """Return license and languages from the head of a model card, as far as it names them."""
    # ---
    # license: apache-2.0
    # language: [en, fi]
    # ---
    try:
        text = path.read_text(encoding="utf-8")
        head = yaml.safe_load(text.split("---")[1]) if text.startswith("---") else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, IndexError):
        head = None
    if not isinstance(head, dict):
        return UNKNOWN, UNKNOWN
    languages = head.get("language", UNKNOWN)
    if isinstance(languages, list):
        languages = ", ".join(map(str, languages))
    return str(head.get("license", UNKNOWN)), str(languages)


def _download(name: str) -> Path:
    """Return the folder of a model of the hub; what was downloaded before is not asked for."""
    if not HUB_NAME.fullmatch(name):
        raise ArborvoxError(f"model.pretrained: there is no folder {name}.")
    hub = import_hub()
    kept = [CONFIG, PREPROCESSOR, CARD, "*.safetensors", INDEX]
    try:
        return Path(hub.snapshot_download(name, allow_patterns=kept, local_files_only=True))
    except Exception as error:
        if hub.constants.HF_HUB_OFFLINE:
            raise _unreachable(name, error) from None
    say(f"model.pretrained: downloading {name}")
    try:
        folder = Path(hub.snapshot_download(name, allow_patterns=kept))
        if not any(folder.glob("*.safetensors")):
            folder = Path(hub.snapshot_download(name, allow_patterns=[*kept, PICKLE]))
    except Exception as error:  # of the network, of the hub, of its cache
        raise _unreachable(name, error) from None
    return folder


def _unreachable(name: str, error: Exception) -> ArborvoxError:
    first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return ArborvoxError(
        f"model.pretrained: there is no folder {name}, and it cannot be had from the hub "
        f"({type(error).__name__}: {first[:200]}); download it where there is a network, and name "
        f"its folder."
    )


def import_hub() -> Any:
    """Import the hub's client, or say which extra has it."""
    try:
        import huggingface_hub
    except ImportError:
        raise missing_extra() from None
    return huggingface_hub


def missing_extra() -> ArborvoxError:
    """Say what to install."""
    return ArborvoxError(
        "model.encoder: pretrained needs the library transformers; "
        "install it with `pip install 'arborvox[pretrained]'`."
    )
