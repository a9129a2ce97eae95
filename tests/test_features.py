"""Laws of the features: Kaldi's numbers, normalization, and a cache that is never wrong."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from arborvox.config import FeaturesConfig
from arborvox.features import CMVN, FeatureCache, LogMel, feature_sums

CONFIG = FeaturesConfig()


def speech_like(num_samples: int, seed: int = 0) -> NDArray[np.float32]:
    """Return colored noise with a changing level, inside [-1, 1]."""
    chance = np.random.default_rng(seed)
    noise = np.cumsum(chance.normal(size=num_samples)) * 0.01
    noise -= np.convolve(noise, np.ones(200) / 200, mode="same")
    level = 0.5 + 0.4 * np.sin(np.arange(num_samples) / 3000)
    return (noise * level / np.abs(noise).max()).astype(np.float32)


def kaldi_log_mel(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute filter banks straight from Kaldi's definition, frame by frame, in float64."""
    x = samples.astype(np.float64) * 32768.0
    window, shift, size = 400, 160, 512
    num_frames = (len(x) + shift // 2) // shift
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / (window - 1))
    edges = np.linspace(1127 * math.log(1 + 20 / 700), 1127 * math.log(1 + 8000 / 700), 82)
    mel_of_bin = 1127 * np.log(1 + np.arange(256) * 16000 / size / 700)
    rows = []
    for frame in range(num_frames):
        start = frame * shift + shift // 2 - window // 2
        places = np.arange(start, start + window)
        places = np.where(places < 0, -places - 1, places)  # mirrored at both ends
        places = np.where(places >= len(x), 2 * len(x) - 1 - places, places)
        piece = x[places]
        piece = piece - piece.mean()
        piece = piece - 0.97 * np.concatenate((piece[:1], piece[:-1]))
        power = np.abs(np.fft.rfft(piece * hann**0.85, size)[:256]) ** 2
        row = []
        for left, center, right in zip(edges, edges[1:], edges[2:], strict=False):
            rise = (mel_of_bin - left) / (center - left)
            fall = (right - mel_of_bin) / (right - center)
            energy = float(power @ np.clip(np.minimum(rise, fall), 0.0, None))
            row.append(math.log(max(energy, np.finfo(np.float32).eps)))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("num_samples", [16000, 16079, 16080, 5000, 1600])
def test_features_are_kaldis(num_samples: int) -> None:
    """Our numbers follow the definition to 1e-3; window and filters are fp32."""
    samples = speech_like(num_samples)
    ours = LogMel(CONFIG)(samples).numpy()
    theirs = kaldi_log_mel(samples)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_a_loud_tone_does_not_drown_what_is_quiet() -> None:
    """Beside a tone, bands far below it are as exact as ever; a transform in fp32 is 0.015 off."""
    times = np.arange(16000)
    noise = 1e-5 * np.random.default_rng(0).normal(size=16000)
    samples = (0.9 * np.sin(0.05 * times) + noise).astype(np.float32)
    ours = LogMel(CONFIG)(samples).numpy()
    assert np.ptp(ours.mean(axis=0)) > 10.0  # nepers of power, 43 dB
    np.testing.assert_allclose(ours, kaldi_log_mel(samples), atol=2e-3)


def test_features_agree_with_kaldi_native_fbank() -> None:
    """Another implementation, in C++, gives the same to 1e-3."""
    knf = pytest.importorskip("kaldi_native_fbank")
    samples = speech_like(24000)
    options = knf.FbankOptions()
    options.frame_opts.dither = 0.0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = 80
    options.mel_opts.high_freq = 0.0
    extractor = knf.OnlineFbank(options)
    extractor.accept_waveform(16000, (samples * 32768).tolist())
    extractor.input_finished()
    frames = [extractor.get_frame(i) for i in range(extractor.num_frames_ready)]
    np.testing.assert_allclose(LogMel(CONFIG)(samples).numpy(), np.stack(frames), atol=2e-3)


@pytest.mark.parametrize("num_samples", [1, 10, 159, 399, 400])
def test_shortest_audio_has_a_frame(num_samples: int) -> None:
    """Audio shorter than a window still gives finite features."""
    features = LogMel(CONFIG)(speech_like(16000)[:num_samples])
    assert len(features) >= 1
    assert torch.isfinite(features).all()


def test_silence_is_finite() -> None:
    """Digital silence meets the floor, not minus infinity."""
    assert torch.isfinite(LogMel(CONFIG)(np.zeros(16000, np.float32))).all()


def test_cmvn_gives_mean_zero_and_deviation_one() -> None:
    """Normalizing the data it was measured on centers and scales it."""
    parts = [LogMel(CONFIG)(speech_like(8000 + 1000 * i, seed=i)) for i in range(4)]
    cmvn = CMVN.from_sums(feature_sums(part) for part in parts)
    normal = (torch.cat(parts) - cmvn.mean) * cmvn.istd
    torch.testing.assert_close(normal.mean(0), torch.zeros(80), atol=1e-4, rtol=0)
    torch.testing.assert_close(normal.std(0, correction=0), torch.ones(80), atol=1e-3, rtol=0)


def test_constant_band_does_not_divide_by_zero() -> None:
    """A band that never changes keeps a finite scale."""
    cmvn = CMVN.from_sums([feature_sums(torch.full((10, 80), 3.0))])
    assert torch.isfinite(cmvn.istd).all()


def count_computations(cache: FeatureCache, audio: Path, variant: str = "0:1:1.0") -> int:
    """Ask the cache once; return how often it had to compute."""
    calls = []

    def compute() -> torch.Tensor:
        calls.append(1)
        return torch.arange(160.0).reshape(2, 80)

    torch.testing.assert_close(
        cache.get(audio, variant, compute), torch.arange(160.0).reshape(2, 80), rtol=0, atol=0
    )
    return len(calls)


def test_cache_key_is_content_config_and_variant(tmp_path: Path) -> None:
    """A copy of the audio hits; other bytes, another config or another speed miss."""
    one, copy, other = (tmp_path / name for name in ("one", "copy", "other"))
    one.write_bytes(b"sound")
    copy.write_bytes(b"sound")
    other.write_bytes(b"noise")
    cache = FeatureCache(tmp_path / "cache", LogMel(CONFIG).key)
    assert count_computations(cache, one) == 1
    assert count_computations(cache, one) == 0
    assert count_computations(cache, copy) == 0
    assert count_computations(cache, other) == 1
    assert count_computations(cache, one, "0:1:0.9") == 1
    fewer_bands = LogMel(FeaturesConfig(num_mels=40)).key
    assert count_computations(FeatureCache(tmp_path / "cache", fewer_bands), one)


def test_cache_survives_torn_files(tmp_path: Path) -> None:
    """A damaged entry is made again."""
    audio = tmp_path / "one"
    audio.write_bytes(b"sound")
    cache = FeatureCache(tmp_path / "cache", LogMel(CONFIG).key)
    count_computations(cache, audio)
    (entry,) = (tmp_path / "cache").rglob("*.npy")
    for damage in (b"", entry.read_bytes()[:-7], b"garbage"):
        entry.write_bytes(damage)
        assert count_computations(cache, audio) == 1
        assert count_computations(cache, audio) == 0


def test_unwritable_cache_costs_time_only(tmp_path: Path) -> None:
    """Where nothing can be stored, features still come, and the reason is kept."""
    audio = tmp_path / "one"
    audio.write_bytes(b"sound")
    (tmp_path / "cache").write_text("a file where the folder should be")
    cache = FeatureCache(tmp_path / "cache", LogMel(CONFIG).key)
    assert count_computations(cache, audio) == 1
    assert cache.problem


def test_an_utterance_less_its_own_mean_does_not_know_its_microphone() -> None:
    config = CONFIG.model_copy(update={"normalize": "utterance"})
    samples = speech_like(16000)
    features = LogMel(config)(samples)
    nothing = torch.zeros(config.num_mels)
    torch.testing.assert_close(features.mean(dim=0), nothing, atol=1e-4, rtol=0)
    torch.testing.assert_close(LogMel(config)(0.1 * samples), features, atol=1e-2, rtol=0)
