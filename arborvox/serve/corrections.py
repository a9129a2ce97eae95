"""/v1/project: the utterances of a project, heard, corrected, taken back and withdrawn."""

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from arborvox.errors import one_line
from arborvox.project.items import State
from arborvox.serve.bench import Bench, tell_item
from arborvox.serve.bodies import ItemChange, ItemCorrection, Withdrawn, read_body
from arborvox.serve.refusals import ApiError, wrong

STATES: tuple[State, ...] = ("draft", "confirmed", "skipped")
USUAL_LIMIT, MOST_LIMIT = 50, 1000
MOST_ASKED = 200  # characters of a search, a client's name


class Corrections:
    """The routes; what they do to the project is done in its own threads."""

    def __init__(self, bench: Bench) -> None:
        """Note whose utterances they are."""
        self.bench, self.project = bench, bench.project

    @property
    def routes(self) -> list[Route]:
        """List the routes; an utterance's id holds slashes, so what follows it comes first."""
        at = "/v1/project/items"
        one = f"{at}/{{id:path}}"
        return [
            Route("/v1/project", self.describe),
            Route("/v1/project/next", self.next_item),
            Route("/v1/project/withdrawals", self.withdraw, methods=["POST"]),
            Route(at, self.items),
            Route(f"{one}/audio", self.sound),
            Route(f"{one}/history", self.history),
            Route(f"{one}/skip", self.skip, methods=["POST"]),
            Route(f"{one}/undo", self.undo, methods=["POST"]),
            Route(one, self.save, methods=["PUT"]),
            Route(one, self.item),
        ]

    async def describe(self, request: Request) -> Response:
        """Tell what the project is and how far it is."""
        summary, recordings, items = await self.bench.do(
            lambda: (self.project.summary(), self.project.recordings(), self.project.items())
        )
        folder = str(self.project.folder.resolve())
        return JSONResponse(
            {
                "id": hashlib.blake2b(folder.encode(errors="replace"), digest_size=8).hexdigest(),
                "name": self.project.folder.resolve().name,
                "language": self.project.settings.language,
                "served_as": self.bench.served_as,
                "letters": self.bench.letters,
                "propose": self.project.proposal,
                "speakers": sorted({each.speaker for each in recordings if each.speaker}),
                "num_changes": sum(item.revision for item in items),
                **asdict(summary),
            }
        )

    async def items(self, request: Request) -> Response:
        """List utterances: those of a state, of a speaker, of these ids, with these words."""
        asked = request.query_params
        state = asked.get("state")
        if state not in (None, *STATES):
            raise wrong("state", f"state is one of {', '.join(STATES)}.")
        offset = _number(asked, "offset", 0, 10**9)
        limit = _number(asked, "limit", USUAL_LIMIT, MOST_LIMIT)
        words = _folded(_short(asked, "search")).split()
        ids = set(asked.getlist("id"))
        found = [
            item
            for item in await self.bench.do(self.project.items, state=state)
            if asked.get("speaker") in (None, item.speaker)
            and (not ids or item.id in ids)
            and all(word in _folded(f"{item.id} {item.text}") for word in words)
        ]
        shown = [tell_item(item) for item in found[offset : offset + limit]]
        return JSONResponse({"items": shown, "total": len(found)})

    async def next_item(self, request: Request) -> Response:
        """Propose an utterance; another client gets another one."""
        client = _short(request.query_params, "visitor")
        item = await self.bench.do(self.project.next_item, client)
        return JSONResponse({"item": None if item is None else tell_item(item)})

    async def item(self, request: Request) -> Response:
        """Tell of one utterance."""
        return JSONResponse(tell_item(await self.bench.do(self.project.item, _id(request))))

    async def history(self, request: Request) -> Response:
        """Tell what was done to an utterance, the oldest first."""
        changes = await self.bench.do(self.project.history, _id(request))
        return JSONResponse([asdict(change) for change in changes])

    async def sound(self, request: Request) -> Response:
        """Give an utterance's sound, all of it or a range."""
        path = await self.bench.do(self.project.sound_file, _id(request))
        if not path.is_file():
            raise ApiError(404, "The sound of this utterance is not there.")
        return FileResponse(path, media_type="audio/flac")

    async def save(self, request: Request) -> Response:
        """Confirm a text; it is on the disk when the answer comes."""
        change = await read_body(request, ItemCorrection)
        return await self._change(request, self.project.save, change, text=change.text)

    async def skip(self, request: Request) -> Response:
        """Set an utterance aside."""
        return await self._change(request, self.project.skip, await read_body(request, ItemChange))

    async def undo(self, request: Request) -> Response:
        """Take back the last change."""
        return await self._change(request, self.project.undo, await read_body(request, ItemChange))

    async def withdraw(self, request: Request) -> Response:
        """Delete a recording, or all of a speaker's, and what came of it."""
        asked = await read_body(request, Withdrawn)
        if (asked.recording is None) == (asked.speaker is None):
            raise wrong("recording", "Name a recording or a speaker.")
        return JSONResponse(await self.bench.withdraw(asked.recording, asked.speaker))

    async def _change(self, request: Request, do: Any, change: ItemChange, **more: str) -> Response:
        item = await self.bench.do(
            do, _id(request), revision=change.revision, author=change.author, **more
        )
        return JSONResponse(tell_item(item))


def _id(request: Request) -> str:
    name: str = request.path_params["id"]
    return name


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _short(asked: Mapping[str, str], name: str) -> str:
    value = asked.get(name, "")
    if len(value) > MOST_ASKED:
        raise wrong(name, f"{name} has at most {MOST_ASKED} characters.")
    return value


def _number(asked: Mapping[str, str], name: str, usual: int, most: int) -> int:
    value = asked.get(name, str(usual))
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and int(value) <= most):
        raise wrong(name, f"{name} is a whole number up to {most}, not {one_line(value, 20)!r}.")
    return int(value)
