"""The affine-invariant Fréchet mean of SPD matrices in memory, in few and cheap passes.
The current point of the search is GGᵀ with a factor G, and a step S leads to the factor
G·exp(S/2). A pass at G whitens every record Xᵢ, Aᵢ = G⁻¹XᵢG⁻ᵀ, and sums wᵢ·log Aᵢ with
the weight wᵢ of the record.

There are three kinds of passes. For 2×2 and 3×3 matrices the logarithm is a polynomial
(`spd_closed_form`). For larger ones an accurate pass computes every spectrum by `eigh`
(`spd_sums`). A series pass is faster: it uses a Chebyshev series (`spd_series`) on
intervals that contain each spectrum. Such intervals are known, because moving from G to H
shifts log-eigenvalues by at most twice the extreme values of log σ(H⁻¹G), σ the singular
values (Ostrowski 1959). Newton's method is in `spd_newton`. docs/theory/frechet-mean.md
has the measurements.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from curvedp.geometry.frechet_mean.backends.spd_closed_form import (
    pack_rows,
    packed_inverse3,
    sums_in_closed_form,
)
from curvedp.geometry.frechet_mean.backends.spd_newton import (
    SPDNewton,
    WhitenedEigen,
    hessian_sample_size,
)
from curvedp.geometry.frechet_mean.backends.spd_series import (
    ROUNDOFF,
    log_sum_by_series,
    series_degree,
)
from curvedp.geometry.frechet_mean.backends.spd_sums import (
    PLAIN_ERROR,
    WeightedSums,
    sums_by_spectrum,
    whiten,
)
from curvedp.geometry.frechet_mean.solver import (
    SLOW_CONVERGENCE,
    MeanBackend,
    PassRequest,
    PassResult,
    evenly_spaced,
)
from curvedp.geometry.manifold import Array as Matrix
from curvedp.geometry.spaces.spd_common import pack, unpack
from curvedp.numerics.eigen import eigh
from curvedp.numerics.matrix_functions import sym
from curvedp.numerics.threads import blocks, in_threads

# Bytes of the matrices in one block, which is worked on together.
_BLOCK_BYTES = 1 << 17

# Records in one block of 2×2 or 3×3 matrices, which are stored by coordinate.
_SMALL_MATRICES_PER_BLOCK = 1 << 13

FEW_NUMBERS = 1 << 12
"""Size of the data, in numbers, up to which fixed costs outweigh the arithmetic."""

# An accurate pass stores eigenvectors with at most this many numbers (64 MiB).
_STORED_NUMBERS = 1 << 23

# Series of more terms cost more time than `eigh`. The measured limits are 160 terms for
# m = 11 rows, 100 for 50 and 50 for 100.
_MOST_TERMS = 160
_MOST_TERMS_TIMES_ROWS = 5000

# The convergence rate of Newton's method that is assumed before one was observed, and
# the smallest square of a rate that the accuracy of the next pass is derived from.
_DEFAULT_RATE = 1e-3
_LEAST_SQUARED_RATE = 1e-6

# The error of a pass may be this fraction of the residual that is expected after it.
_TOLERABLE_FRACTION = 1e-2


@dataclass
class SeriesTolerance:
    """How accurate the next pass by series must be.

    Newton's method squares the convergence rate: after a step that reduced the residual
    by the factor q to r, the next residual is about r·q². An error of a hundredth of
    that is small enough for the next pass. It need not be less than a tenth of the
    residual at which the search ends.

    Parameters
    ----------
    goal : float
        Residual at which the search ends.
    residual : float
        The last residual.
    rate : float
        The last residual divided by the one before it.
    """

    goal: float
    residual: float = 1.0
    rate: float = _DEFAULT_RATE

    @property
    def least(self) -> float:
        """The smallest error that a pass is ever asked for: a tenth of the goal."""
        return max(0.1 * self.goal, ROUNDOFF)

    def next_error(self) -> float:
        """Return the error that the next pass over the records may have.

        Returns
        -------
        float
            A hundredth of the residual that Newton's method is expected to leave.
        """
        squared_rate = max(self.rate * self.rate, _LEAST_SQUARED_RATE)
        tolerable = _TOLERABLE_FRACTION * self.residual * squared_rate
        return max(self.least, tolerable)

    def record(self, residual: float, is_new_iterate: bool) -> None:
        """Store the residual of a pass, and how much smaller it is than the last one.

        Parameters
        ----------
        residual : float
            The residual of the pass.
        is_new_iterate : bool
            Whether the pass was made at a new iterate. If not, the ratio of residuals
            says nothing about convergence and the default rate is used.
        """
        self.rate = residual / self.residual if is_new_iterate else _DEFAULT_RATE
        self.residual = residual


class SPDBackend(MeanBackend):
    """Makes the passes of the search for the mean of SPD matrices in memory.

    Parameters
    ----------
    X : array, shape (n, m, m)
        The matrices, float64.
    weights : array, shape (n,)
        Weights that sum to 1.
    tolerance : float
        Length of the mean logarithm at which the search ends.
    """

    def __init__(self, X: Matrix, weights: Matrix, tolerance: float = 1e-9) -> None:
        """Cut the matrices into blocks; no logarithm is computed yet.

        2×2 and 3×3 matrices are stored by coordinate, unless there are few.

        Parameters
        ----------
        X : array of shape (n, m, m)
            The records, SPD matrices.
        weights : array of shape (n,)
            Their weights, which sum to 1.
        tolerance : float
            Length of the mean logarithm at which the search ends.
        """
        n, m, _ = X.shape
        self._X = X
        self._weights = weights
        self._tolerance = SeriesTolerance(tolerance)

        has_closed_form = m in (2, 3) and X.size > FEW_NUMBERS
        self._packed = pack_rows(X) if has_closed_form else None
        matrices_per_block = max(1, _BLOCK_BYTES // (8 * m * m))
        if has_closed_form:
            matrices_per_block = _SMALL_MATRICES_PER_BLOCK
        self._blocks = blocks(n, matrices_per_block)

        # Results of the last accurate pass, which later passes and Hessians use.
        # The factor G at which it was made:
        self._accurate_factor: Matrix = None
        # A bound on the error of a logarithm of a whitened matrix near the identity:
        self._roundoff_unit = np.inf
        # The least and the largest log-eigenvalue of each matrix, for passes by series:
        self._log_ends: Matrix = None if m <= 3 else np.empty((n, 2))
        # The eigensystems of some blocks, by the number of the block's first record:
        self._eigen: dict[int, WhitenedEigen] = {}
        # The indices of the records in groups of about the same span of
        # log-eigenvalues, from narrow to wide:
        self._groups: list[Matrix] = []

        # Eigensystems of every k-th block are stored, so that they fit into memory.
        stride = math.ceil(X.size / _STORED_NUMBERS)
        self._stored_blocks = {block.start for block in self._blocks[::stride]}

    @cached_property
    def first_iterate(self) -> Matrix:
        """A factor of the point where the search starts, close to the mean.

        The point is the geometric mean of the arithmetic mean LLᵀ and the harmonic
        mean. If round-off makes the harmonic mean useless, it is the arithmetic mean,
        and if even that is not positive definite, it is NaN.
        """
        block_sums = in_threads(self._sum_with_inverses, self._blocks)
        record_sums, inverse_sums = zip(*block_sums, strict=True)
        arithmetic_mean = sym(np.sum(record_sums, axis=0))
        mean_inverse = sym(np.sum(inverse_sums, axis=0))
        try:
            L = np.linalg.cholesky(arithmetic_mean)
        except np.linalg.LinAlgError:
            return np.full_like(arithmetic_mean, np.nan)

        # The inverse of the harmonic mean, in the coordinates in which the arithmetic
        # mean is the identity.
        whitened = sym(L.T @ mean_inverse @ L)
        if not np.all(np.isfinite(whitened)):
            return L
        eigenvalues, U = np.linalg.eigh(whitened)
        if not np.all(eigenvalues > 0):  # too ill-conditioned for the harmonic mean
            return L
        # The geometric mean is L·whitened^(−1/2)·Lᵀ; the power −1/4 gives its factor.
        return L @ (U * eigenvalues**-0.25)

    def move(self, G: Matrix, step: Matrix) -> Matrix:
        """Return the factor G·exp(S/2) of the point that a step S leads to.

        Parameters
        ----------
        G : array, shape (m, m)
            The factor of the iterate GGᵀ.
        step : array, shape (m, m)
            S, a symmetric matrix: the tangent vector is GSGᵀ.

        Returns
        -------
        array, shape (m, m)
            The factor of the next iterate.
        """
        eigenvalues, U = np.linalg.eigh(step)
        return G @ ((U * np.exp(0.5 * eigenvalues)) @ U.T)

    def newton(self, G: Matrix, convergence: float) -> SPDNewton | None:
        """Return Newton's method at the iterate GGᵀ, or None to keep the one in use.

        It is computed from the eigenvalues and eigenvectors of the last accurate pass
        if that pass was made at G, and otherwise from a sample of the records.

        Parameters
        ----------
        G : array, shape (m, m)
            The factor of the iterate GGᵀ.
        convergence : float
            The fraction of the residual that the last step left. Newton's method is
            kept unless this is above `SLOW_CONVERGENCE`.

        Returns
        -------
        SPDNewton or None
            The map from the mean logarithm at the iterate to a step.
        """
        if not convergence > SLOW_CONVERGENCE:
            return None
        if self._accurate_factor is G and self._eigen:
            return SPDNewton([self._eigen[start] for start in sorted(self._eigen)])

        # The eigensystems at G are not stored: compute those of a sample.
        X = self._X
        weights = self._weights
        sample_size = hessian_sample_size(len(G))
        if len(X) > sample_size:
            rows = evenly_spaced(len(X), sample_size)
            X = X[rows]
            weights = weights[rows]
        eigenvalues, vectors = eigh(whiten(np.linalg.inv(G), X))
        return SPDNewton([WhitenedEigen(eigenvalues, vectors, weights / weights.sum())])

    def make_pass(self, request: PassRequest) -> PassResult:
        """Make a pass over the records: an accurate one, or a faster one by series.

        The accurate pass computes the spectrum of every matrix. It is made if the cost
        is asked for, for 2×2 and 3×3 matrices, and the first time. The error of a pass
        by series is about a hundredth of the expected residual (`SeriesTolerance`).

        Parameters
        ----------
        request : PassRequest
            The factor G of the iterate GGᵀ, and whether the cost is needed.

        Returns
        -------
        PassResult
            The mean logarithm at the iterate, with a bound on its error. The mean
            squared distance is NaN after a pass by series.
        """
        G = request.x
        if not np.all(np.isfinite(G)):
            return PassResult(G, np.nan)
        error = self._tolerance.next_error()
        has_intervals = bool(self._groups)  # intervals that contain the spectra
        if request.with_cost or not has_intervals:
            result = self.accurate_pass(G)
        else:
            result = self.series_pass(G, error)
        is_new_iterate = self._accurate_factor is not G
        self._tolerance.record(result.residual, is_new_iterate)
        return result

    def iterate_at(self, p: Matrix) -> Matrix:
        """Return a factor G of the point p = GGᵀ: its Cholesky factor."""
        return np.linalg.cholesky(p)

    def point(self, G: Matrix) -> Matrix:
        """Return the point GGᵀ that a factor G stands for, symmetric to the last bit."""
        return sym(G @ G.T)

    def accurate_pass(self, G: Matrix) -> PassResult:
        """Make a pass that computes the spectrum of every whitened matrix.

        It also stores what later passes by series and Hessians need: the factor G, the
        least and the largest log-eigenvalue of every matrix, the eigenvectors of some
        matrices, and groups of records whose log-eigenvalues have similar spans.

        Parameters
        ----------
        G : array, shape (m, m)
            The factor of the iterate GGᵀ.

        Returns
        -------
        PassResult
            The mean logarithm, the mean squared distance and an error bound.
        """
        inverse = np.linalg.inv(G)
        self._accurate_factor = G
        if self._tolerance.least < PLAIN_ERROR:  # the general bound is too large
            self._roundoff_unit = _roundoff_near_identity(G)
        if self._packed is not None:
            return self._accurate_pass_in_closed_form(G, inverse, self._packed)

        def sums_over(block: slice) -> WeightedSums:
            """Return the sums over one block, and store its eigensystems."""
            return self._sums_by_eigh(G, inverse, block)

        result = _add_blocks(sums_over, self._blocks)
        if self._log_ends is not None:
            spans = self._log_ends[:, 1] - self._log_ends[:, 0]
            order = np.argsort(spans)
            self._groups = [order[block] for block in self._blocks]
        return result

    def _accurate_pass_in_closed_form(
        self, G: Matrix, inverse: Matrix, packed: Matrix
    ) -> PassResult:
        """Make an accurate pass over 2×2 or 3×3 matrices, with closed formulas.

        `accurate_pass` calls it if the matrices are stored by coordinate.

        Parameters
        ----------
        G, inverse : array, shape (m, m)
            The factor of the iterate GGᵀ and its inverse.
        packed : array, shape (m(m + 1)/2, n)
            All records: one coordinate of their lower triangles in each row, as
            `pack_rows` arranges them.

        Returns
        -------
        PassResult
            The mean logarithm, the mean squared distance and an error bound.
        """
        # Whitening, S ↦ G⁻¹SG⁻ᵀ, is linear in S. In packed coordinates it is one small
        # matrix, whose columns are the images of the basis vectors.
        basis_matrices = unpack(np.eye(len(packed)), len(G))
        whitened_basis = inverse @ basis_matrices @ inverse.T
        whitening = pack(whitened_basis).T

        def sums_over(block: slice) -> WeightedSums:
            """Return the sums over one block, whitened in packed coordinates."""
            return sums_in_closed_form(
                self._roundoff_unit,
                G,
                whitening @ packed[:, block],
                self._X[block],
                self._weights[block],
            )

        return _add_blocks(sums_over, self._blocks)

    def _sums_by_eigh(self, G: Matrix, inverse: Matrix, block: slice) -> WeightedSums:
        """Sum logarithms accurately over one block of records, with LAPACK's eigensolver.

        The least and the largest log-eigenvalue of each matrix are stored, and for some
        blocks also the eigenvalues and eigenvectors.

        Parameters
        ----------
        G, inverse : array, shape (m, m)
            The factor of the iterate GGᵀ and its inverse.
        block : slice
            The block of records.

        Returns
        -------
        WeightedSums
            The sums of the logarithms and of the squared distances over the block.
        """
        eigenvalues, U = np.linalg.eigh(whiten(inverse, self._X[block]))
        if block.start in self._stored_blocks:
            self._eigen[block.start] = WhitenedEigen(
                eigenvalues, U, self._weights[block]
            )
        spectral = sums_by_spectrum(
            self._roundoff_unit, G, eigenvalues, U, self._X[block], self._weights[block]
        )

        # An ill-conditioned matrix gets an infinite interval: no series is used for it.
        if self._log_ends is not None:
            least_and_largest = spectral.log_eigenvalues[:, [0, -1]]
            self._log_ends[block] = np.where(
                spectral.is_well_conditioned[:, None],
                least_and_largest,
                [-np.inf, np.inf],
            )
        return spectral.sums

    def series_pass(self, G: Matrix, error: float) -> PassResult:
        """Make a pass by Chebyshev series, for which no spectrum is computed.

        The series of a record uses an interval that contains its log-eigenvalues, which
        the last accurate pass stored (`_intervals_at`). A group of records whose series
        would need too many terms is passed to `eigh`.

        Parameters
        ----------
        G : array, shape (m, m)
            The factor of the iterate GGᵀ.
        error : float
            Largest error of the mean logarithm.

        Returns
        -------
        PassResult
            The mean logarithm and its error bound; the mean squared distance is NaN.
        """
        intervals = self._intervals_at(G)
        inverse = np.linalg.inv(G)
        most_terms = min(_MOST_TERMS, _MOST_TERMS_TIMES_ROWS // len(G))

        def sums_over(rows: Matrix) -> WeightedSums:
            """Return the sums over one group of records, given by their indices.

            The group is summed by series, or by `eigh` if the series would take too
            many terms or does not converge.
            """
            A = whiten(inverse, self._X[rows])
            weights = self._weights[rows]
            low = intervals.low[rows]
            high = intervals.high[rows]
            # The records of a group are sorted by their span: the last is the widest.
            half_width = float(high[-1] - low[-1]) / 2
            degree = series_degree(half_width, error)

            if degree is None or degree > most_terms:
                eigenvalues, U = np.linalg.eigh(A)
                return sums_by_spectrum(
                    self._roundoff_unit, G, eigenvalues, U, self._X[rows], weights
                ).sums
            log_sum = log_sum_by_series(A, weights, low, high, degree)
            return WeightedSums(log_sum, np.nan, error * float(weights.sum()))

        return _add_blocks(sums_over, self._groups)

    def _intervals_at(self, G: Matrix) -> "_SpectralIntervals":
        """Return an interval that contains the log-eigenvalues of each record at G.

        It is the interval of the last accurate pass, made at the factor F, with its
        ends moved by twice the extreme values of log σ. Here σ are the singular values
        of G⁻¹F (Ostrowski 1959).

        Parameters
        ----------
        G : array, shape (m, m)
            The factor of the iterate GGᵀ.

        Returns
        -------
        _SpectralIntervals
            One interval for each record.
        """
        move = np.linalg.solve(G, self._accurate_factor)  # G⁻¹F
        singular_values = np.linalg.svd(move, compute_uv=False)  # descending
        shifts = 2 * np.log(singular_values)
        return _SpectralIntervals(
            low=self._log_ends[:, 0] + shifts[-1],
            high=self._log_ends[:, 1] + shifts[0],
        )

    def _sum_with_inverses(self, block: slice) -> tuple[Matrix, Matrix]:
        """Return the weighted sum of the records of a block, and that of their inverses.

        The arithmetic and the harmonic mean, from which the search starts, are made of
        these sums.

        Parameters
        ----------
        block : slice
            The block of records.

        Returns
        -------
        weighted_sum, inverse_sum : arrays of shape (m, m)
            Σ wX and Σ wX⁻¹ over the records X with weights w. The second is NaN if a
            matrix has no inverse.
        """
        weights = self._weights[block]
        m = self._X.shape[-1]
        if self._packed is not None and m == 3:
            A = self._packed[:, block]
            return unpack(A @ weights, m), unpack(packed_inverse3(A) @ weights, m)
        X = self._X[block]
        try:
            inverse = np.linalg.inv(X)
        except np.linalg.LinAlgError:
            inverse = np.full_like(X, np.nan)
        return np.tensordot(weights, X, axes=1), np.tensordot(weights, inverse, axes=1)


class _SpectralIntervals(NamedTuple):
    """Intervals [low, high] that contain the log-eigenvalues of whitened records.

    Attributes
    ----------
    low, high : arrays of shape (n,)
        The ends of the interval of each record.
    """

    low: Matrix
    high: Matrix


def _roundoff_near_identity(G: Matrix) -> float:
    """Bound the error of the logarithm of a matrix, whitened by G, near the identity.

    Parameters
    ----------
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.

    Returns
    -------
    float
        16·m units of round-off times the condition number of GGᵀ.
    """
    condition = float(np.linalg.cond(G)) ** 2
    return 16 * len(G) * 2.0**-53 * condition


def _add_blocks(
    sums_over_block: Callable[[Any], WeightedSums], record_blocks: Sequence[Any]
) -> PassResult:
    """Make a pass over all blocks of records in parallel, and add up their sums.

    Every kind of pass ends with this step.

    Parameters
    ----------
    sums_over_block : callable
        Maps a block to the weighted sums over its records. It runs in several threads.
    record_blocks : sequence
        The blocks: slices, or arrays of indices.

    Returns
    -------
    PassResult
        The sums over all records, which are means because the weights sum to 1.
    """
    if len(record_blocks) == 1:
        return PassResult(*sums_over_block(record_blocks[0]))
    sums = in_threads(sums_over_block, record_blocks)
    return PassResult(
        np.sum([block_sums.log_sum for block_sums in sums], axis=0),
        sum(block_sums.square_sum for block_sums in sums),
        sum(block_sums.error for block_sums in sums),
    )
