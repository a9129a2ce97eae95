"""Which utterances make which batch: a pure function of the table, the seed and the epoch.

Lhotse's samplers resume by drawing everything again up to where they were, and their state belongs
to one rank of one world size. Here the order of an epoch is computed, so that a place in it is two
numbers, resuming costs nothing, and any number of processes can share it.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arborvox.batching import cut_batches
from arborvox.data import Order, UtteranceTable


@dataclass(frozen=True)
class EpochPlan:
    """One epoch's batches over all ranks together."""

    epoch: int
    rows: NDArray[np.int64]  # (N,) table rows, neighbors of about the same length
    speeds: NDArray[np.float64]  # (N,) how fast each is played
    seeds: NDArray[np.int64]  # (N,) of each utterance's augmentation
    batches: NDArray[np.int64]  # (num_batches, 2) begin and end in `rows`, in training order

    def __len__(self) -> int:
        return len(self.batches)

    def order(self, index: int, rank: int = 0, world: int = 1) -> Order:
        """Return a rank's share of one batch: every `world`-th of its utterances."""
        begin, end = self.batches[index]
        share = slice(begin + rank, end, world)
        return Order(
            epoch=self.epoch,
            index=index,
            rows=tuple(self.rows[share].tolist()),
            speeds=tuple(self.speeds[share].tolist()),
            seeds=tuple(self.seeds[share].tolist()),
        )


@dataclass(frozen=True)
class Planner:
    """Lays out epochs; holds what does not change between them."""

    table: UtteranceTable
    batch_s: float
    speeds: tuple[float, ...]
    language_temperature: float
    duration_jitter: float
    seed: int
    mixed_shards: int = 16

    def plan(self, epoch: int) -> EpochPlan:
        """Draw, sort by length and cut one epoch."""
        chance = np.random.default_rng([self.seed, epoch])
        languages = np.asarray(self.table.columns["language"])
        rows = draw_rows(languages, self.language_temperature, chance)
        speeds = chance.choice(np.array(self.speeds), len(rows))
        seeds = chance.integers(2**32, size=len(rows))
        durations_s = self.table.columns["duration_s"][rows] / speeds
        # Sorted by length, little is padded; the jitter keeps an utterance from always meeting the
        # same neighbors, and mixes the more the denser the corpus is.
        blurred = durations_s * chance.uniform(
            1 - self.duration_jitter, 1 + self.duration_jitter, len(rows)
        )
        if self.table.shards is None:
            order = np.argsort(blurred, kind="stable")
            borders = np.array([0, len(rows)])
        else:
            windows = self._windows(np.asarray(self.table.shards), chance)[rows]
            order = np.lexsort((blurred, windows))
            borders = np.flatnonzero(np.diff(windows[order], prepend=-1, append=-1))
            del windows
        del blurred
        durations_s = durations_s[order]
        batches = []
        for begin, end in itertools.pairwise(borders.tolist()):
            longest_s = np.maximum.accumulate(durations_s[begin:end])  # so far, despite jitter
            batches.append(chance.permutation(begin + cut_batches(longest_s, self.batch_s)))
        return EpochPlan(
            epoch=epoch,
            rows=rows[order],
            speeds=speeds[order],
            seeds=seeds[order],
            batches=np.concatenate(batches) if batches else np.empty((0, 2), np.int64),
        )

    def _windows(self, shards: NDArray[np.int32], chance: np.random.Generator) -> NDArray[np.int32]:
        """Return for each row which part of the epoch it is in: some shards each, drawn anew.

        So a shard is read in one part of an epoch, from a disk or from far away, and forgotten.
        """
        places = chance.permutation(int(shards.max()) + 1 if len(shards) else 0)
        windows: NDArray[np.int32] = (places // self.mixed_shards).astype(np.int32)
        return windows[shards]


def draw_rows(
    languages: NDArray[np.int32], temperature: float, chance: np.random.Generator
) -> NDArray[np.int64]:
    """Choose an epoch's rows: a language of share p gets a share ~ p^(1/temperature) of it.

    Temperature 1 takes every row once; a high one hears all languages equally often.
    """
    counts = np.bincount(languages)
    weights = np.where(counts > 0, np.maximum(counts, 1) ** (1.0 / temperature), 0.0)
    quotas = np.rint(weights / weights.sum() * len(languages)).astype(np.int64)
    chosen = []
    for language, quota in enumerate(np.where(counts > 0, np.maximum(quotas, 1), 0)):
        members = np.flatnonzero(languages == language)
        whole, rest = divmod(int(quota), max(len(members), 1))
        # Every row as often as its neighbors, give or take one.
        chosen += [np.tile(members, whole), chance.permutation(members)[:rest]]
    return np.concatenate(chosen) if chosen else np.empty(0, np.int64)


def stream_orders(
    planner: Planner,
    *,
    epoch: int,
    batch: int,
    max_epochs: int,
    rank: int = 0,
    world: int = 1,
) -> Iterator[Order]:
    """Yield a rank's orders from a place on, over the borders of epochs."""
    while epoch < max_epochs:
        plan = planner.plan(epoch)
        for index in range(batch, len(plan)):
            yield plan.order(index, rank, world)
        epoch, batch = epoch + 1, 0


def at_own_speed(orders: Iterable[Order]) -> Iterator[Order]:
    """Yield the same batches with every utterance as it was spoken."""
    for order in orders:
        yield replace(order, speeds=(1.0,) * len(order.rows))
