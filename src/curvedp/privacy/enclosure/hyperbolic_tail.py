"""A theorem that bounds δ(ε) of Gaussian noise on a hyperbolic space, for all large ε, by
the profile δ_μ of N(0, 1) against N(μ, 1). The noise has the scale s, its two centers
are a distance D apart, and r, the *radius*, is the distance of an output from the first
one, with the density ρ.

All numbers are balls: numbers with a proved error bound. The proof is in
docs/theory/exact-profiles.md, Theorem P2, "the tail with the angle".
"""

import math
from functools import cached_property

from flint import acb, arb

from curvedp.errors import NotResolved
from curvedp.privacy.enclosure.functions import enclose_integral
from curvedp.privacy.enclosure.noise import EnclosedNoise

# A radius is multiplied by this factor until the theorem covers the tail beyond it.
_RADIUS_FACTOR = 1.125
_LARGEST_RADIUS = 1e6
# The mass of the radial density is integrated where it exceeds e^-60 of its peak, from
# this fraction of the mode on, with this error relative to the width of the peak. The
# result is a lower bound for any choice.
_MASS_DEPTH = 60.0
_SMALLEST_RADIUS = 1e-3
_MASS_TOLERANCE = 1e-12


class HyperbolicTail:
    """Says from which ε on the theorem proves δ(ε) <= δ_μ(ε).

    Parameters
    ----------
    noise : EnclosedNoise
        Gaussian noise on a hyperbolic space.
    """

    def __init__(self, noise: EnclosedNoise) -> None:
        """Store the noise."""
        self.noise = noise

    def smallest_eps(self, mu: arb) -> float:
        """Return an ε from which on the theorem proves δ(ε) <= δ_μ(ε).

        It is (2rD + D²)/2s², where r is the first of the radii s/4, 1.125·s/4,
        1.125²·s/4, … for which `applies` holds.

        Parameters
        ----------
        mu : arb
            The parameter μ of Gaussian DP that is to be proved.

        Returns
        -------
        float
            The ε, rounded up.

        Raises
        ------
        NotResolved
            If no radius up to 10⁶ suffices.
        """
        s, D = self.noise.parameters()
        r = float(s) / 4
        while not self.applies(mu, arb(r)):
            r *= _RADIUS_FACTOR
            if r > _LARGEST_RADIUS:
                raise NotResolved(
                    "the theorem on the tail of the privacy loss could not be applied"
                )
        eps = (2 * r * D + D * D) / (2 * s * s)
        return math.nextafter(float(eps.upper()), math.inf)

    def applies(self, mu: arb, r: arb) -> bool:
        """Return whether δ(ε) <= δ_μ(ε) is proved for every ε >= (2rD + D²)/2s².

        δ is the profile of Gaussian noise of scale s with centers D apart, and δ_μ that
        of N(0, 1) against N(μ, 1). The smallest such ε belongs to the radius r. δ is at
        most the bound of `_log_delta_bound`. That bound is below δ_μ from r on if it is
        below δ_μ at r and falls faster from there on.

        Comparisons of balls are true only if they are certain. So the result is also
        False if the bound is not a number, which happens where the density of the
        radius still increases.

        Parameters
        ----------
        mu : arb
            The parameter μ of Gaussian DP that is to be proved.
        r : arb
            The radius from which on the tail is compared.

        Returns
        -------
        bool
            False says only that there is no proof from this radius on.
        """
        s, D = self.noise.parameters()
        eps = D / (s * s) * (r + D / 2)
        x = eps / mu - mu / 2
        is_below_at_r = self._log_delta_bound(r) <= _log_gdp_delta_bound(mu, eps)
        return bool(x > 0 and self._falls_faster(mu, r) and is_below_at_r)

    def _falls_faster(self, mu: arb, r: arb) -> bool:
        """Return whether the bound on δ certainly falls faster than δ_μ from r on.

        The bound is that of `_log_delta_bound`, and δ_μ the profile of N(0, 1) against
        N(μ, 1). With the scale s of the noise, the distance D of its centers, the
        dimension d, n = d − 1 and a = n/2, this is so if

            n(coth r − 1/r)/r + aD/(r²(r + D)) <= (1 − (D/sμ)²)/s².

        Parameters
        ----------
        mu : arb
            The parameter μ of Gaussian DP.
        r : arb
            The radius.

        Returns
        -------
        bool
            True if the inequality is certain.
        """
        s, D = self.noise.parameters()
        n = self.noise.dim - 1
        a = arb(n) / 2
        density_term = n * (r.coth() - 1 / r) / r
        angle_term = a * D / (r * r * (r + D))
        margin = (1 - (D / s / mu) ** 2) / (s * s)
        return bool(density_term + angle_term <= margin)

    def _log_delta_bound(self, r: arb) -> arb:
        """Return an upper bound on log δ(ε) at ε = (2rD + D²)/2s², for a large r.

        r is a distance from the first noise center and ρ the density of that distance.
        With the scale s, the distance D of the two centers, the dimension d,
        a = (d−1)/2, q = D/s² and slope = −(log ρ)′(r), the bound is

            log ρ(r) + log_angle − (a + 1)·log slope − log(1 + slope/q),

        where `log_angle` bounds the fraction of directions in the tail.

        Parameters
        ----------
        r : arb
            A radius.

        Returns
        -------
        arb
            The bound; not a number if ρ does not decrease at r.
        """
        s, D = self.noise.parameters()
        n = self.noise.dim - 1
        a = arb(n) / 2
        q = D / (s * s)
        slope = r / (s * s) - n * r.coth()

        # A bound on the fraction of directions in the tail. In dimension 2 (n = 1) it
        # is (2/π)·arcsin √x <= √x, and the constant is 1.
        log_constant = arb(0)
        if n != 1:
            log_constant = (2 * a).lgamma() - 2 * a.lgamma() - a.log()
        distance_ratio = (D.cosh() + D.sinh() * r.coth()) / (2 * (r + D))
        log_angle = log_constant + a * distance_ratio.log() + (a + 1).lgamma()

        log_slope_factor = (a + 1) * slope.log()
        log_density = self.log_density_bound(r)
        return log_density + log_angle - log_slope_factor - (1 + slope / q).log()

    def log_density_bound(self, r: arb) -> arb:
        """Return an upper bound on log(ρ(r)/∫ρ), the log density of the radius.

        The radius r is the distance of an output from the center of the noise. ∫ρ is
        bounded from below by the integral over a finite interval.

        Parameters
        ----------
        r : arb
            A radius.

        Returns
        -------
        arb
            A ball of upper bounds.
        """
        return self._log_relative_density(acb(r)).real - self._smallest_mass.log()

    def _log_relative_density(self, r: acb) -> acb:
        """Return log(ρ(r)/ρ(m)), with m the mode of the density ρ of the radius.

        In dimension d, ρ(r) ∝ e^{−r²/2s²}·sinh(r)^{d−1}.

        Parameters
        ----------
        r : acb
            A radius, which may be complex for the quadrature.

        Returns
        -------
        acb
            A ball around the logarithm.
        """
        s, _ = self.noise.parameters()
        mode = arb(self.noise.float_law.mode)
        log_weight = (mode - r) * (mode + r) / (2 * s * s)
        return log_weight + (self.noise.dim - 1) * (r.sinh() / acb(mode).sinh()).log()

    @cached_property
    def _smallest_mass(self) -> arb:
        """A lower bound on ∫ρ/ρ(m), with m the mode of the density ρ of the radius.

        Only an interval around the mode is integrated.
        """
        law = self.noise.float_law
        start, end = self.noise.find_radial_support(_MASS_DEPTH)
        # log sinh(r) is infinite at r = 0.
        start = max(start, _SMALLEST_RADIUS * law.mode)
        mass = enclose_integral(
            lambda radius, _: self._log_relative_density(radius).exp(),
            arb(start),
            arb(end),
            tolerance=arb(law.width * _MASS_TOLERANCE),
        )
        return mass.lower()


def _log_gdp_delta_bound(mu: arb, eps: arb) -> arb:
    """Return a lower bound on log δ_μ(ε): the logarithm of φ(x)·μ/(y + √2)².

    Below it, a profile is proved to be below δ_μ too. δ_μ is the profile of N(0, 1)
    against N(μ, 1), φ the normal density, and x = ε/μ − μ/2 and y = ε/μ + μ/2.

    Parameters
    ----------
    mu : arb
        The parameter μ of Gaussian DP.
    eps : arb
        The privacy parameter ε >= 0.

    Returns
    -------
    arb
        A ball around the bound.
    """
    x = eps / mu - mu / 2
    y = eps / mu + mu / 2
    log_root_two_pi = (2 * arb.pi()).log() / 2
    return mu.log() - x * x / 2 - log_root_two_pi - 2 * (y + arb(2).sqrt()).log()
