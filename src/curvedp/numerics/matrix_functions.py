"""Matrix functions, such as the logarithm of a symmetric matrix, with first derivatives
that hold where eigenvalues repeat. All functions take batches: matrices lie along the
last two axes. Derivatives are made of divided differences (f(λ) − f(μ))/(λ − μ) of f at
pairs of eigenvalues.

Theorem (Daleckii and Krein 1965). Let S = U·diag(λ)·Uᵀ be symmetric. The derivative of
a matrix function f at S in the direction E is U (K ⊙ UᵀEU) Uᵀ, with the divided
differences K_rs = f[λr, λs] = (f(λr) − f(λs))/(λr − λs), and f′(λr) where they are
equal.

A finite difference has the same form. For A = U·diag(α)·Uᵀ and B = V·diag(β)·Vᵀ,

    f(B) − f(A) = U (K ⊙ Uᵀ(B−A)V) Vᵀ,      K_rs = f[αr, βs],

which keeps every digit of a small B − A. Divided differences are written here without
cancellation.

Eigenvectors have no derivative where eigenvalues repeat. Where a library
differentiates, they are therefore computed from a constant copy A₀ of A, and a term of
value zero carries the derivative: f(A) = f(A₀) + Df(A₀)[A − A₀].

Cholesky factors and triangular solves are loops over the columns or rows of the
matrices, with Array-API operations on the whole batch: a matrix that is not positive
definite gives NaN, never an exception. JAX has its own, which also give NaN and which
compile in one piece.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device, is_jax_namespace

from curvedp.numerics.arrays import Array, like, namespace
from curvedp.numerics.autodiff import constant, custom_jvp, differentiable
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import column_and_row, safe_sqrt


def norm(v: Array) -> Array:
    """Return the Frobenius norm √tr(vᵀv) of matrices, without overflow or underflow.

    NaN stays NaN, and the derivative at 0 is taken to be 0.

    Parameters
    ----------
    v : array of shape (..., m, m)
        Matrices.

    Returns
    -------
    array, shape (...)
        One norm for each matrix.
    """
    xp = namespace(v)
    # Divided by its largest entry, a matrix has squares that are representable.
    largest = constant(xp.max(xp.abs(v), axis=(-2, -1), keepdims=True))
    scale = xp.where(largest == 0, 1.0, largest)
    unit = v / scale
    return safe_sqrt(xp, xp.sum(unit * unit, axis=(-2, -1))) * scale[..., 0, 0]


def skew(x: Array) -> Array:
    """Return the skew-symmetric part (x − xᵀ)/2 of square matrices."""
    return (x - x.mT) / 2


def sinc(xp: Any, x: Array) -> Array:
    """Return sin(x)/x elementwise, and 1 at 0, without a division by 0."""
    is_zero = x == 0
    nonzero = xp.where(is_zero, 1.0, x)
    return xp.where(is_zero, 1.0, xp.sin(nonzero) / nonzero)


def svd(x: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition (U, s, Vᵀ) of x = U·diag(s)·Vᵀ.

    A matrix that is not finite gives NaN; LAPACK would raise, and an exception that
    depends on a record would reveal something about it.

    Parameters
    ----------
    x : array of shape (..., m, n)
        Matrices; ℓ is the smaller of m and n.

    Returns
    -------
    U : array, shape (..., m, ℓ)
        The left singular vectors, as columns.
    s : array, shape (..., ℓ)
        The singular values, descending.
    Vh : array, shape (..., ℓ, n)
        The right singular vectors, as rows.
    """
    xp = namespace(x)
    x, is_finite = _replace_nonfinite(xp, x)
    U, s, Vh = xp.linalg.svd(x, full_matrices=False)
    return (
        xp.where(is_finite, U, xp.nan),
        xp.where(is_finite[..., 0], s, xp.nan),
        xp.where(is_finite, Vh, xp.nan),
    )


def well_scaled(x: Array) -> Array:
    """Return matrices divided by their largest absolute entry; 0 stays 0.

    Squares of the entries then neither overflow nor all vanish.

    Parameters
    ----------
    x : array of shape (..., m, n)
        Matrices.

    Returns
    -------
    array of shape (..., m, n)
        Matrices with entries from −1 to 1.
    """
    xp = namespace(x)
    largest = xp.max(xp.abs(x), axis=(-2, -1), keepdims=True)
    return x / xp.where(largest > 0, largest, 1.0)


def det(x: Array) -> Array:
    """Return determinants; NaN, without a warning, for a matrix that is not finite."""
    xp = namespace(x)
    x, is_finite = _replace_nonfinite(xp, x)
    return xp.where(is_finite[..., 0, 0], xp.linalg.det(x), xp.nan)


def skew_eigen(W: Array) -> tuple[Array, Array]:
    """Return the eigen-system of skew-symmetric matrices.

    The exponential of a skew matrix is a rotation, and is computed from this system.

    Parameters
    ----------
    W : array, shape (..., n, n)
        Skew-symmetric matrices.

    Returns
    -------
    w : array, shape (..., n)
        Real numbers: the eigenvalues are iw. NaN for a matrix that is not finite.
    Z : complex array, shape (..., n, n)
        Unitary matrices with W = Z·diag(iw)·Z*.
    """
    xp = namespace(W)
    W, is_finite = _replace_nonfinite(xp, W)

    # −iW is Hermitian, with the real eigenvalues w.
    complex_type = xp.complex64 if W.dtype == xp.float32 else xp.complex128
    w, Z = xp.linalg.eigh(xp.astype(W, complex_type) * -1j)
    return xp.where(is_finite[..., 0], w, xp.nan), Z


def _replace_nonfinite(xp: Any, x: Array) -> tuple[Array, Array]:
    """Return matrices with 0 in place of those that are not finite, and which are.

    LAPACK raises on NaN. Callers decompose the first result, and put NaN where the
    second one is False.

    Parameters
    ----------
    xp : module
        The array library of x.
    x : array of shape (..., m, n)
        Matrices.

    Returns
    -------
    x : array of shape (..., m, n)
        The finite matrices; 0 in place of the others.
    is_finite : array of bool, shape (..., 1, 1)
        Whether a matrix was finite, for each matrix.
    """
    is_finite = xp.all(xp.isfinite(x), axis=(-2, -1), keepdims=True)
    return xp.where(is_finite, x, 0.0), is_finite


def sym_function(
    A: Array, U: Array, values: Array, divided_differences: Callable[[], Array]
) -> Array:
    """Return f(A) for symmetric A, with its derivative.

    The caller has computed the eigenvectors U of A. The derivative in the direction E
    is U(K ⊙ UᵀEU)Uᵀ, with the divided differences K (Daleckii and Krein 1965). This
    expression is added to f(A) with E = A − (a constant copy of A). It has the value 0,
    and a library that differentiates it finds the derivative of f(A).

    Parameters
    ----------
    A : array, shape (..., m, m)
        Symmetric matrices.
    U : array, shape (..., m, m)
        Their eigenvectors, a constant.
    values : array, shape (..., m)
        The values of f at the eigenvalues.
    divided_differences : callable
        Returns K, the divided differences of f at pairs of eigenvalues, of shape
        (..., m, m). It is called only if derivatives may be asked for.

    Returns
    -------
    array, shape (..., m, m)
        f(A) = U·diag(values)·Uᵀ.
    """
    value = from_spectrum(values, U)
    if not differentiable(A):
        return value
    E = A - constant(A)  # 0, but it carries the derivative
    return value + U @ (divided_differences() * (U.mT @ E @ U)) @ U.mT


def polar(C: Array) -> tuple[Array, Array, Array]:
    """Return the polar decomposition C = (U·diag(c)·Uᵀ)·W of a square matrix.

    If singular values vanish, W is one of several possible factors, always the same
    one. Its derivative is dW = UΩVᵀ, where Ω solves Ωᵢⱼ(cᵢ + cⱼ) = Xᵢⱼ − Xⱼᵢ with X =
    UᵀdC·V (Higham 2008, §8.2).

    Parameters
    ----------
    C : array, shape (..., n, n)
        Square matrices.

    Returns
    -------
    W : array
        The orthogonal factor.
    c : array, shape (..., n)
        The singular values, descending, as constants for differentiation.
    U : array, shape (..., n, n)
        The left singular vectors, as constants for differentiation.
    """
    xp = namespace(C)
    base = constant(C)
    U, c, Vh = svd(base)
    W = U @ Vh
    if not differentiable(C):
        return W, c, U

    # dW = UΩVᵀ, for the change C − base of value 0.
    X = U.mT @ (C - base) @ Vh.mT
    column, row = column_and_row(c, c)
    total = column + row
    is_positive = total > 0
    omega = (X - X.mT) / xp.where(is_positive, total, 1.0)
    omega = xp.where(is_positive, omega, 0.0)
    return W + U @ omega @ Vh, c, U


def skew_exp(W: Array) -> tuple[Array, Array]:
    """Return exp W − I and φ₁(W) for skew-symmetric W, where φ₁(z) = (e^z − 1)/z.

    They come from the eigen-system of the Hermitian matrix −iW. Its eigenvectors are
    unitary, so that exp W is orthogonal to roundoff however large W is, and exp W − I
    keeps the digits of a small W. exp has its derivative, by divided differences; φ₁ is
    a constant for differentiation.

    Parameters
    ----------
    W : array of shape (..., m, m)
        Skew-symmetric matrices.

    Returns
    -------
    value : array, shape (..., m, m)
        exp W − I.
    mean : array, shape (..., m, m)
        φ₁(W), which is also the mean of exp(tW) over t in [0, 1].
    """
    xp = namespace(W)
    base = constant(W)
    angles, eigenvectors = skew_eigen(base)
    value, mean = skew_exp_eigen(angles, eigenvectors)
    if differentiable(W):
        # The divided differences of e^z at iθ and iφ: e^{i(θ+φ)/2}·sinc((θ−φ)/2).
        half = angles / 2
        half_phase = phase(xp, half, eigenvectors.dtype)
        phase_column, phase_row = column_and_row(half_phase, half_phase)
        column, row = column_and_row(half, half)
        sincs = xp.astype(sinc(xp, column - row), eigenvectors.dtype)
        factors = phase_column * phase_row * sincs
        value = value + divided_difference_map(factors, eigenvectors, W - base)
    return value, mean


def divided_difference_map(K: Array, Z: Array, G: Array) -> Array:
    """Return the derivative of a matrix function in a direction G.

    Theorem (Daleckii and Krein 1965). For a matrix with the unitary eigenvectors Z, the
    derivative is Re Z(K ⊙ Z*GZ)Z*, where K are the divided differences of the function
    at pairs of eigenvalues and ⊙ multiplies entry by entry.

    Parameters
    ----------
    K : array, shape (..., n, n)
        The divided differences.
    Z : complex array, shape (..., n, n)
        The unitary matrix of eigenvectors.
    G : array, shape (..., n, n)
        The direction of the derivative.

    Returns
    -------
    array, shape (..., n, n)
        The change of the matrix function to first order.
    """
    xp = namespace(Z)
    Z_adjoint = xp.conj(Z).mT
    in_eigenbasis = Z_adjoint @ xp.astype(G, Z.dtype) @ Z
    return xp.real(Z @ (K * in_eigenbasis) @ Z_adjoint)


def skew_exp_eigen(w: Array, Z: Array) -> tuple[Array, Array]:
    """Return exp W − I and φ₁(W) as `skew_exp` does, from the eigen-system of W.

    Call it directly if the eigen-system is known already.

    Parameters
    ----------
    w : array, shape (..., m)
        The angles: W has the eigenvalues i·w.
    Z : complex array, shape (..., m, m)
        The unitary matrix of eigenvectors.

    Returns
    -------
    value : array, shape (..., m, m)
        exp W − I.
    mean : array, shape (..., m, m)
        φ₁(W) with φ₁(z) = (e^z − 1)/z, which is the mean of exp(tW) over t in [0, 1].
    """
    xp = namespace(w, Z)
    # φ₁(iw) = e^{iw/2}·sinc(w/2), and e^{iw} − 1 = iw·φ₁(iw): nothing cancels.
    half = w / 2
    Z_adjoint = xp.conj(Z).mT
    phi1 = phase(xp, half, Z.dtype) * xp.astype(sinc(xp, half), Z.dtype)
    exp_minus_one = phi1 * xp.astype(w, Z.dtype) * 1j
    value = xp.real(scale_columns(Z, exp_minus_one) @ Z_adjoint)
    mean = xp.real(scale_columns(Z, phi1) @ Z_adjoint)
    return value, mean


def phase(xp: Any, w: Array, complex_type: Any) -> Array:
    """Return e^{iw} for real angles w, elementwise.

    Parameters
    ----------
    xp : module
        The array library.
    w : array
        The angles.
    complex_type : dtype
        The complex type of the result, which the Array API does not derive from w.

    Returns
    -------
    array of complex
        Numbers of modulus 1, of the shape of `w`.
    """
    return xp.astype(xp.cos(w), complex_type) + 1j * xp.astype(xp.sin(w), complex_type)


def reflect(p: Array, x: Array) -> Array:
    """Return Hx for the block reflector H of an orthonormal frame p.

    It maps coordinates to tangent vectors that are orthogonal to the frame, and back,
    without an orthonormal basis of the complement of p. The method of Schreiber and
    Parlett (1988) takes O(mr²) operations for an m×r frame. Let E be the first r
    columns of the identity, W the polar factor of the top r×r block of p, and
    Y = pWᵀ + E. Then H = I − Y(I + EᵀpWᵀ)⁻¹Yᵀ is symmetric and orthogonal and sends E
    to −pWᵀ. So it maps the complement of span E to the complement of span p. The matrix
    that is inverted has its eigenvalues in [1, 2], so that nothing cancels.

    Parameters
    ----------
    p : array, shape (..., m, r)
        The orthonormal frame.
    x : array, shape (..., m, n)
        The matrices that are reflected, column by column.

    Returns
    -------
    array, shape (..., m, n)
        Hx. Applying H twice gives x back.
    """
    xp = namespace(p, x)
    m, r = p.shape[-2:]
    W, _, _ = polar(p[..., :r, :])
    Y = p @ W.mT + like(p, np.eye(m, r))

    # Hx. The top block of Y is I + EᵀpWᵀ, symmetric up to roundoff.
    top = Y[..., :r, :]
    return x - Y @ xp.linalg.solve((top + top.mT) / 2, Y.mT @ x)


def symmetric_from_triangle(z: Array, factor: np.ndarray, k: int = -1) -> Array:
    """Return symmetric or skew matrices with given entries of the lower triangle.

    It turns coordinates of such a matrix into the matrix; `lower_triangle` is the
    inverse.

    Parameters
    ----------
    z : array, shape (..., number of entries)
        The entries below the diagonal (with k = 0 also on it), row by row.
    factor : array, shape (n, n)
        Weights that multiply the matrix entry by entry; 0 on a diagonal that z has no
        entries for, and of opposite signs above and below for a skew matrix.
    k : int
        −1 to leave the diagonal out, 0 to include it.

    Returns
    -------
    array, shape (..., n, n)
        The matrices.
    """
    xp = namespace(z)
    n = len(factor)
    # The position in z of each matrix entry; above the diagonal, that of its mirror
    # image. Entries that z does not have get position 0 and the factor 0.
    position = np.zeros((n, n), dtype=np.int64)
    position[np.tril_indices(n, k)] = np.arange(n * (n + 1 + 2 * k) // 2)
    position = np.maximum(position, position.T)

    entries = xp.take(z, xp.asarray(position.ravel(), device=device(z)), axis=-1)
    return xp.reshape(entries, (*z.shape[:-1], n, n)) * like(z, factor)


def lower_triangle(A: Array, k: int = -1) -> Array:
    """Return the entries below the diagonal, row by row.

    They are the coordinates of a symmetric or skew matrix, up to factors.

    Parameters
    ----------
    A : array, shape (..., n, n)
        Square matrices.
    k : int
        −1 to leave the diagonal out, 0 to include it.

    Returns
    -------
    array, shape (..., number of entries)
        The entries, from which `symmetric_from_triangle` builds the matrices again.
    """
    xp = namespace(A)
    n = A.shape[-1]
    flat = xp.asarray(np.flatnonzero(np.tri(n, k=k)), device=device(A))
    return xp.take(xp.reshape(A, (*A.shape[:-2], n * n)), flat, axis=-1)


def skew_from_vector(z: Array, n: int) -> Array:
    """Return skew-symmetric n×n matrices with given entries below the diagonal.

    It turns coordinates of a tangent vector of the rotations into a matrix.

    Parameters
    ----------
    z : array, shape (..., n(n−1)/2)
        The entries, row by row.
    n : int
        The number of rows.

    Returns
    -------
    array, shape (..., n, n)
        The matrices; for n = 1 they are 0.
    """
    lower = np.tri(n, k=-1)
    if n == 1:
        return like(z, np.zeros((*z.shape[:-1], 1, 1)))
    return symmetric_from_triangle(z, lower - lower.T)


def skew_to_vector(A: Array) -> Array:
    """Return the entries below the diagonal of the skew part of A, row by row.

    Parameters
    ----------
    A : array, shape (..., n, n)
        Square matrices.

    Returns
    -------
    array, shape (..., n(n−1)/2)
        The entries; `skew_from_vector` makes the skew part of them.
    """
    return lower_triangle(skew(A)) if A.shape[-1] > 1 else A[..., 0, :0]


def sym(A: Array) -> Array:
    """Return the symmetric part (A + Aᵀ)/2 of square matrices."""
    return 0.5 * (A + A.mT)


def scale_columns(A: Array, factors: Array) -> Array:
    """Return A·diag(factors): matrices with each column multiplied by its own factor.

    Parameters
    ----------
    A : array, shape (..., m, n)
        Matrices.
    factors : array, shape (..., n)
        One factor for each column.

    Returns
    -------
    array, shape (..., m, n)
        The scaled matrices.
    """
    return A * factors[..., None, :]


def from_spectrum(eigenvalues: Array, U: Array) -> Array:
    """Return U·diag(eigenvalues)·Uᵀ, the matrices with given eigenvalues and vectors.

    Parameters
    ----------
    eigenvalues : array, shape (..., n)
        The eigenvalues.
    U : array, shape (..., m, n)
        The eigenvectors, as columns, or any other matrices.

    Returns
    -------
    array, shape (..., m, m)
        Matrices that are symmetric up to round-off.
    """
    return scale_columns(U, eigenvalues) @ U.mT


def sandwich(U: Array, S: Array, V: Array | None = None) -> Array:
    """Return U·S·Vᵀ for batches of matrices, with V = U if it is left out."""
    return U @ S @ (U if V is None else V).mT


def log_divided_difference(x: Array, y: Array) -> Array:
    """Return the divided difference log[x, y] = (log x − log y)/(x − y) for x, y > 0.

    The derivative of the matrix logarithm consists of such numbers. The difference is
    computed as log1p(t)/(t·min), where min is the smaller of x and y, and
    t = |x − y|/min, without cancellation. At x = y it is the derivative 1/x.

    Parameters
    ----------
    x, y : arrays
        Positive numbers.

    Returns
    -------
    array
        The quotients, all positive; NaN where x or y is not positive.
    """
    xp = namespace(x, y)
    x, y = xp.broadcast_arrays(x, y)
    smaller = xp.where(x < y, x, y)
    smaller = xp.where(smaller > 0, smaller, xp.nan)
    t = xp.abs(x - y) / smaller
    nonzero_t = xp.where(t == 0, 1.0, t)
    return xp.where(t == 0, 1.0, xp.log1p(nonzero_t) / nonzero_t) / smaller


def exp_divided_difference(x: Array, y: Array) -> Array:
    """Return the divided difference exp[x, y] = (e^x − e^y)/(x − y), and e^x at x = y.

    The derivative of the matrix exponential consists of such numbers. The difference is
    computed as e^max·(1 − e^−t)/t, where max is the larger of x and y, and t = |x − y|.
    This overflows only where the result does.

    Parameters
    ----------
    x, y : arrays
        Real numbers.

    Returns
    -------
    array
        The quotients, all positive.
    """
    xp = namespace(x, y)
    x, y = xp.broadcast_arrays(x, y)
    t = xp.abs(x - y)
    nonzero_t = xp.where(t == 0, 1.0, t)
    larger = xp.where(x < y, y, x)
    mean_decay = xp.where(t == 0, 1.0, -xp.expm1(-nonzero_t) / nonzero_t)
    return xp.exp(larger) * mean_decay


def apply_to_eigenvalues(
    S: Array,
    f: Callable[[Array], Array],
    divided_difference: Callable[[Array, Array], Array],
) -> Array:
    """Return the matrix function f(S) for symmetric S.

    First derivatives are exact at any S; second ones need simple eigenvalues.

    Parameters
    ----------
    S : array, shape (..., m, m)
        Symmetric matrices.
    f : callable
        The function of the eigenvalues.
    divided_difference : callable
        The function (f(x) − f(y))/(x − y) of x and y, which is f′(x) at x = y.

    Returns
    -------
    array, shape (..., m, m)
        f(S) = U·diag(f(w))·Uᵀ, with the eigenvalues w and the eigenvectors U of S.
    """

    def value(S: Array) -> Array:
        """Return f(S) from the eigen-system of S."""
        w, U = eigh(S)
        return from_spectrum(f(w), U)

    def rule(arrays: tuple[Array], changes: tuple[Array]) -> tuple[Array, Array]:
        """Return f(S) and its change U(K ⊙ UᵀEU)Uᵀ for a change E of S, for JAX.

        K are the divided differences at pairs of eigenvalues, and U the eigenvectors.
        """
        w, U = eigh(*arrays)
        differences = divided_difference(*column_and_row(w, w))  # K
        change_in_eigenbasis = U.mT @ sym(*changes) @ U
        change = sandwich(U, differences * change_in_eigenbasis)
        return apply_to_eigenvalues(*arrays, f, divided_difference), change

    return custom_jvp(value, rule, S)


def exp_sym(S: Array) -> Array:
    """Return the matrix exponential of symmetric S."""
    return apply_to_eigenvalues(S, namespace(S).exp, exp_divided_difference)


def log_sym(S: Array) -> Array:
    """Return the matrix logarithm of symmetric positive definite S."""
    return apply_to_eigenvalues(S, namespace(S).log, log_divided_difference)


def log1p_sym(S: Array) -> Array:
    """Return log(I + S) for symmetric S > −I, with all digits of a small S."""
    return apply_to_eigenvalues(
        S, namespace(S).log1p, lambda x, y: log_divided_difference(1 + x, 1 + y)
    )


def sqrt_sym(S: Array) -> Array:
    """Return the square root of symmetric positive definite S."""
    sqrt = namespace(S).sqrt
    return apply_to_eigenvalues(S, sqrt, lambda x, y: 1 / (sqrt(x) + sqrt(y)))


def cholesky(A: Array) -> Array:
    """Return the lower triangular L with LLᵀ = A.

    A matrix that is not positive definite gives NaN, never an exception: an exception
    that depends on a record would reveal something about it.

    Parameters
    ----------
    A : array of shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    array of shape (..., m, m)
        L, with a positive diagonal.
    """
    xp = namespace(A)
    if is_jax_namespace(xp):
        return xp.linalg.cholesky(A)
    m = A.shape[-1]
    index = xp.arange(m, device=device(A))
    # Column j of L is column j of the remaining matrix, divided by the root of its
    # diagonal entry (the pivot). Its product with itself is then subtracted.
    columns = []
    for j in range(m):
        pivot = A[..., j, j]
        is_positive = pivot > 0
        safe_pivot = xp.where(is_positive, pivot, 1.0)
        root = xp.where(is_positive, xp.sqrt(safe_pivot), xp.nan)
        column = xp.where(index >= j, A[..., :, j] / root[..., None], 0.0)
        columns.append(column)
        A = A - column[..., :, None] * column[..., None, :]
    return xp.stack(columns, axis=-1)


def lower_solve(L: Array, B: Array) -> Array:
    """Return L⁻¹B for lower triangular L, by forward substitution.

    Whitening by a Cholesky factor consists of two such solves.

    Parameters
    ----------
    L : array of shape (..., m, m)
        Lower triangular matrices.
    B : array of shape (..., m, n)
        Right-hand sides.

    Returns
    -------
    array of shape (..., m, n)
        The solutions X of LX = B.
    """
    xp = namespace(L, B)
    if is_jax_namespace(xp):
        return _jax_solve(xp, L, B, trans=0)
    rows: list[Array] = []
    for i in range(L.shape[-1]):
        b = B[..., i, :]
        for k, row in enumerate(rows):
            b = b - L[..., i, k, None] * row
        rows.append(b / L[..., i, i, None])
    return xp.stack(xp.broadcast_arrays(*rows), axis=-2)


def upper_solve(L: Array, B: Array) -> Array:
    """Return L⁻ᵀB for lower triangular L, by back substitution.

    Parameters
    ----------
    L : array of shape (..., m, m)
        Lower triangular matrices.
    B : array of shape (..., m, n)
        Right-hand sides.

    Returns
    -------
    array of shape (..., m, n)
        The solutions X of LᵀX = B.
    """
    xp = namespace(L, B)
    if is_jax_namespace(xp):
        return _jax_solve(xp, L, B, trans=1)
    # With rows and columns in reverse order, Lᵀ is lower triangular.
    reversed_L = xp.flip(L.mT, axis=(-2, -1))
    reversed_solution = lower_solve(reversed_L, xp.flip(B, axis=-2))
    return xp.flip(reversed_solution, axis=-2)


def _jax_solve(xp: Any, L: Array, B: Array, trans: int) -> Array:
    """Solve a triangular system by JAX, with the batches of L and B broadcast.

    Parameters
    ----------
    xp : namespace
        JAX's array namespace.
    L : array of shape (..., m, m)
        Lower triangular matrices.
    B : array of shape (..., m, n)
        Right-hand sides.
    trans : int
        0 for L⁻¹B, 1 for L⁻ᵀB.

    Returns
    -------
    array of shape (..., m, n)
        The solutions.
    """
    import jax

    batch = xp.broadcast_shapes(L.shape[:-2], B.shape[:-2])
    L = xp.broadcast_to(L, (*batch, *L.shape[-2:]))
    B = xp.broadcast_to(B, (*batch, *B.shape[-2:]))
    return jax.scipy.linalg.solve_triangular(L, B, trans=trans, lower=True)


def whiten(L: Array, S: Array) -> Array:
    """Return the whitened matrix L⁻¹SL⁻ᵀ, exactly symmetric.

    With the Cholesky factor L of an SPD matrix p = LLᵀ, it expresses a symmetric matrix
    S in a frame in which p is the identity.

    Parameters
    ----------
    L : array of shape (..., m, m)
        Lower triangular matrices.
    S : array of shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    array of shape (..., m, m)
        The whitened matrices.
    """
    W = lower_solve(L, lower_solve(L, S).mT)
    return 0.5 * (W + W.mT)


def cholesky_change(L: Array, v: Array) -> Array:
    """Return the first-order change of a Cholesky factor for a change of its matrix.

    The log-Cholesky metric measures velocities of SPD matrices by it. It is the lower
    triangular X with v = LXᵀ + XLᵀ: L times the lower triangle of L⁻¹vL⁻ᵀ with half of
    its diagonal (Lin 2019, Proposition 4).

    Parameters
    ----------
    L : array, shape (..., m, m)
        The Cholesky factor.
    v : array, shape (..., m, m)
        The change of LLᵀ, symmetric.

    Returns
    -------
    array, shape (..., m, m)
        The change X of L, lower triangular.
    """
    xp = namespace(L, v)
    A = whiten(L, v)
    index = xp.arange(A.shape[-1], device=device(A))
    return L @ xp.where(index[:, None] == index, 0.5 * A, xp.tril(A))


def cholesky_minus_identity(E: Array) -> Array:
    """Return the lower triangular F with (I + F)(I + F)ᵀ = I + E, for symmetric E.

    I + F is the Cholesky factor of I + E, and F says how far it is from I. The identity
    is never added, so that a small E keeps its digits.

    Parameters
    ----------
    E : array of shape (..., m, m)
        Symmetric matrices. NaN is returned where I + E is not positive definite.

    Returns
    -------
    array of shape (..., m, m)
        F, as accurate relative to E as E itself.
    """
    xp = namespace(E)
    m = E.shape[-1]
    index = xp.arange(m, device=device(E))
    columns = []
    for j in range(m):
        # √(1 + pivot) of the matrix I + E.
        pivot = E[..., j, j]
        is_positive = pivot > -1
        safe_pivot = xp.where(is_positive, pivot, 0.0)
        root = xp.where(is_positive, xp.sqrt(1 + safe_pivot), xp.nan)

        # The column of F: √(1 + pivot) − 1 on the diagonal, and the entries below.
        diagonal = (pivot / (1 + root))[..., None]
        below = xp.where(index > j, E[..., :, j] / root[..., None], 0.0)
        columns.append(xp.where(index == j, diagonal, below))
        E = E - below[..., :, None] * below[..., None, :]
    return xp.stack(columns, axis=-1)
