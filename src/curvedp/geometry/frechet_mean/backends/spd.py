"""The affine-invariant Fréchet mean of SPD matrices in memory, in few and cheap passes.

An iterate is a factor G of the point GGᵀ, and a step S leads to G·exp(S/2). A pass
whitens every matrix, Aᵢ = G⁻¹XᵢG⁻ᵀ, and sums wᵢ·log Aᵢ. For 2×2 and 3×3 matrices the
logarithm is a polynomial. Above, a careful pass finds every spectrum by `eigh`; a quick
pass uses the Chebyshev series of `_log_sum_by_series` on intervals that contain each
spectrum, since moving from G to H shifts log-eigenvalues by at most twice the ends of
log σ(H⁻¹G) (Ostrowski 1959). docs/theory/frechet-mean.md has the measurements.
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
_CHUNK_BYTES = 1 << 17

# Records in one block of 2×2 or 3×3 matrices, which are stored by coordinate.
_SMALL_ROWS = 1 << 13

FEW_NUMBERS = 1 << 12
"""Size of the data, in numbers, up to which fixed costs outweigh the arithmetic."""

# Most numbers in the eigenvectors that a careful pass stores (64 MiB).
_STORED_NUMBERS = 1 << 23

# Least ratio of eigenvalues that plain double precision resolves, and the error of a
# logarithm at that ratio.
_LEAST_RATIO = 1e-5
_PLAIN_ERROR = 1e-11

# Most rows of a matrix for which the Hessian, with rows², is inverted.
_LARGEST_INVERTED = 3

# Cap on the rounds of conjugate gradients. They need a few, and the search checks the
# step that they give.
_CG_ROUNDS = 1000

# Refinements of a Newton step with the Hessian of all records, each worth two digits.
_REFINEMENTS = 2

# Series of more terms cost more than `eigh`: 160 terms at m = 11, 100 at 50, 50 at 100.
_MOST_TERMS = 160
_MOST_TERMS_TIMES_ROWS = 5000

# The degree of a series that does not converge: above every cap.
_NO_DEGREE = 10**9

# ---- Newton's method -----------------------------------------------------------------


class WhitenedEigen(NamedTuple):
    """Whitened matrices UwUᵀ by their eigenvalues and vectors, with their weights."""

    eigenvalues: Matrix
    vectors: Matrix
    weights: Matrix


def subsample(n: int, m: int) -> Matrix | None:
    """Return the indices of evenly spaced records that suffice for a Hessian.

    Parameters
    ----------
    n : int
        The number of records.
    m : int
        The number of rows of each matrix.

    Returns
    -------
    array of int, or None
        At most 1024 indices; None where all n records are to be used.
    """
    if m <= _LARGEST_INVERTED:
        size = 1024
    elif m <= 32:
        size = 256
    else:
        size = 128
    return None if n <= size else np.linspace(0, n - 1, size).astype(np.int64)


class SPDNewton:
    """Newton's method: the map from a gradient E to the step H⁻¹E at the iterate.

    The iterate G is whitened, so it is the identity I, and every record is a matrix
    A = U·diag(w)·Uᵀ. H is the Hessian of the cost ½·mean d² at I, the mean over the
    records of E ↦ U(K ⊙ UᵀEU)Uᵀ with K_rs = (s/2)·coth(s/2), s = log w_r − log w_s.

    H is at least 1 and varies little from record to record, so a few hundred records
    give it to a percent. For small matrices (`_LARGEST_INVERTED`) that H is inverted.
    For larger ones Hx = E is solved by conjugate gradients with the few, and the
    solution is then refined with the Hessian of all records. The refinement costs a
    tenth of a pass and gains three to six digits in each Newton step.

    Parameters
    ----------
    parts : sequence of WhitenedEigen
        The whitened matrices, in blocks.
    """

    def __init__(self, parts: Sequence[WhitenedEigen]) -> None:
        """Form the Hessian of a sample, and that of all records for refinement."""
        self._total_weight = sum(float(part.weights.sum()) for part in parts)
        combined = parts[0]
        if len(parts) > 1:
            arrays = zip(*parts, strict=True)
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
            self._full_hessian = [_Hessian(part) for part in parts]

    def __call__(self, gradient: Matrix) -> Matrix:
        """Return the Newton step H⁻¹E for the symmetric part E of the gradient.

        The step is symmetric to the last bit, like the values of H. Otherwise the
        residual would keep a skew part that never falls; where the gradient is all
        round-off (the start was the mean already) the conjugate gradients would then
        diverge.

        Parameters
        ----------
        gradient : array, shape (m, m)
            The mean logarithm of the records at the whitened iterate.

        Returns
        -------
        array, shape (m, m)
            The step.
        """
        right_side = sym(gradient)
        if self.inverse is not None:
            flat = self.inverse @ right_side.ravel()
            return sym(flat.reshape(right_side.shape))
        x = self._conjugate_gradients(right_side)
        if self._full_hessian:
            for _ in range(_REFINEMENTS):
                products = in_threads(methodcaller("times", x), self._full_hessian)
                product = np.sum(products, axis=0) / self._total_weight
                x = x + self._conjugate_gradients(right_side - product)
        return x

    def _conjugate_gradients(self, right_side: Matrix) -> Matrix:
        """Solve Hx = right_side by conjugate gradients; H is that of the sample.

        The residual is reduced to 1e-4 of its length, or to 1e-3 where the solution
        will be refined with the Hessian of all records.

        Parameters
        ----------
        right_side : array of shape (m, m)
            A symmetric matrix.
        """
        x = np.zeros_like(right_side)
        residual = right_side
        direction = residual
        square = float(np.sum(residual * residual))
        is_refined = bool(self._full_hessian)
        goal = 1e-6 * square if is_refined else 1e-8 * square
        for _ in range(_CG_ROUNDS):
            if not square > goal:
                break
            image = self._sample_hessian.times(direction)
            curvature = float(np.sum(direction * image))
            if not curvature > 0:  # the direction is so small that products vanish
                break
            length = square / curvature
            x = x + length * direction
            residual = residual - length * image
            last_square = square
            square = float(np.sum(residual * residual))
            direction = residual + (square / last_square) * direction
        return x


class _Hessian:
    """The Hessian E ↦ Σ w·U(K ⊙ UᵀEU)Uᵀ of the cost, summed over some records.

    Every record is a whitened matrix with eigenvectors U, log-eigenvalues l, weight w
    and K_rs = (s/2)·coth(s/2) at s = l_r − l_s.
    """

    def __init__(self, eigen: WhitenedEigen) -> None:
        """Compute the matrices w·K of the records."""
        # The round-off of a far matrix may be negative; H need not be exact.
        largest = eigen.eigenvalues[:, -1:]
        logs = np.log(np.maximum(eigen.eigenvalues, 1e-16 * largest))
        half_gap = 0.5 * (logs[:, :, None] - logs[:, None, :])
        is_zero = half_gap == 0
        tanh = np.tanh(np.where(is_zero, 1.0, half_gap))
        K = np.where(is_zero, 1.0, half_gap / tanh)
        self._K = K * eigen.weights[:, None, None]
        self._U = eigen.vectors
        self._columns = self._U.mT.reshape(-1, logs.shape[1])

    def times(self, E: Matrix) -> Matrix:
        """Return H applied to a symmetric m×m matrix E, as a symmetric matrix.

        Products with E are made for all records at once, as one tall matrix product.

        Parameters
        ----------
        E : array of shape (m, m)
            A symmetric matrix.
        """
        n, m, _ = self._U.shape
        rotated = self._U.mT @ (self._columns @ E).reshape(n, m, m).mT
        weighted = self._K * rotated
        return sym((weighted @ self._U.mT).reshape(n * m, m).T @ self._columns)

    def matrix(self) -> Matrix:
        """Return H as an m²×m² matrix that acts on the entries of E, row by row.

        It is the sum over the records of (U⊗U)·diag(w·K)·(U⊗U)ᵀ, as one matrix product.
        """
        U = np.ascontiguousarray(self._U.transpose(1, 2, 0))
        K = np.ascontiguousarray(self._K.transpose(1, 2, 0))
        columns = (U[:, None, :, None] * U[None, :, None, :]).reshape(len(U) ** 2, -1)
        return np.asarray((columns * K.reshape(1, -1)) @ columns.T)


# ---- passes --------------------------------------------------------------------------


@dataclass
class SeriesTolerance:
    """How accurate the next quick pass must be.

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
    rate: float = 1e-3

    @property
    def least(self) -> float:
        """The smallest error that is ever asked for."""
        return max(0.1 * self.goal, 1e-15)

    def next_error(self) -> float:
        """Return the error that the next pass may have."""
        expected = 1e-2 * self.residual * max(self.rate * self.rate, 1e-6)
        return max(self.least, expected)

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
        self.rate = residual / self.residual if is_new_iterate else 1e-3
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
        """Cut the matrices into blocks; nothing is computed yet."""
        n, m, _ = X.shape
        self._X = X
        self._weights = weights
        self._tolerance = SeriesTolerance(tolerance)
        has_closed_form = m in (2, 3) and X.size > FEW_NUMBERS
        rows = _SMALL_ROWS if has_closed_form else max(1, _CHUNK_BYTES // (8 * m * m))
        self._parts = blocks(n, rows)
        self._packed = _pack_rows(X) if has_closed_form else None

        # What the last careful pass found: its factor, the unit of round-off there, the
        # ends of the log-eigenvalues of each matrix, the eigen-systems of some blocks,
        # and the records in groups of about the same span, from narrow to wide.
        self._careful_factor: Matrix = None
        self._roundoff_unit = np.inf
        self._log_ends: Matrix = None if m <= 3 else np.empty((n, 2))
        self._eigen: dict[int, WhitenedEigen] = {}
        self._groups: list[Matrix] = []

        # Eigen-systems of every k-th block are stored, so that they fit into memory.
        stride = math.ceil(X.size / _STORED_NUMBERS)
        self._stored_blocks = {part.start for part in self._parts[::stride]}

    @cached_property
    def start(self) -> Matrix:
        """A factor of the point where the search starts, close to the mean.

        The point is the geometric mean of the arithmetic mean LLᵀ and the harmonic
        mean. It is the arithmetic mean where the harmonic mean is lost to round-off,
        and NaN where even the arithmetic mean is not positive definite.
        """
        sums = in_threads(self._sum_with_inverses, self._parts)
        arithmetic = sym(np.sum([part[0] for part in sums], axis=0))
        mean_inverse = sym(np.sum([part[1] for part in sums], axis=0))
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
        return L @ (U * eigenvalues**-0.25)

    def move(self, G: Matrix, step: Matrix) -> Matrix:
        """Return G·exp(S/2) for a step S."""
        eigenvalues, U = np.linalg.eigh(step)
        return G @ ((U * np.exp(0.5 * eigenvalues)) @ U.T)

    def newton(self, G: Matrix, convergence: float) -> SPDNewton | None:
        """Return Newton's method at G, or None to go on with the one in use.

        It is computed from the eigen-systems of the last careful pass if that pass was
        made at G, and otherwise from a subsample of the records, whitened here.

        Parameters
        ----------
        G : array, shape (m, m)
            The factor of the iterate GGᵀ.
        convergence : float
            Fraction of the residual that the last step left. A new Hessian pays only
            above
            `SLOW_CONVERGENCE`.
        """
        if not convergence > SLOW_CONVERGENCE:
            return None
        if self._careful_factor is G and self._eigen:
            stored = [
                self._eigen[part.start]
                for part in self._parts
                if part.start in self._eigen
            ]
            return SPDNewton(stored)
        X, weights = self._X, self._weights
        rows = subsample(len(X), len(G))
        if rows is not None:
            X, weights = X[rows], weights[rows]
        eigenvalues, vectors = eigh(_whiten(np.linalg.inv(G), X))
        return SPDNewton([WhitenedEigen(eigenvalues, vectors, weights / weights.sum())])

    def make_pass(self, request: PassRequest) -> PassResult:
        """Make a pass: with every spectrum where care is asked for, else by series.

        A series is good to a hundredth of the residual that is expected.

        Parameters
        ----------
        request : PassRequest
            The iterate, and how accurate the pass has to be.
        """
        G = request.x
        if not np.all(np.isfinite(G)):
            return PassResult(G, np.nan)
        error = self._tolerance.next_error()
        if request.careful or not self._groups:
            result = self.careful_pass(G)
        else:
            result = self.quick_pass(G, error)
        is_new_iterate = self._careful_factor is not G
        self._tolerance.record(result.residual, is_new_iterate)
        return result

    def iterate_at(self, p: Matrix) -> Matrix:
        """Return the Cholesky factor of p."""
        return np.linalg.cholesky(p)

    def point(self, G: Matrix) -> Matrix:
        """Return GGᵀ."""
        return sym(G @ G.T)

    def careful_pass(self, G: Matrix) -> PassResult:
        """Make a pass that computes the spectrum of every whitened matrix.

        It stores what later quick passes and Hessians need: the factor G, the ends of
        every spectrum, some eigen-systems, and groups of records with similar spans.

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
        self._careful_factor = G
        if self._tolerance.least < _PLAIN_ERROR:
            # The general bound is not enough: use what round-off does near the
            # identity.
            condition = float(np.linalg.cond(G)) ** 2
            self._roundoff_unit = 16 * len(G) * 2.0**-53 * condition

        if self._packed is not None:
            return self._careful_pass_in_closed_form(G, inverse, self._packed)

        def pass_over(part: slice) -> PassResult:
            return self._pass_by_eigh(G, inverse, part)

        result = _sum_over_blocks(pass_over, self._parts)
        if self._log_ends is not None:
            spans = self._log_ends[:, 1] - self._log_ends[:, 0]
            order = np.argsort(spans)
            self._groups = [order[part] for part in self._parts]
        return result

    def _careful_pass_in_closed_form(
        self, G: Matrix, inverse: Matrix, packed: Matrix
    ) -> PassResult:
        """Make a careful pass over 2×2 or 3×3 matrices.

        Parameters
        ----------
        G, inverse : array, shape (m, m)
            The factor of the iterate GGᵀ and its inverse.
        packed : array, shape (m(m + 1)/2, n)
            All records, packed by `_pack_rows`.
        """
        # S ↦ G⁻¹SG⁻ᵀ is linear: in packed coordinates one small matrix whitens all.
        packed_basis = unpack(np.eye(len(packed)), len(G))
        images = inverse @ packed_basis @ inverse.T
        congruence = pack(images).T

        def pass_over(part: slice) -> PassResult:
            return _pass_in_closed_form(
                self._roundoff_unit,
                G,
                congruence @ packed[:, part],
                self._X[part],
                self._weights[part],
            )

        return _sum_over_blocks(pass_over, self._parts)

    def _pass_by_eigh(self, G: Matrix, inverse: Matrix, part: slice) -> PassResult:
        """Make a careful pass over one block of records with LAPACK's eigensolver.

        It stores the ends of the spectra and, for some blocks, the eigen-systems.

        Parameters
        ----------
        G, inverse : array, shape (m, m)
            The factor of the iterate and its inverse.
        part : slice
            The block of records.
        """
        eigenvalues, U = np.linalg.eigh(_whiten(inverse, self._X[part]))
        if part.start in self._stored_blocks:
            self._eigen[part.start] = WhitenedEigen(eigenvalues, U, self._weights[part])
        logs, is_resolved, result = _pass_by_spectrum(
            self._roundoff_unit, G, eigenvalues, U, self._X[part], self._weights[part]
        )
        if self._log_ends is not None:
            self._log_ends[part] = np.where(
                is_resolved[:, None], logs[:, [0, -1]], [-np.inf, np.inf]
            )
        return result

    def quick_pass(self, G: Matrix, error: float) -> PassResult:
        """Make a pass by Chebyshev series, for which no spectrum is computed.

        The log-eigenvalues at G lie in the intervals of the last careful pass, at the
        factor
        F, moved by at most twice the extreme values of log σ(G⁻¹F) (Ostrowski 1959). A
        group of records whose series would need too many terms is passed to `eigh`.

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
        change = np.linalg.solve(G, self._careful_factor)
        singular_values = np.linalg.svd(change, compute_uv=False)  # descending
        shifts = 2 * np.log(singular_values)
        low = self._log_ends[:, 0] + shifts[-1]
        high = self._log_ends[:, 1] + shifts[0]
        inverse = np.linalg.inv(G)
        most_terms = min(_MOST_TERMS, _MOST_TERMS_TIMES_ROWS // len(G))

        def pass_over(rows: Matrix) -> PassResult:
            """Make the quick pass over one group of records."""
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

    def _sum_with_inverses(self, part: slice) -> tuple[Matrix, Matrix]:
        """Return Σ wX and Σ wX⁻¹ over one block of records X with weights w.

        The second sum is NaN where a matrix has no inverse.

        Parameters
        ----------
        part : slice
            The block of records.
        """
        weights = self._weights[part]
        m = self._X.shape[-1]
        if self._packed is not None and m == 3:
            A = self._packed[:, part]
            return unpack(A @ weights, m), unpack(_packed_inverse3(A) @ weights, m)
        X = self._X[part]
        try:
            inverse = np.linalg.inv(X)
        except np.linalg.LinAlgError:
            inverse = np.full_like(X, np.nan)
        return np.tensordot(weights, X, axes=1), np.tensordot(weights, inverse, axes=1)


def _sum_over_blocks(
    kernel: Callable[[Any], PassResult], parts: Sequence[Any]
) -> PassResult:
    """Return the sum of the results of a pass over all blocks of records.

    Parameters
    ----------
    kernel : callable
        Makes the pass over one block. It runs in several threads.
    parts : sequence
        The blocks: slices, or arrays of indices.
    """
    if len(parts) == 1:
        return kernel(parts[0])
    results = in_threads(kernel, parts)
    return PassResult(
        np.sum([result.velocity for result in results], axis=0),
        sum(result.square for result in results),
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
    """Make a pass over whitened matrices whose eigen-systems are known.

    Where the ratio of extreme eigenvalues is too small for plain double precision, the
    spectrum is computed again to high relative accuracy (`_add_unresolved_matrices`).

    Parameters
    ----------
    roundoff_unit : float
        Error of a logarithm at the identity.
    G : array, shape (m, m)
        The factor of the iterate GGᵀ.
    eigenvalues, U : array, shapes (n, m) and (n, m, m)
        The eigen-systems of the whitened matrices G⁻¹XG⁻ᵀ.
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
        others = _weighted_sum(logs, rotation.T @ U, weights[~is_resolved])
        result = PassResult(
            result.velocity + others.velocity, result.square + others.square
        )
    return PassResult(result.velocity, result.square, error * float(weights.sum()))


def _weighted_sum(logs: Matrix, U: Matrix, weights: Matrix) -> PassResult:
    """Return Σ w·U·diag(logs)·Uᵀ and Σ w·|logs|²."""
    n, m = logs.shape
    flat = U.transpose(1, 0, 2).reshape(m, n * m)
    velocity = (flat * (weights[:, None] * logs).ravel()) @ flat.T
    return PassResult(velocity, float(np.sum(weights[:, None] * logs * logs)))


def _whiten(inverse: Matrix, X: Matrix) -> Matrix:
    """Return G⁻¹XG⁻ᵀ, symmetric to the last bit."""
    n, m, _ = X.shape
    half = (X.reshape(n * m, m) @ inverse.T).reshape(n, m, m)
    return sym(inverse @ half)


# ---- logarithms by series ------------------------------------------------------------


def _series_degree(half_width: float, error: float) -> int:
    """Return the degree at which the series of `_log_sum_by_series` has a small tail.

    With σ half the span of the log-eigenvalues and q = tanh(σ/2), the tail beyond
    degree d is below 2q^{d+1}/(1−q).

    Parameters
    ----------
    half_width : float
        The number σ.
    error : float
        The bound that the tail must meet.

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
    degree = np.log(max(error, 1e-15) * (1 - q) / 2) / np.log(q)
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
    Y = A * (np.exp(-middle) / max(np.sinh(sigma), 1e-300))[:, None, None]
    Y -= identity / max(np.tanh(sigma), 1e-300)

    # T_0(Y), …, T_{stride−1}(Y) and T_stride(Y)
    T = np.empty((stride, n, m, m))
    T[0] = identity
    T[1] = Y
    twice_Y = 2 * Y
    for j in range(2, stride):
        np.matmul(twice_Y, T[j - 1], out=T[j])
        T[j] -= T[j - 2]
    giant_step = twice_Y @ T[stride - 1] - T[stride - 2]

    T *= weights[:, None, None]
    inner = (coefficients @ T.reshape(stride, -1)).reshape(n_blocks + 1, n, m, m)
    total = inner[0].sum(axis=0) + float(weights @ middle) * identity
    previous = np.broadcast_to(identity, giant_step.shape)
    current = giant_step  # T_{bs}(Y)
    for b in range(1, n_blocks + 1):
        total += inner[b].reshape(n * m, m).T @ current.reshape(n * m, m)
        if b < n_blocks:
            following = 2 * (giant_step @ current) - previous
            previous, current = current, following
    return sym(total)


def _block_coefficients(sigma: float, stride: int, n_blocks: int) -> Matrix:
    """Return the series of `_log_sum_by_series` regrouped into blocks of s terms.

    With c_k the coefficients of that series, the result is the matrix Q with

        Σ_k c_k T_k = Σ_b T_{bs} Σ_{j<s} Q_bj T_j.

    The regrouping starts at the highest block and uses 2·T_{bs}·T_j = T_{bs+j} +
    T_{bs−j}.

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

    Off-diagonal entries are multiplied by √2, as in `pack`. A row is contiguous in
    memory, so sums over the records are fast.

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

    Both arrays have shape (6, n); `_pack_rows` says what a packed matrix is.

    Parameters
    ----------
    A : array
        Packed matrices.
    """
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
    A : array
        Packed matrices.
    """
    entries = []
    for row, scale in zip(A, _PACKED_SCALE3, strict=True):
        entries.append(row if scale == 1 else row * _INVERSE_ROOT2)
    return entries


def _pass_in_closed_form(
    roundoff_unit: float, G: Matrix, A: Matrix, X: Matrix, weights: Matrix
) -> PassResult:
    """Make a pass over 2×2 or 3×3 matrices with logarithms in closed form.

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
    """
    kernel = _log_sum2 if len(G) == 2 else _log_sum3
    with np.errstate(invalid="ignore", divide="ignore"):
        result, ratio = kernel(A, weights)
        is_resolved = ratio > _LEAST_RATIO
        if not is_resolved.all():
            result, _ = kernel(A[:, is_resolved], weights[is_resolved])
        return _add_unresolved_matrices(result, roundoff_unit, G, X, weights, ratio)


def _log_sum2(A: Matrix, weights: Matrix) -> tuple[PassResult, Matrix]:
    """Sum the logarithms of packed 2×2 matrices A with weights w.

    With eigenvalues λ₁ ≤ λ₂, log A = log λ₁ + log[λ₁, λ₂]·(A − λ₁), where
    log[λ₁, λ₂] = (log λ₂ − log λ₁)/(λ₂ − λ₁) is the divided difference.

    Parameters
    ----------
    A : array
        Packed matrices.
    weights : array of shape (n,)
        The weight of each record.

    Returns
    -------
    result : PassResult
        Σ w·log A and Σ w‖log A‖².
    ratio : array, shape (n,)
        λ₁/λ₂ of each matrix.
    """
    a, b, d = A[0], A[1] * _INVERSE_ROOT2, A[2]
    root = np.sqrt((0.5 * (a - d)) ** 2 + b * b)
    high = 0.5 * (a + d) + root
    low = (a * d - b * b) / high
    gap = 2 * root
    log_low = np.log(low)
    rise = np.log1p(gap / low)  # log λ₂ − log λ₁
    quotient = rise / np.where(gap > 0, gap, 1.0)
    slope = weights * np.where(gap > 0, quotient, 1 / low)
    log_high = log_low + rise
    identity_part = weights @ log_low - slope @ low
    logs = A @ slope + identity_part * _PACKED_IDENTITY2
    square = float(weights @ (log_low**2 + log_high**2))
    return PassResult(unpack(logs, 2), square), low / high


def _log_sum3(A: Matrix, weights: Matrix) -> tuple[PassResult, Matrix]:
    """Sum the logarithms of packed 3×3 matrices A with weights w.

    log A = c₀I + c₁A + c₂A² with the coefficients of `log_polynomial`.

    Parameters
    ----------
    A : array
        Packed matrices.
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
    second = weights * log.second
    square_sums = [float(second @ entry) for entry in squared(entries)]
    logs = A @ (weights * log.first) + _PACKED_SCALE3 * square_sums
    logs += float(weights @ log.zeroth) * _PACKED_IDENTITY3
    result = PassResult(unpack(logs, 3), float(weights @ log.square))
    return result, log.low / log.high
