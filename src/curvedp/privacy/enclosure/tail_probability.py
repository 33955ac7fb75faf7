"""Proved bounds on the tails of a privacy loss L, as integrals in ball arithmetic. L
compares two noise centers. The *radius* r of an output is its distance from the first
one, and ρ(r) the density of the radius.

An *upper tail* is P₁(L >= t) and a *lower tail* P₁(L <= t), with P₁ the law of the noise
about the first center. The *lifts* of a point of a projective space are the two opposite
points of the sphere above it.
"""

from flint import acb, arb

from curvedp.privacy.enclosure.functions import (
    Integrand,
    enclose_integral,
    sine_integral,
    sn,
)
from curvedp.privacy.enclosure.level_angle import HalfAngleSquares, LevelAngle
from curvedp.privacy.enclosure.noise import EnclosedNoise
from curvedp.privacy.enclosure.radial_density import RadialDensity

# A logarithm: an interval of integration ends where the density of the radius is e^-60
# of its peak, or less.
_DENSITY_DEPTH = 60.0


class TailProbability:
    """Computes a ball around the upper or the lower tail of a privacy loss L.

    The probability is ∫ρ(r)·F(r) dr / ∫ρ, where F(r) is the fraction of directions at
    the radius r in which L >= t (or L <= t). Both integrals run over an interval, the
    *window*; the mass outside of it is bounded.

    Parameters
    ----------
    noise : EnclosedNoise
        The noise and the space.
    t : arb
        The value of the loss at which the tail begins.
    log_guess : float
        An approximation of the logarithm of the probability. It decides how accurate
        the integrals are, not whether the ball is valid.
    relative_tolerance : float
        The relative error that the integrals may have.
    is_upper : bool
        Whether P₁(L >= t) is wanted, or P₁(L <= t).
    """

    def __init__(
        self,
        noise: EnclosedNoise,
        t: arb,
        log_guess: float,
        relative_tolerance: float,
        *,
        is_upper: bool,
    ) -> None:
        """Choose the window and the tolerances.

        Parameters
        ----------
        noise : EnclosedNoise
            The noise and the space.
        t : arb
            The value of the loss at which the tail begins.
        log_guess : float
            An approximation of the logarithm of the probability.
        relative_tolerance : float
            The relative error that the integrals may have.
        is_upper : bool
            Whether the upper tail is wanted, or the lower one.
        """
        self.noise = noise
        self.t = t
        self.is_upper = is_upper
        self.is_projective = noise.n_lifts == 2
        self.density = RadialDensity(noise)
        self.level_angle = LevelAngle(noise, t)
        # The integral of sin^(d−2) over all angles, of which a tail takes a fraction.
        self.full_sine_integral = sine_integral(
            noise.dim - 2, acb(1), acb(0), False
        ).real

        # The window. On a compact space it may end at the diameter.
        depth = _DENSITY_DEPTH - log_guess
        self.start, self.end = noise.find_radial_support(depth)
        self.reaches_diameter = self.end >= noise.float_diameter
        end_ball = noise.diameter() if self.reaches_diameter else arb(self.end)
        self.window = (arb(self.start), end_ball)

        # The absolute errors that are allowed in ∫ρ·F and in ∫ρ: fractions of their
        # approximate values, since the density is divided by its peak.
        peak_width = float(noise.float_law.width)
        self.tolerance = arb(log_guess).exp() * peak_width * relative_tolerance
        self.mass_tolerance = arb(peak_width * relative_tolerance)

    # ---- the probability

    def probability(self) -> arb:
        """Return a ball around P₁(L >= t), or around P₁(L <= t) for a lower tail.

        tests/privacy/test_certify.py compares the balls with independent integrals.

        Returns
        -------
        arb
            A ball that contains the probability.
        """
        mass_outside = arb(0).union(self._mass_outside_window())
        mass_in_window = enclose_integral(
            self._density_integrand, *self.window, tolerance=self.mass_tolerance
        )
        mass = mass_in_window + mass_outside

        if self.is_projective:
            tail_mass = self._projective_tail_mass()
        else:
            tail_mass = self._tail_mass()
        return (tail_mass + mass_outside) / mass

    def _tail_mass(self) -> arb:
        """Return a ball around ∫ρ·F in the window, on a space that is not projective.

        F, the fraction of directions in which the loss is in the tail, is 0 or 1 below
        one radius and beyond another one, and varies between the two. Each range of
        radii must be counted once.

        Returns
        -------
        arb
            A ball around the integral.
        """
        low, high, center_exceeds = self.noise.level_radii(self.t)
        window_start, window_end = self.window

        # Below `low` the loss is in the tail in every direction or in none.
        tail_mass = arb(0)
        if center_exceeds == self.is_upper:
            tail_mass += self._integrate(self._density_integrand, window_start, low)
        # On a sphere the loss is in the lower tail in every direction above `high`.
        if self.noise.is_compact and not self.is_upper:
            tail_mass += self._integrate(self._density_integrand, high, window_end)
        # Between `low` and `high`, in some directions.
        return tail_mass + self._integrate(self._fraction_integrand, low, high)

    def _projective_tail_mass(self) -> arb:
        """Return a ball around ∫ρ·F in the window, on a real projective space.

        It differs from `_tail_mass` beyond the radius `high`. There the far lift of the
        second center is, in some directions, within the distance at which the loss is
        t. So these directions leave the upper tail and enter the lower one.

        Returns
        -------
        arb
            A ball around the integral.
        """
        low, high, center_exceeds = self.noise.level_radii(self.t)
        last_radius = self._last_radius()
        mass_near_far_lift = self._integrate(
            self._far_fraction_integrand, high, last_radius
        )
        tail_mass = -mass_near_far_lift if self.is_upper else mass_near_far_lift

        if center_exceeds == self.is_upper:
            tail_mass += self._integrate(self._density_integrand, self.window[0], low)
        return tail_mass + self._integrate(self._fraction_integrand, low, last_radius)

    def _last_radius(self) -> arb:
        """Return the radius up to which directions are integrated, on projective space.

        For an upper tail it is the largest radius at which the loss can be t: there the
        output is a diameter away from the second center. For a lower tail it is the end
        of the window.

        Returns
        -------
        arb
            A ball around the radius.
        """
        if not self.is_upper:
            return self.window[1]

        diameter = self.noise.diameter()
        s, _ = self.noise.parameters()
        if self.noise.is_laplace:
            return diameter - s * self.t
        return (diameter * diameter - 2 * s * s * self.t).sqrt()

    def _mass_outside_window(self) -> arb:
        """Return an upper bound on the integral of ρ outside of the window."""
        mass_bound = arb(0)
        if self.start > 0:
            mass_bound += self.density.mass_below(self.start)
        if not self.reaches_diameter:
            mass_bound += self.density.mass_beyond(self.end)
        return mass_bound

    def _integrate(self, integrand: Integrand, start: arb, stop: arb) -> arb:
        """Return a ball around an integral over the part of a range in the window.

        The ends are balls. If two of them overlap, it is not known which end is larger.
        The error that this can cause is at most (length of the overlap)·(largest value
        there). The result is widened by it; without this term it would not be valid.

        Parameters
        ----------
        integrand : callable
            A function of a ball of radii and of the flag `analytic` (`Integrand`).
        start, stop : arb
            The ends of the range.

        Returns
        -------
        arb
            A ball that contains the integral; 0 if the range lies outside the window.
        """
        # The part of the range inside the window.
        window_start, window_end = self.window
        low = start if start > window_start else window_start
        high = stop if stop < window_end else window_end

        # The error from ends that cannot be ordered.
        error = arb(0)
        pairs_of_ends = ((start, window_start), (stop, window_end), (low, high))
        for one_end, other_end in pairs_of_ends:
            if one_end.overlaps(other_end):
                overlap = acb(one_end.union(other_end))
                largest_value = integrand(overlap, False).abs_upper()
                error = error + (one_end - other_end).abs_upper() * largest_value

        integral = arb(0)
        if low < high:
            integral = enclose_integral(integrand, low, high, self.tolerance)
        return integral + arb(0, error.abs_upper())

    # ---- integrands, which Arb's quadrature calls with a radius and a flag

    def _density_integrand(self, r: acb, analytic: bool) -> acb:
        """Return ρ(r)/ρ(m), with m the mode of the density ρ of the radius r.

        It is the integrand where all directions are in the tail, and is analytic
        everywhere.

        Parameters
        ----------
        r : acb
            A ball of radii.
        analytic : bool
            Not used.

        Returns
        -------
        acb
            A ball around the ratio.
        """
        return self.density.relative_density(r)

    def _fraction_integrand(self, r: acb, analytic: bool) -> acb:
        """Return ρ(r)/ρ(m) times the fraction of directions with a loss in the tail.

        ρ is the density of the radius r, and m its mode. Only the nearer lift of the
        second center is considered.

        Parameters
        ----------
        r : acb
            A ball of radii.
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.

        Returns
        -------
        acb
            A ball around the product.
        """
        sn_r = sn(self.noise.curvature_sign, r)
        squares = self.level_angle.half_angle_squares(r, sn_r, analytic)
        if not self.is_upper:
            squares = _supplement(squares)
        return self._density_times_fraction(r, sn_r, squares, analytic)

    def _far_fraction_integrand(self, r: acb, analytic: bool) -> acb:
        """Return ρ(r)/ρ(m) times the fraction of directions close to the far lift.

        ρ is the density of the radius r, and m its mode. These are the directions in
        which the far lift of the second center is within the distance b at which the
        loss is t.

        Parameters
        ----------
        r : acb
            A ball of radii.
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.

        Returns
        -------
        acb
            A ball around the product.
        """
        sn_r = sn(self.noise.curvature_sign, r)
        squares = self.level_angle.half_angle_squares_of_far_lift(r, sn_r, analytic)
        return self._density_times_fraction(r, sn_r, squares, analytic)

    def _density_times_fraction(
        self, r: acb, sn_r: acb, squares: HalfAngleSquares, analytic: bool
    ) -> acb:
        """Return ρ(r)/ρ(m) times the fraction of directions beyond an angle φ.

        With J_n(cos φ) = ∫_φ^π sin^n (`sine_integral`) and n = d − 2 in dimension d,
        the fraction is J_n(cos φ)/J_n(1). If the ball contains radii at which there is
        no such angle, the fraction is enclosed by the interval [0, 1].

        Parameters
        ----------
        r : acb
            A ball of radii.
        sn_r : acb
            sn(r).
        squares : HalfAngleSquares
            cos²(φ/2) and sin²(φ/2).
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.

        Returns
        -------
        acb
            A ball around the product.
        """
        density = self.density.relative_density(r, sn_r)
        cos_square, sin_square = squares
        angle_exists = cos_square.real > 0 and sin_square.real > 0
        if not analytic and not angle_exists:
            zero_to_one = arb(0.5, 0.5)  # midpoint and radius
            return density * acb(zero_to_one)

        angle_integral = sine_integral(
            self.noise.dim - 2, cos_square, sin_square, analytic
        )
        return density * angle_integral / self.full_sine_integral


def _supplement(squares: HalfAngleSquares) -> HalfAngleSquares:
    """Return the squares for π − φ: the directions below the angle φ, not beyond it."""
    return HalfAngleSquares(squares.sin_square, squares.cos_square)
