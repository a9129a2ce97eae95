"""Processes of ours that answer over a pipe: what breaks there breaks nothing here."""

import asyncio
import contextlib
import multiprocessing
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

# Its socket has a name below the temporary folder, and such names are short.
LONGEST_TEMPORARY = 60


def _context() -> Any:
    """Return a way to start processes: forks of one that has little loaded, which cost little."""
    ways = multiprocessing.get_all_start_methods()
    if "forkserver" not in ways or len(tempfile.gettempdir()) > LONGEST_TEMPORARY:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["arborvox.serve.decoding"])
    return context


_CONTEXT = _context()


class ChildDied(Exception):  # noqa: N818  (an event, not a mistake)
    """The process at the other end of the pipe is no more."""


class Child:
    """A process that runs `work(connection, *arguments)` until the pipe is closed."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        """Start it."""
        self._pipe, other = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(work, other, *arguments), daemon=True)
        self._process.start()
        other.close()
        # The pipe blocks, and the loop must not: each child has a thread that waits for it.
        self._waiter = ThreadPoolExecutor(1, thread_name_prefix="arborvox-child")

    @property
    def pid(self) -> int | None:
        """Its process id."""
        pid: int | None = self._process.pid
        return pid

    async def receive(self) -> Any:
        """Wait for its next answer."""
        return await self._wait(self._pipe.recv)

    async def ask(self, message: Any) -> Any:
        """Give it something to do and wait for the first answer."""

        def work() -> Any:  # in one go: each time that a thread is handed something costs
            self._pipe.send(message)
            return self._pipe.recv()

        return await self._wait(work)

    def end(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._waiter.shutdown(cancel_futures=True)  # it hears the end of the pipe
        self._pipe.close()

    async def _wait(self, work: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._waiter, work)
        except (EOFError, OSError):
            raise ChildDied from None


def _run(work: Callable[..., None], connection: Connection, *arguments: Any) -> None:
    """Run in the child: its parent decides when it ends, by closing the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        work(connection, *arguments)
