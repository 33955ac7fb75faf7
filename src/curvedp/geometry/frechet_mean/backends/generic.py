"""Passes over NumPy records of any space, in memory, for the search for a Fréchet mean.
A pass at a point x computes the mean of the logarithms log_x xᵢ of the records xᵢ, and
the mean of their squared distances from x (`solver`).
"""

import math
from collections.abc import Callable
from functools import cached_property
from operator import itemgetter

import numpy as np

from curvedp.geometry.frechet_mean.solver import (
    SLOW_CONVERGENCE,
    MeanBackend,
    NewtonStep,
    PassRequest,
    PassResult,
    evenly_spaced,
)
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.numerics.threads import blocks, in_threads

# Size in bytes of the block of records that is worked on together.
_BLOCK_BYTES = 1 << 22

# Largest dimension for which Newton's equations, a dim×dim matrix, are formed.
_LARGEST_DENSE_DIM = 256

# The number of records in the sample from which the Hessian is computed, if there are
# more records. Such a sample gives the Hessian to about three percent.
_HESSIAN_SAMPLE = 1024

# A candidate for the start is useless if its root mean squared distance to the records
# is larger than this. Coordinates of hyperbolic space grow like e^d with the distance d,
# and e^36 is 2^52: no digit is left. The origin is then a candidate too.
_FAR = 36.0

# With more than `_LARGEST_WITHOUT_SAMPLE` records the search starts at the mean of a
# sample of `_START_SAMPLE` records, computed to the residual `_SAMPLE_RESIDUAL`.
_LARGEST_WITHOUT_SAMPLE = 1 << 13
_START_SAMPLE = 1024
_SAMPLE_RESIDUAL = 1e-4

# At distances below this (in units of 1/√|κ|) the Hessian of a record is 1 in doubles.
_SMALL_ANGLE = 1e-8

LocalMean = Callable[[Manifold, np.ndarray, np.ndarray, float], np.ndarray]
"""A function that maps (manifold, points, weights, tolerance) to the mean of the points."""


class GenericBackend(MeanBackend):
    """Passes over NumPy records, with Newton's steps where curvature is constant.

    Parameters
    ----------
    M : Manifold
        The manifold of the points.
    X : array, shape (n, *point_shape)
        The points.
    weights : array, shape (n,)
        Weights that sum to 1.
    tolerance : float
        Length of the mean logarithm at which the search ends.
    local_mean : callable
        Maps (manifold, points, weights, tolerance) to the mean of these points. It
        computes the first iterate, for example from a sample.
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
            The manifold of the points.
        X : array of shape (n, *point_shape)
            The points (NumPy).
        weights : array of shape (n,)
            Their weights, which sum to 1.
        tolerance : float
            Length of the mean logarithm at which the search ends.
        local_mean : callable
            Maps (manifold, points, weights, tolerance) to the mean of these points. It
            computes the first iterate.
        """
        self._M = M
        self._X = X
        self._weights = weights
        self._tolerance = tolerance
        self._local_mean = local_mean
        numbers_per_record = max(M.dim, math.prod(M.point_shape))
        self._blocks = blocks(len(X), max(1, _BLOCK_BYTES // (8 * numbers_per_record)))

    @cached_property
    def first_iterate(self) -> np.ndarray:
        """The point where the search starts, close to the mean.

        On products, and on spaces that are another space in other coordinates
        (`PullbackManifold`), it is the mean itself, which is computed there in a
        simpler way. On other spaces it is the mean of a sample if there are many
        records, and the best of a few candidates if there are few.
        """
        M = self._M
        if isinstance(M, Product | PullbackManifold):
            return self._local_mean(M, self._X, self._weights, self._tolerance / 2)
        if len(self._X) <= _LARGEST_WITHOUT_SAMPLE:
            return self._best_candidate()
        return self._local_mean(M, *self._sample(_START_SAMPLE), _SAMPLE_RESIDUAL)

    def _sample(self, sample_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return evenly spaced records and their weights; all if there are few.

        The start of a search and its Hessian are computed from such a sample.

        Parameters
        ----------
        sample_size : int
            The largest number of records in the sample.

        Returns
        -------
        records : array of shape (k, *point_shape)
            The sample.
        weights : array of shape (k,)
            Their weights, which sum to 1.
        """
        if len(self._X) <= sample_size:
            return self._X, self._weights
        rows = evenly_spaced(len(self._X), sample_size)
        weights = self._weights[rows]
        return self._X[rows], weights / weights.sum()

    def _best_candidate(self) -> np.ndarray:
        """Return the best of a few candidates for the point where the search starts.

        The candidates are the first record, the end of one gradient step from it, and
        the projected arithmetic mean. If all of them are far from the records, the
        origin is a candidate too.

        Returns
        -------
        array of shape point_shape
            The candidate with the least mean squared distance to the records.
        """
        first_record = self._X[0]
        first_pass = self.make_pass(PassRequest(first_record, with_cost=True))

        # Pairs of a candidate's mean squared distance to the records and the candidate.
        candidates = [(first_pass.mean_square, first_record)]

        arithmetic_mean = np.tensordot(self._weights, self._X, axes=1)
        more_candidates = [
            self.move(first_record, first_pass.mean_log),
            np.asarray(self._M.project(arithmetic_mean)),
        ]
        for x in more_candidates:
            if np.all(np.isfinite(x)):
                result = self.make_pass(PassRequest(x, with_cost=True))
                candidates.append((result.mean_square, x))

        if not min(mean_square for mean_square, _ in candidates) < _FAR**2:
            origin = self._M.origin
            result = self.make_pass(PassRequest(origin, with_cost=True))
            candidates.append((result.mean_square, np.asarray(origin)))

        # The first of several that are equally good. Points themselves have no order.
        _, best = min(candidates, key=itemgetter(0))
        return np.asarray(best)

    def move(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the point that a step from x leads to.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate from which the step is made.
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

        On a space of constant curvature κ the Hessian of ½d² for a record at distance d
        is 1 along the geodesic to the record. Across it, it is s·cot s for κ > 0 and
        s·coth s for κ < 0, with s = √|κ|·d. The Hessian is the mean of these over a
        sample of the records.

        Parameters
        ----------
        x : array of shape point_shape
            The iterate.
        convergence : float
            The fraction of the residual that the last step left. If there was no last
            step it is inf.

        Returns
        -------
        callable or None
            A function that maps the mean logarithm at x to a step. None if the last
            step converged fast, if the space is flat or of variable curvature, or if
            its dimension is too high.
        """
        curvature = self._M.constant_curvature
        is_up_to_date = not convergence > SLOW_CONVERGENCE
        if is_up_to_date or not curvature or self._M.dim > _LARGEST_DENSE_DIM:
            return None

        X, weights = self._sample(_HESSIAN_SAMPLE)
        coordinates = np.asarray(self._M.normal_coordinates(x, X))
        hessian = self._mean_hessian(coordinates, weights)

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

        # h for every record; it is 1 at distance 0.
        squares = np.sum(Z * Z, axis=-1)
        s = np.sqrt(abs(curvature) * squares)
        is_away = s > _SMALL_ANGLE
        nonzero_s = np.where(is_away, s, 1.0)
        tangent = np.tan(nonzero_s) if curvature > 0 else np.tanh(nonzero_s)
        across = np.where(is_away, nonzero_s / tangent, 1.0)

        # Σ w·h·I plus Σ w·(1 − h)/|z|²·zzᵀ, the second sum as one matrix product.
        identity_part = float(weights @ across) * np.eye(self._M.dim)
        outer_weights = weights * (1 - across) / np.where(squares > 0, squares, 1.0)
        return np.asarray((Z * outer_weights[:, None]).T @ Z + identity_part)

    def make_pass(self, request: PassRequest) -> PassResult:
        """Compute the mean logarithm and the mean squared distance at an iterate.

        The search for the mean requests one such pass after another.

        Parameters
        ----------
        request : PassRequest
            The iterate x. The cost is always computed, whether it is asked for or not.

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
