"""The set of points of a manifold that float64 coordinates represent well. Far from the
origin of a curved, unbounded space the coordinates of a point are exponentially larger
than the distances between points: one unit of round-off moves a point by more than a
privacy guarantee allows for. So every manifold states a set S of points that floats
represent well (`Manifold.float_set`), and records outside S are moved into it before
anything is computed.
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
    """The set S of points that floats represent well; in this base class, all points.

    A subclass describes a smaller set, which must contain the Fréchet mean of any of
    its points. Points are given by their normal coordinates z at the origin.

    Parameters
    ----------
    max_distance : float
        Distance from the origin beyond which coordinates overflow or no longer tell
        points apart.
    amplification : float or callable
        What `roundoff_amplification` returns: one number for all radii, or a function
        that maps a radius to a number.
    """

    max_distance: float = inf
    amplification: float | Callable[[float], float] = 1.0

    @property
    def safe_radius(self) -> float:
        """Return a distance from the origin within which every point is in S."""
        return inf

    def shrink_factor(self, z: Array) -> Array:
        """Return the largest factor t ≤ 1 for which coordinates t·z are in S.

        Here every point is in S, and t is 1.

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates at the origin.

        Returns
        -------
        array of shape (...)
            The factors.
        """
        return array_namespace(z).ones_like(z[..., 0])

    def project(self, z: Array) -> Array:
        """Map coordinates into S by a map that is the identity on S and 1-Lipschitz.

        Distances never grow, so a sensitivity holds after this map too. Shrinking is
        such a map where S is a ball; sets of another form override this.

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates at the origin.

        Returns
        -------
        array of shape (..., dim)
            Coordinates of points of S.
        """
        return z * self.shrink_factor(z)[..., None]

    def safe_radius_within(self, radius: float) -> float:
        """Return the largest distance from the origin in S ∩ ball(origin, radius).

        Parameters
        ----------
        radius : float
            Radius of a ball about the origin.

        Returns
        -------
        float
            The distance; here the radius itself, because every point is in S.
        """
        return radius

    def roundoff_amplification(self, radius: float) -> float:
        """Return how far a point moves, at most, per unit of relative coordinate error.

        Multiplied by the unit round-off it bounds the error that rounding the
        coordinates of a point makes, as a distance of the manifold.

        Parameters
        ----------
        radius : float
            The bound holds for points of S within this distance of the origin.

        Returns
        -------
        float
            The amplification.
        """
        if callable(self.amplification):
            return self.amplification(radius)
        return self.amplification


@dataclass(frozen=True)
class BallFloatSet(FloatSet):
    """The set S of well-represented points as a ball about the origin.

    The ball must be convex, so that it contains the means of its points.

    Parameters
    ----------
    max_distance : float
        Distance from the origin beyond which coordinates overflow or no longer tell
        points apart.
    amplification : float or callable
        What `roundoff_amplification` returns: one number for all radii, or a function
        that maps a radius to a number.
    ball_radius : float
        The radius of S.
    """

    ball_radius: float = inf

    @property
    def safe_radius(self) -> float:
        """Return the radius of the ball: floats represent every point of it well."""
        return self.ball_radius

    def shrink_factor(self, z: Array) -> Array:
        """Return the factor min(1, ball_radius/|z|), which takes a point into the ball.

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates at the origin.

        Returns
        -------
        array of shape (...)
            The factors; 1 for a point of the ball.
        """
        xp = namespace(z)
        length = euclidean_norm(xp, z)
        is_outside = length > self.ball_radius
        factor = self.ball_radius / xp.where(is_outside, length, 1.0)
        return xp.where(is_outside, factor, xp.ones_like(length))

    def safe_radius_within(self, radius: float) -> float:
        """Return min(radius, ball_radius): both balls are about the origin."""
        return min(radius, self.ball_radius)


@dataclass(frozen=True)
class ProductFloatSet(FloatSet):
    """The set S of a product: a point is in S if each of its parts is in the factor's set.

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
        """Split normal coordinates of the product into those of its factors.

        Each factor then treats its own part.

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates at the origin.

        Returns
        -------
        list of (FloatSet, array)
            For each factor its set, and the entries of z that belong to it.
        """
        pieces = []
        start = 0
        for float_set, dim in self.parts:
            pieces.append((float_set, z[..., start : start + dim]))
            start += dim
        return pieces

    def shrink_factor(self, z: Array) -> Array:
        """Return the smallest shrink factor of the parts of z.

        All parts are multiplied by the same factor, so that the point stays on its
        geodesic to the origin.

        Parameters
        ----------
        z : array of shape (..., dim)
            Normal coordinates at the origin.

        Returns
        -------
        array of shape (...)
            The factors, at most 1.
        """
        xp = namespace(z)
        factors = [float_set.shrink_factor(part) for float_set, part in self._split(z)]
        return xp.min(xp.stack(factors, axis=-1), axis=-1)

    def project(self, z: Array) -> Array:
        """Project the coordinates z into S part by part.

        One common factor (`shrink_factor`) would not be 1-Lipschitz: where one part
        leaves its set, it would also change the distances of the other parts.
        """
        projected = [float_set.project(part) for float_set, part in self._split(z)]
        return namespace(z).concat(projected, axis=-1)

    def safe_radius_within(self, radius: float) -> float:
        """Bound the distance from the origin of the points in S ∩ ball(origin, radius).

        The bound is min(radius, √Σrᵢ²) with the bound rᵢ of the i-th factor, because
        squared distances of a product add.
        """
        radii = [float_set.safe_radius_within(radius) for float_set, _ in self.parts]
        return min(radius, math.hypot(*radii))

    def roundoff_amplification(self, radius: float) -> float:
        """Return √Σaᵢ², aᵢ the amplification of the i-th factor within `radius`.

        Each part of a point moves by at most aᵢ per unit of relative coordinate error,
        and squared distances of a product add.
        """
        amplifications = [
            float_set.roundoff_amplification(radius) for float_set, _ in self.parts
        ]
        return math.hypot(*amplifications)


def _identity(z: Array) -> Array:
    """Return coordinates unchanged: the default isometry of `PullbackFloatSet`."""
    return z


@dataclass(frozen=True)
class PullbackFloatSet(FloatSet):
    """The set S of a manifold that is isometric to `scale` times a part of a model space.

    Parameters
    ----------
    model : FloatSet
        The set of the model.
    scale : float
        Distances are this many times those of the model.
    to_model, from_model : callable
        Isometries between the coordinates of this manifold, divided by the scale, and
        those of the model.
    """

    model: FloatSet = FloatSet()
    scale: float = 1.0
    to_model: Callable[[Array], Array] = _identity
    from_model: Callable[[Array], Array] = _identity

    @property
    def safe_radius(self) -> float:
        """Return the model's safe radius, times the scale."""
        return self.scale * self.model.safe_radius

    def shrink_factor(self, z: Array) -> Array:
        """Return the model's shrink factor for z: factors have no unit."""
        return self.model.shrink_factor(self.to_model(z / self.scale))

    def project(self, z: Array) -> Array:
        """Project z into S: take it to the model, project there, and bring it back."""
        projected = self.model.project(self.to_model(z / self.scale))
        return self.scale * self.from_model(projected)

    def safe_radius_within(self, radius: float) -> float:
        """Return the model's safe radius within radius/scale, times the scale."""
        return self.scale * self.model.safe_radius_within(radius / self.scale)

    def roundoff_amplification(self, radius: float) -> float:
        """Return the model's amplification within radius/scale, in distances of this space.

        Distances here are `scale` times those of the model. A scale below 1 is counted
        as 1, because the coordinates of this space are rounded too.
        """
        amplification = self.model.roundoff_amplification(radius / self.scale)
        return max(self.scale, 1.0) * amplification
