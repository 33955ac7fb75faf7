"""The distribution of the distance r of a noisy point from the center of the noise, by
quadrature. The density of r is weight(r)·∏ sn_κ(r)^n: the weight is e^{−r²/2σ²}
(Gaussian) or e^{−r/σ} (Laplace), and the product is the area of a sphere of radius r.
It runs over the curvatures κ across a geodesic and their multiplicities n.

The function sn_κ(r) is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ for
κ < 0 (Helgason 1978, Ch. X), and r lies in (0, diameter).

This module gives normalizer, distribution function and moments. The samplers
(`isotropic.envelope`) share no code with it, so that a goodness-of-fit test compares
two derivations.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from curvedp.errors import ParameterError
from curvedp.laws.backend import Floats, Kind
from curvedp.laws.isotropic.space import TwoPointHomogeneousSpace

# The table ends where the log-density is this far below its peak. The mass beyond
# (less than 1e-30 of the total) is invisible in float64.
_MAX_LOG_DROP = 80.0

# Number of quadrature panels on each side of the peak.
_PANELS_PER_SIDE = 48

# Nodes and weights on [-1, 1] of the rule used on each panel.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)

# Radii evaluated together: with 20 nodes each, the temporaries stay in the cache.
_RADII_PER_BLOCK = 8192

# Largest (d−1)·σ of a hyperbolic Gaussian. Beyond it the place of the peak, (d−1)·σ²,
# has lost half of its digits relative to the width σ.
_LARGEST_SHIFT = 1e8

# `RadialDensity.practical_radius` is where the density has fallen by 2^-40.
_PRACTICAL_LOG_DROP = 40 * math.log(2.0)

# Bisections of the radius at which the density has dropped: more than its 53 bits.
_DROP_BISECTIONS = 80

# Bisections of the radius of the peak; it may be many orders of magnitude below the
# scale.
_PEAK_BISECTIONS = 200


def log_sphere_area(dim: int) -> float:
    """Return log(2π^{dim/2}/Γ(dim/2)), the log-area of the unit sphere in ℝ^dim.

    Parameters
    ----------
    dim : int
        The dimension of the surrounding space, at least 1. For dim = 1 the sphere
        consists of two points, and its area is 2.

    Returns
    -------
    float
        The logarithm of the area.
    """
    return math.log(2.0) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)


class TabulatedDensity:
    """A density on (0, upper_end) with one peak, integrated once panel by panel.

    The panels end where the log-density has fallen from its peak by fixed amounts, so
    that the density varies by a bounded factor on each of them, whatever its scale. On
    each panel a Gauss–Legendre rule of 20 points is used.

    Parameters
    ----------
    log_density : callable
        Maps an array of radii to log-densities, up to a common constant.
    peak : float
        The radius at which the density is largest.
    scale : float
        Any positive length; the search for the panels starts with it.
    upper_end : float
        The end of the support, possibly infinite.
    """

    def __init__(
        self,
        log_density: Callable[[Floats], Floats],
        peak: float,
        scale: float,
        upper_end: float,
    ) -> None:
        """Divide the support into panels and integrate each of them.

        Parameters
        ----------
        log_density : callable
            Maps an array of radii to log-densities, up to a common constant.
        peak : float
            The radius at which the density is largest.
        scale : float
            Any positive length; the search for the panels starts with it.
        upper_end : float
            The end of the support, possibly infinite.
        """
        self._log_density = log_density
        self._peak = peak
        self._scale = scale
        self._upper_end = upper_end
        self._log_peak = float(log_density(np.array([peak]))[0])

        # Choose the panels, and compute the mass of each.
        self._edges = self._panel_edges()

        masses = self._integrals(self._edges[:-1], self._edges[1:])
        self._mass = float(masses.sum())
        # Summed from both ends, so that each tail keeps its own relative digits.
        self._mass_below = np.concatenate([[0.0], np.cumsum(masses)])
        self._mass_above = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])

    @property
    def log_mass(self) -> float:
        """The logarithm of the integral of the density over its support."""
        return self._log_peak + math.log(self._mass)

    def cdf(self, r: ArrayLike) -> Floats:
        """Return the fraction of the mass below r, elementwise.

        Parameters
        ----------
        r : array_like
            Radii.

        Returns
        -------
        array
            Numbers from 0 to 1, of the shape of `r`.
        """
        radii = np.asarray(r, dtype=np.float64)
        flat = np.clip(radii.ravel(), self._edges[0], self._edges[-1])
        fractions = np.empty_like(flat)
        for start in range(0, flat.size, _RADII_PER_BLOCK):
            block = slice(start, start + _RADII_PER_BLOCK)
            fractions[block] = self._fraction_below(flat[block])
        return fractions.reshape(radii.shape)

    def _fraction_below(self, radii: Floats) -> Floats:
        """Return the fraction of the mass below radii within the table.

        The mass of the lighter side is added up, and the other side is its complement,
        so that small fractions keep their digits on both sides.

        Parameters
        ----------
        radii : array
            Radii between the first and the last edge of the table.

        Returns
        -------
        Floats
            Numbers from 0 to 1, one for each radius.
        """
        # The panel of each radius, and the masses on both sides of it.
        panel = np.searchsorted(self._edges, radii, side="right") - 1
        panel = np.clip(panel, 0, self._edges.size - 2)
        left_edge = self._edges[panel]
        right_edge = self._edges[panel + 1]
        mass_below = self._mass_below[panel] + self._integrals(left_edge, radii)
        mass_above = self._mass_above[panel + 1] + self._integrals(radii, right_edge)
        smaller = np.minimum(mass_below, mass_above) / (mass_below + mass_above)
        return np.where(mass_below <= mass_above, smaller, 1.0 - smaller)

    def moment(self, order: float) -> float:
        """Return E[r^order].

        Parameters
        ----------
        order : float
            The power of the radius r.

        Returns
        -------
        float
            E[r^order].
        """
        integrals = self._integrals(self._edges[:-1], self._edges[1:], order)
        relative_moment = float(integrals.sum()) / self._mass
        return float(self._edges[-1] ** order * relative_moment)

    def radius_at_log_drop(self, log_drop: float) -> float:
        """Return the radius beyond the peak where the density has fallen by a factor.

        Parameters
        ----------
        log_drop : float
            The logarithm of the factor peak density/density.

        Returns
        -------
        float
            The radius; the end of the support if the density never falls so far.
        """
        log_drops = np.array([log_drop])
        return float(self._radii_at_log_drops_toward(self._upper_end, log_drops)[0])

    def _panel_edges(self) -> Floats:
        """Return the ends of all panels, in increasing order.

        On either side of the peak, edge number j of n = `_PANELS_PER_SIDE` is where the
        log-density has fallen by `_MAX_LOG_DROP`·(j/n)². So the density varies by a
        bounded factor within a panel.

        Edges only decide how accurate the quadrature is;
        tests/laws/isotropic/test_density.py compares integrals with adaptive
        quadrature.

        Returns
        -------
        array
            The edges, from the first to the last radius of the table.
        """
        fractions = np.arange(_PANELS_PER_SIDE + 1) / _PANELS_PER_SIDE
        log_drops = _MAX_LOG_DROP * fractions**2
        if self._peak > 0.0:
            left_edges = self._radii_at_log_drops_toward(0.0, log_drops)[::-1]
        else:
            left_edges = np.zeros(1)
        right_edges = self._radii_at_log_drops_toward(self._upper_end, log_drops)
        return np.unique(np.concatenate([left_edges, right_edges]))

    def _radii_at_log_drops_toward(self, end: float, log_drops: Floats) -> Floats:
        """Return the radii at which the density has fallen from its peak by factors.

        They are found by bisection on one side of the peak.

        Used to place the panels of the quadrature, and to find where the density is
        negligible.

        Parameters
        ----------
        end : float
            The end of the support on the side to be searched: 0 or the upper end.
        log_drops : array
            Increasing logarithms of the factors peak density/density.

        Returns
        -------
        array
            A radius for each factor, where the density is not larger than that; `end`
            where the density never falls so far.
        """
        # Step outward, twice as far each time, until the largest drop is reached.
        direction = math.copysign(1.0, end - self._peak)
        distance_to_end = abs(end - self._peak)
        step = self._scale
        while step < distance_to_end:
            radius = np.array([self._peak + direction * step])
            if not self._log_density_below_peak(radius)[0] > -log_drops[-1]:
                break
            step *= 2.0
        if step < distance_to_end:
            end = self._peak + direction * step

        # Bisect for all drops at once: each is reached at `outer` and not at `inner`.
        inner = np.full_like(log_drops, self._peak)
        outer = np.full_like(log_drops, end)
        for _ in range(_DROP_BISECTIONS):
            middle = inner + (outer - inner) / 2
            is_inside = self._log_density_below_peak(middle) > -log_drops
            inner = np.where(is_inside, middle, inner)
            outer = np.where(is_inside, outer, middle)
        return outer

    def _log_density_below_peak(self, r: Floats) -> Floats:
        """Return log(density at r/largest density), which is at most 0.

        Used in place of the log-density, because its exponential cannot overflow.

        Parameters
        ----------
        r : array
            Radii in the support.

        Returns
        -------
        array
            The log-ratios; −∞ at an end where the density vanishes.
        """
        with np.errstate(divide="ignore"):
            return self._log_density(r) - self._log_peak

    def _integrals(self, starts: Floats, stops: Floats, order: float = 0.0) -> Floats:
        """Integrate density/peak·(r/end)^order over each interval [start, stop].

        `end` is the end of the table: with this unit no power over- or underflows.

        Parameters
        ----------
        starts, stops : arrays of shape (n,)
            The intervals.
        order : float
            The power of r/end in the integrand; 0 integrates the density.

        Returns
        -------
        array, shape (n,)
            The integrals.
        """
        # Rows are intervals, columns are nodes.
        half_widths = (stops - starts)[:, None] / 2
        r = starts[:, None] + half_widths * (1.0 + _NODES)
        values = np.exp(self._log_density_below_peak(r))
        if order:
            values *= (r / self._edges[-1]) ** order
        return np.asarray((values @ _WEIGHTS) * half_widths[:, 0])


@dataclass(frozen=True)
class RadialDensity:
    """The density ∝ weight(r)·∏ sn_κ(r)^n of the distance r to the footpoint.

    The weight is exp(−r²/2σ²) (Gaussian) or exp(−r/σ) (Laplace), σ = `scale`.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The weight.
    space : TwoPointHomogeneousSpace
        The curvatures κ with multiplicities n, and the diameter.
    scale : float
        The scale σ > 0 of the law.
    """

    kind: Kind
    space: TwoPointHomogeneousSpace
    scale: float

    @cached_property
    def table(self) -> TabulatedDensity:
        """The radial density, tabulated and integrated: source of all integrals here.

        Raises
        ------
        ParameterError
            If the distances of a hyperbolic Gaussian concentrate beyond float64.
        """
        # On a hyperbolic space the typical distance grows as (d − 1)·scale².
        shift = self.space.volume_growth_rate * self.scale
        if self.kind == "gaussian" and not shift <= _LARGEST_SHIFT:
            raise ParameterError(
                f"is too large: on hyperbolic space of dimension {self.space.dim} the distances "
                f"concentrate at (d−1)·scale² = {shift * self.scale:.3g}, beyond "
                "double precision; use a smaller scale",
                parameter="scale",
                value=self.scale,
            )
        return TabulatedDensity(
            self._log_density, self._peak(), self.scale, self.space.diameter
        )

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(d ≤ r) elementwise, d the distance of a draw to its footpoint.

        Parameters
        ----------
        r : array_like
            Distances.

        Returns
        -------
        array
            Probabilities, of the shape of `r`.
        """
        return self.table.cdf(r)

    def moment(self, order: int) -> float:
        """Return the moment E[d^k] of the distance d of a draw to its footpoint.

        Parameters
        ----------
        order : int
            The power k.

        Returns
        -------
        float
            E[d^k].
        """
        return self.table.moment(order)

    @cached_property
    def practical_radius(self) -> float:
        """The radius beyond which about one draw in 10^12 lies.

        The density has fallen there by a factor of 2^-40 from its peak.
        """
        return self.table.radius_at_log_drop(_PRACTICAL_LOG_DROP)

    @cached_property
    def log_normalizer(self) -> float:
        """log ∫ weight(d(x, p)) dvol(x), the log-normalizer of the law on the manifold.

        In polar coordinates about p it is the log-mass of the radial density plus the
        log-area of the unit sphere of directions.
        """
        log_directions = log_sphere_area(self.space.dim)
        return self.table.log_mass + self._log_constant + log_directions

    @property
    def _log_constant(self) -> float:
        """The difference of log(weight(r)·∏ sn_κ(r)^n) and `_log_density`, a constant.

        `_log_density` leaves it out, so that it can neither over- nor underflow;
        `log_normalizer` adds it again. It is h²σ²/2 for a Gaussian law (0 for Laplace)
        minus Σ n·log(2√−κ) over the negative curvatures κ with multiplicities n. Here
        h = Σ n·√−κ is the growth rate of the volume and σ the scale.

        sn_κ(r) is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ for κ < 0.
        """
        shift = self.space.volume_growth_rate * self.scale
        log_denominators = sum(
            count * math.log(2.0 * math.sqrt(-kappa))
            for kappa, count in self.space.jacobi_spectrum
            if kappa < 0
        )
        completed_square = shift * shift / 2 if self.kind == "gaussian" else 0.0
        return completed_square - log_denominators

    def _log_density(self, r: Floats) -> Floats:
        """Return log(weight(r)·∏ sn_κ(r)^n) minus the constant `_log_constant`.

        This is the log-density of the radius, up to a constant. The product runs over
        the curvatures κ with multiplicities n. The function sn_κ(r) is sin(√κ·r)/√κ for
        κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ for κ < 0. With the scale σ, the weight
        is e^{−r²/2σ²} (Gaussian) or e^{−r/σ} (Laplace).

        For κ < 0 the hyperbolic sine is e^{√−κ·r}·(1 − e^{−2√−κ·r})/(2√−κ). Its three
        factors go to three places, so that nothing can overflow:

        - The powers of e^{√−κ·r} have the product e^{hr}, which is merged into the
          weight. In the Gaussian case −r²/2σ² + hr = −(r − hσ²)²/2σ² + h²σ²/2.
        - log(1 − e^{−2√−κ·r}) is computed here.
        - The factors 1/(2√−κ), and h²σ²/2, are left to `_log_constant`.

        Parameters
        ----------
        r : array
            Radii r > 0.

        Returns
        -------
        Floats
            One log-density for each radius; −∞ where it vanishes.
        """
        # Merge the weight with e^{hr}.
        growth_rate = self.space.volume_growth_rate
        sigma = self.scale
        if self.kind == "gaussian":
            log_density = -((r / sigma - growth_rate * sigma) ** 2) / 2
        else:
            # In exact arithmetic: near the limit of integrability 1/σ − h has no
            # correct digits in float64.
            decay = float(1 - Fraction(growth_rate) * Fraction(sigma)) / sigma
            log_density = -decay * r

        # Add log sn_κ(r)^n, without what was merged or is left to `_log_constant`.
        for kappa, count in self.space.jacobi_spectrum:
            root = math.sqrt(abs(kappa))
            if kappa < 0:  # without √−κ·r and −log(2√−κ), see above
                log_sn = np.log(-np.expm1(-2 * root * r))
            elif kappa > 0:
                log_sn = np.log(np.sin(root * r) / root)
            else:
                log_sn = np.log(r)
            log_density = log_density + count * log_sn
        return log_density

    def _peak(self) -> float:
        """Return the radius where the density weight(r)·∏ sn_κ(r)^n is largest.

        The derivative of the log-density is Σ n·sn_κ'/sn_κ + weight'/weight. The sum
        falls from ∞ and −weight'/weight never falls, so the density rises up to one
        radius and falls beyond it. That radius is bracketed by doubling, and then found
        by bisection.

        The sum runs over the curvatures κ with multiplicities n. The function sn_κ(r)
        is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ for κ < 0.

        Returns
        -------
        float
            The radius; 0 on a line or a circle.
        """
        spectrum = self.space.jacobi_spectrum
        if not spectrum:
            return 0.0
        if self.kind == "laplace" and len(spectrum) == 1 and spectrum[0][0] < 0:
            # In closed form: near the limit of integrability the density is so level
            # that bisection would not find its peak.
            ((kappa, count),) = spectrum
            root = math.sqrt(-kappa)
            return math.atanh(count * root * self.scale) / root

        # Double the radius until the density falls there.
        low = 0.0
        high = self.scale
        while high < self.space.diameter and self._density_rises_at(high):
            low = high
            high = 2 * high
        high = min(high, self.space.diameter)

        # Bisect between a radius where it rises and one where it falls.
        for _ in range(_PEAK_BISECTIONS):
            middle = low + (high - low) / 2
            if self._density_rises_at(middle):
                low = middle
            else:
                high = middle
        return high

    def _density_rises_at(self, r: float) -> bool:
        """Return whether the density weight(r)·∏ sn_κ(r)^n rises at the radius r.

        Its logarithm has the derivative weight'/weight + Σ n·sn_κ'/sn_κ, so the density
        rises where −weight'/weight is less than the sum.

        The sum runs over the curvatures κ with multiplicities n. The function sn_κ(r)
        is sin(√κ·r)/√κ for κ > 0, r for κ = 0, and sinh(√−κ·r)/√−κ for κ < 0.

        Called by `_peak`, which bisects between a radius where it rises and one where
        it falls.

        Parameters
        ----------
        r : float
            A radius r > 0.

        Returns
        -------
        bool
            True below the peak of the density.
        """
        # Σ n·sn_κ'/sn_κ, where tan(z)/z and tanh(z)/z keep their digits for a small z.
        volume_slope = 0.0
        for kappa, count in self.space.jacobi_spectrum:
            angle = math.sqrt(abs(kappa)) * r
            if kappa == 0:
                volume_slope += count / r
            elif kappa > 0:
                volume_slope += count / (r * (math.tan(angle) / angle))
            else:
                volume_slope += count / (r * (math.tanh(angle) / angle))

        if self.kind == "gaussian":
            weight_decay = (r / self.scale) / self.scale
        else:
            weight_decay = 1 / self.scale
        return weight_decay < volume_slope
