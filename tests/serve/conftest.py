"""One server with two tiny models for all tests of a process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.importorskip("starlette", reason="needs the extra `serve`")
from checkpoints import LETTERS, make_checkpoint
from running_server import RunningServer


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of both branches with a tree, and one with CTC alone and a softmax."""
    folder = tmp_path_factory.mktemp("models")
    units = (*LETTERS[:2], "<ca>", "<es>", *LETTERS[2:])
    return {
        "tree": make_checkpoint(
            folder / "tree", units=units, languages=("ca", "es"), language_tags=True,
            max_duration_s=6.0, output="hierarchical", ctc="hierarchical", seed=5,
            decode={"beam": 3},
        ),
        "plain": make_checkpoint(
            folder / "plain", max_duration_s=6.0, decoder="none", output="softmax", ctc="softmax"
        ),
    }  # fmt: skip


@pytest.fixture(scope="session")
def inventories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two inventories."""
    folder = tmp_path_factory.mktemp("inventories")
    (folder / "ab.txt").write_text("a\nb\n", encoding="utf-8")
    (folder / "cd.txt").write_text("c\nd\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def server(
    runs: dict[str, Path], inventories: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """A server of both models."""
    models = [f"{name}={path}" for name, path in runs.items()]
    options = [f"--inventories={inventories}", "--max-duration-s=60", "--max-upload-mb=4"]
    running = RunningServer([*models, *options], tmp_path_factory.mktemp("server"))
    yield running
    assert running.stop() == 0, running.log
    assert not running.left_files
