"""How many made-up inputs a law is tried on: some at every run, many in the slow suite."""

import os

from hypothesis import HealthCheck, settings


def examples(fast: int, slow: int) -> settings:
    """Return settings with `slow` examples where ARBORVOX_SLOW is set, as `make test-all` does."""
    return settings(
        max_examples=slow if os.environ.get("ARBORVOX_SLOW") else fast,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
