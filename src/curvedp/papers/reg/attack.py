"""A search for records that move the gradient of geodesic regression most. It looks for
adjacent data sets and geodesics, given by footpoint p and velocity v, at which one
replaced record moves a norm of the gradient most, by random search and then gradient
ascent. A claimed sensitivity below the result is refuted.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from curvedp.geometry.manifold import Manifold
from curvedp.regression.bounds import PREDICTOR_UNIT, endpoint_clips, endpoint_norm
from curvedp.regression.gradient import residuals_at
from curvedp.regression.jacobi import cos_and_sinc, jacobi_frame

__all__ = ["NORMS", "attack", "contribution", "gradient_change"]

# Norms of the change of the gradient: of its part for the footpoint, of that for the
# velocity, of both together, and the endpoint norm of docs/theory/regression.md.
NORMS = ("foot", "velocity", "joint", "endpoint")

# Rounds of random search, each with smaller steps.
_ROUNDS = 12
# Starts of the ascent: the best pairs of the random search.
_STARTS = 32
# The step of a central difference.
_DIFFERENCE = 1e-6


def contribution(manifold: Manifold, p: Any, v: Any, x: Any, Y: Any) -> Any:
    """Return the negative gradient of one record's ½d²(Exp(p, xv), Y), for each row.

    On a symmetric space −∇_p = cos(x√R)·h and −∇_v = x·sinc(x√R)·h, with h the residual
    carried back to p and R the curvature operator of v at p.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    p, v : array of shape (rows, *point_shape)
        Footpoints and velocities.
    x, Y : array of shape (rows,), array of shape (rows, *point_shape)
        A record for each row.

    Returns
    -------
    foot, velocity, length : array
        −∇_p and −∇_v in coordinates at p, and the length of the residual.
    """
    axes = [1] * len(manifold.point_shape)
    residuals = residuals_at(manifold, p, x.reshape(-1, *axes) * v, Y)
    values, frame = jacobi_frame(manifold, p, v)
    cos, sinc = cos_and_sinc(values * (x * x)[:, None])
    # In the eigenvectors of R (columns j of each frame) both operators are diagonal.
    local = np.einsum("ni,nij->nj", residuals, frame)
    foot = np.einsum("nij,nj->ni", frame, cos * local)
    velocity = np.einsum("nij,nj->ni", frame, x[:, None] * sinc * local)
    return foot, velocity, np.linalg.norm(residuals, axis=1)


def gradient_change(
    manifold: Manifold,
    norm: str,
    z: Any,
    speed: float,
    clip: float,
    predictor_range: tuple[float, float],
) -> Any:
    """Return how far one replaced record moves a norm of the gradient, for n = 1.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    norm : str
        One of `NORMS`.
    z : array of shape (rows, 4·dim + 2)
        Each row contains p, v, two predictors and two residuals. Any real numbers are
        allowed, so that a search needs no constraints.
    speed : float
        The largest length of a velocity.
    clip : float
        The clipping norm of residuals.
    predictor_range : (float, float)
        The smallest and the largest predictor.

    Returns
    -------
    array of shape (rows,)
        The norm of the difference of the two records' clipped gradients.
    """
    d = manifold.dim
    p, v = _geodesic_of_row(manifold, z[:, : 2 * d], speed)

    # The clipped gradients of the record and of the one that replaces it.
    gradients = []
    for k in (0, 1):
        fraction = np.clip(z[:, 2 * d + k], 0, 1)
        x = predictor_range[0] + (predictor_range[1] - predictor_range[0]) * fraction
        first = 2 * d + 2 + k * d
        residual = z[:, first : first + d]
        # Residuals are longer than the clipping norm, so that they are clipped.
        residual = (
            1.2 * clip * residual / np.linalg.norm(residual, axis=1, keepdims=True)
        )
        gradients.append(_clipped_contribution(manifold, norm, p, v, x, residual, clip))

    foot, velocity = (a - b for a, b in zip(*gradients, strict=True))
    if norm == "endpoint":
        return endpoint_norm(foot, velocity)
    foot_length = np.linalg.norm(foot, axis=1)
    velocity_length = np.linalg.norm(velocity, axis=1)
    if norm == "joint":
        return np.hypot(foot_length, velocity_length)
    return foot_length if norm == "foot" else velocity_length


def _geodesic_of_row(manifold: Manifold, z: Any, speed: float) -> tuple[Any, Any]:
    """Return the footpoint and the velocity that rows of real numbers stand for.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    z : array of shape (rows, 2·dim)
        Any real numbers.
    speed : float
        The largest length of a velocity.

    Returns
    -------
    p, v : arrays of shape (rows, *point_shape)
        Footpoints near the origin, and velocities that are not too long.
    """
    d = manifold.dim
    origin = manifold.origin
    near_origin = manifold.from_coordinates(origin, 0.3 * np.tanh(z[:, :d]))
    p = manifold.exp(origin, near_origin)
    w = z[:, d:]
    shortened = w * np.minimum(speed / np.linalg.norm(w, axis=1), 1.0)[:, None]
    return p, manifold.from_coordinates(p, shortened)


def _clipped_contribution(
    manifold: Manifold, norm: str, p: Any, v: Any, x: Any, residual: Any, clip: float
) -> tuple[Any, Any]:
    """Return the clipped gradient of the record that has a given residual.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    norm : str
        One of `NORMS`; "joint" and "endpoint" have clipping rules of their own.
    p, v : array of shape (rows, *point_shape)
        Footpoints and velocities.
    x : array of shape (rows,)
        Predictors.
    residual : array of shape (rows, dim)
        Residuals, in coordinates at p.
    clip : float
        The clipping norm.

    Returns
    -------
    foot, velocity : arrays
        The clipped −∇_p and −∇_v, in coordinates at p.
    """
    axes = [1] * len(manifold.point_shape)
    prediction = manifold.exp(p, x.reshape(-1, *axes) * v)
    at_p = manifold.from_coordinates(p, residual)
    y = manifold.exp(prediction, manifold.transport(p, prediction, at_p))
    foot, velocity, length = contribution(manifold, p, v, x, y)
    if norm == "joint":
        # Both parts together are clipped, in the units of descent.
        velocity = velocity / PREDICTOR_UNIT
        foot_length = np.linalg.norm(foot, axis=1)
        length = np.hypot(foot_length, np.linalg.norm(velocity, axis=1))
    longest = endpoint_clips(clip, x) if norm == "endpoint" else clip
    factor = np.minimum(1.0, longest / length)[:, None]
    return factor * foot, factor * velocity


def attack(
    manifold: Manifold,
    speed: float,
    clip: float,
    predictor_range: tuple[float, float],
    seed: int,
    pairs: int,
    ascent: int = 0,
) -> tuple[dict[str, float], int]:
    """Search for the largest change of the gradient that one replaced record can make.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    speed : float
        The largest length of a velocity.
    clip : float
        The clipping norm of residuals.
    predictor_range : (float, float)
        The smallest and the largest predictor.
    seed : int
        The seed of the random search.
    pairs : int
        The number of pairs of records in the first round. In each of twelve further
        rounds the best tenth is kept and moved about.
    ascent : int
        The number of steps of gradient ascent from the best 32.

    Returns
    -------
    changes, tried : dict and int
        The largest change found, by norm, and how many pairs were tried.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> changes, tried = attack(Sphere(2), 1.0, 0.2, (0.0, 1.0), 0, 40)
    >>> sorted(changes) == sorted(NORMS)
    True
    """
    rng = np.random.default_rng(seed)
    changes, tried = {}, 0
    for norm in NORMS:

        def measure(z: Any, norm: str = norm) -> Any:
            """Return the change at each row, and count the rows."""
            nonlocal tried
            tried += len(z)
            return gradient_change(manifold, norm, z, speed, clip, predictor_range)

        z, values = _random_search(measure, manifold.dim, pairs, rng)
        best = np.argsort(-values)[:_STARTS]
        values = _ascend(measure, z[best], np.sort(values)[::-1][:_STARTS], ascent)
        changes[norm] = float(values.max())
    return changes, tried


def _random_search(
    measure: Callable[[Any], Any], dim: int, pairs: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Search for large values at random, with smaller steps near the best in each round.

    Parameters
    ----------
    measure : callable
        Returns the value of each row.
    dim : int
        The dimension of the manifold.
    pairs : int
        The number of rows of the first round.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    z, values : arrays
        The rows of the last round, and their values.
    """
    z = 2 * rng.standard_normal((pairs, 4 * dim + 2))
    # Predictors start at the ends and in the middle.
    ends = np.round(2 * rng.random((pairs, 2))) / 2
    z[:, 2 * dim : 2 * dim + 2] = ends + 0.1 * rng.standard_normal((pairs, 2))
    values = measure(z)
    for r in range(_ROUNDS):
        # Keep the best tenth, and add nine moved copies of each.
        best = np.argsort(-values)[: pairs // 10]
        z = np.concatenate([z[best], np.repeat(z[best], 9, axis=0)])
        moves = rng.standard_normal((len(z) - len(best), z.shape[1]))
        z[len(best) :] += 0.5 * 0.7**r * moves
        values = measure(z)
    return z, values


def _ascend(measure: Callable[[Any], Any], z: Any, values: Any, steps: int) -> Any:
    """Return the values after gradient ascent from several starts.

    Each start has a step length of its own, which grows by half after a step that
    improves its value and is halved after one that does not (and is not taken).

    Parameters
    ----------
    measure : callable
        Returns the value of each row.
    z : array of shape (starts, coordinates)
        The starts of the ascents.
    values : array of shape (starts,)
        The values there.
    steps : int
        The number of steps.
    """
    length = np.full((len(z), 1), 0.1)
    n_coordinates = z.shape[1]
    units = np.concatenate([np.eye(n_coordinates), -np.eye(n_coordinates)])
    for _ in range(steps):
        # Central differences in all coordinates, in one call.
        neighbors = (z[:, None] + _DIFFERENCE * units).reshape(-1, n_coordinates)
        sides = measure(neighbors).reshape(len(z), 2, -1)
        slope = sides[:, 0] - sides[:, 1]
        size = np.linalg.norm(slope, axis=1, keepdims=True)
        trial = z + length * slope / np.where(size > 0, size, 1.0)
        trial_values = measure(trial)
        is_better = (trial_values > values)[:, None]
        z = np.where(is_better, trial, z)
        values = np.maximum(trial_values, values)
        length = length * np.where(is_better, 1.5, 0.5)
    return values
