"""Many recordings checked at once, in processes that a crashing decoder may take down."""

import contextlib
import functools
import itertools
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path

from arborvox.audio.checking import check
from arborvox.audio.recording import AudioInfo, AudioProblem
from arborvox.errors import ArborvoxError
from arborvox.processes import count_cores

Verdict = AudioInfo | str  # the facts, or the reason why the file is unusable
Judge = Callable[[Path], Verdict]

_BATCH = 64  # paths that a worker gets at a time
_READY = "ready"


def check_many(
    paths: Iterable[Path],
    *,
    max_duration_s: float,
    min_duration_s: float = 0.0,
    decode: bool = False,
    jobs: int | None = None,
) -> Iterator[Verdict]:
    """Check recordings in parallel and yield, in order, the facts or the reason against each.

    A decoder that crashes costs the file that it was reading, never the run.
    """
    judge = functools.partial(
        _judge, max_duration_s=max_duration_s, min_duration_s=min_duration_s, decode=decode
    )
    return map_surviving(judge, paths, jobs=jobs or count_cores())


def map_surviving(judge: Judge, paths: Iterable[Path], *, jobs: int) -> Iterator[Verdict]:
    """Apply a picklable function to every path, in order, in processes that may die of it."""
    numbered = enumerate(paths)
    workers: list[_Worker] = []
    verdicts: dict[int, Verdict] = {}
    next_number = 0
    try:
        for _ in range(jobs):
            if batch := list(itertools.islice(numbered, _BATCH)):
                workers.append(_Worker(judge, batch))
        while workers:
            ready = set(wait([worker.connection for worker in workers]))
            for worker in [worker for worker in workers if worker.connection in ready]:
                verdicts.update(worker.receive())
                batch = list(worker.waiting) or list(itertools.islice(numbered, _BATCH))
                if not batch:
                    workers.remove(worker)
                    worker.stop()
                elif worker.is_dead:
                    workers[workers.index(worker)] = _Worker(judge, batch)
                    worker.stop()
                elif not worker.waiting:
                    worker.give(batch)
            while next_number in verdicts:
                yield verdicts.pop(next_number)
                next_number += 1
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process and the paths that it has been given but not yet judged."""

    def __init__(self, judge: Judge, batch: list[tuple[int, Path]]) -> None:
        # A fresh interpreter: forking a process that has threads (progress bars, BLAS) can hang.
        context = multiprocessing.get_context("spawn")
        self.connection, far_end = context.Pipe()
        self.is_dead = False
        self.waiting: deque[tuple[int, Path]] = deque()
        self._is_ready = False
        self._process = context.Process(target=_work, args=(judge, far_end), daemon=True)
        self._process.start()
        far_end.close()  # so that the end of the process is seen as the end of the pipe
        self.give(batch)

    def give(self, batch: list[tuple[int, Path]]) -> None:
        """Hand over paths; a worker that has died meanwhile is noticed on the next receive."""
        self.waiting.extend(batch)
        with contextlib.suppress(BrokenPipeError):
            self.connection.send([path for _, path in batch])

    def receive(self) -> dict[int, Verdict]:
        """Take the verdicts that have arrived; a dead worker's current path gets one for it."""
        verdicts: dict[int, Verdict] = {}
        try:
            while self.connection.poll():
                verdict = self.connection.recv()
                if self._is_ready:
                    verdicts[self.waiting.popleft()[0]] = verdict
                self._is_ready = True
        except (EOFError, ConnectionResetError):
            if not self._is_ready:
                raise ArborvoxError(
                    "Worker processes for checking audio do not start; in a script of your own, "
                    'call this under `if __name__ == "__main__":`.'
                ) from None
            self.is_dead = True
            if self.waiting:
                verdicts[self.waiting.popleft()[0]] = "crashes the decoder"
        return verdicts

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.connection.close()
        self._process.terminate()
        self._process.join()


def _work(judge: Judge, connection: "Connection[Verdict, list[Path]]") -> None:
    with contextlib.suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        connection.send(_READY)
        while True:
            for path in connection.recv():
                connection.send(judge(path))


def _judge(path: Path, *, max_duration_s: float, min_duration_s: float, decode: bool) -> Verdict:
    try:
        return check(
            path, max_duration_s=max_duration_s, min_duration_s=min_duration_s, decode=decode
        )
    except AudioProblem as problem:
        return str(problem)
    except Exception as error:  # decoders are other people's code, and one file must not end a run
        return f"cannot be read ({type(error).__name__})"
