"""`arborvox export --to sherpa`: a CTC model in the form that sherpa-onnx's recognizer loads.

sherpa-onnx computes Kaldi's filter banks itself, of samples in [-1, 1] and up to 400 Hz below half
the rate. The graph takes those, and gives log-probabilities of every token and the blank:

    recognizer = sherpa_onnx.OfflineRecognizer.from_zipformer_ctc(
        model="model.onnx", tokens="tokens.txt", feature_dim=80)
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.config.choices import ExportPrecision
from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.export.exporting import check_folder, stated_license
from arborvox.export.graphs import Graph, ScoresGraph
from arborvox.export.inputs import mean_of
from arborvox.export.onnx_files import require_onnx, trace, write_model
from arborvox.features import LogMel
from arborvox.files import atomic_folder, write_lines
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import LoadedModel, load_checkpoint
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.version import VERSION
from arborvox.vocabulary import PIECE_SPACE, UNK_ID, UNKNOWN_CHARACTER

MODEL, TOKENS = "model.onnx", "tokens.txt"
BLANK = "<blk>"
LEAST = -1e9
HIGH_FREQ = -400.0
WINDOW_S, SHIFT_S = 0.025, 0.010


class SherpaGraph(nn.Module):
    """sherpa-onnx's filter banks (B, T, M) with lengths (B,) to CTC's log-probabilities."""

    def __init__(self, model: ASR, tokenizer: Tokenizer) -> None:
        super().__init__()
        assert model.ctc is not None and isinstance(model.encoder.input, LogMel)
        self.encoder, self.scores = model.encoder, ScoresGraph(model.ctc.output, leaves=True)
        self.by_utterance = model.encoder.input.config.normalize == "utterance"
        self.more_frames = model.encoder.input.min_frames - 1
        self.num_special = tokenizer.num_special
        silent = [token for token in range(tokenizer.num_special) if token != UNK_ID]
        self.register_buffer("silent", torch.tensor(silent))
        self.silent: Tensor

    def forward(self, x: Tensor, x_lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities (B, T', V + 1) and lengths (B,)."""
        if self.by_utterance:
            x = x - mean_of(x, x_lens)[0]
        frames = functional.pad(x, (0, 0, 0, self.more_frames))  # for one state at least
        states, lens, _ = self.encoder(frames, x_lens)
        scores = self.scores(states)
        # What is never written parts repeated labels as the blank does, so it is the blank.
        hidden = scores.index_select(2, self.silent)
        blank = torch.maximum(scores[:, :, -1:], hidden.amax(dim=2, keepdim=True))
        never = hidden.clamp(max=LEAST) + LEAST  # a constant would keep the tracer's batch
        unknown, written = scores[:, :, UNK_ID : UNK_ID + 1], scores[:, :, self.num_special : -1]
        # <eos>, <unk>, the tags, the units, the blank
        return torch.cat((never[:, :, :1], unknown, never[:, :, 1:], written, blank), 2), lens


def export_sherpa(
    run: Path, out: Path, *, precision: ExportPrecision = "fp32", license: str | None = None
) -> None:
    """Write a run's CTC branch for sherpa-onnx."""
    require_onnx()
    loaded = load_checkpoint(run)
    _check(loaded)
    check_folder(out, mark=TOKENS)
    model = loaded.model.requires_grad_(False)
    num_mels = loaded.recipe.features.num_mels
    noise = torch.Generator().manual_seed(0)
    graph = Graph(
        SherpaGraph(model, loaded.tokenizer).eval(),
        {
            "x": torch.randn(3, 157, num_mels, generator=noise),
            "x_lens": torch.tensor([157, 100, 31]),
        },
        ("log_probs", "log_probs_lens"),
        {"x": {0: "batch", 1: "time"}, "x_lens": {0: "batch"}},
    )
    metadata = {
        "model_type": "zipformer2_ctc",
        "model_author": "arborvox",
        "version": "1",
        "arborvox": VERSION,
        "comment": loaded.recipe.name,
        "license": license or stated_license(loaded),
        "languages": ",".join(loaded.tokenizer.languages),
        "sample_rate": str(loaded.recipe.features.sampling_rate),
        "feature_dim": str(num_mels),
        "vocab_size": str(len(loaded.tokenizer) + 1),
        "subsampling_factor": "4",
    }
    with atomic_folder(out.absolute()) as part:
        write_model(trace(graph), part / MODEL, precision, metadata)
        write_lines(part / TOKENS, sherpa_tokens(loaded.tokenizer))
    say(f"wrote {out}: {MODEL} ({(out / MODEL).stat().st_size / 1e6:.1f} MB) and {TOKENS}")


def sherpa_tokens(tokenizer: Tokenizer) -> list[str]:
    """Return the lines of tokens.txt: a symbol and its number, a space written as ▁."""
    symbols = []
    for token, unit in enumerate(tokenizer.units):
        if token == UNK_ID:
            symbols.append(UNKNOWN_CHARACTER)
        elif token < tokenizer.num_special:
            symbols.append(unit)
        elif tokenizer.unit == "phone":
            symbols.append(PIECE_SPACE + unit)  # a space stands between phones
        else:
            symbols.append(PIECE_SPACE if unit == " " else unit)
    return [f"{symbol} {token}" for token, symbol in enumerate([*symbols, BLANK])]


def _check(loaded: LoadedModel) -> None:
    """Refuse what sherpa-onnx cannot compute the input of."""
    features = loaded.recipe.features
    if loaded.model.ctc is None:
        raise ArborvoxError(f"{loaded.folder} has no CTC branch, which is what sherpa-onnx runs.")
    if not isinstance(loaded.model.encoder.input, LogMel):
        raise ArborvoxError(
            f"{loaded.folder}: sherpa-onnx has no such input as "
            f"{loaded.model.encoder.description}; use --to onnx."
        )
    if (features.window_s, features.shift_s) != (WINDOW_S, SHIFT_S):
        raise ArborvoxError(
            f"{loaded.folder}: sherpa-onnx hears windows of {WINDOW_S} s every {SHIFT_S} s, not of "
            f"{features.window_s} s every {features.shift_s} s."
        )
    half = features.sampling_rate / 2
    if features.high_freq not in (HIGH_FREQ, half + HIGH_FREQ) or features.scale != "unit":
        raise ArborvoxError(
            f"{loaded.folder}: sherpa-onnx hears bands up to 400 Hz below half the rate, of "
            f"samples in [-1, 1]; train with --set features.high_freq=-400 --set "
            f"features.scale=unit."
        )
