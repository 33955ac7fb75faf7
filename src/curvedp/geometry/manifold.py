"""What a manifold is here: one set with one metric, as a frozen value with batched
Array-API kernels.

Kernels take the point first, broadcast over leading axes, run on any array library
(`array_namespace`), never validate, and use no randomness. Lists and whole numbers are
taken as doubles (`accepts_array_like`). A subclass states its constants and closed
forms; what follows from them is here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, fields
from functools import cached_property
from math import inf, pi, prod, sqrt
from typing import Any, ClassVar, TypeVar

import numpy as np
from array_api_compat import array_namespace

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.numerics.arrays import Array as Array
from curvedp.numerics.arrays import accepts_array_like, like, wrap_kernels

Fact = TypeVar("Fact")
OFF_MANIFOLD_TOLERANCE = 1e-6
"""A public point (a center, a start) whose `residual` is above this is refused."""


def fact(of: Callable[[Any], Fact]) -> Fact:
    """An attribute that follows from the sizes, worked out once."""
    return cached_property(of)  # type: ignore[return-value]  # what an instance sees of it


class Manifold(ABC):
    """One set with one Riemannian metric. Subclasses are frozen dataclasses: stateless,
    hashable, comparable.

    Attributes
    ----------
    kind
        What certificates and command lines call the class, such as `sphere`; `name`
        adds the sizes. A class that sets none has no name, and nothing on it can be
        certified.
    kinds
        Every class that has one, by its `kind`.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> Manifold.kinds["sphere"] is Sphere, Sphere(2).name
    (True, 'sphere:2')
    """

    kind: ClassVar[str | None] = None
    kinds: ClassVar[dict[str, type["Manifold"]]] = {}
    sizes: ClassVar[
        tuple[tuple[str, int], ...]
    ] = ()  # fields that are whole numbers, and the least that each may be

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        wrap_kernels(cls)
        kind = cls.__dict__.get("kind")
        if kind is None:
            return
        known = Manifold.kinds.setdefault(kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ParameterError(
                f"is the name of {known.__name__} already", parameter="kind", value=kind
            )
        Manifold.kinds[kind] = cls

    def __post_init__(self) -> None:
        for name, least in self.sizes:
            if not (
                type(size := getattr(self, name)) is int and least <= size <= 2**53
            ):
                object.__setattr__(self, name, _validate.integer(name, size, least))

    @cached_property
    def name(self) -> str:
        """The name that `parse_manifold` reads back, such as `sphere:2`; a
        `ParameterError` where the class has none.
        """
        kind = type(self).__dict__.get("kind")
        if kind is None:
            raise ParameterError(
                f"{type(self).__name__} has no name: set its class attribute `kind`, its own word"
            )
        return f"{kind}:{','.join(str(getattr(self, field.name)) for field in fields(self))}"  # type: ignore[arg-type]  # every manifold is a dataclass

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the manifold."""

    @property
    @abstractmethod
    def point_shape(self) -> tuple[int, ...]:
        """Shape of one point; every array ends with these axes."""

    @property
    @abstractmethod
    def origin(self) -> Array:
        """A public reference point (NumPy float64)."""

    @property
    @abstractmethod
    def curvature_bounds(self) -> tuple[float, float]:
        """Lower and upper bound on the sectional curvatures; (0, 0) on curves, which
        have none.
        """

    @property
    @abstractmethod
    def injectivity_radius(self) -> float:
        """Radius up to which `log` inverts `exp`; inf on Hadamard manifolds."""

    @cached_property
    def convexity_radius(self) -> float:
        """Geodesic balls of a smaller radius are strongly convex: min(injectivity/2,
        π/(2√κ)) (Chavel 2006, Thm IX.6.1).
        """
        high = self.curvature_bounds[1]
        return min(
            self.injectivity_radius / 2, pi / (2 * sqrt(high)) if high > 0 else inf
        )

    @property
    @abstractmethod
    def is_homogeneous(self) -> bool:
        """Whether isometries carry any point to any other: normalizing constants do not
        depend on the footpoint.
        """

    @cached_property
    def constant_curvature(self) -> float | None:
        """κ where every plane has it, 0 on curves and flat spaces; else None."""
        low, high = self.curvature_bounds
        return low if low == high else None

    @cached_property
    def ricci_lower_bound(self) -> float:
        """At most every Ricci curvature Ric(u, u), |u| = 1, and at most 0."""
        if len(self.factors) > 1:
            return min(factor.ricci_lower_bound for factor in self.factors)
        if (
            self.positive_matrices is not None
        ):  # along diag(x): −β·Σ_{i<j}(xᵢ−xⱼ)²/4 >= −βm|x|²/4
            return -prod(self.positive_matrices) / 4
        return (self.dim - 1) * min(self.curvature_bounds[0], 0.0)

    @cached_property
    def jacobi_spectrum(self) -> tuple[tuple[float, int], ...] | None:
        """(κ, multiplicity) of the curvatures κ ≠ 0 across a unit velocity; None where
        they depend on the velocity. The density of exp_p is ∏(sn_κ(r)/r)^multiplicity.
        Where there are `euclidean_factor`, r is the length of the velocity without its
        part along them.
        """
        kappa, across = self.constant_curvature, self.dim - 1
        return None if kappa is None else ((kappa, across),) if kappa and across else ()

    is_symmetric: bool = False
    """Whether this is a Riemannian symmetric space with `jacobi_operator` and parallel
    `transport` in closed form.
    """
    is_linear: bool = False
    """Whether points are vectors, exp(p, v) = p + v and coordinates are the vectors
    themselves.
    """
    is_cone: bool = False
    """Whether positive multiples of points are points: then log det is a public
    coordinate that tells their unit.
    """
    reduces: bool = False
    """Whether points are real covariance matrices, of which fewer channels are a
    covariance matrix again.
    """
    carries: bool = False
    """Whether reading at one point the coordinates of logarithms at another is an
    isometry of the whole space.
    """
    quadric: np.ndarray | None = None
    """Signs s of the form Σ s_i x_i² whose unit quadric in R^{dim+1} this is (sphere,
    hyperboloid); else None.
    """
    positive_matrices: tuple[int, int] | None = None
    """(m, β): points are positive definite m×m matrices X, real (β = 1) or Hermitian
    (2: real and imaginary parts along the last axis), and all X ↦ LXL* are isometries.
    """
    subspaces: tuple[int, int] | None = None
    """(p, q), p ≤ q: points are subspaces of dimension p or q of ℝ^{p+q}, at the
    distance √Σθ² of their angles.
    """
    embedded_diameter: float | None = None
    """Largest distance between embedded points; None where there is no embedding whose
    means can be brought back.
    """
    boundary_distance: float = inf
    """From the origin to the boundary; inf where there is none."""
    float_reach: float = inf
    """How far from the origin doubles carry: beyond this distance coordinates overflow
    or no longer tell points apart.
    """
    held_reach: float = inf
    """Distance from the origin up to which float64 coordinates hold every point well;
    records beyond may be pulled in.
    """

    @property
    def factors(self) -> tuple["Manifold", ...]:
        """The manifolds whose product this is: itself alone, unless the class says
        otherwise.
        """
        return (self,)

    def split(self, x: Array) -> tuple[Array, ...]:
        """The parts of a point or tangent vector, one for each factor."""
        return (x,)

    def join(self, parts: Sequence[Array]) -> Array:
        """Inverse of `split`."""
        return parts[0]

    @abstractmethod
    def exp(self, p: Array, v: Array) -> Array:
        """The point reached from p after unit time with velocity v."""

    @abstractmethod
    def log(self, p: Array, q: Array) -> Array:
        """The shortest velocity that carries p to q."""

    @abstractmethod
    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Riemannian inner product of two tangent vectors at p."""

    @abstractmethod
    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """v moved from p to q by an isometry (parallel along the shortest geodesic,
        unless the class says otherwise).
        """

    @abstractmethod
    def project(self, x: Array) -> Array:
        """A point of the manifold near the ambient x."""

    @accepts_array_like
    def from_record(self, x: Array) -> Array:
        """The point that a record x stands for: the nearest one relative to x's own
        scale, however far x is from it. NaN where there is none, or no single one: what
        is zero or singular. By default what `project` makes of x, where that is on the
        manifold. Each result depends on its own record alone.
        """
        point = self.project(x)
        xp = array_namespace(point)
        on = self.residual(point) <= OFF_MANIFOLD_TOLERANCE  # NaN fails
        return xp.where(
            xp.reshape(on, on.shape + (1,) * len(self.point_shape)), point, xp.nan
        )

    @abstractmethod
    def to_tangent(self, p: Array, x: Array) -> Array:
        """The tangent vector at p nearest to the ambient x."""

    @abstractmethod
    def residual(self, p: Array) -> Array:
        """How far p is from satisfying the manifold's equations; 0 on the manifold."""

    @abstractmethod
    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Linear isometry from R^dim (last axis of z) to the tangent space at p."""

    @abstractmethod
    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Inverse of `from_coordinates`."""

    def held_share(self, z: Array) -> Array:
        """The share, at most 1, to which coordinates z at the origin are shortened so
        that floats hold the point well. The points with share 1 must form a set that
        holds the Fréchet mean of any of its points.
        """
        return array_namespace(z).ones_like(z[..., 0])

    def held_coordinates(self, z: Array) -> Array:
        """Coordinates z at the origin moved into the set of share 1, left alone in it,
        by a map that stretches nothing.
        """
        return (
            z * self.held_share(z)[..., None]
        )  # of a set that is no ball about 0, this would stretch: override it

    def held_radius(self, radius: float) -> float:
        """How far from the origin the points with share 1 of a ball about it can be."""
        return radius

    def float_spread(self, radius: float) -> float:
        """How far a point within `radius` of the origin moves, at most, when its
        coordinates are off by one part in 1.
        """
        return 1.0

    def home(self, center: Array) -> Array:
        """Where `to_origin` takes a public center: the origin, or the center itself
        where nothing moves. A `ParameterError` for another center than the origin on a
        space that is not compact and has no such isometry.
        """
        if self.carries:
            return self.origin
        if self.injectivity_radius == np.inf and not np.array_equal(
            center, self.origin
        ):
            raise ParameterError(
                f"{self!r} has no isometry from another center to its origin; leave "
                "the center out"
            )
        return center

    def to_origin(self, center: Array, X: Array) -> Array:
        """The points X moved by the isometry that takes `center` to the origin, where
        coordinates are well scaled. Far from the origin of a Hadamard manifold, the
        floats of a point say little about it. What is computed of records there depends
        on round-off more than on one record; carried to the origin first, it does not.
        On compact spaces points are well scaled everywhere and nothing moves.
        """
        return self._carried(center, self.home(center), X)

    def from_origin(self, center: Array, X: Array) -> Array:
        """The inverse of `to_origin`."""
        return self._carried(self.home(center), center, X)

    def _carried(self, start: Array, end: Array, X: Array) -> Array:
        if np.array_equal(start, end):
            return X
        return self.from_normal_coordinates(
            like(X, end), self.normal_coordinates(like(X, start), X)
        )

    def normal_coordinates(self, p: Array, q: Array) -> Array:
        """Normal coordinates at p of the point q: those of log(p, q)."""
        return self.to_coordinates(p, self.log(p, q))

    def from_normal_coordinates(self, p: Array, z: Array) -> Array:
        """The point with these normal coordinates at p: exp of the tangent vector that
        has them.
        """
        return self.exp(p, self.from_coordinates(p, z))

    def quick_chart(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """`normal_coordinates` at one p of many points (NumPy), to 1e-8 of its length:
        what noise is added to has no use for more. A point's coordinates depend on it
        alone.
        """
        return np.asarray(self.normal_coordinates(p, q))

    def rough_chart(self, p: Array, q: Array) -> Array:
        """`normal_coordinates` at one p without care for the last digits of near
        points, for steps that are drowned in noise.
        """
        return self.normal_coordinates(p, q)

    def rough_unchart(self, p: Array, z: Array) -> Array:
        """`from_normal_coordinates` at one p, likewise."""
        return self.from_normal_coordinates(p, z)

    def carry(self, p: Array, q: Array, z: Array) -> Array:
        """`transport` in coordinates: those at q of the tangent vector with coordinates
        z at p.
        """
        return self.to_coordinates(q, self.transport(p, q, self.from_coordinates(p, z)))

    def geodesic(self, p: Array, v: Array, time: float) -> tuple[Array, Array]:
        """(γ(time), γ'(time)) of the geodesic with γ(0) = p and γ'(0) = v, in pieces
        short enough for `transport`.
        """
        pieces = 1 + int(
            2 * abs(time) * float(self.norm(p, v)) / self.injectivity_radius
        )
        for _ in range(pieces):
            q = self.exp(p, (time / pieces) * v)
            p, v = q, self.transport(p, q, v)
        return p, v

    def euclidean_factor(self, p: Array) -> np.ndarray:
        """Coordinates (k, dim) at p of orthonormal directions that span a Euclidean
        factor of a curved space.
        """
        return np.zeros((0, self.dim))

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return the Jacobi operator R_v = R(·, v)v at p as a symmetric matrix.

        Along the geodesic with velocity v, Jacobi fields solve J'' = −R_v J; ⟨R_v w, w⟩
        is the sectional curvature of an orthonormal pair v, w. On a space of constant
        curvature κ it is κ(|z|²I − zzᵀ), z the coordinates of v; other symmetric
        spaces override this method.

        Parameters
        ----------
        p, v : array
            Points and tangent vectors there.

        Returns
        -------
        array, shape (..., dim, dim)
            In the coordinates of `to_coordinates` (NumPy).
        """
        kappa = self.constant_curvature
        if kappa is None:
            raise ParameterError(
                f"the curvature operator of {self!r} is not known in closed form"
            )
        z = np.asarray(self.to_coordinates(p, v))
        return np.asarray(kappa * orthogonal_square(z))

    def embedded(self, X: Array) -> np.ndarray:
        """Points as vectors along the last axis, of length at most 2 (NumPy)."""
        raise ParameterError(f"{self!r} has no embedding")

    def from_embedded(self, z: np.ndarray) -> np.ndarray:
        """The point whose embedding is nearest to a vector (NumPy)."""
        raise ParameterError(f"{self!r} has no embedding")

    @accepts_array_like
    def norm(self, p: Array, v: Array) -> Array:
        """Riemannian length of v."""
        square = self.inner(p, v, v)
        xp = array_namespace(square)
        # A negative square is round-off of a zero one; the inner where keeps
        # reverse-mode gradients finite at 0.
        safe = xp.where(square > 0, square, xp.ones_like(square))
        return xp.where(
            square > 0, xp.sqrt(safe), 0 * square
        )  # NaN stays NaN: a length of 0 would fail open

    @accepts_array_like
    def dist(self, p: Array, q: Array) -> Array:
        """Riemannian distance."""
        return self.norm(p, self.log(p, q))


class Inherited(Manifold):
    """A frozen dataclass whose subclasses need say nothing: dataclasses freeze only
    those that are declared as such.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")


def orthogonal_square(z: np.ndarray) -> np.ndarray:
    """Return |z|²I − zzᵀ, the Jacobi operator of the unit sphere for velocity z."""
    square = np.sum(z * z, axis=-1)[..., None, None]
    outer = z[..., :, None] * z[..., None, :]
    return np.asarray(square * np.eye(z.shape[-1]) - outer)


def bracket_jacobi_operator(M: Manifold, p: Array, v: Array) -> np.ndarray:
    """Return the Jacobi operator of a symmetric space of matrices by brackets.

    At the identity R_V = −¼[[·, V], V]. An isometry that keeps coordinates carries p to
    the identity, so v is read there through its coordinates.
    """
    identity = M.origin
    basis = np.asarray(M.from_coordinates(identity, np.eye(M.dim)))
    coordinates = np.asarray(M.to_coordinates(p, v))
    V = np.asarray(M.from_coordinates(identity, coordinates))[..., None, :, :]
    bracket = basis @ V - V @ basis
    double_bracket = (V @ bracket - bracket @ V) / 4
    return np.asarray(M.to_coordinates(identity, double_bracket))


def check_manifold(manifold: Any) -> Manifold:
    """A manifold of ours, or a `ParameterError`."""
    if not isinstance(manifold, Manifold):
        raise ParameterError(
            "must be a manifold, such as geometry.Sphere(2)",
            parameter="manifold",
            value=manifold,
        )
    return manifold
