"""A project on the server: what is done to it is done in threads, never in the loop."""

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any, ParamSpec, TypeVar

from arborvox.errors import ArborvoxError
from arborvox.project import (
    Conflict,
    Item,
    Project,
    UnknownItem,
    read_status,
    start_learning,
    stop_learning,
    withdraw,
)
from arborvox.serve.refusals import ApiError
from arborvox.serve.service import Service
from arborvox.serve.settings import ServeConfig, name_of

NUM_THREADS = 4  # a project is written in turns, so more would only wait
P = ParamSpec("P")
T = TypeVar("T")


class ItemConflictError(ApiError):
    """Somebody else was faster; the answer holds what stands there now."""

    def __init__(self, sentence: str, item: Item) -> None:
        """Keep the other's text."""
        super().__init__(409, sentence, code="conflict")
        self.item = item

    def body(self) -> dict[str, Any]:
        """Return the error with the utterance beside it."""
        return {**super().body(), "item": tell_item(self.item)}


def open_project(config: ServeConfig) -> tuple[ServeConfig, Project | None]:
    """Open a server's project; its first model is then the one that the project has in use."""
    if config.project is None:
        return config, None
    name, run = next(iter(config.models.items()), ("", None))
    project = Project.open(config.project, model=run)
    base, current = project.models.base, project.models.path(project.models.current)
    if base is None or current is None:
        raise ArborvoxError(
            f"{config.project} has no model yet; name the run that it is to begin with, as in "
            f"`arborvox serve RUN --project {config.project}`."
        )
    if run is not None and run.resolve() != base.resolve():
        raise ArborvoxError(
            f"{config.project} began with {base}, so that one, not {run}, must be the first run "
            "to be named; or name none."
        )
    others = {each: path for each, path in config.models.items() if each != name}
    return replace(config, models={name or name_of(base): current, **others}), project


class Bench:
    """A project, and the model of the server that is the project's."""

    def __init__(self, project: Project, service: Service) -> None:
        """Start no thread yet; the server's first model is the project's."""
        self.project, self._service = project, service
        self.served_as = next(iter(service.models))
        self._threads = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="arborvox-project")

    @property
    def letters(self) -> tuple[str, ...]:
        """What the model writes and many keyboards do not have."""
        return self._service.models[self.served_as].letters

    async def do(self, work: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T:
        """Do something to the project; what it says is told as an answer."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, lambda: work(*arguments, **more))
        except Conflict as conflict:
            raise ItemConflictError(str(conflict), conflict.item) from None
        except UnknownItem as error:
            raise ApiError(404, str(error), code="not_found") from None
        except ArborvoxError as error:
            raise ApiError(400, str(error)) from None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise ApiError(507, "The disk is full; nothing was changed.") from None
            raise

    async def withdraw(self, recording: str | None, speaker: str | None) -> dict[str, Any]:
        """Take a recording back, or a speaker's; return what is gone and who has heard it."""
        return asdict(await self.do(withdraw, self.project, recording=recording, speaker=speaker))

    async def start_learning(self) -> None:
        """Start a round in a process of its own."""
        await self.do(start_learning, self.project.folder)

    async def stop_learning(self) -> None:
        """Ask the round to stop; it goes on when learning is started again."""
        await self.do(stop_learning, self.project.folder)

    async def learning(self) -> dict[str, Any]:
        """Tell how a round goes, and how the newest model compares with the one it came from."""
        models = self.project.models

        def look() -> dict[str, Any]:
            newest, offer = next(reversed(models.learned()), None), models.offer()
            return {
                "status": asdict(read_status(self.project.folder)),
                "model": models.current,
                "previous": models.previous,
                "newest": None if newest is None else asdict(newest),
                "offered": None if offer is None else offer.name,
            }

        return await self.do(look)

    async def accept(self, name: str) -> None:
        """Put a learned model into use, here too."""
        await self.do(self.project.models.accept, name)
        await self.follow()

    async def go_back(self, name: str) -> None:
        """Leave a model for the one that was in use before it, here too.

        A second click, or a second person's, finds another one in use and goes back no further.
        """

        def leave() -> None:
            with self.project.turn():
                if self.project.models.current == name:
                    self.project.models.go_back()

        await self.do(leave)
        await self.follow()

    async def follow(self) -> None:
        """Let the server hear with the model that the project has in use."""
        models = self.project.models
        run = await self.do(lambda: models.path(models.current))
        if run is None:
            return
        try:
            await self._service.switch(self.served_as, run)
        except ArborvoxError as error:
            raise ApiError(
                503,
                f"The project uses its new model, but this server cannot load it ({error}); it "
                "goes on with the one before.",
            ) from None

    def close(self) -> None:
        """Wait for what is being written."""
        self._threads.shutdown()


def tell_item(item: Item) -> dict[str, Any]:
    """Return an utterance as it is told."""
    return {**asdict(item), "duration_s": round(item.duration_s, 3)}
