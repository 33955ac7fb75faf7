"""Public domains of the K-norm gradient mechanism, as boxes of coordinates with bounded distortion.

A geodesic ball B_R(c) is read in normal coordinates, x = exp_c(z), |z| ≤ R. A ball of the tangent bundle adds coordinates
w of v = (parallel transport of w along the radial geodesic from c to p), ‖v‖ ≤ V. Volume, stretch (Rauch) and turn
(holonomy) of these coordinates are in docs/knorm.md.
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
from curvedp.laws.radial import Floats

_MOST_DIMENSIONS = 4  # cells grow like the power of the dimension


@dataclass(frozen=True, eq=False)
class GeodesicBall:
    """The closed ball of a public radius about a public center (the origin if none is given)."""

    manifold: Manifold
    center: ArrayLike | None = None
    radius: float = math.nan

    def __post_init__(self) -> None:
        M = check_manifold(self.manifold)
        if not (M.is_symmetric and M.is_homogeneous) or M.jacobi_spectrum is None:
            raise ParameterError(
                f"exact K-norm sampling on {M!r} is not available: its curvatures depend on the direction, or it is not"
                " stated that they do not (`jacobi_spectrum`, `is_symmetric`, `is_homogeneous`)"
            )
        radius = _validate.length("radius", self.radius)
        if not radius < M.injectivity_radius:
            raise ParameterError(
                f"must be below the injectivity radius {M.injectivity_radius:g}",
                parameter="radius",
                value=radius,
            )
        center = _validate.array(
            "center", M.origin if self.center is None else self.center
        )
        if (
            center.shape != M.point_shape
            or not M.residual(center) <= OFF_MANIFOLD_TOLERANCE
        ):
            raise ParameterError(
                f"must be one point of {M!r}", parameter="center", value=center
            )
        if self.dim > _MOST_DIMENSIONS:
            raise ParameterError(
                f"{M!r} has dimension {M.dim}, exact K-norm sampling allows {_MOST_DIMENSIONS}"
            )
        if (
            max([math.sqrt(-k) * radius for k, _ in self.roots if k < 0], default=0.0)
            > 300
        ):
            raise ParameterError(
                "is too large: the volume of the ball overflows",
                parameter="radius",
                value=radius,
            )
        object.__setattr__(self, "center", center)
        object.__setattr__(self, "radius", radius)

    @cached_property
    def roots(self) -> tuple[tuple[float, int], ...]:
        """(κ, multiplicity) of the curvatures across every geodesic."""
        return self.manifold.jacobi_spectrum or ()

    @cached_property
    def flat(self) -> Floats:
        """An orthonormal basis of the coordinates without curvature."""
        return np.asarray(euclidean_factor(self.manifold, self.center))

    @property
    def dim(self) -> int:
        return self.manifold.dim

    @property
    def radii(self) -> tuple[float, ...]:
        """Radius of each block of coordinates, a ball in R^k."""
        return (self.radius,)

    def points(self, z: Floats) -> tuple[Any, ...]:
        """The arguments of the gradient norm at coordinates z of shape (N, blocks, k)."""
        M = self.manifold
        return (M.exp(self.center, M.from_coordinates(self.center, z[:, 0])),)

    def log_volume(self, z: Floats) -> Floats:
        """log J at coordinates z."""
        r = self.across(z)
        return sum((count * _log_sn(k, r) for k, count in self.roots), np.zeros(len(z)))

    def log_volume_bound(self, low: Floats, high: Floats, length: Floats) -> Floats:
        """Upper bound of log J where the blocks' norms are in [low, high] and `across` is at most `length`."""
        bound = np.zeros(len(low))
        for k, count in self.roots:  # sn_κ(r)/r falls with r for κ > 0, grows for κ < 0
            bound += count * _log_sn(
                k, low[:, 0] if k > 0 else np.minimum(length, high[:, 0])
            )
        return bound

    def across(self, z: Floats) -> Floats:
        """Length of the part of z across the flat directions, on which J depends."""
        first = z[:, 0]
        return np.asarray(
            np.linalg.norm(first - first @ self.flat.T @ self.flat, axis=-1)
        )

    def lipschitz(self, constants: tuple[Any, ...], high: Floats) -> Floats:
        """Lipschitz constant in each block of coordinates where the blocks' norms are at most `high`; (N, blocks)."""
        return np.asarray(constants[0] * self.stretch(high[:, :1]))

    def stretch(self, r: Floats) -> Floats:
        """max(1, sn_{κ_min}(r)/r), the largest stretch of exp_c within r (Rauch)."""
        return np.exp(_log_sn(min([0.0, *(k for k, _ in self.roots)]), r))


@dataclass(frozen=True, eq=False)
class TangentBundleBall(GeodesicBall):
    """{(p, v): p in the ball of `radius` about `center`, ‖v‖ ≤ speed}, with the volume dvol(p)·dv."""

    speed: float = math.nan

    def __post_init__(self) -> None:
        if 2 * self.manifold.dim > _MOST_DIMENSIONS:
            raise ParameterError(
                f"the tangent bundle of {self.manifold!r} has dimension {2 * self.manifold.dim}, exact K-norm "
                f"sampling allows {_MOST_DIMENSIONS}; use gradient descent on it"
            )
        super().__post_init__()
        object.__setattr__(self, "speed", _validate.length("speed", self.speed))

    @property
    def dim(self) -> int:
        return 2 * self.manifold.dim

    @property
    def radii(self) -> tuple[float, ...]:
        return (self.radius, self.speed)

    def points(self, z: Floats) -> tuple[Any, ...]:
        M, c, (p,) = self.manifold, self.center, super().points(z)
        return p, M.transport(c, p, M.from_coordinates(c, z[:, 1]))

    def lipschitz(self, constants: tuple[Any, ...], high: Floats) -> Floats:
        along, fibre = constants
        turn = sum(abs(k) * _mean_sn(k, high[:, 0]) for k, _ in self.roots)
        first = along * self.stretch(high[:, :1])[:, 0] + fibre * turn * high[:, 1]
        return np.stack([first, np.broadcast_to(fibre, first.shape)], axis=1)


def _log_sn(curvature: float, r: Floats) -> Floats:
    """log(sn_κ(r)/r): sin for κ > 0, sinh for κ < 0, −∞ never reached inside the injectivity radius."""
    x = math.sqrt(abs(curvature)) * np.asarray(r, dtype=np.float64)
    small, u = x < 1e-2, x * x
    safe = np.where(small, 1.0, x)
    if curvature > 0:
        ratio = np.log(np.abs(np.sin(np.minimum(safe, math.pi))) / safe)
    else:
        ratio = safe + np.log(-np.expm1(-2 * safe) / (2 * safe))
    return np.where(small, -np.sign(curvature) * u / 6 - u * u / 180, ratio)


def _mean_sn(curvature: float, r: Floats) -> Floats:
    """∫₀^r sn_κ / r = (1 − cos √κ r)/(κ r), and its hyperbolic form; r/2 near 0."""
    x = math.sqrt(abs(curvature)) * r
    half = np.sin(x / 2) if curvature > 0 else np.sinh(x / 2)
    safe = np.where(x > 0, x, 1.0)
    return np.where(x > 0, 2 * half * half / safe, 0.0) / math.sqrt(abs(curvature))
