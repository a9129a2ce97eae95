"""Laws of training in several processes."""

import math
from pathlib import Path

import pytest
import torch
from tiny_corpus import (
    TinyCorpus,
    command_arguments,
    make_corpus,
    make_recipe,
    run_process,
    step_losses,
    train_corpus,
)

# Sums over processes are added in another order than sums over a batch; in float32 the losses of
# a few steps then agree to about 1e-7, and 1e-4 leaves room for other machines' arithmetic.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """A corpus that tests only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("output", ["softmax", "hierarchical"])
def test_two_processes_follow_the_loss_curve_of_one(
    output: str, corpus: TinyCorpus, tmp_path: Path
) -> None:
    """Half the batch each, one of them killed and restarted on the way: the same curve."""
    torch.set_num_threads(1)
    # Dropout draws differ between processes, so it is off; augmentation is the utterance's own.
    recipe = make_recipe(
        output=output,
        model={"dropout": 0.0},
        train={"accumulate": 2, "max_steps": 8, "workers": 1},
    )
    train_corpus(recipe, corpus, tmp_path / "one")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    traps = {"KILL_AT": "backward:7", "KILL_RANK": "1", "KILL_ONCE": str(tmp_path / "died")}
    ended = run_process(
        [*torchrun, "--max-restarts=1", *command_arguments(recipe, corpus, tmp_path / "two")],
        **traps,
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "died").exists()
    one, two = step_losses(tmp_path / "one"), step_losses(tmp_path / "two")
    assert len(one) == len(two) == 8
    for first, second in zip(one, two, strict=True):
        assert first is not None
        assert second is not None
        assert math.isclose(first, second, rel_tol=TOLERANCE)
    assert (tmp_path / "two/final/model.safetensors").exists()
