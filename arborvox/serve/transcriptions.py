"""POST /v1/audio/transcriptions, as OpenAI's clients send it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from arborvox.serve.answers import ANSWERS, Result, delta, event
from arborvox.serve.asked import Asked, read_asked
from arborvox.serve.draining import WatchedBody
from arborvox.serve.messages import FileEnd, Heard
from arborvox.serve.refusals import ApiError, wrong
from arborvox.serve.service import Service
from arborvox.serve.uploads import Form, receive_form


class Transcriptions:
    """The route, as an ASGI app: what it holds is given back however a request ends."""

    def __init__(self, service: Service) -> None:
        """Note who recognizes."""
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        limits = self.service.limits
        watched = WatchedBody(receive)
        started = _Started(send)
        try:
            async with asyncio.timeout(limits.time_s), self.service.admitted():
                headers = Headers(scope=scope)
                folder = self.service.scratch
                async with receive_form(headers, watched, folder, limits) as form:
                    asked = read_asked(form, self.service.models, limits)
                    async with _until_left(receive):
                        await self._answer(form, asked, scope, receive, started)
        except TimeoutError:
            if not started.has_begun:
                await watched.drain()
            raise ApiError(
                408, f"The request took longer than {limits.time_s:g} s.", code="timeout"
            ) from None
        except ApiError:
            if not started.has_begun:
                await watched.drain()
            raise
        except ConnectionAbortedError:
            return  # nobody is there to be answered

    async def _answer(
        self, form: Form, asked: Asked, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if form.file is None:
            raise wrong("file", "The request has no file.")
        notes = {"bytes": form.num_bytes, "model": asked.wishes.model}
        scope["state"]["notes"] = notes
        heard: list[Heard] = []
        parts = self.service.transcribe(form.file, asked.wishes)
        async with contextlib.aclosing(parts):
            if asked.stream:
                await _stream(parts, heard, send, form.file)
                return
            async for part in parts:
                if isinstance(part, FileEnd):
                    notes["audio_s"] = round(part.duration_s, 3)
                    result = Result(
                        part.duration_s,
                        tuple(heard),
                        asked.wishes.language,
                        self.service.models[asked.wishes.model].languages,
                        asked.granularities,
                    )
                else:
                    heard.append(part)
        form.file.unlink(missing_ok=True)  # whoever has the answer may rely on it
        kind, write = ANSWERS[asked.response_format]
        text = await asyncio.to_thread(write, result)
        await Response(text, media_type=kind)(scope, receive, send)


async def _stream(
    parts: AsyncIterator[Heard | FileEnd], heard: list[Heard], send: Send, upload: Path
) -> None:
    """Send the text as it is found, then all of it; the upload goes before the end is told."""
    head = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
    has_begun = False

    async def push(data: bytes, *, more: bool = True) -> None:
        nonlocal has_begun
        if not has_begun:  # not earlier: what cannot be read is refused with its status
            await send({"type": "http.response.start", "status": 200, "headers": head})
            has_begun = True
        await send({"type": "http.response.body", "body": data, "more_body": more})

    try:
        async for part in parts:
            if isinstance(part, Heard):
                if added := delta(heard, part):
                    await push(event({"type": "transcript.text.delta", "delta": added}))
                heard.append(part)
    except ApiError as error:
        if not has_begun:
            raise
        await push(event({**error.body(), "type": "error"}), more=False)
        return
    upload.unlink(missing_ok=True)
    text = " ".join(each.segment.text for each in heard if each.segment.text)
    await push(event({"type": "transcript.text.done", "text": text}), more=False)


class _Started:
    """`send`, which remembers whether the answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: object) -> None:
        self.has_begun = True
        await self._send(message)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def _until_left(receive: Receive) -> AsyncIterator[None]:
    """Stop the block when the client has gone: nobody waits for the answer."""
    task = asyncio.current_task()
    assert task is not None
    left = False

    async def watch() -> None:
        nonlocal left
        while (await receive())["type"] != "http.disconnect":
            pass
        left = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not left:
            raise
        task.uncancel()
        raise ConnectionAbortedError from None
    finally:
        watcher.cancel()
