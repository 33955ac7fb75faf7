"""The affine-invariant Fréchet mean of SPD matrices in memory, in few and cheap passes.

An iterate is a factor G of the point GGᵀ, and a step S leads to G·exp(S/2). A pass
whitens every matrix, Aᵢ = G⁻¹XᵢG⁻ᵀ, and sums wᵢ·log Aᵢ, wᵢ the weight of the record.
For 2×2 and 3×3 matrices the logarithm is a polynomial. For larger ones an accurate pass
finds every spectrum by `eigh`. A series pass is faster: it uses the Chebyshev series of
`_log_sum_by_series` on intervals that contain each spectrum, since moving from G to H
shifts log-eigenvalues by at most twice the extreme values of log σ(H⁻¹G), σ the
singular values (Ostrowski 1959). docs/theory/frechet-mean.md has the measurements.
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

# Most numbers in the eigenvectors that an accurate pass stores (64 MiB).
_STORED_NUMBERS = 1 << 23

# Least ratio λ_min/λ_max of the eigenvalues of a matrix whose logarithm plain double
# precision resolves, and the error of the logarithm at that ratio.
_LEAST_RATIO = 1e-5
_PLAIN_ERROR = 1e-11

# Ratios λ_min/λ_max in a Hessian are raised to this one: round-off may make an
# eigenvalue negative, and the Hessian need not be exact.
_LEAST_HESSIAN_RATIO = 1e-16

# Most rows of a matrix for which the Hessian, with rows², is inverted.
_LARGEST_INVERTED = 3

# Numbers of records that give the Hessian to about one percent: for 3×3 matrices and
# smaller, for up to 32 rows, and for larger matrices (whose Hessians vary less).
_SAMPLE_SMALL = 1024
_SAMPLE_MEDIUM = 256
_MEDIUM_ROWS = 32
_SAMPLE_LARGE = 128

# Cap on the rounds of conjugate gradients. They need a few, and the search checks the
# step that they give.
_CG_ROUNDS = 1000

# Squared fraction of the residual at which conjugate gradients end: for a solution that
# is then refined, and for one that is not.
_CG_SQUARE_BEFORE_REFINEMENT = 1e-6
_CG_SQUARE = 1e-8

# Refinements of a Newton step with the Hessian of all records, each worth two digits.
_REFINEMENTS = 2

# Series of more terms cost more than `eigh`: 160 terms at m = 11, 100 at 50, 50 at 100.
_MOST_TERMS = 160
_MOST_TERMS_TIMES_ROWS = 5000

# The degree of a series that does not converge: above every cap.
_NO_DEGREE = 10**9

# ---- Newton's method -----------------------------------------------------------------


class WhitenedEigen(NamedTuple):
    """Eigensystems of n whitened m×m matrices G⁻¹XG⁻ᵀ, and the weights of the records X.

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


def subsample(n: int, m: int) -> Matrix | None:
    """Choose evenly spaced records that suffice for the Hessian of the cost.

    Parameters
    ----------
    n : int
        The number of records.
    m : int
        The number of rows of each matrix.

    Returns
    -------
    array of int, or None
        The indices of the chosen records; None where all n are to be used.
    """
    if m <= _LARGEST_INVERTED:
        sample_size = _SAMPLE_SMALL
    elif m <= _MEDIUM_ROWS:
        sample_size = _SAMPLE_MEDIUM
    else:
        sample_size = _SAMPLE_LARGE
    if n <= sample_size:
        return None
    return np.linspace(0, n - 1, sample_size).astype(np.int64)


class SPDNewton:
    """Newton's method: the map from a mean logarithm E to the step H⁻¹E.

    The iterate is whitened, so it is the identity I, and every record is a matrix
    A = U·diag(λ)·Uᵀ. H is the Hessian of the cost ½·mean d² at I, the mean over the
    records of E ↦ U(K ⊙ UᵀEU)Uᵀ with K_rs = (s/2)·coth(s/2), s = log λ_r − log λ_s.

    H is at least 1 and varies little from record to record, so a few hundred records
    give it to a percent. For small matrices (`_LARGEST_INVERTED`) that H is inverted.
    For larger ones Hx = E is solved by conjugate gradients with the few, and the
    solution is then refined with the Hessian of all records. The refinement costs a
    tenth of a pass and gains three to six digits in each Newton step.

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
        self._total_weight = sum(float(block.weights.sum()) for block in eigen_blocks)
        combined = eigen_blocks[0]
        if len(eigen_blocks) > 1:
            arrays = zip(*eigen_blocks, strict=True)
            combined = WhitenedEigen(*(np.concatenate(pieces) for pieces in arrays))

        n, m = combined.eigenvalues.shape
        sample = combined
        rows = subsample(n, m)
        if rows is not None:
            weights = combined.weights[rows]
            sample = WhitenedEigen(
                combined.eigenvalues[rows],
                combined.vectors[rows],
                weights / weights.sum(),
            )
        self._sample_hessian = _Hessian(sample)
        self.inverse = None
        if m <= _LARGEST_INVERTED:
            self.inverse = np.linalg.inv(self._sample_hessian.matrix())

        self._full_hessian: list[_Hessian] = []
        is_sampled = len(sample.eigenvalues) < n
        if self.inverse is None and is_sampled:
            self._full_hessian = [_Hessian(block) for block in eigen_blocks]

    def __call__(self, mean_log: Matrix) -> Matrix:
        """Return the Newton step H⁻¹E, with H the Hessian of the cost ½·mean d².

        E is the symmetric part of the mean logarithm. The step is symmetric to the last
        bit, like the values of H. Otherwise the residual would keep a skew part that
        never falls; where the mean logarithm is all round-off (the start was the mean
        already) the conjugate gradients would then diverge.

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

    Every record is a whitened matrix with eigenvectors U, log-eigenvalues l, weight w
    and K_rs = (s/2)·coth(s/2) at s = l_r − l_s.
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

        Products of all records with E are made at once, as one tall matrix product.

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

        It is the sum over the records of (U⊗U)·diag(w·K)·(U⊗U)ᵀ, as one matrix product,
        where U holds the eigenvectors of a record, w is its weight and K_rs is
        (s/2)·coth(s/2) at the difference s of its log-eigenvalues.

        Returns
        -------
        array of shape (m², m²)
            The matrix.
        """
        U = np.ascontiguousarray(self._U.transpose(1, 2, 0))
        weighted_K = np.ascontiguousarray(self._weighted_K.transpose(1, 2, 0))
        # Entry ((i, j), (r, s, record)) is U_ir·U_js.
        kronecker = (U[:, None, :, None] * U[None, :, None, :]).reshape(len(U) ** 2, -1)
        return np.asarray((kronecker * weighted_K.reshape(1, -1)) @ kronecker.T)


# ---- passes --------------------------------------------------------------------------

# Convergence rate of Newton's method that is assumed before one was observed, and the
# least square of a rate that the next pass relies on.
_DEFAULT_RATE = 1e-3
_LEAST_SQUARED_RATE = 1e-6

# A pass may add this fraction of the residual that is expected after it.
_TOLERABLE_FRACTION = 1e-2

# No pass is asked for more accuracy than this: it is a few units of round-off.
_ROUNDOFF = 1e-15


@dataclass
class SeriesTolerance:
    """How accurate the next pass by series must be.

    Newton's method squares the convergence rate, so from residual r at rate q the next
    residual is about r·q². A hundredth of it will do, and never less than a tenth of
    the search's goal.

    Parameters
    ----------
    goal : float
        Residual at which the search ends.
    residual, rate : float
        The last residual, and the fraction of the one before that it was.
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
        Residual at which the search ends.
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

        # What the last accurate pass found: the factor G at which it was made, the unit
        # of round-off there, the least and largest log-eigenvalue of each matrix, the
        # eigenvalues and eigenvectors of some blocks, and the indices of the records in
        # groups of about the same span of log-eigenvalues, from narrow to wide.
        self._accurate_factor: Matrix = None
        self._roundoff_unit = np.inf
        self._log_ends: Matrix = None if m <= 3 else np.empty((n, 2))
        self._eigen: dict[int, WhitenedEigen] = {}
        self._groups: list[Matrix] = []

        # Eigen-systems of every k-th block are stored, so that they fit into memory.
        stride = math.ceil(X.size / _STORED_NUMBERS)
        self._stored_blocks = {block.start for block in self._blocks[::stride]}

    @cached_property
    def start(self) -> Matrix:
        """A factor of the point where the search starts, close to the mean.

        The point is the geometric mean of the arithmetic mean LLᵀ and the harmonic
        mean. It is the arithmetic mean where the harmonic mean is lost to round-off,
        and NaN where even the arithmetic mean is not positive definite.
        """
        sums = in_threads(self._sum_with_inverses, self._blocks)
        arithmetic = sym(np.sum([block_sums[0] for block_sums in sums], axis=0))
        mean_inverse = sym(np.sum([block_sums[1] for block_sums in sums], axis=0))
        try:
            L = np.linalg.cholesky(arithmetic)
        except np.linalg.LinAlgError:
            return np.full_like(arithmetic, np.nan)
        whitened = sym(L.T @ mean_inverse @ L)  # the whitened harmonic mean, inverted
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
            Fraction of the residual that the last step left. A new one is computed only
            above `SLOW_CONVERGENCE`.

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

        # The eigensystems at G are not at hand: compute those of a sample.
        X, weights = self._X, self._weights
        rows = subsample(len(X), len(G))
        if rows is not None:
            X, weights = X[rows], weights[rows]
        eigenvalues, vectors = eigh(_whiten(np.linalg.inv(G), X))
        return SPDNewton([WhitenedEigen(eigenvalues, vectors, weights / weights.sum())])

    def make_pass(self, request: PassRequest) -> PassResult:
        """Make a pass over the records: an accurate one, or a faster one by series.

        The accurate pass computes the spectrum of every matrix. It is made if the cost
        is asked for, for 2×2 and 3×3 matrices, and the first time. The series is good
        to a hundredth of the residual that is expected.

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
        has_intervals = bool(self._groups)  # which contain the spectra
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

        It stores what later passes by series and Hessians need: the factor G, the least
        and largest log-eigenvalue of every matrix, the eigenvectors of some, and groups
        of records whose log-eigenvalues have similar spans.

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
            # The general bound is not enough. Use the error of a whitened matrix near
            # the identity: 16·m units of round-off times the condition number of GGᵀ.
            condition = float(np.linalg.cond(G)) ** 2
            self._roundoff_unit = 16 * len(G) * 2.0**-53 * condition

        if self._packed is not None:
            return self._accurate_pass_in_closed_form(G, inverse, self._packed)

        def pass_over(block: slice) -> PassResult:
            """Make the accurate pass over one block, and store its eigensystems."""
            return self._pass_by_eigh(G, inverse, block)

        result = _sum_over_blocks(pass_over, self._blocks)
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

        def pass_over(block: slice) -> PassResult:
            """Make the pass over one block, whitened in packed coordinates."""
            return _pass_in_closed_form(
                self._roundoff_unit,
                G,
                whitening @ packed[:, block],
                self._X[block],
                self._weights[block],
            )

        return _sum_over_blocks(pass_over, self._blocks)

    def _pass_by_eigh(self, G: Matrix, inverse: Matrix, block: slice) -> PassResult:
        """Make an accurate pass over one block of records with LAPACK's eigensolver.

        It stores the least and largest log-eigenvalue of each matrix and, for some
        blocks, the eigenvalues and eigenvectors.

        Parameters
        ----------
        G, inverse : array, shape (m, m)
            The factor of the iterate GGᵀ and its inverse.
        block : slice
            The block of records.

        Returns
        -------
        PassResult
            The weighted sums of the logarithms and of the squared distances over the
            block.
        """
        eigenvalues, U = np.linalg.eigh(_whiten(inverse, self._X[block]))
        if block.start in self._stored_blocks:
            self._eigen[block.start] = WhitenedEigen(
                eigenvalues, U, self._weights[block]
            )
        logs, is_resolved, result = _pass_by_spectrum(
            self._roundoff_unit, G, eigenvalues, U, self._X[block], self._weights[block]
        )
        if self._log_ends is not None:
            least_and_largest = logs[:, [0, -1]]
            self._log_ends[block] = np.where(
                is_resolved[:, None], least_and_largest, [-np.inf, np.inf]
            )
        return result

    def series_pass(self, G: Matrix, error: float) -> PassResult:
        """Make a pass by Chebyshev series, for which no spectrum is computed.

        Let F be the factor of the last accurate pass, which stored an interval that
        contains the log-eigenvalues of each record. At G they lie in that interval with
        its ends moved by twice the extreme values of log σ(G⁻¹F), σ the singular values
        (Ostrowski 1959). A group of records whose series would need too many terms is
        passed to `eigh`.

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
        move = np.linalg.solve(G, self._accurate_factor)  # G⁻¹F
        singular_values = np.linalg.svd(move, compute_uv=False)  # descending
        shifts = 2 * np.log(singular_values)
        low = self._log_ends[:, 0] + shifts[-1]
        high = self._log_ends[:, 1] + shifts[0]
        inverse = np.linalg.inv(G)
        most_terms = min(_MOST_TERMS, _MOST_TERMS_TIMES_ROWS // len(G))

        def pass_over(rows: Matrix) -> PassResult:
            """Make the pass over one group of records, given by their indices.

            The group is summed by series, or by `eigh` if that would take too many
            terms.
            """
            A = _whiten(inverse, self._X[rows])
            weights = self._weights[rows]
            widest = rows[-1]  # groups are sorted by their span
            half_width = float(high[widest] - low[widest]) / 2
            degree = _series_degree(half_width, error)

            if degree > most_terms:
                eigenvalues, U = np.linalg.eigh(A)
                _, _, result = _pass_by_spectrum(
                    self._roundoff_unit, G, eigenvalues, U, self._X[rows], weights
                )
                return result
            velocity = _log_sum_by_series(A, weights, low[rows], high[rows], degree)
            return PassResult(velocity, np.nan, error * float(weights.sum()))

        return _sum_over_blocks(pass_over, self._groups)

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


def _sum_over_blocks(
    pass_over_block: Callable[[Any], PassResult], record_blocks: Sequence[Any]
) -> PassResult:
    """Make a pass over blocks of records in parallel, and add up the results.

    Parameters
    ----------
    pass_over_block : callable
        Makes the pass over one block: maps it to a `PassResult` whose entries are
        weighted sums over the records of the block. It runs in several threads.
    record_blocks : sequence
        The blocks: slices, or arrays of indices.

    Returns
    -------
    PassResult
        The sums over all records, which are means because the weights sum to 1.
    """
    if len(record_blocks) == 1:
        return pass_over_block(record_blocks[0])
    results = in_threads(pass_over_block, record_blocks)
    return PassResult(
        np.sum([result.mean_log for result in results], axis=0),
        sum(result.mean_square for result in results),
        sum(result.error for result in results),
    )


def _pass_by_spectrum(
    roundoff_unit: float,
    G: Matrix,
    eigenvalues: Matrix,
    U: Matrix,
    X: Matrix,
    weights: Matrix,
) -> tuple[Matrix, Matrix, PassResult]:
    """Sum the logarithms of whitened matrices whose eigenvectors are known.

    Where the ratio of extreme eigenvalues is too small for plain double precision, the
    spectrum is computed again to high relative accuracy (`_add_unresolved_matrices`).

    Parameters
    ----------
    roundoff_unit : float
        Error of a logarithm at the identity.
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
        Which matrices plain double precision resolves.
    result : PassResult
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

    result = _add_unresolved_matrices(resolved_sum, roundoff_unit, G, X, weights, ratio)
    return logs, is_resolved, result


def _add_unresolved_matrices(
    result: PassResult,
    roundoff_unit: float,
    G: Matrix,
    X: Matrix,
    weights: Matrix,
    ratio: Matrix,
) -> PassResult:
    """Add the matrices that double precision does not resolve to the sums of a pass.

    Their eigenvalues are computed to high relative accuracy (`log_spectrum`).

    Parameters
    ----------
    result : PassResult
        The sums over the matrices with ratio > `_LEAST_RATIO`.
    roundoff_unit : float
        Error of a logarithm at the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    X, weights : array, shapes (n, m, m) and (n,)
        All matrices and their weights.
    ratio : array, shape (n,)
        The least divided by the largest eigenvalue of each whitened matrix.

    Returns
    -------
    PassResult
        The sums over all matrices, with a bound on their error.
    """
    is_resolved = ratio > _LEAST_RATIO
    error = _PLAIN_ERROR
    if is_resolved.all():
        worst_ratio = float(np.min(ratio, initial=1.0))
        error = min(_PLAIN_ERROR, roundoff_unit / worst_ratio)
    else:
        L, logs, U = log_spectrum(sym(G @ G.T), X[~is_resolved])
        # L and G are factors of one matrix: they differ by a rotation.
        rotation = np.linalg.solve(L[0], G)
        unresolved_sum = _weighted_sum(logs, rotation.T @ U, weights[~is_resolved])
        result = PassResult(
            result.mean_log + unresolved_sum.mean_log,
            result.mean_square + unresolved_sum.mean_square,
        )
    return PassResult(result.mean_log, result.mean_square, error * float(weights.sum()))


def _weighted_sum(logs: Matrix, U: Matrix, weights: Matrix) -> PassResult:
    """Return the weighted sums of logarithms and of their squared lengths.

    Parameters
    ----------
    logs, U : arrays of shape (n, m) and (n, m, m)
        Eigenvalues and eigenvectors of the logarithms.
    weights : array of shape (n,)
        The weights w.

    Returns
    -------
    PassResult
        Σ w·U·diag(logs)·Uᵀ and Σ w·|logs|².
    """
    n, m = logs.shape
    eigenvectors = U.transpose(1, 0, 2).reshape(m, n * m)  # as columns, side by side
    log_sum = (eigenvectors * (weights[:, None] * logs).ravel()) @ eigenvectors.T
    return PassResult(log_sum, float(np.sum(weights[:, None] * logs * logs)))


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


def _series_degree(half_width: float, error: float) -> int:
    """Return the degree at which a Chebyshev series of the logarithm may be cut off.

    With σ half the span of the log-eigenvalues and q = tanh(σ/2), the terms of the
    series of `_log_sum_by_series` beyond degree d add up to less than 2q^{d+1}/(1−q).

    Parameters
    ----------
    half_width : float
        σ.
    error : float
        A bound on what the terms that are cut off may add up to.

    Returns
    -------
    int
        The degree, at least 2; a huge number where no series converges.
    """
    q = np.tanh(half_width / 2)
    if q == 0:
        return 2
    if not q < 1:  # an infinite or NaN width
        return _NO_DEGREE
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

    The terms are grouped into blocks of s: T_k for k < s are computed one by one (baby
    steps), T_{bs} for each block b by the recurrence with T_s (giant steps). Because
    only the sum over the matrices is needed, the last product of each block is one long
    matrix product (after Paterson & Stockmeyer 1973).

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
    stride = max(2, round((2 * degree) ** 0.5))  # makes the products fewest
    n_blocks = degree // stride
    coefficients = _block_coefficients(sigma, stride, n_blocks)

    identity = np.eye(m)
    Y = A * (np.exp(-middle) / max(np.sinh(sigma), _TINY))[:, None, None]
    Y -= identity / max(np.tanh(sigma), _TINY)
    baby_steps, giant_step = _chebyshev_polynomials(Y, stride)

    # Σ_j w·Q_bj·T_j(Y) for each block b and each record.
    baby_steps *= weights[:, None, None]
    block_sums = coefficients @ baby_steps.reshape(stride, -1)
    block_sums = block_sums.reshape(n_blocks + 1, n, m, m)

    total = block_sums[0].sum(axis=0) + float(weights @ middle) * identity
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
    q = np.tanh(sigma / 2)
    k = np.arange(1, (n_blocks + 1) * stride)
    c = np.concatenate([[-np.log1p(-q * q)], 2 * (-1.0) ** (k + 1) * q**k / k])
    Q = np.zeros((n_blocks + 1, stride))
    for b in range(n_blocks, 0, -1):
        block_start = b * stride
        Q[b] = 2 * c[block_start : block_start + stride]
        Q[b, 0] /= 2
        reflected = c[block_start + 1 : block_start + stride][::-1]
        c[block_start - stride + 1 : block_start] -= reflected
    Q[0] = c[:stride]
    return Q


# ---- logarithms of 2×2 and 3×3 matrices ----------------------------------------------

# Packed matrices have one coordinate a row; off-diagonal entries are multiplied by √2.
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
        Their inverses, packed alike; infinite or NaN for a singular matrix.
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


def _pass_in_closed_form(
    roundoff_unit: float, G: Matrix, A: Matrix, X: Matrix, weights: Matrix
) -> PassResult:
    """Sum the logarithms of 2×2 or 3×3 matrices, which have a closed form.

    A matrix that double precision does not resolve gives NaN or a small ratio of
    eigenvalues. Such matrices are left out and then added by
    `_add_unresolved_matrices`.

    Parameters
    ----------
    roundoff_unit : float
        Error of a logarithm at the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    A : array, shape (m(m + 1)/2, n)
        The whitened matrices, packed.
    X, weights : array, shapes (n, m, m) and (n,)
        The same records before whitening, and their weights.

    Returns
    -------
    PassResult
        The weighted sums of the logarithms and of their squared lengths, with a bound
        on the error.
    """
    sum_logs = _log_sum2 if len(G) == 2 else _log_sum3
    with np.errstate(invalid="ignore", divide="ignore"):
        result, ratio = sum_logs(A, weights)
        is_resolved = ratio > _LEAST_RATIO
        if not is_resolved.all():
            result, _ = sum_logs(A[:, is_resolved], weights[is_resolved])
        return _add_unresolved_matrices(result, roundoff_unit, G, X, weights, ratio)


def _log_sum2(A: Matrix, weights: Matrix) -> tuple[PassResult, Matrix]:
    """Sum the logarithms of packed 2×2 matrices A with weights w.

    With eigenvalues λ₁ ≤ λ₂, log A = log λ₁ + log[λ₁, λ₂]·(A − λ₁), where
    log[λ₁, λ₂] = (log λ₂ − log λ₁)/(λ₂ − λ₁) is the divided difference.

    Parameters
    ----------
    A : array, shape (3, n)
        Packed matrices: the rows hold the entries (0,0), √2·(1,0) and (1,1).
    weights : array of shape (n,)
        The weight of each record.

    Returns
    -------
    result : PassResult
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

    identity_coefficient = weights @ log_low - weighted_slope @ low
    log_sum = A @ weighted_slope + identity_coefficient * _PACKED_IDENTITY2
    square_sum = float(weights @ (log_low**2 + log_high**2))
    return PassResult(unpack(log_sum, 2), square_sum), low / high


def _log_sum3(A: Matrix, weights: Matrix) -> tuple[PassResult, Matrix]:
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
    result : PassResult
        Σ w·log A and Σ w‖log A‖².
    ratio : array, shape (n,)
        λ₁/λ₃ of each matrix, its least eigenvalue divided by its largest.
    """
    entries = tuple(_unscaled_entries3(A))
    log = log_polynomial(entries)
    weighted_quadratic = weights * log.quadratic
    quadratic_sums = [float(weighted_quadratic @ entry) for entry in squared(entries)]
    log_sum = A @ (weights * log.linear) + _PACKED_SCALE3 * quadratic_sums
    log_sum += float(weights @ log.constant) * _PACKED_IDENTITY3
    result = PassResult(unpack(log_sum, 3), float(weights @ log.squared_norm))
    return result, log.least / log.largest
