"""Ours against WeNet's, the same network in one run: training steps, searches, peak memory.

    python benchmarks/peers.py --wenet CHECKOUT [--json results/peers.json] [--quick]

Both networks have the size `paper`, random weights and a vocabulary of 340; ours has a softmax, as
WeNet's has. Both see the same features and tokens. A training step is forward, joint loss,
backward, clipping and Adam, each in a process of its own: ours as `arborvox train` does it, theirs
in fp32 and under bf16 autocast. A search includes the encoder. Beams write exactly 60 tokens; what
CTC says is computed, then replaced by posteriors like those of a trained model, the same for both.
Ours goes along laid-down beams (benchmarks/led_decoding.py): it shares what beams have in common,
as beams of trained models have; WeNet's time does not depend on it.

One thread, CPU time. Compared runs take turns, step by step in the searches
(benchmarks/taking_turns.py). A ratio is taken in each round; its median and quartiles are told.
"""

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import wenet_network
from led_decoding import LedNetwork, decode_led, random_features
from numpy.typing import NDArray
from publishing import print_table, publish
from taking_turns import Pause, Run, take_turns
from timing import describe_machine, peak_memory_mb
from torch import Tensor, nn

from arborvox.config import FeaturesConfig, ModelConfig, TrainConfig
from arborvox.decode.ctc import ctc_greedy
from arborvox.decode.network import CtcScores, Encoded
from arborvox.decode.rescoring import attention_rescoring
from arborvox.decode.settings import BeamSettings
from arborvox.hsoftmax import warm_up
from arborvox.model.asr import ASR
from arborvox.model.memory import keep_freed_memory
from arborvox.model.precision import autocast, choose_precision
from arborvox.report.document import Cell, Table
from arborvox.training.optimizer import make_optimizer

NUM_MELS, NUM_TOKENS = 80, 340
TOKENS_PER_S = 6
UTTERANCE_S = 10.0
BEAM, CTC_WEIGHT = 10, 0.3
CPU = torch.device("cpu")
OURS, PEER, PEER_BF16 = "ours", "wenet, fp32", "wenet, bf16 autocast"
BATCH_SIZES = (1, 8)
LARGEST_DIFFERENCE = 0.02  # in parameters, as a share


@dataclass(frozen=True)
class Compared:
    """Seconds of each round, of ours and of theirs."""

    what: str
    ours_s: list[float]
    peer_s: list[float]

    def row(self) -> tuple[Cell, ...]:
        """Lay out the medians and the quartiles of the ratio."""
        ratios = np.divide(self.ours_s, self.peer_s)
        low, middle, high = np.percentile(ratios, (25, 50, 75))
        medians = (statistics.median(self.ours_s), statistics.median(self.peer_s))
        return (
            Cell(self.what),
            *(Cell(f"{seconds:.3f}") for seconds in medians),
            Cell(f"{middle:.3f}", f"({low:.3f}–{high:.3f})"),
        )


# The sizes of both networks. Of ours only `paper` has as many channels in its front end as it is
# wide, which in WeNet is always so.
CONFIG = ModelConfig.model_validate({"size": "paper", "output": "softmax", "ctc": "softmax"})


def make_ours() -> ASR:
    """Build our network."""
    torch.manual_seed(0)
    return ASR(CONFIG, FeaturesConfig(num_mels=NUM_MELS), NUM_TOKENS, None)


def make_theirs() -> Any:
    """Build WeNet's network, once its checkout is open."""
    return wenet_network.build(CONFIG, NUM_MELS, NUM_TOKENS)


def make_batch(num_utterances: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return features, their lengths, tokens and their lengths, of utterances of 8 to 10 s."""
    chance = torch.Generator().manual_seed(0)
    features = random_features(num_utterances, UTTERANCE_S)
    shares = torch.linspace(0.8, 1.0, num_utterances).flip(0)
    feature_lens = (shares * features.shape[1]).long()
    token_lens = (shares * UTTERANCE_S * TOKENS_PER_S).long()
    # <eos> is our first token and WeNet's last, the blank is its first: 1..V-1 are the same.
    shape = (num_utterances, int(token_lens.max()))
    tokens = torch.randint(1, NUM_TOKENS, shape, generator=chance)
    tokens[torch.arange(shape[1]) >= token_lens[:, None]] = -1
    return features, feature_lens, tokens, token_lens


def make_step(version: str, options: argparse.Namespace) -> Callable[[], None]:
    """Return a whole training step of one version."""
    batch = make_batch(options.train_batch)
    model: Any
    if version == OURS:
        keep_freed_memory()  # as `arborvox train` does
        model = make_ours()
        optimizer = make_optimizer(model, TrainConfig())
        precision = choose_precision("auto", CPU, model.config.width)

        def loss() -> Tensor:
            losses = model(*batch)
            mean: Tensor = losses.total / losses.num_tokens
            return mean

    else:
        wenet_network.open_checkout(options.wenet)
        model = make_theirs()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        precision = "fp32" if version == PEER else "bf16"
        loss = partial(wenet_network.training_loss, model, *batch)
    model.train()

    def step() -> None:
        with autocast(CPU, precision):
            value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


@contextmanager
def in_own_process(version: str, options: argparse.Namespace) -> Iterator[Connection]:
    """Yield a line to a process that takes a step, and answers with its CPU time, when asked.

    Versions that share a process share its heap, and one would find it as another has left it.
    """
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=_take_steps, args=(version, options, far), daemon=True)
    process.start()
    far.close()
    yield near
    near.send(False)
    process.join()


def _take_steps(version: str, options: argparse.Namespace, connection: "Connection") -> None:
    torch.set_num_threads(1)
    step = make_step(version, options)
    connection.send(peak_memory_mb(step))
    step()
    while connection.recv():
        start_s = time.process_time()
        step()
        connection.send(time.process_time() - start_s)


def compare_training(options: argparse.Namespace) -> tuple[list[Compared], dict[str, float]]:
    """Time training steps, a step of each version in turn; also tell the peak of their first."""
    versions = (OURS, PEER, PEER_BF16)
    seconds: dict[str, list[float]] = {version: [] for version in versions}
    with ExitStack() as stack:
        lines = {v: stack.enter_context(in_own_process(v, options)) for v in versions}
        peaks_mb = {version: line.recv() for version, line in lines.items()}
        for number in range(options.rounds):
            print(f"training: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            for version in versions[:: 1 if number % 2 else -1]:
                lines[version].send(True)
                seconds[version].append(lines[version].recv())
    what = f"training step, {options.train_batch} × 8–10 s, against"
    compared = [
        Compared(f"{what} {peer.partition(', ')[2]}", seconds[OURS], seconds[peer])
        for peer in (PEER, PEER_BF16)
    ]
    return compared, {version: peak for version, peak in peaks_mb.items() if peak is not None}


class OurSearch:
    """Our searches, led as in benchmarks/decoding.py, with CTC's answers laid down."""

    def __init__(self, model: ASR, num_tokens: int, posteriors: NDArray[np.float32]) -> None:
        """Prepare a network; `posteriors` are (T', V + 1), the blank last."""
        self._network = _LedByCtc(model, posteriors)
        self._num_tokens = num_tokens

    @torch.inference_mode()
    def __call__(self, method: str, features: Tensor, pause: Pause) -> list[list[int]]:
        """Decode (B, T, M) by one of our methods; return tokens."""
        network = self._network
        if method == "attention":
            found = decode_led(
                network,
                pause=pause,
                batch=len(features),
                seconds=UTTERANCE_S,
                num_tokens=self._num_tokens,
                beam=BEAM,
            )
            return [list(best.tokens) for best in found]
        network.return_to_start(pause)
        lens = torch.full((len(features),), features.shape[1])
        encoded = network.encode(features, lens)
        search = ctc_greedy if method == "ctc_greedy_search" else attention_rescoring
        ranked = search(network, encoded, BeamSettings(beam=BEAM, ctc_weight=CTC_WEIGHT))
        return [list(best[0].tokens) for best in ranked]


class _LedByCtc(LedNetwork):
    """Does all the work of the CTC branch, then answers with what was laid down."""

    def __init__(self, model: ASR, posteriors: NDArray[np.float32]) -> None:
        super().__init__(model, precision="auto", tokens=range(NUM_TOKENS))
        self._posteriors = posteriors

    def ctc_scores(self, encoded: Encoded) -> CtcScores:
        """Return the posteriors for each utterance."""
        asked = encoded.ctc is None
        scores = super().ctc_scores(encoded)
        if asked:
            num_frames = scores.log_probs.shape[1]
            laid = np.tile(self._posteriors[:num_frames], (len(encoded), 1, 1))
            scores = encoded.ctc = CtcScores(laid, scores.labels, scores.columns)
        return scores

    def ctc_best(self, encoded: Encoded) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the best label of each frame by the posteriors, (B, T') each."""
        values, labels = super().ctc_best(encoded)
        laid = self._posteriors[: labels.shape[1]]
        values[:], labels[:] = laid.max(axis=1), laid.argmax(axis=1)
        return values, labels


def lay_down_posteriors(num_frames: int, num_tokens: int) -> NDArray[np.float32]:
    """Return what a trained CTC branch might say, (T', V + 1): spikes between blanks, the last."""
    chance = np.random.default_rng(0)
    logits = chance.normal(0.0, 1.0, (num_frames, NUM_TOKENS + 1))
    logits[:, NUM_TOKENS] += 10.0
    for frame in np.linspace(2, num_frames - 3, num_tokens).astype(int):
        rivals = chance.choice(np.arange(1, NUM_TOKENS), 3, replace=False)
        logits[frame, rivals] += np.array([16.0, 14.0, 13.0])
    log_probs = torch.from_numpy(logits).log_softmax(1)
    return log_probs.numpy().astype(np.float32)


def compare_searches(options: argparse.Namespace) -> list[Compared]:
    """Time searches of both, a step of each in turn."""
    num_tokens = options.tokens
    num_frames = ((int(UTTERANCE_S * 100) - 1) // 2 - 1) // 2  # after the front end
    laid = lay_down_posteriors(num_frames, num_tokens)
    ours = OurSearch(make_ours().eval(), num_tokens, laid)
    model = make_theirs()
    # WeNet's blank is the first; our first, <eos>, is its last.
    theirs_laid = np.concatenate((laid[:, -1:], laid[:, 1:-1], laid[:, :1]), axis=1)
    peer = wenet_network.PeerSearch(model, num_tokens, torch.from_numpy(theirs_laid))
    compared = []
    for method, told in (
        ("attention", f"beam search of {BEAM}, {num_tokens} tokens"),
        ("ctc_greedy_search", "CTC greedy"),
        ("attention_rescoring", f"CTC beam of {BEAM} and attention rescoring"),
    ):
        for batch in BATCH_SIZES:
            features = random_features(batch, UTTERANCE_S)
            found: dict[str, list[list[int]]] = {}

            def run_ours(
                pause: Pause,
                method: str = method,
                features: Tensor = features,
                found: dict[str, list[list[int]]] = found,
            ) -> float:
                found[OURS] = ours(method, features, pause)
                return 0.0

            def run_peer(
                pause: Pause,
                method: str = method,
                features: Tensor = features,
                found: dict[str, list[list[int]]] = found,
            ) -> float:
                found[PEER] = peer(method, features, beam=BEAM, ctc_weight=CTC_WEIGHT, pause=pause)
                return 0.0

            comparison = measure(f"{told}, batch {batch}", run_ours, run_peer, options.rounds)
            check_same_work(method, found, num_tokens)
            compared.append(comparison)
    return compared


def measure(what: str, ours: Run, peer: Run, rounds: int) -> Compared:
    """Run both in turns, after a round that warms up; each is the first one in its turn."""
    comparison = Compared(what, [], [])
    for number in range(rounds + 1):
        print(f"{what}: round {number} of {rounds}", file=sys.stderr, flush=True)
        order = (ours, peer) if number % 2 else (peer, ours)
        samples = take_turns(order)
        if number:
            first, second = (sample.processor_s for sample in samples)
            mine, theirs = (first, second) if order[0] is ours else (second, first)
            comparison.ours_s.append(mine)
            comparison.peer_s.append(theirs)
    return comparison


def check_same_work(method: str, found: dict[str, list[list[int]]], num_tokens: int) -> None:
    """Stop if the two have not written equally much, or by CTC alone not the same."""
    if method == "ctc_greedy_search" and found[OURS] != found[PEER]:
        sys.exit(f"{method}: ours wrote {found[OURS]} and WeNet {found[PEER]}.")
    for name, written in found.items():
        lens = [len(tokens) for tokens in written]
        if set(lens) != {num_tokens}:
            sys.exit(f"{method}: {name} wrote {lens} tokens instead of {num_tokens}.")


def size_table() -> Table:
    """Count the parameters of both, part by part; stop where they are not the same network.

    WeNet's vocabulary has one token more (its blank), an embedding and an output row with a bias.
    Its relative positions have the width of the network, ours that of a head: 0.6 million less.
    """
    ours, peer = make_ours(), make_theirs()
    width = ours.config.width
    assert ours.ctc is not None
    assert ours.decoder is not None
    assert ours.output is not None
    parts = {
        "encoder": (_count([ours.encoder]), _count([peer.encoder]), 0),
        "decoder and its output": (
            _count([ours.decoder, ours.output]),
            _count([peer.decoder]),
            2 * width + 1,
        ),
        "CTC": (_count([ours.ctc]), _count([peer.ctc]), 0),
    }
    rows: list[tuple[Cell, ...]] = []
    for name, (mine, theirs, blank) in parts.items():
        told = f"{mine:,} parameters of ours, {theirs:,} of WeNet's"
        if abs(theirs - blank - mine) > LARGEST_DIFFERENCE * theirs:
            sys.exit(f"The networks are not the same: {name} has {told}.")
        rows.append((Cell(name), Cell(f"{mine:,}"), Cell(f"{theirs:,}")))
    totals = (_count([ours]), _count([peer]))
    rows.append((Cell("all"), *(Cell(f"{total:,}") for total in totals)))
    return Table(("parameters", "ours", "WeNet"), tuple(rows))


def _count(modules: Sequence[nn.Module]) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--wenet", type=Path, required=True, help="a checkout of WeNet")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--train-batch", type=int, default=8, help="utterances of 8 to 10 s")
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="two rounds: shows that it runs")
    parser.add_argument("--json", type=Path, help="write tables and raw samples here")
    options = parser.parse_args()
    if options.quick:
        options.rounds = 2
    torch.set_num_threads(1)
    warm_up()
    commit = wenet_network.open_checkout(options.wenet)
    print(", ".join(f"{name} {value}" for name, value in describe_machine().items()))
    print(f"WeNet: {commit}")
    sizes = size_table()
    print_table(sizes)
    training, peaks_mb = compare_training(options)
    compared = [*training, *compare_searches(options)]
    header = ("CPU seconds, one thread", "ours", "WeNet", "ours / WeNet")
    memory = [(Cell(version), Cell(f"{peak / 1024:.2f} GB")) for version, peak in peaks_mb.items()]
    tables = {
        "parameters": sizes,
        "times": Table(header, tuple(comparison.row() for comparison in compared)),
        "memory": Table(("peak memory of the first training step", ""), tuple(memory)),
    }
    for name in ("times", "memory"):
        print_table(tables[name])
    if options.json:
        samples = {c.what: {"ours_s": c.ours_s, "wenet_s": c.peer_s} for c in compared}
        publish(options.json, tables, wenet=commit, rounds=options.rounds, samples=samples)


if __name__ == "__main__":
    main()
