"""What every request passes: its id, the hosts and origins that may ask, the token, the log."""

import logging
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arborvox.serve.draining import WatchedBody
from arborvox.serve.log import LOGGER
from arborvox.serve.metrics import Metrics
from arborvox.serve.refusals import ApiError

log = logging.getLogger(LOGGER)

STOPPING = "stopping"
REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
# Whoever may see the page may load it; what it then asks for needs the token.
_OPEN = re.compile(r"/|/project|/healthz|/page/[\w.-]+|/favicon\.ico")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
}


@dataclass
class Gate:
    """Whether new requests are taken, and how many are running."""

    is_closed: bool = False
    num_running: int = 0


@dataclass
class _Trace:
    """What is known of a request when it is over."""

    id: str
    method: str
    path: str
    start_s: float = field(default_factory=time.monotonic)
    status: int = 0


class Guard:
    """ASGI middleware around everything."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        token: str | None,
        gate: Gate,
        metrics: Metrics,
    ) -> None:
        """Note who may ask."""
        self.app, self.hosts, self.token = app, hosts, token
        self.gate, self.metrics = gate, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, answer, and note what came of it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        asked_id = headers.get("x-request-id", "")
        trace = _Trace(
            asked_id if REQUEST_ID.fullmatch(asked_id) else secrets.token_hex(8),
            scope.get("method", "WS"),
            scope["path"],
        )
        scope["state"] = {**scope.get("state", {}), "request_id": trace.id}

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                trace.status = message["status"]
                marked = MutableHeaders(scope=message)
                marked["X-Request-ID"] = trace.id
                for name, value in HEADERS.items():
                    marked.setdefault(name, value)
                marked.setdefault("Cache-Control", "no-store")
            elif message["type"] == "websocket.accept":
                trace.status = 101
            elif message["type"] == "websocket.close" and not trace.status:
                trace.status = 403
            await send(message)

        self.gate.num_running += 1
        try:
            self._check(scope, headers)
            await self.app(scope, receive, send_marked)
        except ApiError as error:
            if error.code == STOPPING and scope["type"] == "http":
                await WatchedBody(receive).drain()  # else the caller sees a reset, no sentence
            await self._refuse(scope, receive, send_marked, trace, error)
        except Exception:
            log.exception("fault", extra={"request": trace.id, "path": trace.path})
            fault = ApiError(500, "This is a fault of the server; its log says more.")
            await self._refuse(scope, receive, send_marked, trace, fault)
        finally:
            self.gate.num_running -= 1
            self._note(scope, trace)

    def _check(self, scope: Scope, headers: Headers) -> None:
        if headers.getlist("host") != [host := headers.get("host", "")] or (
            host.lower() not in self.hosts
        ):
            raise ApiError(403, "This server does not answer to that host name (--allow-host).")
        for origin in headers.getlist("origin"):
            scheme, _, rest = origin.partition("://")
            if scheme not in ("http", "https") or rest.lower() not in self.hosts:
                raise ApiError(403, "This server takes no requests from other sites.")
        if self.gate.is_closed and scope["path"] not in ("/healthz", "/metrics"):
            raise ApiError(
                503,
                "The server is stopping.",
                code=STOPPING,
                headers={"Retry-After": "5", "Connection": "close"},
            )
        # A browser cannot give a socket headers: there the first message may bring the token.
        if scope["type"] == "http" and not _OPEN.fullmatch(scope["path"]):
            check_token(self.token, headers)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, trace: _Trace, error: ApiError
    ) -> None:
        if scope["type"] == "websocket":
            if not trace.status:
                await send(
                    {"type": "websocket.close", "code": 1008, "reason": error.sentence[:100]}
                )
        elif not trace.status:  # else the answer has begun, and can only be broken off
            await error.response()(scope, receive, send)

    def _note(self, scope: Scope, trace: _Trace) -> None:
        seconds = time.monotonic() - trace.start_s
        route = _route_of(scope)
        self.metrics.count(
            "arborvox_requests_total",
            "Requests by route and status.",
            route=route,
            status=str(trace.status or 499),
        )
        if scope["type"] == "http":
            self.metrics.time(
                "arborvox_request_seconds", "From a request's headers to its answer.", seconds
            )
        notes: Mapping[str, Any] = scope["state"].get("notes", {})
        log.info(
            "request",
            extra={
                "request": trace.id,
                "method": trace.method,
                "route": route,
                "status": trace.status or 499,
                "seconds": round(seconds, 4),
                **notes,
            },
        )


def check_token(token: str | None, headers: Headers) -> None:
    """Refuse a request without the token, if there is one."""
    if token is None:
        return
    given = headers.get("authorization", "")
    scheme, _, value = given.partition(" ")
    if scheme.lower() != "bearer" or not same_token(token, value.strip()):
        raise ApiError(
            401,
            "This server needs its token: Authorization: Bearer TOKEN.",
            code="invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )


def same_token(token: str, given: str) -> bool:
    """Compare in a time that does not tell how much was right."""
    return secrets.compare_digest(token.encode(), given.encode("utf-8", "replace"))


def _route_of(scope: Scope) -> str:
    """Name the route, not the path: a stranger could make any number of paths."""
    route = scope.get("route")
    path: str = getattr(route, "path", "")
    return path or "none"
