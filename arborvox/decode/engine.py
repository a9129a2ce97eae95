"""A checkpoint and the user's wishes, ready to turn features into hypotheses."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arborvox.config.choices import Search, values_of
from arborvox.decode.attention import BeamSettings, attention_beam, attention_greedy
from arborvox.decode.ctc import align_hypothesis, ctc_beam, ctc_greedy
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.inventory import load_inventory
from arborvox.decode.language_model import load_language_model
from arborvox.decode.network import Encoded, Network
from arborvox.decode.rescoring import attention_rescoring
from arborvox.errors import ArborvoxError
from arborvox.kernels.compiling import CompileNotice
from arborvox.model.checkpoint import LoadedModel

MODES = values_of(Search)
GREEDY_MODES = ("ctc-greedy", "attention-greedy")

_notice = CompileNotice()  # the first search on a machine compiles its loops


@dataclass(frozen=True)
class DecodeConfig:
    """How to search."""

    mode: str = "auto"  # joint where the model can, else the beam of its one branch
    beam: int = 10
    ctc_weight: float = 0.3  # in joint and rescoring; the decoder's part is the rest
    lm: Path | None = None  # an ARPA file over the model's units
    lm_weight: float = 0.3
    length_bonus: float = 0.0  # for each token written
    inventory: Path | None = None  # a file of units, one a line
    precision: str = "auto"
    batch_s: float = 160.0  # seconds of audio, padding included, that are decoded together

    def __post_init__(self) -> None:
        """Refuse what no search can do."""
        if self.mode not in ("auto", *MODES):
            raise ArborvoxError(f"Unknown mode '{self.mode}'; there are: {', '.join(MODES)}.")
        if self.beam < 1:
            raise ArborvoxError(f"The beam must be at least 1, but it is {self.beam}.")
        if not 0.0 <= self.ctc_weight <= 1.0:
            raise ArborvoxError(f"The CTC weight must lie in 0..1, but it is {self.ctc_weight}.")
        if self.lm_weight < 0.0:
            raise ArborvoxError(f"The LM weight must not be below 0, but it is {self.lm_weight}.")
        if self.mode in GREEDY_MODES and (self.lm is not None or self.length_bonus):
            raise ArborvoxError(
                f"{self.mode} cannot use a language model or a length bonus; choose ctc-beam, "
                f"attention-beam, joint or rescoring."
            )
        if self.batch_s <= 0.0:
            raise ArborvoxError(f"The batch must be longer than {self.batch_s} s.")


class Engine:
    """Features in, hypotheses out; `network.clock` tells where the time went."""

    def __init__(self, loaded: LoadedModel, config: DecodeConfig) -> None:
        self.tokenizer, self.input = loaded.tokenizer, loaded.model.encoder.input
        self.frame_s = loaded.model.encoder.state_s  # seconds that an encoder state stands for
        self.mode = _choose_mode(config.mode, loaded)
        self.config = config
        inventory = lm = None
        if config.inventory is not None:
            inventory = load_inventory(config.inventory, loaded.tokenizer)
        if config.lm is not None:
            lm = load_language_model(config.lm, loaded.tokenizer)
        self._lm: dict[str, Any] = {
            "lm": lm,
            "lm_weight": config.lm_weight if lm is not None else 0.0,
            "length_bonus": config.length_bonus,
        }
        self.network = Network(loaded.model, precision=config.precision, inventory=inventory)

    def features(self, samples: NDArray[np.float32]) -> Tensor:
        """Turn samples (S,) at the model's rate into features (T, M)."""
        with self.network.clock("features"):
            return self.input(samples)

    @torch.inference_mode()
    def recognise(self, features: Sequence[Tensor]) -> list[Hypothesis]:
        """Return the best hypothesis of each utterance, (T, M) each; all are one batch."""
        if not features:
            return []
        lens = torch.tensor([len(values) for values in features])
        with _notice, self.network.clock.rest("search"):
            encoded = self.network.encode(pad_sequence(list(features), batch_first=True), lens)
            return self._align(encoded, self._search(encoded))

    def rehearse(self) -> None:
        """Decode some noise and forget it, so that compiling is not counted as decoding."""
        noise = torch.Generator().manual_seed(0)
        samples = torch.randn(2 * self.input.sampling_rate, generator=noise)
        self.recognise([self.features(samples.numpy())])
        self.network.clock.reset()

    def _search(self, encoded: Encoded) -> list[Hypothesis]:
        network, config = self.network, self.config
        if self.mode == "ctc-greedy":
            return ctc_greedy(network, encoded)
        if self.mode == "attention-greedy":
            return attention_greedy(network, encoded)
        if self.mode == "ctc-beam":
            found = ctc_beam(network, encoded, beam=config.beam, **self._lm)
        elif self.mode == "rescoring":
            found = attention_rescoring(
                network, encoded, beam=config.beam, ctc_weight=config.ctc_weight, **self._lm
            )
        else:
            weight = config.ctc_weight if self.mode == "joint" else 0.0
            settings = BeamSettings(beam=config.beam, ctc_weight=weight, **self._lm)
            found = attention_beam(network, encoded, settings)
        return [best[0] for best in found]

    def _align(self, encoded: Encoded, found: list[Hypothesis]) -> list[Hypothesis]:
        """Ask CTC when the decoder's tokens were said, if there is CTC to ask."""
        if not self.network.has_ctc or not self.mode.startswith(("attention", "joint")):
            return found
        scores, lens = self.network.ctc_scores(encoded), encoded.lens.tolist()
        return [
            align_hypothesis(scores, b, lens[b], hypothesis) for b, hypothesis in enumerate(found)
        ]


def _choose_mode(wanted: str, loaded: LoadedModel) -> str:
    has_ctc, has_decoder = loaded.model.ctc is not None, loaded.model.decoder is not None
    if wanted == "auto":
        return "joint" if has_ctc and has_decoder else "ctc-beam" if has_ctc else "attention-beam"
    try:
        check_mode(wanted, has_ctc=has_ctc, has_decoder=has_decoder)
    except ArborvoxError as error:
        raise ArborvoxError(f"{loaded.folder}: {error}") from None
    return wanted


def check_mode(wanted: str, *, has_ctc: bool, has_decoder: bool) -> None:
    """Refuse a search that needs a branch which the model does not have."""
    if wanted in ("ctc-greedy", "ctc-beam", "joint", "rescoring") and not has_ctc:
        raise ArborvoxError(
            f"There is no CTC branch, so mode {wanted} cannot be used; "
            f"choose attention-greedy or attention-beam."
        )
    if not has_decoder and wanted != "auto" and not wanted.startswith("ctc"):
        raise ArborvoxError(
            f"There is no attention decoder, so mode {wanted} cannot be used; "
            f"choose ctc-greedy or ctc-beam."
        )
