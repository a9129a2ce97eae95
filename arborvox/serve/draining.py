"""The body of a request that is refused: read to its end, or the answer would not arrive."""

import asyncio
import contextlib

from starlette.types import Receive

# What of a refused request is still read, so that its sender comes to hear the answer.
DRAINED_BYTES, DRAINED_S = 8 << 20, 2.0


class WatchedBody:
    """`receive`, which remembers whether the body has come to its end."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._has_ended = False

    async def __call__(self) -> dict[str, object]:
        message = await self._receive()
        ends = message["type"] == "http.disconnect" or not message.get("more_body", False)
        self._has_ended = self._has_ended or ends
        return dict(message)

    async def drain(self) -> None:
        """Read on for a little, and forget it."""
        num_bytes = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAINED_S):
                while not self._has_ended and num_bytes < DRAINED_BYTES:
                    message = await self()
                    num_bytes += len(message.get("body", b""))  # type: ignore[arg-type]
