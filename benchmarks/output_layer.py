"""H-Softmax against a softmax, an adaptive softmax and the paper's formula: time and memory.

    python benchmarks/output_layer.py --out results
    python benchmarks/output_layer.py --what tied greedy --sizes 340 5000 --name gates --out results

Writes output_layer.md, output_layer.json (raw figures) and output_layer.png (cost against V).
Targets and tree follow Zipf's law; token ids are in the order of frequency, as the adaptive softmax
needs them. Rows change from call to call, so that no branch predictor learns them.
"""

import argparse
import itertools
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from publishing import print_table, publish
from timing import Case, Timing, describe_machine, interleave, peak_memory_mb
from torch import Tensor, nn
from torch.nn import functional

from arborvox.hsoftmax import HierarchicalSoftmax, Softmax, TiedSoftmax, warm_up
from arborvox.model.memory import keep_freed_memory
from arborvox.report.document import Cell, Table
from arborvox.tree import CodeTree, HuffmanTree

D = 256
SIZES = (340, 1_000, 5_000, 10_000, 50_000, 250_000)
TRAINING_ROWS = (512, 4_096)
SEARCH_ROWS = (1, 10, 160)
RESULTS = (1, 10)
SMOOTHING = 0.1
PARTS = ("step", "search", "tied", "greedy")
# So many gates ask the same question, as in the tree of questions over the UCLA phones.
GATES_A_QUESTION = 7
# Frames of CTC: a short utterance, and a batch of them. About half of them are blank.
GREEDY_ROWS = (160, 3_000)
# Larger tensors than this are not made: the softmax's logits, and rows x V x depth as published.
LARGEST_LOGITS_GB = 2.0
LARGEST_PUBLISHED_GB = 1.0
# From here on weight gradients are also measured sparse.
SMALLEST_SPARSE = 50_000
# A trained layer's gates are far from zero; this scale stands for it in the search.
TRAINED_SCALE = 8.0

BARS = {  # what: {V: largest ratio to the softmax}
    ("step", 4_096): {340: 0.5, 5_000: 0.05, 10_000: 0.03, 50_000: 0.02},
    ("top-1", 10): {340: 0.3, 5_000: 0.07, 10_000: 0.04, 50_000: 0.01},
    ("top-10", 10): {340: 0.6, 5_000: 0.2, 10_000: 0.12, 50_000: 0.04},
    ("top-10", 160): {340: 1.0, 5_000: 0.45, 10_000: 0.3, 50_000: 0.07},
}
TIED_BAR = {340: 1.3}  # a tied step to an untied one
GREEDY_SIZES = (
    340,
    5_000,
)  # where CTC's greedy search with the blank's gate must beat the softmax's
MEMORY_BARS_MB = {5_000: 40, 10_000: 60, 50_000: 120}  # at 340: no more than the softmax
SMOOTHED_BAR = 1.1
GROWTH_BAR = 3.0


TITLES = {
    "bars": "Bars",
    "steps": "Training step",
    "searches": "Search",
    "tied": "Training step with tied gates, as a ratio to gates each with its own weight",
    "greedy": "CTC's greedy search, the blank as the first gate",
    "memory": "Peak extra memory of a training step (MB)",
}
PREFACE = """\
D = {D}, float32, Zipf targets, Huffman tree of the same distribution. Medians of interleaved runs
in one process, in an order that changes from round to round; a run is {run}.
Freed memory stays with the process, as in training.
One thread is timed by the process's CPU time, which other processes disturb less, more threads by
the wall clock. The load average of the machine was {load:.1f} at the end.
What sweeps the caches (the published formula and the beam) is timed apart. Rows of a search change
from call to call. A training step is forward, loss and backward with weight gradients; a search is
exact and sorted. Ratios are to `nn.Linear` with cross entropy, or with log-softmax and topk: below
1 is faster. Where the softmax's logits would pass {logits:g} GB it was not run, and times stand
instead of ratios. The published formula (Algorithm 3) was run where its tensor of rows x V x depth
stays within {published:g} GB. The adaptive softmax has the better of two sets of cutoffs. Weights
are fresh; `trained` has weights {scale:g} times as large, so that choices are clear-cut: a search
then opens fewer gates, but deeper ones, which lie farther apart in memory."""


class PublishedHSoftmax(nn.Module):
    """Algorithm 3 as the paper has it: all paths of all rows in one (N, V, depth) tensor."""

    index: Tensor
    sign: Tensor
    bias: Tensor

    def __init__(self, tree: CodeTree) -> None:
        """Keep the Index, Sign and Bias tables."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(tree.num_inner, D))
        nn.init.uniform_(self.weight, -(D**-0.5), D**-0.5)
        for name, table in zip(("index", "sign", "bias"), tree.path_tables(), strict=True):
            self.register_buffer(name, torch.from_numpy(np.asarray(table, np.int64)))

    def forward(self, h: Tensor) -> Tensor:
        """Return log P of every token, (N, D) -> (N, V)."""
        gates = torch.sigmoid(h @ self.weight.t())[:, self.index]  # (N, V, depth)
        return torch.log(self.sign * gates + self.bias).sum(dim=2)


class Problem:
    """One vocabulary: its tree, the layers that compete, and rows to feed them."""

    def __init__(self, V: int) -> None:
        """Draw layers and a Zipf distribution from a fixed seed."""
        torch.manual_seed(0)
        self.V = V
        self.masses = 1.0 / np.arange(1, V + 1)
        self.masses /= self.masses.sum()
        self.tree = HuffmanTree.from_counts(self.masses)
        self.linear = nn.Linear(D, V)
        self.adaptive = {
            f"adaptive {head}": nn.AdaptiveLogSoftmaxWithLoss(D, V, [head, tail])
            for head, tail in ((V // 25, V // 5), (V // 10, V // 3))
        }

    def published_gb(self, N: int) -> float:
        """Size of the published formula's tensor for N rows."""
        return N * self.V * self.tree.depth * 4 / 1e9

    def training(self, N: int) -> dict[str, Case]:
        """Return the training steps: forward, loss, backward with weight gradients."""
        generator = torch.Generator().manual_seed(1)
        h = torch.randn(N, D, generator=generator, requires_grad=True)
        drawn = np.random.default_rng(1).choice(self.V, size=N, p=self.masses)
        targets = torch.from_numpy(drawn)
        linear, cases = self.linear, {}

        def step(module: nn.Module, loss: Callable[[], Tensor]) -> Case:
            def run() -> None:
                loss().backward()  # type: ignore[no-untyped-call]
                h.grad = None  # so that every step allocates its gradients anew
                module.zero_grad(set_to_none=True)

            return run

        def ours(**options: Any) -> Case:
            layer = HierarchicalSoftmax(D, self.tree, **options)
            return step(layer, lambda: layer.nll(h, targets).mean())

        def softmax(smoothing: float) -> Case:
            return step(
                linear,
                lambda: functional.cross_entropy(linear(h), targets, label_smoothing=smoothing),
            )

        if N * self.V * 4 / 1e9 <= LARGEST_LOGITS_GB:
            cases["softmax"] = softmax(0.0)
            cases["softmax, smoothed"] = softmax(SMOOTHING)
            cases["ours, leaves smoothed"] = ours(label_smoothing=SMOOTHING)
        for name, adaptive in self.adaptive.items():
            cases[name] = step(adaptive, lambda m=adaptive: m(h, targets).loss)  # type: ignore[misc]
        if self.published_gb(N) <= LARGEST_PUBLISHED_GB:
            published = PublishedHSoftmax(self.tree)
            cases["published"] = step(published, lambda: functional.nll_loss(published(h), targets))
        cases["ours"] = ours()
        cases["ours, gates smoothed"] = ours(label_smoothing=SMOOTHING, smoothing="gates")
        if self.V >= SMALLEST_SPARSE:
            cases["ours, sparse"] = ours(sparse=True)
        return cases

    def tied(self, N: int) -> dict[str, Case]:
        """Return the steps of a layer with a weight for each gate, and of one with tied gates."""
        rng = np.random.default_rng(3)
        num_questions = max(self.V // GATES_A_QUESTION, 1)
        questions = tuple(f"q{rng.integers(num_questions)}" for _ in range(self.tree.num_inner))
        tree = CodeTree(
            self.tree.left, self.tree.right, self.tree.probabilities, None, "questions", questions
        )
        h = torch.randn(N, D, generator=torch.Generator().manual_seed(1), requires_grad=True)
        targets = torch.from_numpy(np.random.default_rng(1).choice(self.V, size=N, p=self.masses))

        def step(layer: HierarchicalSoftmax) -> Case:
            def run() -> None:
                layer.nll(h, targets).mean().backward()  # type: ignore[no-untyped-call]
                h.grad = None
                layer.zero_grad(set_to_none=True)

            return run

        return {"ours": step(HierarchicalSoftmax(D, tree)), "tied": step(TiedSoftmax(D, tree))}

    def greedy(self, N: int) -> dict[str, Case]:
        """Return the searches for the best label of N frames; labels are checked beforehand."""
        generator = torch.Generator().manual_seed(2)
        batches = [torch.randn(N, D, generator=generator) for _ in range(8)]
        layer = HierarchicalSoftmax(D, self.tree.with_leaf(0.5)).eval()
        softmax = Softmax(D, self.V + 1).eval()
        with torch.no_grad():
            layer.weight.mul_(TRAINED_SCALE)
            softmax.weight.mul_(TRAINED_SCALE)
            for h in batches:
                if not torch.equal(layer.topk(h, 1)[1][:, 0], layer.log_probs(h).argmax(1)):
                    raise SystemExit("The greedy search found other labels than the full one.")
        rows = {name: itertools.cycle(batches) for name in ("all", "labels", "ours")}

        def each(name: str, search: Callable[[Tensor], object]) -> Case:
            def run() -> None:
                with torch.no_grad():
                    search(next(rows[name]))

            return run

        linear = functional.linear
        return {
            "softmax": each("all", lambda h: softmax.topk(h, 1)),
            # Labels without probabilities need no normalizing.
            "softmax, labels alone": each(
                "labels", lambda h: linear(h, softmax.weight, softmax.bias).argmax(1)
            ),
            "ours": each("ours", lambda h: layer.topk(h, 1)),
        }

    def search(self, N: int, k: int) -> dict[str, Case]:
        """Return the searches for the k best tokens of N rows."""
        generator = torch.Generator().manual_seed(2)
        batches = [torch.randn(N, D, generator=generator) for _ in range(32)]
        layer, trained = HierarchicalSoftmax(D, self.tree), HierarchicalSoftmax(D, self.tree)
        with torch.no_grad():
            trained.weight.mul_(TRAINED_SCALE)

        def each(search: Callable[[Tensor], object]) -> Case:
            rows: Iterator[Tensor] = itertools.cycle(batches)

            def run() -> None:
                with torch.no_grad():
                    search(next(rows))

            return run

        cases = {"softmax": each(lambda h: functional.log_softmax(self.linear(h), 1).topk(k))}
        for name, adaptive in self.adaptive.items():
            cases[name] = each(lambda h, m=adaptive: m.log_prob(h).topk(k))  # type: ignore[misc]
        if self.published_gb(N) <= LARGEST_PUBLISHED_GB:
            published = PublishedHSoftmax(self.tree)
            cases["published"] = each(lambda h: published(h).topk(k))
        cases["ours"] = each(lambda h: layer.topk(h, k))
        cases["ours, trained"] = each(lambda h: trained.topk(h, k))
        cases["ours, beam"] = each(lambda h: layer.topk_beam(h, k))
        return cases


Figures = dict[tuple[str, int, int], dict[str, Timing]]  # (what, N, V) -> case -> timing
Memory = dict[tuple[int, int], dict[str, float | None]]  # (N, V) -> case -> MB


def measure(
    sizes: list[int], what: Sequence[str], budget_s: float, sample_s: float
) -> tuple[Figures, Memory]:
    """Time every case of every size, and see how much memory each training step needs."""
    figures: Figures = {}
    memory: Memory = {}
    for V in sizes:
        problem = Problem(V)
        for N in TRAINING_ROWS if "step" in what else ():
            cases = problem.training(N)
            figures["step", N, V] = time_apart(cases, budget_s, sample_s)
            memory[N, V] = {name: peak_memory_mb(case) for name, case in cases.items()}
            report("step", N, V, figures["step", N, V])
        for N in TRAINING_ROWS if "tied" in what else ():
            figures["tied", N, V] = time_apart(problem.tied(N), budget_s, sample_s)
            report("tied", N, V, figures["tied", N, V])
        for N in GREEDY_ROWS if "greedy" in what else ():
            figures["greedy", N, V] = time_apart(problem.greedy(N), budget_s, sample_s)
            report("greedy", N, V, figures["greedy", N, V])
        for N, k in itertools.product(SEARCH_ROWS, RESULTS) if "search" in what else ():
            cases = problem.search(N, k)
            figures[f"top-{k}", N, V] = time_apart(cases, budget_s / 4, sample_s)
            report(f"top-{k}", N, V, figures[f"top-{k}", N, V])
    return figures, memory


def time_apart(cases: dict[str, Case], budget_s: float, sample_s: float) -> dict[str, Timing]:
    """Time the cases, those that sweep the caches after all others and by themselves."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    heavy = {name: case for name, case in cases.items() if name in ("published", "ours, beam")}
    light = {name: case for name, case in cases.items() if name not in heavy}
    timings = interleave(light, budget_s=budget_s, sample_s=sample_s, clock=clock)
    if heavy:
        timings |= interleave(heavy, budget_s=budget_s / 4, sample_s=sample_s, clock=clock)
    return timings


def report(what: str, N: int, V: int, timings: dict[str, Timing]) -> None:
    """Print one line for each case as soon as it is known."""
    base = timings.get("softmax")
    for name, timing in timings.items():
        ratio = f"{timing.median_s / base.median_s:9.4f}" if base else "        -"
        print(f"{what:8} N={N:<5} V={V:<7} {name:24} {timing.median_s * 1e3:12.4f} ms {ratio}")
    sys.stdout.flush()


def fastest(timings: dict[str, Timing], prefix: str) -> float | None:
    """Return the least median among the cases whose name starts with `prefix`."""
    medians = [t.median_s for name, t in timings.items() if name.startswith(prefix)]
    return min(medians, default=None)


def ratio_text(timings: dict[str, Timing], prefix: str, exact: bool = False) -> str:
    """Return a case's time as a ratio to the softmax, or as milliseconds where there is none."""
    own = timings[prefix].median_s if exact and prefix in timings else None
    own = fastest(timings, prefix) if not exact else own
    if own is None:
        return "–"
    return (
        f"{own / timings['softmax'].median_s:.3g}"
        if "softmax" in timings
        else f"{own * 1e3:.3g} ms"
    )


def bars(figures: Figures, memory: Memory) -> list[tuple[str, str, str, bool]]:
    """Return every bar: what, the limit, what was measured, and whether it holds."""
    rows = []
    for (what, N), limits in BARS.items():
        for V, limit in limits.items():
            if (what, N, V) in figures:
                timings = figures[what, N, V]
                ratio = timings["ours"].median_s / timings["softmax"].median_s
                label = f"{what} / softmax, {N:,} rows, V = {V:,}"
                rows.append((label, f"≤ {limit}", f"{ratio:.4f}", ratio <= limit))
    for (N, V), needed in memory.items():
        own = needed["ours"]
        if N == 4_096 and own is not None:
            limit_mb = MEMORY_BARS_MB.get(V, needed.get("softmax") if V == 340 else None)
            if limit_mb is not None:
                label = f"peak memory of the step, 4,096 rows, V = {V:,}"
                rows.append((label, f"≤ {limit_mb:.0f} MB", f"{own:.1f} MB", own <= limit_mb))
    for (what, N, V), timings in figures.items():
        own = timings["ours"].median_s
        if what == "tied" and V in TIED_BAR:
            ratio = timings["tied"].median_s / own
            label = f"tied step / untied, {N:,} rows, V = {V:,}"
            rows.append((label, f"≤ {TIED_BAR[V]}", f"{ratio:.3f}", ratio <= TIED_BAR[V]))
        if what == "greedy" and V in GREEDY_SIZES:
            for name in ("softmax", "softmax, labels alone"):
                ratio = own / timings[name].median_s
                label = f"CTC greedy / {name}, {N:,} frames, V = {V:,}"
                rows.append((label, "< 1", f"{ratio:.3f}", ratio < 1))
        if "softmax, smoothed" in timings:
            base = timings["softmax, smoothed"].median_s
            ratio = timings["ours, leaves smoothed"].median_s / base
            label = f"{what} smoothed over leaves / softmax, {N:,} rows, V = {V:,}"
            rows.append((label, f"≤ {SMOOTHED_BAR}", f"{ratio:.3f}", ratio <= SMOOTHED_BAR))
        adaptive = fastest(timings, "adaptive")
        if what == "step" and V >= 5_000 and adaptive is not None:
            ratio = timings["ours"].median_s / adaptive
            label = f"{what} / adaptive softmax, {N:,} rows, V = {V:,}"
            rows.append((label, "≤ 1", f"{ratio:.3f}", ratio <= 1))
    for N in TRAINING_ROWS:
        if ("step", N, 1_000) in figures and ("step", N, 250_000) in figures:
            small = figures["step", N, 1_000]["ours"].median_s
            ratio = figures["step", N, 250_000]["ours, sparse"].median_s / small
            label = f"growth of the step from V = 1,000 to 250,000 (sparse), {N:,} rows"
            rows.append((label, f"≤ {GROWTH_BAR}", f"{ratio:.2f}", ratio <= GROWTH_BAR))
    return rows


def make_tables(all_figures: dict[int, Figures], memory: Memory) -> dict[str, Table]:
    """Lay out the bars, the times of each number of threads, and the memory."""
    tables = {}
    for threads, figures in all_figures.items():
        tables[f"bars-{threads}"] = _table(
            ("what", "bar", "measured", "holds"),
            [
                (what, limit, value, "yes" if holds else Cell("no", strong=True))
                for what, limit, value, holds in bars(figures, memory)
            ],
        )
        for kind, name, columns in (
            (
                "step",
                "steps",
                ("ours", "ours, sparse", "ours, gates smoothed", "adaptive", "published"),
            ),
            ("top", "searches", ("ours", "ours, trained", "ours, beam", "adaptive", "published")),
            ("greedy", "greedy", ("ours", "softmax, labels alone")),
        ):
            rows: list[tuple[str | Cell, ...]] = []
            for (what, N, V), timings in figures.items():
                if not what.startswith(kind):
                    continue
                base = timings.get("softmax")
                cells = [ratio_text(timings, c, exact=c != "adaptive") for c in columns]
                base_text = f"{base.median_s * 1e3:.4g} ms" if base else "–"
                spread = f"{timings['ours'].spread:.0%}"
                rows.append((what, f"{N:,}", f"{V:,}", base_text, *cells, spread))
            header = ("what", "rows", "V", "softmax", *columns, "spread of ours")
            if rows:
                tables[f"{name}-{threads}"] = _table(header, rows)
        rows = [
            (
                f"{N:,}", f"{V:,}", f"{timings['ours'].median_s * 1e3:.4g} ms",
                f"{timings['tied'].median_s / timings['ours'].median_s:.3g}",
            )
            for (what, N, V), timings in figures.items()
            if what == "tied"
        ]  # fmt: skip
        if rows:
            tables[f"tied-{threads}"] = _table(("rows", "V", "untied", "tied"), rows)
    if not memory:
        return tables
    names = ("softmax", "ours", "ours, sparse", "ours, leaves smoothed", "published")
    rows = []
    for (N, V), needed in memory.items():
        values = [needed.get(name) for name in names]
        rows.append(
            (f"{N:,}", f"{V:,}", *("–" if value is None else f"{value:.1f}" for value in values))
        )
    tables["memory"] = _table(("rows", "V", *names), rows)
    return tables


def _table(header: tuple[str, ...], rows: Sequence[tuple[str | Cell, ...]]) -> Table:
    cells = tuple(
        tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows
    )
    return Table(header, cells, num_labels=len(header))


def markdown(
    tables: dict[str, Table], command: str, sample_ms: float, page: str, *, drawn: bool
) -> str:
    """Write the page: how it was measured, and the marks between which its tables are put."""
    machine = ", ".join(f"{key} {value}" for key, value in describe_machine().items())
    lines = [
        "# The output layer: time and memory",
        "",
        f"Made by `{command}` on: {machine}.",
        "",
        PREFACE.format(
            D=D,
            run=f"as many calls as fill {sample_ms:g} ms" if sample_ms else "a single call",
            logits=LARGEST_LOGITS_GB,
            published=LARGEST_PUBLISHED_GB,
            scale=TRAINED_SCALE,
            load=os.getloadavg()[0],
        ),
        "",
    ]
    if drawn:
        lines.append("![cost against V](output_layer.png)")
    for name in tables:
        kind, _, threads = name.partition("-")
        title = TITLES[kind] + (f", {threads} thread{'s' * (threads != '1')}" if threads else "")
        lines += ["", f"## {title}", "", f"<!-- table: {page}.json#{name} -->"]
        lines += ["<!-- end -->"]
    return "\n".join(lines) + "\n"


def draw(figures: Figures, path: Path) -> None:
    """Draw cost against V: a training step, and a search."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
    for axis, (what, N) in zip(axes, (("step", 4_096), ("top-10", 10)), strict=True):
        for name in ("softmax", "adaptive", "published", "ours", "ours, sparse"):
            points = [
                (V, seconds * 1e3)
                for (w, n, V), timings in figures.items()
                if (w, n) == (what, N)
                for seconds in [
                    fastest(timings, name)
                    if name == "adaptive"
                    else timings[name].median_s
                    if name in timings
                    else None
                ]
                if seconds is not None
            ]
            if points:
                axis.loglog(*zip(*points, strict=True), marker="o", label=name)
        axis.set(xlabel="V, number of tokens", ylabel="milliseconds", title=f"{what}, {N:,} rows")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Measure, print, and write the three files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--budget", type=float, default=8.0, help="seconds for each comparison")
    parser.add_argument("--sample-ms", type=float, default=1.0, help="0 times single calls")
    parser.add_argument("--what", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--name", default="output_layer", help="of the page and its figures")
    parser.add_argument("--out", type=Path, help="folder for the page, the plot and raw figures")
    arguments = parser.parse_args()
    keep_freed_memory()  # as training does
    warm_up()
    all_figures: dict[int, Figures] = {}
    memory: Memory = {}
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        print(f"{threads} thread(s)")
        sizes = [V for V in arguments.sizes if threads == 1 or V in BARS["step", 4_096]]
        all_figures[threads], measured = measure(
            sizes, arguments.what, arguments.budget, arguments.sample_ms / 1e3
        )
        memory = memory or measured
    tables = make_tables(all_figures, memory)
    for table in tables.values():
        print_table(table)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        drawn = {"step", "search"} <= set(arguments.what)
        command = shlex.join(["python", *sys.argv])
        page = markdown(tables, command, arguments.sample_ms, arguments.name, drawn=drawn)
        (arguments.out / f"{arguments.name}.md").write_text(page, encoding="utf-8")
        publish(
            arguments.out / f"{arguments.name}.json",
            tables,
            threads={
                threads: {
                    f"{what}, {N} rows, V = {V}": {name: t.as_json() for name, t in timings.items()}
                    for (what, N, V), timings in figures.items()
                }
                for threads, figures in all_figures.items()
            },
            peak_memory_mb={f"{N} rows, V = {V}": needed for (N, V), needed in memory.items()},
        )
        if drawn:
            draw(next(iter(all_figures.values())), arguments.out / "output_layer.png")


if __name__ == "__main__":
    main()
