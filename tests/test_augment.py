"""Laws of augmentation: bounded masks, lengths kept, the same seed the same result."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.augment import Surroundings, add_noise, change_speed, mask_features, reverberate
from arborvox.config import AugmentConfig
from arborvox.errors import ArborvoxError

CONFIG = AugmentConfig()


def generator(seed: int) -> torch.Generator:
    """Return a seeded source of chance."""
    return torch.Generator().manual_seed(seed)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(num_frames=st.integers(1, 600), seed=st.integers(0, 2**32 - 1))
def test_masks_are_few_narrow_and_never_over_a_fifth(num_frames: int, seed: int) -> None:
    """At most 2 x 10 bands and 2 x min(50, T / 5) frames are replaced, by the fill alone."""
    features = 1.0 + torch.rand(num_frames, 80, generator=generator(1))
    fill = torch.full((80,), -1.0)
    masked = mask_features(features, CONFIG, fill, generator(seed))
    changed = masked != features
    assert (masked[changed] == -1.0).all()
    whole_frames = int(changed.all(dim=1).sum())
    assert whole_frames <= 2 * min(50, num_frames // 5)
    kept = changed[~changed.all(dim=1)]
    if len(kept):
        assert int(kept.all(dim=0).sum()) <= 20
        assert (kept == kept[:1]).all()  # bands are masked over all of the time


def test_same_seed_same_mask() -> None:
    """Masks come from the generator and nothing else; the input is not touched."""
    features = torch.rand(300, 80, generator=generator(1))
    before = features.clone()
    fill = torch.zeros(80)
    one, two = (mask_features(features, CONFIG, fill, generator(5)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(features, before)
    assert not torch.equal(one, mask_features(features, CONFIG, fill, generator(6)))


@pytest.mark.parametrize("frames_a_mask", [0.5, 1.0, 160.0])
def test_masks_of_inputs_without_bands_cover_the_same_time(frames_a_mask: float) -> None:
    """Whole frames alone are replaced, and as many as last as long as those of log-mels."""
    num_frames = int(2000 * frames_a_mask)
    features = 1.0 + torch.rand(num_frames, 6, generator=generator(1))
    widest = 0
    for seed in range(40):
        masked = mask_features(
            features,
            AugmentConfig(time_masks=1),
            torch.full((6,), -1.0),
            generator(seed),
            has_bands=False,
            frames_a_mask=frames_a_mask,
        )
        changed = masked != features
        assert (changed.all(dim=1) == changed.any(dim=1)).all()
        widest = max(widest, int(changed[:, 0].sum()))
    assert 0.9 * 50 * frames_a_mask <= widest <= 50 * frames_a_mask


@pytest.mark.parametrize("speed", [0.9, 1.0, 1.1])
def test_speed_changes_length_and_pitch(speed: float) -> None:
    """A tone played faster is shorter and higher by the same factor."""
    tone = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000).astype(np.float32)
    changed = change_speed(tone, speed, 16000)
    assert len(changed) == pytest.approx(16000 / speed, abs=2)
    spectrum = np.abs(np.fft.rfft(changed))
    assert np.argmax(spectrum) * 16000 / len(changed) == pytest.approx(440 * speed, rel=0.01)


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 30.0])
def test_noise_has_the_asked_ratio(snr_db: float) -> None:
    """What is added stands to the signal as asked, also when the noise is short and repeated."""
    chance = np.random.default_rng(0)
    signal = chance.normal(size=8000).astype(np.float32)
    noise = chance.normal(size=700).astype(np.float32)
    added = add_noise(signal, noise, snr_db) - signal
    assert 10 * np.log10(np.mean(signal**2) / np.mean(added**2)) == pytest.approx(snr_db, abs=0.01)


def test_silence_and_silent_noise_are_left_alone() -> None:
    """No division by zero."""
    ones, zeros = np.ones(100, np.float32), np.zeros(100, np.float32)
    assert np.array_equal(add_noise(ones, zeros, 10.0), ones)
    assert np.array_equal(add_noise(zeros, ones, 10.0), zeros)
    assert np.array_equal(reverberate(zeros, ones), zeros)


def test_dry_room_changes_nothing() -> None:
    """An impulse, even a delayed and quiet one, gives the signal back."""
    signal = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    impulse = np.zeros(300, np.float32)
    impulse[40] = 0.3
    np.testing.assert_allclose(reverberate(signal, impulse), signal, atol=1e-5)


def test_reverberation_keeps_length_and_loudness() -> None:
    """A real tail is heard but moves neither length nor level."""
    chance = np.random.default_rng(0)
    signal = chance.normal(size=5000).astype(np.float32)
    tail = (chance.normal(size=2000) * np.exp(-np.arange(2000) / 300)).astype(np.float32)
    wet = reverberate(signal, tail)
    assert wet.shape == signal.shape
    assert np.mean(wet**2) == pytest.approx(np.mean(signal**2), rel=1e-3)
    assert not np.allclose(wet, signal, atol=0.1)


def test_surroundings_are_drawn_from_the_folders(tmp_path: Path) -> None:
    """With a share of 1 every utterance gets a room and a noise, the same for the same seed."""
    chance = np.random.default_rng(0)
    for name in ("noise", "room"):
        (tmp_path / name).mkdir()
        sound = chance.normal(size=4000).astype(np.float32) * 0.1
        soundfile.write(tmp_path / name / "x.wav", sound, 16000)
    config = AugmentConfig(
        noise_folder=str(tmp_path / "noise"),
        noise_share=1.0,
        reverb_folder=str(tmp_path / "room"),
        reverb_share=1.0,
    )
    surroundings = Surroundings(config, 16000)
    signal = chance.normal(size=8000).astype(np.float32) * 0.1
    results = []
    for _ in range(2):
        source = generator(3)
        room, noise = surroundings.choose(source)
        assert room == tmp_path / "room" / "x.wav"
        assert noise == tmp_path / "noise" / "x.wav"
        results.append(surroundings.apply(signal, room, noise, source))
    assert np.array_equal(results[0], results[1])
    assert not np.allclose(results[0], signal)


def test_a_noise_folder_may_be_left_to_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a corpus: `noise_folder: ${NOISES}` is the folder that the variable names."""
    soundfile.write(tmp_path / "hiss.wav", np.ones(1600, np.float32), 16000)
    config = AugmentConfig(noise_folder="${ARBORVOX_NOISE}", noise_share=1.0)
    monkeypatch.setenv("ARBORVOX_NOISE", str(tmp_path))
    chosen = Surroundings(config, 16000).choose(torch.Generator())
    assert chosen == (None, tmp_path / "hiss.wav")
    monkeypatch.delenv("ARBORVOX_NOISE")
    with pytest.raises(ArborvoxError, match="ARBORVOX_NOISE is not set"):
        Surroundings(config, 16000)


def test_empty_noise_folder_is_an_error(tmp_path: Path) -> None:
    """A folder without audio is named with its key."""
    with pytest.raises(ArborvoxError, match=r"augment\.noise_folder"):
        Surroundings(AugmentConfig(noise_folder=str(tmp_path)), 16000)
