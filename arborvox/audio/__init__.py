"""Recordings of any format, rate and channel count: checked, read whole, or streamed."""

from arborvox.audio.checking import check
from arborvox.audio.parallel import check_many
from arborvox.audio.reading import load, read_info, stream
from arborvox.audio.recording import AudioInfo, AudioProblem, Samples

__all__ = [
    "AudioInfo",
    "AudioProblem",
    "Samples",
    "check",
    "check_many",
    "load",
    "read_info",
    "stream",
]
