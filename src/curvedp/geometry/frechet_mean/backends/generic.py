"""Passes over NumPy records of any space, in memory."""

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from curvedp.geometry.frechet_mean.backends.spd import subsample
from curvedp.geometry.frechet_mean.solver import (
    SLOW_CONVERGENCE,
    MeanBackend,
    NewtonStep,
    PassRequest,
    PassResult,
)
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.numerics.threads import blocks, in_threads

_CHUNK_BYTES = 1 << 22
_LARGEST_DENSE_DIM = 256  # dimension up to which Newton's equations are formed

# Between points this far apart, charts far from the origin hold nothing: e^36 is 2^52.
_FAR = 36.0

# Number of records from which on the mean of a few is the start, and the residual at
# which that mean is good enough.
_MANY = 1 << 13
_ROUGH_RESIDUAL = 1e-4

LocalMean = Callable[[Manifold, np.ndarray, np.ndarray, float], np.ndarray]
"""Maps (manifold, points, weights, tolerance) to their mean."""


class GenericBackend(MeanBackend):
    """Passes over NumPy records, with Newton's steps where curvature is constant.

    Parameters
    ----------
    M : Manifold
        Where the points live.
    X : array, shape (n, *point_shape)
        The points.
    weights : array, shape (n,)
        Weights that sum to 1.
    tolerance : float
        Residual at which the search ends.
    local_mean : callable
        Computes means of parts of the problem, for a start.
    """

    def __init__(
        self,
        M: Manifold,
        X: np.ndarray,
        weights: np.ndarray,
        tolerance: float,
        local_mean: LocalMean,
    ) -> None:
        """Cut the points into blocks; nothing is computed yet."""
        self._M = M
        self._X = X
        self._weights = weights
        self._tolerance = tolerance
        self._local_mean = local_mean
        numbers_per_record = max(M.dim, math.prod(M.point_shape))
        self._parts = blocks(len(X), max(1, _CHUNK_BYTES // (8 * numbers_per_record)))

    @cached_property
    def start(self) -> np.ndarray:
        """Return the mean of the parts, of a sample, or the best of three guesses."""
        if isinstance(self._M, Product | PullbackManifold):
            return self._local_mean(
                self._M, self._X, self._weights, self._tolerance / 2
            )
        sample = subsample(len(self._X), 1) if len(self._X) > _MANY else None
        if sample is not None:
            weights = self._weights[sample] / self._weights[sample].sum()
            return self._local_mean(self._M, self._X[sample], weights, _ROUGH_RESIDUAL)
        return self._best_of_three_starts()

    def _best_of_three_starts(self) -> np.ndarray:
        """Return the start of least cost.

        The candidates are the first record, one gradient step from it, and the
        projected arithmetic mean; where all are far from the records, also the origin.
        """
        first_record = self._X[0]
        first_pass = self.make_pass(PassRequest(first_record, True))
        arithmetic_mean = np.tensordot(self._weights, self._X, axes=1)
        candidates = [
            self.move(first_record, first_pass.velocity),
            np.asarray(self._M.project(arithmetic_mean)),
        ]
        costs = [(first_pass.square, first_record)]
        for x in candidates:
            if np.all(np.isfinite(x)):
                costs.append((self.make_pass(PassRequest(x, True)).square, x))
        if not min(square for square, _ in costs) < _FAR**2:
            origin = self._M.origin
            square = self.make_pass(PassRequest(origin, True)).square
            costs.append((square, np.asarray(origin)))
        return np.asarray(min(costs, key=lambda pair: pair[0])[1])

    def move(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the exponential of the step."""
        return np.asarray(self._M.from_normal_coordinates(x, step))

    def newton(self, x: np.ndarray, convergence: float) -> NewtonStep | None:
        """Return Newton's step with the Hessian of some records.

        On a space of constant curvature κ the Hessian of ½d² is 1 along the geodesic to
        the record and h across it, h = s·cot s or s·coth s with s = √|κ|·d.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate.
        convergence : float
            By how much the residual fell in the last step.
        """
        curvature = self._M.constant_curvature
        is_up_to_date = not convergence > SLOW_CONVERGENCE
        if is_up_to_date or not curvature or self._M.dim > _LARGEST_DENSE_DIM:
            return None
        X, weights = self._X, self._weights
        sample = subsample(len(X), 1)
        if sample is not None:
            X = X[sample]
            weights = weights[sample] / weights[sample].sum()

        Z = np.asarray(self._M.normal_coordinates(x, X))
        squares = np.sum(Z * Z, axis=-1)
        s = np.sqrt(abs(curvature) * squares)
        is_away = s > 1e-8
        safe = np.where(is_away, s, 1.0)
        tangent = np.tan(safe) if curvature > 0 else np.tanh(safe)
        across = np.where(is_away, safe / tangent, 1.0)
        excess_along = weights * (1 - across) / np.where(squares > 0, squares, 1.0)
        identity_part = float(weights @ across) * np.eye(self._M.dim)
        hessian = (Z * excess_along[:, None]).T @ Z + identity_part

        def newton_step(velocity: np.ndarray) -> np.ndarray:
            return np.asarray(np.linalg.lstsq(hessian, velocity, rcond=None)[0])

        return newton_step

    def make_pass(self, request: PassRequest) -> PassResult:
        """Return the mean logarithm and the mean squared distance at an iterate.

        Parameters
        ----------
        request : PassRequest
            The iterate, and how accurate the pass has to be.
        """

        def sum_over(part: slice) -> tuple[np.ndarray, float]:
            Z = np.asarray(self._M.normal_coordinates(request.x, self._X[part]))
            weights = self._weights[part]
            return weights @ Z, float(weights @ np.sum(Z * Z, axis=-1))

        if not np.all(np.isfinite(request.x)):
            return PassResult(np.full(self._M.dim, np.nan), np.nan)
        velocities, squares = zip(*in_threads(sum_over, self._parts), strict=True)
        return PassResult(np.sum(velocities, axis=0), sum(squares))
