"""The logistic function and its logarithm, written so that LLVM can put them in vector registers.

Numba calls the C library for exp and log1p, one number at a time. In float32 short polynomials are
exact to a few units of the last place and run 16 numbers at a time; float64 keeps the C library.
"""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from arborvox.kernels.compiling import exact_kernel

LOG2_E = np.float32(1.0 / math.log(2.0))
# log(2) in two parts: the first has few enough bits that its multiples below 2^7 are exact.
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(math.log(2.0) - 0.693359375)
# Adding this to a small float32 leaves its nearest integer in the low bits of the sum.
ROUNDING_MAGIC = np.float32(12582912.0)
ROUNDING_MAGIC_BITS = np.int32(0x4B400000)
# exp below this is smaller than the least normal float32.
LEAST_EXPONENT = np.float32(-87.0)
# Powers of two up to this stay finite when 1 is added.
MOST_POWER = np.float32(126.0)
ZERO, ONE = np.float32(0.0), np.float32(1.0)

# exp(r) for |r| <= log(2) / 2, highest power first (Chebyshev nodes, degree 6).
EXP_POLYNOMIAL: tuple[np.float32, ...]
# exp2(r) for |r| <= 1 / 2, highest power first (Chebyshev nodes, degree 4).
EXP2_POLYNOMIAL: tuple[np.float32, ...]
# log1p(x) / x for 0 <= x <= 1, highest power first (Chebyshev nodes, degree 10).
LOG1P_POLYNOMIAL: tuple[np.float32, ...]


def _chebyshev_fit(values: Any, low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Interpolate at Chebyshev nodes; coefficients of plain powers, highest first."""
    fit = np.polynomial.Chebyshev.interpolate(values, degree, domain=[low, high])
    powers = fit.convert(kind=np.polynomial.Polynomial).coef
    return tuple(np.float32(power) for power in powers[::-1])


EXP_POLYNOMIAL = _chebyshev_fit(np.exp, -0.35, 0.35, 6)
LOG1P_POLYNOMIAL = _chebyshev_fit(lambda x: np.log1p(x) / x, 0.0, 1.0, 10)
EXP2_POLYNOMIAL = _chebyshev_fit(np.exp2, -0.5, 0.5, 4)
P0, P1, P2, P3, P4 = EXP2_POLYNOMIAL
E0, E1, E2, E3, E4, E5, E6 = EXP_POLYNOMIAL
L0, L1, L2, L3, L4, L5, L6, L7, L8, L9, L10 = LOG1P_POLYNOMIAL


@exact_kernel
def exp_float32(x: Any) -> Any:
    """Return exp(x) for -87 <= x <= 87."""
    shifted = x * LOG2_E + ROUNDING_MAGIC
    multiple = shifted - ROUNDING_MAGIC
    r = (x - multiple * LN2_HIGH) - multiple * LN2_LOW
    e = E0
    e = e * r + E1
    e = e * r + E2
    e = e * r + E3
    e = e * r + E4
    e = e * r + E5
    e = e * r + E6
    # 2^multiple, put together from its bits
    bits = (np.float32(shifted).view(np.int32) - ROUNDING_MAGIC_BITS + np.int32(127)) << np.int32(
        23
    )
    return e * np.int32(bits).view(np.float32)


@exact_kernel
def gate_terms_float32(gate: Any) -> Any:
    """Return log(1 + e), 1 / (1 + e) and e / (1 + e) for e = exp(-|gate|)."""
    x = -abs(gate)
    x = LEAST_EXPONENT if x < LEAST_EXPONENT else x  # written so that NaN stays NaN
    e = exp_float32(x)
    p = L0
    p = p * e + L1
    p = p * e + L2
    p = p * e + L3
    p = p * e + L4
    p = p * e + L5
    p = p * e + L6
    p = p * e + L7
    p = p * e + L8
    p = p * e + L9
    p = p * e + L10
    larger = ONE / (ONE + e)
    return p * e, larger, e * larger


@exact_kernel
def logistic_float32(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) to 1e-5 of it, 0 below -87; of NaN it makes some number.

    For results in bfloat16, which end at 4e-3: a shorter polynomial than `exp_float32` has.
    """
    power = min(max(x * -LOG2_E, -MOST_POWER), MOST_POWER)
    shifted = power + ROUNDING_MAGIC
    r = power - (shifted - ROUNDING_MAGIC)
    e = P0
    e = e * r + P1
    e = e * r + P2
    e = e * r + P3
    e = e * r + P4
    # Times 2^multiple: the multiple, in the low bits of the sum, is added to the exponent.
    multiple = np.uint32(np.float32(shifted).view(np.uint32) << np.uint32(23))
    e = np.uint32(np.float32(e).view(np.uint32) + multiple).view(np.float32)
    return ZERO if x < LEAST_EXPONENT else ONE / (ONE + e)


@exact_kernel
def gate_terms_float64(gate: Any) -> Any:
    """Return the same three terms through the C library."""
    e = math.exp(-abs(gate))
    larger = 1.0 / (1.0 + e)
    return math.log1p(e), larger, e * larger


def gate_terms(gate: Any) -> tuple[Any, Any, Any]:
    """Return log(1 + e), 1 / (1 + e) and e / (1 + e) for e = exp(-|gate|), in the gate's type.

    With these, -log sigma(g) = log(1 + e) + max(-g, 0), and sigma(|g|), sigma(-|g|) are the others.
    """
    e = math.exp(-abs(gate))
    return math.log1p(e), 1.0 / (1.0 + e), e / (1.0 + e)


@overload(gate_terms, strict=False)  # type: ignore[untyped-decorator, unused-ignore]
def _gate_terms_by_type(gate: Any) -> Any:
    if gate is types.float32:
        return lambda gate: gate_terms_float32(gate)
    return lambda gate: gate_terms_float64(gate)
