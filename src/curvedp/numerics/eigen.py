"""Eigenvalues and eigenvectors of many symmetric matrices at once, in closed form for
2×2 and 3×3. Each entry of the matrices is one array, with an element for each matrix.
For 3×3 matrices, the *separated* eigenvalue, which is farthest from the other two, is
computed first.

Larger matrices go to the array library's `eigh`. The closed forms are branch-free,
which makes them fast. Their backward error is a few units of round-off times ‖A‖, also
for repeated eigenvalues, like LAPACK's:

- 2×2: one Jacobi rotation;
- 3×3: of the traceless, scaled matrix B (eigenvalues 2cos φ, 2cos(φ ± 2π/3)) the
  eigenvalue farthest from the other two is a root x in [√3, 2] of x³ − 3x = 2r,
  r = |det B|/2, where the slope is at least 6: three Newton steps. Its eigenvector is a
  column of adj(B − xI) = (x−λ₂)(x−λ₃)vvᵀ, where the product is at least 3. What remains
  is 2×2. (After Eberly, "A robust eigensolver for 3×3 symmetric matrices"; the Newton
  steps replace acos, which loses half the digits at r = 1.)
"""

from functools import reduce
from typing import Any, NamedTuple

from curvedp.numerics.arrays import Array, namespace
from curvedp.numerics.autodiff import compiled, custom_jvp

Entries = tuple[Array, ...]
Vector3 = tuple[Array, Array, Array]

# The start √3 + r/3 − 0.0654·r² of Newton's method in `separated_root` has the value and
# the slope of the root at r = 0, and its value 2 at r = 1.
# tests/geometry/test_small_eigh.py checks eigenvalues to round-off.
_ROOT_OF_3 = 1.7320508075688772
_ONE_THIRD = 0.3333333333333333
_START_CURVATURE = 0.0653841409021
_NEWTON_STEPS = 3


@compiled
def eigh(A: Array) -> tuple[Array, Array]:
    """Return the eigenvalues and the orthonormal eigenvectors of symmetric matrices.

    Nearly every kernel on symmetric matrices calls it. For small matrices it is much
    faster than the eigensolver of an array library.

    Parameters
    ----------
    A : array, shape (..., m, m)
        Symmetric matrices, of which only the lower triangle is read. A matrix with a
        NaN or infinite entry gives NaN, never an exception.

    Returns
    -------
    eigenvalues : array, shape (..., m)
        The eigenvalues in ascending order.
    eigenvectors : array, shape (..., m, m)
        The eigenvectors, as columns.
    """
    eigenvalues, vectors = custom_jvp(_eigh, _eigh_with_change, A)
    return eigenvalues, vectors


def _eigh_with_change(
    arrays: tuple[Array], changes: tuple[Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the eigen-system of A and its first-order change, for JAX.

    A changes by dA. With the eigenvalues λ, the eigenvectors U and E = UᵀdA·U, λᵢ changes
    by Eᵢᵢ. Off the diagonal, E is divided by the gaps λⱼ − λᵢ, and U changes by U times
    the result. This is infinite where eigenvalues repeat.

    Parameters
    ----------
    arrays : tuple of one array
        A, symmetric matrices.
    changes : tuple of one array
        dA, symmetric.

    Returns
    -------
    values : tuple of two arrays
        The eigenvalues and the eigenvectors.
    value_changes : tuple of two arrays
        Their changes.
    """
    (A,) = arrays
    (dA,) = changes
    xp = namespace(A)
    eigenvalues, vectors = _eigh(A)
    change_in_eigenbasis = vectors.mT @ dA @ vectors
    differences = eigenvalues[..., None, :] - eigenvalues[..., :, None]
    is_diagonal = xp.eye(A.shape[-1], dtype=bool)
    gap = xp.where(is_diagonal, xp.inf, differences)
    value_change = xp.linalg.diagonal(change_in_eigenbasis)
    vector_change = vectors @ (change_in_eigenbasis / gap)
    return (eigenvalues, vectors), (value_change, vector_change)


def _eigh(A: Array) -> tuple[Array, Array]:
    """Return the eigen-system of symmetric matrices, without a derivative of its own.

    `eigh` adds the derivative.

    Parameters
    ----------
    A : array of shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    eigenvalues : array, shape (..., m)
        The eigenvalues in ascending order.
    eigenvectors : array, shape (..., m, m)
        The eigenvectors, as columns.
    """
    xp = namespace(A)
    m = A.shape[-1]

    if m > 3:
        return _library_eigh(xp, A)
    if m == 1:
        return A[..., 0], xp.ones_like(A)

    # 2×2 and 3×3 matrices have closed forms.
    if m == 2:
        system = _eigh2(xp, A[..., 0, 0], A[..., 1, 0], A[..., 1, 1])
        values: Entries = (system.low, system.high)
        vector_entries: Entries = (system.cos, system.sin, -system.sin, system.cos)
    else:
        lower_triangle = [A[..., i, j] for i in range(3) for j in range(i + 1)]
        values, vector_entries = eigh3(xp, *lower_triangle)

    # Assemble the matrix of eigenvectors, row by row.
    rows = [xp.stack(vector_entries[m * i : m * (i + 1)], axis=-1) for i in range(m)]
    return xp.stack(values, axis=-1), xp.stack(rows, axis=-2)


def _library_eigh(xp: Any, A: Array) -> tuple[Array, Array]:
    """Return the library's eigen-system, NaN for matrices that are not finite.

    LAPACK raises on NaN. An exception that depends on a record would reveal something
    about it, so NaN goes in as 0 and comes out as NaN.

    Parameters
    ----------
    xp : module
        The array library of A.
    A : array of shape (..., m, m)
        Symmetric matrices.

    Returns
    -------
    eigenvalues : array, shape (..., m)
        The eigenvalues in ascending order.
    eigenvectors : array, shape (..., m, m)
        The eigenvectors, as columns.
    """
    is_finite = xp.all(xp.isfinite(A), axis=(-2, -1), keepdims=True)
    values, vectors = xp.linalg.eigh(xp.where(is_finite, A, xp.zeros_like(A)))
    return (
        xp.where(is_finite[..., 0], values, xp.nan),
        xp.where(is_finite, vectors, xp.nan),
    )


class _EigenSystem2(NamedTuple):
    """The eigen-systems of symmetric 2×2 matrices.

    The unit eigenvector of `low` is (cos, −sin), and that of `high` is (sin, cos).
    """

    low: Array  # the smaller eigenvalue
    high: Array  # the larger eigenvalue
    cos: Array
    sin: Array


def _eigh2(xp: Any, a: Array, b: Array, d: Array) -> _EigenSystem2:
    """Return the eigen-system of [[a, b], [b, d]] by one Jacobi rotation.

    The rotation by an angle whose tangent t solves b·t² + (d − a)·t − b = 0 makes the
    matrix diagonal. The root of smaller modulus, t = b/(½|d − a| + √(¼(d − a)² + b²))
    up to its sign, belongs to an angle of at most 45°. The eigenvalues are then a − t·b
    and d + t·b.

    tests/geometry/test_small_eigh.py checks backward errors and orthogonality.

    Parameters
    ----------
    xp : namespace
        The array library.
    a, b, d : array
        The entries of the lower triangle.

    Returns
    -------
    _EigenSystem2
        The eigenvalues in ascending order, and the eigenvectors.
    """
    half_gap = 0.5 * (d - a)
    gap_size = xp.abs(half_gap)
    b_size = xp.abs(b)
    larger = xp.maximum(gap_size, b_size)
    smaller = xp.minimum(gap_size, b_size)
    ratio = smaller / xp.where(larger > 0, larger, xp.ones_like(larger))
    root = larger * xp.sqrt(1 + ratio * ratio)  # √(half_gap² + b²) without overflow

    # |tan| ≤ 1 of the smaller angle is b/(|half_gap| + root); a multiple of I, 0/0, has
    # the angle 0.
    denominator = gap_size + root
    tan = b / xp.where(denominator > 0, denominator, xp.ones_like(denominator))
    cos = 1 / xp.sqrt(1 + tan * tan)
    sin = tan * cos

    # Where a is the low end, (cos, −sin) belongs to a − tan·b and (sin, cos) to
    # d + tan·b; otherwise the roles swap.
    a_is_low = half_gap >= 0
    lower_entry = xp.where(a_is_low, a, d)
    upper_entry = xp.where(a_is_low, d, a)
    return _EigenSystem2(
        low=lower_entry - tan * b,
        high=upper_entry + tan * b,
        cos=xp.where(a_is_low, cos, sin),
        sin=xp.where(a_is_low, sin, cos),
    )


def separated_root(r: Array) -> Array:
    """Return the root x in [√3, 2] of x³ − 3x = 2r for 0 <= r <= 1.

    It is the eigenvalue of a traceless, scaled 3×3 matrix that is farthest from the
    other two, with r half the modulus of its determinant. Newton's method solves
    f(x) = x³ − 3x − 2r = 0. With f′(x) = 3x² − 3, a step is

        x − f(x)/f′(x) = (2x³ + 2r)/(3x² − 3) = 2(x²·x + r)/(3(x² − 1)).

    On [√3, 2] f is convex with a slope from 6 to 9. The start √3 + r/3 − 0.0654·r² is
    good to 0.003, so that three steps reach round-off.

    Parameters
    ----------
    r : array
        Numbers from 0 to 1.

    Returns
    -------
    array
        The roots, of the shape of `r`.
    """
    x = _ROOT_OF_3 + r * (_ONE_THIRD - r * _START_CURVATURE)
    for _ in range(_NEWTON_STEPS):
        square = x * x
        x = (2 * (square * x + r)) / (3 * (square - 1))
    return x


class _TracelessMatrix(NamedTuple):
    """The traceless matrix B = (A − mean·I)/scale = [[a, b, c], [b, d, e], [c, e, f]].

    The mean of the eigenvalues of A is tr(A)/3, and the scale is the largest entry. The
    fields are the entries of the lower triangle, row by row.
    """

    a: Array
    b: Array
    d: Array
    c: Array
    e: Array
    f: Array


def eigh3(
    xp: Any, a: Array, b: Array, d: Array, c: Array, e: Array, f: Array
) -> tuple[Entries, Entries]:
    """Return the eigen-system of symmetric 3×3 matrices from their six entries.

    A matrix is [[a, b, c], [b, d, e], [c, e, f]].

    One eigenvalue, the *separated* one, is farthest from the other two. It and its
    eigenvector are computed first, in closed form; the other two eigenvectors are those
    of a 2×2 matrix. The eigenvalues are finally computed as Rayleigh quotients vᵀAv.

    tests/geometry/test_small_eigh.py checks backward errors and orthogonality, also for
    repeated eigenvalues.

    Parameters
    ----------
    xp : namespace
        The array library.
    a, b, d, c, e, f : array
        The lower triangle, row by row.

    Returns
    -------
    eigenvalues : tuple of three arrays
        The eigenvalues in ascending order.
    eigenvectors : tuple of nine arrays
        The entries of the matrix whose columns are the eigenvectors, row by row.
    """
    B = _traceless_scaled(xp, a, b, d, c, e, f)
    separated, sign = _separated_eigenvalue(xp, B)
    v = _separated_eigenvector(xp, B, separated)
    low, high = _other_eigenvectors(xp, B, v)

    # The separated eigenvalue is the largest where the sign is +, else the smallest.
    is_largest = sign > 0
    rows = []
    for separated_entry, low_entry, high_entry in zip(v, low, high, strict=True):
        first = xp.where(is_largest, low_entry, separated_entry)
        middle = xp.where(is_largest, high_entry, low_entry)
        last = xp.where(is_largest, separated_entry, high_entry)
        rows.append((first, middle, last))

    # Rayleigh quotients are quadratically accurate, and exact for a diagonal matrix
    # however graded.
    values = []
    for v0, v1, v2 in zip(*rows, strict=True):  # one eigenvector after the other
        first_terms = v0 * (a * v0 + 2 * (b * v1 + c * v2))
        second_terms = v1 * (d * v1 + 2 * e * v2)
        values.append(first_terms + second_terms + f * v2 * v2)
    return tuple(values), (*rows[0], *rows[1], *rows[2])


def _traceless_scaled(
    xp: Any, a: Array, b: Array, d: Array, c: Array, e: Array, f: Array
) -> _TracelessMatrix:
    """Return A − (tr A/3)·I, divided by its largest entry in modulus, for symmetric A.

    The closed form for eigenvalues is simplest for matrices whose eigenvalues add up to
    0.

    Parameters
    ----------
    xp : namespace
        The array library.
    a, b, d, c, e, f : array
        The lower triangle of A, row by row.

    Returns
    -------
    _TracelessMatrix
        The entries of the scaled matrix.
    """
    # Subtract the mean of the eigenvalues from the diagonal.
    mean = (a + d + f) / 3
    a, d, f = a - mean, d - mean, f - mean

    # Divide by the largest entry; the zero matrix stays as it is.
    scale = reduce(xp.maximum, map(xp.abs, (a, d, f, b, c, e)))
    inverse = 1 / xp.where(scale > 0, scale, 1.0)
    return _TracelessMatrix(
        a=a * inverse,
        b=b * inverse,
        d=d * inverse,
        c=c * inverse,
        e=e * inverse,
        f=f * inverse,
    )


def _separated_eigenvalue(xp: Any, B: _TracelessMatrix) -> tuple[Array, Array]:
    """Return the eigenvalue farthest from the other two, and whether it is the largest.

    With scale² = ‖B‖²/6, the eigenvalues of B/scale solve t³ − 3t = det(B/scale). The
    root farthest from the others has the sign of the determinant, and `separated_root`
    computes its size from half the determinant.

    Parameters
    ----------
    xp : namespace
        The array library.
    B : _TracelessMatrix
        Traceless symmetric matrices; their eigenvalues add up to 0.

    Returns
    -------
    eigenvalue : array
        The eigenvalue.
    sign : array
        1 if it is the largest eigenvalue, −1 if it is the smallest.
    """
    b00, b10, b11, b20, b21, b22 = B
    diagonal_square = b00 * b00 + b11 * b11 + b22 * b22
    off_diagonal_square = b10 * b10 + b20 * b20 + b21 * b21
    scale_square = (diagonal_square + 2 * off_diagonal_square) / 6
    scale = xp.sqrt(xp.where(scale_square > 0, scale_square, 1.0))

    # Half the determinant of B/scale, by the first row of B.
    minor0 = b11 * b22 - b21 * b21
    minor1 = b10 * b22 - b20 * b21
    minor2 = b10 * b21 - b20 * b11
    det = b00 * minor0 - b10 * minor1 + b20 * minor2
    half_det = 0.5 * det / (scale * scale * scale)

    # The separated eigenvalue has the same sign.
    sign = xp.where(half_det < 0, -1.0, xp.ones_like(half_det))
    root = separated_root(xp.minimum(xp.abs(half_det), xp.ones_like(half_det)))
    return sign * scale * root, sign


def _separated_eigenvector(xp: Any, B: _TracelessMatrix, eigenvalue: Array) -> Vector3:
    """Return the unit eigenvector v of B for its separated eigenvalue λ.

    With the other eigenvalues λ₂ and λ₃, the adjugate matrix of B − λI is (λ − λ₂)(λ −
    λ₃)·vvᵀ, where the product is not small (at least 3 in the scale of the module
    docstring). So each column of the adjugate is a multiple of v, and the one with the
    largest diagonal entry is normalized. If B is 0, the result is the third unit
    vector.

    Parameters
    ----------
    xp : namespace
        The array library.
    B : _TracelessMatrix
        Traceless symmetric matrices.
    eigenvalue : array
        λ, as `_separated_eigenvalue` returns it.

    Returns
    -------
    three arrays
        The entries of v.
    """
    v0, v1, v2 = _largest_adjugate_column(xp, B, eigenvalue)

    # Its unit vector, or (0, 0, 1) for the zero matrix.
    square = v0 * v0 + v1 * v1 + v2 * v2
    is_zero = ~(square > 0)
    inverse_length = 1 / xp.sqrt(xp.where(is_zero, 1.0, square))
    return (
        xp.where(is_zero, 0.0, v0 * inverse_length),
        xp.where(is_zero, 0.0, v1 * inverse_length),
        xp.where(is_zero, 1.0, v2 * inverse_length),
    )


def _largest_adjugate_column(
    xp: Any, B: _TracelessMatrix, eigenvalue: Array
) -> Vector3:
    """Return the column of the adjugate of B − λI that has the largest diagonal entry.

    If λ is an eigenvalue, this column is a multiple of the eigenvector, with the most
    digits.

    Parameters
    ----------
    xp : namespace
        The array library.
    B : _TracelessMatrix
        Symmetric matrices.
    eigenvalue : array
        λ.

    Returns
    -------
    three arrays
        The entries of the column.
    """
    b00, b10, b11, b20, b21, b22 = B
    shifted00 = b00 - eigenvalue
    shifted11 = b11 - eigenvalue
    shifted22 = b22 - eigenvalue

    # The entries of the adjugate: signed 2×2 minors of B − λI.
    adj_00 = shifted11 * shifted22 - b21 * b21
    adj_11 = shifted00 * shifted22 - b20 * b20
    adj_22 = shifted00 * shifted11 - b10 * b10
    adj_01 = b20 * b21 - b10 * shifted22
    adj_02 = b10 * b21 - b20 * shifted11
    adj_12 = b10 * b20 - shifted00 * b21

    is_first = (adj_00 >= adj_11) & (adj_00 >= adj_22)
    is_second = adj_11 >= adj_22

    def choose(first: Array, second: Array, third: Array) -> Array:
        """Return the entry of the chosen column, of those of three columns in a row."""
        second_or_third = xp.where(is_second, second, third)
        return xp.where(is_first, first, second_or_third)

    return (
        choose(adj_00, adj_01, adj_02),
        choose(adj_01, adj_11, adj_12),
        choose(adj_02, adj_12, adj_22),
    )


def _other_eigenvectors(
    xp: Any, B: _TracelessMatrix, v: Vector3
) -> tuple[Vector3, Vector3]:
    """Return the two eigenvectors of B that are orthogonal to a given one.

    In an orthonormal basis (s, t) of the complement of the given eigenvector v, B is the
    2×2 matrix [[s·Bs, s·Bt], [s·Bt, t·Bt]]. Its eigenvectors (cos, −sin) and (sin, cos)
    are the coordinates of the eigenvectors of B.

    Parameters
    ----------
    xp : namespace
        The array library.
    B : _TracelessMatrix
        Symmetric matrices.
    v : three arrays
        One unit eigenvector of each.

    Returns
    -------
    low : tuple of three arrays
        The entries of the eigenvector of the lower eigenvalue.
    high : tuple of three arrays
        The entries of the eigenvector of the higher eigenvalue.
    """
    s, t = _complement_basis(xp, v)
    Bs = _multiply(B, s)
    Bt = _multiply(B, t)
    in_basis = _eigh2(xp, _dot(s, Bs), _dot(s, Bt), _dot(t, Bt))
    cos = in_basis.cos
    sin = in_basis.sin

    # From the basis (s, t) back to three coordinates.
    s0, s1, s2 = s
    t0, t1, t2 = t
    low = (cos * s0 - sin * t0, cos * s1 - sin * t1, cos * s2 - sin * t2)
    high = (sin * s0 + cos * t0, sin * s1 + cos * t1, sin * s2 + cos * t2)
    return low, high


def _complement_basis(xp: Any, v: Vector3) -> tuple[Vector3, Vector3]:
    """Return two vectors that are an orthonormal basis together with a unit vector v.

    The other two eigenvectors are sought in the plane that they span. The formula has
    no branches (Duff et al. 2017).

    Parameters
    ----------
    xp : namespace
        The array library.
    v : three arrays
        The entries of v.

    Returns
    -------
    s, t : tuples of three arrays
        The entries of the two vectors.
    """
    v0, v1, v2 = v
    sign = xp.where(v2 < 0, -1.0, xp.ones_like(v2))
    factor = -1 / (sign + v2)
    mixed = v0 * v1 * factor
    s = (1 + sign * v0 * v0 * factor, sign * mixed, -sign * v0)
    t = (mixed, sign + v1 * v1 * factor, -v1)
    return s, t


def _multiply(B: _TracelessMatrix, v: Vector3) -> Vector3:
    """Return the product Bv of symmetric 3×3 matrices with vectors."""
    b00, b10, b11, b20, b21, b22 = B
    v0, v1, v2 = v
    return (
        b00 * v0 + b10 * v1 + b20 * v2,
        b10 * v0 + b11 * v1 + b21 * v2,
        b20 * v0 + b21 * v1 + b22 * v2,
    )


def _dot(u: Vector3, v: Vector3) -> Array:
    """Return the dot products of vectors with three entries."""
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
