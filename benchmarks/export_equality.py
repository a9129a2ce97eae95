"""Bar for exports: the same tokens as torch on real recordings, in every mode, and what int8 costs.

python benchmarks/export_equality.py RUN MANIFEST --json results/export_equality.json
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from arborvox import audio
from arborvox.decode.searches import SEARCHES
from arborvox.export.exporting import export_onnx
from arborvox.manifest import Utterance, load_manifest
from arborvox.recognizer import Recognizer, load
from arborvox.score.counts import error_counts, metrics_of, split_units

BATCHES = (1, 8)


def main() -> None:
    """Export a run in both precisions and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("manifests", type=Path, nargs="+")
    parser.add_argument("--utterances", type=int, default=200)
    parser.add_argument("--modes", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    utterances = [u for manifest in asked.manifests for u in load_manifest(manifest)]
    utterances = utterances[: asked.utterances]
    with tempfile.TemporaryDirectory() as scratch:
        folders = {precision: Path(scratch) / precision for precision in ("fp32", "int8")}
        for precision, folder in folders.items():
            export_onnx(asked.run, folder, precision=precision)  # type: ignore[arg-type, unused-ignore]
        sizes = {key: _size(folder) for key, folder in folders.items()}
        report: dict[str, Any] = {
            "utterances": len(utterances),
            "size_ratio": round(sizes["int8"] / sizes["fp32"], 4),
            "modes": {},
        }
        report["log_probs"] = _log_probs(asked.run, folders["fp32"], utterances)
        print(json.dumps(report))
        for mode, kind in SEARCHES.items():
            if mode not in asked.modes or not _can(asked.run, kind):
                continue
            whole = load(asked.run, mode=mode, precision="fp32", device="cpu")
            exports = {
                key: load(folder, mode=mode, num_threads=1) for key, folder in folders.items()
            }
            row = _compare(whole, exports, utterances)
            report["modes"][mode] = row
            print(mode, json.dumps(row), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _can(run: Path, kind: Any) -> bool:
    from arborvox.model.checkpoint import load_checkpoint

    model = load_checkpoint(run).model
    return bool(kind.can_use(has_ctc=model.ctc is not None, has_decoder=model.decoder is not None))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.onnx"))


def _samples(recognizer: Recognizer, utterance: Utterance) -> NDArray[np.float32]:
    return audio.load(Path(utterance.audio), recognizer.engine.input.sampling_rate)


def _decode(
    recognizer: Recognizer, utterances: list[Utterance], batch: int
) -> list[tuple[int, ...]]:
    engine: Any = recognizer.engine
    found = []
    for start in range(0, len(utterances), batch):
        part = utterances[start : start + batch]
        heard = engine.recognize([engine.features(_samples(recognizer, u)) for u in part])
        found += [best.tokens for best in heard]
    return found


def _log_probs(run: Path, folder: Path, utterances: list[Utterance]) -> float:
    """Return the largest difference of CTC's log-probabilities."""
    whole: Any = load(run, precision="fp32", device="cpu")
    export: Any = load(folder, num_threads=1)
    worst = 0.0
    for utterance in utterances:
        samples = _samples(whole, utterance)
        theirs, _ = whole.engine.ctc_scores([whole.engine.features(samples)])
        ours = export.engine.network.ctc_scores(export.engine.network.encode([samples]))
        worst = max(worst, float(np.abs(theirs.log_probs - ours.log_probs).max()))
    return worst


def _compare(
    whole: Recognizer, exports: dict[str, Recognizer], utterances: list[Utterance]
) -> dict[str, Any]:
    reference = _decode(whole, utterances, BATCHES[0])
    row: dict[str, Any] = {}
    for batch in BATCHES:
        found = _decode(exports["fp32"], utterances, batch)
        row[f"equal_batch_{batch}"] = sum(a == b for a, b in zip(reference, found, strict=True))
    row["error_fp32"] = _error_rate(whole, reference, utterances)
    row["error_int8"] = _error_rate(whole, _decode(exports["int8"], utterances, 1), utterances)
    return row


def _error_rate(
    recognizer: Recognizer, found: list[tuple[int, ...]], utterances: list[Utterance]
) -> float:
    """Return the error rate in the model's own units, in %."""
    tokenizer: Any = recognizer.engine.tokenizer
    metric = metrics_of(tokenizer.unit)[0]
    errors = units = 0
    for tokens, utterance in zip(found, utterances, strict=True):
        said = split_units(utterance.text, metric)
        heard = split_units(tokenizer.decode(tokens).strip(), metric)
        counts = error_counts(said, heard)
        errors += counts.num_errors
        units += counts.num_reference
    return round(100.0 * errors / units, 2)


if __name__ == "__main__":
    main()
