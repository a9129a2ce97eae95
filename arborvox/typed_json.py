"""JSON files of a known form: checked as a whole before anything of them is used."""

import json
from pathlib import Path
from typing import Any, TypeVar

from arborvox.errors import ArborvoxError, one_line
from arborvox.files import read_json

Form = TypeVar("Form")


def read_form(path: Path, form: type[Form], remedy: str) -> Form:
    """Read a JSON file that holds a dataclass or a plain type; the remedy says what to do if not.

    Keys that the form does not have are left out.
    """
    return check_form(read_json(path), form, path, remedy)


def check_form(value: Any, form: type[Form], path: Path, remedy: str) -> Form:
    """Turn a value of a JSON file into the form that it should have, or say where it has not."""
    from pydantic import TypeAdapter, ValidationError

    try:
        # Through JSON, strict mode takes lists for tuples but no text for numbers.
        return TypeAdapter(form).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        told = one_line(f"{place}: {first['msg']}" if place else first["msg"])
        raise ArborvoxError(f"{path} is damaged ({told}); {remedy}.") from None
