"""Convolutions of many tilted losses by Fourier transforms, with a bound on all that rounding does to them.

A transform of length 2^k errs by at most 16k·u of its result; a power of very many steps is taken about 1, of losses
summed by parts twice, so that its errors do not add up (docs/accounting.md, Composition, has the bounds).
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.privacy.rounding import Array

Values = NDArray[np.complex128]

U = 2.0**-53
MANY = 1 << 14  # steps, of which the powers are taken about 1
_NEAR = 1 << 12  # cells about 0 that are summed by parts


@dataclass(frozen=True)
class Loss:
    """P's masses at the losses index·width, and at infinity, all rounded up; their sum may exceed 1."""

    width: float
    index: NDArray[np.int64]
    masses: Array
    infinite: float

    @property
    def losses(self) -> Array:
        return np.asarray(self.index * self.width, np.float64)

    def log_moment(self, tilt: float) -> tuple[float, float]:
        """(κ, κ′): log Σ p·e^{tilt·L} over the finite losses, and its derivative."""
        exponent = tilt * self.losses
        top = float(exponent.max())
        weights = self.masses * np.exp(exponent - top)
        total = float(weights.sum())
        return math.log(total) + top, float(weights @ self.losses) / total


def tilted(loss: Loss, rate: float) -> tuple[float, Array]:
    """(κ, p·e^{rate·L − κ}), the masses rounded up; κ is any number close to the moment's logarithm."""
    kappa, _ = loss.log_moment(rate)
    exponent = rate * loss.losses
    with np.errstate(under="ignore"):
        return kappa, loss.masses * np.exp(exponent - kappa + 4 * U * (np.abs(exponent) + abs(kappa) + 16))


def convolved(factors: list[tuple[Loss, int]], rate: float, size: int) -> tuple[Array, float, float]:
    """(tilted masses modulo `size`, Σ nκ, a bound on the 2-norm of their error)."""
    bits = size.bit_length() - 1
    kappa, log_norm, error, smallest = 0.0, 0.0, 0.0, math.inf
    product: Values | None = None
    for loss, count in factors:
        own, masses = tilted(loss, rate)
        wrapped = np.bincount(loss.index % size, weights=masses, minlength=size)
        norm = 1.01 * math.sqrt(float(wrapped @ wrapped))
        if count < MANY:
            slip = 16 * (bits + 1) * U * norm  # of one transform, relative to √N, and one power's rounding
            factor, most, slips = _power(scipy.fft.rfft(wrapped), count), math.sqrt(size) * slip, count * slip
        else:
            factor, most, slips = _power_about_one(loss.index, masses, count, size)
        product = factor if product is None else product * factor
        log_norm += count * math.log(float(masses.sum()) * (1 + len(masses) * U) + most)
        error, smallest, kappa = error + slips, min(smallest, norm), kappa + count * own
    assert product is not None
    whole = math.exp(min(log_norm, 700.0))  # no value of the transforms' product is larger
    return scipy.fft.irfft(product, size), kappa, 1.01 * whole * (error + 16 * bits * U * smallest)


def _power(values: Values, count: int) -> Values:
    """By repeated squaring: the relative error is at most 3·count·u, which one more `bits` in the slip pays for."""
    result = values.copy()
    for bit in bin(count)[3:]:
        np.multiply(result, result, out=result)
        if bit == "1":
            np.multiply(result, values, out=result)
    return result


def _power_about_one(index: NDArray[np.int64], masses: Array, count: int, size: int) -> tuple[Values, float, float]:
    """(transform to the power `count`, the largest error of the transform, 2-norm of the power's errors over √N)."""
    bits, reach = size.bit_length() - 1, min(_NEAR, size // 4)
    wrapped = np.bincount(index % size, weights=masses, minlength=size)
    near = np.abs(index) <= reach
    rare = np.bincount(index[~near] % size, weights=masses[~near], minlength=size)
    rise, fall = (_by_parts(sign * index[near], masses[near], reach) for sign in (1, -1))
    parts = np.zeros(size)
    parts[: reach - 1] += rise[1]
    parts[size - reach : size - 1] += fall[1][::-1]  # 1/x² · 1/x^j is at −2 − j
    theta = 2 * np.pi / size * np.arange(size // 2 + 1)
    step, lost = 2 * np.sin(theta / 2), math.fsum(rare)
    excess = math.fsum([-1.0, *masses])  # of Σ p_i over 1, with all its digits: all errors here count n-fold
    z = -step * step * ((rise[0] + fall[0]) / 2 + np.exp(-1j * theta) * scipy.fft.rfft(parts))
    z += (scipy.fft.rfft(rare) - lost) + excess - 1j * np.sin(theta) * (rise[0] - fall[0])
    # of sums and transforms by parts; of first moments and sines; of what is rare; where that is more, of a plain transform
    slip = step * step * ((16 * bits + 2 * reach + 16) * U * float(parts.sum()))
    slip += step * (16 * U * (rise[0] + fall[0])) + 16 * (bits + 1) * U * lost
    plain = 16 * (bits + 1) * U * (1 + excess)
    z = np.where(slip < plain, z, scipy.fft.rfft(wrapped) - 1)
    slip = np.minimum(slip, plain) + 8 * U * np.abs(z)
    log_length = np.log1p(np.maximum(z.real * (2 + z.real) + z.imag * z.imag, -0.75)) / 2  # 2^-n is 0
    power = np.exp(count * (log_length + 1j * np.arctan2(z.imag, 1 + z.real)))
    # |1 + z|² = 1 + y, y = a(2 + a) + b² to 17u|z|, |z| < 2.1: length to 9nu|z|·|F|^{n−2}, angle to 13nu|z|, exp to 12u
    most = (count - 2) * (np.maximum(log_length, -0.69) + 2 * slip + 64 * U)
    error = count * (slip + 32 * U * np.abs(z)) * np.exp(np.minimum(most, 700.0)) + 16 * U
    return power, float(slip.max()), 1.01 * math.sqrt(2 * float(error @ error) / size)


def _by_parts(index: NDArray[np.int64], masses: Array, reach: int) -> tuple[float, Array]:
    """(Σ i·p_i, a_0 … a_{reach−2}) of the losses i > 0."""
    above = index > 0
    first = math.fsum(index[above] * masses[above])
    tails = np.cumsum(np.bincount(index[above], weights=masses[above], minlength=reach + 1)[::-1])
    return first, np.asarray(np.cumsum(tails)[::-1][2:], np.float64)


def discounted(masses: Array, rate: float, width: float, error: float) -> Array:
    """Σ_{i>j} m_i·(t^{i−j} − (ts)^{i−j}) + its error, t = e^{−rate·w}, s = e^{−w}: δ_j in units of e^{κ − rate·ε_j}.
    `error` bounds the 2-norm of the masses' errors; each sum loses at most 4u(1 + exponent) of itself a step."""
    size = len(masses)
    spread = math.sqrt(min(size, 1 / -math.expm1(-2 * rate * width)) if rate else size)  # at least ‖t^k‖₂
    whole = _sums(masses, math.exp(-rate * width))
    part = _sums(masses, math.exp(-(rate + 1) * width))
    rounding = 8 * U * (size + 4) * (1 + (rate + 1) * width)
    return np.asarray(whole - part + rounding * np.abs(whole) + (1 + 2 * rounding) * error * spread)


def _sums(masses: Array, ratio: float) -> Array:
    """Σ_{i>j} m_i·ratio^{i−j} for every j."""
    from scipy.signal import lfilter  # half a second, of which most programs need nothing

    return np.asarray(lfilter([0.0, ratio], [1.0, -ratio], masses[::-1])[::-1])
