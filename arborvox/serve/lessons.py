"""/v1/project/learning: a round of learning, how it goes, and what comes of it."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from arborvox.serve.bench import Bench
from arborvox.serve.bodies import EmptyBody, ModelChoice, read_body


class Lessons:
    """The routes; each answers with how things stand afterwards."""

    def __init__(self, bench: Bench) -> None:
        """Note whose models they are."""
        self.bench = bench

    @property
    def routes(self) -> list[Route]:
        """List the routes."""
        at = "/v1/project/learning"
        return [
            Route(at, self.look),
            Route(at, self.start, methods=["POST"]),
            Route(f"{at}/stop", self.stop, methods=["POST"]),
            Route(f"{at}/accept", self.accept, methods=["POST"]),
            Route(f"{at}/back", self.go_back, methods=["POST"]),
        ]

    async def look(self, request: Request) -> Response:
        """Tell how things stand."""
        return JSONResponse(await self.bench.learning())

    async def start(self, request: Request) -> Response:
        """Start a round, or go on with one that was stopped."""
        await read_body(request, EmptyBody)
        await self.bench.start_learning()
        return JSONResponse(await self.bench.learning(), 202)

    async def stop(self, request: Request) -> Response:
        """Stop the round."""
        await read_body(request, EmptyBody)
        await self.bench.stop_learning()
        return JSONResponse(await self.bench.learning(), 202)

    async def accept(self, request: Request) -> Response:
        """Put the new model into use."""
        choice = await read_body(request, ModelChoice)
        await self.bench.accept(choice.model)
        return JSONResponse(await self.bench.learning())

    async def go_back(self, request: Request) -> Response:
        """Put the model into use that was before this one."""
        choice = await read_body(request, ModelChoice)
        await self.bench.go_back(choice.model)
        return JSONResponse(await self.bench.learning())
