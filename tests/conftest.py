"""Fixtures that every test may use."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The real recordings and texts; tests that need them skip where they are missing."""
    named = os.environ.get("ARBORVOX_DATA")
    if not named or not Path(named).is_dir():
        pytest.skip("needs real data: set ARBORVOX_DATA to the folder that holds it")
    return Path(named)
