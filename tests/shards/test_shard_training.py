"""Laws of training from shards: the plan is a function of the seed, and a broken shard is named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_corpus import TinyCorpus, make_corpus, make_recipe, train_corpus

from arborvox.config import FeaturesConfig
from arborvox.corpora.manifests import SKIPPED_NAME, STATS_NAME
from arborvox.data import BatchReader, Order, UtteranceTable, build_table
from arborvox.features import LogMel
from arborvox.model.checkpoint import load_weights
from arborvox.shards.packing import pack_manifests
from arborvox.tokens import UNK_ID, Tokenizer
from arborvox.training.plan import Planner, stream_orders


@pytest.fixture
def corpus(tmp_path: Path) -> TinyCorpus:
    """A corpus whose recordings lie in shards of four."""
    made = make_corpus(tmp_path / "corpus")
    (made.manifests / STATS_NAME).write_text("{}")
    (made.manifests / "cuts_test.jsonl.gz").write_bytes(
        (made.manifests / "cuts_dev.jsonl.gz").read_bytes()
    )
    pack_manifests(made.manifests, 4, "shar", seed=0, jobs=1, seal=STATS_NAME, skipped=SKIPPED_NAME)
    for path in made.audio.glob("*.wav"):
        path.unlink()
    return made


@pytest.fixture
def table(corpus: TinyCorpus, tmp_path: Path) -> UtteranceTable:
    return build_table(
        tmp_path / "table",
        corpus.manifests / "cuts_train.jsonl.gz",
        Tokenizer.load(corpus.tokens),
        source="test",
        max_duration_s=30.0,
        unknown_id=UNK_ID,
    )


def make_planner(table: UtteranceTable, seed: int = 0) -> Planner:
    return Planner(
        table=table,
        batch_s=1.5,
        speeds=(0.9, 1.0, 1.1),
        language_temperature=1.0,
        duration_jitter=0.03,
        seed=seed,
        mixed_shards=2,
    )


def test_a_part_of_an_epoch_reads_some_shards_and_each_once(table: UtteranceTable) -> None:
    assert table.shards is not None
    plan = make_planner(table).plan(0)
    orders = [plan.order(index) for index in range(len(plan))]
    assert sorted(row for order in orders for row in order.rows) == list(range(len(table)))
    open_shards: list[set[int]] = []
    for order in orders:
        shards = {int(table.shards[row]) for row in order.rows}
        if open_shards and open_shards[-1] | shards <= open_shards[-1]:
            continue
        if open_shards and len(open_shards[-1] | shards) <= 2:
            open_shards[-1] |= shards
        else:
            open_shards.append(shards)
    assert all(len(shards) <= 2 for shards in open_shards)
    assert sum(map(len, open_shards)) == int(table.shards.max()) + 1, "a shard was read twice"


def test_the_order_is_a_function_of_the_seed_and_goes_on_inside_a_shard(
    table: UtteranceTable,
) -> None:
    whole = list(stream_orders(make_planner(table), epoch=0, batch=0, max_epochs=2))
    assert whole == list(stream_orders(make_planner(table), epoch=0, batch=0, max_epochs=2))
    other = list(stream_orders(make_planner(table, seed=1), epoch=0, batch=0, max_epochs=2))
    assert whole != other
    for place in range(1, len(whole), 5):
        epoch, batch = whole[place].epoch, whole[place].index
        rest = stream_orders(make_planner(table), epoch=epoch, batch=batch, max_epochs=2)
        assert list(rest) == whole[place:]


def test_cached_features_are_the_computed_ones_and_one_file_a_shard(
    table: UtteranceTable, tmp_path: Path
) -> None:
    assert table.shards is not None
    rows = tuple(range(len(table)))
    order = Order(0, 0, rows, (1.1,) * len(rows), (0,) * len(rows))
    speech_input = LogMel(FeaturesConfig())
    plain = BatchReader(table, speech_input).read(order)
    for _ in range(2):  # written, then read
        reader = BatchReader(table, speech_input, cache=str(tmp_path / "cache"))
        cached = reader.read(order)
        assert torch.equal(plain.features, cached.features)
        assert not cached.cache_problem
    files = list((tmp_path / "cache").iterdir())
    assert len(files) == int(np.max(table.shards)) + 1
    for path in files:  # a cache that is damaged costs time only
        path.write_bytes(b"no database" * 100)
    broken = BatchReader(table, speech_input, cache=str(tmp_path / "cache")).read(order)
    assert torch.equal(plain.features, broken.features)
    assert broken.cache_problem


def test_training_names_a_shard_that_has_gone_and_one_that_is_cut_off(
    corpus: TinyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.set_num_threads(1)
    recipe = make_recipe(train={"max_steps": 6, "mixed_shards": 2, "workers": 0})
    shards = sorted((corpus.manifests / "shards/train").glob("*.tar"))
    shards[0].unlink()
    shards[1].write_bytes(shards[1].read_bytes()[:9000])
    result = train_corpus(recipe, corpus, tmp_path / "run")
    assert result.progress.step == 6
    told = " ".join(capsys.readouterr().err.split())
    assert "recording.000000.tar is missing" in told
    assert "recording.000001.tar ends in the middle" in told
    skipped = (tmp_path / "run/skipped.tsv").read_text().splitlines()
    assert result.progress.unreadable == len(skipped) > 4
    assert load_weights(tmp_path / "run/final", torch.device("cpu"))
