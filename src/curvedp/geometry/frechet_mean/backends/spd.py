"""The affine-invariant Fréchet mean of SPD matrices in memory, in few and cheap passes.
The current point of the search is GGᵀ with a factor G, and a step S leads to the factor
G·exp(S/2). A pass at G whitens every record Xᵢ, Aᵢ = G⁻¹XᵢG⁻ᵀ, and sums wᵢ·log Aᵢ with
the weight wᵢ of the record.

There are three kinds of passes. For 2×2 and 3×3 matrices the logarithm is a polynomial.
For larger ones an accurate pass computes every spectrum by `eigh`. A series pass is
faster: it uses the Chebyshev series of `_log_sum_by_series` on intervals that contain
each spectrum. Such intervals are known, because moving from G to H shifts
log-eigenvalues by at most twice the extreme values of log σ(H⁻¹G), σ the singular values
(Ostrowski 1959). docs/theory/frechet-mean.md has the measurements.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np

from curvedp.geometry.frechet_mean.solver import (
    SLOW_CONVERGENCE,
    MeanBackend,
    PassRequest,
    PassResult,
)
from curvedp.geometry.manifold import Array as Matrix
from curvedp.geometry.spaces.spd_common import pack, unpack
from curvedp.numerics.eigen import eigh
from curvedp.numerics.matrix_functions import sym
from curvedp.numerics.spd3 import log_polynomial, squared
from curvedp.numerics.spd_pencil import log_spectrum
from curvedp.numerics.threads import blocks, in_threads

# Bytes of the matrices in one block, which is worked on together.
_BLOCK_BYTES = 1 << 17

# Records in one block of 2×2 or 3×3 matrices, which are stored by coordinate.
_SMALL_MATRICES_PER_BLOCK = 1 << 13

FEW_NUMBERS = 1 << 12
"""Size of the data, in numbers, up to which fixed costs outweigh the arithmetic."""

# An accurate pass stores eigenvectors with at most this many numbers (64 MiB).
_STORED_NUMBERS = 1 << 23

# Plain double precision resolves the logarithm of a matrix whose eigenvalues have a
# ratio λ_min/λ_max above the first number; the second bounds the error at that ratio.
_LEAST_RATIO = 1e-5
_PLAIN_ERROR = 1e-11

# Ratios λ_min/λ_max in a Hessian are raised to this one: round-off may make an
# eigenvalue negative, and the Hessian need not be exact.
_LEAST_HESSIAN_RATIO = 1e-16

# Up to this number m of rows the Hessian, an m²×m² matrix, is inverted.
_LARGEST_INVERTED = 3

# Numbers of records that give the Hessian to about one percent. `_SAMPLE_SMALL` is for
# matrices of up to 3 rows, `_SAMPLE_MEDIUM` for up to `_MEDIUM_ROWS` rows, and
# `_SAMPLE_LARGE` for larger matrices, whose Hessians vary less.
_SAMPLE_SMALL = 1024
_SAMPLE_MEDIUM = 256
_MEDIUM_ROWS = 32
_SAMPLE_LARGE = 128

# Cap on the rounds of conjugate gradients. They need only a few, and the search does not
# accept a step that does not help.
_CG_ROUNDS = 1000

# Conjugate gradients end when the squared residual is at most this fraction of the first
# one. The first constant is for a solution that is refined afterwards, the second for
# one that is not.
_CG_SQUARE_BEFORE_REFINEMENT = 1e-6
_CG_SQUARE = 1e-8

# How often a Newton step is refined with the Hessian of all records. Each refinement
# gains about two digits.
_REFINEMENTS = 2

# Series of more terms cost more time than `eigh`. The measured limits are 160 terms for
# m = 11 rows, 100 for 50 and 50 for 100.
_MOST_TERMS = 160
_MOST_TERMS_TIMES_ROWS = 5000

# ---- Newton's method -----------------------------------------------------------------


class WhitenedEigen(NamedTuple):
    """Eigensystems of n whitened m×m matrices G⁻¹XG⁻ᵀ, and the weights of the records X.

    GGᵀ is the point at which the matrices were whitened.

    Attributes
    ----------
    eigenvalues : array of shape (n, m)
        In ascending order.
    vectors : array of shape (n, m, m)
        The eigenvectors, in columns.
    weights : array of shape (n,)
        The weights of the records.
    """

    eigenvalues: Matrix
    vectors: Matrix
    weights: Matrix


class WeightedSums(NamedTuple):
    """Weighted sums over some of the records: what they contribute to a pass.

    The weights of all records sum to 1, so that the sums over all records are means.

    Attributes
    ----------
    log_sum : array of shape (m, m)
        Σ w·log A over the whitened records A with weights w.
    square_sum : float
        Σ w·‖log A‖², or NaN if it was not computed.
    error : float
        A bound on the error of `log_sum`.
    """

    log_sum: Matrix
    square_sum: float
    error: float = 0.0


def evenly_spaced(n: int, sample_size: int) -> Matrix:
    """Return the indices of `sample_size` evenly spaced records out of n.

    Samples serve to find a start or a Hessian. They are not random, so that the same
    records give the same mean.

    Parameters
    ----------
    n : int
        The number of records, more than `sample_size`.
    sample_size : int
        The number of records in the sample.

    Returns
    -------
    array of int, shape (sample_size,)
        Increasing indices, from 0 to n − 1.
    """
    return np.linspace(0, n - 1, sample_size).astype(np.int64)


def _hessian_sample_size(m: int) -> int:
    """Return how many m×m records suffice to compute the Hessian of the cost.

    Parameters
    ----------
    m : int
        The number of rows of each matrix.

    Returns
    -------
    int
        The number of records that give the Hessian to about one percent.
    """
    if m <= _LARGEST_INVERTED:
        return _SAMPLE_SMALL
    if m <= _MEDIUM_ROWS:
        return _SAMPLE_MEDIUM
    return _SAMPLE_LARGE


class SPDNewton:
    """Newton's method: the map from a mean logarithm E to the step H⁻¹E.

    The point of the search is whitened, so that it is the identity I, and every record
    becomes a matrix A = U·diag(λ)·Uᵀ. H is the Hessian of the cost ½·mean d² at I, which
    is the mean over the records of the maps E ↦ U(K ⊙ UᵀEU)Uᵀ. Here K_rs is
    (s/2)·coth(s/2) at s = log λ_r − log λ_s, and ⊙ multiplies entry by entry.

    H is at least 1 and varies little from record to record, so a few hundred records
    give it to about one percent. For small matrices (`_LARGEST_INVERTED`) the Hessian
    of such a sample is inverted. For larger ones Hx = E is solved by conjugate
    gradients with the Hessian of the sample, and the solution is then refined with that
    of all records. The refinement costs a tenth of a pass and gains three to six digits
    in each Newton step.

    Parameters
    ----------
    eigen_blocks : sequence of WhitenedEigen
        The whitened matrices, in blocks.
    """

    def __init__(self, eigen_blocks: Sequence[WhitenedEigen]) -> None:
        """Form the Hessian of a sample, and that of all records for refinement.

        Parameters
        ----------
        eigen_blocks : sequence of WhitenedEigen
            Eigenvalues, eigenvectors and weights of the whitened records, in blocks.
        """
        # Join the blocks.
        self._total_weight = sum(float(block.weights.sum()) for block in eigen_blocks)
        combined = eigen_blocks[0]
        if len(eigen_blocks) > 1:
            arrays = zip(*eigen_blocks, strict=True)
            combined = WhitenedEigen(*(np.concatenate(pieces) for pieces in arrays))

        # The Hessian of a sample, or of all records if they are few.
        n, m = combined.eigenvalues.shape
        sample_size = _hessian_sample_size(m)
        is_sampled = n > sample_size
        sample = combined
        if is_sampled:
            rows = evenly_spaced(n, sample_size)
            weights = combined.weights[rows]
            sample = WhitenedEigen(
                combined.eigenvalues[rows],
                combined.vectors[rows],
                weights / weights.sum(),
            )
        self._sample_hessian = _Hessian(sample)

        # The inverse for small matrices (None for others), and the Hessian of all
        # records, block by block, where steps are refined (empty elsewhere).
        self.inverse = None
        if m <= _LARGEST_INVERTED:
            self.inverse = np.linalg.inv(self._sample_hessian.matrix())
        self._full_hessian: list[_Hessian] = []
        if self.inverse is None and is_sampled:
            self._full_hessian = [_Hessian(block) for block in eigen_blocks]

    def __call__(self, mean_log: Matrix) -> Matrix:
        """Return the Newton step H⁻¹E, with H the Hessian of the cost ½·mean d².

        E is the symmetric part of the mean logarithm. The step is symmetric to the last
        bit, like the values of H, and must stay so: otherwise the residual would keep a
        skew part that never decreases, and if the mean logarithm is only round-off (the
        start was the mean already) the conjugate gradients would diverge.

        Parameters
        ----------
        mean_log : array, shape (m, m)
            The mean logarithm of the records at the whitened iterate, which is minus
            the gradient of the cost.

        Returns
        -------
        array, shape (m, m)
            The step.
        """
        right_side = sym(mean_log)
        if self.inverse is not None:
            entries = self.inverse @ right_side.ravel()
            return sym(entries.reshape(right_side.shape))

        step = self._conjugate_gradients(right_side)
        if self._full_hessian:
            for _ in range(_REFINEMENTS):
                # Correct the step for the residual E − Hx with the H of all records.
                products = in_threads(methodcaller("times", step), self._full_hessian)
                product = np.sum(products, axis=0) / self._total_weight
                step = step + self._conjugate_gradients(right_side - product)
        return step

    def _conjugate_gradients(self, right_side: Matrix) -> Matrix:
        """Solve Hx = right_side approximately, with H the Hessian of a sample.

        The method of conjugate gradients reduces the residual right_side − Hx to 1e-4
        of its length, or to 1e-3 where the solution will be refined with the Hessian of
        all records.

        Parameters
        ----------
        right_side : array of shape (m, m)
            A symmetric matrix.

        Returns
        -------
        array of shape (m, m)
            The symmetric matrix x.
        """
        x = np.zeros_like(right_side)
        residual = right_side
        direction = residual
        residual_square = float(np.sum(residual * residual))

        is_refined = bool(self._full_hessian)
        reduction = _CG_SQUARE_BEFORE_REFINEMENT if is_refined else _CG_SQUARE
        goal = reduction * residual_square
        for _ in range(_CG_ROUNDS):
            if not residual_square > goal:
                break
            image = self._sample_hessian.times(direction)
            curvature = float(np.sum(direction * image))
            if not curvature > 0:  # the direction is so small that products vanish
                break

            # The minimum along the direction, and the next, conjugate direction.
            step_length = residual_square / curvature
            x = x + step_length * direction
            residual = residual - step_length * image
            last_square = residual_square
            residual_square = float(np.sum(residual * residual))
            direction = residual + (residual_square / last_square) * direction
        return x


class _Hessian:
    """The Hessian E ↦ Σ w·U(K ⊙ UᵀEU)Uᵀ of the cost, summed over some records.

    Every record is a whitened matrix with weight w, eigenvectors U and log-eigenvalues
    l. K_rs is (s/2)·coth(s/2) at s = l_r − l_s, and ⊙ multiplies entry by entry.
    """

    def __init__(self, eigen: WhitenedEigen) -> None:
        """Compute for every record the matrix of the Hessian in its eigenvectors.

        That matrix is w·K with w the record's weight and K_rs = (s/2)·coth(s/2) at the
        difference s = l_r − l_s of the record's log-eigenvalues l.

        Parameters
        ----------
        eigen : WhitenedEigen
            Eigenvalues, eigenvectors and weights of n whitened m×m matrices.
        """
        largest = eigen.eigenvalues[:, -1:]
        logs = np.log(np.maximum(eigen.eigenvalues, _LEAST_HESSIAN_RATIO * largest))

        # K = (s/2)/tanh(s/2) for every record and every pair (r, s); it is 1 at s = 0.
        half_gap = 0.5 * (logs[:, :, None] - logs[:, None, :])  # s/2
        is_zero = half_gap == 0
        tanh = np.tanh(np.where(is_zero, 1.0, half_gap))
        K = np.where(is_zero, 1.0, half_gap / tanh)
        self._weighted_K = K * eigen.weights[:, None, None]
        self._U = eigen.vectors
        # The matrices Uᵀ one below the other, shape (n·m, m).
        self._eigenvector_rows = self._U.mT.reshape(-1, logs.shape[1])

    def times(self, E: Matrix) -> Matrix:
        """Return the product Σ w·U(K ⊙ UᵀEU)Uᵀ of this Hessian with a matrix E.

        Products of all records with E are made at once, as one tall matrix product. The
        matrices w·K were computed before (`_weighted_K`).

        Parameters
        ----------
        E : array of shape (m, m)
            A symmetric matrix.

        Returns
        -------
        array of shape (m, m)
            The product, symmetric to the last bit.
        """
        n, m, _ = self._U.shape
        rows_times_E = (self._eigenvector_rows @ E).reshape(n, m, m)  # UᵀE, by record
        rotated = self._U.mT @ rows_times_E.mT  # UᵀEU
        scaled = self._weighted_K * rotated
        left_products = (scaled @ self._U.mT).reshape(n * m, m)
        return sym(left_products.T @ self._eigenvector_rows)

    def matrix(self) -> Matrix:
        """Return this Hessian as a matrix that acts on the entries of E, row by row.

        The matrix is the sum over the records of (U⊗U)·diag(w·K)·(U⊗U)ᵀ, computed as
        one matrix product. The columns of U are the eigenvectors of a record, w is its
        weight, and K_rs is (s/2)·coth(s/2) at the difference s = l_r − l_s of its
        log-eigenvalues.

        Returns
        -------
        array of shape (m², m²)
            The matrix.
        """
        # With the records on the last axis, shape (m, m, n).
        U = np.ascontiguousarray(self._U.transpose(1, 2, 0))
        weighted_K = np.ascontiguousarray(self._weighted_K.transpose(1, 2, 0))

        # U⊗U of all records side by side: entry ((i, j), (r, s, record)) is U_ir·U_js.
        kronecker = (U[:, None, :, None] * U[None, :, None, :]).reshape(len(U) ** 2, -1)
        return np.asarray((kronecker * weighted_K.reshape(1, -1)) @ kronecker.T)


# ---- passes --------------------------------------------------------------------------

# The convergence rate of Newton's method that is assumed before one was observed, and
# the smallest square of a rate that the accuracy of the next pass is derived from.
_DEFAULT_RATE = 1e-3
_LEAST_SQUARED_RATE = 1e-6

# The error of a pass may be this fraction of the residual that is expected after it.
_TOLERABLE_FRACTION = 1e-2

# No pass is asked for more accuracy than this: it is a few units of round-off.
_ROUNDOFF = 1e-15


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
        return max(0.1 * self.goal, _ROUNDOFF)

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
        matrices_per_block = max(1, _BLOCK_BYTES // (8 * m * m))
        if has_closed_form:
            matrices_per_block = _SMALL_MATRICES_PER_BLOCK
        self._blocks = blocks(n, matrices_per_block)
        self._packed = _pack_rows(X) if has_closed_form else None

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
        arithmetic = sym(np.sum(record_sums, axis=0))
        mean_inverse = sym(np.sum(inverse_sums, axis=0))
        try:
            L = np.linalg.cholesky(arithmetic)
        except np.linalg.LinAlgError:
            return np.full_like(arithmetic, np.nan)

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
            stored = [
                self._eigen[block.start]
                for block in self._blocks
                if block.start in self._eigen
            ]
            return SPDNewton(stored)

        # The eigensystems at G are not stored: compute those of a sample.
        X, weights = self._X, self._weights
        sample_size = _hessian_sample_size(len(G))
        if len(X) > sample_size:
            rows = evenly_spaced(len(X), sample_size)
            X, weights = X[rows], weights[rows]
        eigenvalues, vectors = eigh(_whiten(np.linalg.inv(G), X))
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
        if self._tolerance.least < _PLAIN_ERROR:
            # The general bound is too large. The logarithm of a whitened matrix near
            # the identity has a smaller error: 16·m units of round-off times the
            # condition number of GGᵀ.
            condition = float(np.linalg.cond(G)) ** 2
            self._roundoff_unit = 16 * len(G) * 2.0**-53 * condition

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

        Parameters
        ----------
        G, inverse : array, shape (m, m)
            The factor of the iterate GGᵀ and its inverse.
        packed : array, shape (m(m + 1)/2, n)
            All records: one coordinate of their lower triangles in each row, as
            `_pack_rows` arranges them.

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
            return _sums_in_closed_form(
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
        eigenvalues, U = np.linalg.eigh(_whiten(inverse, self._X[block]))
        if block.start in self._stored_blocks:
            self._eigen[block.start] = WhitenedEigen(
                eigenvalues, U, self._weights[block]
            )
        logs, is_resolved, sums = _sums_by_spectrum(
            self._roundoff_unit, G, eigenvalues, U, self._X[block], self._weights[block]
        )

        # A matrix that is not resolved gets an infinite interval: no series for it.
        if self._log_ends is not None:
            least_and_largest = logs[:, [0, -1]]
            self._log_ends[block] = np.where(
                is_resolved[:, None], least_and_largest, [-np.inf, np.inf]
            )
        return sums

    def series_pass(self, G: Matrix, error: float) -> PassResult:
        """Make a pass by Chebyshev series, for which no spectrum is computed.

        Let F be the factor of the last accurate pass (`_accurate_factor`). That pass
        stored an interval that contains the log-eigenvalues of each record. At G they
        lie in that interval with its ends moved by twice the extreme values of log σ,
        where σ are the singular values of G⁻¹F (Ostrowski 1959). A group of records
        whose series would need too many terms is passed to `eigh`.

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
        # The intervals that contain the log-eigenvalues of each record at G.
        move = np.linalg.solve(G, self._accurate_factor)  # G⁻¹F
        singular_values = np.linalg.svd(move, compute_uv=False)  # descending
        shifts = 2 * np.log(singular_values)
        low = self._log_ends[:, 0] + shifts[-1]
        high = self._log_ends[:, 1] + shifts[0]
        inverse = np.linalg.inv(G)
        most_terms = min(_MOST_TERMS, _MOST_TERMS_TIMES_ROWS // len(G))

        def sums_over(rows: Matrix) -> WeightedSums:
            """Return the sums over one group of records, given by their indices.

            The group is summed by series, or by `eigh` if the series would take too
            many terms or does not converge.
            """
            A = _whiten(inverse, self._X[rows])
            weights = self._weights[rows]
            widest = rows[-1]  # the records of a group are sorted by their span
            half_width = float(high[widest] - low[widest]) / 2
            degree = _series_degree(half_width, error)

            if degree is None or degree > most_terms:
                eigenvalues, U = np.linalg.eigh(A)
                _, _, sums = _sums_by_spectrum(
                    self._roundoff_unit, G, eigenvalues, U, self._X[rows], weights
                )
                return sums
            log_sum = _log_sum_by_series(A, weights, low[rows], high[rows], degree)
            return WeightedSums(log_sum, np.nan, error * float(weights.sum()))

        return _add_blocks(sums_over, self._groups)

    def _sum_with_inverses(self, block: slice) -> tuple[Matrix, Matrix]:
        """Return the weighted sum of the records of a block, and that of their inverses.

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
            return unpack(A @ weights, m), unpack(_packed_inverse3(A) @ weights, m)
        X = self._X[block]
        try:
            inverse = np.linalg.inv(X)
        except np.linalg.LinAlgError:
            inverse = np.full_like(X, np.nan)
        return np.tensordot(weights, X, axes=1), np.tensordot(weights, inverse, axes=1)


def _add_blocks(
    sums_over_block: Callable[[Any], WeightedSums], record_blocks: Sequence[Any]
) -> PassResult:
    """Make a pass over all blocks of records in parallel, and add up their sums.

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


def _sums_by_spectrum(
    roundoff_unit: float,
    G: Matrix,
    eigenvalues: Matrix,
    U: Matrix,
    X: Matrix,
    weights: Matrix,
) -> tuple[Matrix, Matrix, WeightedSums]:
    """Sum the logarithms of whitened matrices whose eigenvectors are known.

    If the ratio of the extreme eigenvalues of a matrix is too small for plain double
    precision, its spectrum is computed again to high relative accuracy
    (`_add_unresolved_matrices`).

    Parameters
    ----------
    roundoff_unit : float
        A bound on the error of the logarithm of a whitened matrix near the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    eigenvalues, U : array, shapes (n, m) and (n, m, m)
        The eigenvalues, in ascending order, and the eigenvectors of the whitened
        matrices G⁻¹XG⁻ᵀ.
    X, weights : array, shapes (n, m, m) and (n,)
        The records and their weights.

    Returns
    -------
    logs : array, shape (n, m)
        The log-eigenvalues; 0 for matrices that are not resolved.
    is_resolved : array of bool, shape (n,)
        True for the matrices that plain double precision resolves.
    sums : WeightedSums
        The sums over all matrices.
    """
    ratio = eigenvalues[:, 0] / eigenvalues[:, -1]
    is_resolved = ratio > _LEAST_RATIO
    if is_resolved.all():
        logs = np.log(eigenvalues)
        resolved_sum = _weighted_sum(logs, U, weights)
    else:
        logs = np.log(np.where(is_resolved[:, None], eigenvalues, 1.0))
        resolved_sum = _weighted_sum(logs, U, np.where(is_resolved, weights, 0.0))

    sums = _add_unresolved_matrices(resolved_sum, roundoff_unit, G, X, weights, ratio)
    return logs, is_resolved, sums


def _add_unresolved_matrices(
    resolved_sums: WeightedSums,
    roundoff_unit: float,
    G: Matrix,
    X: Matrix,
    weights: Matrix,
    ratio: Matrix,
) -> WeightedSums:
    """Add the matrices that double precision does not resolve to the sums of a pass.

    The eigenvalues of these matrices are computed to high relative accuracy
    (`log_spectrum`).

    Parameters
    ----------
    resolved_sums : WeightedSums
        The sums over the matrices with ratio > `_LEAST_RATIO`.
    roundoff_unit : float
        A bound on the error of the logarithm of a whitened matrix near the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    X, weights : array, shapes (n, m, m) and (n,)
        All matrices and their weights.
    ratio : array, shape (n,)
        The least divided by the largest eigenvalue of each whitened matrix.

    Returns
    -------
    WeightedSums
        The sums over all matrices, with a bound on their error.
    """
    log_sum, square_sum, _ = resolved_sums
    is_resolved = ratio > _LEAST_RATIO
    error = _PLAIN_ERROR
    if is_resolved.all():
        worst_ratio = float(np.min(ratio, initial=1.0))
        error = min(_PLAIN_ERROR, roundoff_unit / worst_ratio)
    else:
        # Spectra of L⁻¹XL⁻ᵀ with the Cholesky factor L of the iterate. `log_spectrum`
        # returns one factor for each record, and all of them are equal.
        factors, logs, U = log_spectrum(sym(G @ G.T), X[~is_resolved])
        L = factors[0]
        # L and G are factors of one matrix, so they differ by a rotation, by which the
        # eigenvectors of L⁻¹XL⁻ᵀ become those of G⁻¹XG⁻ᵀ.
        rotation = np.linalg.solve(L, G)
        unresolved = _weighted_sum(logs, rotation.T @ U, weights[~is_resolved])
        log_sum = log_sum + unresolved.log_sum
        square_sum = square_sum + unresolved.square_sum
    return WeightedSums(log_sum, square_sum, error * float(weights.sum()))


def _weighted_sum(logs: Matrix, U: Matrix, weights: Matrix) -> WeightedSums:
    """Return the weighted sums of logarithms and of their squared lengths.

    Parameters
    ----------
    logs, U : arrays of shape (n, m) and (n, m, m)
        Eigenvalues and eigenvectors of the logarithms.
    weights : array of shape (n,)
        The weights w.

    Returns
    -------
    WeightedSums
        Σ w·U·diag(logs)·Uᵀ and Σ w·|logs|².
    """
    n, m = logs.shape
    # The eigenvectors of all records as columns, side by side: one matrix product then
    # sums over the records.
    eigenvectors = U.transpose(1, 0, 2).reshape(m, n * m)
    log_sum = (eigenvectors * (weights[:, None] * logs).ravel()) @ eigenvectors.T
    return WeightedSums(log_sum, float(np.sum(weights[:, None] * logs * logs)))


def _whiten(inverse: Matrix, X: Matrix) -> Matrix:
    """Return the matrices G⁻¹XG⁻ᵀ, symmetric to the last bit.

    Parameters
    ----------
    inverse : array of shape (m, m)
        G⁻¹, where GGᵀ is the iterate.
    X : array of shape (n, m, m)
        Symmetric matrices.

    Returns
    -------
    array of shape (n, m, m)
        The whitened matrices.
    """
    n, m, _ = X.shape
    right_product = (X.reshape(n * m, m) @ inverse.T).reshape(n, m, m)  # XG⁻ᵀ
    return sym(inverse @ right_product)


# ---- logarithms by series ------------------------------------------------------------

# Divisors are at least this: matrices that are multiples of I have a span of 0.
_TINY = 1e-300


def _series_degree(half_width: float, error: float) -> int | None:
    """Return the degree at which a Chebyshev series of the logarithm may be cut off.

    With σ half the span of the log-eigenvalues and q = tanh(σ/2), the terms of the
    series of `_log_sum_by_series` beyond degree d add up to less than 2q^{d+1}/(1−q).

    Parameters
    ----------
    half_width : float
        σ.
    error : float
        The largest allowed sum of the terms that are cut off.

    Returns
    -------
    int or None
        The degree, at least 2; None if the series does not converge.
    """
    q = np.tanh(half_width / 2)
    if q == 0:
        return 2
    if not q < 1:  # the width is infinite or NaN
        return None
    degree = np.log(max(error, _ROUNDOFF) * (1 - q) / 2) / np.log(q)
    return max(2, int(np.ceil(degree)))


def _log_sum_by_series(
    A: Matrix, weights: Matrix, low: Matrix, high: Matrix, degree: int
) -> Matrix:
    """Return Σ w·log A over matrices A with weights w, by a Chebyshev series.

    Let c be the geometric middle of the interval that contains the spectrum of A. Then
    A/c has its spectrum in [e^−σ, e^σ], and with y = (A/c − cosh σ)/sinh σ and
    q = tanh(σ/2),

        log(cosh σ + y·sinh σ) = −log(1−q²) + 2Σ_k (−1)^{k+1} q^k/k · T_k(y).

    The terms are grouped into blocks of s terms. The polynomials T_k with k < s are
    computed one by one (baby steps), and T_{bs} for each block b by the recurrence with
    T_s (giant steps). Only the sum over the matrices is needed, so the last product of
    each block is one long matrix product for all records (after Paterson & Stockmeyer
    1973).

    Parameters
    ----------
    A : array, shape (n, m, m)
        Whitened matrices.
    weights : array, shape (n,)
        Their weights.
    low, high : array, shape (n,)
        Ends of intervals that contain their log-eigenvalues.
    degree : int
        Degree of the series.

    Returns
    -------
    array, shape (m, m)
        The weighted sum of the logarithms, symmetric.
    """
    n, m, _ = A.shape
    middle = 0.5 * (low + high)
    sigma = float(np.max(high - low)) / 2
    stride = max(2, round((2 * degree) ** 0.5))  # s, with the fewest matrix products
    n_blocks = degree // stride
    coefficients = _block_coefficients(sigma, stride, n_blocks)

    # Y = (A/c − cosh σ)/sinh σ for each record, with c = e^middle.
    identity = np.eye(m)
    Y = A * (np.exp(-middle) / max(np.sinh(sigma), _TINY))[:, None, None]
    Y -= identity / max(np.tanh(sigma), _TINY)
    baby_steps, giant_step = _chebyshev_polynomials(Y, stride)

    # Σ_j w·Q_bj·T_j(Y) for each block b and each record.
    baby_steps *= weights[:, None, None]
    block_sums = coefficients @ baby_steps.reshape(stride, -1)
    block_sums = block_sums.reshape(n_blocks + 1, n, m, m)

    # Block 0, with Σ w·log c for the division of A by c.
    total = block_sums[0].sum(axis=0) + float(weights @ middle) * identity

    # The other blocks: T_{bs}(Y) times the sum of the block.
    previous = np.broadcast_to(identity, giant_step.shape)
    current = giant_step  # T_{bs}(Y)
    for b in range(1, n_blocks + 1):
        # One matrix product adds up the products of all records.
        total += block_sums[b].reshape(n * m, m).T @ current.reshape(n * m, m)
        if b < n_blocks:
            following = 2 * (giant_step @ current) - previous
            previous, current = current, following
    return sym(total)


def _chebyshev_polynomials(Y: Matrix, stride: int) -> tuple[Matrix, Matrix]:
    """Return the first Chebyshev polynomials of matrices, T_0(Y) up to T_stride(Y).

    Parameters
    ----------
    Y : array, shape (n, m, m)
        Symmetric matrices.
    stride : int
        The largest degree, at least 2.

    Returns
    -------
    polynomials : array, shape (stride, n, m, m)
        T_0(Y), …, T_{stride−1}(Y).
    last : array, shape (n, m, m)
        T_stride(Y).
    """
    T = np.empty((stride, *Y.shape))
    T[0] = np.eye(Y.shape[-1])
    T[1] = Y
    twice_Y = 2 * Y
    for j in range(2, stride):
        np.matmul(twice_Y, T[j - 1], out=T[j])
        T[j] -= T[j - 2]
    return T, twice_Y @ T[stride - 1] - T[stride - 2]


def _block_coefficients(sigma: float, stride: int, n_blocks: int) -> Matrix:
    """Regroup the Chebyshev series of the logarithm into blocks of s terms.

    Let T_k be the Chebyshev polynomials, q = tanh(σ/2) and c_k the coefficients of

        log(cosh σ + y·sinh σ) = Σ_k c_k T_k(y),  c_0 = −log(1−q²),
        c_k = 2·(−1)^{k+1}·q^k/k.

    The result is the matrix Q with Σ_k c_k T_k = Σ_b T_{bs} Σ_{j<s} Q_bj T_j. The
    regrouping starts at the highest block and uses 2·T_{bs}·T_j = T_{bs+j} + T_{bs−j}.

    Parameters
    ----------
    sigma : float
        Half the span σ of the log-eigenvalues.
    stride, n_blocks : int
        The number s of terms in a block, and the number of blocks after the first.

    Returns
    -------
    array, shape (n_blocks + 1, stride)
        The matrix Q.
    """
    # The coefficients c_0, c_1, …
    q = np.tanh(sigma / 2)
    k = np.arange(1, (n_blocks + 1) * stride)
    c = np.concatenate([[-np.log1p(-q * q)], 2 * (-1.0) ** (k + 1) * q**k / k])

    Q = np.zeros((n_blocks + 1, stride))
    for b in range(n_blocks, 0, -1):
        # c_{bs+j}·T_{bs+j} = 2c_{bs+j}·T_{bs}·T_j − c_{bs+j}·T_{bs−j} for j > 0.
        block_start = b * stride
        Q[b] = 2 * c[block_start : block_start + stride]
        Q[b, 0] /= 2  # j = 0: T_{bs} itself
        reflected = c[block_start + 1 : block_start + stride][::-1]
        c[block_start - stride + 1 : block_start] -= reflected
    Q[0] = c[:stride]
    return Q


# ---- logarithms of 2×2 and 3×3 matrices ----------------------------------------------

# Packed matrices have one coordinate in each row, in the order (0,0), (1,0), (1,1),
# (2,0), (2,1), (2,2), and off-diagonal entries are multiplied by √2.
_INVERSE_ROOT2 = 0.5**0.5
_PACKED_SCALE3 = np.array([1.0, 2**0.5, 1.0, 2**0.5, 2**0.5, 1.0])
_PACKED_IDENTITY2 = np.array([1.0, 0.0, 1.0])
_PACKED_IDENTITY3 = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])


def _pack_rows(X: Matrix) -> Matrix:
    """Return the lower triangles of symmetric matrices with one coordinate in each row.

    Off-diagonal entries are multiplied by √2, so that the length of a packed matrix is
    its Frobenius norm. A row is contiguous in memory, and sums over the records are
    fast.

    Parameters
    ----------
    X : array, shape (n, m, m)
        Symmetric matrices.

    Returns
    -------
    array, shape (m(m + 1)/2, n)
        The packed matrices.
    """
    m = X.shape[-1]
    pairs = [(i, j) for i in range(m) for j in range(i + 1)]
    packed = np.empty((len(pairs), len(X)))
    for row, (i, j) in zip(packed, pairs, strict=True):
        np.multiply(X[:, i, j], 1.0 if i == j else 2**0.5, out=row)
    return packed


def _packed_inverse3(A: Matrix) -> Matrix:
    """Return the inverses of packed 3×3 matrices, packed, by their cofactors.

    Parameters
    ----------
    A : array of shape (6, n)
        Packed matrices: each row holds one entry of the lower triangles, off-diagonal
        ones times √2 (`_pack_rows`).

    Returns
    -------
    array of shape (6, n)
        Their inverses, packed in the same way; infinite or NaN for a singular matrix.
    """
    # The matrix with rows (a, b, c), (b, d, e), (c, e, f).
    a, b, d, c, e, f = _unscaled_entries3(A)
    cofactors = [
        d * f - e * e,
        c * e - b * f,
        a * f - c * c,
        b * e - c * d,
        b * c - a * e,
        a * d - b * b,
    ]
    determinant = a * cofactors[0] + b * cofactors[1] + c * cofactors[3]
    return np.stack(cofactors) * _PACKED_SCALE3[:, None] / determinant


def _unscaled_entries3(A: Matrix) -> list[Matrix]:
    """Return the six entries of the lower triangle of packed 3×3 matrices.

    The factor √2 of the off-diagonal entries in `_pack_rows` is removed.

    Parameters
    ----------
    A : array, shape (6, n)
        Packed matrices.

    Returns
    -------
    list of six arrays
        The entries (0,0), (1,0), (1,1), (2,0), (2,1), (2,2) of all matrices.
    """
    entries = []
    for row, scale in zip(A, _PACKED_SCALE3, strict=True):
        entries.append(row if scale == 1 else row * _INVERSE_ROOT2)
    return entries


def _sums_in_closed_form(
    roundoff_unit: float, G: Matrix, A: Matrix, X: Matrix, weights: Matrix
) -> WeightedSums:
    """Sum the logarithms of 2×2 or 3×3 matrices, which have a closed form.

    For a matrix that double precision does not resolve, the ratio of its eigenvalues is
    NaN or small. Such matrices are left out at first, and then added by
    `_add_unresolved_matrices`.

    Parameters
    ----------
    roundoff_unit : float
        A bound on the error of the logarithm of a whitened matrix near the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    A : array, shape (m(m + 1)/2, n)
        The whitened matrices, packed.
    X, weights : array, shapes (n, m, m) and (n,)
        The same records before whitening, and their weights.

    Returns
    -------
    WeightedSums
        The sums of the logarithms and of their squared lengths, with a bound on the
        error.
    """
    sum_logs = _log_sum2 if len(G) == 2 else _log_sum3
    with np.errstate(invalid="ignore", divide="ignore"):
        sums, ratio = sum_logs(A, weights)
        is_resolved = ratio > _LEAST_RATIO
        if not is_resolved.all():
            sums, _ = sum_logs(A[:, is_resolved], weights[is_resolved])
        return _add_unresolved_matrices(sums, roundoff_unit, G, X, weights, ratio)


def _log_sum2(A: Matrix, weights: Matrix) -> tuple[WeightedSums, Matrix]:
    """Sum the logarithms of packed 2×2 matrices A with weights w.

    If λ₁ ≤ λ₂ are the eigenvalues, log A = log λ₁·I + log[λ₁, λ₂]·(A − λ₁·I), where
    log[λ₁, λ₂] = (log λ₂ − log λ₁)/(λ₂ − λ₁) is the divided difference.

    Parameters
    ----------
    A : array, shape (3, n)
        Packed matrices: the rows hold the entries (0,0), √2·(1,0) and (1,1).
    weights : array of shape (n,)
        The weight of each record.

    Returns
    -------
    sums : WeightedSums
        Σ w·log A and Σ w‖log A‖².
    ratio : array, shape (n,)
        λ₁/λ₂ of each matrix.
    """
    # The matrix with rows (a, b), (b, d), and its eigenvalues λ₁ = low, λ₂ = high.
    a = A[0]
    b = A[1] * _INVERSE_ROOT2
    d = A[2]
    half_gap = np.sqrt((0.5 * (a - d)) ** 2 + b * b)
    high = 0.5 * (a + d) + half_gap
    low = (a * d - b * b) / high
    gap = 2 * half_gap

    log_low = np.log(low)
    log_gap = np.log1p(gap / low)  # log λ₂ − log λ₁
    log_high = log_low + log_gap
    quotient = log_gap / np.where(gap > 0, gap, 1.0)
    weighted_slope = weights * np.where(gap > 0, quotient, 1 / low)  # w·log[λ₁, λ₂]

    # Σ w·log A = Σ w·slope·A + (Σ w·log λ₁ − Σ w·slope·λ₁)·I.
    identity_coefficient = weights @ log_low - weighted_slope @ low
    log_sum = A @ weighted_slope + identity_coefficient * _PACKED_IDENTITY2
    square_sum = float(weights @ (log_low**2 + log_high**2))
    return WeightedSums(unpack(log_sum, 2), square_sum), low / high


def _log_sum3(A: Matrix, weights: Matrix) -> tuple[WeightedSums, Matrix]:
    """Sum the logarithms of packed 3×3 matrices A with weights w.

    log A = c₀I + c₁A + c₂A² with the coefficients of `log_polynomial`.

    Parameters
    ----------
    A : array, shape (6, n)
        Packed matrices: each row holds one entry of the lower triangles, off-diagonal
        ones times √2.
    weights : array of shape (n,)
        The weight of each record.

    Returns
    -------
    sums : WeightedSums
        Σ w·log A and Σ w‖log A‖².
    ratio : array, shape (n,)
        λ₁/λ₃ of each matrix, its least eigenvalue divided by its largest.
    """
    entries = tuple(_unscaled_entries3(A))
    log = log_polynomial(entries)

    # Σ w·c₂·A², entry by entry; then the sums of the linear and the constant terms.
    weighted_quadratic = weights * log.quadratic
    quadratic_sums = [float(weighted_quadratic @ entry) for entry in squared(entries)]
    log_sum = A @ (weights * log.linear) + _PACKED_SCALE3 * quadratic_sums
    log_sum += float(weights @ log.constant) * _PACKED_IDENTITY3
    sums = WeightedSums(unpack(log_sum, 3), float(weights @ log.squared_norm))
    return sums, log.least / log.largest
