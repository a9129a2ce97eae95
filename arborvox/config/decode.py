"""The decode section: how hypotheses are searched for, in a recipe, a command or a program."""

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    field_validator,
    model_validator,
)

from arborvox.config.choices import (
    HIGHEST_ORDER,
    InventoryUse,
    Precision,
    SearchMode,
    VoiceActivity,
    values_of,
)
from arborvox.config.section import Section
from arborvox.errors import ArborvoxError

DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,3})?")
MAX_BEAM = 1000
# What a model was tuned with, and so what its checkpoint may tell whoever uses it. Paths would be
# a stranger's, and the device and the size of a batch belong to the machine.
TUNED_KEYS = ("mode", "beam", "ctc_weight", "lm_weight", "length_bonus", "precision", "vad")
# What `arborvox tune` settles, and may put into a model.
SEARCH_KEYS = ("mode", "beam", "ctc_weight", "lm_weight", "length_bonus")


def _as_path(value: object) -> Path | None:
    if value is None or isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError("a file's name is expected")
    return Path(value)


FileName = Annotated[
    Path | None, PlainValidator(_as_path), PlainSerializer(lambda path: path and str(path))
]


class DecodeConfig(Section):
    """How to search; `DecodeConfig(mode="joint", beam=5)`.

    What is not set here is taken from the model's own recipe, as far as it was tuned there.
    """

    mode: SearchMode = "auto"  # joint where the model can, else the beam of its one branch
    beam: int = Field(10, gt=0, le=MAX_BEAM)  # hypotheses kept at each step
    ctc_weight: float = Field(0.3, ge=0, le=1)  # where CTC and decoder share: the decoder's is 1-w
    lm: FileName = None  # an ARPA file over the model's units
    # In `arborvox run`: one of the training transcripts instead, its n-grams of so many units.
    transcripts_lm: int | None = Field(None, ge=1, le=HIGHEST_ORDER)
    lm_weight: float = Field(0.3, ge=0, le=1000)
    length_bonus: float = Field(0.0, ge=-1000, le=1000)  # for each token written
    inventory: FileName = None  # a file of units, one a line; no other is written
    # Below this probability a phone is described: "voiceless stop, place unsure".
    back_off: float | None = Field(None, gt=0, le=1)
    # In `arborvox run`. corpus: each language's own inventory, where the corpus has them; both: two
    # tables, without and with them.
    inventories: InventoryUse = "none"
    vad: VoiceActivity = "energy"  # by what long recordings are cut at their pauses
    precision: Precision = "auto"  # bf16 where the processor has it
    batch_s: float = Field(160.0, gt=0, le=100_000)  # seconds of audio decoded together
    device: str = "auto"  # a GPU where there is one; cpu, cuda, cuda:N, mps

    if not TYPE_CHECKING:  # the type checker knows the keys better

        def __init__(self, **values: Any) -> None:
            """Check what a program asks for; the first mistake becomes one sentence."""
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise ArborvoxError(_mistake(error)) from None

        # So pydantic does not call it for sections of a recipe, whose mistakes are told with lines.
        __init__.__pydantic_base_init__ = True

    @field_validator("device")
    @classmethod
    def _check_device(cls, device: str) -> str:
        if not DEVICE.fullmatch(device):
            raise ValueError("choose auto, cpu, cuda, cuda:N or mps")
        return device

    @model_validator(mode="after")
    def _check_inventories(self) -> "DecodeConfig":
        name = None if self.inventory is None else str(self.inventory)
        if name in values_of(InventoryUse):
            raise ValueError(
                f"inventory names a file of units; write `inventories: {name}` instead"
            )
        if name is not None and self.inventories != "none":
            raise ValueError(
                "inventory is one file for all languages, inventories takes each language's own; "
                "set one of the two"
            )
        return self

    @model_validator(mode="after")
    def _check_language_models(self) -> "DecodeConfig":
        if self.lm is not None and self.transcripts_lm is not None:
            raise ValueError(
                "lm is a file, transcripts_lm makes one of the training transcripts; set one of "
                "the two"
            )
        return self

    def over(self, tuned: "DecodeConfig") -> "DecodeConfig":
        """Return this configuration with what it leaves open as another one was tuned."""
        left_open = set(TUNED_KEYS) - self.model_fields_set
        return self.model_copy(update={key: getattr(tuned, key) for key in left_open})

    def asks_for(self, search: "DecodeConfig") -> bool:
        """Whether what is left open here leaves room for a search that a model was tuned with.

        Its weights fit one way to search, with its language model or without any.
        """
        asked = self.model_fields_set
        without_lm = search.lm is not None and "lm_weight" in asked and not self.lm_weight
        other_mode = "mode" in asked and self.mode != search.mode
        return not (without_lm or other_mode or asked & {"lm", "transcripts_lm"})

    def with_search(self, search: "DecodeConfig") -> "DecodeConfig":
        """Return this configuration with a search in its place, language model included."""
        settled = {key: getattr(search, key) for key in search.model_fields_set}
        return self.model_copy(update=settled)

    def whole(self, **changes: Any) -> "DecodeConfig":
        """Return it with changes, and nothing left open: no checkpoint has a say in it."""
        return DecodeConfig(**{**dict(self), **changes})


def _mistake(error: ValidationError) -> str:
    details = error.errors(include_url=False)[0]
    key = str(details["loc"][0]) if details["loc"] else ""
    if details["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, DecodeConfig.model_fields, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {_known_keys()}."
        return f"DecodeConfig: unknown key {key}; {hint}"
    message = details["msg"].removeprefix("Value error, ")
    told = f"{key}: {message[0].lower()}{message[1:]}, not {details['input']!r}" if key else message
    return f"DecodeConfig: {told}."


def _known_keys() -> str:
    return ", ".join(DecodeConfig.model_fields)
