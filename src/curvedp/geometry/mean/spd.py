"""The affine-invariant Fréchet mean in few and cheap passes over the data (NumPy).

A pass whitens every matrix by the Cholesky factor of the iterate, A_i = L⁻¹X_iL⁻ᵀ, and sums w_i log A_i: minus the gradient.

Few: the start is the geometric mean of the arithmetic and the harmonic mean (exact for two matrices), and each step is
Newton's. The Hessian is the mean of E ↦ U(K ⊙ UᵀEU)Uᵀ with K = (s/2)coth(s/2), s = log λr − log λs (a symmetric space); it
is at least 1 and varies little from matrix to matrix, so a subsample gives it well enough for two to three digits a pass,
where the plain fixed point gains one.

Cheap: `spd_passes`.
"""

from contextlib import nullcontext

import numpy as np

from curvedp.geometry.base import Array as Matrix
from curvedp.geometry.mean.secants import Secants
from curvedp.geometry.mean.spd_passes import TINY, Newton, Pass, Sweep
from curvedp.geometry.numerics.spectral import sym
from curvedp.geometry.numerics.threads import in_threads, one_blas_thread

__all__ = ["TOLERANCE", "affine_invariant_mean", "affine_invariant_moments"]

TOLERANCE = 5e-10  # residual seen before the last step, half of what is promised; the last step improves on it
_STEPS = 100  # in all; a handful are needed where double precision resolves the data


def affine_invariant_mean(X: Matrix, weights: Matrix, enough: float = TOLERANCE) -> Matrix:
    """The Fréchet mean of X (n, m, m) float64 with weights (n,) that sum to 1: a step beyond a residual that is enough."""
    with one_blas_thread() if X.size > TINY else nullcontext():
        G, state, solve = _search(Sweep(X, weights), enough)
        if solve is not None and state.residual <= enough:
            G = _moved(G, solve(state.gradient))
        return sym(G @ G.T)


def affine_invariant_moments(X: Matrix, enough: float) -> tuple[Matrix, float, float]:
    """(x, ‖mean log_x‖, mean d²(x, ·)): the mean of X, with what was measured at x itself."""
    with one_blas_thread() if X.size > TINY else nullcontext():
        sweep = Sweep(X, np.full(len(X), 1 / len(X)))
        G, state, _ = _search(sweep, enough)
        state = sweep.exact(G) if np.isnan(state.cost) and np.all(np.isfinite(G)) else state
        return sym(G @ G.T), state.residual, 2 * state.cost


def _search(sweep: Sweep, enough: float) -> tuple[Matrix, Pass, Newton | None]:
    """A factor of the mean, the pass there, and Newton's steps. NaN where the data are.

    An iterate is GGᵀ, and a step S leads to G·exp(S/2): coordinates are carried along in parallel. Newton's steps with the
    Hessian of the start are made better by what each step teaches (`Secants`). A step that gains less than a digit is taken
    again with care.
    """
    G = _start(sweep)
    state = sweep.exact(G) if np.all(np.isfinite(G)) else Pass(G, np.nan)
    if not np.isfinite(state.residual):
        return np.full_like(G, np.nan), state, None
    solve, secants, rate, moved = sweep.newton(G), Secants(), 1e-2, 0.0
    for _ in range(_STEPS):
        if state.residual <= enough:
            break
        step = secants.step(solve(state.gradient))
        H = _moved(G, step)
        moved += float(np.linalg.norm(step))
        new = sweep.quick(H, moved, max(min(1e-11, 0.1 * enough), 1e-2 * state.residual * max(rate * rate, 1e-4)))
        if not new.residual < 0.1 * state.residual:
            H, new, solve = _careful(sweep, G, state)
            if new is state:
                break
            secants, moved = Secants(), 0.0
        rate, G, state = new.residual / state.residual, H, new
    return G, state, solve


def _careful(sweep: "Sweep", G: Matrix, state: Pass) -> tuple[Matrix, Pass, "Newton"]:
    """A damped Newton step, exact pass and fresh Hessian: Armijo's rule on the convex cost; the old state if stuck."""
    known = sweep.exact(G)
    solve = sweep.newton(G)
    step = solve(known.gradient)
    slope = float(np.sum(known.gradient * step))
    for scale in 0.5 ** np.arange(64):
        H = _moved(G, scale * step)
        new = sweep.exact(H)
        # A change of cost below its round-off cannot be seen: then the residual decides.
        if new.cost <= known.cost - 1e-4 * scale * slope or (
            scale * slope <= 1e-12 * known.cost and new.residual < known.residual
        ):
            return H, new, sweep.newton(H)
        if scale * slope <= 1e-16 * known.cost:
            break
    return G, state, solve


def _moved(G: Matrix, step: Matrix) -> Matrix:
    w, U = np.linalg.eigh(step)
    return G @ ((U * np.exp(0.5 * w)) @ U.T)


def _start(sweep: "Sweep") -> Matrix:
    """A factor of the geometric mean of the arithmetic and the harmonic mean; NaN where the data are."""
    parts = in_threads(sweep.two_means, sweep.parts)
    arithmetic, inverse = (sym(np.sum([part[i] for part in parts], axis=0)) for i in (0, 1))
    try:
        L = np.linalg.cholesky(arithmetic)
    except np.linalg.LinAlgError:  # not positive definite to working precision
        return np.full_like(arithmetic, np.nan)
    whitened = sym(L.T @ inverse @ L)
    if not np.all(np.isfinite(whitened)):
        return L
    w, U = np.linalg.eigh(whitened)  # the whitened harmonic mean, inverted
    return L @ (U * w**-0.25) if np.all(w > 0) else L  # or too ill-conditioned for the harmonic mean
