"""Fifty strangers' inputs through the real command line, each in a process with limits."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from checkpoints import make_checkpoint
from strangers import INPUTS, OUT, Sound

import arborvox
from arborvox.config import DecodeConfig
from arborvox.recognizer import load

MOST_CPU_S = 20
MOST_BYTES = 2 << 30


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A model and a recording; using them here compiles the kernels that all processes share."""
    folder = tmp_path_factory.mktemp("sound")
    noise = np.random.default_rng(0).normal(0, 0.1, 16_000)
    soundfile.write(folder / "a.wav", noise, 16_000)
    model = make_checkpoint(folder / "model")
    load(model, DecodeConfig(device="cpu")).transcribe(folder / "a.wav")
    return Sound(model, folder / "a.wav")


def bound() -> None:
    """Let the kernel end whoever computes for longer, or writes more, than any input may cause."""
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))


def everything_in(folder: Path) -> dict[Path, tuple[int, int]]:
    """List files and folders below a folder with size and time."""
    facts = {path: path.lstat() for path in folder.rglob("*")}
    return {path: (of.st_size, of.st_mtime_ns) for path, of in facts.items()}


def test_there_are_fifty() -> None:
    assert len(INPUTS) == 50


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_a_strangers_input_is_bounded_and_answered(name: str, sound: Sound, tmp_path: Path) -> None:
    given, out = tmp_path / "given", tmp_path / "out"
    given.mkdir()
    words = [word.replace(OUT, str(out)) for word in INPUTS[name](given, sound)]
    before = everything_in(given) | everything_in(sound.model.parent)
    (tmp_path / "scratch").mkdir()  # so that whatever lies elsewhere is a mistake
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(arborvox.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(tmp_path / "scratch"),
    }
    with (tmp_path / "told").open("wb") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "arborvox", *words],
            cwd=given,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            preexec_fn=bound,
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = (tmp_path / "told").read_text(encoding="utf-8", errors="replace")
    assert "fault of arborvox" not in said
    assert "Traceback" not in said
    assert process.returncode in (0, 1, 2), said
    assert used.ru_maxrss * 1024 <= MOST_BYTES
    assert everything_in(given) | everything_in(sound.model.parent) == before
    assert {entry.name for entry in tmp_path.iterdir()} <= {"given", "out", "told", "scratch"}
