"""Whether a recording can be used, and if not, why."""

from pathlib import Path

import numpy as np

from arborvox.audio.reading import decode as decode_blocks
from arborvox.audio.reading import info_of
from arborvox.audio.recording import AudioInfo, AudioProblem, Recording, open_recording

SILENCE_PEAK = 1e-4  # -80 dB below full scale, a few steps of a 16-bit sample


def check(
    path: Path, *, max_duration_s: float, min_duration_s: float = 0.0, decode: bool = False
) -> AudioInfo:
    """Return the facts about a usable recording; raise AudioProblem for any other.

    With `decode` every sample is read and the length is the decoded one; else the header decides.
    """
    with open_recording(path) as recording:
        num_samples = recording.num_samples
        # An estimate that decoding is about to replace decides nothing.
        if num_samples is not None and (recording.is_exact or not decode):
            _check_duration(num_samples / recording.sampling_rate, min_duration_s, max_duration_s)
        if decode or num_samples is None:
            num_samples = _listen(recording, max_duration_s)
            _check_duration(num_samples / recording.sampling_rate, min_duration_s, max_duration_s)
        return info_of(recording, num_samples)


def _listen(recording: Recording, max_duration_s: float) -> int:
    num_samples, peak = 0, 0.0
    for block in decode_blocks(recording):
        num_samples += len(block)
        peak = max(peak, float(np.abs(block).max()))
        if num_samples > max_duration_s * recording.sampling_rate:
            raise AudioProblem(f"too long: more than {max_duration_s:g} s")
    if num_samples and peak < SILENCE_PEAK:
        raise AudioProblem("silent")
    return num_samples


def _check_duration(duration_s: float, min_duration_s: float, max_duration_s: float) -> None:
    if duration_s == 0:
        raise AudioProblem("no samples")
    if duration_s > max_duration_s:
        raise AudioProblem(f"too long: {duration_s:.0f} s")
    if duration_s < min_duration_s:
        raise AudioProblem(f"too short: {duration_s:.2f} s")
