"""Where nobody speaks: by energy, or by the Silero network, which hears speech in noise.

Each way takes samples (S,) and their rate and tells for every step of `HOP_S` whether it is quiet.
"""

import functools
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from arborvox.config.choices import VoiceActivity
from arborvox.errors import ArborvoxError

Samples = NDArray[np.float32]
FindQuiet = Callable[[Samples, int], NDArray[np.bool_]]

HOP_S = 0.02
SMOOTHING_HOPS = 5  # energies are averaged over so many, so that a closed stop is no pause
# Quiet is what lies nearer to the recording's floor than to its loud parts, in decibels.
QUIET_SHARE = 0.35
# A recording that is even to this degree is all speech, or all noise.
MIN_CONTRAST_DB = 12.0
# Nothing is said where not even the loudest step reaches this, relative to full scale.
SILENCE_DB = -60.0
TINY_POWER = 1e-12

# The network hears windows of 32 ms, each with the end of the one before it.
SILERO_RATE, SILERO_WINDOW, SILERO_CONTEXT, SILERO_WIDTH = 16_000, 512, 64, 128
SILERO_FILE = "data/silero_vad_16k_sequence.onnx"
# Speech begins where it is likely, and goes on until it is unlikely.
SPEECH_BEGINS, SPEECH_ENDS = 0.5, 0.35


def levels_db(samples: Samples, sampling_rate: int) -> NDArray[np.float64]:
    """Return the level of each step in decibels below full scale; the last may be shorter."""
    hop = round(HOP_S * sampling_rate)
    if not len(samples):
        return np.zeros(0)
    starts = np.arange(0, len(samples), hop)
    power = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    power /= np.diff(np.append(starts, len(samples)))
    # The same width at the edges: what lies beyond them is left out of the mean.
    kernel = np.ones(min(SMOOTHING_HOPS, len(power)))
    smooth = np.convolve(power, kernel, "same") / np.convolve(np.ones(len(power)), kernel, "same")
    levels: NDArray[np.float64] = 10.0 * np.log10(smooth + TINY_POWER)
    return levels


def quiet_by_energy(samples: Samples, sampling_rate: int) -> NDArray[np.bool_]:
    """Tell the steps that are nearer to the recording's floor than to its loud parts."""
    levels = levels_db(samples, sampling_rate)
    if not len(levels):
        return np.zeros(0, np.bool_)
    return np.asarray(levels < quiet_below(levels))


def quiet_below(levels: NDArray[np.float64]) -> float:
    """Return the level in decibels below which a recording with these levels is quiet."""
    floor, loud = np.percentile(levels, (5, 95))
    if loud - floor < MIN_CONTRAST_DB:
        return SILENCE_DB
    return max(float(floor + QUIET_SHARE * (loud - floor)), SILENCE_DB)


class SileroQuiet:
    """Tells the steps in which the Silero network hears nobody."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self, samples: Samples, sampling_rate: int) -> NDArray[np.bool_]:
        """Hear samples at any rate."""
        num_steps = -(-len(samples) // round(HOP_S * sampling_rate))
        if not num_steps:
            return np.zeros(0, np.bool_)
        if sampling_rate != SILERO_RATE:
            samples = soxr.resample(samples, sampling_rate, SILERO_RATE)
        is_speech = _with_inertia(self._speech_probs(samples))
        # A step is what the window around its middle is.
        middles = (np.arange(num_steps) + 0.5) * HOP_S * SILERO_RATE
        windows = np.minimum(middles // SILERO_WINDOW, len(is_speech) - 1)
        return np.asarray(~is_speech[windows.astype(np.int64)])

    def _speech_probs(self, samples: Samples) -> NDArray[np.float32]:
        """Return how likely each window is speech."""
        num_windows = max(-(-len(samples) // SILERO_WINDOW), 1)
        padded = np.zeros(SILERO_CONTEXT + num_windows * SILERO_WINDOW, np.float32)
        padded[SILERO_CONTEXT : SILERO_CONTEXT + len(samples)] = samples
        length = SILERO_CONTEXT + SILERO_WINDOW
        windows = np.lib.stride_tricks.sliding_window_view(padded, length)[::SILERO_WINDOW]
        nothing = np.zeros((1, 1, SILERO_WIDTH), np.float32)
        inputs = {"input": np.ascontiguousarray(windows), "h": nothing, "c": nothing}
        probs: NDArray[np.float32] = self._session.run(["speech_probs"], inputs)[0]
        return probs.reshape(-1)


def _with_inertia(probs: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Tell speech from its likely beginning to its unlikely end; between, what was before."""
    said = np.where(probs >= SPEECH_BEGINS, 1, np.where(probs < SPEECH_ENDS, 0, -1))
    latest = np.maximum.accumulate(np.where(said >= 0, np.arange(len(said)), -1))
    return np.asarray((latest >= 0) & (said[latest] == 1))


@functools.cache
def load_silero() -> SileroQuiet:
    """Load the network that comes with the package silero-vad."""
    # The package itself is not imported: all it is asked for is a file.
    spec = util.find_spec("silero_vad")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [path for path in (Path(folder) / SILERO_FILE for folder in folders) if path.is_file()]
    if not files or util.find_spec("onnxruntime") is None:
        raise ArborvoxError(
            "vad: silero needs the packages silero-vad and onnxruntime: "
            "pip install 'arborvox[vad]'; or use energy."
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # it is quick as it is
    session = onnxruntime.InferenceSession(
        str(files[0]), options, providers=["CPUExecutionProvider"]
    )
    return SileroQuiet(session)


# What each choice is loaded by.
VOICE_ACTIVITIES: dict[VoiceActivity, Callable[[], FindQuiet]] = {
    "energy": lambda: quiet_by_energy,
    "silero": load_silero,
}
