"""Whether it pays to correct what the page proposes: a corpus's own transcripts play the corrector.

A model is trained on a few minutes and hears a pool of recordings. From the pool as many seconds as
the budget has are corrected, chosen in each of the ways that `arborvox serve --project` knows; the
model learns on from the few minutes and these, as `arborvox learn` does, and hears the test set.

python benchmarks/correcting.py DATA --encoder FOLDER --work WORK --json results/correcting.json
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from publishing import print_table, publish

from arborvox.config import Recipe, validate_recipe
from arborvox.config.choices import Proposal, values_of
from arborvox.console import set_verbosity
from arborvox.data import build_table
from arborvox.decode.ctc import merge_repeats
from arborvox.errors import ArborvoxError
from arborvox.manifest import Utterance, load_manifest, split_file, write_cuts
from arborvox.model.checkpoint import load_checkpoint
from arborvox.model.precision import autocast
from arborvox.project.going_on import go_on
from arborvox.project.items import Item
from arborvox.project.proposals import PROPOSALS, by_lot
from arborvox.report.document import Cell, Table
from arborvox.report.style import SERIES_COLORS
from arborvox.score import (
    Difference,
    ErrorCounts,
    Metric,
    count_table,
    paired_bootstrap,
    split_units,
)
from arborvox.score.counts import IntTable
from arborvox.tokens.building import build_tokenizer
from arborvox.tokens.corpus import TextCorpus
from arborvox.train import train
from arborvox.training.interrupts import StopRequest
from arborvox.training.loader import plain_orders
from arborvox.training.preparation import TrainingData
from arborvox.training.ranks import join_ranks
from arborvox.training.states import keep_states
from arborvox.vocabulary import EOS_ID, UNK_ID

PRECISION = "bf16"
MOST_RATE = 0.85  # of the first model: one that writes next to nothing has no doubts, either
BEGIN, RANDOM = "begin", "random"
NAMES = {
    BEGIN: "nothing",
    "gain": "by expected gain",
    "confidence": "the least sure first",
    "length": "the longest first",
    RANDOM: "at random",
}


@dataclass(frozen=True)
class Amounts:
    """Seconds of speech in each part."""

    first: float
    budget: float
    pool: float
    test: float
    dev: float


@dataclass(frozen=True)
class Simulation:
    """One seed: what is known at first, what could be corrected, and where everything lies."""

    folder: Path
    first: list[Utterance]
    pool: list[Utterance]
    recipe: Recipe
    cache: Path
    speech_s: float
    seed: int

    def begin(self) -> Path:
        """Train the first model."""
        return self._train(self.recipe, self.folder / "begin", self.first)

    def drafts(self, model: Path) -> list[Item]:
        """Let the first model hear the pool."""
        heard = hear(model, self.pool, self.folder / "pool", self.cache)
        return [_item(u, *heard[u.id]) for u in self.pool if u.id in heard]

    def correct(self, model: Path, items: list[Item], by: Proposal, budget_s: float) -> Path:
        """Correct as much as the budget allows, and learn from it."""
        chosen = choose(items, {u.id: u.text for u in self.pool}, by, budget_s, self.seed)
        corrected = [u for u in self.pool if u.id in chosen]
        seconds = sum(u.duration_s for u in (*self.first, *corrected))
        recipe = go_on(
            self.recipe,
            model / "final",
            name=f"corrected by {by}",
            seed=self.seed + 1,
            train_s=seconds,
            cache=self.cache,
            speech_s=self.speech_s,
        )
        return self._train(recipe, self.folder / by, [*self.first, *corrected])

    def _train(self, recipe: Recipe, out: Path, utterances: Sequence[Utterance]) -> Path:
        if not (out / "final").is_dir():
            out.mkdir(parents=True, exist_ok=True)
            write_cuts(out / split_file("train"), utterances)
            (out / split_file("dev")).write_bytes((self.folder / split_file("dev")).read_bytes())
            train(
                recipe,
                out=out,
                manifests=out,
                tokens=self.folder / "tokens.json",
                tree=None,
            )
        return out


def choose(
    items: list[Item], texts: dict[str, str], by: Proposal, budget_s: float, seed: int
) -> set[str]:
    """Take what is proposed, correct it, ask again, until the budget is spent."""
    left, done, spent_s = list(items), list[Item](), 0.0
    while left and spent_s < budget_s:
        ranks = by_lot(left, done, seed) if by == RANDOM else PROPOSALS[by](left, done)
        best = left.pop(int(np.argmax(ranks)))
        spent_s += best.duration_s
        done.append(replace(best, text=texts[best.id], state="confirmed"))
    return {item.id for item in done}


@torch.no_grad()
def hear(
    run: Path, utterances: Sequence[Utterance], folder: Path, cache: Path
) -> dict[str, tuple[str, float]]:
    """Return what a model writes by CTC's best labels, and its confidence, from cached states."""
    loaded = load_checkpoint(run)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "cuts.jsonl.gz"
    write_cuts(manifest, utterances)
    tables = [
        build_table(
            folder / name,
            source,
            loaded.tokenizer,
            source="",
            max_duration_s=30.0,
            unknown_id=UNK_ID,
        )
        for name, source in (("table", manifest), ("nothing", _nothing(folder)))
    ]
    encoder = loaded.model.encoder
    with join_ranks() as ranks:
        data = TrainingData(tables[0], tables[1], encoder.input, None, None)
        data = keep_states(
            data,
            encoder,
            cache,
            speeds=(1.0,),
            precision=PRECISION,
            ranks=ranks,
            stop=StopRequest(),
        )
        found = {}
        for order in plain_orders(tables[0], 100.0):
            batch = data.training_reader(None).read(order)
            features, lens, _, _ = batch.inputs(ranks.device)
            with autocast(ranks.device, PRECISION):
                encoded, lens = loaded.model.encode(features, lens)
                values, labels = loaded.model.ctc_log_probs(encoded).float().max(-1)  # (B, T')
            blank = len(loaded.tokenizer)
            for row, utterance in enumerate(batch.utterances):
                length = int(lens[row])
                spans = merge_repeats(labels[row, :length].numpy(), dropped=(blank, EOS_ID))
                sure = [float(values[row, a:b].mean().exp()) for _, a, b in spans]
                text = loaded.tokenizer.decode([token for token, _, _ in spans]).strip()
                found[utterance.id] = (text, float(np.mean(sure)) if sure else 0.0)
    return found


def _nothing(folder: Path) -> Path:
    path = folder / "nothing.jsonl.gz"
    write_cuts(path, [])
    return path


def simulate(options: argparse.Namespace, seed: int, amounts: Amounts) -> dict[str, IntTable]:
    """Run one seed; return the errors in each utterance of the test set by way of choosing."""
    folder = options.work / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    every = load_manifest(options.data / split_file("train"))
    chance.shuffle(every)
    first, rest = take(every, amounts.first)
    pool, _ = take(rest, amounts.pool)
    fixed = random.Random(0)  # the same for all seeds
    held = {}
    for split, seconds in (("dev", amounts.dev), ("test", amounts.test)):
        found = load_manifest(options.data / split_file(split))
        fixed.shuffle(found)
        held[split] = take(found, seconds)[0]
    write_cuts(folder / split_file("dev"), held["dev"])
    tokens = folder / "tokens.json"
    build_tokenizer(TextCorpus([options.data]), "char").save(tokens)
    recipe = first_recipe(options, seed)
    work = Simulation(folder, first, pool, recipe, options.cache, options.speech_s, seed)
    model = work.begin()
    items = work.drafts(model)
    tables = {}
    for by in (BEGIN, *options.by):
        trained = model if by == BEGIN else work.correct(model, items, by, amounts.budget)
        heard = hear(trained, held["test"], folder / "test", options.cache)
        tables[by] = count_table(
            (split_units(u.text, Metric.cer), split_units(heard.get(u.id, ("", 0))[0], Metric.cer))
            for u in held["test"]
        )
        rate = ErrorCounts.total(tables[by]).rate
        print(f"seed {seed}, {NAMES[by]}: CER {100 * rate:.1f} %", flush=True)
        if by == BEGIN and rate > MOST_RATE:
            raise ArborvoxError("The first model has learned nothing; give more with --first-s.")
    return tables


def first_recipe(options: argparse.Namespace, seed: int) -> Recipe:
    """Return a small model on the frozen encoder: CTC alone, so that a seed takes minutes."""
    sections = {
        "name": "correcting",
        "features": {"cache": str(options.cache.absolute())},
        "augment": {"speeds": [1.0]},
        "model": {
            "encoder": "pretrained",
            "pretrained": str(options.encoder),
            "layers": [3, 4, 5, 6],
            "size": "small",
            "width": 128,
            "heads": 4,
            "feed_forward": 512,
            "encoder_layers": 1,
            "decoder": "none",
            "ctc": "softmax",
            "dropout": 0.1,
        },
        "train": {
            "batch_s": 40,
            "max_epochs": 60,
            "schedule": "cosine",
            "learning_rate": 1e-3,
            "warmup_steps": 40,
            "evaluate_every": 25,
            "save_every": 25,
            "regularize_below": 0.5,
            "average_best": 3,
            "precision": PRECISION,
            "seed": seed,
        },
    }
    return validate_recipe(sections, name="correcting")


def take(
    utterances: Sequence[Utterance], seconds: float
) -> tuple[list[Utterance], list[Utterance]]:
    """Return the first so many seconds, and the rest."""
    spent = np.cumsum([u.duration_s for u in utterances])
    end = int(np.searchsorted(spent, seconds)) + 1
    return list(utterances[:end]), list(utterances[end:])


def _item(utterance: Utterance, text: str, confidence: float) -> Item:
    return Item(
        id=utterance.id,
        recording=utterance.id,
        speaker=utterance.speaker,
        language=utterance.language,
        start_s=0.0,
        end_s=utterance.duration_s,
        split="train",
        state="draft",
        text=text,
        draft=text,
        confidence=confidence,
        revision=0,
        author="",
        time="",
    )


Seeds = list[dict[str, IntTable]]


def compare(seeds: Seeds, first: str, second: str) -> Difference:
    """Compare two ways on the test set, all seeds together, utterance by utterance."""
    tables = [{str(n): of[by] for n, of in enumerate(seeds)} for by in (first, second)]
    return paired_bootstrap(*tables).pooled


def main() -> None:
    """Run all seeds, print the tables, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, help="made by `arborvox prepare`")
    parser.add_argument("--encoder", type=Path, required=True, help="a pretrained encoder's folder")
    parser.add_argument("--work", type=Path, required=True, help="goes on with what is there")
    parser.add_argument("--cache", type=Path, help="the encoder's states; WORK/states if left out")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--by", default=",".join(values_of(Proposal)))
    parser.add_argument("--first-s", type=float, default=300.0)
    parser.add_argument("--budget-s", type=float, default=600.0)
    parser.add_argument("--pool-s", type=float, default=2400.0)
    parser.add_argument("--test-s", type=float, default=600.0)
    parser.add_argument("--dev-s", type=float, default=120.0)
    parser.add_argument("--speech-s", type=float, default=9_000.0, help="heard by each learning")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.cache = options.cache or options.work / "states"
    options.by = options.by.split(",")
    set_verbosity(quiet=True, verbose=False)
    amounts = Amounts(
        options.first_s, options.budget_s, options.pool_s, options.test_s, options.dev_s
    )
    runs = [simulate(options, int(seed), amounts) for seed in options.seeds.split(",")]
    publish_runs(runs, options)


def publish_runs(runs: Seeds, options: argparse.Namespace) -> None:
    """Print and write what came of it."""
    rows, samples = [], {}
    for by in (BEGIN, *options.by):
        found = compare(runs, RANDOM, by)
        seeds = [ErrorCounts.total(of[by]).rate for of in runs]
        samples[by] = {"cer": found.second, "seeds": seeds, "less_random": vars(found.estimate)}
        against = found.estimate
        told = f"{100 * against.value:+.1f} ({100 * against.low:+.1f} to {100 * against.high:+.1f})"
        cells = (NAMES[by], f"{100 * found.second:.1f}", " ".join(f"{100 * s:.1f}" for s in seeds))
        rows.append(tuple(map(Cell, (*cells, "" if by == RANDOM else told))))
    header = ("corrected", "CER, %", "by seed", "less random, paired (95 %)")
    table = Table(header, tuple(rows))
    print_table(table)
    if options.json is not None:
        draw(samples, options)
        publish(options.json, {"ways": table}, samples=samples)


def draw(samples: dict[str, Any], options: argparse.Namespace) -> None:
    """Draw the error rate before and after the corrections, a line a way, a dot a seed."""
    from arborvox.tree.pictures import new_figure, save_figure

    figure = new_figure(6.0, 4.0)
    axes = figure.add_subplot()
    minutes = (0.0, options.budget_s / 60)
    begin = 100 * samples[BEGIN]["cer"]
    for by, color in zip(options.by, SERIES_COLORS, strict=False):
        axes.plot(minutes, (begin, 100 * samples[by]["cer"]), color=color, label=NAMES[by])
        seeds = [100 * rate for rate in samples[by]["seeds"]]
        axes.plot([minutes[1]] * len(seeds), seeds, "o", color=color, markersize=4)
    axes.set_xlabel("minutes corrected")
    axes.set_ylabel("CER, %")
    axes.legend(frameon=False)
    save_figure(figure, options.json.with_suffix(".png"))


if __name__ == "__main__":
    main()
