"""Laws of recordings from strangers: whatever the bytes are, there is a verdict and it is short."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from arborvox.audio.mp3 import walk_mp3
from arborvox.audio.ogg import ogg_problem


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("originals")
    noise = np.random.default_rng(0).uniform(-0.3, 0.3, 16_000)
    for name in ("a.mp3", "a.ogg"):
        soundfile.write(folder / name, noise, 16_000)
    return {path.suffix: path.read_bytes() for path in folder.iterdir()}


@examples(100, 2000)
@given(
    ending=st.sampled_from([".mp3", ".ogg"]),
    edits=st.lists(
        st.tuples(st.integers(0, 99), st.binary(max_size=30), st.integers(0, 30)), max_size=4
    ),
    alone=st.one_of(st.none(), st.binary(min_size=1, max_size=100)),
)
def test_no_bytes_stop_the_walk_over_a_container(
    originals: dict[str, bytes],
    ending: str,
    edits: list[tuple[int, bytes, int]],
    alone: bytes | None,
) -> None:
    content = originals[ending] if alone is None else originals[ending][:4] + alone
    for percent, put_in, taken_out in edits:
        at = len(content) * percent // 100
        content = content[:at] + put_in + content[at + taken_out :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{ending}"
        path.write_bytes(content or b"\0")
        if ending == ".ogg":
            problem = ogg_problem(path)
        else:
            walk = walk_mp3(path)
            problem = walk.problem if walk is not None else ""
    assert len(problem) < 100
    if content == originals[ending]:
        assert problem == ""
