"""A checkpoint and the user's wishes, ready to turn features into hypotheses."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arborvox.config import DecodeConfig
from arborvox.decode.ctc import align_all
from arborvox.decode.device import choose_device
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.inventory import load_inventory
from arborvox.decode.language_model import load_language_model
from arborvox.decode.network import CtcScores, Network
from arborvox.decode.searches import SEARCHES, choose_search
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
        self.config = _settle(config, loaded)
        model = loaded.model
        try:
            self.mode = choose_search(
                self.config, has_ctc=model.ctc is not None, has_decoder=model.decoder is not None
            )
        except ArborvoxError as error:
            raise ArborvoxError(f"{loaded.folder}: {error}") from None
        self.search = SEARCHES[self.mode]
        lm = None
        if self.config.lm is not None:
            lm = load_language_model(self.config.lm, loaded.tokenizer)
        self._settings = BeamSettings(
            beam=self.config.beam if self.search.wide else 1,
            ctc_weight=self.config.ctc_weight if self.search.weighs_ctc else 0.0,
            lm=lm,
            lm_weight=self.config.lm_weight if lm is not None else 0.0,
            length_bonus=self.config.length_bonus,
        )
        self.network = Network(
            model, precision=self.config.precision, device=choose_device(self.config.device)
        )
        self.use_inventory(self.config.inventory)

    def use_inventory(self, path: Path | None) -> None:
        """Write only the units of a file from now on, or all again; the network stays loaded."""
        inventory = None if path is None else load_inventory(path, self.tokenizer)
        self.network.restrict(inventory)
        self.config = self.config.model_copy(update={"inventory": path})

    def features(self, samples: NDArray[np.float32]) -> Tensor:
        """Turn samples (S,) at the model's rate into features (T, M)."""
        with self.network.clock("features"):
            return self.input(samples)

    @torch.inference_mode()
    def recognize(self, features: Sequence[Tensor]) -> list[Hypothesis]:
        """Return the best hypothesis of each utterance, (T, M) each; all are one batch."""
        if not features:
            return []
        lens = torch.tensor([len(values) for values in features])
        with _notice, self.network.clock.rest("search"):
            encoded = self.network.encode(pad_sequence(list(features), batch_first=True), lens)
            found = self.search.run(self.network, encoded, self._settings)
            return align_all(self.network, encoded, [best[0] for best in found])

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


def load_engine(run: Path, config: DecodeConfig) -> Engine:
    """Load a run's final model, or a checkpoint's."""
    return Engine(load_checkpoint(run), config)


def _settle(config: DecodeConfig, loaded: LoadedModel) -> DecodeConfig:
    """Fill in what the user left open: a model is used as it was tuned."""
    settled = config.over(loaded.recipe.decode)
    is_wide = settled.mode == "auto" or SEARCHES[settled.mode].wide
    if is_wide or "length_bonus" in config.model_fields_set:
        return settled
    return settled.model_copy(update={"length_bonus": 0.0})  # it was tuned for a beam
