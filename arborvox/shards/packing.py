"""Prepared corpora into shards: the recordings that manifests name, packed by all cores.

Recordings go in as they are, byte by byte; of a longer recording the utterance's part alone, as
16-bit FLAC. The training set is mixed by the seed first, so that some shards are a fair sample of
it and training need not jump between them. Afterwards the manifests name the shards.
"""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
import soundfile

from arborvox import audio
from arborvox.config.choices import ShardFormat
from arborvox.console import say, warn
from arborvox.errors import ArborvoxError
from arborvox.files import (
    atomic_folder,
    clean_cell,
    open_gzip_reproducible,
    staged_folder,
)
from arborvox.manifest import (
    SPLIT_NAMES,
    Utterance,
    cut_line,
    parse_cut,
    read_manifest,
    split_file,
)
from arborvox.pooling import run_many
from arborvox.shards.members import Member, find_recording, recording_file
from arborvox.shards.tars import AUDIO_ENDINGS

FOLDER = "shards"
MOST_BUCKETS = 256  # files that are open at a time
MOST_SHARDS = 1_000_000


@dataclass(frozen=True)
class Bucket:
    """Some shards that one process writes, and the file of the cuts that go into them."""

    cuts: Path
    folder: Path
    kind: ShardFormat
    place: Path  # where the folder will be


@dataclass(frozen=True)
class Packed:
    """What became of a bucket: a part of the new manifest, and what could not be read."""

    manifest: Path
    num_utterances: int
    skipped: tuple[tuple[str, str], ...]


def pack_manifests(
    folder: Path,
    per_shard: int,
    kind: ShardFormat,
    *,
    seed: int,
    jobs: int,
    seal: str,
    skipped: str,
) -> None:
    """Pack the recordings of a prepared folder, and let its manifests name the shards.

    seal: the file that says that the folder is whole; skipped: the list of what was left out.
    """
    final = folder / FOLDER
    left_out: list[tuple[str, str]] = []
    with staged_folder(folder, seal) as stage:
        with atomic_folder(final) as part:
            for split in SPLIT_NAMES:
                buckets = _fill_buckets(folder, split, per_shard, kind, seed, part, final)
                tasks = [(bucket,) for bucket in buckets]
                done = run_many("packing", f"parts of {split}", pack_bucket, tasks, jobs)
                with (stage / split_file(split)).open("wb") as manifest:  # gzip files may be joined
                    for packed in done:
                        manifest.write(packed.manifest.read_bytes())
                        packed.manifest.unlink()
                        left_out += packed.skipped
                num_shards = len(list((part / split).glob("*.tar")))
                total = sum(packed.num_utterances for packed in done)
                say(f"{split}: {total:,} utterances in {num_shards:,} shards, {final / split}")
        listed = (folder / skipped).read_bytes() if (folder / skipped).exists() else b""
        rows = [f"{clean_cell(name)}\t{clean_cell(why)}\n" for name, why in left_out]
        (stage / skipped).write_bytes(listed + "".join(rows).encode())
        shutil.copyfile(folder / seal, stage / seal)
    if left_out:
        warn(f"{len(left_out):,} utterances could not be packed; they are in {folder / skipped}.")


def _fill_buckets(
    folder: Path,
    split: str,
    per_shard: int,
    kind: ShardFormat,
    seed: int,
    part: Path,
    final: Path,
) -> list[Bucket]:
    """Share out a manifest's cuts over files, each for some shards, in bounded memory."""
    manifest = folder / split_file(split)
    count = sum(1 for _ in read_manifest(manifest))
    if not count:
        return []
    num_shards = -(-count // per_shard)
    if num_shards > MOST_SHARDS:
        raise ArborvoxError(
            f"--shards {per_shard}: these would be {num_shards:,}; make them larger."
        )
    places = np.arange(count)
    if split == "train":
        places = np.random.default_rng(seed).permutation(count)
    a_bucket = -(-num_shards // MOST_BUCKETS)
    (part / split).mkdir()
    buckets = [
        Bucket(part / f"{split}-{n:03d}.jsonl", part / split, kind, final / split)
        for n in range(-(-num_shards // a_bucket))
    ]
    files: list[IO[bytes]] = [bucket.cuts.open("wb") for bucket in buckets]
    try:
        for utterance, place in zip(read_manifest(manifest), places.tolist(), strict=True):
            shard = place // per_shard
            line = f"{shard}\t{place}\t".encode() + cut_line(utterance).encode()
            files[shard // a_bucket].write(line)
    finally:
        for file in files:
            file.close()
    return buckets


def pack_bucket(bucket: Bucket) -> Packed:
    """Write the shards of a bucket, one after the other."""
    shards: dict[int, list[tuple[int, Utterance]]] = {}
    with bucket.cuts.open("rb") as file:
        for line in file:
            shard, place, cut = line.split(b"\t", 2)
            utterance = parse_cut(json.loads(cut))
            assert isinstance(utterance, Utterance)  # we wrote it
            shards.setdefault(int(shard), []).append((int(place), utterance))
    bucket.cuts.unlink()
    manifest = bucket.cuts.with_suffix(".cuts")
    skipped: list[tuple[str, str]] = []
    total = 0
    with open_gzip_reproducible(manifest) as lines:
        for number, members in sorted(shards.items()):
            utterances = [utterance for _, utterance in sorted(members, key=lambda pair: pair[0])]
            for packed in SHARD_WRITERS[bucket.kind](bucket, number, utterances, skipped):
                lines.write(cut_line(packed).encode())
                total += 1
    return Packed(manifest, total, tuple(skipped))


class _Tar:
    """A tar file whose bytes depend on what is put in alone."""

    def __init__(self, path: Path, final: Path) -> None:
        self._tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._final = final

    def __enter__(self) -> "_Tar":
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def add(self, name: str, data: bytes) -> Member:
        """Put a file in; return where it will be found."""
        info = tarfile.TarInfo(name)
        info.size = len(data)
        self._tar.addfile(info, io.BytesIO(data))
        # Behind the file comes what fills up its last block.
        end = self._tar.offset
        blocks = -(-len(data) // tarfile.BLOCKSIZE)
        return Member(str(self._final), end - blocks * tarfile.BLOCKSIZE, len(data))


def _write_shar(
    bucket: Bucket, number: int, utterances: Sequence[Utterance], skipped: list[tuple[str, str]]
) -> Iterator[Utterance]:
    """Write a shard as Lhotse reads it: cuts.000000.jsonl.gz and recording.000000.tar."""
    name = f"recording.{number:06d}.tar"
    with (
        _Tar(bucket.folder / name, bucket.place / name) as tar,
        open_gzip_reproducible(bucket.folder / f"cuts.{number:06d}.jsonl.gz") as cuts,
    ):
        for utterance, ending, data in _read_all(utterances, skipped):
            inside = replace(utterance, id=_member_name(utterance.id), audio="", recording_id=None)
            line = cut_line(inside)
            member = tar.add(f"{inside.id}.{ending}", data)
            tar.add(f"{inside.id}.json", json.dumps(json.loads(line)["recording"]).encode())
            cuts.write(line.encode())
            yield replace(utterance, audio=str(member))


def _write_webdataset(
    bucket: Bucket, number: int, utterances: Sequence[Utterance], skipped: list[tuple[str, str]]
) -> Iterator[Utterance]:
    """Write a plain tar: for each key a recording, its text, and what else is known."""
    name = f"{number:06d}.tar"
    with _Tar(bucket.folder / name, bucket.place / name) as tar:
        for utterance, ending, data in _read_all(utterances, skipped):
            key = _member_name(utterance.id).replace(".", "_")
            facts = {
                "id": utterance.id,
                "language": utterance.language,
                "speaker": utterance.speaker,
                "text": utterance.text,
            }
            member = tar.add(f"{key}.{ending}", data)
            tar.add(f"{key}.txt", utterance.text.encode())
            tar.add(f"{key}.json", json.dumps(facts, ensure_ascii=False).encode())
            yield replace(utterance, audio=str(member))


SHARD_WRITERS = {"shar": _write_shar, "webdataset": _write_webdataset}


def _read_all(
    utterances: Sequence[Utterance], skipped: list[tuple[str, str]]
) -> Iterator[tuple[Utterance, str, bytes]]:
    """Yield each utterance as a recording of its own, its ending and its bytes."""
    for utterance in utterances:
        recording = find_recording(utterance.audio)
        try:
            if utterance.segment_s is None:
                yield utterance, _ending(recording), recording.read_bytes()
            else:
                with recording_file(recording) as path:
                    yield _cut_out(utterance, path)
        except audio.AudioProblem as problem:
            skipped.append((utterance.id, str(problem)))
        except OSError as error:
            skipped.append((utterance.id, error.strerror or str(error)))


def _cut_out(utterance: Utterance, path: Path) -> tuple[Utterance, str, bytes]:
    """Cut an utterance out of a longer recording, mono, at its own rate."""
    rate = utterance.sampling_rate
    samples = audio.load(path, rate)
    begin = round(utterance.start_s * rate)
    samples = samples[begin : begin + round(utterance.duration_s * rate)]
    if not len(samples):
        raise audio.AudioProblem("shorter than its manifest says")
    packed = io.BytesIO()
    soundfile.write(packed, np.clip(samples, -1, 1), rate, format="FLAC", subtype="PCM_16")
    whole = replace(
        utterance,
        num_samples=len(samples),
        num_channels=1,
        recording_id=None,
        start_s=0.0,
        segment_s=None,
    )
    return whole, "flac", packed.getvalue()


def _ending(recording: Path | Member) -> str:
    """Return what a recording's name ends in; decoders look at the bytes, not at names."""
    ending = recording.suffix.lstrip(".").lower() if isinstance(recording, Path) else ""
    return ending if ending in AUDIO_ENDINGS else "wav"


def _member_name(identity: str) -> str:
    """Return a name that leads nowhere when a tar is unpacked: the id, where it is such a one."""
    path = PurePosixPath(identity)
    harmless = identity.isprintable() and not path.is_absolute() and ".." not in path.parts
    if (
        harmless
        and str(path) == identity
        and len(identity.encode()) <= 200
        and "\\" not in identity
    ):
        return identity
    return "utterance-" + hashlib.blake2b(identity.encode(), digest_size=12).hexdigest()
