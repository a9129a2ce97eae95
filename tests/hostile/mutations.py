"""Small changes to values of ours that make them a stranger's."""

import math
from typing import Any

from hypothesis import strategies as st

STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -1, 0, 1e308, math.nan, math.inf, -math.inf, 5e-324]),
    st.floats(),
    st.text(st.characters(), max_size=8),  # surrogates, control characters, anything
    st.sampled_from(["MonoCut", "file", "command", "../../x", "/etc/passwd", "\ud800", "a\0b"]),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths to everything inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, part in inner:
        found.append((*at, key))
        if isinstance(part, dict | list):
            found += places(part, (*at, key))
    return found


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """Return a copy of a JSON value with one place replaced, if it is still there."""
    if not place:
        return new
    if not isinstance(value, dict | list):
        return value
    copy = value.copy()
    if place[0] not in (copy if isinstance(copy, dict) else range(len(copy))):
        return copy
    copy[place[0]] = changed(copy[place[0]], place[1:], new)
    return copy
