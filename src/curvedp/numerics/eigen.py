"""Eigen-systems of batches of symmetric matrices: closed forms for 2×2 and 3×3, the array library's `eigh` above.

The closed forms are branch-free and touch each matrix entry as one long vector ("structure of arrays"), which is what
makes them fast. Their backward error is a few units of round-off times ‖A‖, also for repeated eigenvalues, like LAPACK's:
- 2×2: one Jacobi rotation;
- 3×3: of the traceless, scaled matrix B (eigenvalues 2cos φ, 2cos(φ ± 2π/3)) the eigenvalue farthest from the other two
  is a root x in [√3, 2] of x³ − 3x = 2r, r = |det B|/2, where the slope is at least 6: three Newton steps. Its eigenvector
  is a column of adj(B − xI) = (x−λ₂)(x−λ₃) v vᵀ, where the product is at least 3. What remains is 2×2. (After Eberly,
  "A robust eigensolver for 3×3 symmetric matrices"; the Newton steps replace acos, which loses half the digits at r = 1.)
"""

from functools import reduce
from typing import Any

from curvedp.numerics.arrays import Array, namespace
from curvedp.numerics.autodiff import compiled, custom_jvp

Entries = tuple[Array, ...]


@compiled
def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues (ascending) and orthonormal eigenvectors (columns) of the symmetric matrices A (..., m, m). Only the lower
    triangle is read. A matrix with a NaN or infinite entry gives NaN, never an exception."""

    def rule(
        arrays: tuple[Array], changes: tuple[Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        xp, (w, V) = namespace(A), _eigh(*arrays)
        E = V.mT @ changes[0] @ V
        gap = xp.where(
            xp.eye(A.shape[-1], dtype=bool), xp.inf, w[..., None, :] - w[..., :, None]
        )
        return (w, V), (
            xp.linalg.diagonal(E),
            V @ (E / gap),
        )  # repeated eigenvalues: infinite, as it should be

    values, vectors = custom_jvp(_eigh, rule, A)
    return values, vectors


def _eigh(A: Array) -> tuple[Array, Array]:
    xp = namespace(A)
    m = A.shape[-1]
    if m == 1:
        return A[..., 0], xp.ones_like(A)
    if m == 2:
        low, high, c, s = _rotation(xp, A[..., 0, 0], A[..., 1, 0], A[..., 1, 1])
        w, v = (low, high), (c, s, -s, c)
    elif m == 3:
        w, v = eigh3(xp, *(A[..., i, j] for i in range(3) for j in range(i + 1)))
    else:
        # LAPACK raises on NaN; a data-dependent exception would be a release, so NaN goes in as 0 and comes out as NaN.
        finite = xp.all(xp.isfinite(A), axis=(-2, -1), keepdims=True)
        values, vectors = xp.linalg.eigh(xp.where(finite, A, xp.zeros_like(A)))
        return xp.where(finite[..., 0], values, xp.nan), xp.where(
            finite, vectors, xp.nan
        )
    return xp.stack(w, axis=-1), xp.stack(
        [xp.stack(v[m * i : m * (i + 1)], axis=-1) for i in range(m)], axis=-2
    )


def _rotation(
    xp: Any, a: Array, b: Array, d: Array
) -> tuple[Array, Array, Array, Array]:
    """Of [[a, b], [b, d]]: low, high, c, s with eigenvectors (c, −s) for low and (s, c) for high. One Jacobi rotation."""
    half = 0.5 * (d - a)
    x, y = xp.abs(half), xp.abs(b)
    big = xp.maximum(x, y)
    ratio = xp.minimum(x, y) / xp.where(big > 0, big, xp.ones_like(big))
    root = big * xp.sqrt(1 + ratio * ratio)  # √(half² + b²) without overflow
    # |tan| ≤ 1 of the smaller angle: b / (|half| + root); 0/0 (a multiple of I) is the angle 0
    size = xp.abs(half) + root
    t = b / xp.where(size > 0, size, xp.ones_like(size))
    c = 1 / xp.sqrt(1 + t * t)
    s = t * c
    up = (
        half >= 0
    )  # a is the low end: (c, −s) belongs to a − t b, (s, c) to d + t b; otherwise the roles swap
    x, y = xp.where(up, a, d), xp.where(up, d, a)
    return x - t * b, y + t * b, xp.where(up, c, s), xp.where(up, s, c)


def separated_root(r: Array) -> Array:
    """The root in [√3, 2] of x³ − 3x = 2r, 0 ≤ r ≤ 1: start within 0.003, then Newton (convex, slope 6 to 9)."""
    x = 1.7320508075688772 + r * (0.3333333333333333 - r * 0.0653841409021)
    for _ in range(3):
        xx = x * x
        x = (2 * (xx * x + r)) / (3 * (xx - 1))
    return x


def eigh3(
    xp: Any, a: Array, b: Array, d: Array, c: Array, e: Array, f: Array
) -> tuple[Entries, Entries]:
    """[[a, b, c], [b, d, e], [c, e, f]] (lower triangle, row by row): eigenvalues ascending, eigenvectors row by row."""
    A = a, b, d, c, e, f
    mean = (a + d + f) / 3
    a, d, f = a - mean, d - mean, f - mean
    scale = reduce(xp.maximum, map(xp.abs, (a, d, f, b, c, e)))
    inverse = 1 / xp.where(scale > 0, scale, 1.0)
    a, b, c, d, e, f = (
        a * inverse,
        b * inverse,
        c * inverse,
        d * inverse,
        e * inverse,
        f * inverse,
    )
    bb, cc, ee = b * b, c * c, e * e
    p2 = (a * a + d * d + f * f + 2 * (bb + cc + ee)) / 6
    p = xp.sqrt(xp.where(p2 > 0, p2, 1.0))
    det = a * (d * f - ee) - b * (b * f - c * e) + c * (b * e - c * d)
    r = 0.5 * det / (p * p * p)
    sign = xp.where(r < 0, -1.0, xp.ones_like(r))
    separated = sign * p * separated_root(xp.minimum(xp.abs(r), xp.ones_like(r)))
    # adj(B − λ): rank one, v vᵀ times a number of the order of p²
    a1, d1, f1 = a - separated, d - separated, f - separated
    aa, dd, ff = d1 * f1 - ee, a1 * f1 - cc, a1 * d1 - bb
    ab, ac, bc = c * e - b * f1, b * e - c * d1, b * c - a1 * e
    first = (aa >= dd) & (aa >= ff)
    second = dd >= ff
    v0 = xp.where(first, aa, xp.where(second, ab, ac))
    v1 = xp.where(first, ab, xp.where(second, dd, bc))
    v2 = xp.where(first, ac, xp.where(second, bc, ff))
    square = v0 * v0 + v1 * v1 + v2 * v2
    isotropic = ~(square > 0)
    norm = 1 / xp.sqrt(xp.where(isotropic, 1.0, square))
    v0, v1, v2 = (
        xp.where(isotropic, e3, v * norm) for v, e3 in ((v0, 0.0), (v1, 0.0), (v2, 1.0))
    )
    # orthonormal complement of v without branches (Duff et al. 2017)
    up = xp.where(v2 < 0, -1.0, xp.ones_like(v2))
    g = -1 / (up + v2)
    h = v0 * v1 * g
    s0, s1, s2 = 1 + up * v0 * v0 * g, up * h, -up * v0
    t0, t1, t2 = h, up + v1 * v1 * g, -v1
    # the 2×2 rest in that basis
    Bs0, Bs1, Bs2 = (
        a * s0 + b * s1 + c * s2,
        b * s0 + d * s1 + e * s2,
        c * s0 + e * s1 + f * s2,
    )
    Bt0, Bt1, Bt2 = (
        a * t0 + b * t1 + c * t2,
        b * t0 + d * t1 + e * t2,
        c * t0 + e * t1 + f * t2,
    )
    rest = (
        s0 * Bs0 + s1 * Bs1 + s2 * Bs2,
        s0 * Bt0 + s1 * Bt1 + s2 * Bt2,
        t0 * Bt0 + t1 * Bt1 + t2 * Bt2,
    )
    _, _, co, si = _rotation(xp, *rest)
    l0, l1, l2 = co * s0 - si * t0, co * s1 - si * t1, co * s2 - si * t2
    h0, h1, h2 = si * s0 + co * t0, si * s1 + co * t1, si * s2 + co * t2
    top = sign > 0  # the separated eigenvalue is the largest; otherwise the smallest
    sets = (v0, l0, h0), (v1, l1, h1), (v2, l2, h2)
    rows = [
        (xp.where(top, lo, v), xp.where(top, hi, lo), xp.where(top, v, hi))
        for v, lo, hi in sets
    ]
    # Rayleigh quotients: quadratically accurate, and exact for a diagonal matrix however graded
    a, b, d, c, e, f = A
    values = tuple(
        x * (a * x + 2 * (b * y + c * z)) + y * (d * y + 2 * e * z) + f * z * z
        for x, y, z in zip(*rows, strict=True)
    )
    return values, (*rows[0], *rows[1], *rows[2])
