"""The clips of Common Voice rows: durations and rates, from the release's table or the audio."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from arborvox.audio import AudioInfo
from arborvox.config import CorpusConfig
from arborvox.corpora.checks import check_recordings, decodes
from arborvox.corpora.common_voice_rows import REFUSED, LanguageScan

# clip_durations.tsv gives no rate: so many clips are asked, and where they agree, all have theirs.
PROBES = 16


def check_clips(scans: list[LanguageScan], config: CorpusConfig, jobs: int) -> None:
    """Give every usable row its duration and rate, and refuse clips that are no good."""
    usable = [scan.fates != REFUSED for scan in scans]
    decode = decodes(config, int(sum(rows.sum() for rows in usable)))
    wanted = []
    for scan, rows in zip(scans, usable, strict=True):
        if decode or config.check == "headers":
            wanted.append(rows)
            continue
        untold = rows & np.isnan(scan.durations_s)
        told = rows & ~untold
        if not _take_common_rate(scan, told, config, jobs):
            untold = rows
        wanted.append(untold)
        _refuse_by_duration(scan, told & ~untold, config)
    names = [scan.names(rows) for scan, rows in zip(scans, wanted, strict=True)]
    paths = [
        scan.folder / "clips" / name
        for scan, of_scan in zip(scans, names, strict=True)
        for name in of_scan
    ]
    results = iter(check_recordings(paths, config, decode=decode, jobs=jobs) if paths else [])
    for scan, rows, of_scan in zip(scans, wanted, names, strict=True):
        for row, name in zip(np.flatnonzero(rows), of_scan, strict=True):
            result = next(results)
            if isinstance(result, str):
                scan.refuse(int(row), scan.clip(name), result)
            else:
                _take(scan, int(row), result)


def _take(scan: LanguageScan, row: int, info: AudioInfo) -> None:
    scan.rates[row] = info.sampling_rate
    scan.channels[row] = info.num_channels
    scan.durations_s[row] = info.duration_s


def _take_common_rate(
    scan: LanguageScan, rows: npt.NDArray[np.bool_], config: CorpusConfig, jobs: int
) -> bool:
    """Set the rows' rate by a few probes; False where the probes do not agree on one."""
    numbers = np.flatnonzero(rows)
    if not len(numbers):
        return True
    some = np.zeros(len(rows), np.bool_)
    some[numbers[np.linspace(0, len(numbers) - 1, PROBES).astype(np.int64)]] = True
    paths: list[Path] = [scan.folder / "clips" / name for name in scan.names(some)]
    probed = check_recordings(paths, config, decode=False, jobs=jobs, bounded=False)
    kinds = {(p.sampling_rate, p.num_channels) for p in probed if isinstance(p, AudioInfo)}
    if len(kinds) != 1:
        return False
    scan.rates[rows], scan.channels[rows] = kinds.pop()
    return True


def _refuse_by_duration(
    scan: LanguageScan, rows: npt.NDArray[np.bool_], config: CorpusConfig
) -> None:
    """Refuse rows whose stated duration is out of bounds."""
    with np.errstate(invalid="ignore"):
        short = rows & (scan.durations_s < config.min_duration_s)
        long = rows & (scan.durations_s > config.max_duration_s)
    for rows_out, what in ((short, "too short"), (long, "too long")):
        numbers, names = np.flatnonzero(rows_out), scan.names(rows_out)
        for row, name in zip(numbers, names, strict=True):
            scan.refuse(int(row), scan.clip(name), f"{what}: {scan.durations_s[row]:.1f} s")
