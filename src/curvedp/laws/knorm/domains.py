"""Public domains of the K-norm gradient mechanism, as blocks of coordinates. A geodesic
ball about a center c is described by normal coordinates z: x = exp_c(z) with |z| at
most the radius. A ball of the tangent bundle has a second block, the coordinates of a
tangent vector at x that was transported to c.

Bounds of the volume, the stretch (Rauch) and the turn (holonomy) of these coordinates
are proved in docs/theory/knorm.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.capabilities import euclidean_factor
from curvedp.geometry.manifold import OFF_MANIFOLD_TOLERANCE, Manifold, check_manifold
from curvedp.laws.backend import Floats

# Largest dimension of a domain: the number of cells grows exponentially with it.
_MAX_DIMENSION = 4

# Largest √−κ·radius: beyond it the volume of the ball overflows float64.
_LARGEST_HYPERBOLIC_RADIUS = 300


@dataclass(frozen=True, eq=False)
class GeodesicBall:
    """The closed ball of a public radius about a public center.

    Parameters
    ----------
    manifold : Manifold
        A homogeneous symmetric space whose curvatures do not depend on the direction.
    center : array, optional
        The origin of the manifold by default.
    radius : float
        Below the injectivity radius.

    Raises
    ------
    ParameterError
        If the manifold, the center or the radius does not qualify.
    """

    manifold: Manifold
    center: ArrayLike | None = None
    radius: float = math.nan

    def __post_init__(self) -> None:
        """Check that exact sampling is possible in this ball, and that it is one.

        The space must have the same curvatures along every geodesic, and a small
        dimension; the radius must be below the injectivity radius.

        Raises
        ------
        ParameterError
            If the manifold, the center or the radius does not qualify.
        """
        self._check_space()
        radius = self._check_radius()
        object.__setattr__(self, "center", self._check_center())
        object.__setattr__(self, "radius", radius)

    def _check_space(self) -> None:
        """Raise an error if the volume of coordinates is not known, or cells are too many.

        The volume is known in closed form if all geodesics see the same curvatures. The
        number of cells grows exponentially with the dimension.
        """
        manifold = check_manifold(self.manifold)
        is_symmetric = manifold.is_symmetric and manifold.is_homogeneous
        if not is_symmetric or manifold.jacobi_spectrum is None:
            raise ParameterError(
                f"exact K-norm sampling on {manifold!r} is not available: its curvatures "
                "depend on the direction, or it is not stated that they do not "
                "(`jacobi_spectrum`, `is_symmetric`, `is_homogeneous`)"
            )
        if self.dim > _MAX_DIMENSION:
            raise ParameterError(
                f"{manifold!r} has dimension {manifold.dim}, "
                f"exact K-norm sampling allows {_MAX_DIMENSION}"
            )

    def _check_radius(self) -> float:
        """Return the radius; raise an error if it is too large.

        Below the injectivity radius each point has one set of coordinates. In negative
        curvature the volume of a large ball overflows.

        Returns
        -------
        float
            The radius.
        """
        radius = _validate.length("radius", self.radius)
        injectivity_radius = self.manifold.injectivity_radius
        if not radius < injectivity_radius:
            raise ParameterError(
                f"must be below the injectivity radius {injectivity_radius:g}",
                parameter="radius",
                value=radius,
            )
        lowest_curvature = min([0.0, *(kappa for kappa, _ in self.jacobi_spectrum)])
        if math.sqrt(-lowest_curvature) * radius > _LARGEST_HYPERBOLIC_RADIUS:
            raise ParameterError(
                "is too large: the volume of the ball overflows",
                parameter="radius",
                value=radius,
            )
        return radius

    def _check_center(self) -> Floats:
        """Return the center as an array; raise if it is not one point of the manifold.

        Called when a domain is made.

        Returns
        -------
        array, shape point_shape
            The center; by default the origin of the manifold.
        """
        manifold = self.manifold
        center = self.center if self.center is not None else manifold.origin
        point = _validate.array("center", center)
        is_point = point.shape == manifold.point_shape
        if not is_point or not manifold.residual(point) <= OFF_MANIFOLD_TOLERANCE:
            raise ParameterError(
                f"must be one point of {manifold!r}", parameter="center", value=point
            )
        return point

    @cached_property
    def jacobi_spectrum(self) -> tuple[tuple[float, int], ...]:
        """The curvatures κ across every geodesic, as pairs (κ, multiplicity)."""
        return self.manifold.jacobi_spectrum or ()

    @cached_property
    def flat_basis(self) -> Floats:
        """Orthonormal coordinate vectors, as rows, that span the flat directions.

        Positive definite matrices have one: multiples of a matrix form a line.
        """
        return np.asarray(euclidean_factor(self.manifold, self.center))

    @property
    def dim(self) -> int:
        """The dimension of the domain, the number of its coordinates."""
        return self.manifold.dim

    @property
    def radii(self) -> tuple[float, ...]:
        """The radius of each block of coordinates; here one block, that of the point x.

        Each block is a ball in ℝ^k, k the dimension of the manifold.
        """
        return (self.radius,)

    def points(self, z: Floats) -> tuple[Any, ...]:
        """Return the points exp_c(z) with coordinates z, c the center of the ball.

        Parameters
        ----------
        z : array of shape (N, 1, k)
            Normal coordinates at the center.

        Returns
        -------
        tuple of one array, shape (N, *point_shape)
            The arguments of the gradient norm at these coordinates.
        """
        manifold = self.manifold
        v = manifold.from_coordinates(self.center, z[:, 0])
        return (manifold.exp(self.center, v),)

    def log_volume(self, z: Floats) -> Floats:
        """Return log J at coordinates z, J the Jacobian of the exponential map exp_c.

        J = ∏ (sn_κ(r)/r)^n over the curvatures κ with multiplicities n, where r is the
        length of the part of z that is orthogonal to the flat directions.

        sn_κ(r) is sin(√κ·r)/√κ for κ > 0 and sinh(√−κ·r)/√−κ for κ < 0.

        Parameters
        ----------
        z : array, shape (n, n_blocks, k)
            Coordinates of tangent vectors at the center c.

        Returns
        -------
        array, shape (n,)
            log J.
        """
        r = self.curved_length(z)
        log_jacobian = np.zeros(len(z))
        for kappa, count in self.jacobi_spectrum:
            log_jacobian = log_jacobian + count * _log_sn_ratio(kappa, r)
        return log_jacobian

    def log_volume_bound(
        self, smallest_norm: Floats, largest_norm: Floats, curved_length: Floats
    ) -> Floats:
        """Return an upper bound of log J over cells of coordinates.

        J is the Jacobian of the exponential map (`log_volume`).

        Parameters
        ----------
        smallest_norm, largest_norm : arrays of shape (N, n_blocks)
            In each cell the norm of each block lies between them.
        curved_length : array of shape (N,)
            An upper bound of `curved_length` in each cell.

        Returns
        -------
        array, shape (N,)
            One bound for each cell.
        """
        bound = np.zeros(len(smallest_norm))
        for kappa, count in self.jacobi_spectrum:
            # sn_κ(r)/r falls with r for κ > 0 and grows for κ < 0.
            if kappa > 0:
                worst_radius = smallest_norm[:, 0]
            else:
                worst_radius = np.minimum(curved_length, largest_norm[:, 0])
            bound += count * _log_sn_ratio(kappa, worst_radius)
        return bound

    def curved_length(self, z: Floats) -> Floats:
        """Return the length of the part of z that is orthogonal to the flat directions.

        The Jacobian of the exponential map depends on this length alone.

        Parameters
        ----------
        z : array, shape (n, n_blocks, k)
            Coordinates of tangent vectors at the center.

        Returns
        -------
        array, shape (n,)
            The lengths.
        """
        # Subtract the projection on the flat directions.
        first_block = z[:, 0]
        flat_part = first_block @ self.flat_basis.T @ self.flat_basis
        return np.asarray(np.linalg.norm(first_block - flat_part, axis=-1))

    def lipschitz(self, constants: tuple[Any, ...], largest_norm: Floats) -> Floats:
        """Convert Lipschitz constants on the manifold to constants in coordinates.

        The exponential map at the center stretches distances by at most the factor
        `stretch`, and so the constant grows by that factor.

        Parameters
        ----------
        constants : tuple
            The constants of a function with respect to each of its arguments; numbers
            or arrays of shape (N,).
        largest_norm : array of shape (N, n_blocks)
            In each cell, an upper bound of the norm of each block of coordinates.

        Returns
        -------
        array of shape (N, n_blocks)
            The constants in coordinates, valid within each cell.
        """
        return np.asarray(constants[0] * self.stretch(largest_norm[:, :1]))

    def stretch(self, r: Floats) -> Floats:
        """Return a bound on how much exp stretches lengths at the distance r.

        By Rauch's theorem it is max(1, sn_κ(r)/r) for the least curvature κ. This is 1
        for κ >= 0, and sinh(√−κ·r)/(√−κ·r) for κ < 0.

        Parameters
        ----------
        r : array
            Distances from the center.

        Returns
        -------
        array
            Factors >= 1, of the shape of `r`.
        """
        curvatures = [kappa for kappa, _ in self.jacobi_spectrum]
        return np.exp(_log_sn_ratio(min([0.0, *curvatures]), r))


@dataclass(frozen=True, eq=False)
class TangentBundleBall(GeodesicBall):
    """The pairs (p, v) with p in a geodesic ball and ‖v‖ ≤ speed.

    The volume is dvol(p)·dv.

    Parameters
    ----------
    manifold : Manifold
        A homogeneous symmetric space whose curvatures do not depend on the direction.
    center : array, optional
        The center of the ball of p; by default the origin of the manifold.
    radius : float
        Its radius, below the injectivity radius.
    speed : float
        The largest norm of v.
    """

    speed: float = math.nan

    def __post_init__(self) -> None:
        """Check the dimension of the tangent bundle, the ball, and the speed.

        Raises
        ------
        ParameterError
            If one of them does not qualify.
        """
        dim = 2 * self.manifold.dim
        if dim > _MAX_DIMENSION:
            raise ParameterError(
                f"the tangent bundle of {self.manifold!r} has dimension {dim}, exact "
                f"K-norm sampling allows {_MAX_DIMENSION}; use gradient descent on it"
            )
        super().__post_init__()
        object.__setattr__(self, "speed", _validate.length("speed", self.speed))

    @property
    def dim(self) -> int:
        """The dimension of the tangent bundle: twice that of the manifold."""
        return 2 * self.manifold.dim

    @property
    def radii(self) -> tuple[float, ...]:
        """The radii of the two blocks of coordinates: of the point p and the vector v."""
        return (self.radius, self.speed)

    def points(self, z: Floats) -> tuple[Any, ...]:
        """Return the points p and the tangent vectors v at coordinates z.

        Parameters
        ----------
        z : array, shape (n, 2, k)
            Normal coordinates of p about the center, and coordinates of v after
            transport to the center.

        Returns
        -------
        p : array, shape (n, *point_shape)
            The points.
        v : array, shape (n, *point_shape)
            The tangent vectors at these points.
        """
        manifold = self.manifold
        (p,) = super().points(z)
        v_at_center = manifold.from_coordinates(self.center, z[:, 1])
        return p, manifold.transport(self.center, p, v_at_center)

    def lipschitz(self, constants: tuple[Any, ...], largest_norm: Floats) -> Floats:
        """Convert Lipschitz constants in (p, v) to constants in coordinates.

        Moving the point p also turns the transported vector v, by at most Σ|κ|·(mean of
        sn_κ over [0, r]) per unit length, where κ are the curvatures and r is the
        distance of p from the center. This term adds to the constant of the first
        block.

        sn_κ(r) is sin(√κ·r)/√κ for κ > 0 and sinh(√−κ·r)/√−κ for κ < 0.

        A constant may be too large, never too small; tests/laws/knorm/test_domains.py
        compares it with differences.

        Parameters
        ----------
        constants : tuple of two floats
            The Lipschitz constants in the point p and in the vector v.
        largest_norm : array, shape (n, 2)
            The largest lengths of the two blocks of coordinates in each cell.

        Returns
        -------
        array, shape (n, 2)
            The Lipschitz constants in the first and in the second block.
        """
        # How much moving the point stretches distances and turns the vector.
        constant_p, constant_v = constants
        turn = sum(
            abs(kappa) * _mean_sn(kappa, largest_norm[:, 0])
            for kappa, _ in self.jacobi_spectrum
        )
        stretch = self.stretch(largest_norm[:, :1])[:, 0]
        first_block = constant_p * stretch + constant_v * turn * largest_norm[:, 1]
        second_block = np.broadcast_to(constant_v, first_block.shape)
        return np.stack([first_block, second_block], axis=1)


def _log_sn_ratio(kappa: float, r: Floats) -> Floats:
    """Return log(sn_κ(r)/r), the logarithm of how much the exponential map stretches.

    sn_κ(r) is sin(√κ·r)/√κ for κ > 0 and sinh(√−κ·r)/√−κ for κ < 0. Inside the
    injectivity radius the result is finite. Near r = 0 it is a power series.

    Parameters
    ----------
    kappa : float
        The curvature κ.
    r : array
        Radii, not negative.

    Returns
    -------
    Floats
        One number for each radius.
    """
    angle = math.sqrt(abs(kappa)) * np.asarray(r, dtype=np.float64)
    is_small = angle < 1e-2  # where the next term of the series is below 1e-15
    angle_square = angle * angle

    # The closed form, away from 0, and the power series near 0.
    safe_angle = np.where(is_small, 1.0, angle)
    if kappa > 0:
        closed_form = np.log(
            np.abs(np.sin(np.minimum(safe_angle, math.pi))) / safe_angle
        )
    else:
        closed_form = safe_angle + np.log(-np.expm1(-2 * safe_angle) / (2 * safe_angle))
    # With the angle a: log(sin a/a) = −a²/6 − a⁴/180 − …, and log(sinh a/a) is
    # a²/6 − a⁴/180 + ….
    series = -np.sign(kappa) * angle_square / 6 - angle_square * angle_square / 180
    return np.where(is_small, series, closed_form)


def _mean_sn(kappa: float, r: Floats) -> Floats:
    """Return the mean (1/r)·∫₀^r sn_κ of the function sn_κ over [0, r].

    sn_κ(r) is sin(√κ·r)/√κ for κ > 0 and sinh(√−κ·r)/√−κ for κ < 0. So the mean is
    (1 − cos(√κ·r))/(κ·r) for κ > 0 and (cosh(√−κ·r) − 1)/(−κ·r) for κ < 0; near r = 0
    it is r/2. To keep all digits, 1 − cos a is computed as 2·sin²(a/2), and cosh a − 1
    as 2·sinh²(a/2).

    Parameters
    ----------
    kappa : float
        The curvature κ, not 0.
    r : array
        Radii, not negative.

    Returns
    -------
    Floats
        One number for each radius.
    """
    angle = math.sqrt(abs(kappa)) * r
    half_sine = np.sin(angle / 2) if kappa > 0 else np.sinh(angle / 2)
    safe_angle = np.where(angle > 0, angle, 1.0)
    ratio = np.where(angle > 0, 2 * half_sine * half_sine / safe_angle, 0.0)
    return ratio / math.sqrt(abs(kappa))
