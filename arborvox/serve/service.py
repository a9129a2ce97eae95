"""All that a running server has: models in their processes, decoders, limits, counts."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from arborvox.decode.segments import SpeechSegment
from arborvox.errors import ArborvoxError
from arborvox.processes import count_cores
from arborvox.serve.children import Child
from arborvox.serve.decoding import Decoders, UnreadableRecording
from arborvox.serve.dispatcher import FILE, Dispatcher, RecognizerFailed
from arborvox.serve.guard import Gate
from arborvox.serve.messages import FileEnd, FileTask, Heard, ModelFacts, Wishes
from arborvox.serve.metrics import Metrics
from arborvox.serve.refusals import ApiError, wrong
from arborvox.serve.settings import ServeConfig
from arborvox.serve.uploads import scratch_folder

AHEAD = 4  # segments of one recording that may wait to be recognized
USUAL_S = 1.0  # a request, before any was timed


class Service:
    """Recognizes for the routes; an async context manager."""

    def __init__(self, config: ServeConfig, options: dict[str, Any]) -> None:
        """Start nothing yet. options: keys of DecodeConfig."""
        self.config, self.limits = config, config.limits
        self.models: dict[str, ModelFacts] = {}
        self.gate, self.metrics = Gate(), Metrics()
        self._runs = dict(config.models)
        self._switching = asyncio.Lock()
        threads = max(1, count_cores() // config.workers)
        self.dispatcher = Dispatcher(
            lambda: _start_worker(self._runs, config.inventories, options, threads),
            config.workers,
        )
        self.decoders = Decoders(most_idle=config.limits.parallel)
        self._turns = asyncio.Semaphore(config.limits.parallel)
        self._num_admitted = 0
        self.num_sessions = 0
        self._mean_s = USUAL_S
        self._stack = contextlib.ExitStack()

    async def __aenter__(self) -> "Service":
        self.scratch = self._stack.enter_context(scratch_folder())
        try:
            self.models = {facts.name: facts for facts in await self.dispatcher.start()}
        except BaseException as error:
            self._stack.close()
            if isinstance(error, RecognizerFailed):
                raise ArborvoxError(f"The models could not be loaded: {error}") from None
            raise
        self._describe()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.dispatcher.close()
        self.decoders.close()
        self._stack.close()

    async def switch(self, name: str, run: Path) -> None:
        """Let a model's name stand for another run; what is being heard is heard by the old one."""
        async with self._switching:
            before = self._runs[name]
            if before == run:
                return
            self._runs[name] = run
            try:
                facts = await self.dispatcher.start()
            except BaseException:
                self._runs[name] = before
                raise
            self.models = {each.name: each for each in facts}

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Let one more person speak, or refuse."""
        if self.num_sessions >= self.limits.sessions:
            raise ApiError(429, "Too many people are speaking; try again later.")
        self.num_sessions += 1
        try:
            yield
        finally:
            self.num_sessions -= 1

    @contextlib.asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Let a request in, if it will have its turn; else tell it when to come again."""
        if self._num_admitted >= self.limits.parallel + self.limits.queue:
            wait_s = self._num_admitted * self._mean_s / self.limits.parallel
            raise ApiError(
                429,
                "The server is busy; try again later.",
                code="rate_limit_exceeded",
                headers={"Retry-After": str(max(1, min(60, round(wait_s))))},
            )
        self._num_admitted += 1
        try:
            yield
        finally:
            self._num_admitted -= 1

    async def transcribe(self, path: Path, wishes: Wishes) -> AsyncGenerator[Heard | FileEnd, None]:
        """Yield what is heard in a recording, segment by segment, then its end."""
        facts = self.models[wishes.model]
        task = FileTask(path, facts.sampling_rate, facts.max_segment_s, self.limits.duration_s)
        async with self._turns:
            began_s = asyncio.get_running_loop().time()
            waiting: list[asyncio.Task[Heard]] = []
            try:
                async with contextlib.aclosing(self.decoders.segments(task)) as parts:
                    async for part in parts:
                        if isinstance(part, FileEnd):
                            while waiting:
                                yield await waiting.pop(0)
                            self._time_one(asyncio.get_running_loop().time() - began_s)
                            self.count_audio(part.duration_s, "file")
                            yield part
                            return
                        waiting.append(asyncio.create_task(self.recognize(wishes, part, FILE)))
                        while len(waiting) >= AHEAD or (waiting and waiting[0].done()):
                            yield await waiting.pop(0)
            except UnreadableRecording as problem:
                raise wrong("file", f"The recording cannot be used: {problem}.") from None
            finally:
                for job in waiting:
                    job.cancel()

    async def recognize(self, wishes: Wishes, speech: SpeechSegment, rank: int) -> Heard:
        """Recognize one stretch of speech."""
        try:
            return await self.dispatcher.recognize(wishes, speech, rank)
        except ArborvoxError as error:
            raise ApiError(400, str(error)) from None
        except RecognizerFailed as error:
            raise ApiError(
                503, f"Try again: {error}.", code="recognizer", headers={"Retry-After": "1"}
            ) from None

    def draft_of(self, wishes: Wishes) -> Wishes:
        """Return how the same is heard cheaply, while somebody is still speaking."""
        return replace(wishes, draft=True, mode=None, beam=None, alternatives=0, explained=False)

    def _time_one(self, seconds: float) -> None:
        self._mean_s += 0.1 * (seconds - self._mean_s)

    def count_audio(self, seconds: float, source: str) -> None:
        """Add to the sound that was heard."""
        self.metrics.count(
            "arborvox_audio_seconds_total", "Seconds of sound heard.", seconds, source=source
        )

    def _describe(self) -> None:
        """Let the metrics tell what is the case."""
        crowd: dict[str, tuple[str, Callable[[], float]]] = {
            "requests_admitted": (
                "Recordings in work or on their way.",
                lambda: self._num_admitted,
            ),
            "sessions": ("People speaking.", lambda: self.num_sessions),
            "waiting_segments": ("Speech that waits.", lambda: self.dispatcher.num_waiting),
            "batches_total": ("Batches recognized.", lambda: self.dispatcher.num_batches),
            "restarts_total": ("Broken-down processes.", lambda: self.dispatcher.num_restarts),
            "workers": ("Recognizing processes.", lambda: self.config.workers),
        }
        for name, (text, value) in crowd.items():
            self.metrics.read(f"arborvox_{name}", text, value)


def _start_worker(
    runs: dict[str, Path], inventories: dict[str, Path], options: dict[str, Any], num_threads: int
) -> Child:
    # Not at the top: the server itself needs no torch, and what it forks decoders from neither.
    return Child(_recognize_speech, runs, inventories, options, num_threads)


def _recognize_speech(*arguments: Any) -> None:
    from arborvox.serve.recognition import recognize_speech

    recognize_speech(*arguments)
