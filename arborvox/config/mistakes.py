"""What is wrong with a recipe: one sentence with the key, its place and the nearest valid key."""

import difflib
import json
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from arborvox.config.recipe import Recipe


def first_mistake(error: ValidationError, name: str, places: dict[tuple[str, ...], str]) -> str:
    """Turn pydantic's first complaint into a sentence with key, place and nearest valid key."""
    details = error.errors(include_url=False)[0]
    location = tuple(str(part) for part in details["loc"])
    dotted = ".".join(location)
    place = name
    for length in range(len(location), 0, -1):
        if location[:length] in places:
            place = places[location[:length]]
            break
    if details["type"] == "extra_forbidden":
        close = _nearest_keys(location)
        hint = f"; did you mean {' or '.join(close)}?" if close else "."
        return f"{place}: unknown key {dotted}{hint}"
    value = details.get("input")
    told = "" if isinstance(value, dict) else f", not {json.dumps(value, ensure_ascii=False)}"
    message = details["msg"].removeprefix("Value error, ")
    return f"{place}: {dotted}: {message[0].lower() + message[1:]}{told}."


def _nearest_keys(location: tuple[str, ...]) -> list[str]:
    """Return the valid keys that look most like the unknown one, its own section first."""
    siblings = list(_section_at(location[:-1]).model_fields)
    close = difflib.get_close_matches(location[-1], siblings, n=1, cutoff=0.5)
    if close:
        return [".".join((*location[:-1], close[0]))]
    every: dict[str, list[str]] = {}  # two sections may have a key of the same name
    for dotted in _all_keys(Recipe):
        every.setdefault(dotted.rpartition(".")[2], []).append(dotted)
    close = difflib.get_close_matches(location[-1], list(every), n=1, cutoff=0.75)
    return [dotted for match in close for dotted in every[match]]


def _section_at(path: tuple[str, ...]) -> type[BaseModel]:
    """Return the section class at a key path."""
    section: type[BaseModel] = Recipe
    for part in path:
        if part.isdecimal():  # the place in a list of sections
            continue
        inner = _section_type(section.model_fields[part].annotation)
        if inner is None:
            break
        section = inner
    return section


def _section_type(annotation: Any) -> type[BaseModel] | None:
    """Return the section class in an annotation, through optionals and tuples."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is not None:
        for argument in get_args(annotation):
            inner = _section_type(argument)
            if inner is not None:
                return inner
    return None


def _all_keys(section: type[BaseModel], prefix: str = "") -> list[str]:
    """List every valid dotted key below a section."""
    keys = []
    for name, field in section.model_fields.items():
        inner = _section_type(field.annotation)
        deeper = inner is not section  # a corpus may hold more corpora
        keys += _all_keys(inner, f"{prefix}{name}.") if inner and deeper else [f"{prefix}{name}"]
    return keys
