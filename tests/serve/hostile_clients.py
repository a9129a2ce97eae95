"""Good and broken requests of every kind, drawn by number: the same number is the same request."""

import asyncio
import io
import json
import struct
from collections.abc import Awaitable, Callable

import numpy as np
import soundfile
from running_server import RATE, speech, wav
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

PATH = "/v1/audio/transcriptions"


def encoded(kind: str, seconds: float = 0.6) -> bytes:
    """Return a recording in a format."""
    file = io.BytesIO()
    soundfile.write(file, speech(seconds), RATE, format=kind)
    return file.getvalue()


GOOD = [encoded(kind) for kind in ("WAV", "FLAC", "OGG", "MP3")]


def bomb_of_silence() -> bytes:
    """Return a small FLAC that unfolds to an hour."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(3600 * RATE, np.int16), RATE, format="FLAC")
    return file.getvalue()


def strange_wav(channels: int = 1, rate: int = RATE, stated: int = 32_000) -> bytes:
    """Return a WAV whose header says what it likes."""
    data = b"\1\0" * 16_000
    head = struct.pack("<HHIIHH", 1, channels, rate, 2 * rate & 0xFFFFFFFF, 2 * channels, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", stated) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


BROKEN = [
    b"",
    b"no sound at all, but text that goes on for a while",
    b'{"json": true}',
    b"\x89PNG\r\n\x1a\n" + bytes(500),
    b"\x1f\x8b\x08" + bytes(500),
    bytes(1000),
    wav(speech(2.0))[:9000],
    wav(speech(2.0))[:50],
    encoded("FLAC")[:2000],
    encoded("OGG")[:1500],
    encoded("MP3")[100:1500],
    bomb_of_silence(),
    strange_wav(rate=1),
    strange_wav(rate=0),
    strange_wav(rate=2**31 - 1),
    strange_wav(channels=1000),
    strange_wav(channels=0),
    strange_wav(stated=2**32 - 1),
    b"RIFX" + bytes(80),
]
FIELDS = [
    {"model": "nobody"},
    {"response_format": "exe"},
    {"beam": "-1"},
    {"beam": "9" * 400},
    {"language": "../.."},
    {"inventory": "/etc/passwd"},
    {"stream": "perhaps"},
    {"timestamp_granularities[]": "year"},
    {"no\r\nsuch": "field"},
    {"mode": "x" * 60_000},
]
NAMES = [
    "x.wav",
    "../../../etc/passwd",
    "/home/someone/.ssh/id",
    "con",
    "a" * 3000,
    "\udcff.wav",
    "x\0.wav",
]
SOCKET_MESSAGES: list[list[str | bytes]] = [
    ["no json"],
    ["null"],
    ['{"config": {"sample_rate": -1}}'],
    ['{"config": {"sample_rate": 16000, "model": "../x"}}'],
    ['{"config": {"sample_rate": 16000}}', "[" * 5000],
    ['{"config": {"sample_rate": 16000}}', b"\1\2\3", '{"eof": "'],
    [b"\0" * 4000],
    ['{"config": {"sample_rate": 1e400}}'],
]


def multipart(data: bytes, name: str = "x.wav", **fields: str) -> bytes:
    """Return a body with the boundary B."""
    parts = [
        f'--B\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in {"model": "plain", **fields}.items()
    ]
    head = f'--B\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    encoded_head = head.encode("utf-8", "surrogateescape")
    return b"".join([*parts, encoded_head, data, b"\r\n--B--\r\n"])


class Clients:
    """Sends requests to one server and notes the statuses that come back."""

    def __init__(self, host: str, port: int) -> None:
        """Nothing was sent yet."""
        self.host, self.port = host, port
        self.statuses: dict[str, int] = {}

    async def send(self, number: int) -> None:
        """Send the request of this number; every third is broken."""
        chance = np.random.default_rng(number)
        kinds = self._broken() if number % 3 == 0 else self._good()
        kind = kinds[int(chance.integers(len(kinds)))]
        status = await kind(chance)
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def _good(self) -> list[Callable[[np.random.Generator], Awaitable[str]]]:
        return [self._recording, self._recording, self._recording, self._get, self._session]

    def _broken(self) -> list[Callable[[np.random.Generator], Awaitable[str]]]:
        return [
            self._broken_recording, self._broken_recording, self._broken_recording,
            self._mutated, self._wrong_field, self._huge, self._abort, self._slow,
            self._headers, self._strange_name, self._compressed, self._broken_session,
        ]  # fmt: skip

    async def _recording(self, chance: np.random.Generator) -> str:
        return await self.post(multipart(GOOD[int(chance.integers(len(GOOD)))]))

    async def _get(self, chance: np.random.Generator) -> str:
        path = ("/", "/healthz", "/metrics", "/v1/models", "/nothing", "/page/words.json")
        return await self.request(f"GET {path[int(chance.integers(len(path)))]} HTTP/1.1", {}, b"")

    async def _broken_recording(self, chance: np.random.Generator) -> str:
        return await self.post(multipart(BROKEN[int(chance.integers(len(BROKEN)))]))

    async def _mutated(self, chance: np.random.Generator) -> str:
        data = bytearray(GOOD[int(chance.integers(len(GOOD)))])
        for place in chance.integers(len(data), size=20).tolist():
            data[place] = int(chance.integers(256))
        return await self.post(multipart(bytes(data)))

    async def _wrong_field(self, chance: np.random.Generator) -> str:
        fields = FIELDS[int(chance.integers(len(FIELDS)))]
        return await self.post(multipart(GOOD[0], **fields))

    async def _huge(self, chance: np.random.Generator) -> str:
        return await self.post(multipart(bytes(5 << 20)))

    async def _strange_name(self, chance: np.random.Generator) -> str:
        return await self.post(multipart(GOOD[0], NAMES[int(chance.integers(len(NAMES)))]))

    async def _compressed(self, chance: np.random.Generator) -> str:
        return await self.post(multipart(GOOD[0]), {"Content-Encoding": "gzip"})

    async def _headers(self, chance: np.random.Generator) -> str:
        many = {f"X-{n}": "y" * 100 for n in range(1000)}
        return await self.request("GET / HTTP/1.1", many, b"")

    async def _abort(self, chance: np.random.Generator) -> str:
        body = multipart(GOOD[0])
        return await self.post(body, sent=int(chance.integers(1, len(body))))

    async def _slow(self, chance: np.random.Generator) -> str:
        body = multipart(GOOD[0])
        return await self.post(body, sent=len(body) // 2, waits=True)

    async def _session(self, chance: np.random.Generator) -> str:
        config = json.dumps({"config": {"sample_rate": RATE, "model": "plain"}})
        data = speech(0.5).tobytes()
        return await self._talk([config, data[:7000], data[7000:], '{"eof": 1}'])

    async def _broken_session(self, chance: np.random.Generator) -> str:
        return await self._talk(SOCKET_MESSAGES[int(chance.integers(len(SOCKET_MESSAGES)))])

    async def _talk(self, messages: list[str | bytes]) -> str:
        try:
            async with connect(f"ws://{self.host}:{self.port}/v1/listen") as socket:
                for message in messages:
                    await socket.send(message)
                while True:
                    await socket.recv()
        except ConnectionClosed as closed:
            return f"ws {closed.rcvd.code if closed.rcvd else 'cut'}"
        except InvalidStatus as refused:
            return str(refused.response.status_code)

    async def post(
        self,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        sent: int | None = None,
        waits: bool = False,
    ) -> str:
        """Send a form, or only some bytes of it: then wait, or leave."""
        more = {"Content-Type": "multipart/form-data; boundary=B", **(headers or {})}
        return await self.request(f"POST {PATH} HTTP/1.1", more, body, sent=sent, waits=waits)

    async def request(
        self,
        line: str,
        headers: dict[str, str],
        body: bytes,
        *,
        sent: int | None = None,
        waits: bool = False,
    ) -> str:
        """Make a request by hand and return its status, "left" or "cut"."""
        every = {
            "Host": f"{self.host}:{self.port}",
            "Connection": "close",
            "Content-Length": str(len(body)),
            **headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in every.items())
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            writer.write(f"{line}\r\n{head}\r\n".encode())
            writer.write(body[:sent])
            await writer.drain()
            if sent is not None and not waits:
                writer.transport.abort()
                return "left"
            answer = await reader.read()
            writer.close()
        except OSError:
            return "cut"
        status = answer.split(b" ", 2)[1:2]
        return status[0].decode() if status else "cut"
