"""Real-time factors of attention beam search, softmax against H-Softmax, fast against plain.

    python benchmarks/decoding.py [--threads 1] [--rounds 3] [--plot growth.svg] [--json out.json]

Untrained networks of the size `paper` read random features of 10 s and write exactly 60 tokens, so
that every version does the same work. Times include the encoder. The plain version
(benchmarks/plain_decoding.py) takes one utterance at a time, keeps no caches, and runs in fp32; a
batch of 16 costs it 16 times one utterance, which is not measured again. Versions alternate within
each round, and medians are compared. Output weights are drawn wide (--deviation), which decides how
alike the beams are and so what the decoder costs: compare layers with --deviation 0 too.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from plain_decoding import plain_attention_beam
from timing import describe_machine

from arborvox.config import ModelConfig
from arborvox.decode.attention import BeamSettings, attention_beam
from arborvox.decode.network import Network
from arborvox.kernels import warm_up
from arborvox.model.asr import ASR
from arborvox.tree import HuffmanTree

NUM_MELS = 80
FRAMES_PER_S = 100
OUTPUTS = ("softmax", "hierarchical")


@dataclass(frozen=True)
class Case:
    """What is measured."""

    vocabulary: int
    batch: int
    output: str
    version: str  # plain | fp32 | auto


@dataclass
class Measured:
    """Samples of one case: seconds in all, and in the output layer."""

    total_s: list[float]
    output_s: list[float]

    @property
    def median_s(self) -> float:
        """The middle sample."""
        return statistics.median(self.total_s)

    @property
    def output_share(self) -> float:
        """The output layer's part of the time."""
        shares = [a / b for a, b in zip(self.output_s, self.total_s, strict=True)]
        return statistics.median(shares)


def make_model(size: str, output: str, vocabulary: int, deviation: float) -> ASR:
    """Return an untrained network whose tree has the frequencies of Zipf's law."""
    torch.manual_seed(0)
    counts = (1e9 / np.arange(1, vocabulary + 1)).astype(np.int64).tolist()
    config = ModelConfig.model_validate({"size": size, "output": output})
    model = ASR(config, NUM_MELS, vocabulary, HuffmanTree.from_counts(counts)).eval()
    assert model.output is not None
    # With fresh weights the two layers keep unlike beams, whose pasts fill the decoder's cache
    # unequally, and that difference hides the output layers'. Wider weights make both peaked.
    if deviation > 0:
        torch.nn.init.normal_(model.output.weight, std=deviation)
    return model


def run_fast(network: Network, batch: int, seconds: float, num_tokens: int, beam: int) -> float:
    """Decode once; return the seconds spent in the output layer."""
    features = random_features(batch, seconds)
    lens = torch.full((batch,), features.shape[1])
    settings = BeamSettings(beam=beam, min_tokens=num_tokens, max_tokens=num_tokens)
    before_s = network.clock.seconds["output"]
    with torch.inference_mode():
        attention_beam(network, network.encode(features, lens), settings)
    return network.clock.seconds["output"] - before_s


def run_plain(model: ASR, seconds: float, num_tokens: int, beam: int) -> float:
    """Decode one utterance the plain way, whose output layer is not timed on its own."""
    features = random_features(1, seconds)[0]
    plain_attention_beam(model, features, beam=beam, min_tokens=num_tokens, max_tokens=num_tokens)
    return 0.0


def random_features(batch: int, seconds: float) -> torch.Tensor:
    """Return what stands for speech, (B, T, M)."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, round(seconds * FRAMES_PER_S), NUM_MELS, generator=generator)


def make_runners(options: argparse.Namespace) -> dict[Case, Callable[[], float]]:
    """Return a function for each case; it returns the seconds of the output layer."""
    runners: dict[Case, Callable[[], float]] = {}
    for vocabulary in options.vocabularies:
        for output in OUTPUTS:
            model = make_model(options.size, output, vocabulary, options.deviation)
            work = (options.seconds, options.tokens, options.beam)
            runners[Case(vocabulary, 1, output, "plain")] = partial(run_plain, model, *work)
            for version in ("fp32", "auto"):
                network = Network(model, precision=version)
                for batch in options.batches:
                    case = Case(vocabulary, batch, output, version)
                    runners[case] = partial(run_fast, network, batch, *work)
    return runners


def measure(runners: dict[Case, Callable[[], float]], rounds: int) -> dict[Case, Measured]:
    """Run every case once a round, after a first round that is not counted."""
    results = {case: Measured([], []) for case in runners}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for case, run in runners.items():
            if number == 0 and case.version == "plain":
                continue  # it has nothing to warm up, and takes longest
            start_s = time.perf_counter()
            output_s = run()
            if number:
                results[case].total_s.append(time.perf_counter() - start_s)
                results[case].output_s.append(output_s)
    return results


def report(results: dict[Case, Measured], seconds: float) -> list[str]:
    """Return the table as Markdown, ratios to the plain version and to softmax."""
    lines = [
        "| V | batch | output | precision | RTF | plain / this | output layer | softmax / this |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case, measured in results.items():
        plain = results[Case(case.vocabulary, 1, case.output, "plain")].median_s * case.batch
        softmax = results[Case(case.vocabulary, case.batch, "softmax", case.version)].median_s
        share = "" if case.version == "plain" else f"{100 * measured.output_share:.1f} %"
        lines.append(
            f"| {case.vocabulary} | {case.batch} | {case.output} | {case.version} "
            f"| {measured.median_s / (seconds * case.batch):.4f} "
            f"| {plain / measured.median_s:.1f} | {share} | {softmax / measured.median_s:.3f} |"
        )
    return lines


def draw_growth(options: argparse.Namespace, path: Path) -> list[str]:
    """Measure decoding time by output length, draw it, and return it as Markdown."""
    from arborvox.tree.pictures import new_figure, save_figure

    lengths = [15, 30, 60, 120, 240]
    figure = new_figure(6.0, 4.0)
    axes = figure.add_subplot()
    lines = ["| output | " + " | ".join(f"{n} tokens" for n in lengths) + " |"]
    lines.append("| --- |" + " --- |" * len(lengths))
    for output in OUTPUTS:
        network = Network(
            make_model(options.size, output, options.vocabularies[0], options.deviation),
            precision="auto",
        )
        runners: dict[Case, Callable[[], float]] = {
            Case(length, 1, output, "auto"): partial(
                run_fast, network, 1, options.seconds, length, options.beam
            )
            for length in lengths
        }
        seconds = [measured.median_s for measured in measure(runners, options.rounds).values()]
        axes.plot(lengths, seconds, marker="o", label=output)
        lines.append(f"| {output} | " + " | ".join(f"{spent:.3f} s" for spent in seconds) + " |")
    axes.set_xlabel("tokens written")
    axes.set_ylabel("seconds, encoder included")
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.legend()
    save_figure(figure, path)
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Real-time factors of attention beam search.")
    parser.add_argument("--size", default="paper", choices=("tiny", "small", "paper"))
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[340, 5000])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--deviation", type=float, default=0.3, help="of the output weights; 0: as they are drawn"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="draw time by output length, .svg or .png")
    parser.add_argument("--json", type=Path, help="write the raw samples here")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warm_up()
    results = measure(make_runners(options), options.rounds)
    print("\n".join(report(results, options.seconds)))
    if options.plot:
        print("\n" + "\n".join(draw_growth(options, options.plot)))
    if options.json:
        samples = [vars(case) | vars(measured) for case, measured in results.items()]
        facts = {"machine": describe_machine(), "threads": options.threads, "cases": samples}
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
