"""From manifests to batches: a table of utterances on disk, and what turns its rows into tensors.

Nothing here grows with the corpus: lines of the table are read when they are needed, and its
columns (24 bytes an utterance) are mapped, not loaded.
"""

import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from arborvox import audio
from arborvox.augment import Surroundings, change_speed, mask_features
from arborvox.config import AugmentConfig
from arborvox.errors import ArborvoxError, one_line
from arborvox.features import FeatureCache, SpeechInput
from arborvox.files import atomic_folder, clean_cell, write_json_atomic
from arborvox.manifest import Utterance, read_manifest
from arborvox.model.transfer import to_device
from arborvox.pauses import leave_out_pauses
from arborvox.shards import Member, find_recording, recording_file, shard_of
from arborvox.shards.feature_cache import ShardFeatureCache
from arborvox.typed_json import read_form

PADDING = -1  # in token tensors; no token has this id

COLUMNS = np.dtype(
    [("offset", "<i8"), ("duration_s", "<f4"), ("language", "<i4"), ("num_tokens", "<i4")],
    align=True,
)


class TextEncoder(Protocol):
    """The one thing asked of a tokenizer here."""

    def encode(self, text: str, language: str | None = None) -> list[int]:
        """Turn a text into token ids."""


@dataclass(frozen=True)
class EncodedUtterance:
    """A row of a table: where the speech is, what is said, and its tokens."""

    id: str
    audio: Path | Member
    start_s: float
    duration_s: float
    text: str
    language: str
    tokens: tuple[int, ...]

    def variant(self, speed: float) -> str:
        """Name its part of the recording, played at a speed, for caches."""
        return f"{self.start_s}:{self.duration_s}:{speed}"


@dataclass(frozen=True)
class Batch:
    """Utterances side by side, padded at the end."""

    utterances: tuple[EncodedUtterance, ...]
    features: Tensor  # (B, T, M)
    feature_lens: Tensor  # (B,) int64
    tokens: Tensor  # (B, U) int64, padded with PADDING
    token_lens: Tensor  # (B,) int64
    epoch: int
    index: int  # place in the epoch
    skipped: tuple[tuple[str, str], ...] = ()  # (utterance id, reason)
    cache_problem: str = ""

    @property
    def num_targets(self) -> int:
        """Tokens to predict: those of the texts, and an end for each."""
        return sum(len(u.tokens) + 1 for u in self.utterances)

    @property
    def num_frames(self) -> int:
        """Frames of speech, without padding."""
        return int(self.feature_lens.sum()) if self.utterances else 0

    @property
    def num_padded_frames(self) -> int:
        """Frames that the network sees, padding included."""
        return self.features.shape[0] * self.features.shape[1] if self.utterances else 0

    def inputs(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return features, their lengths, tokens and theirs, on the model's device."""
        tensors = self.features, self.feature_lens, self.tokens, self.token_lens
        a, b, c, d = to_device(tensors, device)
        return a, b, c, d


@dataclass(frozen=True)
class TableFacts:
    """What table.json says."""

    source: str
    languages: tuple[str, ...]
    num_skipped: int
    num_unknown: int


class UtteranceTable:
    """A manifest, encoded once and laid out for random access: one row, one utterance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        facts = read_form(folder / "table.json", TableFacts, f"delete {folder}")
        self.source, self.languages = facts.source, facts.languages
        self.num_skipped, self.num_unknown = facts.num_skipped, facts.num_unknown
        try:
            self.columns: NDArray[Any] = np.load(folder / "columns.npy", mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise self._damaged(error) from None
        if self.columns.dtype != COLUMNS or self.columns.ndim != 1:
            raise self._damaged("its columns are others")
        if len(self.columns) and self.columns["offset"][-1] >= len(self._lines):
            raise self._damaged("utterances are missing")
        self.shards = self._load_shards()

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def num_units(self) -> int:
        """How many units all texts have together."""
        return int(self.columns["num_tokens"].sum())

    def __getitem__(self, row: int) -> EncodedUtterance:
        offset = int(self.columns["offset"][row])
        last = row + 1 == len(self)
        end = len(self._lines) if last else int(self.columns["offset"][row + 1])
        try:
            fields = json.loads(self._lines[offset:end].tobytes())
            return EncodedUtterance(
                id=fields["id"],
                audio=find_recording(fields["audio"]),
                start_s=fields["start_s"],
                duration_s=fields["duration_s"],
                text=fields["text"],
                language=fields["language"],
                tokens=tuple(fields["tokens"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(error) from None

    def _load_shards(self) -> NDArray[np.int32] | None:
        """Return the number of each row's shard; None where recordings are files."""
        path = self.folder / "shards.npy"
        if not path.exists():
            return None
        try:
            shards: NDArray[Any] = np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise self._damaged(error) from None
        if shards.dtype != np.int32 or shards.shape != self.columns.shape:
            raise self._damaged("its shards are others")
        return shards

    def _damaged(self, error: object) -> ArborvoxError:
        return ArborvoxError(
            f"{self.folder} is damaged ({one_line(str(error))}); delete it, and it is made again."
        )

    def __getstate__(self) -> dict[str, Any]:
        """Send the folder's name to a worker process, not the data."""
        return {"folder": self.folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["folder"])  # type: ignore[misc]

    @property
    def duration_s(self) -> float:
        """Seconds of speech in the whole table."""
        return float(self.columns["duration_s"].sum(dtype=np.float64))

    @cached_property
    def _lines(self) -> NDArray[np.uint8]:
        # A map has no file position, so that forked workers do not disturb each other.
        try:
            return np.memmap(self.folder / "utterances.jsonl", np.uint8, "r")
        except (OSError, ValueError) as error:  # ValueError: it is empty
            raise self._damaged(error) from None


def build_table(
    folder: Path,
    manifest: Path,
    tokenizer: TextEncoder,
    *,
    source: str,
    max_duration_s: float,
    unknown_id: int,
) -> UtteranceTable:
    """Read a manifest once and write its table; too long and empty utterances are left out."""
    with atomic_folder(folder) as part:
        _write_table(part, manifest, tokenizer, source, max_duration_s, unknown_id)
    return UtteranceTable(folder)


def _write_table(
    part: Path,
    manifest: Path,
    tokenizer: TextEncoder,
    source: str,
    max_duration_s: float,
    unknown_id: int,
) -> None:
    languages: dict[str, int] = {}
    shards: dict[str, int] = {}
    shard_numbers = array("i")
    num_skipped = num_unknown = num_rows = offset = 0
    with (
        (part / "utterances.jsonl").open("wb") as lines,
        (part / "columns.bin").open("wb") as columns,
        (part / "skipped.tsv").open("w", encoding="utf-8") as skipped,
    ):
        for utterance in read_manifest(manifest):
            tokens = tokenizer.encode(utterance.text, utterance.language)
            reason = ""
            if utterance.duration_s > max_duration_s:
                reason = f"longer than {max_duration_s:g} s: {utterance.duration_s:.1f} s"
            elif not tokens:
                reason = "empty text"
            if reason:
                num_skipped += 1
                skipped.write(f"{clean_cell(utterance.id)}\t{reason}\n")
                continue
            language = languages.setdefault(utterance.language, len(languages))
            num_unknown += tokens.count(unknown_id)
            row = (offset, utterance.duration_s, language, len(tokens))
            columns.write(np.array(row, COLUMNS).tobytes())
            shard_numbers.append(shards.setdefault(shard_of(utterance.audio), len(shards)))
            offset += lines.write(_table_line(utterance, tokens))
            num_rows += 1
    flat = np.memmap(part / "columns.bin", COLUMNS, "r") if num_rows else np.empty(0, COLUMNS)
    np.save(part / "columns.npy", flat)
    del flat
    (part / "columns.bin").unlink()
    if any(shards):
        np.save(part / "shards.npy", np.array(shard_numbers, np.int32))
    facts = TableFacts(source, tuple(languages), num_skipped, num_unknown)
    write_json_atomic(part / "table.json", asdict(facts))


@dataclass(frozen=True)
class Order:
    """Which rows make a batch, at what speed each is played, and the seed of each one's chance."""

    epoch: int
    index: int
    rows: tuple[int, ...]
    speeds: tuple[float, ...]
    seeds: tuple[int, ...]


@dataclass
class BatchReader:
    """Turns orders into batches; the same order always gives the same batch, in any process."""

    table: UtteranceTable
    input: SpeechInput
    augment: AugmentConfig | None = None  # None: read as it is, for evaluation and decoding
    mask_fill: Tensor | None = None  # (M,) the training mean, which normalization turns into 0
    cache: str | None = None  # the folder where frames are kept
    pauses: bool = True  # or only what is between them
    cut_anew: Callable[[Sequence[int], int], tuple[int, ...]] | None = None  # tokens, by a seed
    _cache: FeatureCache | None = field(init=False, repr=False)
    _shard_cache: ShardFeatureCache | None = field(init=False, repr=False)
    _surroundings: Surroundings | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build what all utterances share."""
        self._cache = FeatureCache(Path(self.cache), self.input.key) if self.cache else None
        self._shard_cache = None
        if self.cache and self.table.shards is not None and not self.input.from_cache_alone:
            self._shard_cache = ShardFeatureCache(Path(self.cache), self.input.key)
        rate = self.input.sampling_rate
        self._surroundings = Surroundings(self.augment, rate) if self.augment else None

    def read(self, order: Order) -> Batch:
        """Load, compute and pad one batch; audio that cannot be read is left out and named."""
        good: list[EncodedUtterance] = []
        features: list[Tensor] = []
        skipped: list[tuple[str, str]] = []
        for row, speed, seed in zip(order.rows, order.speeds, order.seeds, strict=True):
            utterance = self.table[row]
            if self.cut_anew is not None:
                tokens = self.cut_anew(utterance.tokens, seed)
                utterance = replace(utterance, tokens=tokens)
            try:
                features.append(self._augmented(utterance, speed, seed))
                good.append(utterance)
            except audio.AudioProblem as problem:
                skipped.append((utterance.id, str(problem)))
            except OSError as error:
                skipped.append((utterance.id, error.strerror or str(error)))
        return collate(
            good,
            features,
            epoch=order.epoch,
            index=order.index,
            silence=torch.zeros(self.input.min_frames, self.input.width),
            skipped=tuple(skipped),
            cache_problem=self._cache_problem,
        )

    @property
    def _cache_problem(self) -> str:
        caches = (self._cache, self._shard_cache)
        return next((cache.problem for cache in caches if cache and cache.problem), "")

    def clean_features(self, utterance: EncodedUtterance, speed: float = 1.0) -> Tensor:
        """Return an utterance's features (T, M), from the cache where there is one."""

        def compute() -> Tensor:
            return self.input(self._samples(utterance, speed))

        if self._shard_cache is not None and isinstance(utterance.audio, Member):
            return self._shard_cache.get(utterance.audio, utterance.variant(speed), compute)
        if self._cache is None:
            return compute()
        return self._cache.get(utterance.audio, utterance.variant(speed), compute)

    def _augmented(self, utterance: EncodedUtterance, speed: float, seed: int) -> Tensor:
        if self.augment is None or self._surroundings is None:
            features = self.clean_features(utterance, speed)
            if self.pauses or not self.input.tells_loudness:
                return features
            return leave_out_pauses(features, self.input.frame_s, len(utterance.tokens))
        generator = Generator().manual_seed(seed)
        room, noise = self._surroundings.choose(generator)
        if room is None and noise is None:
            features = self.clean_features(utterance, speed)
        else:
            samples = self._samples(utterance, speed)
            samples = self._surroundings.apply(samples, room, noise, generator)
            features = self.input(samples)
        fill = self.mask_fill if self.mask_fill is not None else features.float().mean(dim=0)
        return mask_features(
            features,
            self.augment,
            fill.to(features.dtype),
            generator,
            has_bands=self.input.has_bands,
            frames_a_mask=self.input.frames_a_mask,
        )

    def _samples(self, utterance: EncodedUtterance, speed: float) -> NDArray[np.float32]:
        rate = self.input.sampling_rate
        with recording_file(utterance.audio) as path:
            samples = audio.load(path, rate)
        start = round(utterance.start_s * rate)
        samples = samples[start : start + round(utterance.duration_s * rate)]
        if not len(samples):
            raise audio.AudioProblem(f"shorter than its manifest says: {utterance.start_s:g} s on")
        return change_speed(samples, speed, rate)


def collate(
    utterances: Sequence[EncodedUtterance],
    features: Sequence[Tensor],
    *,
    epoch: int,
    index: int,
    silence: Tensor,
    skipped: tuple[tuple[str, str], ...] = (),
    cache_problem: str = "",
) -> Batch:
    """Pad features and tokens to the longest; without any, `silence` (T, M) is the row."""
    # Every rank of a distributed run must take part in every step, also one that has nothing to
    # say: it trains on silence, with a weight of zero.
    B = max(len(utterances), 1)
    feature_lens = torch.tensor([len(f) for f in features] or [len(silence)])
    token_lens = torch.tensor([len(u.tokens) for u in utterances] or [1])
    dtype = features[0].dtype if features else silence.dtype
    padded = torch.zeros(B, int(feature_lens.max()), silence.shape[1], dtype=dtype)
    tokens = torch.full((B, int(token_lens.max())), PADDING)
    for row, (utterance, values) in enumerate(zip(utterances, features, strict=True)):
        padded[row, : len(values)] = values
        tokens[row, : len(utterance.tokens)] = torch.tensor(utterance.tokens)
    if not utterances:
        tokens[0, 0] = 0
    return Batch(
        utterances=tuple(utterances),
        features=padded,
        feature_lens=feature_lens,
        tokens=tokens,
        token_lens=token_lens,
        epoch=epoch,
        index=index,
        skipped=skipped,
        cache_problem=cache_problem,
    )


def _table_line(utterance: Utterance, tokens: list[int]) -> bytes:
    fields = {
        "id": utterance.id,
        "audio": utterance.audio,
        "start_s": utterance.start_s,
        "duration_s": utterance.duration_s,
        "text": utterance.text,
        "language": utterance.language,
        "tokens": tokens,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
