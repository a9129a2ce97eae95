"""Whether a recording can be used, and if not, why."""

from pathlib import Path

import numpy as np

from arborvox.audio.containers import Container
from arborvox.audio.mp3 import walk_mp3
from arborvox.audio.ogg import ogg_problem
from arborvox.audio.reading import decode as decode_blocks
from arborvox.audio.reading import info_of
from arborvox.audio.recording import AudioInfo, AudioProblem, Recording, open_recording

# Decoders leave out a little at both ends of an MP3; more is missing where they gave up.
_MP3_PADDING = 5 * 1152
SILENCE_PEAK = 1e-4  # -80 dB below full scale, a few steps of a 16-bit sample


def check(
    path: Path, *, max_duration_s: float, min_duration_s: float = 0.0, decode: bool = False
) -> AudioInfo:
    """Return the facts about a usable recording; raise AudioProblem for any other.

    With `decode` every sample is read, the length is the decoded one, and the container is looked
    at for what decoders pass over without a word; else the header decides.
    """
    with open_recording(path) as recording:
        num_samples = recording.num_samples
        # An estimate that decoding is about to replace decides nothing.
        if num_samples is not None and (recording.is_exact or not decode):
            _check_duration(num_samples / recording.sampling_rate, min_duration_s, max_duration_s)
        if decode or num_samples is None:
            num_samples, peak = _listen(recording, max_duration_s)
            if decode and (problem := _damage(path, recording, num_samples)):
                raise AudioProblem(problem)
            _check_duration(num_samples / recording.sampling_rate, min_duration_s, max_duration_s)
            if peak < SILENCE_PEAK:
                raise AudioProblem("silent")
        return info_of(recording, num_samples)


def _listen(recording: Recording, max_duration_s: float) -> tuple[int, float]:
    """Decode all of it; return how many samples there are, and the loudest."""
    num_samples, peak = 0, 0.0
    for block in decode_blocks(recording):
        num_samples += len(block)
        peak = max(peak, float(np.abs(block).max()))
        if num_samples > max_duration_s * recording.sampling_rate:
            raise AudioProblem(f"too long: more than {max_duration_s:g} s")
    return num_samples, peak


def _damage(path: Path, recording: Recording, num_decoded: int) -> str:
    """Say what is missing or damaged although the decoder came to an end, or nothing."""
    if recording.container is Container.OGG:
        return ogg_problem(path)
    if recording.container is not Container.MP3:
        return ""
    walk = walk_mp3(path)
    if walk is not None and walk.problem:
        return walk.problem
    if walk is not None and num_decoded < walk.num_samples - _MP3_PADDING:
        decoded_s, whole_s = (
            num / recording.sampling_rate for num in (num_decoded, walk.num_samples)
        )
        return f"damaged: decoding stops after {decoded_s:.1f} s of {whole_s:.1f} s"
    return f"damaged: {recording.complaints[0].rstrip('!.')}" if recording.complaints else ""


def _check_duration(duration_s: float, min_duration_s: float, max_duration_s: float) -> None:
    if duration_s == 0:
        raise AudioProblem("no samples")
    if duration_s > max_duration_s:
        raise AudioProblem(f"too long: {duration_s:.0f} s")
    if duration_s < min_duration_s:
        raise AudioProblem(f"too short: {duration_s:.2f} s")
