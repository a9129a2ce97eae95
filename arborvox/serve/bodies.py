"""Small JSON bodies of requests, checked field by field."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from starlette.requests import Request

from arborvox.serve.refusals import ApiError
from arborvox.serve.settings import Limits
from arborvox.serve.uploads import receive_body

MOST_BYTES = 256 << 10
T = TypeVar("T")


class EmptyBody(BaseModel):
    """A request that says by its address alone what it wants."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ItemChange(EmptyBody):
    """What somebody does to an utterance, and as which revision it was seen."""

    revision: int
    author: str = ""


class ItemCorrection(ItemChange):
    """Its text."""

    text: str


class Withdrawn(EmptyBody):
    """One of the two."""

    recording: str | None = None
    speaker: str | None = None


class ModelChoice(EmptyBody):
    """Which model is meant: the one that somebody saw, not one that came meanwhile."""

    model: str


async def read_body(request: Request, form: type[T]) -> T:
    """Read a JSON object into one of the forms below; a field that it has not is refused."""
    limits: Limits = request.app.state.service.limits
    data = await receive_body(request.headers, request.receive, limits, MOST_BYTES)
    return check_json(data, TypeAdapter(form))


def check_json(data: bytes, form: TypeAdapter[T]) -> T:
    """Return what JSON says, or refuse it by the first field that is wrong."""
    try:
        return form.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ApiError(400, f"This cannot be used ({place}: {first['msg']}).") from None
