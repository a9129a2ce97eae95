"""How many examples a property is tried with: some always, thousands with the slow tests."""

import os

from hypothesis import HealthCheck, settings


def examples(fast: int, slow: int) -> settings:
    """Return settings with the same examples each time; ARBORVOX_SLOW=1 asks for the many."""
    return settings(
        max_examples=slow if os.environ.get("ARBORVOX_SLOW") else fast,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
