"""The interface of a manifold: one set of points with one Riemannian metric. A manifold
is a frozen value. Its kernels (`exp`, `log`, `transport`, …) take the point first,
broadcast over leading axes, run on every array library (`curvedp.numerics.arrays`),
never validate values and use no randomness. A subclass states constants and closed
forms; what follows from them is here. Abilities that only some spaces have are in
`capabilities`; `docs/project/extending.md` shows how to write a manifold.
"""

from abc import ABC, abstractmethod
from dataclasses import FrozenInstanceError
from functools import cached_property
from math import inf, pi, sqrt
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from curvedp import _validate
from curvedp._registry import Registry
from curvedp.errors import ParameterError
from curvedp.geometry.float_set import FloatSet
from curvedp.numerics.arrays import Array as Array
from curvedp.numerics.arrays import accepts_array_like, wrap_kernels

OFF_MANIFOLD_TOLERANCE = 1e-6
"""A public point (a center, a start) whose `residual` is above this is refused."""

_LARGEST_SIZE = 2**53  # whole numbers up to this one are exact as doubles


manifold_kinds: Registry[type["Manifold"]] = Registry((), "curvedp.manifolds")
"""The classes of manifolds by their `kind`, such as ``"sphere"``. Other packages add
their classes by an entry point of the group ``curvedp.manifolds``.
"""


class NamedSpace:
    """A space with a short name for certificates and command lines, such as ``sphere:2``.

    Attributes
    ----------
    kind : str or None
        The word for the class, such as ``"sphere"``. A class that sets a kind is
        entered in `manifold_kinds`. A class without a kind has no name, and a release
        on it has no certificate.
    sizes : tuple of (str, int)
        The fields that are whole numbers, each with its smallest allowed value.
    """

    kind: ClassVar[str | None] = None
    sizes: ClassVar[tuple[tuple[str, int], ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Enter a new class in `manifold_kinds`, and let its kernels take array-likes.

        Python calls this method when a subclass is defined. The kernels of the subclass
        (`exp`, `log`, …) are wrapped so that lists and integers work as arguments. If
        the subclass sets `kind`, `parse_manifold` knows it by that word.

        Parameters
        ----------
        **options : object
            Keywords of the class statement, passed on to the next base class.

        Raises
        ------
        ParameterError
            If another class has the same `kind`.
        """
        super().__init_subclass__(**options)
        wrap_kernels(cls)

        kind = cls.__dict__.get("kind")
        if kind is None:
            return

        # A class of the same module and name is this one, reloaded; any other is a
        # conflict.
        known = manifold_kinds.defined().get(kind)
        identity = (cls.__module__, cls.__qualname__)
        if known is not None and (known.__module__, known.__qualname__) != identity:
            raise ParameterError(
                f"is the name of {known.__name__} already", parameter="kind", value=kind
            )
        manifold_kinds.add(kind, cls)  # type: ignore[arg-type]  # only manifolds have one

    def __post_init__(self) -> None:
        """Check the sizes of a new instance: whole numbers, each at least its minimum.

        The minimums are in `sizes`. A size of another integer type, such as a NumPy
        integer, is replaced by the equal `int`.

        Raises
        ------
        ParameterError
            If a size is not a whole number, or is below its minimum.
        """
        values = _validate.field_values(self)
        for name, minimum in self.sizes:
            size = values[name]
            is_valid = type(size) is int and minimum <= size <= _LARGEST_SIZE
            if not is_valid:
                validated = _validate.integer(name, size, minimum)
                object.__setattr__(self, name, validated)

    @cached_property
    def name(self) -> str:
        """Return the name that `parse_manifold` reads back, such as ``sphere:2``.

        Raises
        ------
        ParameterError
            If the class has no `kind` of its own.
        """
        kind = type(self).__dict__.get("kind")
        if kind is None:
            raise ParameterError(
                f"{type(self).__name__} has no name: set its class attribute `kind` "
                "to a word that no other manifold uses"
            )
        sizes = [str(size) for size in _validate.field_values(self).values()]
        return f"{kind}:{','.join(sizes)}"


class Manifold(NamedSpace, ABC):
    """One set of points with one Riemannian metric.

    Subclasses are frozen dataclasses: without state, hashable and comparable. Points
    and tangent vectors are float64 arrays whose last axes are those of `point_shape`.
    Where a point is an equivalence class (a subspace, a shape), any representative of
    the class stands for it.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> manifold_kinds.find("sphere") is Sphere, Sphere(2).name
    (True, 'sphere:2')
    """

    # ---- constants -------------------------------------------------------------------

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the manifold."""

    @property
    @abstractmethod
    def point_shape(self) -> tuple[int, ...]:
        """Shape of one point; every array of points ends with these axes."""

    @property
    @abstractmethod
    def origin(self) -> Array:
        """A public reference point (NumPy float64)."""

    @property
    @abstractmethod
    def curvature_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of all sectional curvatures; (0, 0) on curves."""

    @property
    @abstractmethod
    def injectivity_radius(self) -> float:
        """Length up to which every geodesic is shortest; inf on Hadamard manifolds."""

    @property
    @abstractmethod
    def is_homogeneous(self) -> bool:
        """Whether for any two points an isometry of the space carries one to the other.

        If so, the normalizing constant of a noise law around a center, which has a
        density in the distance alone, does not depend on the center.
        """

    @property
    def is_symmetric(self) -> bool:
        """Whether this is a Riemannian symmetric space, with its closed forms.

        If so, `transport` is the parallel transport and `jacobi_operator` is known.
        """
        return False

    @cached_property
    def convexity_radius(self) -> float:
        """Return a radius below which geodesic balls are strongly convex.

        Two points of such a ball are joined by one shortest geodesic, which stays in
        it. With i the injectivity radius and κ the upper curvature bound the radius is
        min(i/2, π/(2√κ)), or i/2 for κ ≤ 0 (Chavel 2006, Theorem IX.6.1).
        """
        upper_curvature = self.curvature_bounds[1]
        if upper_curvature > 0:
            return min(self.injectivity_radius / 2, pi / (2 * sqrt(upper_curvature)))
        return self.injectivity_radius / 2

    @cached_property
    def constant_curvature(self) -> float | None:
        """Return κ if every tangent plane has sectional curvature κ, otherwise None.

        It is 0 on curves, which have no tangent planes.
        """
        low, high = self.curvature_bounds
        return low if low == high else None

    @cached_property
    def jacobi_spectrum(self) -> tuple[tuple[float, int], ...] | None:
        """Return the nonzero eigenvalues of the Jacobi operator of a unit velocity.

        These eigenvalues are the curvatures of the planes that contain the velocity.
        They are returned as pairs (κ, multiplicity), or as None if they depend on the
        velocity. Noise laws need them for the volume density of exp_p: at distance r it
        is the product of (sn_κ(r)/r)^multiplicity, where sn_κ(r) is sin(√κ·r)/√κ, or
        sinh(√−κ·r)/√−κ for κ < 0. On spaces with a Euclidean factor
        (`capabilities.euclidean_factor`), r is the length of the part of the velocity
        orthogonal to that factor.
        """
        kappa = self.constant_curvature
        if kappa is None:
            return None
        multiplicity = self.dim - 1
        if kappa == 0 or multiplicity == 0:
            return ()
        return ((kappa, multiplicity),)

    @cached_property
    def float_set(self) -> FloatSet:
        """Return the set of points that float64 coordinates represent well.

        Clipping (`project_to_ball`) moves records into this set, so that round-off
        changes a result by less than one record does. By default the set contains every
        point.
        """
        return FloatSet()

    # ---- products --------------------------------------------------------------------

    @property
    def factors(self) -> tuple["Manifold", ...]:
        """The manifolds whose product this is; itself alone unless a `Product`.

        `spaces.product` has functions that split points into their parts.
        """
        return (self,)

    # ---- geodesics and the metric ----------------------------------------------------

    @abstractmethod
    def exp(self, p: Array, v: Array) -> Array:
        """Return the exponential map: the point reached from p in unit time.

        The geodesic starts at p with velocity v.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            The points where the geodesics start.
        v : array of shape (..., *point_shape)
            Their velocities, tangent vectors at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points; their distance from p is |v| up to the injectivity radius.
        """

    @abstractmethod
    def log(self, p: Array, q: Array) -> Array:
        """Return the logarithm: the shortest velocity that carries p to q in unit time.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Points. Where several shortest geodesics join them, one is chosen.

        Returns
        -------
        array of shape (..., *point_shape)
            Tangent vectors v at p with exp(p, v) = q and |v| = dist(p, q).
        """

    @abstractmethod
    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the Riemannian inner product ⟨u, v⟩ at the point p.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        u, v : arrays of shape (..., *point_shape)
            Tangent vectors at p.

        Returns
        -------
        array of shape (...)
            The inner products.
        """

    @abstractmethod
    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Move the tangent vector v from p to q by a linear isometry.

        On symmetric spaces (`is_symmetric`) the isometry is parallel transport along
        the shortest geodesic. On other spaces it carries at least the velocity of that
        geodesic at p to its velocity at q.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point where the vector is, and the point to which it is moved.
        v : array of shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved vectors, tangent at q and as long as v.
        """

    @accepts_array_like
    def norm(self, p: Array, v: Array) -> Array:
        """Return the Riemannian length of the tangent vector v at p.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (...)
            The lengths.
        """
        square = self.inner(p, v, v)
        xp = array_namespace(square)
        # A negative square is the round-off of 0. The inner `where` keeps gradients
        # finite at 0, and NaN stays NaN: a length of 0 would hide a missing record.
        positive = xp.where(square > 0, square, xp.ones_like(square))
        return xp.where(square > 0, xp.sqrt(positive), 0 * square)

    @accepts_array_like
    def dist(self, p: Array, q: Array) -> Array:
        """Return the Riemannian distance of p and q: the length of log(p, q).

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (...)
            The distances.
        """
        return self.norm(p, self.log(p, q))

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return the Jacobi operator R_v = R(·, v)v at p as a symmetric matrix.

        Regression needs it for the derivatives of `exp`. R is the curvature tensor:
        along the geodesic with velocity v, Jacobi fields solve J'' = −R_v J, and for an
        orthonormal pair v, w the sectional curvature is ⟨R_v w, w⟩. On a space of
        constant curvature κ the matrix is κ(|z|²I − zzᵀ), where z are the coordinates
        of v. Other symmetric spaces override this method.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            Points, and tangent vectors at them.

        Returns
        -------
        array of shape (..., dim, dim)
            One matrix for each vector, in the coordinates of `to_coordinates` (NumPy).

        Raises
        ------
        ParameterError
            If the space has no closed form.
        """
        kappa = self.constant_curvature
        if kappa is None:
            raise ParameterError(
                f"the curvature operator of {self!r} is not known in closed form"
            )
        z = np.asarray(self.to_coordinates(p, v))
        return np.asarray(kappa * orthogonal_square(z))

    # ---- points and tangent vectors among arrays -------------------------------------

    @abstractmethod
    def project(self, x: Array) -> Array:
        """Return a point of the manifold near the ambient array x.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Any finite numbers, such as a point that lost digits to round-off.

        Returns
        -------
        array of shape (..., *point_shape)
            Points; a point of the manifold returns itself up to round-off.
        """

    @accepts_array_like
    def from_record(self, x: Array) -> Array:
        """Return the point that a record x stands for, or NaN if there is none.

        The point is the one nearest to x, relative to the scale of x and however far
        away. A record of zeros, or a singular one, has no single nearest point. By
        default the point is `project(x)` if that is on the manifold. Each result
        depends on its own record alone.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.

        Returns
        -------
        array of shape (..., *point_shape)
            The points; NaN for a record that has none.
        """
        point = self.project(x)
        xp = array_namespace(point)
        is_point = self.residual(point) <= OFF_MANIFOLD_TOLERANCE  # NaN fails

        # One truth value for each point, with axes of length 1 for the point's axes.
        mask = xp.reshape(is_point, is_point.shape + (1,) * len(self.point_shape))
        return xp.where(mask, point, xp.nan)

    @abstractmethod
    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the tangent vector at p that is nearest to the ambient array x.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        x : array of shape (..., *point_shape)
            Any numbers, such as a tangent vector that lost digits, or an ambient
            gradient.

        Returns
        -------
        array of shape (..., *point_shape)
            Tangent vectors at p, nearest in the norm of the ambient space.
        """

    @abstractmethod
    def residual(self, p: Array) -> Array:
        """Return how far an array is from satisfying the manifold's equations.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The errors of the equations, such as | |p| − 1 | on a sphere: 0 on the
            manifold.
        """

    def belongs(self, p: Array, atol: float = OFF_MANIFOLD_TOLERANCE) -> Array:
        """Return which arrays are points of the manifold, up to a tolerance.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.
        atol : float
            The largest `residual` that counts as round-off.

        Returns
        -------
        array of bool, shape (...)
            True where the residual is at most `atol`.

        Examples
        --------
        >>> from curvedp.geometry import Sphere
        >>> Sphere(2).belongs(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]]))
        array([ True, False])
        """
        return self.residual(p) <= atol

    def random_point(self, rng: np.random.Generator, n: int | None = None) -> Array:
        """Draw points near the origin, for examples and tests.

        Directions from the origin are uniform. Distances are uniform between 0 and the
        smaller of 1 and half the injectivity radius. So the points are not uniform on
        the space.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the draws.
        n : int, optional
            The number of points. By default a single point is returned, without a
            leading axis.

        Returns
        -------
        array of shape (n, *point_shape) or point_shape
            The points.
        """
        count = 1 if n is None else n
        longest = 1.0
        if 0 < self.injectivity_radius < inf:
            longest = min(1.0, self.injectivity_radius / 2)

        directions = rng.normal(size=(count, self.dim))
        directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
        distances = longest * rng.uniform(size=(count, 1))
        points = self.from_normal_coordinates(self.origin, distances * directions)
        return points[0] if n is None else points

    # ---- coordinates -----------------------------------------------------------------

    @abstractmethod
    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with coordinates z in an orthonormal frame.

        For each p this is a linear isometry from R^dim to the tangent space at p. So
        Gaussian noise with covariance σ²I in coordinates is isotropic in the metric.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        z : array of shape (..., dim)
            Coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            Tangent vectors at p, as long as z.
        """

    @abstractmethod
    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the coordinates of v at p: the inverse of `from_coordinates`.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            Points, and tangent vectors at them.

        Returns
        -------
        array of shape (..., dim)
            The coordinates, whose Euclidean length is |v|.
        """

    def normal_coordinates(self, p: Array, q: Array) -> Array:
        """Return the normal coordinates of q at p: the coordinates of log(p, q).

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the coordinates are taken, and the point that they
            describe.

        Returns
        -------
        array of shape (..., dim)
            The coordinates, whose Euclidean length is dist(p, q).
        """
        return self.to_coordinates(p, self.log(p, q))

    def from_normal_coordinates(self, p: Array, z: Array) -> Array:
        """Return the point with normal coordinates z at p: exp(p, from_coordinates(p, z)).

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
        return self.exp(p, self.from_coordinates(p, z))


class FrozenManifold(Manifold):
    """A frozen dataclass whose subclasses need not be declared as dataclasses.

    The decorator freezes only the classes that it is applied to; a subclass without
    it would otherwise allow its fields to be set.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse to set a field: instances are values that never change."""
        raise FrozenInstanceError(f"cannot assign to field {name!r}")


def follow_geodesic(
    M: Manifold, p: Array, v: Array, time: float
) -> tuple[Array, Array]:
    """Follow the geodesic γ with γ(0) = p and γ'(0) = v, for any time.

    It is computed in pieces no longer than half the injectivity radius, because
    `M.transport` follows the shortest geodesic only.

    Parameters
    ----------
    M : Manifold
        The space of the geodesic.
    p, v : arrays of shape point_shape
        One point, and one tangent vector at it.
    time : float
        The time t for which the geodesic is followed; it may be negative.

    Returns
    -------
    point : array of shape point_shape
        γ(time).
    velocity : array of shape point_shape
        γ'(time), a tangent vector at that point.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> follow_geodesic(Euclidean(1), np.zeros(1), np.ones(1), 2.0)
    (array([2.]), array([1.]))
    """
    # So many pieces that each is at most half the injectivity radius long.
    length = abs(time) * float(M.norm(p, v))
    pieces = 1 + int(2 * length / M.injectivity_radius)

    for _ in range(pieces):
        q = M.exp(p, (time / pieces) * v)
        v = M.transport(p, q, v)
        p = q
    return p, v


def orthogonal_square(z: np.ndarray) -> np.ndarray:
    """Return |z|²I − zzᵀ, the Jacobi operator of the unit sphere for velocity z.

    As a quadratic form in w it is the squared area that w spans with z, which is
    |z|² times the square of the part of w orthogonal to z.

    Parameters
    ----------
    z : array of shape (..., dim)
        Coordinates of velocities.

    Returns
    -------
    array of shape (..., dim, dim)
        The symmetric matrices.
    """
    squared_length = np.sum(z * z, axis=-1)[..., None, None]
    outer_product = z[..., :, None] * z[..., None, :]
    return np.asarray(squared_length * np.eye(z.shape[-1]) - outer_product)


def check_manifold(manifold: Any) -> Manifold:
    """Return the argument if it is a manifold, and refuse it otherwise.

    Public functions call it on their argument `manifold`, to refuse anything else with
    a clear message.

    Parameters
    ----------
    manifold : object
        The argument that a caller passes as a manifold.

    Returns
    -------
    Manifold
        The argument.

    Raises
    ------
    ParameterError
        If it is anything else.
    """
    if not isinstance(manifold, Manifold):
        raise ParameterError(
            "must be a manifold, such as geometry.Sphere(2)",
            parameter="manifold",
            value=manifold,
        )
    return manifold
