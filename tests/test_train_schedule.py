"""Laws of the learning rate."""

import pytest

from arborvox.config import TrainConfig
from arborvox.training.schedule import (
    cosine_rate,
    make_schedule,
    noam_rate,
    warmup_rate,
    warn_of_long_warmup,
)


@pytest.mark.parametrize("kind", ["warmup", "noam", "cosine"])
def test_rates_rise_to_the_end_of_warm_up_then_fall(kind: str) -> None:
    """Every schedule has one peak, at the last warm-up step, and is never negative."""
    config = TrainConfig(schedule=kind, warmup_steps=50, learning_rate=0.1)
    rate = make_schedule(config, width=64, total_steps=200)
    rates = [rate(step) for step in range(1, 201)]
    assert max(rates) == rates[49]
    assert rates[:50] == sorted(rates[:50])
    assert rates[49:] == sorted(rates[49:], reverse=True)
    assert min(rates) >= 0


def test_warmup_peak_is_the_learning_rate() -> None:
    """The paper's numbers: 5e-5 after 25,000 steps, half of it after 100,000."""
    assert warmup_rate(25_000, peak=5e-5, warmup_steps=25_000) == pytest.approx(5e-5)
    assert warmup_rate(100_000, peak=5e-5, warmup_steps=25_000) == pytest.approx(2.5e-5)
    assert warmup_rate(1, peak=5e-5, warmup_steps=25_000) == pytest.approx(5e-5 / 25_000)


def test_noam_is_the_transformers_formula() -> None:
    """d^-0.5 * min(step^-0.5, step * warmup^-1.5)."""
    for step in (1, 100, 4000, 10_000):
        expected = 2.0 * 256**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert noam_rate(step, factor=2.0, width=256, warmup_steps=4000) == pytest.approx(expected)


def test_cosine_ends_at_zero_and_stays_there() -> None:
    """Half of the peak in the middle, nothing at the end."""
    options = {"peak": 1.0, "warmup_steps": 10, "total_steps": 110}
    assert cosine_rate(60, **options) == pytest.approx(0.5)
    assert cosine_rate(110, **options) == pytest.approx(0.0)
    assert cosine_rate(500, **options) == pytest.approx(0.0)


@pytest.mark.parametrize("kind", ["warmup", "noam", "cosine"])
def test_no_warm_up_is_no_division_by_zero(kind: str) -> None:
    """Zero warm-up steps begin at the peak."""
    config = TrainConfig(schedule=kind, warmup_steps=0, learning_rate=0.1)
    assert make_schedule(config, width=64, total_steps=10)(1) > 0


def test_a_warm_up_longer_than_the_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_long_warmup(TrainConfig(warmup_steps=50), total_steps=100)
    assert capsys.readouterr().err == ""
    warn_of_long_warmup(TrainConfig(), total_steps=300)
    assert "set train.warmup_steps to about 30" in capsys.readouterr().err
