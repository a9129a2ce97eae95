"""Runs that were damaged or come from strangers: training goes on, or says why not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_corpus import TinyCorpus, make_corpus, make_recipe, train_corpus

from arborvox.config import Recipe
from arborvox.errors import ArborvoxError


def recipe_of(steps: int) -> Recipe:
    return make_recipe(train={"max_steps": steps, "save_every": 2, "batch_s": 2.0})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    return make_corpus(tmp_path_factory.mktemp("corpus"), num_train=6, num_dev=2)


@pytest.fixture(scope="module")
def sound(corpus: TinyCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    run = tmp_path_factory.mktemp("run") / "run"
    train_corpus(recipe_of(2), corpus, run)
    return run


def told(**values: object) -> Callable[[Path], None]:
    """A change: the file, JSON, says something else."""

    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


def written(content: bytes) -> Callable[[Path], None]:
    """A change: the file holds something else."""
    return lambda path: path.write_bytes(content) and None


def cut(path: Path) -> None:
    """A change: half of the file is gone."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def shrink(path: Path) -> None:
    """A change: all tensors have one number less."""
    save_file({name: tensor.ravel()[1:] for name, tensor in load_file(path).items()}, path)


def other_columns(path: Path) -> None:
    """A change: a table of something else."""
    np.save(path, np.zeros((3, 4)))


def objects(path: Path) -> None:
    """A change: a table that could run code when it is read."""
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)


STATE, DATA = "state/step-000002", "data/train"
DAMAGES = [
    *[(f"{STATE}/trainer.json", change) for change in (cut, written(b"[1]"), told(step="two"))],
    *[(f"{STATE}/trainer.json", change) for change in (told(evaluations=[1]), told(version=9))],
    *[(f"{STATE}/optimizer.safetensors", change) for change in (cut, written(b""), shrink)],
    *[(f"{DATA}/table.json", change) for change in (cut, told(languages=3), written(b"7"))],
    *[(f"{DATA}/columns.npy", change) for change in (cut, other_columns, objects, written(b""))],
    *[
        (f"{DATA}/utterances.jsonl", change)
        for change in (cut, written(b"x" * 10_000), written(b""))
    ],
    *[("data/cmvn.safetensors", change) for change in (cut, shrink)],
    *[("metrics.jsonl", change) for change in (cut, written(b'[1]\n{"kind": 3}\n'))],
    ("metrics.jsonl", written(b'{"kind": "train", "step": 1, "loss": "low"}\n\xff\n')),
    ("config.yaml", written(b"- 1\n")),
]


def test_a_sound_run_goes_on(corpus: TinyCorpus, sound: Path, tmp_path: Path) -> None:
    run = shutil.copytree(sound, tmp_path / "run")
    (run / "checkpoints/step-of-mine").mkdir()
    (run / "state/step-x").mkdir()
    assert train_corpus(recipe_of(3), corpus, run).progress.step == 3


@pytest.mark.parametrize(
    ("name", "change"), DAMAGES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_damaged_run_goes_on_or_is_refused(
    corpus: TinyCorpus, sound: Path, tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    run = shutil.copytree(sound, tmp_path / "run")
    change(run / name)
    try:
        result = train_corpus(recipe_of(3), corpus, run)
    except ArborvoxError as error:
        assert str(run) in str(error)
        assert "\n" not in str(error)
    else:
        assert name == "metrics.jsonl"
        assert result.progress.step == 3
