"""The polynomials of the gates against numpy in double precision."""

from typing import Any

import numpy as np
import pytest
from numba import njit

from arborvox.kernels.gate_math import gate_terms


@njit
def _all_terms(gates: Any, out: Any) -> None:
    for i in range(len(gates)):
        out[0, i], out[1, i], out[2, i] = gate_terms(gates[i])


def _terms(gates: np.ndarray) -> np.ndarray:
    out = np.empty((3, len(gates)), gates.dtype)
    _all_terms(gates, out)
    return out


def _exact(gates: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(gates.astype(np.float64)))
    return np.stack((np.log1p(e), 1 / (1 + e), e / (1 + e)))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_terms_are_exact_to_the_last_places(dtype: type, tolerance: float) -> None:
    gates = np.concatenate((np.linspace(-86, 86, 100_001), np.linspace(-1, 1, 10_001)))
    gates = gates.astype(dtype)
    np.testing.assert_allclose(_terms(gates), _exact(gates), rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_terms_vanish_without_error_for_huge_gates(dtype: type) -> None:
    gates = np.array([-np.inf, -1e4, 1e4, np.inf], dtype)
    log_term, larger, smaller = _terms(gates)
    np.testing.assert_allclose(log_term, 0, atol=1e-37)
    np.testing.assert_array_equal(larger, 1)
    np.testing.assert_allclose(smaller, 0, atol=1e-37)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_stays_nan(dtype: type) -> None:
    assert np.isnan(_terms(np.array([np.nan], dtype))).all()
