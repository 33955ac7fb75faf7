"""Geodesic regression WITHOUT privacy (Fletcher 2011), to compare with: Gauss–Newton with closed-form Jacobi fields."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry import frechet_mean
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.regression.gradient import residuals_at
from curvedp.regression.jacobi import check_symmetric, cos_and_sinc, jacobi_frame

_TOLERANCE = 1e-10  # of the gradient's norm
_MOST_STEPS = 200


@dataclass(frozen=True, eq=False)  # fields are arrays
class GeodesicFit:
    """The model x ↦ Exp(p, Σ_k (x_k − at_k)·v_k), fitted: `footpoint` p, `velocity` v (one for each predictor, stacked, or
    one alone), and how good it is. `gradient_norm` is the norm of (∇_p E, ∇_v E) at the fit, in centered predictors."""

    manifold: Manifold
    footpoint: np.ndarray
    velocity: np.ndarray
    at: np.ndarray | float
    gradient_norm: float
    steps: int

    def predict(self, x: Any) -> np.ndarray:
        """Points of the fitted geodesic, shape (n, *point_shape)."""
        M = self.manifold
        alone = self.velocity.ndim == len(M.point_shape)
        moves = _moves(
            np.asarray(x, dtype=np.float64) - self.at,
            self.velocity[None] if alone else self.velocity,
        )
        return np.asarray(M.exp(self.footpoint, moves))

    def residuals(self, x: Any, Y: Any) -> np.ndarray:
        """Geodesic distances from the predictions to the responses."""
        return np.asarray(
            self.manifold.dist(self.predict(x), np.asarray(Y, dtype=np.float64))
        )

    def score(self, x: Any, Y: Any) -> float:
        """R² = 1 − mean squared residual / Fréchet variance (Fletcher 2011, §4)."""
        Y = np.asarray(Y, dtype=np.float64)
        spread = np.mean(
            np.asarray(self.manifold.dist(frechet_mean(self.manifold, Y), Y)) ** 2
        )
        return float(1 - np.mean(self.residuals(x, Y) ** 2) / spread)


def fit_geodesic(manifold: Manifold, x: Any, Y: Any, *, at: Any = None) -> GeodesicFit:
    """The least-squares geodesic of responses Y (n, *point_shape) on predictors x, shape (n,) or (n, k).

    Predictors are centered at their mean while fitting, which decouples p from v; the footpoint that is returned belongs to
    `at` (0 for one predictor unless told otherwise, the mean for several, where the model depends on it).

    >>> from curvedp.geometry import Sphere
    >>> M, x = Sphere(2), np.linspace(0, 1, 20)
    >>> Y = M.exp(M.origin, x[:, None] * np.array([0.0, 0.8, 0.3]))
    >>> fit = fit_geodesic(M, x, Y)
    >>> bool(np.linalg.norm(fit.velocity - [0.0, 0.8, 0.3]) < 1e-9)
    True
    """
    x, Y = _checked(manifold, x, Y)
    alone, columns = x.ndim == 1, x.reshape(len(x), -1)
    center = (
        columns.mean(axis=0)
        if alone or at is None
        else np.broadcast_to(np.asarray(at, float), columns.shape[1:])
    )
    p, V, norm, steps = _gauss_newton(manifold, columns - center, Y)
    if not alone:
        return GeodesicFit(manifold, p, V, center, norm, steps)
    target = 0.0 if at is None else float(at)
    p, v = manifold.geodesic(p, V[0], target - float(center[0]))
    return GeodesicFit(manifold, np.asarray(p), np.asarray(v), target, norm, steps)


def _checked(manifold: Manifold, x: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    check_symmetric(check_manifold(manifold))
    x, Y = _validate.array("x", x), _validate.array("Y", Y)
    if Y.shape[1:] != manifold.point_shape or x.ndim not in (1, 2) or len(x) != len(Y):
        raise ParameterError(
            f"x of shape {x.shape} and Y of shape {Y.shape} do not fit {manifold!r}"
        )
    if len(x) <= (1 if x.ndim == 1 else x.shape[1]):
        raise ParameterError(f"{len(x)} records do not determine a geodesic")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(Y))):
        raise ParameterError("x and Y must be finite")
    return x, Y


def _moves(x: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Σ_k x_k v_k for each record; x of shape (n,) or (n, k), V (k, *point_shape)."""
    return np.tensordot(x.reshape(-1, len(V)), V, axes=1)


def _gauss_newton(
    M: Manifold, x: np.ndarray, Y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Levenberg–Marquardt on (p, v₁ … v_k) in coordinates at p, from linear regression in the tangent space at the mean."""
    k, dim = x.shape[1], M.dim
    p = np.asarray(frechet_mean(M, Y))
    design = np.column_stack([np.ones(len(x)), x])
    start = np.linalg.lstsq(
        design, np.asarray(M.to_coordinates(p, M.log(p, Y))), rcond=None
    )[0]
    p, V = _moved(M, p, np.zeros((k, *M.point_shape)), start)
    energy, gradient, normal = _quadratic(M, p, V, x, Y)
    damping, steps = 0.0, 0
    while np.linalg.norm(gradient) > _TOLERANCE and steps < _MOST_STEPS:
        steps += 1
        size = np.eye(len(normal)) * np.trace(normal) / len(normal)
        delta = np.linalg.lstsq(normal + damping * size, gradient, rcond=None)[0]
        trial = _moved(M, p, V, delta.reshape(k + 1, dim))
        found = _quadratic(M, *trial, x, Y)
        # Near the minimum the energies agree to round-off; there the gradient decides.
        better = found[0] < energy or np.linalg.norm(found[1]) < np.linalg.norm(
            gradient
        )
        if better:
            (p, V), (energy, gradient, normal) = trial, found
            damping = damping / 10 if damping > 1e-6 else 0.0
        else:
            damping = max(10 * damping, 1e-4)
            if damping > 1e8:
                break
    return p, V, float(np.linalg.norm(gradient)), steps


def _moved(
    M: Manifold, p: np.ndarray, V: np.ndarray, delta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """p moved by delta[0] and each v_k by delta[k], all given in coordinates at p, then carried along."""
    changed = V + np.asarray(M.from_coordinates(p, delta[1:]))
    u = np.asarray(M.from_coordinates(p, delta[0]))
    return np.asarray(M.project(M.exp(p, u))), np.asarray(
        M.transport(p, M.exp(p, u), changed)
    )


def _quadratic(
    M: Manifold, p: np.ndarray, V: np.ndarray, x: np.ndarray, Y: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Energy, descent direction and Gauss–Newton matrix in coordinates, blocks (p, v₁ … v_k).

    The residual's derivative in the prediction is minus the identity up to O(curvature·residual²): Gauss–Newton takes it so,
    the descent direction is exact.
    """
    if x.shape[1] == 1:
        return _on_one_geodesic(M, p, V[0], x, Y)
    moves = _moves(x, V)
    h = residuals_at(M, p, moves, Y)
    values, frame = jacobi_frame(M, p, moves)
    foot, shoot = (
        (frame * factor[:, None]) @ frame.mT for factor in cos_and_sinc(values)
    )
    n, dim = h.shape
    blocks = np.stack(
        [foot, *(column[:, None, None] * shoot for column in x.T)], axis=2
    )  # (n, dim, k+1, dim)
    jacobian = blocks.reshape(n * dim, -1)
    return (
        float(np.sum(h * h) / (2 * n)),
        jacobian.T @ h.ravel() / n,
        jacobian.T @ jacobian / n,
    )


def _on_one_geodesic(
    M: Manifold, p: np.ndarray, v: np.ndarray, x: np.ndarray, Y: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """`_quadratic` for one predictor: all moves share a direction, so one frame serves, with the square of x as its time."""
    h = residuals_at(M, p, _moves(x, v[None]), Y)
    values, frame = jacobi_frame(M, p, v)
    cos, sinc = cos_and_sinc(values * x * x)
    factors, local = (cos, x * sinc), h @ frame
    n, dim = h.shape
    gradient = np.stack([frame @ (factor * local).mean(axis=0) for factor in factors])
    normal = np.empty((2, dim, 2, dim))
    for a in range(2):
        for b in range(2):
            normal[a, :, b, :] = (
                frame * (factors[a] * factors[b]).mean(axis=0)
            ) @ frame.T
    return (
        float(np.sum(h * h) / (2 * n)),
        gradient.ravel(),
        normal.reshape(2 * dim, 2 * dim),
    )
