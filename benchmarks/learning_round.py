"""How long a round of learning takes: a project is made of a corpus, corrected, and learned from.

python benchmarks/learning_round.py RUN DATA --work WORK --json results/learning_round.json
"""

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
from publishing import print_table, publish

from arborvox import audio
from arborvox.manifest import Utterance, load_manifest, split_file
from arborvox.project import LearnedModel, Project, draft_items
from arborvox.project.adding import RATE, add_recordings
from arborvox.project.learning import learn
from arborvox.report.document import Cell, Table

TEST_SHARE = 0.2  # of what is brought beside the corrections


def main() -> None:
    """Make the project, learn, and tell how long it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path, help="the model that is in use")
    parser.add_argument("data", type=Path, help="made by `arborvox prepare`")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=900.0, help="of corrections to learn from")
    parser.add_argument("--note", default="", help="what else the machine was doing")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    project = correct(options.run, options.data, options.work, options.seconds)
    began_s, before_s = time.monotonic(), processor_s()
    model = learn(project)
    tell(model, time.monotonic() - began_s, processor_s() - before_s, options)


def correct(run: Path, data: Path, work: Path, seconds: float) -> Project:
    """Bring recordings and let their transcripts play the corrector, up to so many seconds."""
    utterances = load_manifest(data / split_file("test"))
    spent = np.cumsum([u.duration_s for u in utterances])
    utterances = utterances[: int(np.searchsorted(spent, seconds / (1 - TEST_SHARE))) + 1]
    texts = bring(utterances, work / "brought")
    project = Project.create(work / "project", language=utterances[0].language, model=run)
    add_recordings(project, [work / "brought"])
    draft_items(project)  # how good they are decides how carefully the model is changed
    left_s = seconds
    for item in project.items(state="draft"):
        if item.split == "test" or left_s > 0:
            text = texts[item.recording.rpartition("/")[2]]
            project.save(item.id, text, revision=item.revision, author="transcript")
            left_s -= item.duration_s if item.split != "test" else 0.0
    return project


def bring(utterances: Sequence[Utterance], folder: Path) -> dict[str, str]:
    """Write each utterance as a recording of its speaker; return the texts by name."""
    texts = {}
    for number, utterance in enumerate(utterances):
        name = f"u{number:05d}"
        path = folder / (utterance.speaker or "nobody") / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = audio.load(Path(utterance.audio), RATE)
        first = round(utterance.start_s * RATE)
        soundfile.write(path, samples[first : first + round(utterance.duration_s * RATE)], RATE)
        texts[name] = utterance.text
    return texts


def processor_s() -> float:
    """Return the processor's time of this process and its children, however many cores."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(
        used.ru_utime + used.ru_stime for used in (resource.getrusage(kind) for kind in kinds)
    )


def tell(
    model: LearnedModel, elapsed_s: float, computed_s: float, options: argparse.Namespace
) -> None:
    """Print the round as a table."""
    header = (
        "corrections, minutes", "test set, minutes", "elapsed, minutes", "processor, minutes",
        f"{model.metric} before, %", "after, %", "paired difference (95 %)", "offered", "beside it",
    )  # fmt: skip
    low, high = 100 * model.difference_low, 100 * model.difference_high
    row = (
        f"{model.train_s / 60:.1f}",
        f"{model.test_s / 60:.1f}",
        f"{elapsed_s / 60:.1f}",
        f"{computed_s / 60:.1f}",
        f"{100 * model.parent_rate:.1f}",
        f"{100 * model.rate:.1f}",
        f"{100 * model.difference:+.1f} ({low:+.1f} to {high:+.1f})",
        "yes" if model.offered else "no",
        options.note or "nothing",
    )
    table = Table(header, (tuple(map(Cell, row)),), num_labels=0)
    print_table(table)
    if options.json is not None:
        publish(options.json, {"round": table}, seconds=elapsed_s, processor_s=computed_s)


if __name__ == "__main__":
    main()
