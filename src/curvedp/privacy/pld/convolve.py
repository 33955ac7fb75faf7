"""Convolution of exponentially tilted privacy loss distributions, with error bounds.

`convolve_tilted` composes many mechanisms with the fast Fourier transform;
`hockey_stick_divergence` reads δ from the result.

Definition. The *exponential tilt* of a distribution with rate λ has the masses
pᵢ·e^{λLᵢ − κ(λ)}, where κ(λ) = log Σ pᵢ·e^{λLᵢ}. Convolutions of tilted masses are
tilted convolutions. A Fourier transform errs by about 1e-16 of the largest mass, which
would hide a small δ. With the λ of large deviations, the losses that decide δ(ε) are
the likely ones, and their masses keep their digits.

Errors. Theorem C2 (docs/theory/accounting.md) bounds every rounding error in a table
with the lines (a) to (v). The constants below are those of the table, and comments name
the line where one is used. For example, line (d): a transform of length 2^k errs by at
most 16k·u of the 2-norm of its result, u being the unit roundoff. For very many steps,
a power of the transform F is computed as a power of 1 + (F − 1), so that errors do not
add up.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array, round_up
from curvedp.privacy.pld.discretize import UNIT_ROUNDOFF, DiscretePLD

ComplexArray = NDArray[np.complex128]
Factor = tuple[DiscretePLD, int]  # a distribution and how often it is convolved

# From this many steps on, a power of a transform F is computed from F − 1.
MANY_STEPS = 1 << 14
_NEAR_CELLS = 1 << 12  # grid cells on each side of loss 0 that are summed by parts
# Rounding errors that are charged, in units of UNIT_ROUNDOFF, with their lines in the table below
# Theorem C2 (docs/theory/accounting.md), which proves them.
TILT_ERROR = 4  # (c): a tilted mass, relative
TRANSFORM_ERROR = 16  # (d), (e), (f), (h), (i): a transform, for each of its k stages
MOMENTS_ERROR = 24  # (g): z, from the first moments
SUMS_ERROR = 16  # (h): z, from the double sums, beside their transform
EXCESS_ERROR = 4  # (i): z, from the excess of the total mass over 1
Z_ERROR = 8  # (j): z, from the last sum
LOG_POWER_ERROR = 32  # (k): a power of 1 + z, from its logarithm
GROWTH_ERROR = 64  # (u): the logarithm of |1 + z|, absolute
EXP_ERROR = 16  # (l): that power, from the exponential
DIVERGENCE_ERROR = 8  # (m): δ from masses, for each step of the recurrences
INFINITY_ERROR = 16  # (o): the mass at infinity, relative
TAIL_ERROR = 16  # (p): the logarithm of Chernoff's bound
# The mass at the largest loss is raised to this in Chernoff's bound, line (p), so that
# weights which underflow are far below it.
_SMALLEST_TOP_MASS = 2.0**-1000
ERROR_SAFETY = 1.01  # covers products of two errors, and the rounding of the bounds


class TiltedConvolution(NamedTuple):
    """The convolution of tilted masses, modulo the length of the transform."""

    masses: Array
    kappa: float  # Σ count·κ(λ) over the factors, by which the tilt is undone
    kappa_magnitude: float  # Σ count·|κ(λ)|, to which the rounding of kappa is relative
    error: float  # a bound on the 2-norm of the errors of the masses


class _TransformPower(NamedTuple):
    """A power of a transform, with bounds on its errors."""

    values: ComplexArray
    transform_error: float  # the largest error of the transform itself
    power_error: float  # the 2-norm of the errors of the power, over √N


def exponential_tilt(pld: DiscretePLD, rate: float) -> tuple[float, Array]:
    """Return κ and the tilted masses p·e^{rate·L − κ}, the masses rounded up.

    κ is close to log Σ p·e^{rate·L}. It need not be exact, because the tilt is undone
    with the same κ.

    Parameters
    ----------
    pld : DiscretePLD
        The losses L and their masses p.
    rate : float
        The rate λ of the tilt.

    Returns
    -------
    kappa : float
        κ, by which the tilt is undone.
    tilted_masses : array
        The tilted masses, rounded up.
    """
    kappa, _ = pld.log_moment(rate)
    exponent = rate * pld.losses
    # Theorem C2, line (c).
    rounding = TILT_ERROR * UNIT_ROUNDOFF * (np.abs(exponent) + abs(kappa) + 16)
    with np.errstate(under="ignore"):
        return kappa, pld.masses * np.exp(exponent - kappa + rounding)


def convolve_tilted(factors: list[Factor], rate: float, size: int) -> TiltedConvolution:
    """Convolve the tilted masses of all factors, each as often as its count says.

    Parameters
    ----------
    factors : list of (DiscretePLD, int)
        Privacy loss distributions on one grid, and how often each is used.
    rate : float
        The rate λ of the tilt.
    size : int
        The length of the transform, a power of 2. Grid indices wrap around modulo it.

    Returns
    -------
    TiltedConvolution
        The masses at the grid indices 0, …, size − 1 (modulo `size`), with a bound on
        their errors.
    """
    bits = size.bit_length() - 1
    product: ComplexArray | None = None
    kappas = []  # count·κ(λ), by factor
    log_largest_value = 0.0  # no value of the product of the transforms is larger
    forward_error = 0.0  # of the product, relative to its largest value; 2-norm over √N
    smallest_norm = math.inf

    for pld, count in factors:
        own_kappa, masses = exponential_tilt(pld, rate)
        wrapped = _wrap_around(pld.index, masses, size)
        norm = ERROR_SAFETY * math.sqrt(float(wrapped @ wrapped))

        if count < MANY_STEPS:
            # Theorem C2, lines (d) and (e). One more bit covers the complex products.
            one_error = TRANSFORM_ERROR * (bits + 1) * UNIT_ROUNDOFF * norm
            power = _TransformPower(
                values=_integer_power(scipy.fft.rfft(wrapped), count),
                transform_error=math.sqrt(size) * one_error,
                power_error=count * one_error,
            )
        else:
            power = _power_about_one(pld.index, masses, count, size)

        product = power.values if product is None else product * power.values
        total_mass = float(masses.sum()) * (1 + len(masses) * UNIT_ROUNDOFF)
        log_largest_value += count * math.log(total_mass + power.transform_error)
        forward_error += power.power_error
        smallest_norm = min(smallest_norm, norm)
        kappas.append(count * own_kappa)

    assert product is not None
    largest_value = math.exp(min(log_largest_value, 700.0))
    # Theorem C2, line (f).
    inverse_error = TRANSFORM_ERROR * bits * UNIT_ROUNDOFF * smallest_norm
    return TiltedConvolution(
        masses=scipy.fft.irfft(product, size),
        kappa=math.fsum(kappas),
        kappa_magnitude=math.fsum(map(abs, kappas)),
        error=ERROR_SAFETY * largest_value * (forward_error + inverse_error),
    )


def _wrap_around(index: NDArray[np.int64], masses: Array, size: int) -> Array:
    """Return the sums of the masses whose grid indices agree modulo `size`, rounded up.

    Entry i of the result belongs to the indices i, i ± size, i ± 2·size, ….

    Parameters
    ----------
    index, masses : array
        Grid indices and the masses there.
    size : int
        The length of the transform.

    Returns
    -------
    array
        The sums, of length `size`.
    """
    place = index % size
    sums = np.bincount(place, weights=masses, minlength=size)
    n_terms = np.bincount(place, minlength=size)
    return sums * (1 + np.maximum(n_terms - 1, 0) * (2 * UNIT_ROUNDOFF))


def _integer_power(values: ComplexArray, count: int) -> ComplexArray:
    """Return values^count by repeated squaring.

    The relative error is at most 3·count·u, u being the unit roundoff. The caller
    covers it by one more bit in the error of the transform.

    Parameters
    ----------
    values : array of complex
        The numbers.
    count : int
        The power, >= 1.

    Returns
    -------
    array of complex
        values^count.
    """
    result = values.copy()
    for bit in bin(count)[3:]:
        np.multiply(result, result, out=result)
        if bit == "1":
            np.multiply(result, values, out=result)
    return result


def _power_about_one(
    index: NDArray[np.int64], masses: Array, count: int, size: int
) -> _TransformPower:
    """Return a large power of the Fourier transform F of the masses, as (1 + z)^count.

    z = F − 1 is small where the masses are close to 1 at loss 0. Let pᵢ be the mass at
    the grid index i, θ the frequency, and *excess* = Σpᵢ − 1. Then, summing by parts
    twice,

        z(θ) = excess − i·sin θ·(m₊ − m₋) − 4·sin²(θ/2)·((m₊ + m₋)/2 + A(θ)) + (far part),

    where m₊ and m₋ are the first moments Σ|i|·pᵢ over i > 0 and i < 0, A(θ) is the
    transform of the double tail sums on both sides (`_double_sums`), and the far part
    belongs to indices beyond 4096. The errors of these terms are in proportion to θ and
    θ². Where that bound is worse than the one of a plain transform, the plain transform
    is taken.

    Parameters
    ----------
    index, masses : array
        The distribution, wrapped around modulo `size`.
    count : int
        The power.
    size : int
        The length of the transform.

    Returns
    -------
    _TransformPower
        The power, and bounds on its errors.
    """
    bits = size.bit_length() - 1
    reach = min(_NEAR_CELLS, size // 4)
    is_near = np.abs(index) <= reach
    far_masses = _wrap_around(index[~is_near], masses[~is_near], size)
    total_far = math.fsum(far_masses)
    # The excess of Σp over 1, with all its digits: all errors here count n-fold.
    excess = math.fsum([-1.0, *masses[is_near], total_far])

    moment_above, sums_above = _double_sums(index[is_near], masses[is_near], reach)
    moment_below, sums_below = _double_sums(-index[is_near], masses[is_near], reach)
    double_sums = np.zeros(size)
    double_sums[: reach - 1] += sums_above
    double_sums[size - reach : size - 1] += sums_below[::-1]  # at −2 − j

    theta = 2 * np.pi / size * np.arange(size // 2 + 1)
    chord = 2 * np.sin(theta / 2)  # |e^{iθ} − 1|
    transformed_sums = np.exp(-1j * theta) * scipy.fft.rfft(double_sums)
    second_order = (moment_above + moment_below) / 2 + transformed_sums
    z = -chord * chord * second_order
    z += (
        (scipy.fft.rfft(far_masses) - total_far)
        + excess
        - 1j * np.sin(theta) * (moment_above - moment_below)
    )

    # Theorem C2, lines (g), (h) and (i).
    moments_error = MOMENTS_ERROR * UNIT_ROUNDOFF * (moment_above + moment_below)
    sums_error = (TRANSFORM_ERROR * bits + 2 * reach + SUMS_ERROR) * UNIT_ROUNDOFF
    sums_error *= float(double_sums.sum())
    far_error = TRANSFORM_ERROR * (bits + 1) * UNIT_ROUNDOFF * total_far
    far_error += EXCESS_ERROR * UNIT_ROUNDOFF * abs(excess)
    z_error = chord * chord * sums_error + (chord * moments_error + far_error)

    # Where this is more than the error of a plain transform, line (d), that one serves.
    plain_error = TRANSFORM_ERROR * (bits + 1) * UNIT_ROUNDOFF * (1 + excess)
    # It is taken of the same masses, because frequencies of both kinds are combined.
    near_and_far_masses = far_masses.copy()
    near_and_far_masses[index[is_near] % size] += masses[is_near]
    plain_transform = scipy.fft.rfft(near_and_far_masses)
    z = np.where(z_error < plain_error, z, plain_transform - 1)
    z_error = np.minimum(z_error, plain_error) + Z_ERROR * UNIT_ROUNDOFF * np.abs(
        z
    )  # line (j)

    return _raise_to_power(z, z_error, count, size)


def _raise_to_power(
    z: ComplexArray, z_error: Array, count: int, size: int
) -> _TransformPower:
    """Return (1 + z)^count through the logarithm of 1 + z, with bounds on the errors.

    With n = count, F = 1 + z and |z| < 2.1 (Theorem C2, lines (k) and (l)), the result
    errs by at most

        n·(error of z + 32u·|z|)·|F|^{n−2} + 16u,

    where |F|^{n−2} is itself bounded from above. In it, |F|² = 1 + y with z = a + ib
    and y = a(2 + a) + b².

    Parameters
    ----------
    z : array of complex
        F − 1, at the frequencies of a real transform.
    z_error : array
        Bounds on the errors of z.
    count : int
        The power n.
    size : int
        The length of the transform.

    Returns
    -------
    _TransformPower
        The power, and bounds on its errors.
    """
    y = z.real * (2 + z.real) + z.imag * z.imag
    log_length = np.log1p(np.maximum(y, -0.75)) / 2  # below it 2^-count is 0
    angle = np.arctan2(z.imag, 1 + z.real)
    values = np.exp(count * (log_length + 1j * angle))

    # An upper bound on log |F|, by lines (g) to (j) and (u).
    largest_log_length = (
        np.maximum(log_length, -0.69) + 2 * z_error + GROWTH_ERROR * UNIT_ROUNDOFF
    )
    log_growth = (count - 2) * largest_log_length
    growth = np.exp(np.minimum(log_growth, 700.0))
    error = count * (z_error + LOG_POWER_ERROR * UNIT_ROUNDOFF * np.abs(z)) * growth
    error += EXP_ERROR * UNIT_ROUNDOFF
    power_error = ERROR_SAFETY * math.sqrt(2 * float(error @ error) / size)
    return _TransformPower(values, float(z_error.max()), power_error)


def _double_sums(
    index: NDArray[np.int64], masses: Array, reach: int
) -> tuple[float, Array]:
    """Return the first moment and the double tail sums of the positive grid indices.

    Parameters
    ----------
    index, masses : array
        Grid indices i and their masses pᵢ. Only i > 0 counts.
    reach : int
        The largest index.

    Returns
    -------
    first_moment : float
        Σ i·pᵢ.
    double_sums : array
        a_0, …, a_{reach−2}, where a_j = Σ_{i >= j+2} P(I >= i).
    """
    is_positive = index > 0
    first_moment = math.fsum(index[is_positive] * masses[is_positive])
    counts = np.bincount(
        index[is_positive], weights=masses[is_positive], minlength=reach + 1
    )
    tails_from_right = np.cumsum(counts[::-1])
    double_tails = np.cumsum(tails_from_right)[::-1]
    return first_moment, np.asarray(double_tails[2:], np.float64)


def hockey_stick_divergence(
    masses: Array, rate: float, width: float, error: float
) -> Array:
    """Return δ at every grid point from tilted masses; rounded up.

    The result is in units of e^{κ − rate·ε}: the caller undoes the tilt. With tilted
    masses m_i at grid points of width w, t = e^{−rate·w} and s = e^{−w},

        D_j = Σ_{i>j} m_i·(t^{i−j} − (ts)^{i−j})
            = ts·D_{j+1} + (1 − s)·Σ_{i>j} m_i·t^{i−j},

    a recurrence that does not cancel where all losses are small. Both sums are linear
    filters, applied from the right. Their rounding errors are those of Theorem C2, line
    (m) (docs/theory/accounting.md); the errors of the masses are charged by the
    inequality of Cauchy and Schwarz.

    Parameters
    ----------
    masses : array
        The tilted masses m_i at consecutive grid points.
    rate : float
        The rate of the tilt.
    width : float
        The width w of the grid.
    error : float
        A bound on the 2-norm of the errors of the masses.

    Returns
    -------
    array
        δ at each grid point, in these units.
    """
    from scipy.signal import lfilter  # half a second, which most programs never need

    distance = np.arange(1, len(masses) + 1) * width
    kernel_norm = ERROR_SAFETY * np.linalg.norm(
        np.exp(-rate * distance) * np.expm1(-distance)
    )
    one_minus_s = -math.expm1(-width)
    t = math.exp(-rate * width)
    ts = math.exp(-(rate + 1) * width)
    sums = lfilter([0.0, t], [1.0, -t], masses[::-1])
    divergence = lfilter([one_minus_s], [1.0, -ts], sums)[::-1]

    rounding = (
        DIVERGENCE_ERROR * UNIT_ROUNDOFF * (len(masses) + 4) * (1 + (rate + 1) * width)
    )
    return np.asarray(
        divergence
        + rounding * np.abs(divergence)
        + (1 + 2 * rounding) * error * kernel_norm
    )


def mass_at_infinity(factors: list[Factor]) -> float:
    """Return the mass of an infinite total loss, rounded up.

    The total is infinite if any single loss is. With finite masses m, infinite masses x
    and counts n this is Π(m + x)ⁿ − Πmⁿ. Total masses above 1, which come from rounding
    up, count in full.

    Parameters
    ----------
    factors : list of (DiscretePLD, int)
        Privacy loss distributions, and how often each is used.

    Returns
    -------
    float
        The mass, at least the exact one; 0 if every single loss is finite.
    """
    log_totals = []
    log_ratios = []
    for pld, count in factors:
        finite = math.fsum(pld.masses)
        log_totals.append(count * math.log1p(finite - 1 + pld.infinite))
        log_ratios.append(count * math.log1p(pld.infinite / finite))
    log_total = math.fsum(log_totals)
    log_ratio = math.fsum(log_ratios)
    if not log_ratio:
        return 0.0
    mass = math.exp(min(log_total, 700.0)) * -math.expm1(-log_ratio)
    # Theorem C2, line (o).
    n_uses = sum(count for _, count in factors)
    rounding = (
        INFINITY_ERROR * UNIT_ROUNDOFF * (1 + n_uses + math.fsum(map(abs, log_totals)))
    )
    return float(round_up(mass, rounding))


def log_tail_mass(factors: list[Factor], rate: float, end: float) -> float:
    """Return an upper bound on log P(total loss > end), by Chernoff's inequality.

    Parameters
    ----------
    factors : list of (DiscretePLD, int)
        Privacy loss distributions, and how often each is used.
    rate : float
        The rate λ > 0 of Chernoff's bound. If it is infinite, no total loss exceeds `end`,
        and the answer is −inf.
    end : float
        The loss beyond which the mass is wanted.

    Returns
    -------
    float
        A number <= 0.
    """
    if math.isinf(rate):
        return -math.inf
    kappas = []  # count·κ(λ), by factor
    # Theorem C2, line (p): Σ n·(M + |κ| + 4) + |λ·end|, M being the largest |λL|.
    magnitude = abs(rate * end)
    for pld, count in factors:
        masses = pld.masses.copy()
        masses[-1] = max(masses[-1], _SMALLEST_TOP_MASS)
        own_kappa, _ = replace(pld, masses=masses).log_moment(rate)
        largest_exponent = float(np.abs(rate * pld.losses).max())
        kappas.append(count * own_kappa)
        magnitude += count * (largest_exponent + abs(own_kappa) + 4)
    kappa = math.fsum(kappas)
    return min(kappa - rate * end + TAIL_ERROR * UNIT_ROUNDOFF * magnitude, 0.0)
