"""Isotropic noise on two-point homogeneous spaces: the Euclidean, hyperbolic, spherical
and projective ones. A draw about the center p, the footpoint, is exp_p(r·u). The
direction u is uniform among the unit tangent vectors, and the distance r has the
density of `isotropic.density`.

Projective spaces, which have a cut locus at half the way around, are lines, rotations
of three-space and planar shapes.
"""

from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann, Lorentz, PoincareBall, Sphere
from curvedp.geometry.manifold import Manifold
from curvedp.laws.backend import Floats, Kind, LawBackend
from curvedp.laws.isotropic.density import RadialDensity
from curvedp.laws.isotropic.envelope import radius_sampler
from curvedp.laws.isotropic.space import two_point_homogeneous_space
from curvedp.laws.law import uniform_directions
from curvedp.privacy.enclosure.delta import certified_delta, certified_projective_delta
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import constant_curvature_profile
from curvedp.privacy.profiles.projective import ProjectiveProfile

# Largest time coordinate of a hyperbolic footpoint to which the origin is boosted. A
# boost cancels on the way back to the origin and loses up to the square of that
# coordinate in digits: three at most. Farther out `Lorentz.exp` uses its polar form.
_BOOST_LIMIT = 32.0

# In the ball model a point with a larger time coordinate may round to the boundary.
_LARGEST_BALL_TIME = 2.0**50


def two_point_homogeneous_law(
    kind: Kind, manifold: Manifold, scale: float
) -> "TwoPointHomogeneousLaw | None":
    """Return the Gaussian or Laplace law on a two-point homogeneous manifold.

    Parameters
    ----------
    kind : {'gaussian', 'laplace'}
        The law.
    manifold : Manifold
        The space on which the noise lives.
    scale : float
        The scale σ > 0 of the law.

    Returns
    -------
    TwoPointHomogeneousLaw or None
        None if the manifold is not two-point homogeneous.
    """
    space = two_point_homogeneous_space(manifold)
    if space is None:
        return None
    return TwoPointHomogeneousLaw(kind, space, scale, manifold)


@dataclass(frozen=True)
class TwoPointHomogeneousLaw(RadialDensity, LawBackend):
    """The Gaussian or Laplace law on one two-point homogeneous manifold.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The weight exp(−r²/2σ²) or exp(−r/σ).
    space : TwoPointHomogeneousSpace
        The geometry that the distances depend on.
    scale : float
        The scale σ > 0 of the law.
    manifold : Manifold
        The coordinates in which points are written.
    """

    manifold: Manifold

    def profile(self, sensitivity: float) -> PrivacyProfile:
        """Return the exact privacy profile of a draw.

        Parameters
        ----------
        sensitivity : float
            How far the footpoint can move between neighboring data sets.

        Returns
        -------
        PrivacyProfile
            δ(ε), μ and so on.
        """
        space = self.space
        if space.curvature is not None:
            return constant_curvature_profile(
                self.kind, space.curvature, space.dim, self.scale, sensitivity
            )

        # The other two-point homogeneous spaces are projective.
        smallest_curvature = min(kappa for kappa, _ in space.jacobi_spectrum)
        field = "real" if len(space.jacobi_spectrum) == 1 else "complex"
        return ProjectiveProfile(
            self.kind, field, space.dim, smallest_curvature, self.scale, sensitivity
        )

    def certified_delta(self, sensitivity: float, eps: float) -> tuple[float, float]:
        """Return rigorous lower and upper bounds of δ(eps), in ball arithmetic.

        δ(ε) is the largest P(S) − e^ε·Q(S) over all sets S, for the laws P and Q about
        two footpoints as far apart as the sensitivity.

        Parameters
        ----------
        sensitivity : float
            How far the footpoint can move between neighboring data sets.
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        lower, upper : float
            Bounds with lower <= δ(ε) <= upper.

        Raises
        ------
        ParameterError
            On complex projective spaces, for which no enclosure is implemented.
        """
        # Bounds exist for constant curvature and for real projective spaces.
        space = self.space
        if space.curvature is not None:
            return certified_delta(
                self.kind, space.curvature, space.dim, self.scale, sensitivity, eps
            )
        if len(space.jacobi_spectrum) == 1:
            ((kappa, _),) = space.jacobi_spectrum
            return certified_projective_delta(
                self.kind, kappa, space.dim, self.scale, sensitivity, eps
            )
        raise ParameterError(
            "certified bounds on projective spaces are for real ones, "
            "as Rotations(3) and lines"
        )

    def check_representable(self) -> None:
        """Raise `ParameterError` if float64 coordinates cannot hold such distances.

        About one draw in 10¹² lies beyond the `practical_radius`.
        """
        limit = self.manifold.float_set.max_distance
        if self.practical_radius > limit:
            raise ParameterError(
                f"is too large: on {self.manifold!r} this law reaches distances of "
                f"{self.practical_radius:.4g}, but its double-precision coordinates "
                f"hold {limit:g}; use a smaller scale, or other coordinates",
                parameter="scale",
                value=self.scale,
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Return `count` points exp(center, r·u): a random radius r and direction u.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.
        center : array
            One footpoint, or one for each draw.
        count : int
            The number of draws.

        Returns
        -------
        array, shape (count, *point_shape)
            The draws.
        """
        if self.space.curvature == 0:
            displacements = self._draw_flat(rng, count)
            return np.asarray(
                self.manifold.from_normal_coordinates(center, displacements)
            )

        radii = radius_sampler(self.kind, self.space, self.scale).draw(rng, count)
        directions = uniform_directions(rng, count, self.manifold.dim)
        return polar_point(self.manifold, center, directions, radii)

    def _draw_flat(self, rng: np.random.Generator, count: int) -> Floats:
        """Return `count` draws about 0 in ℝ^d.

        The Gaussian has independent coordinates. The length of the Laplace law has the
        density ∝ r^{d−1}e^{−r/σ}, the Gamma law of shape d.

        σ is the scale, and d the dimension.

        Called by `draw` on flat spaces, where the points are the center plus these
        vectors.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        count : int
            The number of draws.

        Returns
        -------
        array, shape (count, dim)
            The draws.
        """
        dim = self.manifold.dim
        if self.kind == "gaussian":
            vectors = rng.standard_normal((count, dim))
            vectors *= self.scale
        else:
            vectors = uniform_directions(rng, count, dim)
            vectors *= rng.standard_gamma(dim, count)[:, None] * self.scale
        return vectors


def polar_point(
    manifold: Manifold, center: Floats, directions: Floats, radii: Floats
) -> Floats:
    """Return the points exp(center, r·u) at given distances in uniform directions u.

    If an isometry from the origin to the center is known in closed form, it is applied
    to the point about the origin, which is faster. The directions then refer to another
    frame at the center, which does not matter because they are uniform.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    center : array
        One footpoint, or one for each direction.
    directions : array of shape (n, dim)
        Unit vectors, uniformly distributed.
    radii : array of shape (n,)
        Distances from the center.

    Returns
    -------
    array, shape (n, *point_shape)
        The points.
    """
    point = _polar_point_by_isometry(manifold, center, directions, radii)
    if point is not None:
        return point
    v = manifold.from_coordinates(center, directions * radii[:, None])
    return np.asarray(manifold.exp(center, v))


@singledispatch
def _polar_point_by_isometry(
    manifold: Manifold, center: Floats, u: Floats, r: Floats
) -> Floats | None:
    """Return exp(center, r·u) for uniform directions u by an isometry, or None.

    The isometry takes the origin to the center, and the point (cs r, sn r·u) about the
    origin to the result. Here cs and sn are cos and sin on spheres, and cosh and sinh on
    hyperbolic spaces. None is returned if no isometry is known in closed form, or if it
    would lose digits.

    Parameters
    ----------
    manifold : Manifold
        The space, on whose type the implementation depends.
    center : array, shape point_shape or (n, *point_shape)
        One center, or one for each draw.
    u : array, shape (n, dim)
        Unit vectors, uniformly distributed.
    r : array, shape (n,)
        Distances from the center.

    Returns
    -------
    array, shape (n, *point_shape), or None
        The points.
    """
    return None


@_polar_point_by_isometry.register
def _polar_point_of_sphere(
    manifold: Sphere, center: Floats, u: Floats, r: Floats
) -> Floats:
    """Return polar points on a sphere: reflect it so that e₁ goes to the center.

    Parameters
    ----------
    manifold : Sphere
        The space.
    center : array, shape (d + 1,) or (n, d + 1)
        One center, or one for each draw.
    u : array, shape (n, d)
        Unit vectors, uniformly distributed.
    r : array, shape (n,)
        Distances from the center.

    Returns
    -------
    array, shape (n, d + 1)
        The points.
    """
    return _polar_point_on_sphere(center, u, r)


@_polar_point_by_isometry.register
def _polar_point_of_lines(
    manifold: Grassmann, center: Floats, u: Floats, r: Floats
) -> Floats | None:
    """Return polar points on a space of lines: a line is a unit vector up to its sign.

    Parameters
    ----------
    manifold : Grassmann
        The space. Subspaces of more than one dimension are not supported.
    center : array, shape (m, 1) or (n, m, 1)
        One line, or one for each draw.
    u : array, shape (n, m − 1)
        Unit vectors, uniformly distributed.
    r : array, shape (n,)
        Distances from the center.

    Returns
    -------
    array, shape (n, m, 1), or None
        The lines.
    """
    if manifold.r > 1:
        return None
    return _polar_point_on_sphere(center[..., 0], u, r)[..., None]


@_polar_point_by_isometry.register
def _polar_point_of_lorentz(
    manifold: Lorentz, center: Floats, u: Floats, r: Floats
) -> Floats | None:
    """Return polar points on the hyperboloid: boost its origin to the center.

    Parameters
    ----------
    manifold : Lorentz
        The space.
    center : array, shape (d + 1,) or (n, d + 1)
        One center, or one for each draw.
    u : array, shape (n, d)
        Unit vectors, uniformly distributed.
    r : array, shape (n,)
        Distances from the center.

    Returns
    -------
    array, shape (n, d + 1), or None
        The points; None if a center is so far from the origin that a boost would lose
        digits.
    """
    if np.max(center[..., 0]) >= _BOOST_LIMIT:
        return None
    return _polar_point_on_hyperboloid(center, u, r)


@_polar_point_by_isometry.register
def _polar_point_of_ball(
    manifold: PoincareBall, center: Floats, u: Floats, r: Floats
) -> Floats | None:
    """Return polar points in the ball model, computed on the hyperboloid.

    A point (y₀, y) of the hyperboloid is the point x = y/(1 + y₀) of the ball.

    Parameters
    ----------
    manifold : PoincareBall
        The space.
    center : array, shape (dim,) or (n, dim)
        One center, or one for each draw.
    u : array, shape (n, dim)
        Unit vectors, the directions of the draws.
    r : array, shape (n,)
        The distances of the draws from their centers.

    Returns
    -------
    array, shape (n, dim), or None
        The draws; None if a center is too close to the boundary for doubles.
    """
    squared_norm = np.einsum("...i,...i->...", center, center)[..., None]
    if np.max(squared_norm) >= 1.0 - 2.0 / _BOOST_LIMIT:
        return None
    lifted = np.concatenate([1.0 + squared_norm, 2.0 * center], axis=-1)
    lifted /= 1.0 - squared_norm
    y = _polar_point_on_hyperboloid(lifted, u, r)
    x = y[:, 1:] / (1.0 + y[:, :1])
    if np.max(y[:, 0]) < _LARGEST_BALL_TIME:
        return x
    return np.asarray(manifold.project(x))


def _polar_point_on_sphere(p: Floats, u: Floats, r: Floats) -> Floats:
    """Return the point of the sphere at distance r from p, in the direction u.

    It is the image of y = (cos r, sin r·u), the point about e₁, under an isometry that
    takes e₁ to p. The reflection y − 2·(y·w)/|w|²·w along w = e₁ + sign·p takes e₁ to
    −sign·p, where sign = ±1 is the sign of p₁. So |w|² = 2(1 + |p₁|) stays away from 0.

    Used for spheres and for lines, which are unit vectors up to their sign.

    Parameters
    ----------
    p : array of shape (d + 1,) or (n, d + 1)
        One footpoint, or one for each row.
    u : array of shape (n, d)
        Unit directions at e₁.
    r : array of shape (n,)
        Distances.

    Returns
    -------
    array, shape (n, d + 1)
        The points.
    """
    # The point about e₁.
    y = np.empty((len(u), u.shape[1] + 1))
    y[:, 0] = np.cos(r)
    np.multiply(u, np.sin(r)[:, None], out=y[:, 1:])

    # Its reflection along w. The factor is 2·(y·w)/|w|².
    p_1 = p[..., :1]
    sign = np.where(p_1 < 0.0, -1.0, 1.0)
    w = sign * p
    w[..., 0] += 1.0
    factor = _row_dot(y, w) / (1.0 + np.abs(p_1))
    y -= factor * w

    # The reflection has taken e₁ to −sign·p.
    y *= -sign
    return y


def _polar_point_on_hyperboloid(p: Floats, u: Floats, r: Floats) -> Floats:
    """Return the point at distance r and direction u about p on the hyperboloid.

    It is the image of (cosh r, sinh r·u), the point about the origin, under the boost
    that takes the origin to p = (p₀, p⃗). With v = sinh r·u, the space coordinates of
    the image are v + (cosh r + v·p⃗/(1 + p₀))·p⃗. The time coordinate is computed from
    them, so that the result lies on the hyperboloid.

    Used for both models of hyperbolic space, the hyperboloid and the ball.

    Parameters
    ----------
    p : array of shape (d + 1,) or (n, d + 1)
        One footpoint, or one for each row; the first coordinate is time.
    u : array of shape (n, d)
        Unit directions at the origin.
    r : array of shape (n,)
        Distances.

    Returns
    -------
    array, shape (n, d + 1)
        The points.
    """
    p_time = p[..., :1]
    p_space = p[..., 1:]
    y = np.empty((len(u), u.shape[1] + 1))
    y_space = y[:, 1:]  # a view: what is written to it is written to y
    np.multiply(u, np.sinh(r)[:, None], out=y_space)

    # Apply the boost to the space coordinates; the time coordinate follows.
    along_p = _row_dot(y_space, p_space) / (1.0 + p_time)
    y_space += (np.cosh(r)[:, None] + along_p) * p_space
    squared_norm = np.einsum("ij,ij->i", y_space, y_space)
    y[:, 0] = np.sqrt(1.0 + squared_norm)
    return y


def _row_dot(y: Floats, w: Floats) -> Floats:
    """Return the dot products of rows, as a column.

    Used with one center for all draws, or with one center for each.

    Parameters
    ----------
    y : array of shape (n, k)
        Vectors.
    w : array of shape (k,) or (n, k)
        One vector for all rows of y, or one for each.

    Returns
    -------
    array of shape (n, 1)
        The products.
    """
    products = y @ w if w.ndim == 1 else np.einsum("ij,ij->i", y, w)
    return np.asarray(products)[:, None]
