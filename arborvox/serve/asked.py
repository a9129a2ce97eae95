"""What a request for a transcription asks for, checked field by field."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from arborvox.config.choices import ResponseFormat, SearchMode, TimestampGranularity, values_of
from arborvox.errors import one_line
from arborvox.serve.messages import ModelFacts, Wishes
from arborvox.serve.refusals import ApiError, wrong
from arborvox.serve.settings import Limits
from arborvox.serve.uploads import Form

GRANULARITIES = "timestamp_granularities[]"
STREAMED: tuple[ResponseFormat, ...] = ("json", "text")
KNOWN = frozenset(
    {
        "model", "language", "response_format", GRANULARITIES, "timestamp_granularities",
        "stream", "temperature", "prompt", "chunking_strategy", "inventory", "beam", "mode",
        "alternatives", "paths",
    }
)  # fmt: skip
Models = Mapping[str, ModelFacts]


@dataclass(frozen=True)
class Asked:
    """A checked request."""

    wishes: Wishes
    response_format: ResponseFormat
    granularities: frozenset[str]
    stream: bool


def read_asked(form: Form, models: Models, limits: Limits) -> Asked:
    """Read the fields of a request; a field that would do nothing is refused."""
    for name in form.fields:
        if name not in KNOWN:
            raise wrong(one_line(name, 60), f"There is no field {one_line(name, 60)!r}.")
    response_format = _choice(form, "response_format", values_of(ResponseFormat)) or "json"
    granularities = {
        value
        for name in (GRANULARITIES, "timestamp_granularities")
        for value in form.fields.get(name, [])
    }
    for value in granularities - set(values_of(TimestampGranularity)):
        raise wrong(GRANULARITIES, f"{one_line(value, 40)!r} is neither word nor segment.")
    if granularities and response_format != "verbose_json":
        raise wrong(GRANULARITIES, "Times are given with response_format verbose_json alone.")
    _refuse_what_does_nothing(form)
    stream = _flag(form, "stream")
    if stream and response_format not in STREAMED:
        raise wrong("stream", f"{response_format} cannot be streamed; ask for json.")
    wishes = read_wishes(
        {name: form.one(name) for name in ("model", "language", "inventory", "mode")},
        models,
        beam=_number(form, "beam", 1, limits.beam),
        alternatives=_number(form, "alternatives", 1, limits.alternatives) or 0,
        explained=_flag(form, "paths"),
    )
    for name, wanted in (("alternatives", wishes.alternatives), ("paths", wishes.explained)):
        if wanted and response_format != "verbose_json":
            raise wrong(name, f"{name} are given with response_format verbose_json alone.")
    return Asked(wishes, cast("ResponseFormat", response_format), frozenset(granularities), stream)


def read_wishes(
    texts: Mapping[str, str | None],
    models: Models,
    *,
    beam: int | None = None,
    alternatives: int = 0,
    explained: bool = False,
) -> Wishes:
    """Read which model is to hear, and what it may write."""
    name = texts.get("model")
    if name is None and len(models) == 1:
        name = next(iter(models))
    facts = models.get(name or "")
    if facts is None:
        there = ", ".join(models)
        told = "Say which model" if name is None else f"There is no model {one_line(name, 60)!r}"
        raise wrong("model", f"{told}; there are: {there}.", status=404, code="model_not_found")
    language, inventory, mode = texts.get("language"), texts.get("inventory"), texts.get("mode")
    if language and language not in facts.languages:
        known = ", ".join(facts.languages)
        raise wrong(
            "language",
            f"{facts.name} has not learnt {one_line(language, 40)!r}; it knows: {known}.",
        )
    if inventory and inventory not in facts.inventories:
        known = ", ".join(facts.inventories) or "none"
        raise wrong(
            "inventory", f"There is no inventory {one_line(inventory, 40)!r}; there are: {known}."
        )
    if mode and (mode not in values_of(SearchMode) or mode not in ("auto", *facts.modes)):
        known = ", ".join(facts.modes)
        raise wrong(
            "mode", f"{facts.name} cannot search by {one_line(mode, 40)!r}, but by {known}."
        )
    return Wishes(
        facts.name,
        language or None,
        inventory or None,
        mode or None,
        beam,
        alternatives,
        explained,
    )


def _refuse_what_does_nothing(form: Form) -> None:
    """Take what other servers' clients send only where it would change nothing."""
    temperature = form.one("temperature")
    if temperature is not None:
        try:
            is_zero = float(temperature) == 0.0
        except ValueError:
            raise wrong("temperature", "temperature is a number.") from None
        if not is_zero:
            raise wrong("temperature", "The best text is searched for, not drawn: only 0 is taken.")
    if (form.one("prompt") or "").strip():
        raise wrong("prompt", "These models take no prompt.")
    if form.one("chunking_strategy") not in (None, "auto"):
        raise wrong("chunking_strategy", "Speech is cut at its pauses: only auto is taken.")


def _choice(form: Form, name: str, values: tuple[str, ...]) -> str | None:
    value = form.one(name)
    if value is not None and value not in values:
        raise wrong(name, f"{name} is one of {', '.join(values)}, not {one_line(value, 40)!r}.")
    return value


def _flag(form: Form, name: str) -> bool:
    value = (form.one(name) or "false").lower()
    if value not in ("true", "false", "1", "0"):
        raise wrong(name, f"{name} is true or false.")
    return value in ("true", "1")


def _number(form: Form, name: str, least: int, most: int) -> int | None:
    value = form.one(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise wrong(name, f"{name} is a whole number.")
    if not least <= int(value) <= most:
        raise wrong(name, f"{name} lies in {least}..{most}.")
    return int(value)


def model_of(models: Models, name: str) -> ModelFacts:
    """Return a model by its name."""
    if name not in models:
        raise ApiError(404, f"There is no model {one_line(name, 60)!r}.", code="model_not_found")
    return models[name]
