"""Newton's steps for the affine-invariant mean.

The Hessian is the mean of E ↦ U(K ⊙ UᵀEU)Uᵀ over whitened matrices A = UwUᵀ, with K = (s/2)coth(s/2), s = log wᵣ − log wₛ (a
symmetric space). It is at least 1 and varies little from matrix to matrix, so that a few hundred give it to a percent. All of
them, applied a few times to what those leave, cost a tenth of a pass and give three to six digits a step.
"""

from collections.abc import Sequence
from operator import methodcaller
from typing import NamedTuple

import numpy as np

from curvedp.geometry.base import Array as Matrix
from curvedp.geometry.numerics.spectral import sym
from curvedp.geometry.numerics.threads import in_threads

_DENSE = 3  # m up to which the Hessian is inverted
_ROUNDS = 1000  # of conjugate gradients, which need a few; the search checks what it is given
_REFINED = 2  # rounds with all matrices, each worth two digits


class Eigen(NamedTuple):
    """Whitened matrices UwUᵀ, and their weights."""

    w: Matrix
    U: Matrix
    weights: Matrix

    def few(self) -> "Eigen":
        """Enough matrices for a Hessian."""
        pick = few_of(*self.w.shape)
        if pick is None:
            return self
        return Eigen(self.w[pick], self.U[pick], self.weights[pick] / self.weights[pick].sum())


def few_of(n: int, m: int) -> Matrix | None:
    """Which of n records make a Hessian, evenly spaced; None: all."""
    size = 1024 if m <= _DENSE else 256 if m <= 32 else 128
    return None if n <= size else np.linspace(0, n - 1, size).astype(np.int64)


class Newton:
    """E ↦ H⁻¹E: inverted where small, else by conjugate gradients with a few matrices, refined with all."""

    def __init__(self, parts: Sequence[Eigen]) -> None:
        total = sum(float(part.weights.sum()) for part in parts)
        whole = Eigen(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True))) if len(parts) > 1 else parts[0]
        few = whole.few()
        self.few = _Hessian(few)
        self.inverse = np.linalg.inv(self.few.matrix()) if few.w.shape[1] <= _DENSE else None
        refines = self.inverse is None and len(few.w) < len(whole.w)
        self.parts = [_Hessian(part) for part in parts] if refines else []
        self.total = total

    def __call__(self, gradient: Matrix) -> Matrix:
        # symmetric to the last bit, as H's values are: what round-off leaves of the rest would never fall, and where the
        # gradient is all round-off (the start was the mean) the rounds would grow without end
        r = sym(gradient)
        if self.inverse is not None:
            return sym((self.inverse @ r.ravel()).reshape(r.shape))
        x = self._conjugate_gradients(r)
        for _ in range(_REFINED if self.parts else 0):
            whole = np.sum(in_threads(methodcaller("times", x), self.parts), axis=0) / self.total
            x = x + self._conjugate_gradients(r - whole)
        return x

    def _conjugate_gradients(self, r: Matrix) -> Matrix:
        x, d, rr = np.zeros_like(r), r, float(np.sum(r * r))
        goal = 1e-6 * rr if self.parts else 1e-8 * rr
        for _ in range(_ROUNDS):
            if not rr > goal:
                break
            Hd = self.few.times(d)
            bend = float(np.sum(d * Hd))
            if not bend > 0:  # underflow
                break
            a = rr / bend
            x, r = x + a * d, r - a * Hd
            rr, old = float(np.sum(r * r)), rr
            d = r + (rr / old) * d
        return x


class _Hessian:
    def __init__(self, eigen: Eigen) -> None:
        w, self.U, weights = eigen
        w = np.log(np.maximum(w, 1e-16 * w[:, -1:]))  # round-off of a far matrix may be negative; H need not be exact
        s = 0.5 * (w[:, :, None] - w[:, None, :])
        self.K = np.where(s == 0, 1.0, s / np.tanh(np.where(s == 0, 1.0, s))) * weights[:, None, None]
        self.columns = self.U.mT.reshape(-1, w.shape[1])

    def times(self, E: Matrix) -> Matrix:
        n, m, _ = self.U.shape
        inner = self.K * (self.U.mT @ (self.columns @ E).reshape(n, m, m).mT)
        return sym((inner @ self.U.mT).reshape(n * m, m).T @ self.columns)

    def matrix(self) -> Matrix:
        """H in the m² entries of E: columns U⊗U, weighted by K; the records run along the last axis."""
        U, K = (np.ascontiguousarray(a.transpose(1, 2, 0)) for a in (self.U, self.K))
        columns = (U[:, None, :, None] * U[None, :, None, :]).reshape(len(U) ** 2, -1)
        return np.asarray((columns * K.reshape(1, -1)) @ columns.T)
