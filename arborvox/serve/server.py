"""The server as a process: its address, its connections, and how it stops."""

import asyncio
import socket
from dataclasses import replace
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.serve.app import make_app
from arborvox.serve.bench import Bench, open_project
from arborvox.serve.guard import Gate
from arborvox.serve.page_files import PageFiles
from arborvox.serve.refusals import ApiError
from arborvox.serve.service import Service
from arborvox.serve.settings import Limits, ServeConfig

MOST_HEADER_BYTES = 32 << 10
MOST_MESSAGE_BYTES = 1 << 20  # of a socket: half a minute of speech
KEEP_ALIVE_S = 5


def serve(config: ServeConfig, options: dict[str, Any]) -> None:
    """Serve until a signal comes. options: keys of DecodeConfig."""
    with _bound_socket(config.host, config.port) as listener:
        port = listener.getsockname()[1]
        asyncio.run(_serve(replace(config, port=port), options, listener))


async def _serve(config: ServeConfig, options: dict[str, Any], listener: socket.socket) -> None:
    page = PageFiles(config.words)  # a mistake in its words is told before models are loaded
    config, project = open_project(config)
    async with Service(config, options) as service:
        bench = None if project is None else Bench(project, service)
        settings = uvicorn.Config(
            make_app(service, page, bench),
            http=_protocol(config.limits),
            ws="websockets-sansio",
            ws_max_size=MOST_MESSAGE_BYTES,
            ws_per_message_deflate=False,  # a message has the size it says it has
            h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            timeout_keep_alive=KEEP_ALIVE_S,
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        server = _Server(settings, service.gate)
        shown = f"[{config.host}]" if ":" in config.host else config.host
        names = ", ".join(service.models)
        say(f"http://{shown}:{config.port}/ serves {names}; Ctrl+C stops it.")
        if bench is not None:
            say(f"http://{shown}:{config.port}/project corrects {bench.project.folder}.")
            if missing := len(bench.project.undrafted()):
                command = f"arborvox project draft {bench.project.folder}"
                say(f"{missing} utterances have no draft yet; `{command}` writes them.")
        await server.serve(sockets=[listener])
        if bench is not None:
            bench.close()


def _bound_socket(host: str, port: int) -> socket.socket:
    """Take the address, or say what is in the way."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ArborvoxError(
            f"{host} port {port} cannot be used ({error.strerror or error}); choose another --port."
        ) from None
    listener.listen(1024)
    return listener


class _Server(uvicorn.Server):
    """On the first signal new requests are refused and running ones end; a second one ends all."""

    def __init__(self, config: uvicorn.Config, gate: Gate) -> None:
        super().__init__(config)
        self._gate = gate

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Close the gate; the signal is not raised again, so that everything is put away."""
        if self._gate.is_closed:
            self.should_exit = self.force_exit = True
        self._gate.is_closed = True

    async def on_tick(self, counter: int) -> bool:
        """Leave when the last request is over."""
        if self._gate.is_closed and not self._gate.num_running:
            self.should_exit = True
        return await super().on_tick(counter)


def _protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with bounds on connections that ask for nothing."""

    class Protocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(_BUSY)
                transport.close()
            else:
                self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._rest()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Hang up on who does not come to the end of the headers."""
            if self.conn.their_state is not h11.IDLE:
                self._rest()
            elif self._timer is None:
                self._timer = self.loop.call_later(limits.idle_s, self._hang_up)

        def _hang_up(self) -> None:
            self._timer = None
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self.transport.close()

        def _rest(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Protocol


def _busy_answer() -> bytes:
    body = bytes(ApiError(503, "Too many connections; try again later.").response().body)
    head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
    return (
        f"{head}content-length: {len(body)}\r\nretry-after: 1\r\nconnection: close\r\n\r\n".encode()
        + body
    )


_BUSY = _busy_answer()
