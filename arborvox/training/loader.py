"""Batches ahead of time, made by worker processes, in the order of the plan."""

import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from arborvox.batching import cut_batches
from arborvox.console import progress
from arborvox.data import BatchReader, Order, UtteranceTable
from arborvox.errors import ArborvoxError
from arborvox.features import CMVN, feature_sums
from arborvox.processes import count_cores

# So much of a large corpus is enough for 2 x 80 numbers; smaller ones are read whole.
MAX_CMVN_UTTERANCES = 20_000

ORPHAN_CHECK_S = 1.0
CAN_SEE_SENDERS = hasattr(signal, "sigtimedwait")  # not on macOS

# Workers are forks of a process that has imported what they need and has no threads. A fork of this
# one would take over the locks that its threads hold at that moment, and wait for them for ever:
# libraries that let processes speak with each other have such threads.
START_METHOD = "forkserver" if sys.platform == "linux" else "spawn"
# For readers that hold a whole encoder, laid out for the processor, which cannot be sent. They fork
# once, before the first step has started the threads of backward passes.
SHARING_MEMORY = "fork" if sys.platform == "linux" else "spawn"


Made = TypeVar("Made", covariant=True)
Ordered = TypeVar("Ordered")
OrderedOf = TypeVar("OrderedOf", contravariant=True)


class Reader(Protocol[OrderedOf, Made]):
    """Makes something of an order, the same in any process."""

    def read(self, order: OrderedOf, /) -> Made:
        """Return what was ordered."""


class _PackedBatches(Dataset[bytes]):
    """Lets a DataLoader look batches up by their order.

    They travel as bytes through a pipe. Tensors would go through shared memory, and where that is
    full, as in small containers, PyTorch loses the batch and waits for it for ever.
    """

    def __init__(self, reader: Reader[Any, Any]) -> None:
        self._reader = reader

    def __getitem__(self, order: Any) -> bytes:
        return pickle.dumps(self._reader.read(order), protocol=pickle.HIGHEST_PROTOCOL)


def load_batches(
    reader: Reader[Ordered, Made],
    orders: Iterable[Ordered],
    workers: int,
    start_method: str = START_METHOD,
) -> Generator[Made, None, None]:
    """Yield the batch of each order, in their order, whatever the number of workers."""
    if workers == 0:
        yield from map(reader.read, orders)
        return
    if start_method == "forkserver":
        multiprocessing.set_forkserver_preload([__name__])
    loader = DataLoader(
        _PackedBatches(reader),
        sampler=orders,
        batch_size=None,  # the orders are batches already
        num_workers=workers,
        prefetch_factor=4,
        multiprocessing_context=start_method,
        worker_init_fn=_start_worker,
    )
    for packed in loader:
        yield pickle.loads(packed)


@contextmanager
def explain_killed_worker() -> Iterator[None]:
    """Turn the end of a worker into a sentence: PyTorch raises it wherever the parent stands."""
    try:
        yield
    except RuntimeError as error:
        if not re.search("DataLoader worker .*(killed by signal|exited unexpectedly)", str(error)):
            raise
        raise ArborvoxError(
            "A process that reads audio was killed, as happens when memory runs out; run the same "
            "command again to go on from the last checkpoint, "
            "with a smaller train.batch_s if it happens again."
        ) from error


def _start_worker(worker: int) -> None:
    """Let a worker outlive the signal after which its parent ends a step, but not its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if CAN_SEE_SENDERS:  # kept for the thread; a cluster ends a job by SIGTERM to all processes
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_leave_with_parent, args=(parent,), daemon=True).start()


def _leave_with_parent(parent: BaseProcess) -> None:
    """End an orphan: PyTorch's own watch waits for ever to hand over a batch that nobody takes.

    End also when the parent says so: by SIGTERM Python ends what still runs when a failed parent
    exits, and then waits.
    """
    while parent.is_alive():
        if not CAN_SEE_SENDERS:
            time.sleep(ORPHAN_CHECK_S)
            continue
        told = signal.sigtimedwait({signal.SIGTERM}, ORPHAN_CHECK_S)
        if told is not None and told.si_pid == parent.pid:
            break
    os._exit(1)


def plain_orders(
    table: UtteranceTable,
    batch_s: float,
    rank: int = 0,
    world: int = 1,
    chosen: NDArray[np.int64] | None = None,
) -> Iterator[Order]:
    """Yield a rank's share of a table's rows, once, sorted by length: for evaluation."""
    durations_s = table.columns["duration_s"].astype("float64")
    by_length = durations_s.argsort(kind="stable")
    if chosen is not None:
        by_length = by_length[np.isin(by_length, chosen)]
    batches = cut_batches(durations_s[by_length], batch_s).tolist() if len(by_length) else []
    for index in range(rank, len(batches), world):
        begin, end = batches[index]
        rows = tuple(by_length[begin:end].tolist())
        yield Order(0, index, rows, speeds=(1.0,) * len(rows), seeds=(0,) * len(rows))


def measure_cmvn(reader: BatchReader, batch_s: float) -> CMVN:
    """Compute the mean and deviation of a table's features, on all cores, order kept."""
    table = reader.table
    every = max(1, len(table) // MAX_CMVN_UTTERANCES)
    if table.shards is None:
        orders = list(plain_orders(table, batch_s))[::every]
    else:  # whole shards, evenly spread: of each a part would have to be fetched
        chosen = np.flatnonzero(np.asarray(table.shards) % every == 0)
        orders = list(plain_orders(table, batch_s, chosen=chosen))
    sums = []
    with progress("features: mean and deviation", len(orders)) as advance:
        for batch in load_batches(reader, orders, workers=count_cores()):
            lens = batch.feature_lens.tolist()
            for row in range(len(batch.utterances)):
                sums.append(feature_sums(batch.features[row, : lens[row]]))
            advance()
    if not sums:
        raise ArborvoxError(
            f"No training recording can be read, not even {table[0].audio}; "
            "run `arborvox prepare` again where the audio is now."
        )
    return CMVN.from_sums(sums)
