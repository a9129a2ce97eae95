"""Real-time factors of beam search: softmax against H-Softmax, fast against plain, and inventories.

    python benchmarks/decoding.py [--threads 1] [--rounds 5] [--plot growth.svg] [--json out.json]
    python benchmarks/decoding.py --only layers --versions auto --batches 1 --rounds 25
    python benchmarks/decoding.py --only inventories --rounds 15

Untrained networks of the size `paper` read random features of 10 s and write exactly 60 tokens. The
beams of all versions go the same way (benchmarks/led_decoding.py), so that they do the same work
but for what is compared. Times include the encoder. The plain version
(benchmarks/plain_decoding.py) takes one utterance at a time, keeps no caches, and runs in fp32; a
batch of 16 costs it 16 times one utterance, which is not measured again.

What is compared takes its steps in turn (benchmarks/taking_turns.py). A ratio is taken in each
round, and the median and the quartiles of these are printed. With one thread ratios are of the
processor's time, which busy neighbors disturb less; real-time factors are always of the clock.
"""

import argparse
import itertools
import statistics
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from led_decoding import NUM_MELS, LedNetwork, decode_led, random_features
from plain_decoding import plain_attention_beam
from publishing import print_table, publish
from taking_turns import Pause, Run, take_turns

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.hsoftmax import warm_up
from arborvox.model.asr import ASR
from arborvox.report.document import Cell, Table
from arborvox.tokens.tokenizer import EOS_ID
from arborvox.tree import HuffmanTree

OUTPUTS = ("softmax", "hierarchical")
VERSIONS = ("plain", "fp32", "auto")
PARTS = ("layers", "inventories")
# Units that an inventory leaves of a vocabulary.
INVENTORIES = {340: 40, 5000: 100}
CTC_WEIGHTS = {"attention-beam": 0.0, "joint": 0.3}


@dataclass(frozen=True)
class LayerCase:
    """A version of the search, to be compared with the plain one and with the other layer."""

    vocabulary: int
    version: str  # one of VERSIONS
    batch: int
    output: str

    @property
    def group(self) -> "LayerCase":
        """The same for all cases that are compared with each other."""
        return replace(self, output="")


@dataclass(frozen=True)
class InventoryCase:
    """A search with or without an inventory, to be compared with each other."""

    vocabulary: int
    mode: str
    output: str
    restricted: bool

    @property
    def group(self) -> "InventoryCase":
        """The same for all cases that are compared with each other."""
        return replace(self, restricted=False)


CaseType = TypeVar("CaseType", LayerCase, InventoryCase)


@dataclass
class Measured:
    """A sample a round: seconds of the clock, of the processor, and of the output layer."""

    clock_s: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)
    output_s: list[float] = field(default_factory=list)

    def rtf(self, audio_s: float) -> float:
        """The middle sample as a part of the audio's length."""
        return statistics.median(self.clock_s) / audio_s

    @property
    def output_share(self) -> float:
        """The output layer's part of the time."""
        shares = [a / b for a, b in zip(self.output_s, self.clock_s, strict=True)]
        return statistics.median(shares)

    @property
    def compared_s(self) -> list[float]:
        """What ratios are taken of; with more threads only the clock sees them all."""
        return self.processor_s if torch.get_num_threads() == 1 else self.clock_s


def ratio(a: Measured, b: Measured) -> str:
    """Return the median over rounds of a / b, and its quartiles."""
    ratios = np.divide(a.compared_s, b.compared_s)
    low, middle, high = np.percentile(ratios, (25, 50, 75))
    return f"{middle:.3f} ({low:.3f}–{high:.3f})"


def make_model(options: argparse.Namespace, output: str, vocabulary: int) -> ASR:
    """Return an untrained network whose tree has the frequencies of Zipf's law."""
    torch.manual_seed(0)
    counts = (1e9 / np.arange(1, vocabulary + 1)).astype(np.int64).tolist()
    config = ModelConfig.model_validate({"size": options.size, "output": output})
    tree = HuffmanTree.from_counts(counts)
    model = ASR(config, FeaturesConfig(num_mels=NUM_MELS), vocabulary, tree).eval()
    assert model.output is not None
    # Fresh weights make all tokens alike; a search then looks at more of the tree than it would.
    torch.nn.init.normal_(model.output.weight, std=options.deviation)
    return model


def run_led(
    network: LedNetwork, options: argparse.Namespace, pause: Pause, **wishes: float | bool
) -> float:
    """Decode once; return the seconds of the output layer."""
    before_s = network.clock.seconds["output"]
    decode_led(
        network,
        pause=pause,
        seconds=options.seconds,
        num_tokens=options.tokens,
        beam=options.beam,
        **wishes,  # type: ignore[arg-type]
    )
    return network.clock.seconds["output"] - before_s


def run_plain(model: ASR, options: argparse.Namespace, pause: Pause) -> float:
    """Decode one utterance the plain way, whose output layer is not timed on its own."""
    plain_attention_beam(
        model,
        random_features(1, options.seconds)[0],
        beam=options.beam,
        min_tokens=options.tokens,
        max_tokens=options.tokens,
        pause=pause,
    )
    return 0.0


def layer_runs(options: argparse.Namespace, vocabulary: int) -> dict[LayerCase, Run]:
    """Return what compares output layers and versions; what is compared stands side by side."""
    models = {output: make_model(options, output, vocabulary) for output in OUTPUTS}
    runs: dict[LayerCase, Run] = {}
    for version in options.versions:
        if version == "plain":
            for output, model in models.items():
                case = LayerCase(vocabulary, version, 1, output)
                runs[case] = partial(run_plain, model, options)
            continue
        networks = {
            output: LedNetwork(model, precision=version, tokens=range(vocabulary))
            for output, model in models.items()
        }
        for batch in options.batches:
            for output, network in networks.items():
                case = LayerCase(vocabulary, version, batch, output)
                runs[case] = partial(run_led, network, options, batch=batch)
    return runs


def inventory_runs(options: argparse.Namespace, vocabulary: int) -> dict[InventoryCase, Run]:
    """Return searches with and without an inventory drawn at random, one utterance at a time.

    The candidates lie in the inventory either way. CTC tells the times of the tokens in both modes.
    """
    chance = np.random.default_rng(0)
    written = chance.choice(np.arange(1, vocabulary), INVENTORIES[vocabulary] - 1, replace=False)
    inventory = [EOS_ID, *sorted(written.tolist())]
    runs: dict[InventoryCase, Run] = {}
    for output in OUTPUTS:
        model = make_model(options, output, vocabulary)
        networks = {
            restricted: LedNetwork(
                model,
                precision="auto",
                tokens=inventory,
                inventory=inventory if restricted else None,
            )
            for restricted in (False, True)
        }
        for mode, weight in CTC_WEIGHTS.items():
            for restricted, network in networks.items():
                case = InventoryCase(vocabulary, mode, output, restricted)
                runs[case] = partial(
                    run_led, network, options, batch=1, ctc_weight=weight, align=True
                )
    return runs


def measure(runs: Mapping[CaseType, Run], rounds: int) -> dict[CaseType, Measured]:
    """Run every case once a round, compared ones in turns, after a round that warms up."""
    results = {case: Measured() for case in runs}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for _, group in itertools.groupby(runs, key=lambda case: case.group):
            cases = list(group)[:: 1 if number % 2 else -1]  # each is the first one in its turn
            if number == 0 and isinstance(cases[0], LayerCase) and cases[0].version == "plain":
                continue  # it has nothing to warm up, and takes longest
            samples = take_turns([runs[case] for case in cases])
            for case, sample in zip(cases, samples, strict=True):
                if number:
                    results[case].clock_s.append(sample.clock_s)
                    results[case].processor_s.append(sample.processor_s)
                    results[case].output_s.append(sample.output_s)
    return results


def layer_table(results: Mapping[LayerCase, Measured], seconds: float) -> Table:
    """Lay out ratios to the plain version and to softmax."""
    rows = []
    for case, measured in results.items():
        plain = results.get(LayerCase(case.vocabulary, "plain", 1, case.output))
        speedup = ""
        if plain is not None:
            ratios = np.divide(plain.compared_s, measured.compared_s)
            speedup = f"{case.batch * np.median(ratios):.1f}"
        softmax = results[LayerCase(case.vocabulary, case.version, case.batch, "softmax")]
        cells = (
            str(case.vocabulary),
            str(case.batch),
            case.output,
            case.version,
            f"{measured.rtf(seconds * case.batch):.4f}",
            speedup,
            "" if case.version == "plain" else f"{100 * measured.output_share:.1f} %",
            "" if case.output == "softmax" else ratio(softmax, measured),
        )
        rows.append(tuple(map(Cell, cells)))
    header = (
        *("V", "batch", "output", "precision", "RTF", "plain / this", "output layer"),
        "softmax / this",
    )
    return Table(header, tuple(rows), num_labels=len(header))


def inventory_table(results: Mapping[InventoryCase, Measured]) -> Table:
    """Lay out what an inventory does to the time of a search."""
    rows = []
    for case, free in results.items():
        if case.restricted:
            continue
        V = case.vocabulary
        restricted = results[InventoryCase(V, case.mode, case.output, restricted=True)]
        both = (free, restricted)
        cells = (
            f"{INVENTORIES[V]} of {V}",
            case.mode,
            case.output,
            *(f"{statistics.median(measured.compared_s):.3f}" for measured in both),
            ratio(restricted, free),
            *(f"{1e3 * statistics.median(measured.output_s):.1f} ms" for measured in both),
        )
        rows.append(tuple(map(Cell, cells)))
    header = (
        *("units", "mode", "output", "seconds free", "restricted", "restricted / free"),
        *("output layers free", "restricted"),
    )
    return Table(header, tuple(rows), num_labels=len(header))


def draw_growth(options: argparse.Namespace, path: Path) -> Table:
    """Measure decoding time by output length, draw it, and lay it out."""
    from arborvox.tree.pictures import new_figure, save_figure

    lengths = [15, 30, 60, 120, 240]
    figure = new_figure(6.0, 4.0)
    axes = figure.add_subplot()
    V = options.vocabularies[0]
    networks = {
        output: LedNetwork(make_model(options, output, V), precision="auto", tokens=range(V))
        for output in OUTPUTS
    }
    seconds_of: dict[str, list[float]] = {output: [] for output in OUTPUTS}
    for length in lengths:
        wishes = argparse.Namespace(**{**vars(options), "tokens": length})
        runs: dict[LayerCase, Run] = {
            LayerCase(V, "auto", 1, output): partial(run_led, network, wishes, batch=1)
            for output, network in networks.items()
        }
        for case, measured in measure(runs, options.rounds).items():
            seconds_of[case.output].append(statistics.median(measured.clock_s))
    for output, seconds in seconds_of.items():
        axes.plot(lengths, seconds, marker="o", label=output)
    axes.set_xlabel("tokens written")
    axes.set_ylabel("seconds, encoder included")
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.legend()
    save_figure(figure, path)
    rows = tuple(
        (Cell(output), *(Cell(f"{spent:.3f} s") for spent in seconds))
        for output, seconds in seconds_of.items()
    )
    header = ("output", *(f"{n} tokens" for n in lengths))
    return Table(header, rows, num_labels=len(header))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Real-time factors of beam search.")
    parser.add_argument("--size", default="paper", choices=("tiny", "small", "paper"))
    parser.add_argument("--only", choices=PARTS, help="leave the other part out")
    parser.add_argument("--vocabularies", type=int, nargs="+", default=list(INVENTORIES))
    parser.add_argument("--versions", nargs="+", choices=VERSIONS, default=VERSIONS)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--deviation", type=float, default=0.3, help="of the output weights")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="draw time by output length, .svg or .png")
    parser.add_argument("--json", type=Path, help="write tables and raw samples here")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warm_up()
    layers: dict[LayerCase, Measured] = {}
    inventories: dict[InventoryCase, Measured] = {}
    for vocabulary in options.vocabularies:
        if options.only != "inventories":
            layers |= measure(layer_runs(options, vocabulary), options.rounds)
        if options.only != "layers" and vocabulary in INVENTORIES:
            inventories |= measure(inventory_runs(options, vocabulary), options.rounds)
    tables = {}
    if layers:
        tables["layers"] = layer_table(layers, options.seconds)
    if inventories:
        tables["inventories"] = inventory_table(inventories)
    if options.plot:
        tables["growth"] = draw_growth(options, options.plot)
    for table in tables.values():
        print_table(table)
    if options.json:
        cases = [asdict(case) | asdict(samples) for case, samples in layers.items()]
        cases += [asdict(case) | asdict(samples) for case, samples in inventories.items()]
        publish(options.json, tables, threads=options.threads, cases=cases)


if __name__ == "__main__":
    main()
