"""The clips of Common Voice rows: durations and rates, from the release's table or the audio."""

import numpy as np
import numpy.typing as npt

from arborvox.audio import AudioInfo
from arborvox.config import ReleaseCorpus
from arborvox.corpora.checks import check_recordings, decodes, length_problem
from arborvox.corpora.common_voice_rows import REFUSED, LanguageScan

Rows = npt.NDArray[np.bool_]  # a mask over the rows of a language

# clip_durations.tsv gives no rate: so many clips are asked, and where they agree, all have theirs.
PROBES = 16


def check_clips(scans: list[LanguageScan], config: ReleaseCorpus, jobs: int) -> None:
    """Give every usable row its duration and rate, and refuse clips that are no good."""
    wanted = [scan.fates != REFUSED for scan in scans]
    decode = decodes(config, int(sum(rows.sum() for rows in wanted)))
    if not decode and config.check == "auto":
        wanted = _trust_tables(scans, wanted, config, jobs)
    results = iter(_check(scans, wanted, config, decode=decode, jobs=jobs))
    for scan, rows in zip(scans, wanted, strict=True):
        for row, name in zip(np.flatnonzero(rows), scan.names(rows), strict=True):
            result = next(results)
            if isinstance(result, str):
                scan.refuse(int(row), scan.clip(name), result)
            else:
                scan.rates[row] = result.sampling_rate
                scan.channels[row] = result.num_channels
                scan.durations_s[row] = result.duration_s
        _refuse_by_text(scan, config)


def _trust_tables(
    scans: list[LanguageScan], usable: list[Rows], config: ReleaseCorpus, jobs: int
) -> list[Rows]:
    """Take durations from the tables and rates from probes; return the rows left to check."""
    told = [rows & ~np.isnan(scan.durations_s) for scan, rows in zip(scans, usable, strict=True)]
    probes = [_spread(rows, PROBES) for rows in told]
    probed = iter(_check(scans, probes, config, decode=False, jobs=jobs, bounded=False))
    left = []
    for scan, rows, known, some in zip(scans, usable, told, probes, strict=True):
        found = [next(probed) for _ in range(int(some.sum()))]
        kinds = {(p.sampling_rate, p.num_channels) for p in found if isinstance(p, AudioInfo)}
        if len(kinds) != 1:
            left.append(rows)
            continue
        scan.rates[known], scan.channels[known] = kinds.pop()
        _refuse_by_duration(scan, known, config)
        left.append(rows & ~known)
    return left


def _spread(rows: Rows, count: int) -> Rows:
    """Return a mask of so many of the rows, evenly spread."""
    numbers = np.flatnonzero(rows)
    some = np.zeros(len(rows), np.bool_)
    if len(numbers):
        some[numbers[np.linspace(0, len(numbers) - 1, count).astype(np.int64)]] = True
    return some


def _check(
    scans: list[LanguageScan],
    wanted: list[Rows],
    config: ReleaseCorpus,
    *,
    decode: bool,
    jobs: int,
    bounded: bool = True,
) -> list[AudioInfo | str]:
    """Look at the wanted rows' clips, all languages in one go."""
    paths = [
        scan.folder / "clips" / name
        for scan, rows in zip(scans, wanted, strict=True)
        for name in scan.names(rows)
    ]
    return check_recordings(paths, config, decode=decode, jobs=jobs, bounded=bounded)


def _refuse_by_duration(scan: LanguageScan, rows: Rows, config: ReleaseCorpus) -> None:
    """Refuse rows whose stated duration is out of bounds."""
    with np.errstate(invalid="ignore"):
        short = rows & (scan.durations_s < config.min_duration_s)
        long = rows & (scan.durations_s > config.max_duration_s)
    for rows_out, what in ((short, "too short"), (long, "too long")):
        numbers, names = np.flatnonzero(rows_out), scan.names(rows_out)
        for row, name in zip(numbers, names, strict=True):
            scan.refuse(int(row), scan.clip(name), f"{what}: {scan.durations_s[row]:.1f} s")


def _refuse_by_text(scan: LanguageScan, config: ReleaseCorpus) -> None:
    """Refuse rows whose text is too long for the clip."""
    allowed = config.max_units_per_s * scan.durations_s.astype(np.float64)
    rows_out = (scan.fates != REFUSED) & (scan.num_units > allowed)
    for row, name in zip(np.flatnonzero(rows_out), scan.names(rows_out), strict=True):
        problem = length_problem(int(scan.num_units[row]), float(scan.durations_s[row]), config)
        scan.refuse(int(row), scan.clip(name), problem)
