"""Compose private mechanisms by convolving their privacy loss distributions (PLDs). A
PLD has masses pᵢ at losses Lᵢ on a grid. It is *tilted* first: its masses become
pᵢ·e^{λLᵢ − κ}, with a rate λ and a constant κ.

So losses that decide δ(ε) are likely, and survive the rounding of the fast Fourier
transform (FFT).

`convolve_tilted` convolves, and `hockey_stick_divergence` computes δ from the result.
The constant κ(λ) = log Σ pᵢ·e^{λLᵢ} gives the tilted masses the sum 1. A convolution of
tilted PLDs is the tilted convolution. An FFT errs by about 1e-16 of the largest mass,
which would hide a small δ without the tilt.

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

# From this many steps on, a power of a transform F is computed from z = F − 1.
MANY_STEPS = 1 << 14
# The number of grid cells on each side of loss 0 that are summed by parts.
_CELLS_SUMMED_BY_PARTS = 1 << 12
# Rounding errors that are charged, in units of UNIT_ROUNDOFF, with their lines in the
# table below Theorem C2 (docs/theory/accounting.md), which proves them.
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
_LARGEST_EXPONENT = 700.0  # e^700 is 1e304; the largest float is e^709.8
# A number below ½ to a power of 2^14 or more is 0 in floats. So |F|² − 1 is raised to
# −¾ before a power of F is taken, and log |F| in an upper bound to just above log ½.
_SMALLEST_SQUARE_MINUS_ONE = -0.75
_SMALLEST_LOG_LENGTH = -0.69


class TiltedConvolution(NamedTuple):
    """The convolution of tilted masses, as the Fourier transform returns it.

    The factors are the convolved distributions; a factor that is used n times has the
    count n. λ is the rate of the tilt.
    """

    masses: Array  # at the grid indices 0, …, N − 1; other indices wrap around modulo N
    kappa: float  # Σ count·κ(λ) over the factors, by which the tilt is undone
    kappa_magnitude: float  # Σ count·|κ(λ)|, to which the rounding of kappa is relative
    error: float  # a bound on the 2-norm of the errors of the masses


class _TransformPower(NamedTuple):
    """A power of a Fourier transform of length N, with bounds on its errors.

    Powers of the transforms of all mechanisms are multiplied to convolve them.

    Attributes
    ----------
    values : array of complex
        The power F^count.
    transform_error : float
        The largest error of F itself.
    power_error : float
        A bound on the 2-norm of the errors of the power, divided by √N and by
        A = (total mass + transform_error)^count. No value of the power is larger than
        A, and A >= 1 because the masses were rounded up. So a bound that was not
        divided by A is valid too.
    """

    values: ComplexArray
    transform_error: float
    power_error: float


def exponential_tilt(pld: DiscretePLD, rate: float) -> tuple[float, Array]:
    """Return the constant κ and the tilted masses p·e^{rate·L − κ} of a distribution.

    The tilt makes large losses L likely. κ is about log Σ p·e^{rate·L}, so that the
    tilted masses have a sum of about 1. It need not be exact, because the tilt is
    undone later with the same κ.

    Parameters
    ----------
    pld : DiscretePLD
        A privacy loss distribution: losses L and their masses p.
    rate : float
        The rate λ of the tilt.

    Returns
    -------
    kappa : float
        The constant κ.
    tilted_masses : array
        The tilted masses, rounded up.
    """
    kappa, _ = pld.log_moment(rate)

    exponent = rate * pld.losses
    # The rounding of the tilt: docs/theory/accounting.md, Theorem C2 (c). The summand
    # 16 covers roundings that do not grow with the exponent.
    rounding = TILT_ERROR * UNIT_ROUNDOFF * (np.abs(exponent) + abs(kappa) + 16)
    with np.errstate(under="ignore"):
        return kappa, pld.masses * np.exp(exponent - kappa + rounding)


def convolve_tilted(factors: list[Factor], rate: float, size: int) -> TiltedConvolution:
    """Convolve tilted privacy loss distributions, each as often as its count says.

    The convolution describes the total privacy loss of all mechanisms together. It is
    computed as a product of powers of Fourier transforms. All rounding errors are
    bounded.

    Every rounding error must be in the returned bound. tests/privacy/test_pld.py checks
    that the bound exceeds the error that is made.

    Parameters
    ----------
    factors : list of (DiscretePLD, int)
        Privacy loss distributions on one grid, and how often each is used (its count).
    rate : float
        The rate λ of the tilt, which multiplies the mass at a loss L by about e^{λL}.
    size : int
        The length of the transform, a power of 2. Grid indices wrap around modulo it.

    Returns
    -------
    TiltedConvolution
        The masses at the grid indices 0, …, size − 1 (modulo `size`), with a bound on
        their errors.
    """
    # The product of the powers, the logarithm of a bound A on its values, and the
    # 2-norm of its errors, divided by √size and by A. Errors relative to A add up.
    product: ComplexArray | None = None
    log_largest_value = 0.0
    forward_error = 0.0
    smallest_norm = math.inf
    kappas = []  # one number for each factor
    for pld, count in factors:
        factor = _transform_factor(pld, count, rate, size)
        power = factor.power
        product = power.values if product is None else product * power.values
        log_largest_value += factor.log_largest_value
        forward_error += power.power_error
        smallest_norm = min(smallest_norm, factor.norm)
        kappas.append(factor.kappa)

    assert product is not None
    largest_value = math.exp(min(log_largest_value, _LARGEST_EXPONENT))
    # The error of the inverse transform: docs/theory/accounting.md, Theorem C2 (f).
    bits = size.bit_length() - 1  # size is 2^bits
    inverse_error = TRANSFORM_ERROR * bits * UNIT_ROUNDOFF * smallest_norm
    return TiltedConvolution(
        masses=scipy.fft.irfft(product, size),
        kappa=math.fsum(kappas),
        kappa_magnitude=math.fsum(map(abs, kappas)),
        error=ERROR_SAFETY * largest_value * (forward_error + inverse_error),
    )


class _TransformedFactor(NamedTuple):
    """The tilted masses of one distribution, transformed and raised to their count."""

    power: _TransformPower
    kappa: float  # count·κ(λ)
    norm: float  # the 2-norm of the tilted masses, rounded up
    log_largest_value: float  # the logarithm of a bound on the values of the power


def _transform_factor(
    pld: DiscretePLD, count: int, rate: float, size: int
) -> _TransformedFactor:
    """Tilt a distribution, transform it, and raise the transform to its count.

    Parameters
    ----------
    pld : DiscretePLD
        The privacy loss distribution of one mechanism.
    count : int
        How often the mechanism is used.
    rate : float
        The rate λ of the tilt.
    size : int
        The length of the transform, a power of 2.

    Returns
    -------
    _TransformedFactor
        The power of the transform, and bounds on its values and errors.
    """
    kappa, masses = exponential_tilt(pld, rate)
    wrapped_masses = _wrap_around(pld.index, masses, size)
    norm = ERROR_SAFETY * math.sqrt(float(wrapped_masses @ wrapped_masses))
    if count < MANY_STEPS:
        power = _power_by_squaring(wrapped_masses, norm, count)
    else:
        power = _power_from_difference_to_one(pld.index, masses, count, size)

    total_mass = float(masses.sum()) * (1 + len(masses) * UNIT_ROUNDOFF)
    log_largest_value = count * math.log(total_mass + power.transform_error)
    return _TransformedFactor(power, count * kappa, norm, log_largest_value)


def _power_by_squaring(masses: Array, norm: float, count: int) -> _TransformPower:
    """Return the power F^count of the Fourier transform F of some masses.

    The power is the transform of `count` mechanisms together. It is computed by
    repeated squaring. If F is off by e, F^count is off by count·e·|F|^{count−1} to
    first order. Divided by the bound A >= |F|^{count−1} on all values of the power,
    this is at most count·e. `_power_from_difference_to_one` is for counts from 2^14 on.

    Parameters
    ----------
    masses : array, shape (N,)
        The masses. N is a power of 2.
    norm : float
        An upper bound on the 2-norm of the masses.
    count : int
        The power, >= 1.

    Returns
    -------
    _TransformPower
        The power, and bounds on its errors (docs/theory/accounting.md, Theorem C2, (d)
        and (e)).
    """
    size = len(masses)
    bits = size.bit_length() - 1
    # A transform of length 2^bits has as many stages, each of which adds an error. One
    # more stage is charged for the complex products.
    error_of_one = TRANSFORM_ERROR * (bits + 1) * UNIT_ROUNDOFF * norm
    return _TransformPower(
        values=_integer_power(scipy.fft.rfft(masses), count),
        transform_error=math.sqrt(size) * error_of_one,
        power_error=count * error_of_one,
    )


def _wrap_around(index: NDArray[np.int64], masses: Array, size: int) -> Array:
    """Return the sums of the masses whose grid indices agree modulo `size`, rounded up.

    A Fourier transform of length `size` cannot tell such indices apart, so their masses
    are added before it is taken. Entry i of the result belongs to the grid indices i,
    i ± size, i ± 2·size, ….

    Parameters
    ----------
    index, masses : array
        Grid indices, possibly negative, and the masses there.
    size : int
        The length of the Fourier transform.

    Returns
    -------
    array, shape (size,)
        The sums.
    """
    wrapped_index = index % size
    sums = np.bincount(wrapped_index, weights=masses, minlength=size)
    n_terms = np.bincount(wrapped_index, minlength=size)
    return sums * (1 + np.maximum(n_terms - 1, 0) * (2 * UNIT_ROUNDOFF))


def _integer_power(values: ComplexArray, count: int) -> ComplexArray:
    """Return values^count by repeated squaring.

    The relative error is at most 3·count·u, with the unit roundoff u = 2^-53. The
    caller adds it to the error of the Fourier transform from which the values come.

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
    # The binary digits of the count after the leading 1, which `result` stands for.
    for bit in bin(count)[3:]:
        np.multiply(result, result, out=result)
        if bit == "1":
            np.multiply(result, values, out=result)
    return result


def _power_from_difference_to_one(
    index: NDArray[np.int64], masses: Array, count: int, size: int
) -> _TransformPower:
    """Return the power F^count of the Fourier transform F of some masses, accurately.

    It is used for very many identical mechanisms, where an error of F is multiplied by
    `count`. F is written as 1 + z with a small z. Let p_j be the mass at the grid index
    j, θ the frequency, and *excess* = Σp_j − 1. Summation by parts gives

        z(θ) = excess − i·sin θ·(m₊ − m₋)
               − 4·sin²(θ/2)·((m₊ + m₋)/2 + A(θ)) + (far part),

    where m₊ and m₋ are the first moments Σ|j|·p_j over j > 0 and j < 0, A(θ) is the
    transform of the double tail sums on both sides (`_moment_and_double_sums`), and the
    far part is the contribution of |j| > 4096. The errors of these terms are
    proportional to θ and θ². At frequencies where the plain transform has a smaller
    error bound, it is used instead.

    tests/privacy/test_pld.py compares the power with high-precision arithmetic, and its
    error with the bounds.

    Parameters
    ----------
    index, masses : array
        Grid indices j and the masses p_j there.
    count : int
        The power, which is large.
    size : int
        The length of the transform. Grid indices wrap around modulo it.

    Returns
    -------
    _TransformPower
        The power, and bounds on its errors.
    """
    # Near masses are summed by parts; far ones are transformed as they are.
    largest_near_index = min(_CELLS_SUMMED_BY_PARTS, size // 4)
    is_near = np.abs(index) <= largest_near_index
    far_masses = _wrap_around(index[~is_near], masses[~is_near], size)
    total_far = math.fsum(far_masses)
    # The excess of Σp over 1 needs all its digits, because `count` multiplies errors.
    excess = math.fsum([-1.0, *masses[is_near], total_far])

    near_part = _near_part_of_z(
        index[is_near], masses[is_near], largest_near_index, size
    )
    far_part = scipy.fft.rfft(far_masses) - total_far
    z = near_part.second_order + (far_part + excess + near_part.first_order)

    # The error of the far part: docs/theory/accounting.md, Theorem C2 (i).
    bits = size.bit_length() - 1
    far_error = TRANSFORM_ERROR * (bits + 1) * UNIT_ROUNDOFF * total_far
    far_error += EXCESS_ERROR * UNIT_ROUNDOFF * abs(excess)
    z_error = near_part.second_order_error + (near_part.first_order_error + far_error)

    # A plain transform has the error (d) of that theorem, and is used at frequencies at
    # which this is smaller. It must be the transform of exactly the same masses.
    plain_error = TRANSFORM_ERROR * (bits + 1) * UNIT_ROUNDOFF * (1 + excess)
    all_masses = far_masses.copy()
    all_masses[index[is_near] % size] += masses[is_near]
    plain_transform = scipy.fft.rfft(all_masses)
    z = np.where(z_error < plain_error, z, plain_transform - 1)
    # The rounding of z itself: docs/theory/accounting.md, Theorem C2 (j).
    rounding_of_z = Z_ERROR * UNIT_ROUNDOFF * np.abs(z)
    z_error = np.minimum(z_error, plain_error) + rounding_of_z

    return _raise_one_plus_z(z, z_error, count, size)


class _NearPart(NamedTuple):
    """The terms of z = F − 1 from masses at small indices, at every frequency θ.

    Each comes with a bound on its error.
    """

    first_order: ComplexArray  # −i·sin θ·(m₊ − m₋)
    second_order: ComplexArray  # −4·sin²(θ/2)·((m₊ + m₋)/2 + A(θ))
    first_order_error: Array
    second_order_error: Array


def _near_part_of_z(
    index: NDArray[np.int64], masses: Array, largest_index: int, size: int
) -> _NearPart:
    """Return what masses at small grid indices add to z = F − 1, by partial summation.

    F is the Fourier transform of the masses p_j of a privacy loss distribution; z is
    wanted to more digits than F itself has. At the frequency θ, the result has the
    terms −i·sin θ·(m₊ − m₋) and −4·sin²(θ/2)·((m₊ + m₋)/2 + A(θ)). Here m₊ and m₋ are
    the first moments Σ|j|·p_j over j > 0 and j < 0, and A(θ) is the transform of the
    double tail sums of the masses on both sides (`_moment_and_double_sums`).

    Parameters
    ----------
    index, masses : array
        The indices j, |j| <= largest_index, and the masses p_j there.
    largest_index : int
        No index is larger.
    size : int
        The length of the transform.

    Returns
    -------
    _NearPart
        The two terms, and bounds on their errors (docs/theory/accounting.md, Theorem
        C2, (g) and (h)).
    """
    # First moments and double tail sums on both sides of index 0.
    moment_above, sums_above = _moment_and_double_sums(index, masses, largest_index)
    moment_below, sums_below = _moment_and_double_sums(-index, masses, largest_index)
    double_sums = np.zeros(size)
    double_sums[: largest_index - 1] += sums_above
    # The sum a_j of the negative side belongs to the index −2 − j.
    double_sums[size - largest_index : size - 1] += sums_below[::-1]

    # The two terms at every frequency θ.
    theta = 2 * np.pi / size * np.arange(size // 2 + 1)
    chord = 2 * np.sin(theta / 2)  # |e^{iθ} − 1|
    transformed_sums = np.exp(-1j * theta) * scipy.fft.rfft(double_sums)
    second_order = (moment_above + moment_below) / 2 + transformed_sums
    first_order = -1j * np.sin(theta) * (moment_above - moment_below)

    # Their errors: docs/theory/accounting.md, Theorem C2, (g) and (h).
    bits = size.bit_length() - 1
    moments_error = MOMENTS_ERROR * UNIT_ROUNDOFF * (moment_above + moment_below)
    sums_error = (
        TRANSFORM_ERROR * bits + 2 * largest_index + SUMS_ERROR
    ) * UNIT_ROUNDOFF
    sums_error *= float(double_sums.sum())
    return _NearPart(
        first_order,
        -chord * chord * second_order,
        first_order_error=chord * moments_error,
        second_order_error=chord * chord * sums_error,
    )


def _raise_one_plus_z(
    z: ComplexArray, z_error: Array, count: int, size: int
) -> _TransformPower:
    """Return (1 + z)^count and bounds on its errors, through the logarithm of 1 + z.

    It is the transform of the total loss of `count` equal mechanisms. With n = count,
    F = 1 + z, |z| < 2.1 and the unit roundoff u = 2^-53, the error of the result is at
    most

        n·(error of z + 32u·|z|)·|F|^{n−2} + 16u

    (docs/theory/accounting.md, Theorem C2, lines (k) and (l)). For log |F|,
    |F|² = 1 + y is used, where y = a(2 + a) + b² for z = a + ib.

    Parameters
    ----------
    z : array of complex
        F − 1, where F is the Fourier transform of a real array.
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
    # The power, through the logarithm of 1 + z: length and angle.
    y = z.real * (2 + z.real) + z.imag * z.imag
    log_length = np.log1p(np.maximum(y, _SMALLEST_SQUARE_MINUS_ONE)) / 2  # log |F|
    angle = np.arctan2(z.imag, 1 + z.real)
    values = np.exp(count * (log_length + 1j * angle))

    # An upper bound on log |F|: docs/theory/accounting.md, Theorem C2, (g) to (j), (u).
    largest_log_length = (
        np.maximum(log_length, _SMALLEST_LOG_LENGTH)
        + 2 * z_error
        + GROWTH_ERROR * UNIT_ROUNDOFF
    )

    # The error of the power, by the formula of the docstring.
    log_growth = (count - 2) * largest_log_length
    growth = np.exp(np.minimum(log_growth, _LARGEST_EXPONENT))
    error = count * (z_error + LOG_POWER_ERROR * UNIT_ROUNDOFF * np.abs(z)) * growth
    error += EXP_ERROR * UNIT_ROUNDOFF
    power_error = ERROR_SAFETY * math.sqrt(2 * float(error @ error) / size)
    return _TransformPower(values, float(z_error.max()), power_error)


def _moment_and_double_sums(
    index: NDArray[np.int64], masses: Array, largest_index: int
) -> tuple[float, Array]:
    """Return the first moment, and the sums of tail sums, of masses at indices > 0.

    The tail sum T_i = Σ_{j >= i} p_j of the masses p_j is summed once more. These sums
    appear when a Fourier series of the masses is summed by parts twice, as
    `_near_part_of_z` does.

    Parameters
    ----------
    index, masses : array
        Grid indices j and the masses p_j there. Only j > 0 counts.
    largest_index : int
        No index is larger.

    Returns
    -------
    first_moment : float
        Σ j·p_j.
    double_sums : array
        a_0, …, a_{largest_index−2}, where a_j = Σ_{i >= j+2} T_i.
    """
    # Σ j·p_j, and the masses at the indices 0, 1, …, largest_index.
    is_positive = index > 0
    first_moment = math.fsum(index[is_positive] * masses[is_positive])
    mass_at_index = np.bincount(
        index[is_positive], weights=masses[is_positive], minlength=largest_index + 1
    )

    # Summed twice from the right.
    tail_sums_from_right = np.cumsum(mass_at_index[::-1])
    double_tail_sums = np.cumsum(tail_sums_from_right)[::-1]
    return first_moment, np.asarray(double_tail_sums[2:], np.float64)


def hockey_stick_divergence(
    masses: Array, rate: float, width: float, error: float
) -> Array:
    """Return δ(ε) with ε at every grid point, from tilted masses; rounded up.

    δ is the hockey-stick divergence of a privacy loss distribution. The masses m_i were
    tilted with a rate and a constant κ, and the result is δ(ε)·e^{rate·ε − κ}: the
    caller undoes the tilt. With the grid width w, t = e^{−rate·w} and s = e^{−w}, it is

        D_j = Σ_{i>j} m_i·(t^{i−j} − (ts)^{i−j})
            = ts·D_{j+1} + (1 − s)·Σ_{i>j} m_i·t^{i−j}

    at grid point j. The second form subtracts no nearly equal numbers. Both sums are
    computed as linear filters, from the right. Rounding errors are bounded by Theorem
    C2, line (m) (docs/theory/accounting.md). The errors of the masses are charged by
    the inequality of Cauchy and Schwarz.

    The result must be an upper bound on δ, so that all errors are added.

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
        δ(ε)·e^{rate·ε − κ} at each grid point ε.
    """
    from scipy.signal import lfilter  # half a second, which most programs never need

    # How much the errors of the masses can change D_j, by Cauchy and Schwarz: the
    # 2-norm of the coefficients t^{i−j} − (ts)^{i−j}.
    distance = np.arange(1, len(masses) + 1) * width
    coefficient_norm = ERROR_SAFETY * np.linalg.norm(
        np.exp(-rate * distance) * np.expm1(-distance)
    )

    one_minus_s = -math.expm1(-width)
    t = math.exp(-rate * width)
    ts = math.exp(-(rate + 1) * width)
    # lfilter([b₀, b₁], [1, −a], x) is y_j = a·y_{j−1} + b₀·x_j + b₁·x_{j−1}. From the
    # right, the first one gives S_j = Σ_{i>j} m_i·t^{i−j} = t·(S_{j+1} + m_{j+1}), the
    # second one D_j = ts·D_{j+1} + (1 − s)·S_j.
    discounted_sums = lfilter([0.0, t], [1.0, -t], masses[::-1])
    divergence = lfilter([one_minus_s], [1.0, -ts], discounted_sums)[::-1]

    # The rounding of the recurrences, and the errors of the masses. A recurrence has
    # one step for each mass; 4 more are charged for the rest.
    rounding = (
        DIVERGENCE_ERROR * UNIT_ROUNDOFF * (len(masses) + 4) * (1 + (rate + 1) * width)
    )
    return np.asarray(
        divergence
        + rounding * np.abs(divergence)
        + (1 + 2 * rounding) * error * coefficient_norm
    )


def mass_at_infinity(factors: list[Factor]) -> float:
    """Return the probability that the total privacy loss is infinite, rounded up.

    The total is infinite if the loss of any single mechanism is. If a mechanism with
    the mass m at finite losses and the mass x at infinity is used n times, and so on
    for the others, this is Π(m + x)ⁿ − Πmⁿ.

    A larger mass is safe; a smaller one would overstate privacy.

    Parameters
    ----------
    factors : list of (DiscretePLD, int)
        Privacy loss distributions, and how often each is used.

    Returns
    -------
    float
        The mass, at least the exact one; 0 if every single loss is finite.
    """
    # With m = finite and x = infinite: log (m + x)ⁿ, and log (1 + x/m)ⁿ.
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

    # Π(m + x)ⁿ·(1 − 1/Π(1 + x/m)ⁿ), in which nothing cancels.
    mass = math.exp(min(log_total, _LARGEST_EXPONENT)) * -math.expm1(-log_ratio)
    # The rounding error: docs/theory/accounting.md, Theorem C2 (o).
    n_uses = sum(count for _, count in factors)
    rounding = (
        INFINITY_ERROR * UNIT_ROUNDOFF * (1 + n_uses + math.fsum(map(abs, log_totals)))
    )
    return float(round_up(mass, rounding))


def log_tail_mass(factors: list[Factor], rate: float, end: float) -> float:
    """Return an upper bound on log P(total privacy loss > end), by Chernoff's bound.

    Losses beyond the window of a computation are charged with this probability. With
    κ(λ) = log E[e^{λL}] for the loss L of one mechanism, the bound is Σκ(λ) − λ·end,
    with the sum over all mechanisms.

    Parameters
    ----------
    factors : list of (DiscretePLD, int)
        Privacy loss distributions, and how often each is used.
    rate : float
        The rate λ > 0 of Chernoff's bound. If it is infinite, no total loss exceeds
        `end`, and the answer is −inf.
    end : float
        The total loss in question.

    Returns
    -------
    float
        A number <= 0, rounded up.
    """
    if math.isinf(rate):
        return -math.inf
    kappas = []  # count·κ(λ), one number for each factor
    # The rounding error: docs/theory/accounting.md, Theorem C2 (p). It is
    # Σ n·(M + |κ| + 4) + |λ·end|, where M is the largest |λL|.
    magnitude = abs(rate * end)
    for pld, count in factors:
        masses = pld.masses.copy()
        masses[-1] = max(masses[-1], _SMALLEST_TOP_MASS)
        own_kappa, _ = replace(pld, masses=masses).log_moment(rate)
        largest_exponent = float(np.abs(rate * pld.losses).max())
        kappas.append(count * own_kappa)
        magnitude += count * (largest_exponent + abs(own_kappa) + 4)

    # Chernoff's bound, raised by its rounding error.
    kappa = math.fsum(kappas)
    return min(kappa - rate * end + TAIL_ERROR * UNIT_ROUNDOFF * magnitude, 0.0)
