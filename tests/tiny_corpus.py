"""A made-up corpus whose units are tones, so that small models can learn it in seconds."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from lhotse import CutSet, MonoCut, Recording, SupervisionSegment

from arborvox.config import Recipe, show_recipe, validate_recipe
from arborvox.tokens import Tokenizer
from arborvox.train import train as run_training
from arborvox.training.ending import TrainResult
from arborvox.training.records import read_records
from arborvox.tree import HuffmanTree, save_tree

PHONES = ("a", "b", "d", "e", "g")
RATE = 16000


@dataclass(frozen=True)
class TinyCorpus:
    """Where its files are."""

    manifests: Path
    tokens: Path
    tree: Path
    audio: Path


def make_corpus(
    folder: Path,
    *,
    num_train: int = 24,
    num_dev: int = 6,
    languages: Sequence[str] = ("x-a", "x-b"),
    seed: int = 0,
) -> TinyCorpus:
    """Write wavs, manifests, tokens and a tree."""
    corpus = TinyCorpus(
        folder / "manifests", folder / "tokens.json", folder / "tree.json", folder / "audio"
    )
    corpus.manifests.mkdir(parents=True)
    corpus.audio.mkdir()
    chance = np.random.default_rng(seed)
    counts = dict.fromkeys(languages, (1,) * (2 + len(PHONES)))
    for split, number in (("train", num_train), ("dev", num_dev)):
        cuts = []
        for i in range(number):
            phones = [str(p) for p in chance.choice(PHONES, chance.integers(2, 6))]
            path = corpus.audio / f"{split}-{i:03d}.wav"
            samples = np.concatenate([tone(phone, chance) for phone in phones])
            soundfile.write(path, samples, RATE)
            cuts.append(make_cut(path, " ".join(phones), languages[i % len(languages)]))
        CutSet.from_cuts(cuts).to_file(corpus.manifests / f"cuts_{split}.jsonl.gz")
    tokenizer = Tokenizer(unit="phone", units=("<eos>", "<unk>", *PHONES), counts=counts)
    tokenizer.save(corpus.tokens)
    save_tree(HuffmanTree.from_counts([9, 1, 8, 7, 6, 5, 4], tokenizer.units), corpus.tree)
    return corpus


def make_cut(path: Path, text: str, language: str) -> MonoCut:
    """Describe a recording as the corpus preparers do."""
    recording = Recording.from_file(path)
    segment = SupervisionSegment(
        id=path.stem,
        recording_id=recording.id,
        start=0,
        duration=recording.duration,
        text=text,
        language=language,
        speaker="one",
    )
    return MonoCut(
        id=path.stem,
        start=0,
        duration=recording.duration,
        channel=0,
        supervisions=[segment],
        recording=recording,
    )


def tone(phone: str, chance: np.random.Generator) -> np.ndarray:
    """Return 0.1 to 0.25 s of a phone's own pitch, in a little noise."""
    num_samples = int(RATE * chance.uniform(0.1, 0.25))
    pitch = 300.0 * 1.6 ** PHONES.index(phone)
    wave = 0.3 * np.sin(2 * np.pi * pitch * np.arange(num_samples) / RATE)
    return (wave + 0.01 * chance.normal(size=num_samples)).astype(np.float32)


def make_recipe(
    *,
    output: str = "hierarchical",
    train: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    augment: dict[str, Any] | None = None,
    features: dict[str, Any] | None = None,
) -> Recipe:
    """Return a recipe for a model that learns the corpus in seconds."""
    sections = {
        "name": "tiny",
        "features": features or {},
        "augment": augment or {},
        "model": {"size": "tiny", "output": output, **(model or {})},
        "train": {
            "batch_s": 4.0,
            "max_steps": 12,
            "save_every": 5,
            "warmup_steps": 10,
            "learning_rate": 2e-3,
            "workers": 0,  # each process that has some takes seconds to start a server for them
            **(train or {}),
        },
    }
    return validate_recipe(sections, name="test")


def train_corpus(recipe: Recipe, corpus: TinyCorpus, out: Path) -> TrainResult:
    """Train on the corpus in this process."""
    return run_training(
        recipe, out=out, manifests=corpus.manifests, tokens=corpus.tokens, tree=corpus.tree
    )


def command_arguments(recipe: Recipe, corpus: TinyCorpus, out: Path) -> list[str]:
    """Return what follows `python` to train on the corpus in another process."""
    path = out.with_name(f"{out.name}-recipe.yaml")
    path.write_text(show_recipe(recipe), encoding="utf-8")
    script = Path(__file__).with_name("train_command.py")
    paths = {"manifests": corpus.manifests, "tokens": corpus.tokens, "tree": corpus.tree}
    options = [f"--{name}={value}" for name, value in paths.items()]
    return [str(script), "train", str(path), f"--out={out}", *options]


def run_process(arguments: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with one thread, as bit-identical results need the same number everywhere."""
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "COLUMNS": "500"}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **threads, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        start_new_session=True,  # a signal to its group stays there
    )


def step_losses(run: Path) -> list[float | None]:
    """Return the training loss of each step."""
    return [r["loss"] for r in read_records(run / "metrics.jsonl") if r["kind"] == "train"]
