"""Power spectra of frames, computed in double precision.

A Fourier transform in fp32 loses the quiet part of a spectrum beside a loud one, and what is left
of it after the logarithm depends on who computes it. In fp64 it costs half as much again and
whoever computes the same frames gets the same numbers.
"""

import numpy as np
from numpy.typing import NDArray

PRE_EMPHASIS = 0.97
BLOCK = 256  # frames that are transformed at once: they stay in the processor's cache


def frame_powers(
    wave: NDArray[np.float64],
    window: NDArray[np.float64],
    *,
    hop: int,
    fft_length: int,
    kaldi: bool = False,
) -> NDArray[np.float32]:
    """Return the power of each frequency in each whole window, (T, F).

    kaldi: take a frame's mean away and emphasize its high frequencies first, as Kaldi does.
    """
    frames = np.lib.stride_tricks.sliding_window_view(wave, len(window))[::hop]  # (T, window)
    powers = np.empty((len(frames), fft_length // 2 + 1), np.float32)
    windowed = np.zeros((min(BLOCK, len(frames)), fft_length))
    for start in range(0, len(frames), BLOCK):
        block = frames[start : start + BLOCK]
        filled = windowed[: len(block), : len(window)]
        if kaldi:
            centered = block - block.mean(axis=1, keepdims=True)
            filled[:, 0] = (1.0 - PRE_EMPHASIS) * centered[:, 0]
            np.multiply(centered[:, :-1], -PRE_EMPHASIS, out=filled[:, 1:])
            filled[:, 1:] += centered[:, 1:]
            filled *= window
        else:
            np.multiply(block, window, out=filled)
        spectrum = np.fft.rfft(windowed[: len(block)])
        powers[start : start + BLOCK] = spectrum.real**2 + spectrum.imag**2
    return powers
