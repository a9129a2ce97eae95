"""Finished experiments made up by hand, to be reported on without training anything."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

from arborvox.files import write_json_atomic
from arborvox.report.experiment import Experiment, ModelEntry, RunEntry
from arborvox.score import read_hypotheses, score_hypotheses, scores_as_json
from arborvox.tokens import Tokenizer
from arborvox.tree import HuffmanTree, save_tree

LANGUAGES = ("ca", "es", "it")
LETTERS = "abcdefghij "


def make_experiment(
    folder: Path,
    error_rates: dict[str, float],
    *,
    seeds: Sequence[int] = (0, 1),
    settings: Sequence[str] = ("free",),
    num_utterances: int = 30,
    against: dict[str, str] | None = None,
) -> Experiment:
    """Write an experiment whose models make errors at the given rates."""
    (folder / "tokens").mkdir(parents=True)
    units = ("<eos>", "<unk>", *sorted(LETTERS))
    counts = {name: tuple(range(1, len(units) + 1)) for name in LANGUAGES}
    Tokenizer(unit="char", units=units, counts=counts).save(folder / "tokens/tokens.json")
    save_tree(HuffmanTree.from_counts(range(1, len(units) + 1), units), folder / "tree.json")
    splits = {name: {"utterances": 12, "hours": 0.34} for name in ("train", "dev", "test")}
    stats = {
        "kind": "folder",
        "total": splits,
        "languages": dict.fromkeys(LANGUAGES, splits),
        "skipped": {"too long": 7},
    }
    write_json_atomic(folder / "stats.json", stats)
    models = []
    for model, rate in error_rates.items():
        runs = [
            _make_run(folder, f"{model}-{seed}", rate, seed, settings, num_utterances)
            for seed in seeds
        ]
        opponent = (against or {}).get(model)
        changes = {"model.output": model}
        models.append(
            ModelEntry(model, model.title(), changes, 1234567, tuple(runs), against=opponent)
        )
    experiment = Experiment(
        name="Made <up> & told",
        command="arborvox run made_up.yaml --out somewhere",
        seeds=tuple(seeds),
        samples=200,
        bootstrap_seed=0,
        num_examples=5,
        recipe="name: made up\n",
        environment={"Arborvox": "1.2.3", "Processor": "an abacus"},
        stats="stats.json",
        tokens="tokens/tokens.json",
        tree="tree.json",
        models=tuple(models),
    )
    experiment.save(folder)
    return experiment


def _make_run(
    folder: Path, name: str, rate: float, seed: int, settings: Sequence[str], num_utterances: int
) -> RunEntry:
    run = folder / name
    run.mkdir()
    records = [
        {"kind": "train", "step": 1, "loss": 3.0},
        {"kind": "train", "step": 2, "loss": None},
        {"kind": "train", "step": 3, "loss": 2.0},
        {"kind": "dev", "step": 3, "error_rate": 0.5},
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    paths: dict[str, dict[str, str]] = {"hypotheses": {}, "scores": {}, "speed": {}}
    for setting in settings:
        hypotheses = run / f"{setting}.jsonl"
        _write_hypotheses(hypotheses, rate, seed, num_utterances)
        score_file(hypotheses)
        write_json_atomic(run / f"{setting}.speed.json", SPEED)
        paths["hypotheses"][setting] = f"{name}/{setting}.jsonl"
        paths["scores"][setting] = f"{name}/{setting}.scores.json"
        paths["speed"][setting] = f"{name}/{setting}.speed.json"
    return RunEntry(seed=seed, run=name, train_s=90.0, **paths)


def score_file(hypotheses: Path) -> None:
    """Write the scores of a hypothesis file beside it."""
    file = read_hypotheses(hypotheses)
    scores = score_hypotheses(file.transcriptions, file.unit, num_samples=200)
    write_json_atomic(hypotheses.with_suffix(".scores.json"), scores_as_json(scores, file))


STAGES = ("features", "encoder", "decoder", "output layer", "search")
SPEED = {
    "audio_s": 100.0,
    "seconds": dict.fromkeys(STAGES, 0.5),
    "rtf": {**dict.fromkeys(STAGES, 0.005), "total": 0.0251},
    "mode": "joint",
    "beam": 10,
    "precision": "fp32",
    "threads": 2,
    "batch_s": 160.0,
}


def _write_hypotheses(path: Path, rate: float, seed: int, num_utterances: int) -> None:
    said, luck = random.Random(1), random.Random(f"{rate} {seed}")
    lines = [{"arborvox_hypotheses": 1, "unit": "char", "mode": "ctc-greedy", "run": path.stem}]
    for number in range(num_utterances):
        reference = "".join(said.choices(LETTERS, k=12)).strip() + "a"
        heard = "".join(luck.choice("xyz") if luck.random() < rate else c for c in reference)
        language = LANGUAGES[number % len(LANGUAGES)]
        lines.append(
            {
                "id": f"{language}-{number}",
                "language": language,
                "reference": reference,
                "text": heard,
            }
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
