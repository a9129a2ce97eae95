"""WS /v1/listen: speech while it is being said, in the shape that Vosk's clients speak.

→ {"config": {"sample_rate": 16000}}        once, before any sound
→ 16-bit little-endian samples, mono         as often as they come
← {"partial": "what was said so far"}        one answer to each of them, or, after a pause:
← {"result": [{"word": …, "start": …, "end": …, "conf": …}], "text": "what was said"}
→ {"eof": 1}
← {"result": […], "text": "the rest"}
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import soxr
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from arborvox.audio import Samples
from arborvox.decode.endpointing import PauseCutter
from arborvox.decode.segments import SpeechSegment
from arborvox.errors import one_line
from arborvox.serve.asked import read_wishes
from arborvox.serve.dispatcher import DRAFT, LIVE
from arborvox.serve.guard import check_token, same_token
from arborvox.serve.messages import Heard, Wishes
from arborvox.serve.refusals import ApiError, wrong
from arborvox.serve.service import Service

LEAST_RATE, MOST_RATE = 8000, 192_000
WAITING_FRAMES = 8  # of a client that sends faster than it is heard
DRAFT_EVERY_S = 0.06
DRAFT_SHARE = 2.0  # the pause between two drafts, as a multiple of what one took
CONFIG_KEYS = frozenset(
    {"sample_rate", "words", "max_alternatives", "model", "language", "inventory", "token"}
)
GOING_AWAY, REFUSED, TOO_BUSY = 1001, 1008, 1013

Frames = asyncio.Queue[bytes | Exception | None]


class Listening:
    """The route."""

    def __init__(self, service: Service) -> None:
        """Note who recognizes."""
        self.service = service

    async def listen(self, websocket: WebSocket) -> None:
        """Listen until the client has said all, or has left."""
        await websocket.accept()
        try:
            with self.service.session():
                await self._listen(websocket)
        except ApiError as error:
            await _close(websocket, REFUSED if error.status < 429 else TOO_BUSY, error)
        except WebSocketDisconnect:
            return
        except TimeoutError:
            await _close(websocket, GOING_AWAY, ApiError(408, "Nothing came for too long."))

    async def _listen(self, websocket: WebSocket) -> None:
        session = await self._configure(websocket)
        frames: Frames = asyncio.Queue(WAITING_FRAMES)
        reader = asyncio.create_task(self._read(websocket, frames))
        try:
            while (frame := await frames.get()) is not None:
                if isinstance(frame, Exception):
                    raise frame
                if self.service.gate.is_closed:
                    break
                await websocket.send_json(await session.hear(frame, in_hurry=not frames.empty()))
            await websocket.send_json(await session.finish())
        finally:
            reader.cancel()
            session.count()
        await websocket.close(GOING_AWAY if self.service.gate.is_closed else 1000)

    async def _configure(self, websocket: WebSocket) -> "Session":
        """Wait for the first message, which says at which rate the sound comes."""
        async with asyncio.timeout(self.service.limits.idle_s):
            message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect
        config = _parse(message.get("text")).get("config")
        if not isinstance(config, dict):
            raise wrong("config", 'The first message must be {"config": {"sample_rate": 16000}}.')
        for key in config:
            if key not in CONFIG_KEYS:
                raise wrong("config", f"config has no key {one_line(str(key), 40)!r}.")
        token = self.service.config.token
        if token is not None:
            given = config.get("token")
            if given is None:
                check_token(token, websocket.headers)
            elif not isinstance(given, str) or not same_token(token, given):
                raise ApiError(401, "That is not this server's token.")
        rate = config.get("sample_rate", 0)
        if type(rate) not in (int, float) or not LEAST_RATE <= rate <= MOST_RATE or rate % 1:
            raise wrong("sample_rate", f"sample_rate is a number in {LEAST_RATE}..{MOST_RATE}.")
        alternatives = config.get("max_alternatives", 0)
        most = self.service.limits.alternatives
        if type(alternatives) is not int or not 0 <= alternatives <= most:
            raise wrong("max_alternatives", f"max_alternatives lies in 0..{most}.")
        texts = {key: config.get(key) for key in ("model", "language", "inventory")}
        for key, value in texts.items():
            if value is not None and not isinstance(value, str):
                raise wrong(key, f"{key} is a name.")
        wishes = read_wishes(texts, self.service.models, alternatives=alternatives)
        return Session(self.service, wishes, int(rate))

    async def _read(self, websocket: WebSocket, frames: Frames) -> None:
        """Put what comes into the queue; None is the end, an error what went wrong."""
        frame: bytes | Exception | None = b""
        while isinstance(frame, bytes):
            try:
                async with asyncio.timeout(self.service.limits.idle_s):
                    frame = _frame(await websocket.receive())
            except (ApiError, TimeoutError, WebSocketDisconnect) as error:
                frame = error
            await frames.put(frame)


class Session:
    """One person speaking."""

    def __init__(self, service: Service, wishes: Wishes, rate: int) -> None:
        """Begin with nothing said."""
        facts = service.models[wishes.model]
        self._service, self._wishes = service, wishes
        self._draft = service.draft_of(wishes)
        self._rate, self._wanted_rate = rate, facts.sampling_rate
        self._resampler = None
        if rate != facts.sampling_rate:
            self._resampler = soxr.ResampleStream(rate, facts.sampling_rate, num_channels=1)
        self._cutter = PauseCutter(facts.sampling_rate, facts.max_segment_s)
        self._odd = b""  # half a sample
        self._num_given = 0
        self._partial = ""
        self._next_draft_s = 0.0
        self._foreseen: tuple[SpeechSegment, Heard] | None = None

    async def hear(self, data: bytes, *, in_hurry: bool) -> dict[str, Any]:
        """Take samples; return a result if they end a segment, else what was said so far."""
        ended = self._cutter.push(self._samples(data))
        if self._num_given > self._service.limits.duration_s * self._rate:
            raise ApiError(413, f"Longer than {self._service.limits.duration_s:g} s.")
        if ended:
            self._partial = ""
            return await self._result(ended)
        running = self._cutter.running
        if running is None:
            self._partial = ""
        elif not in_hurry:
            await self._look_ahead(running)
        return {"partial": self._partial}

    async def _look_ahead(self, running: SpeechSegment) -> None:
        """Write down what is being said, if it is time to; after a little quiet, for good."""
        if self._cutter.is_quiet:  # the pause is not long enough yet, but its result is known
            heard = await self._finished(running)
            self._foreseen, self._partial = (running, heard), heard.segment.text
            return
        loop = asyncio.get_running_loop()
        if (began_s := loop.time()) < self._next_draft_s:
            return
        heard = await self._service.recognize(self._draft, running, DRAFT)
        took_s = loop.time() - began_s
        self._partial = heard.segment.text
        self._next_draft_s = began_s + max(DRAFT_EVERY_S, DRAFT_SHARE * took_s)

    async def _finished(self, speech: SpeechSegment) -> Heard:
        """Recognize a segment, unless that was done when the quiet behind it began."""
        if self._foreseen is not None:
            known, heard = self._foreseen
            if (known.start_s, len(known.samples)) == (speech.start_s, len(speech.samples)):
                return heard
        return await self._service.recognize(self._wishes, speech, LIVE)

    async def finish(self) -> dict[str, Any]:
        """Return the result of what was said since the last one."""
        ended: list[SpeechSegment] = []
        if self._resampler is not None:
            rest = self._resampler.resample_chunk(np.zeros(0, np.float32), last=True)
            ended += self._cutter.push(rest)
        return await self._result([*ended, *self._cutter.finish()])

    def count(self) -> None:
        """Add what was heard to the server's counts."""
        self._service.count_audio(self._num_given / self._rate, "live")

    def _samples(self, data: bytes) -> Samples:
        data = self._odd + data
        self._odd = data[len(data) // 2 * 2 :]
        samples = np.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(np.float32) / 32768.0
        self._num_given += len(samples)
        if self._resampler is None:
            return samples
        resampled: Samples = self._resampler.resample_chunk(samples)
        return resampled

    async def _result(self, ended: Sequence[SpeechSegment]) -> dict[str, Any]:
        jobs = (self._finished(speech) for speech in ended)
        return _as_vosk(await asyncio.gather(*jobs), self._wishes.alternatives)


def _as_vosk(heard: Sequence[Heard], alternatives: int) -> dict[str, Any]:
    text = " ".join(each.segment.text for each in heard if each.segment.text)
    if alternatives and len(heard) == 1:
        texts = [{"text": other, "confidence": score} for other, score in heard[0].alternatives]
        return {"alternatives": texts, "text": text}
    words = [
        {"word": word.text, "start": word.start_s, "end": word.end_s, "conf": word.confidence}
        for each in heard
        for word in each.segment.words
    ]
    return {"result": words, "text": text}


def _frame(message: Mapping[str, Any]) -> bytes | None:
    """Return the samples of a message, or None for the end."""
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect
    data: bytes | None = message.get("bytes")
    if data is not None:
        return data
    if _parse(message.get("text")).get("eof"):
        return None
    raise wrong("message", 'After the config come samples, and {"eof": 1} at the end.')


def _parse(text: str | None) -> dict[str, Any]:
    """Read a message that should be a JSON object."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        raise wrong("message", "A text message must be JSON.") from None
    if not isinstance(value, dict):
        raise wrong("message", "A text message must be a JSON object.")
    return value


async def _close(websocket: WebSocket, code: int, error: ApiError) -> None:
    """Say why, and hang up."""
    if websocket.application_state is WebSocketState.CONNECTED:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await websocket.send_json(error.body())
            await websocket.close(code)
