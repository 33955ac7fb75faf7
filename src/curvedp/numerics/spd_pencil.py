"""Logarithms of the eigenvalues of L⁻¹qL⁻ᵀ for positive definite matrices p = LLᵀ and
q, to high relative accuracy. Affine-invariant distances depend on them. A quick path
works in floats; a careful path, in twice that precision, serves pairs (p, q) with large
condition numbers.

Definition. With the Cholesky factor L of p = LLᵀ, the eigenvalues of the pencil (p, q)
are those of A = L⁻¹qL⁻ᵀ.

There are two ways to compute them. cond is the condition number of a matrix, and u the
unit roundoff.

The plain path takes log1p of the eigenvalues of L⁻¹(q − p)L⁻ᵀ, because near p = q the
digits are in q − p. Its error is a few u·cond(p)·cond(A). For matrices with a measured
product of condition numbers above 100, the careful path takes over:

- The Cholesky factor, the triangular solves and A itself are computed in twice the
  working precision, as pairs of floats (Dekker 1971). Their error is
  u²·cond(p)·cond(A).
- A Cholesky factor G of A with diagonal pivoting is computed in that precision too.
  Its columns decrease in size, and each is accurate on its own scale.
- One-sided Jacobi rotations make the columns of G orthogonal. Their relative error does
  not depend on that scaling (Demmel and Veselić 1992).

So eigenvalues keep 1e-12 of relative accuracy while cond(p)·cond(A) is below about
1e19, and longer for diagonal and graded matrices. Under JAX the careful path serves m
<= 3; larger matrices have the plain path's error there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device, is_jax_namespace, is_numpy_array

from curvedp.numerics.arrays import Array, like, namespace
from curvedp.numerics.autodiff import compiled, repeat_while
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.eigen import eigh
from curvedp.numerics.error_free import two_product, two_sum
from curvedp.numerics.matrix_functions import cholesky, lower_solve, sym, whiten
from curvedp.numerics.spd3 import log_spectrum3

_SWEEPS = 15  # of Jacobi's method, at most

# Product of condition numbers beyond which the careful path is taken.
_LARGEST_PLAIN_CONDITION = 100.0

# Rows up to which JAX compiles the careful path; beyond, compiling the unrolled pair
# arithmetic takes longer than it is worth.
_LARGEST_COMPILED = 3


@dataclass(frozen=True)
class _DoubleDouble:
    """Numbers of twice the working precision: the unevaluated sums high + low.

    A sum or a product is rounded to a float, and its rounding error, which is a float
    too, is stored beside it (Dekker 1971).
    """

    high: Array  # the numbers, rounded to floats
    low: Array  # what rounding left out

    @classmethod
    def exactly(cls, A: Array) -> "_DoubleDouble":
        """Return the pair that equals an array of floats exactly."""
        return cls(A, namespace(A).zeros_like(A))

    @classmethod
    def rounded(cls, s: Array, e: Array) -> "_DoubleDouble":
        """Return s + e as a pair whose high part is the sum rounded to a float.

        Parameters
        ----------
        s : array
            The larger summand.
        e : array
            The smaller one, |e| <= |s|, such as a rounding error of s.

        Returns
        -------
        _DoubleDouble
            The same sum, exactly.
        """
        total = s + e
        return cls(total, e - (total - s))

    def map(self, f: Callable[[Array], Array]) -> "_DoubleDouble":
        """Return f applied to both parts.

        Parameters
        ----------
        f : callable
            A linear map of arrays, such as an index or a transpose. It must not round.

        Returns
        -------
        _DoubleDouble
            f(high) + f(low).
        """
        return _DoubleDouble(f(self.high), f(self.low))

    def __getitem__(self, index: Any) -> "_DoubleDouble":
        """Return some of the numbers, by any index of arrays."""
        return self.map(lambda part: part[index])

    def where(self, mask: Array) -> "_DoubleDouble":
        """Return the numbers where the mask holds, and 0 elsewhere."""
        xp = namespace(self.high)
        return self.map(lambda part: xp.where(mask, part, xp.zeros_like(part)))

    def __add__(self, other: "_DoubleDouble") -> "_DoubleDouble":
        """Return the sum. The sum of the high parts is exact, with its error e."""
        s, e = two_sum(self.high, other.high)
        return _DoubleDouble.rounded(s, e + (self.low + other.low))

    def __sub__(self, other: "_DoubleDouble") -> "_DoubleDouble":
        """Return the difference, as the sum with −other."""
        return self + other.map(lambda part: -part)

    def __mul__(self, other: "_DoubleDouble") -> "_DoubleDouble":
        """Return the product. The product of two low parts is too small to count."""
        p, e = two_product(namespace(self.high), self.high, other.high)
        return _DoubleDouble.rounded(
            p, e + (self.high * other.low + self.low * other.high)
        )

    def __truediv__(self, other: "_DoubleDouble") -> "_DoubleDouble":
        """Return the quotient of the high parts, after one step of long division."""
        q = self.high / other.high
        remainder = self - _DoubleDouble.exactly(q) * other
        return _DoubleDouble.rounded(q, (remainder.high + remainder.low) / other.high)

    def sqrt(self) -> "_DoubleDouble":
        """Return the square root; NaN where the number is not positive.

        It is the root of the high part, corrected by one step of Newton's method.

        Returns
        -------
        _DoubleDouble
            The roots.
        """
        xp = namespace(self.high)
        is_positive = self.high > 0
        safe = xp.where(is_positive, self.high, xp.ones_like(self.high))
        root = xp.where(is_positive, xp.sqrt(safe), xp.nan)
        remainder = self - _DoubleDouble(*two_product(xp, root, root))
        return _DoubleDouble.rounded(
            root, (remainder.high + remainder.low) / (2 * root)
        )


def _stack(parts: list[_DoubleDouble], axis: int) -> _DoubleDouble:
    """Return numbers of twice the working precision stacked along a new axis.

    Parameters
    ----------
    parts : list of _DoubleDouble
        Arrays in twice the working precision.
    axis : int
        The new axis.

    Returns
    -------
    _DoubleDouble
        One array in twice the working precision.
    """
    xp = namespace(parts[0].high)
    return _DoubleDouble(
        xp.stack([part.high for part in parts], axis=axis),
        xp.stack([part.low for part in parts], axis=axis),
    )


def _accurate_cholesky(A: Array) -> _DoubleDouble:
    """Return the lower triangular L with LLᵀ = A, in twice the working precision.

    A matrix that is not positive definite gives NaN.

    Parameters
    ----------
    A : array of shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    _DoubleDouble of shape (..., m, m)
        L, with a relative error of about u²·cond(A), u the unit roundoff.
    """
    index = namespace(A).arange(A.shape[-1], device=device(A))
    remainder = _DoubleDouble.exactly(A)
    columns = []
    for j in range(A.shape[-1]):
        pivot_root = remainder[..., j, j : j + 1].sqrt()
        column = (remainder[..., :, j] / pivot_root).where(index >= j)
        columns.append(column)
        remainder = remainder - column[..., :, None] * column[..., None, :]
    return _stack(columns, -1)


def log_cholesky_change(p: Array, q: Array) -> Array:
    """Return how the Cholesky factor of p must change to become that of q.

    With p = LLᵀ and q = KKᵀ, the entries below the diagonal change by K − L, and those
    on the diagonal by a factor, of which the logarithm is returned. This is the
    velocity from p to q in the log-Cholesky metric, in the chart of the factors. The
    factors are computed in twice the working precision, because a factor in one
    precision has a relative error of u·cond(q), u the unit roundoff.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        SPD matrices.

    Returns
    -------
    array, shape (..., m, m)
        K − L below the diagonal, and log(Kⱼⱼ/Lⱼⱼ) on it.
    """
    xp = namespace(p, q)
    # K − L, of which the part below the diagonal is the result.
    L, K = _accurate_cholesky(p), _accurate_cholesky(q)
    difference = K - L
    is_diagonal = xp.eye(p.shape[-1], dtype=xp.bool, device=device(q))

    # log(K/L) on the diagonal: log1p of the relative change, or the plain logarithm
    # where K is much smaller than L.
    L_diagonal = xp.where(is_diagonal, L.high, 1.0)
    relative_change = xp.where(is_diagonal, difference.high / L_diagonal, 0.0)
    diagonal_ratio = xp.where(is_diagonal, K.high, 1.0) / L_diagonal
    accurate_near_one = xp.log1p(xp.maximum(relative_change, -0.5))
    log_ratio = xp.where(
        relative_change > -0.5, accurate_near_one, xp.log(diagonal_ratio)
    )
    return xp.where(is_diagonal, log_ratio, difference.high)


def _accurate_lower_solve(L: _DoubleDouble, B: _DoubleDouble) -> _DoubleDouble:
    """Return L⁻¹B in twice the working precision, for lower triangular L.

    It is computed by forward substitution.

    Parameters
    ----------
    L : _DoubleDouble of shape (..., m, m)
        Lower triangular matrices, in twice the working precision.
    B : _DoubleDouble of shape (..., m, n)
        Right-hand sides, in twice the working precision.

    Returns
    -------
    _DoubleDouble of shape (..., m, n)
        The solutions X of LX = B.
    """
    rows: list[_DoubleDouble] = []
    for i in range(L.high.shape[-1]):
        rows.append(B[..., i, :] / L[..., i, i, None])
        B = B - L[..., :, i, None] * rows[-1][..., None, :]
    return _stack(rows, -2)


def _accurate_whitening(L: _DoubleDouble, S: Array) -> _DoubleDouble:
    """Return the whitened matrix L⁻¹SL⁻ᵀ in twice the working precision.

    Parameters
    ----------
    L : _DoubleDouble of shape (..., m, m)
        Lower triangular matrices, in twice the working precision.
    S : array, shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    _DoubleDouble of shape (..., m, m)
        The whitened matrices, in twice the working precision.
    """
    # First L⁻¹S, then L⁻¹ times its transpose.
    left_product = _accurate_lower_solve(L, _DoubleDouble.exactly(S))
    return _accurate_lower_solve(L, left_product.map(lambda part: part.mT))


def _accurate_pivoted_cholesky(A: _DoubleDouble) -> Array:
    """Return a factor G with GGᵀ = A whose columns decrease in size.

    Each column belongs to the row with the largest diagonal entry among the rows that
    have not been a pivot yet. This order makes small eigenvalues accurate. The arithmetic
    is in twice the working precision, and G is rounded to one.

    Parameters
    ----------
    A : _DoubleDouble, shape (..., m, m)
        SPD matrices in twice the working precision.

    Returns
    -------
    array, shape (..., m, m)
        G, a triangular matrix with its rows permuted.
    """
    xp = namespace(A.high)
    m = A.high.shape[-1]
    index = xp.arange(m, device=device(A.high))
    is_unused = xp.ones_like(A.high[..., 0]) > 0  # rows that were no pivot yet
    columns = []
    for _ in range(m):
        # The largest remaining diagonal entry. NaN and the rows of earlier pivots lose
        # every comparison.
        diagonal = xp.linalg.diagonal(A.high)
        is_candidate = is_unused & ~xp.isnan(diagonal)
        pivot_index = xp.argmax(xp.where(is_candidate, diagonal, -xp.inf), axis=-1)
        is_pivot = index == pivot_index[..., None]

        # Sums of which all terms but one are 0 select the column of the pivot, and the
        # pivot in it.
        column = A.where(is_pivot[..., None, :]).map(lambda part: xp.sum(part, axis=-1))
        pivot = column.where(is_pivot).map(
            lambda part: xp.sum(part, axis=-1, keepdims=True)
        )
        column = (column / pivot.sqrt()).where(is_unused)
        columns.append(column.high)

        # What remains of A.
        is_unused = is_unused & ~is_pivot
        A = A - column[..., :, None] * column[..., None, :]
    return xp.stack(columns, axis=-1)


def _one_sided_jacobi(xp: Any, G: Array) -> tuple[Array, Array]:
    """Return log σ² and U of G = U·diag(σ)·Vᵀ, by one-sided Jacobi rotations.

    A sweep rotates the columns pair by pair, every pair once, to make them orthogonal.
    Sweeps end when the cosines between the columns of a matrix are below the tolerance,
    or after `_SWEEPS`. A matrix that has converged is not changed any more, so that its
    result does not depend on the rest of the batch.

    Parameters
    ----------
    xp : namespace
        The array library.
    G : array, shape (..., m, m)
        Matrices whose columns may differ widely in scale.

    Returns
    -------
    log_squares : array, shape (..., m)
        The logarithms of the squared singular values.
    U : array, shape (..., m, m)
        The left singular vectors.
    """
    m = G.shape[-1]
    if m == 1:
        return 2 * xp.log(G[..., 0]), xp.ones_like(G)

    # Pairs need an even number of columns.
    is_padded = m % 2 == 1
    if is_padded:
        G = xp.concat([G, xp.zeros_like(G[..., :1])], axis=-1)
    G = _orthogonal_columns(xp, G, tolerance=m * float(xp.finfo(G.dtype).eps))
    square = xp.sum(G * G, axis=-2)
    if is_padded:
        # The padding is the one column that is exactly 0 (or NaN with all the others).
        order = xp.argsort(-square, axis=-1, stable=True)[..., :m]
        square = xp.take_along_axis(square, order, axis=-1)
        G = xp.take_along_axis(G, order[..., None, :], axis=-1)
    return xp.log(square), G / xp.sqrt(square)[..., None, :]


class _SweepState(NamedTuple):
    """The state of Jacobi's method between two sweeps.

    Attributes
    ----------
    G : array, shape (..., m, 2k)
        The columns.
    active : array of bool, shape (...)
        Whether a matrix has not converged.
    n_sweeps : int
        The number of sweeps so far.
    """

    G: Array
    active: Array
    n_sweeps: Any


def _orthogonal_columns(xp: Any, G: Array, tolerance: float) -> Array:
    """Rotate the columns of matrices pair by pair until they are orthogonal.

    Parameters
    ----------
    xp : namespace
        The array library.
    G : array, shape (..., m, 2k)
        Matrices with an even number of columns.
    tolerance : float
        A matrix has converged if no pair of columns has a larger cosine in a sweep.

    Returns
    -------
    array, shape (..., m, 2k)
        The rotated matrices.
    """
    n_rounds = G.shape[-1] - 1  # in which every pair of columns meets once

    def sweep(state: _SweepState) -> _SweepState:
        """Rotate all pairs of columns once."""
        rotated, largest_cosine = _rotate_column_pairs(xp, state.G)
        for _ in range(n_rounds - 1):
            rotated, next_cosine = _rotate_column_pairs(xp, rotated)
            largest_cosine = xp.maximum(largest_cosine, next_cosine)
        G = xp.where(state.active[..., None, None], rotated, state.G)
        active = state.active & (largest_cosine > tolerance)
        return _SweepState(G, active, state.n_sweeps + 1)

    def goes_on(state: _SweepState) -> Array:
        """Return whether a matrix has not converged and sweeps are left."""
        must_sweep = xp.any(state.active) | in_public_time()
        return must_sweep & (state.n_sweeps < _SWEEPS)

    all_active = xp.ones_like(G[..., 0, 0]) > 0
    return repeat_while(goes_on, sweep, _SweepState(G, all_active, 0)).G


def _rotate_column_pairs(xp: Any, G: Array) -> tuple[Array, Array]:
    """Make pairs of columns orthogonal, and rearrange the columns for the next round.

    There are 2k columns. Column i is paired with column 2k − 1 − i. Afterwards all
    columns but the first move on by one place, so other pairs meet in the next round.

    The permutation must bring every pair of columns together once in 2k − 1 rounds.

    Parameters
    ----------
    xp : namespace
        The array library.
    G : array, shape (..., m, 2k)
        The columns.

    Returns
    -------
    G : array, shape (..., m, 2k)
        The rotated columns in their new places.
    largest_cosine : array, shape (...)
        The largest cosine of an angle between paired columns before the rotation.
    """
    k = G.shape[-1] // 2
    # The column that takes each place in the next round: 0, 2k − 1, 1, 2, …, 2k − 2.
    next_places = np.concatenate([[0], [2 * k - 1], np.arange(1, 2 * k - 1)])
    move_on = xp.asarray(next_places, device=device(G))
    flip = xp.asarray(np.arange(k)[::-1].copy(), device=device(G))

    # A rotation makes the columns x and y of each pair orthogonal.
    x = G[..., :k]
    y = xp.take(G[..., k:], flip, axis=-1)
    x_square = xp.sum(x * x, axis=-2)
    y_square = xp.sum(y * y, axis=-2)
    product_xy = xp.sum(x * y, axis=-2)

    tan = _rotation_tangent(xp, y_square - x_square, product_xy)
    cos = (1 / xp.sqrt(1 + tan * tan))[..., None, :]
    tan = tan[..., None, :]

    # The cosine of the angle between the columns before the rotation.
    square_product = x_square * y_square
    nonzero_square_product = xp.where(
        square_product > 0, square_product, xp.ones_like(x_square)
    )
    cosines = xp.abs(product_xy) / xp.sqrt(nonzero_square_product)
    largest_cosine = xp.max(cosines, axis=-1)

    # Put the rotated columns into their places for the next round.
    new_x = cos * (x - tan * y)
    new_y = cos * (y + tan * x)
    columns = xp.concat([new_x, xp.take(new_y, flip, axis=-1)], axis=-1)
    return xp.take(columns, move_on, axis=-1), largest_cosine


def _rotation_tangent(xp: Any, gap: Array, product: Array) -> Array:
    """Return the tangent of the angle by which a Jacobi rotation turns two columns.

    The rotated columns are orthogonal. The tangent t is the smaller root of
    t² + t·gap/product = 1, and 0 for two columns of zeros. It is computed without
    gap/product, which may be infinite.

    Parameters
    ----------
    xp : namespace
        The array library.
    gap : array
        |y|² − |x|² for columns x and y.
    product : array
        ⟨x, y⟩.

    Returns
    -------
    array
        The tangents.
    """
    denominator = xp.abs(gap) + xp.sqrt(gap * gap + 4 * product * product)
    numerator = 2 * xp.where(gap < 0, -product, product)
    is_nonzero = denominator > 0
    return numerator / xp.where(is_nonzero, denominator, xp.ones_like(denominator))


def condition_bound(L: Array) -> Array:
    """Return an upper bound on the condition number of LLᵀ; 1 for multiples of I.

    Where it is large, the careful path replaces the plain one. It is
    ‖L‖₁·‖L‖_∞·‖L⁻¹‖₁·‖L⁻¹‖_∞, because ‖L‖² <= ‖L‖₁·‖L‖_∞ and the same holds for L⁻¹.

    Parameters
    ----------
    L : array, shape (..., m, m)
        Lower triangular matrices.

    Returns
    -------
    array, shape (...)
        Numbers >= 1, which decide whether doubles are accurate enough.
    """
    xp = namespace(L)

    inverse = lower_solve(L, like(L, np.eye(L.shape[-1])))

    def largest_sum(A: Array, axis: int) -> Array:
        """Return ‖A‖₁ (axis −2) or ‖A‖_∞ (axis −1): the largest sum of moduli."""
        return xp.max(xp.sum(xp.abs(A), axis=axis), axis=-1)

    return (
        largest_sum(L, -2)
        * largest_sum(L, -1)
        * largest_sum(inverse, -2)
        * largest_sum(inverse, -1)
    )


def _replace_doubtful_results(
    doubtful: Array,
    plain: tuple[Array, ...],
    careful: Callable[..., tuple[Array, ...]],
    *args: Array,
) -> Any:
    """Return the plain results, with careful ones in place of those that are doubtful.

    The careful path computes in twice the working precision. A result depends on its own
    matrix alone, whatever the other matrices of the batch are.

    Parameters
    ----------
    doubtful : array of bool
        Whether a matrix needs the careful path, for each matrix of the batch.
    plain : tuple of arrays
        The results of the plain path, for all matrices.
    careful : callable
        The careful path, as a function of matrices. NumPy calls it for the doubtful
        matrices alone; other libraries, and public time, for all of them.
    *args : array
        The matrices.

    Returns
    -------
    tuple of arrays
        The results, of the shapes of `plain`.
    """
    xp = namespace(*args)
    batch = doubtful.shape
    args = tuple(xp.broadcast_to(a, (*batch, *a.shape[-2:])) for a in args)

    def merge(careful_results: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return careful results, computed for all matrices, where doubtful."""
        return _choose_results(doubtful, careful_results, plain)

    # JAX compiles both paths, and runs the careful one if any matrix is doubtful.
    if is_jax_namespace(xp):
        if args[0].shape[-1] > _LARGEST_COMPILED:
            return plain
        import jax

        return jax.lax.cond(
            xp.any(doubtful), lambda a: merge(careful(*a)), lambda a: plain, args
        )

    # Other libraries compute none or all of the matrices in twice the working
    # precision.
    if not in_public_time() and not bool(xp.any(doubtful)):
        return plain
    if in_public_time() or not is_numpy_array(doubtful) or batch == ():
        return merge(careful(*args))

    # NumPy computes the doubtful ones alone.
    results = careful(*(a[doubtful] for a in args))
    merged = tuple(np.array(old) for old in plain)
    for array, careful_part in zip(merged, results, strict=True):
        array[doubtful] = careful_part
    return merged


def _choose_results(
    doubtful: Array, careful: tuple[Array, ...], plain: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Return the careful results where a matrix is doubtful, and plain ones elsewhere.

    `_replace_doubtful_results` calls it if both were computed for all matrices.

    Parameters
    ----------
    doubtful : array of bool
        The choice for each matrix of the batch.
    careful, plain : tuples of arrays
        The results of both paths, for all matrices.

    Returns
    -------
    tuple of arrays
        The chosen results.
    """
    xp = namespace(doubtful)
    chosen = []
    for careful_result, plain_result in zip(careful, plain, strict=True):
        # The mask of the batch, with an axis of length 1 for each further axis.
        n_further_axes = careful_result.ndim - doubtful.ndim
        mask = xp.reshape(doubtful, doubtful.shape + (1,) * n_further_axes)
        chosen.append(xp.where(mask, careful_result, plain_result))
    return tuple(chosen)


@compiled
def cholesky_and_whitened(p: Array, v: Array) -> tuple[Array, Array]:
    """Return the Cholesky factor L of p, and the whitened matrix L⁻¹vL⁻ᵀ.

    Matrices p with a large condition number are handled in twice the precision.

    Parameters
    ----------
    p : array, shape (..., m, m)
        SPD matrices.
    v : array, shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    L : array, shape (..., m, m)
        The Cholesky factor of p.
    W : array, shape (..., m, m)
        The whitened matrix.
    """

    def in_double_double(p: Array, v: Array) -> tuple[Array, Array]:
        """Return L and L⁻¹vL⁻ᵀ, computed in twice the working precision and rounded."""
        factor = _accurate_cholesky(p)
        W = _accurate_whitening(factor, v)
        return factor.high, sym(W.high + W.low)

    xp = namespace(p, v)
    L = cholesky(p)
    W = whiten(L, v)
    doubtful = xp.broadcast_to(
        condition_bound(L) > _LARGEST_PLAIN_CONDITION, W.shape[:-2]
    )
    L, W = _replace_doubtful_results(
        doubtful, (xp.broadcast_to(L, W.shape), W), in_double_double, p, v
    )
    return L, W


def log_spectrum(p: Array, q: Array) -> tuple[Array, Array, Array]:
    """Return the logarithms of the eigenvalues of the pencil (p, q), with eigenvectors.

    With p = LLᵀ, these are the eigenvalues of L⁻¹qL⁻ᵀ. Affine-invariant distances and
    logarithms depend on them. A 3×3 NumPy matrix takes the same path alone as in a
    batch: its result must not depend on how many others are beside it.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        SPD matrices.

    Returns
    -------
    L : array, shape (..., m, m)
        The Cholesky factor of p.
    logs : array, shape (..., m)
        The log-eigenvalues of L⁻¹qL⁻ᵀ = U·exp(diag(logs))·Uᵀ.
    U : array, shape (..., m, m)
        Its eigenvectors.
    """
    are_tensors = _are_float64_tensors(p) and _are_float64_tensors(q)
    if are_tensors and not in_public_time():
        return _log_spectrum_of_tensors(p, q)
    return _log_spectrum(p, q)


def _are_float64_tensors(A: Array) -> bool:
    """Return whether these are 3×3 matrices in a NumPy array of doubles."""
    return bool(is_numpy_array(A) and A.dtype == np.float64 and A.shape[-1] == 3)


def _log_spectrum_of_tensors(
    p: np.ndarray, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `log_spectrum` of 3×3 NumPy matrices, by closed forms where they suffice.

    With p = LLᵀ, it consists of the eigenvalues of L⁻¹qL⁻ᵀ and the eigenvectors. The
    matrices for which the closed form is not accurate are computed in twice the working
    precision.

    Parameters
    ----------
    p, q : array, shape (..., 3, 3)
        SPD matrices, float64.

    Returns
    -------
    L : array, shape (..., 3, 3)
        The Cholesky factor of p.
    logs : array, shape (..., 3)
        The logarithms of the eigenvalues.
    U : array, shape (..., 3, 3)
        The eigenvectors, as columns.
    """
    batch = np.broadcast_shapes(p.shape[:-2], q.shape[:-2])
    flat_p = _flatten_batch(p, batch)
    flat_q = _flatten_batch(q, batch)

    # Use the closed forms, and find out where they are not accurate.
    L, logs, U, is_doubtful = log_spectrum3(flat_p, flat_q)
    if is_doubtful.any():
        rows = np.flatnonzero(is_doubtful)
        all_pairs = (len(is_doubtful), 3, 3)
        doubtful_p = np.broadcast_to(flat_p, all_pairs)[rows]
        doubtful_q = np.broadcast_to(flat_q, all_pairs)[rows]

        doubtful_q, log_scale = match_scale(doubtful_p, doubtful_q)
        L[rows], logs[rows], U[rows] = _accurate_log_spectrum(doubtful_p, doubtful_q)
        logs[rows] += log_scale[:, None]
    return L.reshape(*batch, 3, 3), logs.reshape(*batch, 3), U.reshape(*batch, 3, 3)


def _flatten_batch(A: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """Return 3×3 matrices along one batch axis; a single matrix is not copied.

    Parameters
    ----------
    A : array, shape (..., 3, 3)
        Matrices.
    batch : tuple of int
        The batch shape to which they are broadcast.

    Returns
    -------
    array, shape (n, 3, 3)
        The matrices; n is 1 for a single matrix, else the size of the batch.
    """
    if A.ndim == 2:
        return A[None]
    return np.broadcast_to(A, (*batch, 3, 3)).reshape(-1, 3, 3)


@compiled
def _log_spectrum(p: Array, q: Array) -> tuple[Array, Array, Array]:
    """Return `log_spectrum` of matrices of any size on any array library.

    With p = LLᵀ, it consists of the log-eigenvalues of L⁻¹qL⁻ᵀ and the eigenvectors.
    The plain path takes log(1 + mu) for the eigenvalues mu of L⁻¹(q − p)L⁻ᵀ: the
    difference q − p holds the digits of near points. Matrices for which the product of
    condition numbers is above `_LARGEST_PLAIN_CONDITION` are computed again in twice
    the working precision. Both paths work on q in the units of p; the logarithm of the
    factor between the units is added at the end.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        SPD matrices.

    Returns
    -------
    L : array, shape (..., m, m)
        The Cholesky factor of p.
    logs : array, shape (..., m)
        The logarithms of the eigenvalues; NaN where there is none.
    U : array, shape (..., m, m)
        The eigenvectors, as columns.
    """
    xp = namespace(p, q)
    L = cholesky(p)
    q, log_scale = match_scale(p, q)
    mu, U = eigh(whiten(L, q - p))
    is_positive = mu > -1
    safe_mu = xp.where(is_positive, mu, xp.zeros_like(mu))
    logs = xp.where(is_positive, xp.log1p(safe_mu), xp.nan)

    # Where the plain path is not accurate enough, results of the careful path. Written
    # so that NaN and a negative eigenvalue are doubtful.
    smallest = xp.min(1 + mu, axis=-1)
    largest = xp.max(1 + mu, axis=-1)
    doubtful = ~(condition_bound(L) * largest <= _LARGEST_PLAIN_CONDITION * smallest)
    L, logs, U = _replace_doubtful_results(
        doubtful, (xp.broadcast_to(L, U.shape), logs, U), _accurate_log_spectrum, p, q
    )
    return L, logs + log_scale[..., None], U


def match_scale(p: Array, q: Array) -> tuple[Array, Array]:
    """Divide q by the power of two that brings its trace closest to the trace of p.

    If p and q were in different units, q − p would lose the digits of one of them.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        SPD matrices. A trace that is not positive and finite leaves q as it is.

    Returns
    -------
    scaled : array, shape (..., m, m)
        q/2^k.
    log_scale : array, shape (...)
        k·log 2, which belongs to the log-eigenvalues of q.
    """
    xp = namespace(p, q)
    q_trace = xp.linalg.trace(q)
    p_trace = xp.linalg.trace(p)

    # k, the power of two.
    is_positive = (q_trace > 0) & (p_trace > 0)
    has_ratio = is_positive & (q_trace < xp.inf) & (p_trace < xp.inf)
    q_exponent = xp.log2(xp.where(has_ratio, q_trace, 1.0))
    p_exponent = xp.log2(xp.where(has_ratio, p_trace, 1.0))
    power = xp.round(q_exponent - p_exponent)
    # 2^−power itself may be no double, so that q is multiplied by two factors.
    half_power = xp.round(power / 2)
    first_factor = (2.0**-half_power)[..., None, None]
    second_factor = (2.0 ** (half_power - power))[..., None, None]
    return q * first_factor * second_factor, power * log(2.0)


def _accurate_log_spectrum(p: Array, q: Array) -> tuple[Array, Array, Array]:
    """Return `log_spectrum` computed in twice the working precision: the careful path.

    With p = LLᵀ, A = L⁻¹qL⁻ᵀ. Near matrices, for which every eigenvalue of A is within
    ¼ of 1, take log(1 + mu) for the eigenvalues mu of L⁻¹(q − p)L⁻ᵀ. Far ones take the
    singular values of a pivoted Cholesky factor of A, by one-sided Jacobi rotations.

    tests/geometry/test_spd.py compares the logarithms with high-precision arithmetic.

    Parameters
    ----------
    p, q : array, shape (..., m, m)
        SPD matrices of about the same scale.

    Returns
    -------
    L : array, shape (..., m, m)
        The Cholesky factor of p, rounded to doubles.
    logs : array, shape (..., m)
        The logarithms of the eigenvalues.
    U : array, shape (..., m, m)
        The eigenvectors, as columns.
    """
    xp = namespace(p, q)
    # Near matrices: the eigenvalues of the whitened difference.
    L = _accurate_cholesky(p)
    whitened_difference = _accurate_whitening(L, q - p)
    mu, near_vectors = eigh(sym(whitened_difference.high + whitened_difference.low))

    # Far matrices: the squared singular values of a factor of A.
    A = _accurate_whitening(L, q)
    far_logs, far_vectors = _one_sided_jacobi(xp, _accurate_pivoted_cholesky(A))

    # Choose for each matrix.
    is_near = (xp.max(xp.abs(mu), axis=-1) < 0.25)[..., None]
    near_logs = xp.log1p(xp.where(is_near, mu, xp.zeros_like(mu)))
    return (
        L.high,
        xp.where(is_near, near_logs, far_logs),
        xp.where(is_near[..., None], near_vectors, far_vectors),
    )
