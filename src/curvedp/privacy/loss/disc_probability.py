"""The probability of a disc |w + c| < R under the law of a random direction on a complex
projective space. The direction on ℂPⁿ has a complex coordinate w with the density
(n−1)/π·(1−|w|²)^{n−2} on the unit disc.

That density is −div F for the field F(w) = (1−|w|²)^{n−1}/(2π|w|²)·w, which vanishes on
the unit circle. Out of a small circle around its pole w = 0, F has the flux 1. Let P be
the probability of the disc. By the divergence theorem, the *flux* of F through the arc
w = −c + R·e^{iψ} within the unit disc, out of the disc, is −P if the disc does not
contain 0, and 1 − P if it does.

Without its pole, the field G(w) = (1 − (1−|w|²)^{n−1})/(2π|w|²)·w has the divergence
+density. On the unit circle it is w/2π. So P is the flux of G through the arc plus the
fraction of the unit circle that lies inside the disc.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array

# A Gauss–Legendre rule on (−1, 1), for integrals over an angle.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# A quadrature rule on the unit disc: 12 Gauss–Legendre nodes in the squared radius,
# which is proportional to the area, and 48 evenly spaced angles.
_DISC_NODES, _DISC_WEIGHTS = np.polynomial.legendre.leggauss(12)
_DISC_RADII = np.sqrt((_DISC_NODES + 1) / 2)
_DISC_AREAS = _DISC_WEIGHTS / 2
_DISC_COSINES = np.cos(2 * math.pi * (np.arange(48) + 0.5) / 48)
# A power with a smaller logarithm is close to underflow (the smallest float is e^-745).
# Anything from -700 to 0 is safe.
_LOG_NEAR_UNDERFLOW = -500.0
# A logarithm: an integrand below e^-45 of its maximum is negligible.
_LARGEST_DECAY = 45
# A disc |w + c| < R comes near w = 0 if (R − c)²·(n − 1) is below this, n the complex
# dimension: then the power (1−|w|²)^{n−1} is still large there.
_NEAR_POLE = 0.5
# A disc is small if its radius is below this fraction of the distance of its center
# from the unit circle.
_SMALL_DISC_FRACTION = 0.3
# A positive number in place of 0, for divisors.
_TINY = 1e-300


class Disc(NamedTuple):
    """Discs |w + c| < R in the complex plane, with c >= 0; one for each array entry.

    A disc meets the real axis between w = −c − R and w = −c + R. Both ends are stored
    as v = (1 + w)/2.

    Attributes
    ----------
    right_end : array, shape (k,)
        v = (1 + R − c)/2.
    above_right : array, shape (k,)
        1 − right_end, to full precision.
    left_end : array, shape (k,)
        v = (1 − R − c)/2.
    radius : array, shape (k,)
        R.
    """

    right_end: Array
    above_right: Array
    left_end: Array
    radius: Array

    @property
    def end_on_axis(self) -> Array:
        """R − c, the right end of the disc on the real axis."""
        return self.right_end - self.above_right

    @property
    def center_offset(self) -> Array:
        """c, the distance of the center −c of the disc from 0."""
        return np.maximum(self.radius - self.end_on_axis, 0.0)

    def select(self, selected: NDArray[np.bool_]) -> "Disc":
        """Return the selected discs."""
        return Disc(*(field[selected] for field in self))


class _Flux(NamedTuple):
    """The flux through an arc of each disc, scaled so that it does not underflow.

    The flux is value·exp(log_unit). It is positive if the field points out of the disc.
    """

    value: Array
    log_unit: Array


def log_disc_probabilities(n: int, disc: Disc) -> tuple[Array, Array]:
    """Return log P and log(1 − P), with P the probability of a disc |w + c| < R.

    P is the probability that a random direction on a complex projective space has a
    privacy loss above a level. Let the field be F(w) = (1−|w|²)^{n−1}/(2π|w|²)·w, whose
    divergence is minus the density of the coordinate w. Its flux out of the disc,
    through the part of the disc's boundary inside the unit disc (an arc), is −P if the
    disc does not contain 0, and 1 − P if it does: then the pole of F at 0 adds 1. Three
    special cases preserve precision:

    - If the arc comes near 0 (`is_central`), the field is replaced by
      (1 − (1−|w|²)^{n−1})/(2π|w|²)·w, which has no pole and the divergence +density.
      Then P is its flux through the arc, plus its flux through the part of the unit
      circle inside the disc, which is the fraction of that circle (`_circle_fraction`).
    - For a small disc inside the unit disc the density itself is integrated.
    - If (1−|w|²)^{n−1} would underflow, its largest value on the arc is factored out.
      The logarithm of this factor is `flux.log_unit`. The arc is then far from 0.

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    disc : Disc
        The discs.

    Returns
    -------
    log_inside, log_outside : array, shape (k,)
        log P and log(1 − P).
    """
    is_central = disc.end_on_axis**2 * (n - 1) < _NEAR_POLE
    contains_zero = disc.right_end >= disc.above_right

    with np.errstate(divide="ignore", invalid="ignore"):
        flux = _flux_through_arc(n, disc, is_central)
        scaled_flux = flux.value * np.exp(flux.log_unit)
        circle_fraction = _circle_fraction(disc)

        # P and 1 − P in three cases. If the arc comes near 0, P is flux + fraction. If
        # the disc contains 0, 1 − P is the flux; otherwise P is minus the flux. In
        # these two cases that number is kept in units of exp(log_unit), so that it
        # cannot underflow.
        cases = [is_central, contains_zero]
        inside = np.select(
            cases, [flux.value + circle_fraction, 1 - scaled_flux], -flux.value
        )
        outside = np.select(cases, [1 - inside, flux.value], 1 + scaled_flux)

        # Their logarithms, with the unit added to the one that has it.
        unit_of_inside = np.where(contains_zero, 0.0, flux.log_unit)
        unit_of_outside = np.where(contains_zero, flux.log_unit, 0.0)
        log_inside = np.log(np.maximum(inside, 0.0)) + unit_of_inside
        log_outside = np.log(np.maximum(outside, 0.0)) + unit_of_outside

        # Small discs are integrated directly.
        is_small = _is_small(n, disc)
        if np.any(is_small):
            log_small = _log_small_disc(n, disc.select(is_small))
            log_inside[is_small] = log_small
            log_outside[is_small] = np.log(np.maximum(1 - np.exp(log_small), 0.0))
    return log_inside, log_outside


def _flux_through_arc(n: int, disc: Disc, is_central: NDArray[np.bool_]) -> _Flux:
    """Return the flux of a radial field through an arc of each disc in the unit disc.

    The probability of the disc follows from it (`log_disc_probabilities`). The arc is
    w = −c + R·e^{iψ}. The field is (1−|w|²)^{n−1}/(2π|w|²)·w, or, without its pole,
    (1 − (1−|w|²)^{n−1})/(2π|w|²)·w. On the arc,

        |w|² = (R−c)² + 4Rc·sin²(ψ/2),      w·(outward normal) = (R−c) + 2c·sin²(ψ/2),

    and the largest value of 1 − |w|² is 1 − (R−c)² = 4·right_end·above_right. By
    symmetry the integral over ψ > 0 is doubled. tests/privacy/test_projective.py
    compares the probability of the disc with an integral over |w|.

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    disc : Disc
        The discs.
    is_central : array of bool, shape (k,)
        Whether the pole at w = 0 is subtracted.

    Returns
    -------
    _Flux
        The flux through the arc of each disc.
    """
    # Rc is a divisor below; a tiny number in place of 0 makes the arc end at ψ = π.
    radius_times_offset = np.maximum(disc.radius * disc.center_offset, _TINY)
    product_of_ends = disc.right_end * disc.above_right

    # The nodes: rows are discs and columns are angles ψ. The arc ends at the unit
    # circle, or where (1−|w|²)^{n−1} is e^-45 of its largest value.
    used_fraction = np.where(is_central, 1.0, -math.expm1(-_LARGEST_DECAY / (n - 1)))
    sin_square_at_end = product_of_ends / radius_times_offset * used_fraction
    psi_end = 2 * np.arcsin(np.sqrt(np.minimum(sin_square_at_end, 1.0)))
    psi = psi_end[:, None] * (_NODES + 1) / 2
    sin_square = np.sin(psi / 2) ** 2

    # |w|² and (1−|w|²)^{n−1}, the latter divided by exp(log_unit).
    square_beyond_start = 4 * radius_times_offset[:, None] * sin_square
    square = (disc.end_on_axis**2)[:, None] + square_beyond_start
    base, log_unit = _underflow_divisor(4 * disc.right_end * disc.above_right, n - 1)
    one_minus_square = 4 * product_of_ends[:, None] - square_beyond_start
    power = np.maximum(one_minus_square / base[:, None], 0.0) ** (n - 1)

    # The field is field_strength·w/2π. At w = 0 the field without its pole has the
    # strength n − 1.
    field_strength = np.where(is_central[:, None], 1 - power, power) / square
    field_strength = np.where(square > 0, field_strength, n - 1.0)

    # The integral of the outward component along the arc.
    normal_component = (
        disc.end_on_axis[:, None] + 2 * disc.center_offset[:, None] * sin_square
    )
    weighted_sum = np.sum(field_strength * normal_component * _WEIGHTS, axis=1)
    integral = weighted_sum * psi_end / 2
    return _Flux(integral * disc.radius / math.pi, log_unit)


def _circle_fraction(disc: Disc) -> Array:
    """Return the fraction of the unit circle that lies inside the disc |w + c| < R.

    It is the part of the probability of the disc that comes from the unit circle, if
    the pole of the field was subtracted. It is 2/π·arcsin√(−right_end·left_end/c), and
    0 if the disc lies inside the unit disc (left_end >= 0).

    Parameters
    ----------
    disc : Disc
        The discs.

    Returns
    -------
    array, shape (k,)
        Numbers from 0 to 1.
    """
    # The two circles cross at two points. Compute half the angle between them.
    squared_sine = np.where(
        disc.left_end < 0,
        -disc.right_end * disc.left_end / np.maximum(disc.center_offset, _TINY),
        0.0,
    )
    half_angle = np.arcsin(np.sqrt(np.clip(squared_sine, 0.0, 1.0)))
    return np.asarray(2 / math.pi * half_angle)


def _is_small(n: int, disc: Disc) -> NDArray[np.bool_]:
    """Return for which discs the flux through the boundary would lose digits.

    These lie inside the unit disc, are small compared with their distance from its
    boundary, and the density (1−|w|²)^{n−2} varies little across them. For them the
    density itself is integrated.

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    disc : Disc
        The discs.

    Returns
    -------
    array of bool, shape (k,)
        One truth value for each disc.
    """
    is_inside = disc.left_end > 0
    distance_of_center = disc.radius + 2 * np.maximum(disc.left_end, 0.0)
    is_far_from_circle = disc.radius < _SMALL_DISC_FRACTION * distance_of_center
    density_change = (n - 2) * disc.radius * disc.center_offset
    density_varies_little = density_change < 4 * disc.right_end * disc.above_right
    return np.asarray(is_inside & is_far_from_circle & density_varies_little)


def _underflow_divisor(largest: Array, power: int) -> tuple[Array, Array]:
    """Return a divisor that keeps powers of small numbers from underflowing.

    The caller wants x^power for several x <= `largest`. It computes (x/divisor)^power
    instead, and adds the logarithm of divisor^power to its result.

    Parameters
    ----------
    largest : array
        The largest of the numbers x.
    power : int
        The power.

    Returns
    -------
    divisor : array
        `largest` if its power is close to underflow, else 1.
    log_divisor_power : array
        log(divisor^power).
    """
    with np.errstate(divide="ignore"):
        is_near_underflow = power * np.log(largest) < _LOG_NEAR_UNDERFLOW
    divisor = np.where(is_near_underflow & (largest > 0), largest, 1.0)
    return divisor, power * np.log(divisor)


def _log_small_disc(n: int, disc: Disc) -> Array:
    """Return the log probability of small discs inside the unit disc.

    It is the area πR² times the mean of the density over the disc. The quadrature rule
    for the mean is exact for polynomials of high degree: 12 distances q from the center
    −c (the Gauss–Legendre nodes in q²/R², where equal steps have equal areas) and 48
    equally spaced angles. There |w|² = c² + q² − 2cq·cos(angle).

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    disc : Disc
        The discs.

    Returns
    -------
    array, shape (k,)
        One logarithm for each disc.
    """
    # |w|² at the nodes: one axis for discs, one for distances q, one for angles.
    c = disc.center_offset[:, None, None]
    q = disc.radius[:, None, None] * _DISC_RADII[:, None]
    square = c**2 + q * q - 2 * c * q * _DISC_COSINES

    # The power (1−|w|²)^{n−2} is divided by that of its largest base if it could
    # underflow, and the logarithm of the divisor is added in the end.
    largest_base = 1 - np.maximum(disc.center_offset - disc.radius, 0.0) ** 2
    divisor, log_divisor_power = _underflow_divisor(largest_base, n - 2)
    powers = ((1 - square) / divisor[:, None, None]) ** (n - 2)

    # The mean over angles, then the mean over the area, whose weights add up to 1.
    mean_power = np.mean(powers, axis=2) @ _DISC_AREAS
    return np.asarray(np.log((n - 1) * disc.radius**2 * mean_power) + log_divisor_power)
