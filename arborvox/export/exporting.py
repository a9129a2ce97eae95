"""`arborvox export --to onnx`: a checkpoint becomes a folder of graphs that describe themselves."""

import json
from pathlib import Path
from typing import Any

from arborvox.config import DecodeConfig
from arborvox.config.choices import ExportPrecision
from arborvox.config.decode import TUNED_KEYS
from arborvox.console import say
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError
from arborvox.export.graphs import EncoderGraph, longest_s, make_graphs
from arborvox.export.onnx_files import require_onnx, trace, write_model
from arborvox.files import atomic_folder, write_json_atomic, write_text_atomic
from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer
from arborvox.model.checkpoint import LoadedModel, load_checkpoint
from arborvox.runtime.manifest import FORMAT, HEAD, METADATA_KEY, VERSION
from arborvox.version import VERSION as ARBORVOX_VERSION

CARD = "README.md"


def export_onnx(
    run: Path,
    out: Path,
    *,
    precision: ExportPrecision = "fp32",
    leaves: bool = False,
    license: str | None = None,
) -> None:
    """Write a run's final model, or a checkpoint's, as graphs that need no torch."""
    require_onnx()
    loaded = load_checkpoint(run)
    check_folder(out)
    with atomic_folder(out.absolute()) as part:
        write_graphs(loaded, part, precision=precision, leaves=leaves, license=license)
        write_text_atomic(part / CARD, _card(loaded, precision))
    sizes = sum(path.stat().st_size for path in out.glob("*.onnx"))
    say(f"wrote {out}: {sizes / 1e6:.1f} MB in {precision}")


def check_folder(out: Path, mark: str = HEAD) -> None:
    """Refuse to replace a folder that holds something else: an export has a file by its mark."""
    if out.exists() and not out.is_dir():
        raise ArborvoxError(f"{out} is a file; give the name of a folder.")
    if out.is_dir() and any(out.iterdir()) and not (out / mark).is_file():
        raise ArborvoxError(f"{out} holds other files; give the name of a new folder.")


def write_graphs(
    loaded: LoadedModel,
    folder: Path,
    *,
    precision: ExportPrecision,
    leaves: bool,
    license: str | None,
) -> None:
    """Write the graphs and their head into a folder."""
    loaded.model.requires_grad_(False)
    graphs = make_graphs(loaded.model, leaves=leaves)
    encoder = graphs["encoder"].module
    assert isinstance(encoder, EncoderGraph)
    description = describe(loaded, encoder.input.min_samples, precision, leaves, license)
    checksums = {}
    for name, graph in graphs.items():
        path = folder / f"{name}.onnx"
        metadata = {"part": name}
        if name == "encoder":
            metadata[METADATA_KEY] = json.dumps(description, ensure_ascii=False)
        write_model(trace(graph), path, precision, metadata)
        checksums[path.name] = checksum_file(path)
    write_json_atomic(folder / HEAD, {"format": FORMAT, "version": VERSION, "sha256": checksums})


def describe(
    loaded: LoadedModel,
    min_samples: int,
    precision: ExportPrecision,
    leaves: bool,
    license: str | None,
) -> dict[str, Any]:
    """Return what the graph says of the model; `runtime.manifest` reads it."""
    model, tokenizer, recipe = loaded.model, loaded.tokenizer, loaded.recipe
    config, tuned = recipe.model, _search_alone(loaded)
    asked = {key: getattr(tuned, key) for key in TUNED_KEYS if key != "precision"}
    return {
        "format": FORMAT,
        "version": VERSION,
        "arborvox": ARBORVOX_VERSION,
        "name": recipe.name,
        "license": license or stated_license(loaded),
        "precision": precision,
        "features": model.encoder.input.description,
        "sampling_rate": model.encoder.input.sampling_rate,
        "state_s": model.encoder.state_s,
        # As in training, and no more than the encoder can hear at once.
        "max_segment_s": min(recipe.train.max_duration_s, longest_s(model)),
        "min_samples": min_samples,
        "unit": tokenizer.unit,
        "units": list(tokenizer.units),
        "languages": list(tokenizer.languages),
        "language_tags": tokenizer.language_tags,
        "has_ctc": model.ctc is not None,
        "has_decoder": model.decoder is not None,
        "ctc_tree": None if model.ctc is None else _tree(model.ctc.output, leaves),
        "output_tree": None if model.output is None else _tree(model.output, leaves),
        "layers": config.decoder_layers,
        "heads": config.heads,
        "head_size": config.width // config.heads,
        "decode": asked,
    }


def _search_alone(loaded: LoadedModel) -> DecodeConfig:
    """Return how the model is searched without its language model, which is not exported."""
    recipe, search = loaded.recipe.decode, loaded.search
    if search is None:
        return recipe
    if search.lm is None:
        return recipe.with_search(search)
    say(
        f"the model's language model is left out, and the weights that were tuned for it; "
        f"whoever loads the export with the whole of Arborvox may name it: {search.lm}"
    )
    return recipe


def _tree(layer: OutputLayer, leaves: bool) -> dict[str, list[int]] | None:
    if leaves or not isinstance(layer, HierarchicalSoftmax):
        return None
    return {"left": layer.tree.left.tolist(), "right": layer.tree.right.tolist()}


def stated_license(loaded: LoadedModel) -> str:
    """Return what is known of a model's licence."""
    rows = dict(loaded.model.encoder.card_rows())
    base = rows.get("Base model's license")
    return "not stated" if base is None else f"not stated; base model: {base}"


def _card(loaded: LoadedModel, precision: ExportPrecision) -> str:
    name = loaded.recipe.name
    languages = ", ".join(loaded.tokenizer.languages) or "not stated"
    return f"""# {name}: a speech recognizer exported by Arborvox

ONNX graphs in {precision}; languages: {languages}. The description is the metadata
`{METADATA_KEY}` of `encoder.onnx`. With `arborvox-runtime` or the whole of Arborvox:

```python
import arborvox

print(arborvox.load("FOLDER").transcribe("speech.wav").text)
```
"""
