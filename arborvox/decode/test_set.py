"""Decode a test set: a manifest in, a file of hypotheses out that can be continued and scored.

hyps.jsonl           a header, then a line for each utterance, in the order they were finished
hyps.timing.json     where the time went
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor

from arborvox import audio
from arborvox.batching import cut_batches
from arborvox.console import progress, say, warn
from arborvox.decode.engine import GREEDY_MODES, DecodeConfig, Engine
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.network import STAGES
from arborvox.errors import ArborvoxError
from arborvox.files import hold, name_failed_writes, read_json, write_json_atomic
from arborvox.manifest import Utterance, load_manifest
from arborvox.model.checkpoint import load_checkpoint
from arborvox.tokens.tokenizer import UNK_ID, Tokenizer

VERSION = 1
NORMALISATION = (
    "References are the manifest's texts, as `arborvox prepare` normalised them (docs/text.md); "
    "hypotheses are what the model wrote, unchanged."
)


@dataclass(frozen=True)
class Decoded:
    """What became of a test set."""

    num_utterances: int
    num_failed: int
    rtf: dict[str, float]  # by stage, and in total


def decode_manifest(run: Path, manifest: Path, config: DecodeConfig, out: Path) -> Decoded:
    """Decode the utterances of a manifest that are not yet in `out`."""
    loaded = load_checkpoint(run)
    engine = Engine(loaded, config)
    header = _header(loaded.folder, manifest, engine)
    utterances = load_manifest(manifest)
    with hold(out, f"Another `arborvox decode` is writing {out}."), name_failed_writes(out):
        return _decode_rest(utterances, engine, header, out)


def _decode_rest(
    utterances: list[Utterance], engine: Engine, header: dict[str, Any], out: Path
) -> Decoded:
    """Decode what is not yet in the file of results."""
    done = _open_results(out, header)
    utterances = [utterance for utterance in utterances if utterance.id not in done]
    if done:
        say(f"{len(done)} utterances are in {out} already, {len(utterances)} are left.")
    if utterances:
        engine.rehearse()
    timing = _Timing(out, engine, continued=bool(done))
    num_failed = 0
    with (
        out.open("a", encoding="utf-8", newline="\n") as results,
        progress("decoding", len(utterances)) as advance,
    ):
        for batch in cut_by_length(utterances, engine.config.batch_s):
            heard, features = _read_speech(batch, engine)
            num_failed += len(batch) - len(heard)
            found = engine.recognise(features)
            # First the time: a batch that is done twice because of a kill is also counted twice.
            timing.add(sum(utterance.duration_s for utterance in heard))
            pairs = zip(heard, found, strict=True)
            results.writelines(_line(utterance, best, engine) for utterance, best in pairs)
            _flush(results)
            advance(len(batch))
    say(f"wrote {timing.path}")
    say(f"wrote {out}")
    say(_speed_report(timing.rtf))
    if num_failed:
        warn(f"{num_failed} utterances could not be read; they are not in {out}.")
    return Decoded(len(utterances) - num_failed, num_failed, timing.rtf)


def cut_by_length(utterances: Sequence[Utterance], batch_s: float) -> Iterator[list[Utterance]]:
    """Yield batches of utterances of about one length, longest first, padding counted."""
    ordered = sorted(utterances, key=lambda u: (-u.duration_s, u.id))
    durations_s = np.array([utterance.duration_s for utterance in ordered])
    for begin, end in cut_batches(durations_s, batch_s).tolist():
        yield ordered[begin:end]


def _read_speech(
    batch: Sequence[Utterance], engine: Engine
) -> tuple[list[Utterance], list[Tensor]]:
    """Return the utterances that could be read, and their features (T, M)."""
    heard, features = [], []
    rate = engine.input.sampling_rate
    for utterance in batch:
        first = round(utterance.start_s * rate)
        try:
            with engine.network.clock("features"):
                samples = audio.load(Path(utterance.audio), rate)
            samples = samples[first : first + round(utterance.duration_s * rate)]
            if not len(samples):
                raise audio.AudioProblem("shorter than its manifest says")
        except audio.AudioProblem as problem:
            warn(f"{utterance.id}: {problem} ({utterance.audio}).")
        else:
            features.append(engine.features(samples))
            heard.append(utterance)
    return heard, features


def _header(folder: Path, manifest: Path, engine: Engine) -> dict[str, Any]:
    config = engine.config
    searches_wide = engine.mode not in GREEDY_MODES
    return {
        "arborvox_hypotheses": VERSION,
        "run": str(folder),
        "manifest": str(manifest.absolute()),
        "mode": engine.mode,
        "beam": config.beam if searches_wide else 1,
        "unit": engine.tokenizer.unit,
        "normalisation": NORMALISATION,
        "settings": {
            "ctc_weight": config.ctc_weight if engine.mode in ("joint", "rescoring") else None,
            "lm": None if config.lm is None else str(config.lm.absolute()),
            "lm_weight": None if config.lm is None else config.lm_weight,
            "length_bonus": config.length_bonus if searches_wide else None,
            "inventory": None if config.inventory is None else str(config.inventory.absolute()),
            "precision": engine.network.precision,
        },
    }


def _line(utterance: Utterance, found: Hypothesis, engine: Engine) -> str:
    tokenizer: Tokenizer = engine.tokenizer
    fields = {
        "id": utterance.id,
        "language": utterance.language,
        "reference": utterance.text,
        "text": tokenizer.decode(found.tokens),
        "score": round(found.score, 4),
        "duration_s": utterance.duration_s,
        "tokens": [tokenizer.units[token] for token in found.tokens],
        "confidences": [round(confidence, 4) for confidence in found.confidences],
        "times_s": found.times_s(engine.frame_s),
        "num_unknown": found.tokens.count(UNK_ID),
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"


def _open_results(out: Path, header: dict[str, Any]) -> set[str]:
    """Begin a file of results, or find out which utterances an interrupted one has."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.exists() or not out.stat().st_size:
        out.write_text(json.dumps(header, ensure_ascii=False) + "\n", encoding="utf-8")
        return set()
    done: set[str] = set()
    whole = 0  # bytes up to the last line that is complete
    with out.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):  # the process was killed while it wrote this one
                break
            whole += len(line)
            try:
                fields = json.loads(line)
                if number == 1:
                    _compare_headers(out, fields, header)
                else:
                    done.add(fields["id"])
            except (ValueError, KeyError, TypeError, AttributeError):
                raise ArborvoxError(
                    f"{out}, line {number}: not a line of hypotheses; choose another --out."
                ) from None
    if whole == 0:
        raise ArborvoxError(f"{out} is not a file of hypotheses; choose another --out.")
    os.truncate(out, whole)
    return done


def _compare_headers(out: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Refuse to continue what was decoded in another way."""
    before = {**found, **found.get("settings", {})}
    now = {**wanted, **wanted["settings"]}
    for key, value in now.items():
        if key != "settings" and before.get(key) != value:
            raise ArborvoxError(
                f"{out} was begun with {key} {before.get(key)!r}, not {value!r}; "
                f"choose another --out, or delete it."
            )


def _flush(results: TextIO) -> None:
    results.flush()
    os.fsync(results.fileno())


class _Timing:
    """The side file: where the time went, also in earlier parts of an interrupted decoding."""

    def __init__(self, out: Path, engine: Engine, *, continued: bool) -> None:
        self.path = out.with_suffix(".timing.json")
        self._engine = engine
        known = read_json(self.path) if continued and self.path.exists() else {}
        self._audio_s = float(known.get("audio_s", 0.0))
        self._earlier_s = known.get("seconds", dict.fromkeys(STAGES, 0.0))
        self.rtf: dict[str, float] = {}
        self.add(0.0)

    def add(self, audio_s: float) -> None:
        """Count audio that was decoded, and write down the time it took."""
        self._audio_s += audio_s
        engine = self._engine
        spent = engine.network.clock.seconds
        seconds = {stage: spent[stage] + self._earlier_s[stage] for stage in STAGES}
        self.rtf = {
            stage: round(spent_s / self._audio_s, 6) if self._audio_s else 0.0
            for stage, spent_s in {**seconds, "total": sum(seconds.values())}.items()
        }
        facts = {
            "audio_s": round(self._audio_s, 3),
            "seconds": {stage: round(spent_s, 4) for stage, spent_s in seconds.items()},
            "rtf": self.rtf,
            "mode": engine.mode,
            "beam": engine.config.beam,
            "precision": engine.network.precision,
            "threads": torch.get_num_threads(),
            "batch_s": engine.config.batch_s,
        }
        write_json_atomic(self.path, facts)


def _speed_report(rtf: dict[str, float]) -> str:
    parts = ", ".join(f"{stage} {rtf[stage]:.4f}" for stage in STAGES)
    return f"RTF {rtf['total']:.4f}: {parts}."
