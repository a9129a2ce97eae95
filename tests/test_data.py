"""Laws of tables, plans and batches."""

import gzip
import json
import multiprocessing
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_corpus import TinyCorpus, make_corpus

from arborvox.batching import cut_batches
from arborvox.config import AugmentConfig, FeaturesConfig
from arborvox.data import COLUMNS, PADDING, BatchReader, Order, UtteranceTable, build_table
from arborvox.errors import ArborvoxError
from arborvox.features import LogMel
from arborvox.tokens import UNK_ID, Tokenizer
from arborvox.training.loader import load_batches, plain_orders
from arborvox.training.plan import EpochPlan, Planner, draw_rows, stream_orders

LOG_MEL = LogMel(FeaturesConfig())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """A corpus that tests only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))


def open_table(corpus: TinyCorpus, folder: Path, max_duration_s: float = 30.0) -> UtteranceTable:
    """Build the training table."""
    return build_table(
        folder / "train",
        corpus.manifests / "cuts_train.jsonl.gz",
        Tokenizer.load(corpus.tokens),
        source="test",
        max_duration_s=max_duration_s,
        unknown_id=UNK_ID,
    )


@pytest.fixture(scope="module")
def table(corpus: TinyCorpus, tmp_path_factory: pytest.TempPathFactory) -> UtteranceTable:
    """The training table of the corpus."""
    return open_table(corpus, tmp_path_factory.mktemp("table"))


def fake_table(durations_s: np.ndarray, languages: np.ndarray | None = None) -> Any:
    """Return what a planner needs of a table, without any audio."""
    columns = np.zeros(len(durations_s), COLUMNS)
    columns["duration_s"] = durations_s
    columns["language"] = 0 if languages is None else languages
    return SimpleNamespace(columns=columns, shards=None)


def make_planner(table: Any, **changes: Any) -> Planner:
    """Return a planner with usual settings."""
    settings_: dict[str, Any] = {
        "table": table,
        "batch_s": 20.0,
        "speeds": (0.9, 1.0, 1.1),
        "language_temperature": 1.0,
        "duration_jitter": 0.03,
        "seed": 0,
    }
    return Planner(**(settings_ | changes))


def test_table_holds_every_line_of_the_manifest(table: UtteranceTable, corpus: TinyCorpus) -> None:
    """Rows are the manifest's cuts, in order, with their texts encoded."""
    tokenizer = Tokenizer.load(corpus.tokens)
    with gzip.open(corpus.manifests / "cuts_train.jsonl.gz", "rt") as file:
        cuts = [json.loads(line) for line in file]
    assert len(table) == len(cuts) == 24
    for row, cut in enumerate(cuts):
        utterance = table[row]
        assert utterance.id == cut["id"]
        assert utterance.text == cut["supervisions"][0]["text"]
        assert tokenizer.decode(utterance.tokens) == utterance.text
        assert table.languages[table.columns["language"][row]] == utterance.language


def test_too_long_utterances_are_left_out_and_listed(corpus: TinyCorpus, tmp_path: Path) -> None:
    """What passes the limit is not in the table but in skipped.tsv."""
    table = open_table(corpus, tmp_path, max_duration_s=0.5)
    assert 0 < len(table) < 24
    assert table.columns["duration_s"].max() <= 0.5
    lines = (table.folder / "skipped.tsv").read_text().splitlines()
    assert len(lines) == table.num_skipped == 24 - len(table)
    assert "longer than 0.5 s" in lines[0]


@pytest.mark.parametrize("line", ["{}", "no json", '{"id": "x", "supervisions": []}'])
def test_damaged_manifest_is_named_with_its_line(
    line: str, corpus: TinyCorpus, tmp_path: Path
) -> None:
    """A line that is no cut is an error that says where."""
    manifest = tmp_path / "cuts_train.jsonl.gz"
    with gzip.open(manifest, "wt") as file:
        file.write(line + "\n")
    with pytest.raises(ArborvoxError, match=r"cuts_train.jsonl.gz, line 1"):
        build_table(
            tmp_path / "t",
            manifest,
            Tokenizer.load(corpus.tokens),
            source="",
            max_duration_s=30,
            unknown_id=1,
        )


def test_plan_is_a_function_of_seed_and_epoch(table: UtteranceTable) -> None:
    """The same two numbers give the same epoch; another epoch is another order."""

    def layout(plan: EpochPlan) -> list[Order]:
        return [plan.order(i) for i in range(len(plan))]

    assert layout(make_planner(table).plan(3)) == layout(make_planner(table).plan(3))
    assert layout(make_planner(table).plan(3)) != layout(make_planner(table).plan(4))
    assert layout(make_planner(table).plan(3)) != layout(make_planner(table, seed=1).plan(3))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    durations_s=st.lists(st.floats(0.1, 40.0), min_size=1, max_size=300),
    batch_s=st.floats(1.0, 200.0),
    world=st.integers(1, 4),
)
def test_every_utterance_once_and_no_batch_too_large(
    durations_s: list[float], batch_s: float, world: int
) -> None:
    """An epoch is a partition, whatever the ranks; a batch passes the limit only when single."""
    table = fake_table(np.array(durations_s))
    plan = make_planner(table, batch_s=batch_s).plan(0)
    seen: Counter[int] = Counter()
    for index in range(len(plan)):
        shares = [plan.order(index, rank, world) for rank in range(world)]
        rows = [row for share in shares for row in share.rows]
        lengths = [
            table.columns["duration_s"][row] / speed
            for share in shares
            for row, speed in zip(share.rows, share.speeds, strict=True)
        ]
        assert len(rows) == 1 or max(lengths) * len(rows) <= batch_s * (1 + 1e-6)
        seen.update(rows)
    assert seen == Counter(range(len(durations_s)))


def test_cut_batches_covers_everything_once() -> None:
    """Batches touch each other and leave nothing out."""
    batches = cut_batches(np.sort(np.random.default_rng(0).uniform(0.2, 9.0, 500)), 30.0)
    assert batches[0, 0] == 0
    assert batches[-1, 1] == 500
    assert (batches[1:, 0] == batches[:-1, 1]).all()


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    lengths=st.lists(st.integers(1, 400), max_size=60), batch_s=st.sampled_from([0.5, 3.3, 6.0, 30])
)
def test_batches_are_cut_where_one_more_would_pass_the_limit(
    lengths: list[int], batch_s: float
) -> None:
    """The same rule from either end: as many as fit, counted by the longest."""
    for ordered in (sorted(lengths), sorted(lengths, reverse=True)):
        durations_s = np.array(ordered) * 0.1
        expected, begin = [], 0
        for end in range(1, len(ordered) + 1):
            if (
                end == len(ordered)
                or durations_s[begin : end + 1].max() * (end + 1 - begin) > batch_s
            ):
                expected.append([begin, end])
                begin = end
        assert cut_batches(durations_s, batch_s).tolist() == expected


def test_little_is_padded() -> None:
    """Under 5 % at the durations of a corpus of short utterances, jitter and speeds included."""
    chance = np.random.default_rng(0)
    table = fake_table(np.exp(chance.normal(0.0, 0.4, 5000)))
    plan = make_planner(table, batch_s=100.0).plan(0)
    heard = padded = 0.0
    for index in range(len(plan)):
        order = plan.order(index)
        lengths = table.columns["duration_s"][list(order.rows)] / np.array(order.speeds)
        heard += lengths.sum()
        padded += lengths.max() * len(lengths)
    assert 1 - heard / padded < 0.05


def test_temperature_gives_small_languages_a_larger_share() -> None:
    """Temperature 1 takes each row once; a high one hears languages equally often."""
    languages = np.repeat([0, 1], [900, 100]).astype(np.int32)
    chance = np.random.default_rng(0)
    plain = draw_rows(languages, 1.0, chance)
    assert sorted(plain.tolist()) == list(range(1000))
    even = draw_rows(languages, 1e6, chance)
    assert np.bincount(languages[even]).tolist() == [500, 500]
    heard = np.bincount(even)[900:]
    assert set(heard.tolist()) == {5}
    half = np.bincount(languages[draw_rows(languages, 2.0, chance)])
    assert half[1] / half.sum() == pytest.approx(0.25, abs=0.01)


def test_stream_from_a_place_is_the_rest_of_the_stream(table: UtteranceTable) -> None:
    """Resuming needs the place alone, also at the end of an epoch."""
    planner = make_planner(table, batch_s=3.0)
    whole = list(stream_orders(planner, epoch=0, batch=0, max_epochs=3))
    per_epoch = [len(planner.plan(epoch)) for epoch in range(3)]
    assert len(whole) == sum(per_epoch)
    for consumed in (1, per_epoch[0], per_epoch[0] + 2):
        last = whole[consumed - 1]
        rest = stream_orders(planner, epoch=last.epoch, batch=last.index + 1, max_epochs=3)
        assert list(rest) == whole[consumed:]


def test_workers_may_be_started_afresh(table: UtteranceTable) -> None:
    """Where nothing is forked (macOS, Windows) all that a worker needs travels by pickle."""
    orders = list(plain_orders(table, batch_s=8.0))[:2]
    reader = BatchReader(table, LOG_MEL, AugmentConfig(), torch.zeros(80))
    here, there = (list(load_batches(reader, orders, workers, "spawn")) for workers in (0, 1))
    assert len(here) == len(there) == 2
    for one, two in zip(here, there, strict=True):
        assert torch.equal(one.features, two.features)


def test_batches_do_not_depend_on_workers(table: UtteranceTable) -> None:
    """No worker, one or two: the same tensors in the same order."""
    orders = list(stream_orders(make_planner(table, batch_s=5.0), epoch=0, batch=0, max_epochs=1))
    reader = BatchReader(table, LOG_MEL, AugmentConfig(), torch.zeros(80))
    lists = [list(load_batches(reader, orders, workers)) for workers in (0, 1, 2)]
    for other in lists[1:]:
        for one, two in zip(lists[0], other, strict=True):
            assert torch.equal(one.features, two.features)
            assert torch.equal(one.tokens, two.tokens)
            assert (one.epoch, one.index, one.utterances) == (two.epoch, two.index, two.utterances)


LOCK = threading.Lock()


class Locked:
    """Says whether a lock could be had."""

    def read(self, order: Order) -> bool:
        return LOCK.acquire(blocking=False)


def test_workers_take_over_no_lock_of_their_parent(table: UtteranceTable) -> None:
    """A thread of the parent may hold one, which no thread of the worker would ever let go of."""
    with LOCK:
        assert list(load_batches(Locked(), list(plain_orders(table, 8.0))[:1], 1)) == [True]


def test_workers_survive_threads_in_the_parent(table: UtteranceTable) -> None:
    """OpenMP and Numba pools that run in the parent do not hang a worker."""
    from numba import njit, prange

    @njit(parallel=True)
    def add_up(values: np.ndarray) -> float:
        total = 0.0
        for i in prange(len(values)):
            total += values[i]
        return total

    add_up(np.ones(100_000))
    torch.rand(600, 600) @ torch.rand(600, 600)
    reader = BatchReader(table, LOG_MEL)
    batches = list(load_batches(reader, plain_orders(table, 5.0), 2))
    assert sum(len(batch.utterances) for batch in batches) == 24
    assert not multiprocessing.active_children()


def test_cached_features_are_the_computed_ones(table: UtteranceTable, tmp_path: Path) -> None:
    """First time computed, second time read: bit for bit the same, at each speed."""
    plain = BatchReader(table, LOG_MEL, AugmentConfig(), torch.zeros(80))
    cached = BatchReader(
        table, LOG_MEL, AugmentConfig(), torch.zeros(80), cache=str(tmp_path / "cache")
    )
    order = make_planner(table).plan(0).order(0)
    first = plain.read(order)
    for _ in range(2):
        assert torch.equal(cached.read(order).features, first.features)
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == len(order.rows)


def test_padding_is_marked(table: UtteranceTable) -> None:
    """Lengths say what is real: beyond them tokens are -1 and features 0."""
    batch = BatchReader(table, LOG_MEL).read(
        Order(0, 0, rows=(0, 1, 2), speeds=(1.0,) * 3, seeds=(0,) * 3)
    )
    for row, utterance in enumerate(batch.utterances):
        length = batch.token_lens[row]
        assert tuple(batch.tokens[row, :length].tolist()) == utterance.tokens
        assert (batch.tokens[row, length:] == PADDING).all()
        assert (batch.features[row, batch.feature_lens[row] :] == 0).all()
    assert batch.num_frames <= batch.num_padded_frames


def test_missing_audio_is_left_out_and_named(tmp_path: Path) -> None:
    """A file that vanished costs its utterance, not the batch; without any, silence remains."""
    corpus = make_corpus(tmp_path, num_train=4, num_dev=1)
    table = open_table(corpus, tmp_path)
    (corpus.audio / "train-001.wav").unlink()
    for cache in (None, str(tmp_path / "cache")):
        reader = BatchReader(table, LOG_MEL, cache=cache)
        batch = reader.read(Order(0, 0, (0, 1, 2), (1.0,) * 3, (0,) * 3))
        assert [u.id for u in batch.utterances] == ["train-000", "train-002"]
        assert batch.skipped[0][0] == "train-001"
        nothing = reader.read(Order(0, 0, (1,), (1.0,), (0,)))
        assert nothing.utterances == ()
        assert nothing.num_targets == nothing.num_frames == nothing.num_padded_frames == 0
        assert len(nothing.features) == len(nothing.tokens) == 1
