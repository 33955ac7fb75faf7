"""Which points of a manifold float64 coordinates represent well.

Far from the origin of a curved, unbounded space the coordinates of a point are
exponentially larger than what they say about it: one unit of round-off moves the point
by more than a privacy guarantee allows for. A manifold states with its `float_set` how
far that goes, and records beyond are moved into the set before anything is computed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from array_api_compat import array_namespace

from curvedp.numerics.arrays import Array, namespace
from curvedp.numerics.elementary import euclidean_norm


@dataclass(frozen=True)
class FloatSet:
    """The set S of well-represented points; this class: every point is one.

    S must contain the Fréchet mean of any of its points. Points are given by their
    normal coordinates z at the origin.

    Parameters
    ----------
    max_distance : float
        Distance from the origin beyond which coordinates overflow or no longer tell
        points apart.
    amplification : float or callable
        The value of `roundoff_amplification`, or the function of the radius.
    """

    max_distance: float = inf
    amplification: float | Callable[[float], float] = 1.0

    @property
    def safe_radius(self) -> float:
        """Return a distance from the origin within which every point is in S."""
        return inf

    def shrink_factor(self, z: Array) -> Array:
        """Return the largest factor t <= 1 for which t·z lies in S.

        Parameters
        ----------
        z : array, shape (..., dim)
            Normal coordinates at the origin.

        Returns
        -------
        array, shape (...)
        """
        return array_namespace(z).ones_like(z[..., 0])

    def project(self, z: Array) -> Array:
        """Map coordinates z into S by a map that is the identity on S and 1-Lipschitz.

        Shrinking is such a map where S is a ball; sets of another form override this.
        """
        return z * self.shrink_factor(z)[..., None]

    def safe_radius_within(self, radius: float) -> float:
        """Return the largest distance from the origin in S ∩ ball(origin, radius)."""
        return radius

    def roundoff_amplification(self, radius: float) -> float:
        """Return how far a point moves, at most, per unit of relative coordinate error.

        The bound holds for points of S within `radius` of the origin.
        """
        if callable(self.amplification):
            return self.amplification(radius)
        return self.amplification


@dataclass(frozen=True)
class BallFloatSet(FloatSet):
    """S is the ball of radius `ball_radius` about the origin, which must be convex."""

    ball_radius: float = inf

    @property
    def safe_radius(self) -> float:
        """Return the radius of the ball."""
        return self.ball_radius

    def shrink_factor(self, z: Array) -> Array:
        """Return min(1, ball_radius/|z|).

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates.
        """
        xp = namespace(z)
        length = euclidean_norm(xp, z)
        outside = length > self.ball_radius
        shrunk = self.ball_radius / xp.where(outside, length, 1.0)
        return xp.where(outside, shrunk, xp.ones_like(length))

    def safe_radius_within(self, radius: float) -> float:
        """Return min(radius, ball_radius)."""
        return min(radius, self.ball_radius)


@dataclass(frozen=True)
class ProductFloatSet(FloatSet):
    """S of a product: a point is in it where each of its parts is.

    Parameters
    ----------
    parts : tuple of (FloatSet, int)
        The set of each factor and the factor's dimension, in the order of coordinates.
    """

    parts: tuple[tuple[FloatSet, int], ...] = ()

    @property
    def safe_radius(self) -> float:
        """Return the least safe radius of the factors."""
        return min(float_set.safe_radius for float_set, _ in self.parts)

    def _split(self, z: Array) -> list[tuple[FloatSet, Array]]:
        """Return each factor's set with the coordinates that belong to it.

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates.
        """
        pieces = []
        start = 0
        for float_set, dim in self.parts:
            pieces.append((float_set, z[..., start : start + dim]))
            start += dim
        return pieces

    def shrink_factor(self, z: Array) -> Array:
        """Return the least factor of the parts: a point stays on its geodesic."""
        xp = namespace(z)
        factors = [float_set.shrink_factor(part) for float_set, part in self._split(z)]
        return xp.min(xp.stack(factors, axis=-1), axis=-1)

    def project(self, z: Array) -> Array:
        """Project part by part; one common factor would stretch the other parts."""
        projected = [float_set.project(part) for float_set, part in self._split(z)]
        return namespace(z).concat(projected, axis=-1)

    def safe_radius_within(self, radius: float) -> float:
        """Return the length of the vector of the parts' radii, at most `radius`."""
        radii = [float_set.safe_radius_within(radius) for float_set, _ in self.parts]
        return min(radius, math.hypot(*radii))

    def roundoff_amplification(self, radius: float) -> float:
        """Return the length of the vector of the parts' amplifications."""
        amplifications = [
            float_set.roundoff_amplification(radius) for float_set, _ in self.parts
        ]
        return math.hypot(*amplifications)


def _identity(z: Array) -> Array:
    """Return the argument."""
    return z


@dataclass(frozen=True)
class PullbackFloatSet(FloatSet):
    """S of a manifold that is `scale` times a part of a model space.

    Parameters
    ----------
    model : FloatSet
        The set of the model.
    scale : float
        Distances are this many times those of the model.
    to_model, from_model : callable
        Isometries between coordinates here (divided by the scale) and in the model.
    """

    model: FloatSet = FloatSet()
    scale: float = 1.0
    to_model: Callable[[Array], Array] = _identity
    from_model: Callable[[Array], Array] = _identity

    @property
    def safe_radius(self) -> float:
        """Return the model's safe radius in units of this manifold."""
        return self.scale * self.model.safe_radius

    def shrink_factor(self, z: Array) -> Array:
        """Return the model's factor, which has no unit."""
        return self.model.shrink_factor(self.to_model(z / self.scale))

    def project(self, z: Array) -> Array:
        """Project in the coordinates of the model."""
        projected = self.model.project(self.to_model(z / self.scale))
        return self.scale * self.from_model(projected)

    def safe_radius_within(self, radius: float) -> float:
        """Return the model's radius in units of this manifold."""
        return self.scale * self.model.safe_radius_within(radius / self.scale)

    def roundoff_amplification(self, radius: float) -> float:
        """Return the model's amplification at the radius in its units."""
        return self.model.roundoff_amplification(radius / self.scale)
