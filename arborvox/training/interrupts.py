"""Ctrl-C and SIGTERM as a request to stop after the step, not in the middle of it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked to stop; asking twice stops at once."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Take note of a signal."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def catch_interrupts() -> Iterator[StopRequest]:
    """Collect the signals that arrive while the block runs."""
    request = StopRequest()
    before = {
        number: signal.signal(number, request.ask) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
