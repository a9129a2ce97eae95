"""Timing of long runs side by side: a step of each in turn, so that what disturbs one disturbs all.

Whole runs after one another differ by a tenth on a busy machine, however often they are repeated.
Here runs that are compared are never more than a step apart: each has a thread of its own, of which
only one works at a time, and only its own steps are counted.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Pause = Callable[[], None]
Run = Callable[[Pause], float]  # calls the pause between steps; returns the output layer's seconds


@dataclass(frozen=True)
class Sample:
    """Seconds of one run: of the clock, of the processor in its own thread, of its output layer."""

    clock_s: float
    processor_s: float
    output_s: float


class _Runner(threading.Thread):
    """A run that goes on when it is told to, until its next pause."""

    def __init__(self, run: Run) -> None:
        super().__init__(daemon=True)
        self._work, self._num_threads = run, torch.get_num_threads()
        self._go, self._halted = threading.Semaphore(0), threading.Semaphore(0)
        self._since_s = (0.0, 0.0)
        self._spent_s = (0.0, 0.0)
        self._failure: BaseException | None = None
        self.sample: Sample | None = None

    def step(self) -> bool:
        """Let the run go on to its next pause; say whether there is more to do."""
        self._go.release()
        self._halted.acquire()
        if self._failure is not None:
            raise self._failure
        return self.sample is None

    def run(self) -> None:
        """Work in the thread."""
        torch.set_num_threads(self._num_threads)  # a setting of each thread
        self._wait()
        try:
            output_s = self._work(self._pause)
            self._stop_clocks()
            self.sample = Sample(*self._spent_s, output_s=output_s)
        except BaseException as failure:
            self._failure = failure
        self._halted.release()

    def _pause(self) -> None:
        self._stop_clocks()
        self._halted.release()
        self._wait()

    def _wait(self) -> None:
        self._go.acquire()
        self._since_s = (time.perf_counter(), time.thread_time())

    def _stop_clocks(self) -> None:
        clock_s, processor_s = self._spent_s
        clock_s += time.perf_counter() - self._since_s[0]
        processor_s += time.thread_time() - self._since_s[1]
        self._spent_s = (clock_s, processor_s)


def go_on() -> None:
    """Do not pause."""


def take_turns(runs: Sequence[Run]) -> list[Sample]:
    """Run all, a step of each in turn."""
    runners = [_Runner(run) for run in runs]
    for runner in runners:
        runner.start()
    going = runners
    while going:
        going = [runner for runner in going if runner.step()]
    return [runner.sample for runner in runners if runner.sample is not None]
