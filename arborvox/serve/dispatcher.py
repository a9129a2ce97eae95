"""Speech from all requests, put together into batches for the processes that recognize it."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from arborvox.decode.segments import SpeechSegment
from arborvox.errors import ArborvoxError
from arborvox.serve.children import Child, ChildDied
from arborvox.serve.messages import Fault, Heard, ModelFacts, Question, Refusal, Wishes

# Whose turn it is first: who is speaking waits for nobody's files.
LIVE, DRAFT, FILE = range(3)
BATCH_S = 48.0  # of sound, padding included
MOST_TOGETHER = 8
# Of a batch all but the longest are padded: what is much shorter waits for its like.
LEAST_SHARE = 0.5
RETRY_S = 1.0

log = logging.getLogger("arborvox.serve")


class RecognizerFailed(Exception):  # noqa: N818  (told to the client by its own name)
    """A process broke down over a batch."""


@dataclass(eq=False)
class _Job:
    rank: int
    order: int
    wishes: Wishes
    speech: SpeechSegment
    future: "asyncio.Future[Heard]" = field(repr=False)


class Dispatcher:
    """Recognizing processes, and what waits for them."""

    def __init__(self, start_child: Callable[[], Child], num_workers: int) -> None:
        """Note how a process is started; none is yet."""
        self._start_child, self._num_workers = start_child, num_workers
        self._rates: dict[str, int] = {}  # of each model
        self._jobs: list[_Job] = []
        self._order = itertools.count()
        self._news = asyncio.Event()
        self._num_idle = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._children: list[Child] = []
        self._crew = 0  # those started last; others leave
        self.num_batches = 0
        self.num_restarts = 0

    @property
    def num_waiting(self) -> int:
        """How many stretches of speech wait for a process."""
        return len(self._jobs)

    @property
    def is_ready(self) -> bool:
        """Whether a process with its models loaded is there."""
        return bool(self._children)

    async def start(self) -> list[ModelFacts]:
        """Start the processes; return what they know of their models.

        Where there are some, they end as soon as they have answered: none waits for the new ones.
        """
        starting = [self._start_child() for _ in range(self._num_workers)]
        try:
            facts = [await _introduction(child) for child in starting]
        except BaseException:
            for child in starting:
                child.end()
            raise
        self._rates = {each.name: each.sampling_rate for each in facts[0]}
        self._crew += 1
        self._children += starting
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks += [asyncio.create_task(self._work(each, self._crew)) for each in starting]
        self._news.set()
        return facts[0]

    async def recognize(self, wishes: Wishes, speech: SpeechSegment, rank: int) -> Heard:
        """Recognize a stretch of speech, with others that were asked for in the same way."""
        job = _Job(
            rank, next(self._order), wishes, speech, asyncio.get_running_loop().create_future()
        )
        self._jobs.append(job)
        self._news.set()
        try:
            return await job.future
        finally:
            if job in self._jobs:  # whoever asked has left before it was taken
                self._jobs.remove(job)

    async def close(self) -> None:
        """End the processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._children:
            self._children.pop().end()

    async def _work(self, child: Child, crew: int) -> None:
        """Give one process batch after batch; where it dies another takes its place."""
        while batch := await self._take(crew):
            self.num_batches += 1
            question = Question(batch[0].wishes, tuple(job.speech for job in batch))
            try:
                answer = await child.ask(question)
            except ChildDied:
                _fail(batch, RecognizerFailed("the recognizing process broke down"))
                child = await self._replace(child)
                continue
            if isinstance(answer, Refusal):
                _fail(batch, ArborvoxError(answer.sentence))
            elif isinstance(answer, Fault):
                _fail(batch, RuntimeError(answer.traceback))
            else:
                for job, heard in zip(batch, answer, strict=True):
                    if not job.future.done():
                        job.future.set_result(heard)
        self._children.remove(child)
        child.end()

    async def _take(self, crew: int) -> list[_Job]:
        """Wait for jobs; take the most urgent and others that go well with it.

        Returns none where a newer crew has taken over.
        """
        self._num_idle += 1
        try:
            while crew == self._crew and not self._jobs:
                self._news.clear()
                await self._news.wait()
            if crew != self._crew:
                return []
            first = min(self._jobs, key=lambda job: (job.rank, job.order))
            alike = [job for job in self._jobs if job.wishes == first.wishes]
            alike.sort(key=lambda job: (job is not first, job.rank, job.order))
            # What waits is shared with other processes that have nothing to do.
            most = min(MOST_TOGETHER, -(-len(alike) // self._num_idle))
        finally:
            self._num_idle -= 1
        rate = self._rates[first.wishes.model]
        batch = [first]
        shortest = longest = max(len(first.speech.samples), 1)
        for job in alike[1:]:
            length = max(len(job.speech.samples), 1)
            low, high = min(shortest, length), max(longest, length)
            if len(batch) >= most or high * (len(batch) + 1) > BATCH_S * rate:
                break
            if low >= LEAST_SHARE * high:
                batch.append(job)
                shortest, longest = low, high
        for job in batch:
            self._jobs.remove(job)
        return batch

    async def _replace(self, dead: Child) -> Child:
        self._children.remove(dead)
        dead.end()
        while True:
            self.num_restarts += 1
            log.error("a recognizing process broke down and is started again")
            child = self._start_child()
            try:
                await _introduction(child)
            except (ArborvoxError, RecognizerFailed):
                child.end()
                await asyncio.sleep(RETRY_S)
                continue
            self._children.append(child)
            return child


async def _introduction(child: Child) -> list[ModelFacts]:
    """Wait until a process has its models loaded."""
    try:
        answer = await child.receive()
    except ChildDied:
        raise RecognizerFailed("a recognizing process ended while it was starting") from None
    if isinstance(answer, Refusal):
        raise ArborvoxError(answer.sentence)
    if isinstance(answer, Fault):
        raise RecognizerFailed(answer.traceback)
    facts: list[ModelFacts] = answer
    return facts


def _fail(batch: list[_Job], error: Exception) -> None:
    for job in batch:
        if not job.future.done():
            job.future.set_exception(error)
