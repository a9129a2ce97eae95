"""Decode a corpus: a manifest in, a file of hypotheses out that can be continued and scored.

hyps.jsonl           a header, then a line for each utterance, the longest first
hyps.timing.json     where the time went
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from arborvox import audio
from arborvox.batching import cut_batches
from arborvox.config import DecodeConfig
from arborvox.console import progress, say, warn
from arborvox.decode.engine import Engine, load_engine
from arborvox.decode.hypothesis_file import (
    compare_headers,
    make_header,
    make_line,
    write_through,
)
from arborvox.decode.network import STAGES
from arborvox.decode.shared_file import SharedFile
from arborvox.decode.timing import (
    RankTiming,
    Timing,
    join_timings,
    read_timing,
    real_time_factors,
)
from arborvox.errors import ArborvoxError
from arborvox.files import check_target, name_failed_writes, write_json_atomic
from arborvox.manifest import Utterance, load_manifest
from arborvox.shards import find_recording, recording_file, shard_of
from arborvox.team import Team, this_team


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
    """Decode the utterances of a manifest that are not yet in `out`; an engine may do many.

    Processes that torchrun started share the work; the first one holds the lock and gathers.
    """
    utterances = load_manifest(manifest)
    if not utterances:
        raise ArborvoxError(f"{manifest} holds no utterances, so there is nothing to decode.")
    check_target(out)
    header = make_header(engine, manifest)
    engine.network.clock.reset()
    team = this_team()
    with team.hold(lock_of(out), f"Another `arborvox decode` is writing {out}."):
        return _decode_rest(utterances, engine, SharedFile(out, header, team, compare_headers))


def lock_of(out: Path) -> Path:
    """Name the file whose holder may write `out`: locking `out` itself would keep readers off."""
    return out.with_name(f".{out.name}.lock")


def _decode_rest(utterances: list[Utterance], engine: Engine, results: SharedFile) -> Decoded:
    """Decode what is not yet in the file of results."""
    team, out = this_team(), results.path
    done = results.begin()
    # Cut before it is known what is done, and by whom: an utterance always has the same neighbors.
    batches = list(cut_by_length(utterances, engine.config.batch_s))
    left = [batch for batch in batches if any(utterance.id not in done for utterance in batch)]
    num_left = sum(utterance.id not in done for utterance in utterances)
    if done:
        say(f"{len(done)} utterances are in {out} already, {num_left} are left.")
    if left:
        engine.rehearse()
    timing = _SideFile(results, engine, team, continued=bool(done))
    num_failed = drawn = 0
    with (
        name_failed_writes(out),
        results.own.open("a", encoding="utf-8", newline="\n") as lines,
        progress("decoding", len(left)) as advance,
    ):
        for number in team.draw(len(left)):
            heard, features = read_speech(left[number], engine)
            num_failed += len(left[number]) - len(heard)
            if any(utterance.id not in done for utterance in heard):
                found = engine.recognize(features)
                # First the time: a batch that is done twice because of a kill is counted twice.
                timing.add(sum(utterance.duration_s for utterance in heard))
                pairs = [pair for pair in zip(heard, found, strict=True) if pair[0].id not in done]
                write_through(lines, [make_line(*pair, engine) for pair in pairs])
            advance(number + 1 - drawn)
            drawn = number + 1
    results.gather(utterance.id for batch in batches for utterance in batch)
    num_failed = team.sum(num_failed)
    timing.gather()
    say(f"wrote {timing.path}")
    say(f"wrote {out}")
    say(_speed_report(timing.rtf))
    if num_failed and team.first:
        warn(f"{num_failed} utterances could not be read; they are not in {out}.")
    return Decoded(num_left - num_failed, num_failed, timing.rtf)


def cut_by_length(utterances: Sequence[Utterance], batch_s: float) -> Iterator[list[Utterance]]:
    """Yield batches of utterances of about one length, longest first, padding counted.

    Batches do not reach over the borders of shards, so that each shard is read once.
    """
    by_shard: dict[str, list[Utterance]] = {}
    for utterance in utterances:  # without shards all are in one
        by_shard.setdefault(shard_of(utterance.audio), []).append(utterance)
    for members in by_shard.values():
        ordered = sorted(members, key=lambda u: (-u.duration_s, u.id))
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
            with (
                engine.network.clock("features"),
                recording_file(find_recording(utterance.audio)) as path,
            ):
                samples = audio.load(path, rate)
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

    def __init__(self, results: SharedFile, engine: Engine, team: Team, *, continued: bool) -> None:
        self.path = results.path.with_suffix(".timing.json")
        self._engine, self._team = engine, team
        self._own = self.path if team.world == 1 else self._part(team.rank)
        if team.first:
            self._take_in(continued=continued)
        team.wait()
        known = read_timing(self.path) if team.world == 1 and self.path.exists() else None
        self._audio_s = known.audio_s if known else 0.0
        self._earlier_s = {s: known.seconds.get(s, 0.0) if known else 0.0 for s in STAGES}
        self._earlier_elapsed_s = sum(own.elapsed_s for own in known.ranks) if known else 0.0
        self._began_s = time.monotonic()
        self.rtf: dict[str, float] = {}
        self.add(0.0)

    def add(self, audio_s: float) -> None:
        """Count audio that was decoded, and write down the time it took."""
        self._audio_s += audio_s
        engine, team = self._engine, self._team
        spent = engine.network.clock.seconds
        seconds = {stage: spent[stage] + self._earlier_s[stage] for stage in STAGES}
        self.rtf = real_time_factors(seconds, self._audio_s)
        elapsed_s = self._earlier_elapsed_s + time.monotonic() - self._began_s
        own = RankTiming(
            rank=team.rank,
            audio_s=round(self._audio_s, 3),
            work_s=round(sum(seconds.values()), 4),
            elapsed_s=round(elapsed_s, 4),
        )
        facts = Timing(
            audio_s=round(self._audio_s, 3),
            seconds={stage: round(spent_s, 4) for stage, spent_s in seconds.items()},
            rtf=self.rtf,
            mode=engine.mode,
            beam=engine.config.beam,
            precision=engine.network.precision,
            threads=torch.get_num_threads(),
            batch_s=engine.config.batch_s,
            ranks=(own,),
        )
        write_json_atomic(self._own, asdict(facts))

    def gather(self) -> None:
        """Wait for all processes; then the file tells of all of them."""
        self._team.wait()
        if self._team.first:
            self._take_in(continued=True)
            timing = read_timing(self.path)
            self.rtf = timing.rtf
            for own in timing.ranks if self._team.world > 1 else ():
                say(
                    f"process {own.rank}: {own.audio_s:.1f} s of audio, {own.work_s:.1f} s of work "
                    f"in {own.elapsed_s:.1f} s"
                )

    def _part(self, rank: int) -> Path:
        return self.path.with_name(f".{self.path.name}.rank-{rank}")

    def _take_in(self, *, continued: bool) -> None:
        """Add the times of processes that have parts of their own to the file."""
        if not continued:
            self.path.unlink(missing_ok=True)
        parts = sorted(self.path.parent.glob(f".{self.path.name}.rank-*"))
        known = [self.path] if self.path.exists() else []
        if parts:
            timings = [read_timing(path) for path in (*known, *parts)]
            write_json_atomic(self.path, asdict(join_timings(timings)))
        for part in parts:
            part.unlink()


def _speed_report(rtf: dict[str, float]) -> str:
    parts = ", ".join(f"{stage} {rtf[stage]:.4f}" for stage in STAGES)
    return f"RTF {rtf['total']:.4f}: {parts}."
