"""What is wrong with a recipe: one sentence with the key, its place and the nearest valid key."""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from arborvox.config.migration import new_name, new_value
from arborvox.config.recipe import Recipe
from arborvox.errors import one_line

Path = tuple[str, ...]
MAX_VALUE_SHOWN = 80


@dataclass(frozen=True)
class _Spot:
    """Where pydantic stumbled: the key as a recipe has it, and the section that it stands in."""

    path: Path
    section: type[BaseModel]
    kind: str | None  # which of the sections it is, where there is a choice
    kinds: dict[str, type[BaseModel]]


def first_mistake(error: ValidationError, name: str, places: dict[Path, str]) -> str:
    """Turn pydantic's first complaint into a sentence with key, place and nearest valid key."""
    details = error.errors(include_url=False)[0]
    spot = _find_spot(tuple(str(part) for part in details["loc"]))
    path, value = spot.path, details.get("input")
    place = _place_of(path, places) or name
    if details["type"] == "extra_forbidden":
        return f"{place}: unknown key {one_line('.'.join(path))}{_way_out(spot, value)}"
    renamed = new_value(spot.kind, path[-1] if path else "", value)
    if renamed is not None:
        shown = one_line(".".join(path))
        return f"{place}: {shown}: {value} is called {renamed} now for the kind {spot.kind}."
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "union_tag_invalid":
        path, value = (*path, "kind"), value.get("kind") if isinstance(value, dict) else value
        place = _place_of(path, places) or name
        message = f"input should be {details['ctx']['expected_tags']}"
    elif details["type"] == "union_tag_not_found":
        message = "input should be a section with keys of its own"
    told = "" if isinstance(value, dict) else f", not {_shown(value)}"
    return f"{place}: {one_line('.'.join(path))}: {message[0].lower() + message[1:]}{told}."


def _place_of(path: Path, places: dict[Path, str]) -> str | None:
    """Return where a key stands, or the nearest section around it; else what stands in it."""
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
        inner = [place for key, place in places.items() if key[:length] == path[:length]]
        if inner:
            return inner[-1]
    return None


def _way_out(spot: _Spot, value: Any) -> str:
    """Say what to write instead of an unknown key."""
    renamed = new_name(spot.path, value)
    if renamed is not None:
        return f": it is called {one_line(renamed)} now."
    elsewhere = [kind for kind, s in spot.kinds.items() if spot.path[-1] in s.model_fields]
    if spot.kind is not None:
        having = f" ({' and '.join(elsewhere)} can)" if elsewhere else ""
        told = f", which the kind {spot.kind} cannot have{having}"
    else:
        told = ""
    close = _nearest_keys(spot)
    return f"{told}; did you mean {close}?" if close else f"{told}."


def _nearest_keys(spot: _Spot) -> str | None:
    """Return the valid key that looks most like the unknown one, its own section first."""
    *around, unknown = spot.path
    close = difflib.get_close_matches(unknown, list(spot.section.model_fields), n=1, cutoff=0.5)
    if close:
        return ".".join((*around, close[0]))
    if spot.kind is not None:
        return None
    every: dict[str, dict[str, None]] = {}  # sections may have keys of the same name
    for dotted in _all_keys(Recipe):
        every.setdefault(dotted.rpartition(".")[2], {})[dotted] = None
    close = difflib.get_close_matches(unknown, list(every), n=1, cutoff=0.75)
    return " or ".join(every[close[0]]) if close else None


def _find_spot(location: Path) -> _Spot:
    """Take pydantic's names of kinds out of a location, and find the section it leads to."""
    section: type[BaseModel] = Recipe
    kind, kinds = None, {}
    open_kinds: dict[str, type[BaseModel]] = {}
    path: list[str] = []
    for part in location:
        if part in open_kinds:  # corpus, ucla, hours: the second is no key
            section, kind, kinds, open_kinds = open_kinds[part], part, open_kinds, {}
            continue
        path.append(part)
        field = section.model_fields.get(part)
        if part.isdecimal() or field is None:  # a place in a list, an unknown key
            continue
        inner = _sections_in(field.annotation)
        open_kinds = inner if len(inner) > 1 else {}
        if len(inner) == 1:
            section, kind, kinds = next(iter(inner.values())), None, {}
    return _Spot(tuple(path), section, kind, kinds)


def _sections_in(annotation: Any) -> dict[str, type[BaseModel]]:
    """Return the sections in an annotation by their tags, or by class where there is one only."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation.__name__: annotation}
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        tags = [note.tag for note in notes if isinstance(note, Tag)]
        return {tags[0]: inner} if tags else _sections_in(inner)
    return {tag: s for part in get_args(annotation) for tag, s in _sections_in(part).items()}


def _all_keys(section: type[BaseModel], prefix: str = "", depth: int = 0) -> Iterator[str]:
    """List every valid dotted key below a section; a corpus in a corpus has no keys of its own."""
    for name, field in section.model_fields.items():
        inner = _sections_in(field.annotation)
        if not inner or depth:
            yield f"{prefix}{name}"
        for each in inner.values() if not depth else ():
            yield from _all_keys(each, f"{prefix}{name}.", depth + 1)


def _shown(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), MAX_VALUE_SHOWN)
