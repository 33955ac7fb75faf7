"""The parameters of isotropic noise, as balls: numbers with proved error bounds. Units are
such that the curvature of the space is −1, 0 or 1. The *radius* of an output is its
distance from the first of two noise centers, and L the privacy loss.

A real projective space, such as the rotations of space, is treated as a sphere on which
opposite points (*lifts*) are the same point.
"""

import math
from typing import NamedTuple

import numpy as np
from flint import arb

from curvedp.privacy.loss.space_form import SpaceFormLoss
from curvedp.privacy.profiles.constant_curvature import ConstantCurvatureProfile
from curvedp.privacy.profiles.projective import ProjectiveProfile

Profile = ConstantCurvatureProfile | ProjectiveProfile

# The distance from the mode of a density grows by this factor in the search for the end
# of its support.
_OFFSET_FACTOR = 1.25
# A support that would begin below this part of the mode begins at 0.
_SMALLEST_START = 1e-3


class NoiseParameters(NamedTuple):
    """The scale of the noise, and how far its center moves, in units of the space."""

    scale: arb  # s
    distance: arb  # D, the distance between the two centers


class LevelRadii(NamedTuple):
    """The radii between which the privacy loss L takes a value t in some direction."""

    low: arb  # the smallest such radius
    high: arb  # the largest such radius, possibly infinite
    center_exceeds: bool  # whether L >= t in all directions at radii below `low`


class EnclosedNoise:
    """Isotropic noise on a space of constant curvature, described by balls.

    All methods compute at the current precision of the arithmetic.

    Parameters
    ----------
    profile : ConstantCurvatureProfile or ProjectiveProfile
        The privacy profile of the noise, with all parameters as floats.

    Attributes
    ----------
    is_laplace : bool
        Whether the noise is Laplace or Gaussian.
    dim : int
        The dimension d of the space.
    curvature_sign : int
        k = −1, 0 or 1. A line is flat whatever its curvature.
    n_lifts : int
        The number of points of a sphere above one point of the space: 2 for a
        projective space, and 1 otherwise.
    """

    def __init__(self, profile: Profile) -> None:
        """Read the kind of noise and of space from the profile."""
        self.profile = profile
        self.is_laplace = profile.kind == "laplace"
        self.dim = profile.dim
        self.n_lifts = 2 if isinstance(profile, ProjectiveProfile) else 1
        sign = (profile.curvature > 0) - (profile.curvature < 0)
        is_line = profile.dim == 1 and sign < 0
        self.curvature_sign = 0 if is_line else sign

    @property
    def is_compact(self) -> bool:
        """Whether the space is a sphere, a circle or a projective space."""
        return self.curvature_sign == 1

    @property
    def float_law(self) -> SpaceFormLoss:
        """The privacy loss in floats. It only suggests where to integrate."""
        law = self.profile.loss_law
        assert isinstance(law, SpaceFormLoss)
        return law

    def parameters(self) -> NoiseParameters:
        """Return scale and distance in units in which the curvature is −1, 0 or 1.

        Lengths are multiplied by √|curvature|. A distance that is not provably below
        the diameter of the space is replaced by the diameter.

        Returns
        -------
        NoiseParameters
            The scale s of the noise and the distance D of its two centers, as balls.
        """
        unit_factor = arb(1)
        if self.profile.curvature and self.curvature_sign:
            unit_factor = arb(abs(self.profile.curvature)).sqrt()

        distance = arb(self.profile.sensitivity) * unit_factor
        if self.is_compact and not (self.diameter() > distance):
            distance = self.diameter()
        return NoiseParameters(arb(self.profile.scale) * unit_factor, distance)

    def diameter(self) -> arb:
        """Return the diameter of a compact space: π, or π/2 for a projective space."""
        return arb.pi() / self.n_lifts

    @property
    def float_diameter(self) -> float:
        """The diameter as a float; infinity for a space that is not compact."""
        return math.pi / self.n_lifts if self.is_compact else math.inf

    def is_beyond_max_loss(self, eps: float) -> bool:
        """Return whether ε is proved to be at least the largest privacy loss.

        Then δ(ε) is 0. With the scale s, the distance D of the centers and the diameter
        c, the largest loss is D/s for Laplace noise, and D(2c − D)/2s² for Gaussian
        noise on a compact space.

        Parameters
        ----------
        eps : float
            A number ε >= 0.

        Returns
        -------
        bool
            False also if the loss is unbounded, or if rounding errors leave it open.
        """
        s, D = self.parameters()
        if self.is_laplace:
            return bool(arb(eps) >= D / s)
        if not self.is_compact:
            return False
        largest_loss = D * (2 * self.diameter() - D) / (2 * s * s)
        return bool(arb(eps) >= largest_loss)

    def level_radii(self, t: arb) -> LevelRadii:
        """Return the radii between which the privacy loss L takes the value t.

        Outside of them, L is above t in all directions or below t in all directions.
        With the scale s, the distance D of the centers and D′ = 2·diameter − D, the two
        radii are

            (D − st)/2          and  (D′ − st)/2             for the Laplace law,
            |D² − 2s²t|/2D      and  (D′² − 2s²t)/2D′        for the Gaussian.

        On a space that is not compact the second one is infinite. Below the first one,
        L >= t in all directions if D² > 2s²t (always for the Laplace law), and in none
        otherwise.

        Parameters
        ----------
        t : arb
            A value of the privacy loss.

        Returns
        -------
        LevelRadii
            The two radii as balls, and whether the loss at the first center exceeds t.
        """
        s, D = self.parameters()
        high = arb.pos_inf()
        if self.is_laplace:
            if self.is_compact:
                high = self.diameter() - (D + s * t) / 2
            return LevelRadii((D - s * t) / 2, high, center_exceeds=True)

        if self.is_compact:
            far_distance = 2 * self.diameter() - D
            high = (far_distance * far_distance - 2 * s * s * t) / (2 * far_distance)

        # The sign of D² − 2s²t decides whether L >= t at the center.
        signed_low = (D * D - 2 * s * s * t) / (2 * D)
        if signed_low > 0:
            return LevelRadii(signed_low, high, center_exceeds=True)
        return LevelRadii(abs(signed_low), high, center_exceeds=False)

    def find_radial_support(self, depth: float) -> tuple[float, float]:
        """Return radii between which the density ρ of the radius is not negligible.

        Outside of them ρ is below e^−depth of its peak, according to floats. The search
        moves away from the peak in steps of a factor of 1.25.

        Parameters
        ----------
        depth : float
            How far log ρ drops from its peak to the ends of the interval.

        Returns
        -------
        start, end : float
            The ends: only a suggestion, which `TailProbability` does not rely on.
        """
        law = self.float_law
        mode = law.mode

        def is_above_depth(offset: float) -> bool:
            """Return whether ρ(mode + offset) is above e^−depth of its peak."""
            return float(law.log_rho(np.array([offset]))[0]) > -depth

        # Below the mode. A start very close to 0 is replaced by 0.
        offset_below = law.width
        while mode - offset_below > 0 and is_above_depth(-offset_below):
            offset_below *= _OFFSET_FACTOR
        start = mode - offset_below
        if not start > _SMALLEST_START * mode:
            start = 0.0

        # Above the mode, up to the diameter of the space.
        largest_offset = self.float_diameter - mode
        offset_above = law.width
        while offset_above < largest_offset and is_above_depth(offset_above):
            offset_above *= _OFFSET_FACTOR
        if offset_above < largest_offset:
            return start, mode + offset_above
        return start, self.float_diameter
