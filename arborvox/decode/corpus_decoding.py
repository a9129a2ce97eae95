"""Decode a corpus: a manifest in, a file of hypotheses out that can be continued and scored.

hyps.jsonl           a header, then a line for each utterance, in the order they were finished
hyps.timing.json     where the time went
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arborvox import audio
from arborvox.batching import cut_batches
from arborvox.config import DecodeConfig
from arborvox.console import progress, say, warn
from arborvox.decode.engine import Engine, load_engine
from arborvox.decode.hypothesis_file import (
    make_header,
    make_line,
    open_results,
    write_through,
)
from arborvox.decode.network import STAGES
from arborvox.decode.timing import Timing, read_timing
from arborvox.errors import ArborvoxError
from arborvox.files import check_target, hold, name_failed_writes, write_json_atomic
from arborvox.manifest import Utterance, load_manifest


@dataclass(frozen=True)
class Decoded:
    """What became of a test set."""

    num_utterances: int
    num_failed: int
    rtf: dict[str, float]  # by stage, and in total


def decode_manifest(run: Path, manifest: Path, config: DecodeConfig, out: Path) -> Decoded:
    """Decode the utterances of a manifest that are not yet in `out`, with a run's model."""
    return decode_with(load_engine(run, config), manifest, out)


def decode_with(engine: Engine, manifest: Path, out: Path) -> Decoded:
    """Decode the utterances of a manifest that are not yet in `out`; an engine may do many."""
    utterances = load_manifest(manifest)
    if not utterances:
        raise ArborvoxError(f"{manifest} holds no utterances, so there is nothing to decode.")
    check_target(out)
    header = make_header(engine, manifest)
    engine.network.clock.reset()
    with hold(lock_of(out), f"Another `arborvox decode` is writing {out}."):
        return _decode_rest(utterances, engine, header, out)


def lock_of(out: Path) -> Path:
    """Name the file whose holder may write `out`: locking `out` itself would keep readers off."""
    return out.with_name(f".{out.name}.lock")


def _decode_rest(
    utterances: list[Utterance], engine: Engine, header: dict[str, Any], out: Path
) -> Decoded:
    """Decode what is not yet in the file of results."""
    done = open_results(out, header)
    utterances = [utterance for utterance in utterances if utterance.id not in done]
    if done:
        say(f"{len(done)} utterances are in {out} already, {len(utterances)} are left.")
    if utterances:
        engine.rehearse()
    timing = _SideFile(out, engine, continued=bool(done))
    num_failed = 0
    with (
        name_failed_writes(out),
        out.open("a", encoding="utf-8", newline="\n") as results,
        progress("decoding", len(utterances)) as advance,
    ):
        for batch in cut_by_length(utterances, engine.config.batch_s):
            heard, features = read_speech(batch, engine)
            num_failed += len(batch) - len(heard)
            found = engine.recognize(features)
            # First the time: a batch that is done twice because of a kill is also counted twice.
            timing.add(sum(utterance.duration_s for utterance in heard))
            pairs = zip(heard, found, strict=True)
            write_through(results, [make_line(*pair, engine) for pair in pairs])
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


def read_speech(batch: Sequence[Utterance], engine: Engine) -> tuple[list[Utterance], list[Tensor]]:
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


class _SideFile:
    """The side file: where the time went, also in earlier parts of an interrupted decoding."""

    def __init__(self, out: Path, engine: Engine, *, continued: bool) -> None:
        self.path = out.with_suffix(".timing.json")
        self._engine = engine
        known = read_timing(self.path) if continued and self.path.exists() else None
        self._audio_s = known.audio_s if known else 0.0
        self._earlier_s = {s: known.seconds.get(s, 0.0) if known else 0.0 for s in STAGES}
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
        facts = Timing(
            audio_s=round(self._audio_s, 3),
            seconds={stage: round(spent_s, 4) for stage, spent_s in seconds.items()},
            rtf=self.rtf,
            mode=engine.mode,
            beam=engine.config.beam,
            precision=engine.network.precision,
            threads=torch.get_num_threads(),
            batch_s=engine.config.batch_s,
        )
        write_json_atomic(self.path, asdict(facts))


def _speed_report(rtf: dict[str, float]) -> str:
    parts = ", ".join(f"{stage} {rtf[stage]:.4f}" for stage in STAGES)
    return f"RTF {rtf['total']:.4f}: {parts}."
