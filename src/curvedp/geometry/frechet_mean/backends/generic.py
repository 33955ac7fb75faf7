"""Passes over NumPy records of any space, in memory."""

import math
from collections.abc import Callable
from functools import cached_property
from operator import itemgetter

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

_BLOCK_BYTES = 1 << 22  # of the records that are worked on together
_LARGEST_DENSE_DIM = 256  # dimension up to which Newton's equations are formed

# Root mean squared distance from which on a start is useless. Coordinates of hyperbolic
# space grow like e^d, and e^36 is 2^52: no digit is left. The origin is then tried too.
_FAR = 36.0

# With more records than this, the start is the mean of a sample, to this residual.
_MANY = 1 << 13
_SAMPLE_RESIDUAL = 1e-4

# Records nearer than this (in units of 1/√|κ|) have a Hessian of 1 to double precision.
_SMALL_ANGLE = 1e-8

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
        Computes the mean of other points, which is used to find a start: maps
        (manifold, points, weights, tolerance) to a point.
    """

    def __init__(
        self,
        M: Manifold,
        X: np.ndarray,
        weights: np.ndarray,
        tolerance: float,
        local_mean: LocalMean,
    ) -> None:
        """Cut the points into blocks of about `_BLOCK_BYTES`; nothing is computed yet.

        Parameters
        ----------
        M : Manifold
            Where the points live.
        X : array of shape (n, *point_shape)
            The points (NumPy).
        weights : array of shape (n,)
            Their weights, which sum to 1.
        tolerance : float
            Length of the mean logarithm at which the search ends.
        local_mean : callable
            Maps (manifold, points, weights, tolerance) to their mean; used to find a
            start.
        """
        self._M = M
        self._X = X
        self._weights = weights
        self._tolerance = tolerance
        self._local_mean = local_mean
        numbers_per_record = max(M.dim, math.prod(M.point_shape))
        self._blocks = blocks(len(X), max(1, _BLOCK_BYTES // (8 * numbers_per_record)))

    @cached_property
    def start(self) -> np.ndarray:
        """The point where the search starts, close to the mean.

        On products and pulled-back spaces it is the mean, computed part by part; for
        many records the mean of a sample; otherwise the best of a few guesses.
        """
        if isinstance(self._M, Product | PullbackManifold):
            return self._local_mean(
                self._M, self._X, self._weights, self._tolerance / 2
            )
        sample = subsample(len(self._X), 1) if len(self._X) > _MANY else None
        if sample is not None:
            weights = self._weights[sample] / self._weights[sample].sum()
            return self._local_mean(self._M, self._X[sample], weights, _SAMPLE_RESIDUAL)
        return self._best_guess()

    def _best_guess(self) -> np.ndarray:
        """Return the best of a few guesses of the mean.

        The candidates are the first record, one gradient step from it, and the
        projected arithmetic mean; where all are far from the records, also the origin.

        Returns
        -------
        array of shape point_shape
            The candidate with the least mean squared distance to the records.
        """
        first_record = self._X[0]
        first_pass = self.make_pass(PassRequest(first_record, with_cost=True))
        candidates = [(first_pass.mean_square, first_record)]

        arithmetic_mean = np.tensordot(self._weights, self._X, axes=1)
        guesses = [
            self.move(first_record, first_pass.mean_log),
            np.asarray(self._M.project(arithmetic_mean)),
        ]
        for x in guesses:
            if np.all(np.isfinite(x)):
                result = self.make_pass(PassRequest(x, with_cost=True))
                candidates.append((result.mean_square, x))

        if not min(mean_square for mean_square, _ in candidates) < _FAR**2:
            origin = self._M.origin
            result = self.make_pass(PassRequest(origin, with_cost=True))
            candidates.append((result.mean_square, np.asarray(origin)))

        # The first of several that are equally good; points cannot be compared.
        _, best = min(candidates, key=itemgetter(0))
        return np.asarray(best)

    def move(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the point that a step from x leads to.

        Parameters
        ----------
        x : array of shape point_shape
            Where the step begins.
        step : array of shape (dim,)
            A tangent vector at x, in coordinates.

        Returns
        -------
        array of shape point_shape
            exp_x(step).
        """
        return np.asarray(self._M.from_normal_coordinates(x, step))

    def newton(self, x: np.ndarray, convergence: float) -> NewtonStep | None:
        """Return Newton's method at x where curvature is constant.

        On a space of constant curvature κ the Hessian of ½d² is 1 along the geodesic to
        the record and h across it, h = s·cot s or s·coth s with s = √|κ|·d. The mean
        over a sample of the records is used.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate.
        convergence : float
            Fraction of the residual that the last step left; inf where there was none.

        Returns
        -------
        callable or None
            Maps the mean logarithm at x to a step. None if the last step converged
            fast, if the space is flat or of variable curvature, or if its dimension is
            too high.
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
        hessian = self._mean_hessian(
            np.asarray(self._M.normal_coordinates(x, X)), weights
        )

        def newton_step(mean_log: np.ndarray) -> np.ndarray:
            """Solve Newton's equations for the step; singular ones by least squares."""
            return np.asarray(np.linalg.lstsq(hessian, mean_log, rcond=None)[0])

        return newton_step

    def _mean_hessian(self, Z: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the Hessian of ½·mean d² on a space of constant curvature κ ≠ 0.

        A record with normal coordinates z contributes h·I + (1 − h)·zzᵀ/|z|² with
        h = s·cot s for κ > 0, h = s·coth s for κ < 0, and s = √|κ|·|z|.

        Parameters
        ----------
        Z : array of shape (n, dim)
            Normal coordinates of the records at the point in question.
        weights : array of shape (n,)
            Their weights.

        Returns
        -------
        array of shape (dim, dim)
            The weighted mean.
        """
        curvature = self._M.constant_curvature
        assert curvature is not None
        squares = np.sum(Z * Z, axis=-1)
        s = np.sqrt(abs(curvature) * squares)
        is_away = s > _SMALL_ANGLE
        nonzero_s = np.where(is_away, s, 1.0)
        tangent = np.tan(nonzero_s) if curvature > 0 else np.tanh(nonzero_s)
        across = np.where(is_away, nonzero_s / tangent, 1.0)  # h
        excess_along = weights * (1 - across) / np.where(squares > 0, squares, 1.0)
        identity_part = float(weights @ across) * np.eye(self._M.dim)
        return np.asarray((Z * excess_along[:, None]).T @ Z + identity_part)

    def make_pass(self, request: PassRequest) -> PassResult:
        """Compute the mean logarithm and the mean squared distance at an iterate.

        Parameters
        ----------
        request : PassRequest
            The iterate x. The cost is always computed, asked for or not.

        Returns
        -------
        PassResult
            The mean logarithm and the mean squared distance; NaN if x is not finite.
        """

        def sum_over(block: slice) -> tuple[np.ndarray, float]:
            """Return the weighted sums of logarithms and squared distances of a block."""
            Z = np.asarray(self._M.normal_coordinates(request.x, self._X[block]))
            weights = self._weights[block]
            return weights @ Z, float(weights @ np.sum(Z * Z, axis=-1))

        if not np.all(np.isfinite(request.x)):
            return PassResult(np.full(self._M.dim, np.nan), np.nan)
        log_sums, square_sums = zip(*in_threads(sum_over, self._blocks), strict=True)
        return PassResult(np.sum(log_sums, axis=0), sum(square_sums))
