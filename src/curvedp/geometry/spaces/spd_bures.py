"""SPD(m) under the Bures–Wasserstein metric: optimal transport between centered Gaussians."""

from math import inf

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.spd_common import SPD, pack, unpack
from curvedp.numerics.arrays import namespace
from curvedp.numerics.autodiff import constant, custom_jvp, with_derivative_of
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.eigen import eigh
from curvedp.numerics.elementary import euclidean_norm
from curvedp.numerics.matrix_functions import (
    cholesky,
    norm,
    polar,
    sandwich,
    sqrt_sym,
    sym,
    upper_solve,
)
from curvedp.numerics.spd_pencil import condition

_DOUBTFUL = 100.0  # times the error of the other way: below, near points and usual ones keep theirs


class SPDBuresWasserstein(SPD):
    """SPD(m) with ⟨U,V⟩_W = ½ tr(L_W[U] V), L_W[U] the solution of LW + WL = U (Bhatia, Jain & Lim 2019; SPEC §1, E6).

    Curvature is ≥ 0 and unbounded above near singular matrices; the space is not complete: exp_W(V) is defined
    where I + L_W[V] is positive definite. For optimization only: no Fréchet sensitivity is claimed.

    Parameters
    ----------
    m : int
        The number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> M = SPDBuresWasserstein(2)
    >>> float(M.dist(np.eye(2), 4 * np.eye(2)))  # √2·|1 − 2|
    1.4142135623730951
    """

    kind = "spd-bures"
    is_cone = False  # the metric is not that of a scale
    curvature_bounds = fact(lambda self: (0.0, inf) if self.m > 1 else (0.0, 0.0))
    # No radius holds at every point. At W the injectivity radius is √λ_min(W), the distance to the singular matrices
    # (Massart & Absil 2020); inside it, and wherever I + L_W[V] > 0, `log` inverts `exp`.
    injectivity_radius = 0.0
    is_homogeneous = False

    def exp(self, p: Array, v: Array) -> Array:
        """(I+L)p(I+L) = p + v + LpL with L = L_p[v]; meaningful while I + L is positive definite."""
        L = _lyapunov(p, v)
        return p + v + sym(L @ p @ L)

    def log(self, p: Array, q: Array) -> Array:
        """(T−I)p + p(T−I), T the optimal transport map with TpT = q."""
        G, step, unit, top = _step(p, q)
        B = step @ G.mT
        return (B + B.mT) * unit * top

    def dist(self, p: Array, q: Array) -> Array:
        """‖(T−I)G‖ with p = GGᵀ: tr p + tr q − 2 tr(p^½qp^½)^½ without its cancellation."""
        _, step, _, top = _step(p, q)
        return norm(step) * top[..., 0, 0]

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        return 0.5 * namespace(p, u, v).sum(_lyapunov(p, u) * v, axis=(-2, -1))

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """An isometry that sends log(p, q) to −log(q, p), as parallel transport does, of which no closed form is
        known. C_q^½ C_p^−½, C_w[S] = 2(wS + Sw) in the metric's own coordinates, then the rotation that turns the
        one velocity into the other."""
        leaves, arrives = (
            self.to_coordinates(p, self.log(p, q)),
            -self.to_coordinates(q, self.log(q, p)),
        )
        xp, z = namespace(p, q, v), self.to_coordinates(p, v)

        def dot(x: Array, y: Array) -> Array:
            return xp.sum(x * y, axis=-1)[..., None]

        lengths = [euclidean_norm(xp, x)[..., None] for x in (leaves, arrives)]
        a, b = (
            x / xp.where(r > 0, r, 1.0)
            for x, r in zip((leaves, arrives), lengths, strict=True)
        )
        middle = a + b
        square = dot(
            middle, middle
        )  # 2(1 + ⟨a,b⟩); directions that are opposite, or of length 0, leave z where it is
        turned = (
            z
            - 2 * middle * (dot(middle, z) / xp.where(square > 0, square, 1.0))
            + 2 * b * dot(a, z)
        )
        return self.from_coordinates(q, xp.where(square > 0, turned, z))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """U (√(2(λr+λs)) ⊙ UᵀSU) Uᵀ with p = U λ Uᵀ: depends on p alone, not on the choice of eigenvectors."""
        K, U = _roots(p)
        return sym(sandwich(U, K * (U.mT @ unpack(z, self.m) @ U)))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        K, U = _roots(p)
        return pack(sym(sandwich(U, (U.mT @ v @ U) / K)))


def _roots(p: Array) -> tuple[Array, Array]:
    """√(2(λr+λs)), and U."""
    w, U = eigh(p)
    return namespace(p).sqrt(2 * (w[..., :, None] + w[..., None, :])), U


def _lyapunov(p: Array, v: Array) -> Array:
    """The symmetric L with Lp + pL = v."""

    def solve(p: Array, v: Array) -> Array:
        w, U = eigh(p)
        return sym(sandwich(U, (U.mT @ v @ U) / (w[..., :, None] + w[..., None, :])))

    def rule(
        arrays: tuple[Array, Array], changes: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        L, (dp, dv) = _lyapunov(*arrays), changes
        return L, _lyapunov(
            arrays[0], sym(dv) - 2 * sym(L @ sym(dp))
        )  # L'p + pL' = v' − Lp' − p'L

    return custom_jvp(solve, rule, p, v)


def _step(p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
    """(G, S, a, c) with p = a²GGᵀ and cS = (T−I)aG, from the difference q − p, which near points need; its relative error is
    about u·cond(p). Where that is above 100 times the other's u·‖√p‖/distance, S is bHW − aG (NumPy): q = b²HHᵀ, and W is
    the orthogonal matrix that brings H nearest to G (Bhatia, Jain & Lim 2019, Thm 1)."""
    xp = namespace(p, q)
    G, D, a, top = _root_difference(p, q)
    S = upper_solve(G, D)
    if not is_numpy_array(S):
        return G, S, a, top
    doubtful = ~(
        condition(G) * norm(S) <= _DOUBTFUL * norm(G * (a / top))
    )  # NaN is doubtful
    if in_public_time() or np.any(doubtful):
        b = _unit(q)
        H = cholesky(q / b / b)
        W, _, _ = polar(H.mT @ G)
        S = xp.where(doubtful[..., None, None], (b / top) * (H @ W) - (a / top) * G, S)
    return G, S, a, top


def _root_difference(p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
    """(G, D, a, c) with p = a²GGᵀ and acD = (KᵀqK)^½ − KᵀK, K = aG; then T − I = K⁻ᵀ(acD)K⁻¹. a and c are powers of
    two, of the sizes of √p and of the larger of √p and √q: matrices of any unit stay in the doubles."""
    xp = namespace(p, q)
    a, b = _unit(p), _unit(q)
    top = xp.maximum(a, b)
    G = cholesky(p / a / a)

    def smooth(G: Array, p: Array, q: Array, a: Array, b: Array) -> Array:
        return b * sqrt_sym(sandwich(G.mT, q)) - a * G.mT @ G

    def accurate(G: Array, p: Array, q: Array, a: Array, b: Array) -> Array:
        """A finite divided difference of √."""
        v, U = eigh(G.mT @ G)
        w, V = eigh(sym(sandwich(G.mT, q)))
        root = xp.sqrt(xp.where(w >= 0, w, xp.nan))
        change = sandwich(G.mT, b * b * q - a * a * p)
        return sym(
            sandwich(
                U,
                (U.mT @ change @ V) / (a * v[..., :, None] + b * root[..., None, :]),
                V,
            )
        )

    return (
        G,
        with_derivative_of(smooth, accurate, G, p / a / a, q / b / b, a / top, b / top),
        a,
        top,
    )


def _unit(p: Array) -> Array:
    """The power of two nearest to the root of the largest entry."""
    xp = namespace(p)
    largest = constant(xp.max(xp.abs(p), axis=(-2, -1), keepdims=True))
    return 2.0 ** xp.round(
        xp.log2(xp.where((largest > 0) & (largest < inf), largest, 1.0)) / 2
    )
