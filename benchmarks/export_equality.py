"""Whether an export says what torch says, on real recordings in every mode, and what int8 costs.

python benchmarks/export_equality.py NAME RUN MANIFEST --json results/export_equality.json
Torch decodes one utterance at a time in fp32; the export in fp32 does so too, and then eight side
by side. Every batch is encoded once for all searches, and both sides search with the same settings.
Rows of other names stay in the JSON file.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from publishing import print_table, publish

from arborvox import audio
from arborvox.config.choices import ExportPrecision, values_of
from arborvox.decode.searches import SEARCHES
from arborvox.errors import ArborvoxError
from arborvox.export.exporting import export_onnx
from arborvox.export.graphs import EncoderGraph
from arborvox.manifest import Utterance, load_manifest
from arborvox.model.checkpoint import load_checkpoint
from arborvox.recognizer import load
from arborvox.report.document import Cell, Table
from arborvox.score.counts import error_counts, metrics_of, split_units
from arborvox.vocabulary import EOS_ID

BATCH = 8
MODELS = ("model", "recordings", "lengths", "MB", "MB in {}", "ratio")
AWAY = ("model", "CTC, batch 1", "CTC, batch 8", "decoder", "torch from fp64", "export from fp64")
MODES = ("model", "search", "equal, batch 1", "equal, batch 8", "error, torch", "error, {}")
Tokens = dict[str, list[tuple[int, ...]]]  # by mode, of each utterance


def main() -> None:
    """Export a run in both precisions and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("run", type=Path)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--utterances", type=int, default=200)
    parser.add_argument(
        "--rounded", default="int8", choices=[p for p in values_of(ExportPrecision) if p != "fp32"]
    )
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    utterances = spread(list(load_manifest(asked.manifest)), asked.utterances)
    with tempfile.TemporaryDirectory() as scratch:
        case = Case(asked.name, asked.run, Path(scratch), utterances, asked.rounded)
        modes = Table(_header(MODES, asked), tuple(case.compare()), num_labels=2)
        tables = {
            "models": Table(_header(MODELS, asked), (case.size_row(),)),
            "log_probs": Table(AWAY, (case.away_row(),)),
            "modes": modes,
        }
    for table in tables.values():
        print_table(table)
    if asked.json:
        publish(asked.json, tables, add=True)


def _header(names: tuple[str, ...], asked: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name.format(asked.rounded) for name in names)


def spread(utterances: list[Utterance], count: int) -> list[Utterance]:
    """Take as many, from everywhere in a manifest."""
    places = np.linspace(0, len(utterances), min(count, len(utterances)), endpoint=False)
    return [utterances[int(place)] for place in places]


class Case:
    """A run, its exports, and recordings to compare them on."""

    def __init__(
        self, name: str, run: Path, scratch: Path, utterances: list[Utterance], rounded: str
    ) -> None:
        self.name, self.utterances, self.rounded = name, utterances, rounded
        folders = {"fp32": scratch / "fp32", rounded: scratch / rounded}
        for precision, folder in folders.items():
            export_onnx(run, folder, precision=precision)  # type: ignore[arg-type, unused-ignore]
        self.bytes = {
            key: sum(path.stat().st_size for path in folder.glob("*.onnx"))
            for key, folder in folders.items()
        }
        model = load_checkpoint(run).model.requires_grad_(False)
        self.exact = EncoderGraph(model, leaves=True).double().eval()
        self.whole: Any = load(run, precision="fp32", device="cpu").engine
        self.exports: Any = {
            key: load(folder, num_threads=1).engine for key, folder in folders.items()
        }
        self.settings = {}
        for mode in SEARCHES:
            try:
                self.settings[mode] = self.whole.variant(mode=mode)._settings
            except ArborvoxError:
                continue  # the model lacks what this search needs
        rate = self.whole.input.sampling_rate
        self.samples = [audio.load(Path(u.audio), rate) for u in utterances]
        self.worst = dict.fromkeys(("one", "batch", "decoder", "torch", "export"), 0.0)

    def compare(self) -> Iterator[tuple[Cell, ...]]:
        """Decode everything everywhere; yield a row for each mode."""
        torch_found: Tokens = {mode: [] for mode in self.settings}
        scores: list[Any] = []
        with torch.inference_mode():
            for samples in self.samples:
                features = self.whole.features(samples)
                lens = torch.tensor([len(features)])
                encoded = self.whole.network.encode(features[None], lens)
                self._search(self.whole.network, encoded, torch_found)
                scores.append(_log_probs(self.whole.network, encoded, self._text(torch_found, -1)))
                self._note("torch", scores[-1][0], self._exact_ctc(samples))
        self._say("torch")
        one = self._decode("fp32", 1, torch_found, scores)
        batch = self._decode("fp32", BATCH, torch_found, scores)
        rounded = self._decode(self.rounded, 1, None, scores)
        for mode in self.settings:
            equal = [
                f"{sum(map(tuple.__eq__, torch_found[mode], found[mode]))} of {len(self.samples)}"
                for found in (one, batch)
            ]
            errors = [self._error_rate(found[mode]) for found in (torch_found, rounded)]
            texts = (self.name, mode, *equal, *(f"{error:.2f}" for error in errors))
            yield tuple(map(Cell, texts))

    def size_row(self) -> tuple[Cell, ...]:
        """Return what was compared, and how large the files are."""
        lengths = {len(samples) for samples in self.samples}
        megabytes = [self.bytes[key] / 1e6 for key in ("fp32", self.rounded)]
        sizes = (*(f"{size:.1f}" for size in megabytes), f"{megabytes[1] / megabytes[0]:.3f}")
        counts = (str(len(self.samples)), str(len(lengths)))
        return tuple(map(Cell, (self.name, *counts, *sizes)))

    def away_row(self) -> tuple[Cell, ...]:
        """Return how far log-probabilities are apart at most."""
        worst = (f"{value:.1e}" if value else "" for value in self.worst.values())
        return tuple(map(Cell, (self.name, *worst)))

    def _decode(self, precision: str, batch: int, said: Tokens | None, scores: Any) -> Tokens:
        """Decode by an export; with what torch said, note how far the log-probabilities differ."""
        network = self.exports[precision].network
        found: Tokens = {mode: [] for mode in self.settings}
        for start in range(0, len(self.samples), batch):
            encoded = network.encode(self.samples[start : start + batch])
            self._search(network, encoded, found)
            if said is None:
                continue
            for row in range(len(encoded)):
                ctc, decoder = scores[start + row]
                if ctc is not None:
                    ours = network.ctc_scores(encoded).log_probs[row, : len(ctc)]
                    self._note("one" if batch == 1 else "batch", ours, ctc)
                    if batch == 1:
                        self._note("export", ours, self._exact_ctc(self.samples[start]))
                if decoder is not None and batch == 1:
                    text = self._text(said, start + row)
                    self._note("decoder", _log_probs(network, encoded, text)[1], decoder)
        self._say(f"{precision}, batch {batch}")
        return found

    def _exact_ctc(self, samples: NDArray[np.float32]) -> Any:
        """Return CTC's log-probabilities from samples on in double precision, (T, C)."""
        if self.exact.ctc is None:
            return None
        with torch.inference_mode():
            given = torch.from_numpy(samples).double()[None]
            *_, ctc = self.exact(given, torch.tensor([len(samples)]))
        return ctc[0].numpy()

    def _note(self, what: str, ours: Any, theirs: Any) -> None:
        if ours is None:
            return
        self.worst[what] = max(self.worst[what], float(np.abs(ours - theirs).max()))

    def _search(self, network: Any, encoded: Any, found: Tokens) -> None:
        for mode, settings in self.settings.items():
            best = SEARCHES[mode].run(network, encoded, settings)  # type: ignore[index, unused-ignore]
            found[mode] += [tuple(hypotheses[0].tokens) for hypotheses in best]

    def _text(self, said: Tokens, place: int) -> tuple[int, ...] | None:
        """Return the text that the decoder is to score, if there is one."""
        for mode in self.settings:
            if SEARCHES[mode].needs_decoder:
                return said[mode][place]
        return None

    def _error_rate(self, found: list[tuple[int, ...]]) -> float:
        """Return the error rate in the model's own units, in %."""
        tokenizer = self.whole.tokenizer
        metric = metrics_of(tokenizer.unit)[0]
        counts = [
            error_counts(
                split_units(utterance.text, metric),
                split_units(tokenizer.decode(tokens).strip(), metric),
            )
            for tokens, utterance in zip(found, self.utterances, strict=True)
        ]
        errors = sum(count.num_errors for count in counts)
        return 100.0 * errors / sum(count.num_reference for count in counts)

    def _say(self, what: str) -> None:
        print(f"{self.name}: {what} done", flush=True)


def _log_probs(network: Any, encoded: Any, text: tuple[int, ...] | None) -> tuple[Any, Any]:
    """Return log-probabilities of CTC, (T, C), and of the decoder's tokens along a text."""
    ctc = network.ctc_scores(encoded).log_probs[0] if network.has_ctc else None
    if text is None:
        return ctc, None
    tokens = np.array([[EOS_ID, *text]])
    count, size = tokens.shape[1], network.num_choices
    past = np.tril(np.ones((1, count, count), np.bool_))
    states = network.read_tree(encoded, tokens, np.arange(count)[None], past)
    rows, choices = np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
    return ctc, network.token_log_probs(states, rows, choices)


if __name__ == "__main__":
    main()
