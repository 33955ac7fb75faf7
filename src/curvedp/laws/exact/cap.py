"""Exact uniform draws from a cap of the sphere, or from what is outside of it. The cap
consists of the unit vectors at a small angle to a given axis. Angles are random real
numbers of which any number of digits can be drawn, and the result is rounded to a grid
with certainty.

The angle has the density ∝ sin^{d−2} on an interval. It is log-concave, so that it is
drawn under an envelope of tangents as in `curvedp.laws.exact.radial`. PrivUnit
(`curvedp.local.privunit`) is built on it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import arb

from curvedp.geometry import Sphere
from curvedp.laws.exact.charts import ExactSphere
from curvedp.laws.exact.draw import ExactDraw
from curvedp.laws.exact.exponential import exponential_in_chart
from curvedp.laws.exact.radial import (
    LazyRadius,
    RadialEnvelope,
    draw_under,
    tangent_envelope,
)
from curvedp.numerics.enclosures import precision as at_precision
from curvedp.randomness.csprng import Allowance, Source
from curvedp.randomness.lazy_reals import LazyUniforms

# Where tangents touch, in units of the smaller of 1/√−h″ and 1/h′ at the mode.
_TOUCH_OFFSETS = (-2.4, -1.0, 0.0, 1.0, 2.4)

# Tangents touch below this fraction of the largest angle, so that the point is inside
# the support however the angle was rounded.
_FRACTION_OF_END = 1 - 2.0**-40


@dataclass(frozen=True)
class PolarAngleDensity:
    """The density ∝ sin^{d−2} x on (0, arccos c), the angle between x and the axis.

    Parameters
    ----------
    dim : int
        d >= 2, the number of coordinates of the unit vectors.
    cosine_of_end : float
        c in (−1, 1), taken as an exact number.
    """

    dim: int
    cosine_of_end: float

    @property
    def end(self) -> arb:
        """The largest angle, arccos c, where the support ends."""
        return arb(self.cosine_of_end).acos()

    def log_density(self, r: arb) -> arb:
        """Return (d − 2)·log sin r, the log-density up to a constant.

        Parameters
        ----------
        r : arb
            An angle in the support.

        Returns
        -------
        arb
            A ball around the value.
        """
        return (self.dim - 2) * r.sin().log()

    def slope(self, r: arb) -> arb:
        """Return (d − 2)·cot r, the derivative of `log_density`.

        Parameters
        ----------
        r : arb
            An angle in the support.

        Returns
        -------
        arb
            A ball around the value.
        """
        return (self.dim - 2) * r.cot()


@lru_cache(maxsize=256)
def polar_angle_envelope(density: PolarAngleDensity) -> RadialEnvelope:
    """Return the envelope of tangents of the density of a polar angle.

    Parameters
    ----------
    density : PolarAngleDensity
        A log-concave density, whose mode is at π/2 or, in a cap, at the end.

    Returns
    -------
    RadialEnvelope
        One line for each tangent; it lies above the log-density.
    """
    largest_angle = math.acos(density.cosine_of_end) * _FRACTION_OF_END
    mode = min(largest_angle, math.pi / 2)
    power = density.dim - 2

    # Tangents touch at distances of about 1/rate, the width of the density. At the mode
    # the curvature −h″ is (d − 2)/sin², and the slope h′ is (d − 2)·cot.
    rate = max(math.sqrt(power) / math.sin(mode), power / math.tan(mode), 1.0 / mode)
    candidates = [mode + offset / rate for offset in _TOUCH_OFFSETS]
    touch_points = {angle for angle in candidates if 0 < angle < largest_angle}
    touch_points.add(mode)
    if power == 0:  # the density is constant, and every tangent is the same line
        touch_points = {mode}

    with at_precision(256):
        level = float(density.log_density(arb(mode)))
    return tangent_envelope(density, level, sorted(touch_points))


@dataclass(frozen=True)
class _Supplement:
    """The real number π − angle, to any precision: an angle to the opposite axis.

    Parameters
    ----------
    angle : LazyRadius
        The angle to the axis.
    """

    angle: LazyRadius

    def ball(self, precision: int) -> arb:
        """Return π minus the angle, to about the given number of bits.

        Parameters
        ----------
        precision : int
            The number of bits.

        Returns
        -------
        arb
            A ball around π minus the angle.
        """
        return arb.pi() - self.angle.ball(precision)


def draw_from_cap_or_outside(
    axis: np.ndarray, threshold: float, cap_weight: int, source: Source, grid: int
) -> ExactDraw:
    """Draw from a cap of the sphere with a given probability, else from its outside.

    With probability cap_weight·2^-64 the draw is uniform on the cap {x : ⟨x, axis⟩ ≥
    threshold}, with the axis scaled to length 1, and otherwise uniform on the other
    unit vectors. This is the report of PrivUnit, a mechanism of local privacy.

    The returned integers have the law of this draw, rounded to a grid, up to a total
    variation distance τ. It comes from the random bits, which are not exactly uniform.
    `Allowance` limits how many of them the draw may use, and computes τ from that
    public limit. Certificates call τ the slack of a draw, and raise δ by it.

    Parameters
    ----------
    axis : array of shape (d,)
        The center of the cap, up to its length; not 0. Its entries are taken as exact
        numbers.
    threshold : float
        The cosine γ of the cap's angle, in [0, 1), taken as an exact number.
    cap_weight : int
        The probability of the cap, in units of 2^-64.
    source : Source
        The random bits.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    ExactDraw
        The unit vector as integers in units of 2^-grid, with its slack τ.
    """
    dim = len(axis)
    manifold = Sphere(dim - 1)
    allowance = Allowance(dim)
    metered_source = allowance.meter(source)

    # The first 64 random bits, as an integer, decide between the cap and its outside.
    is_in_cap = int(LazyUniforms(metered_source, 1).leading[0]) < cap_weight

    # The outside is a cap about −axis, whose points have a cosine of at least
    # −threshold with −axis. Its angle to −axis is drawn, and then measured from axis.
    cosine_of_end = threshold if is_in_cap else -threshold
    density = PolarAngleDensity(dim, cosine_of_end)
    drawn_angle = draw_under(polar_angle_envelope(density), metered_source)
    angle_to_axis = drawn_angle if is_in_cap else _Supplement(drawn_angle)

    # The point at this angle from the axis, in a uniform direction.
    integers = exponential_in_chart(
        angle_to_axis, ExactSphere(manifold), axis, metered_source, grid
    )
    return ExactDraw(integers, grid, allowance.tau(), manifold)
