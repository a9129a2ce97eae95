"""An export and the user's wishes, ready to turn samples into hypotheses."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arborvox.config.choices import SearchMode, VoiceActivity, values_of
from arborvox.decode.ctc import align_all
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.inventory import load_inventory
from arborvox.decode.searches import SEARCHES, choose_search
from arborvox.decode.settings import BeamSettings
from arborvox.digests import digest_files
from arborvox.errors import ArborvoxError
from arborvox.runtime.manifest import HEAD
from arborvox.runtime.network import ExportNetwork

MAX_BEAM = 1000
# Keys of DecodeConfig that say how torch computes; an export was made in its precision.
OF_TORCH = ("device", "precision", "inventories", "transcripts_lm", "back_off")


@dataclass(frozen=True)
class SearchOptions:
    """How to search: the keys of DecodeConfig that an export heeds."""

    mode: SearchMode = "auto"
    beam: int = 10
    ctc_weight: float = 0.3
    lm: Path | None = None
    lm_weight: float = 0.3
    length_bonus: float = 0.0
    inventory: Path | None = None
    vad: VoiceActivity = "energy"
    batch_s: float = 160.0
    num_threads: int = 0  # of onnxruntime; 0: as many as it likes

    @classmethod
    def of(cls, given: Mapping[str, Any], tuned: Mapping[str, Any]) -> "SearchOptions":
        """Check what was asked for; the rest is as the model was tuned."""
        known = [field.name for field in fields(cls)]
        asked = {key: value for key, value in given.items() if key not in OF_TORCH}
        for key in asked:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
                raise ArborvoxError(f"Unknown option {key}; {hint}")
        for key in ("lm", "inventory"):
            if asked.get(key) is not None:
                asked[key] = Path(asked[key])
        chosen = {**{key: tuned[key] for key in _TUNED if key in tuned}, **asked}
        options = cls(**chosen)
        options._check()
        wide = options.mode == "auto" or SEARCHES[options.mode].wide
        if not wide and "length_bonus" not in asked:
            return replace(options, length_bonus=0.0)  # it was tuned for a beam
        return options

    def _check(self) -> None:
        if self.mode not in values_of(SearchMode):
            known = ", ".join(_modes())
            raise ArborvoxError(f"There is no mode {self.mode!r}; there are: {known}.")
        if self.vad not in values_of(VoiceActivity):
            ways = ", ".join(values_of(VoiceActivity))
            raise ArborvoxError(f"vad: there is no {self.vad!r}; there are: {ways}.")
        for key, least, most in _BOUNDS:
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ArborvoxError(f"{key} is a number, not {value!r}.")
            if not least <= value <= most:
                raise ArborvoxError(f"{key} lies between {least} and {most}, but it is {value}.")


_TUNED = ("mode", "beam", "ctc_weight", "lm_weight", "length_bonus")
_BOUNDS = (
    ("beam", 1, MAX_BEAM),
    ("ctc_weight", 0.0, 1.0),
    ("lm_weight", 0.0, 1000.0),
    ("length_bonus", -1000.0, 1000.0),
    ("batch_s", 1e-3, 100_000.0),
    ("num_threads", 0, 1024),
)


def _modes() -> tuple[str, ...]:
    return ("auto", *SEARCHES)


@dataclass(frozen=True)
class SampleInput:
    """What the encoder takes: samples, of which the graph itself makes features."""

    sampling_rate: int
    description: str


class ExportEngine:
    """Samples in, hypotheses out; `network.clock` tells where the time went."""

    def __init__(self, folder: Path, options: Mapping[str, Any]) -> None:
        threads = options.get("num_threads", 0)
        self.folder = folder
        self.checksums = {HEAD: digest_files(folder / HEAD)}  # it holds all others'
        self.network = ExportNetwork(folder, threads if type(threads) is int else 0)
        known = self.network.description
        self.tokenizer, self.frame_s = known.vocabulary, known.state_s
        self.max_segment_s = known.max_segment_s
        self.input = SampleInput(known.sampling_rate, known.features)
        try:
            self.config = SearchOptions.of(options, known.decode)
            self.mode = choose_search(
                self.config, has_ctc=known.has_ctc, has_decoder=known.has_decoder
            )
        except (ArborvoxError, StopIteration) as error:
            raise ArborvoxError(f"{folder}: {error}") from None
        self.search = SEARCHES[self.mode]
        lm = None
        if self.config.lm is not None:
            lm = _load_language_model(self.config.lm, self.tokenizer)
        self._settings = BeamSettings(
            beam=self.config.beam if self.search.wide else 1,
            ctc_weight=self.config.ctc_weight if self.search.weighs_ctc else 0.0,
            lm=lm,
            lm_weight=self.config.lm_weight if lm is not None else 0.0,
            length_bonus=self.config.length_bonus,
        )
        self.use_inventory(self.config.inventory)

    def use_inventory(self, path: Path | None) -> None:
        """Write only the units of a file from now on, or all again; the network stays loaded."""
        self.network.restrict(None if path is None else load_inventory(path, self.tokenizer))
        self.config = replace(self.config, inventory=path)

    def features(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the samples: the graph makes its features itself."""
        return np.asarray(samples, np.float32)

    def recognize(self, samples: Sequence[NDArray[np.float32]]) -> list[Hypothesis]:
        """Return the best hypothesis of each utterance, (S,) each; all are one batch."""
        if not samples:
            return []
        with self.network.clock.rest("search"):
            encoded = self.network.encode(samples)
            found = self.search.run(self.network, encoded, self._settings)
            return [best for (best, *_) in align_all(self.network, encoded, found)]


def _load_language_model(path: Path, vocabulary: Any) -> Any:
    try:
        from arborvox.decode.language_model import load_language_model
    except ModuleNotFoundError:
        raise ArborvoxError("A language model needs the whole of Arborvox.") from None
    return load_language_model(path, vocabulary)


def load_export(folder: Path, options: Mapping[str, Any]) -> ExportEngine:
    """Open what `arborvox export --to onnx` wrote."""
    return ExportEngine(folder, options)
