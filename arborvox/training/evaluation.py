"""How good the model is on the development set: error rates by greedy CTC decoding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from arborvox.data import Batch
from arborvox.decode.ctc import merge_repeats
from arborvox.model.asr import ASR
from arborvox.model.precision import autocast
from arborvox.score.counts import error_counts, metrics_of, split_units
from arborvox.tokens import Tokenizer
from arborvox.training.ranks import Ranks


@dataclass(frozen=True)
class DevScore:
    """Errors and units by language; losses are means over tokens."""

    errors: dict[str, int]
    units: dict[str, int]
    ctc: float
    attention: float
    unreadable: int  # utterances left out because of their audio

    @property
    def error_rate(self) -> float | None:
        """Errors over units, all languages together; None without a CTC branch to decode with."""
        units = sum(self.units.values())
        return sum(self.errors.values()) / units if units else None

    @property
    def by_language(self) -> dict[str, float]:
        """Errors over units of each language that was heard."""
        return {name: self.errors[name] / n for name, n in self.units.items() if n}

    def measures(self) -> dict[str, Any]:
        """Return what metrics.jsonl keeps."""
        return {
            "error_rate": self.error_rate,
            "by_language": self.by_language,
            "ctc": self.ctc,
            "attention": self.attention,
            "unreadable": self.unreadable,
        }

    def __str__(self) -> str:
        """Say the error rate, and the languages it is best and worst for."""
        if self.error_rate is None:
            return f"dev attention loss {self.attention:.3f}{self._left_out}"
        told = f"dev error rate {100 * self.error_rate:.1f} %"
        ranked = sorted(self.by_language.items(), key=lambda entry: entry[1])
        if len(ranked) > 1:
            best, worst = ranked[0], ranked[-1]
            told += f" ({best[0]} {100 * best[1]:.1f} … {worst[0]} {100 * worst[1]:.1f})"
        return told + self._left_out

    @property
    def _left_out(self) -> str:
        return f", {self.unreadable} utterances unreadable" if self.unreadable else ""

    @property
    def score(self) -> float:
        """What checkpoints are compared by, less is better."""
        return self.attention if self.error_rate is None else self.error_rate


@torch.no_grad()
def evaluate(
    model: ASR,
    batches: Iterable[Batch],
    tokenizer: Tokenizer,
    languages: Sequence[str],
    ranks: Ranks,
    precision: str,
) -> DevScore:
    """Score a development set; each rank brings its share, all get the whole."""
    errors, units = dict.fromkeys(languages, 0), dict.fromkeys(languages, 0)
    metric = metrics_of(tokenizer.unit)[0]
    ctc = attention = 0.0
    num_tokens = unreadable = 0
    was_training = model.training
    model.eval()
    for batch in batches:
        unreadable += len(batch.skipped)
        if not batch.utterances:
            continue
        features, feature_lens, tokens, token_lens = batch.inputs(ranks.device)
        num_tokens += batch.num_targets
        with autocast(ranks.device, precision):
            encoded, encoded_lens = model.encode(features, feature_lens)
            if model.decoder is not None:
                nll = model.attention_nll(encoded, encoded_lens, tokens, token_lens)
                attention += float(nll.sum())
            if model.ctc is None:
                continue
            ctc += float(model.ctc(encoded, encoded_lens, tokens, token_lens).sum())
            log_probs = model.ctc_log_probs(encoded)  # (B, T', V + 1)
        found = greedy_tokens(log_probs, encoded_lens)
        for utterance, ids in zip(batch.utterances, found, strict=True):
            said = split_units(utterance.text, metric)
            counts = error_counts(said, split_units(tokenizer.decode(ids), metric))
            errors[utterance.language] += counts.num_errors
            units[utterance.language] += counts.num_reference
    model.train(was_training)
    totals = ranks.sum([*errors.values(), *units.values(), ctc, attention, num_tokens, unreadable])
    n = len(errors)
    return DevScore(
        errors=dict(zip(errors, map(int, totals[:n]), strict=True)),
        units=dict(zip(units, map(int, totals[n : 2 * n]), strict=True)),
        ctc=totals[-4] / max(totals[-2], 1.0),
        attention=totals[-3] / max(totals[-2], 1.0),
        unreadable=int(totals[-1]),
    )


def greedy_tokens(log_probs: Tensor, lens: Tensor) -> list[list[int]]:
    """Take the best label of each frame, merge repeats, drop blanks (the last label)."""
    blank = log_probs.shape[-1] - 1
    best = log_probs.argmax(dim=-1).cpu()  # (B, T')
    return [
        [token for token, _, _ in merge_repeats(row[:length].numpy(), dropped=(blank,))]
        for row, length in zip(best, lens.tolist(), strict=True)
    ]
