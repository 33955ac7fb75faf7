"""Abilities that only some manifolds have: a base class for each, and functions that
use it. A space with an ability, such as a closed-form isometry to its origin, derives
from the base class of that ability, and code tests for it with `isinstance`. Where
there is an answer for every manifold (a center can always stay where it is), a function
of this module returns it: from the space if it has the ability, and by default
otherwise.
"""

from abc import abstractmethod
from math import inf

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Array, Manifold
from curvedp.numerics.arrays import like

# ---- isometries to the origin --------------------------------------------------------


class OriginIsometry(Manifold):
    """Spaces with an isometry in closed form that takes a given center to the origin.

    By default a point with normal coordinates z at the center is moved to the point
    that has the same normal coordinates z at the origin. This is an isometry on flat
    and on hyperbolic spaces, where the curvature is constant and `exp` a diffeomorphism:
    any two orthonormal frames are related by an isometry. Other subclasses override
    `move_to_origin` and `move_from_origin`.
    """

    def canonical_center(self, center: Array) -> Array:
        """Return where the isometry takes a public center: the origin of the space.

        Parameters
        ----------
        center : array of shape point_shape
            The center of a public ball.

        Returns
        -------
        array of shape point_shape
            The origin. A subclass that moves some centers only returns others
            unchanged.
        """
        return self.origin

    def move_to_origin(self, center: Array, X: Array) -> Array:
        """Apply to points the isometry that takes a public center to the origin.

        Means and distances are then computed near the origin, where floats have the
        most digits.

        Parameters
        ----------
        center : array of shape point_shape
            The center of a public ball.
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved points.
        """
        return self._move(center, self.canonical_center(center), X)

    def move_from_origin(self, center: Array, X: Array) -> Array:
        """Apply to points the isometry that takes the origin to a public center.

        This is the inverse of `move_to_origin`: it brings results back.

        Parameters
        ----------
        center : array of shape point_shape
            The center of a public ball.
        X : array of shape (..., *point_shape)
            Points, as `move_to_origin` returns them.

        Returns
        -------
        array of shape (..., *point_shape)
            The points where they belong.
        """
        return self._move(self.canonical_center(center), center, X)

    def _move(self, start: Array, end: Array, X: Array) -> Array:
        """Move points so that normal coordinates at `start` become those at `end`.

        `move_to_origin` and `move_from_origin` are this map, in the two directions.

        Parameters
        ----------
        start, end : arrays of shape point_shape
            Two public points.
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved points; X itself if `start` and `end` are the same.
        """
        if np.array_equal(start, end):
            return X
        coordinates = self.normal_coordinates(like(X, start), X)
        return self.from_normal_coordinates(like(X, end), coordinates)


def canonical_center(M: Manifold, center: Array) -> Array:
    """Return the point to which `move_to_origin` takes a public center.

    This is the origin if the space has an isometry in closed form that takes the center
    there. On other compact spaces, where floats represent all points equally well,
    nothing moves and the result is the center itself.

    Parameters
    ----------
    M : Manifold
        The space.
    center : array of shape point_shape
        The center of the public ball.

    Returns
    -------
    array of shape point_shape
        The origin or the center.

    Raises
    ------
    ParameterError
        For a center other than the origin on a Hadamard manifold without an isometry.
    """
    if isinstance(M, OriginIsometry):
        return M.canonical_center(center)
    is_unbounded = M.injectivity_radius == inf
    if is_unbounded and not np.array_equal(center, M.origin):
        raise ParameterError(
            f"{M!r} has no isometry from another center to its origin; leave the "
            "center out"
        )
    return center


def move_to_origin(M: Manifold, center: Array, X: Array) -> Array:
    """Move points by the isometry that takes a public center to its canonical place.

    Far from the origin of a Hadamard manifold, floats represent points with few digits,
    and round-off may change a result by more than one record does. Computing near the
    origin avoids this. The canonical place is the point of `canonical_center`.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The public center.
    X : array of shape (..., *point_shape)
        Points.

    Returns
    -------
    array of shape (..., *point_shape)
        The moved points; X itself if nothing moves.
    """
    if isinstance(M, OriginIsometry):
        return M.move_to_origin(center, X)
    canonical_center(M, center)  # refuses a center without an isometry
    return X


def move_from_origin(M: Manifold, center: Array, X: Array) -> Array:
    """Move points by the inverse of `move_to_origin` for the same center.

    Results that were computed near the origin are brought back by it.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    center : array of shape point_shape
        The public center.
    X : array of shape (..., *point_shape)
        Points.

    Returns
    -------
    array of shape (..., *point_shape)
        The moved points; X itself if nothing moves.
    """
    if isinstance(M, OriginIsometry):
        return M.move_from_origin(center, X)
    canonical_center(M, center)  # refuses a center without an isometry
    return X


# ---- boundary and curvature ----------------------------------------------------------


class ManifoldWithBoundary(Manifold):
    """Spaces with a boundary, across which geodesics do not continue."""

    @property
    @abstractmethod
    def boundary_distance(self) -> float:
        """Distance from the origin to the boundary; public balls must stay within it."""


def boundary_distance(M: Manifold) -> float:
    """Return the distance from the origin to the boundary of a space, or infinity.

    A public ball must have a smaller radius, because geodesics do not continue across
    the boundary. The distance is infinite if the space has no boundary.

    Parameters
    ----------
    M : Manifold
        The space. On a product it is the smallest distance of the factors.

    Returns
    -------
    float
        The distance.
    """
    if isinstance(M, ManifoldWithBoundary):
        return M.boundary_distance
    if len(M.factors) > 1:
        return min(boundary_distance(factor) for factor in M.factors)
    return inf


def ricci_lower_bound(M: Manifold) -> float:
    """Return a lower bound ≤ 0 of the Ricci curvatures Ric(u, u) of unit vectors u.

    The Ricci curvature bounds the growth of volume, and with it the normalizing
    constant of a noise law. There are three cases:

    - On a product the bound is the smallest of the factors' bounds.
    - On positive definite m×m matrices, real (β = 1) or Hermitian (β = 2), Ric(u, u) =
      −β·Σ_{i<j}(xᵢ − xⱼ)²/4 for u = diag(x) at the identity, which is at least
      −β·m·|x|²/4.
    - On all other spaces the bound is (dim − 1) times the lower bound of sectional
      curvatures.

    Parameters
    ----------
    M : Manifold
        The space.

    Returns
    -------
    float
        The bound; −inf if sectional curvatures have no lower bound.
    """
    if len(M.factors) > 1:
        return min(ricci_lower_bound(factor) for factor in M.factors)
    if isinstance(M, AffineInvariantCone):
        m, field_dimension = M.cone_size
        return -(m * field_dimension) / 4
    return (M.dim - 1) * min(M.curvature_bounds[0], 0.0)


def euclidean_factor(M: Manifold, p: Array) -> np.ndarray:
    """Return directions at p that span the Euclidean factor of a curved space.

    The manifold may be the product of a flat space and another space. The flat space is
    then called its Euclidean factor. Positive definite matrices have such a factor: the
    multiples of p form a line, and the space is the product of this line and the
    matrices of determinant 1.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    p : array of shape point_shape
        A point.

    Returns
    -------
    array, shape (k, dim)
        Coordinates at p of k orthonormal directions; k = 0 for most spaces.
    """
    if isinstance(M, AffineInvariantCone):
        return M.scaling_direction(p)
    return np.zeros((0, M.dim))


def bracket_jacobi_operator(M: Manifold, p: Array, v: Array) -> np.ndarray:
    """Return the Jacobi operator R_v = R(·, v)v of a symmetric space of matrices.

    At the identity the operator is R_V = −¼[[·, V], V] with the Lie bracket
    [A, B] = AB − BA. An isometry takes p to the identity and keeps coordinates. So V is
    the tangent vector at the identity whose coordinates are those of v at p.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    p : array of shape (..., *point_shape)
        A point.
    v : array of shape (..., *point_shape)
        A tangent vector at p.

    Returns
    -------
    array, shape (..., dim, dim)
        Symmetric matrices, in the coordinates of `M.to_coordinates`.
    """
    identity = M.origin
    basis = np.asarray(M.from_coordinates(identity, np.eye(M.dim)))

    # One V for each vector v, with an axis of length 1 for the vectors of the basis.
    coordinates = np.asarray(M.to_coordinates(p, v))
    V = np.asarray(M.from_coordinates(identity, coordinates))[..., None, :, :]

    # −¼[[E, V], V] for each vector E of the basis. With the bracket B = [E, V] this is
    # ¼(VB − BV).
    bracket = basis @ V - V @ basis
    double_bracket = (V @ bracket - bracket @ V) / 4
    return np.asarray(M.to_coordinates(identity, double_bracket))


# ---- what points are -----------------------------------------------------------------


class ScalableCone(Manifold):
    """Spaces of matrices whose points may be multiplied by positive numbers.

    If the data are measured in another unit, all points are multiplied by one number.
    This changes the logarithm of each determinant by the same constant, and changes no
    distance.
    """


class AffineInvariantCone(ScalableCone):
    """Positive definite matrices X on which all maps X ↦ LXL* are isometries."""

    @property
    @abstractmethod
    def cone_size(self) -> tuple[int, int]:
        """The pair (m, β): m rows; β = 1 for real and 2 for Hermitian matrices."""

    def scaling_direction(self, p: Array) -> np.ndarray:
        """Return the coordinates of the unit vector along the multiples of p.

        The vector spans the Euclidean factor of the space, as in SPD(m) =
        ℝ × SL(m)/SO(m). For m = 1 the space is a line without a curved part, and the
        result has no row.

        Parameters
        ----------
        p : array of shape point_shape
            A point.

        Returns
        -------
        array of shape (1, dim), or (0, 1) for m = 1
            The coordinates at p.
        """
        m, _ = self.cone_size
        if m == 1:
            return np.zeros((0, 1))
        return np.asarray(self.to_coordinates(p, p / np.sqrt(float(m))))[None]


class UnitQuadric(Manifold):
    """Unit quadrics Σ sᵢxᵢ² = ±1 of R^{dim+1}: the sphere and the hyperboloid."""

    @property
    @abstractmethod
    def embedding_signature(self) -> np.ndarray:
        """The signs sᵢ in the equation Σ sᵢxᵢ² = ±1 of the space, an array (dim + 1,)."""


class EmbeddedMean(Manifold):
    """Spaces with an embedding in R^k from which a mean can be brought back.

    The extrinsic mean of points is the point of the space whose embedding is nearest to
    the mean of the embedded points. Unlike the Fréchet mean it needs no search.
    """

    @property
    @abstractmethod
    def embedded_diameter(self) -> float:
        """Largest Euclidean distance between the embeddings of two points."""

    @abstractmethod
    def embed(self, X: Array) -> np.ndarray:
        """Return the embedding of points in a Euclidean space.

        Parameters
        ----------
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., k)
            Vectors of length at most 2 (NumPy). Distinct points have distinct vectors.
        """

    @abstractmethod
    def from_embedding(self, z: np.ndarray) -> np.ndarray:
        """Return the point whose embedding is nearest to a vector.

        The mean of embedded points lies between them, and not on the embedded space;
        this method brings it back.

        Parameters
        ----------
        z : array of shape (k,)
            A vector of the Euclidean space of `embed`.

        Returns
        -------
        array of shape point_shape
            The point (NumPy).
        """


# ---- cheaper kernels where noise hides the last digits -------------------------------


class CheapKernels(Manifold):
    """Spaces that have cheaper kernels for uses in which noise hides the last digits.

    By default the cheaper kernels are the accurate ones. A space overrides those that
    it can speed up.
    """

    def fast_normal_coordinates(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return normal coordinates at one p of many points q, to 1e-8 of their length.

        Parameters
        ----------
        p : array of shape point_shape
            The point at which the coordinates are taken (NumPy).
        q : array of shape (n, *point_shape)
            The points that they describe.

        Returns
        -------
        array of shape (n, dim)
            The coordinates; each row depends on its own point alone.
        """
        return np.asarray(self.normal_coordinates(p, q))

    def rough_normal_coordinates(self, p: Array, q: Array) -> Array:
        """Return the normal coordinates at p of points q, without their last digits.

        Optimizers use this for steps whose noise is far larger than the error.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the coordinates are taken, and the points they describe.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        return self.normal_coordinates(p, q)

    def rough_from_normal_coordinates(self, p: Array, z: Array) -> Array:
        """Return the point with normal coordinates z at p, without its last digits.

        Optimizers use this for steps whose noise is far larger than the error.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            The point at which the coordinates are taken.
        z : array of shape (..., dim)
            Normal coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            The points.
        """
        return self.from_normal_coordinates(p, z)

    def transport_coordinates(self, p: Array, q: Array, z: Array) -> Array:
        """Return the coordinates at q of the transported vector with coordinates z.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point where the vector is, and the point to which it is moved.
        z : array of shape (..., dim)
            Its coordinates at p.

        Returns
        -------
        array of shape (..., dim)
            The coordinates of the moved vector at q.
        """
        return _transport_coordinates(self, p, q, z)


def fast_normal_coordinates(M: Manifold, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the normal coordinates at one p of many points, to 1e-8 of their length.

    This is faster than `normal_coordinates` on some spaces. More digits are of no use
    where noise is added. Each row of the result depends on its own point alone.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    p : array of shape point_shape
        The point at which the coordinates are taken.
    q : array of shape (n, *point_shape)
        The points that they describe.

    Returns
    -------
    array of shape (n, dim)
        The coordinates.
    """
    if isinstance(M, CheapKernels):
        return M.fast_normal_coordinates(p, q)
    return np.asarray(M.normal_coordinates(p, q))


def rough_normal_coordinates(M: Manifold, p: Array, q: Array) -> Array:
    """Return the normal coordinates at p of points q, perhaps without their last digits.

    Optimizers use this function for steps whose noise is far larger than the error.
    Only spaces with `CheapKernels` return fewer digits; all others are accurate.

    Parameters
    ----------
    M : Manifold
        The space.
    p, q : arrays of shape (..., *point_shape)
        The point at which the coordinates are taken, and the points they describe.

    Returns
    -------
    array of shape (..., dim)
        The coordinates.
    """
    if isinstance(M, CheapKernels):
        return M.rough_normal_coordinates(p, q)
    return M.normal_coordinates(p, q)


def rough_from_normal_coordinates(M: Manifold, p: Array, z: Array) -> Array:
    """Return the point with normal coordinates z at p, perhaps without its last digits.

    Optimizers use this function for steps whose noise is far larger than the error.
    Only spaces with `CheapKernels` return fewer digits; all others are accurate.

    Parameters
    ----------
    M : Manifold
        The space.
    p : array of shape (..., *point_shape)
        The point at which the coordinates are taken.
    z : array of shape (..., dim)
        Normal coordinates.

    Returns
    -------
    array of shape (..., *point_shape)
        The points.
    """
    if isinstance(M, CheapKernels):
        return M.rough_from_normal_coordinates(p, z)
    return M.from_normal_coordinates(p, z)


def transport_coordinates(M: Manifold, p: Array, q: Array, z: Array) -> Array:
    """Return the coordinates at q of the transported vector with coordinates z at p.

    A space with `CheapKernels` may compute them directly, without tangent vectors.

    Parameters
    ----------
    M : Manifold
        The space.
    p, q : arrays of shape (..., *point_shape)
        The point where the vector is, and the point to which it is moved.
    z : array of shape (..., dim)
        Its coordinates at p.

    Returns
    -------
    array of shape (..., dim)
        The coordinates of the moved vector at q.
    """
    if isinstance(M, CheapKernels):
        return M.transport_coordinates(p, q, z)
    return _transport_coordinates(M, p, q, z)


def _transport_coordinates(M: Manifold, p: Array, q: Array, z: Array) -> Array:
    """Transport a vector by `M.transport`, from its coordinates at p to those at q.

    Parameters
    ----------
    M : Manifold
        The space.
    p, q : arrays of shape (..., *point_shape)
        The point where the vector is, and the point to which it is moved.
    z : array of shape (..., dim)
        Its coordinates at p.

    Returns
    -------
    array of shape (..., dim)
        The coordinates of the moved vector at q.
    """
    vector = M.from_coordinates(p, z)
    return M.to_coordinates(q, M.transport(p, q, vector))
