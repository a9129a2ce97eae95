"""A checkpoint and the user's wishes, ready to turn features into hypotheses."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arborvox.config import DecodeConfig
from arborvox.decode.automaton import LanguageModel
from arborvox.decode.back_off import BackOff
from arborvox.decode.ctc import align_all
from arborvox.decode.device import choose_device
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.inventory import load_inventory
from arborvox.decode.language_model import load_language_model
from arborvox.decode.network import CtcScores, Encoded, Network
from arborvox.decode.searches import SEARCHES, Found, choose_search
from arborvox.decode.settings import BeamSettings
from arborvox.errors import ArborvoxError
from arborvox.kernels.compiling import CompileNotice
from arborvox.model.checkpoint import LoadedModel, load_checkpoint

_notice = CompileNotice()  # the first search on a machine compiles its loops


class Engine:
    """Features in, hypotheses out; `network.clock` tells where the time went."""

    def __init__(self, loaded: LoadedModel, config: DecodeConfig) -> None:
        self.folder, self.checksums = loaded.folder, loaded.checksums
        self.tokenizer, self.input = loaded.tokenizer, loaded.model.encoder.input
        self.frame_s = loaded.model.encoder.state_s  # seconds that an encoder state stands for
        self._asked, self._tuned, self._search = config, loaded.recipe.decode, loaded.search
        model = loaded.model
        self._has_ctc, self._has_decoder = model.ctc is not None, model.decoder is not None
        self._choose(config)
        self._lm = self._read_language_model()
        self._settings = self._beam_settings()
        self.network = Network(
            model, precision=self.config.precision, device=choose_device(self.config.device)
        )
        self._back_off = None
        if self.config.back_off is not None:
            if not self.network.has_ctc:
                raise ArborvoxError(f"{loaded.folder}: back_off needs a model with a CTC branch.")
            self._back_off = BackOff(loaded.tree, loaded.tokenizer, self.config.back_off)
        self.use_inventory(self.config.inventory)

    def variant(
        self, *, num_best: int = 1, allowed: Sequence[int] | None = None, **changes: Any
    ) -> "Engine":
        """Return an engine that searches otherwise; network and language model are shared.

        changes: `mode`, `beam` and other keys of DecodeConfig. allowed: the tokens that may be
        written; None leaves it as it is.
        """
        other = copy.copy(self)
        asked = {key: getattr(self._asked, key) for key in self._asked.model_fields_set}
        other._choose(DecodeConfig(**{**asked, **changes}))
        if other.config.lm != self.config.lm:
            other._lm = other._read_language_model()
        other._settings = replace(other._beam_settings(), num_best=num_best)
        other.network = copy.copy(self.network)
        if allowed is not None:
            other.network.restrict(allowed)
        return other

    def _choose(self, config: DecodeConfig) -> None:
        """Settle on a search."""
        self.config = _settle(config, self._tuned, self._search)
        try:
            self.mode = choose_search(
                self.config, has_ctc=self._has_ctc, has_decoder=self._has_decoder
            )
        except ArborvoxError as error:
            raise ArborvoxError(f"{self.folder}: {error}") from None
        self.search = SEARCHES[self.mode]

    def _read_language_model(self) -> LanguageModel | None:
        lm = self.config.lm
        return None if lm is None else load_language_model(lm, self.tokenizer)

    def weights_now(self, *, with_lm: bool) -> DecodeConfig:
        """Return what this search weighs by as the model is, with a language model or without.

        Weights that the model was tuned with are its own only for the search that they fit.
        """
        known = self._search
        fits = known is not None and (known.mode, known.lm is not None) == (self.mode, with_lm)
        return known if known is not None and fits else self.config

    def _beam_settings(self) -> BeamSettings:
        config, lm = self.config, self._lm
        return BeamSettings(
            beam=config.beam if self.search.wide else 1,
            ctc_weight=config.ctc_weight if self.search.weighs_ctc else 0.0,
            lm=lm,
            lm_weight=config.lm_weight if lm is not None else 0.0,
            length_bonus=config.length_bonus,
        )

    def use_inventory(self, path: Path | None) -> None:
        """Write only the units of a file from now on, or all again; the network stays loaded."""
        inventory = None if path is None else load_inventory(path, self.tokenizer)
        self.network.restrict(inventory)
        self.config = self.config.model_copy(update={"inventory": path})

    def features(self, samples: NDArray[np.float32]) -> Tensor:
        """Turn samples (S,) at the model's rate into features (T, M)."""
        with self.network.clock("features"):
            return self.input(samples)

    def recognize(self, features: Sequence[Tensor]) -> list[Hypothesis]:
        """Return the best hypothesis of each utterance, (T, M) each; all are one batch."""
        return [found[0] for found in self.hypotheses(features)]

    @torch.inference_mode()
    def hypotheses(self, features: Sequence[Tensor]) -> list[list[Hypothesis]]:
        """Return the `num_best` hypotheses of each utterance, best first; all are one batch."""
        if not features:
            return []
        lens = torch.tensor([len(values) for values in features])
        with _notice, self.network.clock.rest("search"):
            encoded = self.network.encode(pad_sequence(list(features), batch_first=True), lens)
            found = self.search.run(self.network, encoded, self._settings)
            return self._describe(encoded, align_all(self.network, encoded, found))

    @torch.inference_mode()
    def ctc_scores(self, features: Sequence[Tensor]) -> tuple[CtcScores, list[int]]:
        """Return what CTC says of each frame of some utterances, (T, M) each, and their lengths."""
        lens = torch.tensor([len(values) for values in features])
        with _notice:
            encoded = self.network.encode(pad_sequence(list(features), batch_first=True), lens)
            return self.network.ctc_scores(encoded), encoded.lens.tolist()

    def rehearse(self) -> None:
        """Decode some noise and forget it, so that compiling is not counted as decoding."""
        noise = torch.Generator().manual_seed(0)
        samples = torch.randn(2 * self.input.sampling_rate, generator=noise)
        self.recognize([self.features(samples.numpy())])
        self.network.clock.reset()

    def _describe(self, encoded: Encoded, found: Found) -> Found:
        """Say what is sure of phones that are not, if that is asked for."""
        back_off = self._back_off
        if back_off is None:
            return found
        scores = self.network.ctc_scores(encoded)
        return [[back_off(scores, b, one) for one in best] for b, best in enumerate(found)]


def load_engine(run: Path, config: DecodeConfig) -> Engine:
    """Load a run's final model, or a checkpoint's."""
    return Engine(load_checkpoint(run), config)


def _settle(config: DecodeConfig, tuned: DecodeConfig, search: DecodeConfig | None) -> DecodeConfig:
    """Fill in what the user left open: a model is used as it was tuned."""
    if search is not None and config.asks_for(search):
        config = config.model_copy(update={"lm": search.lm})
        tuned = tuned.with_search(search)
    settled = config.over(tuned)
    is_wide = settled.mode == "auto" or SEARCHES[settled.mode].wide
    if is_wide or "length_bonus" in config.model_fields_set:
        return settled
    return settled.model_copy(update={"length_bonus": 0.0})  # it was tuned for a beam
