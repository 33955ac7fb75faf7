"""The affine-invariant Fréchet mean of SPD matrices in memory, in few and cheap passes.

An iterate is a factor G of the point GGᵀ, and a step S leads to G·exp(S/2). A pass
whitens every matrix, Aᵢ = G⁻¹XᵢG⁻ᵀ, and sums wᵢ·log Aᵢ. For 2×2 and 3×3 matrices the
logarithm is a polynomial. Above, a careful pass finds every spectrum by `eigh`; a quick
pass uses the Chebyshev series of `_log_sum_by_series` on intervals that contain each
spectrum, since moving from G to H shifts log-eigenvalues by at most twice the ends of
log σ(H⁻¹G) (Ostrowski 1959). docs/frechet-mean.md has the measurements.
"""

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

_CHUNK_BYTES = 1 << 17  # of matrices that are worked on together
_SMALL_ROWS = 1 << 13  # of 2×2 and 3×3 matrices, whose entries are vectors

FEW_NUMBERS = 1 << 12
"""Numbers in the data up to which fixed costs rule."""

# Numbers in eigenvectors that are stored of a careful pass.
_STORED_NUMBERS = 1 << 23

# Least ratio of eigenvalues that plain double precision resolves, and its error then.
_LEAST_RATIO = 1e-5
_PLAIN_ERROR = 1e-11

_LARGEST_INVERTED = 3  # rows up to which the Hessian is inverted
_CG_ROUNDS = 1000  # of conjugate gradients, which need a few; the search checks them
_REFINEMENTS = 2  # rounds with all matrices, each worth two digits

# Series of more terms cost more than `eigh`: 160 terms at m = 11, 100 at 50, 50 at 100.
_MOST_TERMS = 160
_MOST_TERMS_TIMES_ROWS = 5000

# ---- Newton's method -----------------------------------------------------------------


class WhitenedEigen(NamedTuple):
    """Whitened matrices UwUᵀ by their eigenvalues and vectors, with their weights."""

    eigenvalues: Matrix
    vectors: Matrix
    weights: Matrix


def subsample(n: int, m: int) -> Matrix | None:
    """Return which of n records, evenly spaced, make a Hessian; None for all.

    Parameters
    ----------
    n : int
        The number of records.
    m : int
        The number of rows of a matrix.
    """
    if m <= _LARGEST_INVERTED:
        size = 1024
    elif m <= 32:
        size = 256
    else:
        size = 128
    return None if n <= size else np.linspace(0, n - 1, size).astype(np.int64)


class SPDNewton:
    """The map E ↦ H⁻¹E, H the Hessian of the cost at the whitened iterate I.

    H is the mean of E ↦ U(K ⊙ UᵀEU)Uᵀ over whitened matrices A = UwUᵀ, with K =
    (s/2)coth(s/2) at s = log wᵣ − log wₛ (a symmetric space). It is at least 1 and
    varies little from matrix to matrix, so that a few hundred give it to a percent; all
    of them, applied a few times to what those leave, cost a tenth of a pass and give
    three to six digits a step. H is inverted where it is small, else solved by
    conjugate gradients with a few matrices, refined with all.

    Parameters
    ----------
    parts : sequence of WhitenedEigen
        The matrices, in blocks.
    """

    def __init__(self, parts: Sequence[WhitenedEigen]) -> None:
        """Form the Hessian of a sample, and that of all matrices if it refines."""
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
        """Return H⁻¹ of the symmetric part of the gradient.

        It is symmetric to the last bit, as the values of H are: otherwise what
        round-off leaves of the residual would never fall, and where the gradient is all
        round-off (the start was the mean) the rounds would grow without end.
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
        """Solve Hx = right_side with the Hessian of the sample."""
        x = np.zeros_like(right_side)
        residual = right_side
        direction = residual
        square = float(np.sum(residual * residual))
        goal = 1e-6 * square if self._full_hessian else 1e-8 * square
        for _ in range(_CG_ROUNDS):
            if not square > goal:
                break
            image = self._sample_hessian.times(direction)
            curvature = float(np.sum(direction * image))
            if not curvature > 0:  # underflow
                break
            length = square / curvature
            x = x + length * direction
            residual = residual - length * image
            last_square = square
            square = float(np.sum(residual * residual))
            direction = residual + (square / last_square) * direction
        return x


class _Hessian:
    """The Hessian Σ w·U(K ⊙ UᵀEU)Uᵀ of the cost, for some whitened matrices."""

    def __init__(self, eigen: WhitenedEigen) -> None:
        """Compute the weights K = (s/2)coth(s/2) of the matrices."""
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
        """Return H applied to a symmetric matrix E."""
        n, m, _ = self._U.shape
        rotated = self._U.mT @ (self._columns @ E).reshape(n, m, m).mT
        weighted = self._K * rotated
        return sym((weighted @ self._U.mT).reshape(n * m, m).T @ self._columns)

    def matrix(self) -> Matrix:
        """Return H as a matrix on the m² entries of E.

        Its columns are U⊗U, weighted by K; the records run along the last axis.
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
        """Remember the residual of a pass, for the accuracy of the next."""
        self.rate = residual / self.residual if is_new_iterate else 1e-3
        self.residual = residual


class SPDBackend(MeanBackend):
    """Passes over SPD matrices in memory.

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
        stride = -(-X.size // _STORED_NUMBERS)
        self._stored_blocks = {part.start for part in self._parts[::stride]}

    @cached_property
    def start(self) -> Matrix:
        """A factor of the geometric mean of the arithmetic and the harmonic mean.

        NaN where the data are not positive definite to working precision.
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
        """Return Newton's method at G where the last step was slow.

        From the matrices of the last careful pass if that was at G, else from a few.
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
        """Make a pass in which every spectrum is found."""
        inverse = np.linalg.inv(G)
        self._careful_factor = G
        if self._tolerance.least < _PLAIN_ERROR:
            # The general bound is not enough: use what round-off does near the
            # identity.
            condition = float(np.linalg.cond(G)) ** 2
            self._roundoff_unit = 16 * len(G) * 2.0**-53 * condition

        packed = self._packed
        if packed is not None:
            # S ↦ G⁻¹SG⁻ᵀ in packed coordinates: one small matrix times the data
            images = inverse @ unpack(np.eye(len(packed)), len(G)) @ inverse.T
            congruence = pack(images).T

            def closed_form_pass(part: slice) -> PassResult:
                """Make the careful pass over one block of small matrices."""
                return _pass_in_closed_form(
                    self._roundoff_unit,
                    G,
                    congruence @ packed[:, part],
                    self._X[part],
                    self._weights[part],
                )

            return _add_up(closed_form_pass, self._parts)

        result = _add_up(lambda part: self._pass_by_eigh(G, inverse, part), self._parts)
        if self._log_ends is not None:
            order = np.argsort(self._log_ends[:, 1] - self._log_ends[:, 0])
            self._groups = [order[part] for part in self._parts]
        return result

    def _pass_by_eigh(self, G: Matrix, inverse: Matrix, part: slice) -> PassResult:
        """Make a careful pass over a block, storing its spectra."""
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
        """Make a pass at any place by series, its gradient good to `error`.

        The mean square distance is not computed (NaN).
        """
        shift = np.linalg.svd(
            np.linalg.solve(G, self._careful_factor), compute_uv=False
        )
        ends = 2 * np.log(shift)
        low = self._log_ends[:, 0] + ends[-1]
        high = self._log_ends[:, 1] + ends[0]
        inverse = np.linalg.inv(G)
        most_terms = min(_MOST_TERMS, _MOST_TERMS_TIMES_ROWS // len(G))

        def pass_over(rows: Matrix) -> PassResult:
            """Make the quick pass over one group of records."""
            A = _whiten(inverse, self._X[rows])
            weights = self._weights[rows]
            widest = rows[-1]
            degree = _series_degree(float(high[widest] - low[widest]) / 2, error)
            if degree > most_terms:
                eigenvalues, U = np.linalg.eigh(A)
                return _pass_by_spectrum(
                    self._roundoff_unit, G, eigenvalues, U, self._X[rows], weights
                )[2]
            velocity = _log_sum_by_series(A, weights, low[rows], high[rows], degree)
            return PassResult(velocity, np.nan, error * float(weights.sum()))

        return _add_up(pass_over, self._groups)

    def _sum_with_inverses(self, part: slice) -> tuple[Matrix, Matrix]:
        """Return Σ wX and Σ wX⁻¹ over a block; NaN where a matrix has no inverse."""
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


def _add_up(kernel: Callable[[Any], PassResult], parts: Sequence[Any]) -> PassResult:
    """Return the sum of a kernel's results over the parts of the records."""
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
    """Make a pass over whitened matrices with known spectra.

    Matrices whose eigenvalues plain double precision does not resolve are done again
    with care.

    Returns
    -------
    logs : array, shape (n, m)
        The log-eigenvalues.
    is_resolved : array, shape (n,)
        Which matrices plain double precision resolves.
    result : PassResult
    """
    ratio = eigenvalues[:, 0] / eigenvalues[:, -1]
    is_resolved = ratio > _LEAST_RATIO
    all_resolved = is_resolved.all()
    if all_resolved:
        logs = np.log(eigenvalues)
        result = _weighted_sum(logs, U, weights)
    else:
        logs = np.log(np.where(is_resolved[:, None], eigenvalues, 1.0))
        result = _weighted_sum(logs, U, np.where(is_resolved, weights, 0.0))
    return (
        logs,
        is_resolved,
        _with_unresolved(result, roundoff_unit, G, X, weights, ratio),
    )


def _with_unresolved(
    result: PassResult,
    roundoff_unit: float,
    G: Matrix,
    X: Matrix,
    weights: Matrix,
    ratio: Matrix,
) -> PassResult:
    """Return a pass over resolved matrices completed by the others, with its error.

    Parameters
    ----------
    result : PassResult
        The sums over the matrices with ratio > `_LEAST_RATIO`.
    roundoff_unit : float
        Error of a logarithm at the identity.
    G, X, weights
        The iterate, all matrices and their weights.
    ratio : array
        The ratio of the least to the largest eigenvalue of each whitened matrix. Those
        that are not resolved get eigenvalues of high relative accuracy.
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
    """Return the degree at which `_log_sum_by_series` is within `error`.

    The tail beyond degree d is below 2q^{d+1}/(1−q), q = tanh(σ/2).

    Parameters
    ----------
    half_width : float
        Half the span σ of the log-eigenvalues.
    error : float
        The bound on the error of a logarithm.
    """
    q = np.tanh(half_width / 2)
    if q == 0:
        return 2
    if not q < 1:
        return 10**9
    degree = np.log(max(error, 1e-15) * (1 - q) / 2) / np.log(q)
    return max(2, int(np.ceil(degree)))


def _log_sum_by_series(
    A: Matrix, weights: Matrix, low: Matrix, high: Matrix, degree: int
) -> Matrix:
    """Return Σ w·log A by a Chebyshev series.

    A/c, with c the geometric middle of its interval, has its spectrum in [e^−σ, e^σ].
    There, with y = (A/c − cosh σ)/sinh σ and q = tanh(σ/2),

        log(cosh σ + y·sinh σ) = −log(1−q²) + 2Σ_k (−1)^{k+1} q^k/k · T_k(y).

    Only the sum over the matrices is needed, so with giant steps T_{bs} the last
    product of each block is one long matrix product (after Paterson & Stockmeyer 1973).

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
    """
    n, m, _ = A.shape
    middle = 0.5 * (low + high)
    sigma = float(np.max(high - low)) / 2
    stride = max(2, round((2 * degree) ** 0.5))
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
    """Return Q with Σ_k c_k T_k = Σ_b T_{bs} Σ_j Q_bj T_j, s the stride.

    The c_k are the coefficients of `_log_sum_by_series`; they are regrouped from the
    top by 2·T_{bs}·T_j = T_{bs+j} + T_{bs−j}.

    Returns
    -------
    array, shape (n_blocks + 1, stride)
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
    """Return `pack(X)` with a coordinate a row, each a run of memory."""
    m = X.shape[-1]
    pairs = [(i, j) for i in range(m) for j in range(i + 1)]
    packed = np.empty((len(pairs), len(X)))
    for row, (i, j) in zip(packed, pairs, strict=True):
        np.multiply(X[:, i, j], 1.0 if i == j else 2**0.5, out=row)
    return packed


def _packed_inverse3(A: Matrix) -> Matrix:
    """Return packed inverses of packed 3×3 matrices, by cofactors."""
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
    """Return the entries of the lower triangle of packed 3×3 matrices."""
    entries = []
    for row, scale in zip(A, _PACKED_SCALE3, strict=True):
        entries.append(row if scale == 1 else row * _INVERSE_ROOT2)
    return entries


def _pass_in_closed_form(
    roundoff_unit: float, G: Matrix, A: Matrix, X: Matrix, weights: Matrix
) -> PassResult:
    """Make a pass over packed, whitened 2×2 or 3×3 matrices A.

    A matrix too far out shows as NaN or through its ratio of eigenvalues, and is done
    again with care.
    """
    kernel = _log_sum2 if len(G) == 2 else _log_sum3
    with np.errstate(invalid="ignore", divide="ignore"):
        result, ratio = kernel(A, weights)
        is_resolved = ratio > _LEAST_RATIO
        if not is_resolved.all():
            result, _ = kernel(A[:, is_resolved], weights[is_resolved])
        return _with_unresolved(result, roundoff_unit, G, X, weights, ratio)


def _log_sum2(A: Matrix, weights: Matrix) -> tuple[PassResult, Matrix]:
    """Return Σ w·log A, Σ w‖log A‖² and each λ₁/λ₂ for packed 2×2 matrices.

    log A = log λ₁ + log[λ₁, λ₂]·(A − λ₁) with the divided difference of log.
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
    """Return Σ w·log A, Σ w‖log A‖² and each λ₁/λ₃ for packed 3×3 matrices.

    log A is the polynomial of degree 2 of `log_polynomial`.
    """
    entries = tuple(_unscaled_entries3(A))
    log = log_polynomial(entries)
    second = weights * log.second
    square_sums = [float(second @ entry) for entry in squared(entries)]
    logs = A @ (weights * log.first) + _PACKED_SCALE3 * square_sums
    logs += float(weights @ log.zeroth) * _PACKED_IDENTITY3
    result = PassResult(unpack(logs, 3), float(weights @ log.square))
    return result, log.low / log.high
