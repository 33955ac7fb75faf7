"""The density of the radius of noise, in ball arithmetic. The *radius* r is the distance of
an output from the center of the noise, and ρ(r) its density. ρ is used relative to its
value at the mode, so that no normalizing constant is needed.
"""

from flint import acb, arb

from curvedp.privacy.enclosure.functions import log_derivative_of_sn, sn
from curvedp.privacy.enclosure.noise import EnclosedNoise


class RadialDensity:
    """The density ρ of the radius, divided by its value at the mode m.

    With the scale s and the dimension d,

        ρ(r)/ρ(m) = weight(r)/weight(m)·(sn r/sn m)^{d−1},

    where the weight is e^{−r/s} for Laplace and e^{−r²/2s²} for Gaussian noise, and sn
    is sinh, the identity or sin for the curvature −1, 0 or 1.

    Parameters
    ----------
    noise : EnclosedNoise
        The noise and the space.
    """

    def __init__(self, noise: EnclosedNoise) -> None:
        """Compute what does not depend on the radius."""
        self.is_laplace = noise.is_laplace
        self.k = noise.curvature_sign
        self.power_of_sn = noise.dim - 1
        self.s, _ = noise.parameters()
        self.two_s_square = 2 * self.s * self.s
        self.mode = arb(noise.float_law.mode)
        self.sn_mode = sn(self.k, acb(self.mode))

    def relative_density(self, r: acb, sn_r: acb | None = None) -> acb:
        """Return ρ(r)/ρ(m), the density relative to its peak.

        Parameters
        ----------
        r : acb
            A ball of radii.
        sn_r : acb, optional
            sn(r), if the caller has computed it already.

        Returns
        -------
        acb
            A ball around the ratio.
        """
        if self.is_laplace:
            log_weight = (self.mode - r) / self.s
        else:
            log_weight = (self.mode - r) * (self.mode + r) / self.two_s_square
        if sn_r is None:
            sn_r = sn(self.k, r)
        return log_weight.exp() * (sn_r / self.sn_mode) ** self.power_of_sn

    def mass_below(self, radius: float) -> arb:
        """Return an upper bound on ∫ρ/ρ(m) over all radii below a given one.

        This mass is added to an integral that begins there; m is the mode of the
        density ρ of the radius. log ρ is concave. If it increases at the radius with
        the slope a, the integral is therefore at most ρ(radius)/(a·ρ(m)).

        Parameters
        ----------
        radius : float
            A radius > 0 below the mode.

        Returns
        -------
        arb
            The bound; infinity if it is not certain that log ρ increases there.
        """
        slope = self._log_slope(arb(radius))
        if not slope > 0:
            return arb.pos_inf()
        return (self._real_relative_density(radius) / slope).upper()

    def mass_beyond(self, radius: float) -> arb:
        """Return an upper bound on ∫ρ/ρ(m) over all radii beyond a given one.

        This mass is added to an integral that ends there; m is the mode of the density
        ρ of the radius. log ρ is concave. If it decreases at the radius with the slope
        −a, the integral is therefore at most ρ(radius)/(a·ρ(m)).

        Parameters
        ----------
        radius : float
            A radius above the mode.

        Returns
        -------
        arb
            The bound; infinity if it is not certain that log ρ decreases there.
        """
        slope = self._log_slope(arb(radius))
        if not slope < 0:
            return arb.pos_inf()
        return (self._real_relative_density(radius) / -slope).upper()

    def _real_relative_density(self, radius: float) -> arb:
        """Return ρ(radius)/ρ(m) as a real ball; the quadrature needs complex ones."""
        return self.relative_density(acb(radius)).real

    def _log_slope(self, r: arb) -> arb:
        """Return (log ρ)′(r), the slope of the log density ρ of the radius r.

        Bounds on the mass beyond a radius follow from it. It is
        (d−1)·sn′(r)/sn(r) − r/s² for Gaussian, and (d−1)·sn′(r)/sn(r) − 1/s for Laplace
        noise, with the scale s and the dimension d.

        Parameters
        ----------
        r : arb
            A ball of radii.

        Returns
        -------
        arb
            A ball around the slope.
        """
        weight_slope = 1 / self.s if self.is_laplace else r / (self.s * self.s)
        return self.power_of_sn * log_derivative_of_sn(self.k, r) - weight_slope
