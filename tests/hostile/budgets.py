"""What a property may cost: some examples always, thousands with the slow tests, and no memory."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from hypothesis import HealthCheck, settings

ROOM_BYTES = 2 << 30


def examples(fast: int, slow: int) -> settings:
    """Return settings with the same examples each time; ARBORVOX_SLOW=1 asks for the many."""
    return settings(
        max_examples=slow if os.environ.get("ARBORVOX_SLOW") else fast,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Let whatever asks for much more memory than is taken already fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
