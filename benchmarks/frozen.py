"""What a pretrained encoder costs: its states once, training on them, fine-tuning; time and memory.

    python benchmarks/frozen.py EXPERIMENT FOLDER [--hours 2] [--many-hours 100] [--json FILE]

EXPERIMENT is a folder that `arborvox run` has prepared (prepare/, tokens/), FOLDER a pretrained
encoder. Each row is a whole `arborvox train`, as a user starts it, on all cores, with its worker
processes: `recipes/own.yaml` with --pretrained on the first hours of the training set. States are
computed in the first run; the next has them and is trained to the end. For more hours than that
the same recordings are listed again under other names: what grows with a corpus grows so, and
nothing is left to encode.
Memory is told twice (watching.py): what the processes hold together, shared pages once and mapped
files left out; and the first process's peak with the most that its workers have, all counted.
Needs quiet cores and some GB of disk.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from publishing import tell
from watching import Measured, watch

from arborvox.manifest import Utterance, load_manifest, split_file, write_cuts
from arborvox.processes import count_cores
from arborvox.report.document import Cell, Table

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "own.yaml"
FEW_STEPS = 8
FINE_TUNING = {"model.freeze": "none", "train.batch_s": 60, "train.max_steps": FEW_STEPS}
HEADER = ("run", "speech (h)", "steps", "time (min)", "held (GB)", "with mapped files (GB)")


def run_row(measured: Measured, name: str, hours: float, steps: str) -> tuple[Cell, ...]:
    """Return a run as a row of the table."""
    figures = (f"{measured.seconds / 60:.1f}", f"{measured.held_gb:.2f}", f"{measured.peak_gb:.2f}")
    return tuple(map(Cell, (name, f"{hours:g}", steps, *figures)))


class Bench:
    """An experiment's data, cut to some hours, and a cache of states that the runs share."""

    def __init__(self, experiment: Path, pretrained: Path, scratch: Path, hours: float) -> None:
        self.experiment, self.pretrained, self.scratch = experiment, pretrained, scratch
        self.numbers = count()
        train = list(load_manifest(experiment / "prepare" / split_file("train")))
        self.heard = list(listed(train, hours))

    def train(self, hours: float, settings: dict[str, object]) -> Measured:
        """Train from the beginning; return what it took."""
        number = next(self.numbers)
        manifests = self.scratch / f"manifests-{number}"
        manifests.mkdir()
        prepared = self.experiment / "prepare"
        write_cuts(manifests / split_file("train"), listed(self.heard, hours))
        (manifests / split_file("dev")).write_bytes((prepared / split_file("dev")).read_bytes())
        changes = {"features.cache": self.scratch / "states", "augment.speeds": "[1.0]", **settings}
        command = [sys.executable, "-m", "arborvox", "train", str(RECIPE)]
        command += ["--pretrained", str(self.pretrained), "--manifests", str(manifests)]
        command += ["--tokens", str(self.experiment / "tokens" / "tokens.json")]
        command += ["--out", str(self.scratch / f"run-{number}"), "--set", "model.output=softmax"]
        command += [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]
        return watch(command)


def listed(utterances: list[Utterance], hours: float) -> Iterator[Utterance]:
    """Yield utterances of so many hours, again and again under other names if need be."""
    left_s = hours * 3600
    for turn in count():
        for utterance in utterances:
            if left_s <= 0:
                return
            left_s -= utterance.duration_s
            yield replace(utterance, id=f"{utterance.id}-{turn}", recording_id=None)


def main() -> None:
    """Measure each run once."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("pretrained", type=Path)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--many-hours", type=float, default=100.0)
    parser.add_argument("--short", action="store_true", help="leave out the whole training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--add", action="store_true", help="keep rows of runs that are left out")
    options = parser.parse_args()
    further = dict(change.split("=", 1) for change in options.set)
    few = {"train.max_steps": FEW_STEPS, **further}
    hours = options.hours
    with tempfile.TemporaryDirectory(prefix="arborvox-frozen-") as scratch:
        bench = Bench(options.experiment, options.pretrained, Path(scratch), hours)
        first = bench.train(hours, few)
        short = bench.train(hours, few)
        whole = None if options.short else bench.train(hours, further)
        fewer, more = (bench.train(each, few) for each in (1.0, options.many_hours))
        tuned = bench.train(hours, {**FINE_TUNING, **further})
    rows = [
        run_row(first, "states, then a few steps", hours, str(FEW_STEPS)),
        run_row(short, "a few steps on kept states", hours, str(FEW_STEPS)),
        run_row(fewer, "a few steps on kept states", 1.0, str(FEW_STEPS)),
        run_row(more, "a few steps on kept states", options.many_hours, str(FEW_STEPS)),
        run_row(tuned, "fine-tuning, batches of 60 s", hours, str(FEW_STEPS)),
    ]
    if whole is not None:
        rows.append(run_row(whole, "frozen, whole training", hours, "all"))
    dev = load_manifest(options.experiment / "prepare" / split_file("dev"))
    encoded_s = hours * 3600 + sum(utterance.duration_s for utterance in dev)
    speed = encoded_s / (first.seconds - short.seconds)
    tables = {
        "runs": Table(HEADER, tuple(rows)),
        "states": Table(
            ("cores", "seconds of speech a second, to states on disk"),
            ((Cell(str(count_cores())), Cell(f"{speed:.0f}")),),
        ),
    }
    tell(tables, options.json, add=options.add)


if __name__ == "__main__":
    main()
