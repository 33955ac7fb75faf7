"""The directions in which the privacy loss takes a given value, in ball arithmetic. An
output at the distance r from the first noise center has the direction φ: its angle to
the second center, seen from the first one. The privacy loss L increases with φ.
"""

from typing import NamedTuple

from flint import acb, arb

from curvedp.privacy.enclosure.functions import sn
from curvedp.privacy.enclosure.noise import EnclosedNoise


class HalfAngleSquares(NamedTuple):
    """cos²(φ/2) and sin²(φ/2) of an angle φ, each to full relative precision."""

    cos_square: acb
    sin_square: acb


class LevelAngle:
    """The angle φ at which the privacy loss is t, for every radius r.

    Let η₂ be the second noise center, D the distance of the two centers and s the scale
    of the noise. The loss is t at the distance b = r + st (Laplace) or √(r² + 2s²t)
    (Gaussian) from η₂. The law of cosines in half angles loses no digits:

        cos²(φ/2) = sn((r+D−b)/2)·sn((r+D+b)/2) / (sn r·sn D),
        sin²(φ/2) = sn((b−r+D)/2)·sn((b+r−D)/2) / (sn r·sn D),

    where sn is sinh, the identity or sin for the curvature −1, 0 or 1.

    Parameters
    ----------
    noise : EnclosedNoise
        The noise and the space.
    t : arb
        The value of the privacy loss.
    """

    def __init__(self, noise: EnclosedNoise, t: arb) -> None:
        """Compute what does not depend on the radius: it is needed at hundreds of them.

        Parameters
        ----------
        noise : EnclosedNoise
            The noise and the space.
        t : arb
            The value of the privacy loss.
        """
        self.is_laplace = noise.is_laplace
        self.k = noise.curvature_sign
        s, self.distance = noise.parameters()
        self.sn_distance = sn(self.k, acb(self.distance))

        # b − r for Laplace noise, and b² − r² for Gaussian noise.
        self.b_minus_r = s * t
        self.b_square_minus_r_square = 2 * s * s * t

        # For Laplace noise two of the four factors do not depend on r.
        self.half_difference = acb(self.distance - self.b_minus_r) / 2
        self.half_sum = acb(self.distance + self.b_minus_r) / 2
        if self.is_laplace:
            sn_half_difference = sn(self.k, self.half_difference)
            self.sn_ratio_of_difference = sn_half_difference / self.sn_distance
            self.sn_ratio_of_sum = sn(self.k, self.half_sum) / self.sn_distance

    def half_angle_squares(self, r: acb, sn_r: acb, analytic: bool) -> HalfAngleSquares:
        """Return cos²(φ/2) and sin²(φ/2) of the angle φ at which the loss is t.

        Parameters
        ----------
        r : acb
            A ball of radii.
        sn_r : acb
            sn(r).
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.

        Returns
        -------
        HalfAngleSquares
            The two squares.
        """
        if self.is_laplace:
            cos_factor = sn(self.k, r + self.half_sum)
            sin_factor = sn(self.k, r - self.half_difference)
            return HalfAngleSquares(
                self.sn_ratio_of_difference * cos_factor / sn_r,
                self.sn_ratio_of_sum * sin_factor / sn_r,
            )

        # b² − r² is known exactly, so that this quotient avoids cancellation.
        b = self._level_distance(r, analytic)
        b_minus_r = self.b_square_minus_r_square / (b + r)
        return self._law_of_cosines(r, sn_r, b, b_minus_r)

    def half_angle_squares_of_far_lift(
        self, r: acb, sn_r: acb, analytic: bool
    ) -> HalfAngleSquares:
        """Return the squares for the angle between an output and the far lift of η₂.

        On a projective space, η₂ is a pair of opposite points of the sphere. The
        farther one is at the distance π − b if the loss is t there.

        Parameters
        ----------
        r : acb
            A ball of radii.
        sn_r : acb
            sn(r).
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.

        Returns
        -------
        HalfAngleSquares
            The two squares.
        """
        far_b = arb.pi() - self._level_distance(r, analytic)
        return self._law_of_cosines(r, sn_r, far_b, far_b - r)

    def _level_distance(self, r: acb, analytic: bool) -> acb:
        """Return the distance b from η₂ at which an output at the radius r has loss t.

        Parameters
        ----------
        r : acb
            A ball of radii.
        analytic : bool
            Whether the result must not be finite unless it is analytic on all of r.

        Returns
        -------
        acb
            A ball around b.
        """
        if self.is_laplace:
            return r + self.b_minus_r
        return (r * r + self.b_square_minus_r_square).sqrt(analytic=analytic)

    def _law_of_cosines(
        self, r: acb, sn_r: acb, b: acb, b_minus_r: acb
    ) -> HalfAngleSquares:
        """Return the squares of a half angle in a triangle with the sides r, D and b.

        r is the distance of an output from the first noise center, b that from the
        second one, and D the distance of the centers. The angle is that at the first
        center.

        Parameters
        ----------
        r : acb
            A ball of radii.
        sn_r : acb
            sn(r).
        b : acb
            The side opposite to the angle.
        b_minus_r : acb
            b − r, which the caller may know to more digits.

        Returns
        -------
        HalfAngleSquares
            The two squares.
        """
        k, D = self.k, self.distance
        denominator = sn_r * self.sn_distance
        return HalfAngleSquares(
            sn(k, (D - b_minus_r) / 2) * sn(k, (r + D + b) / 2) / denominator,
            sn(k, (D + b_minus_r) / 2) * sn(k, (b + r - D) / 2) / denominator,
        )
