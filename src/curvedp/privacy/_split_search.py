"""The largest value of a smooth function over the ways to share out a squared length, from few evaluations.

A split is a unit vector u with non-negative entries: factor i moves by Δ·uᵢ. What a product spends (μ_ε², ρ, …) is a
smooth function of it, close to Σuᵢ²cᵢ. It is fitted by polynomials of growing degree, in the share uᵢ² of one of two
factors and on the sphere among more; the difference of two successive fits, where they are large, measures the error,
which is added to the largest value of the last one.

Two bounded losses make a kink of order dim + 1 in it, which the fit feels at about 1e-8. Between two factors, where the
fit is not good at all (ε near the largest loss), the arc is narrowed first: what is spent grows with each distance
(docs/exact-profiles.md, Theorem 1), so on an arc from θ to θ′ it is at most its value at (cos θ, sin θ′), and arcs on
which that is below a value already seen cannot hold the worst split.
"""

import math
from collections.abc import Callable
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Value = Callable[[Array], Array]  # a vector of lengths -> a row of positive numbers, increasing in each length

_GOOD = 1e-7  # a relative error that needs no finer lattice
_ENOUGH = 1e-6  # the same among three or more factors
_POOR = 1e-5
_ARCS = (5, 9, 17, 33, 65)  # directions between two factors
_LATTICES = {3: (5, 8, 11), 4: (4, 6)}  # steps of the lattices for n factors


def largest_over_splits(value: Value, n: int, start: float = 0.0, stop: float = math.pi / 2) -> Array:
    """The supremum of each entry of `value` over the splits among n factors, rounded up by the error of the fit.

    With two factors, u = (cos θ, sin θ) and θ runs from start to stop.
    """
    if n == 1:
        return value(np.ones(1))
    if n > 2:
        size = len(value(np.full(n, n**-0.5)))
        columns = [lambda u, c=c: value(u)[c : c + 1] for c in range(size)]
        return _rounded(np.array([sum(_among_many(column, n)) for column in columns]))
    top, error = _on_arc(value, start, stop)
    for column in np.nonzero(error > _POOR * top)[0]:
        top[column], error[column] = _narrowed(lambda u, c=column: value(u)[c : c + 1], start, stop)  # type: ignore[misc]
    return _rounded(top + error)


def _rounded(x: Array) -> Array:
    return x * (1 + 1e-12)  # the fit's own arithmetic


def _narrowed(value: Value, start: float, stop: float) -> tuple[float, float]:
    """(value, error) of one entry over an arc, by arcs that shrink."""
    top, error = math.nan, math.inf
    for _ in range(12):
        theta = np.linspace(start, stop, 13)
        seen = max(float(value(_direction(x))[0]) for x in theta)
        corners = [float(value(np.array([math.cos(a), math.sin(b)]))[0]) for a, b in pairwise(theta)]
        alive = np.nonzero(np.array(corners) >= seen)[0]
        start, stop = float(theta[alive[0]]), float(theta[alive[-1] + 1])
        top, error = (float(x[0]) for x in _on_arc(value, start, stop))
        if error <= _POOR * top:
            break
    return top, error


def _among_many(value: Value, n: int) -> tuple[float, float]:
    """(value, error) of one entry over the splits among three or more factors: a fit on the whole simplex, then on
    patches about its largest value, which the rest of the last fit, with its error, does not reach."""
    patch, share = np.eye(n), 1.0
    steps, fine = _LATTICES.get(n, (2, 3)), _simplex(n, {3: 40, 4: 14}.get(n, 6))
    while True:

        def at(weights: Array, patch: Array = patch) -> Array:
            return value(_unit(weights @ patch))

        def basis(weights: Array, size: int, patch: Array = patch) -> Array:
            return _monomials(_unit(weights @ patch), size)

        fitted, top, error = _fit(at, [_simplex(n, m) for m in steps], fine, basis)
        if error[0] <= _ENOUGH * top[0] or share < 1e-3:
            return float(top[0]), float(error[0])
        u, best = fine @ patch, fine[fitted[:, 0].argmax()] @ patch
        for h in (0.25, 0.5):
            smaller = (1 - h) * best + h * patch
            outside = (u @ np.linalg.inv(smaller)).min(axis=1) < -1e-9
            if np.max(fitted[outside, 0], initial=0.0) + error[0] < top[0] - error[0]:
                break
        else:
            return float(top[0]), float(error[0])
        patch, share = smaller, share * h


def _on_arc(value: Value, start: float, stop: float) -> tuple[Array, Array]:
    """(value, error) of each entry over an arc, by Chebyshev series in the share sin²θ of the second factor.

    A factor's loss does not see the sign of its length, so what is spent is smooth in the squared lengths, and nearly
    linear: half the degree that a series in the angle would need.
    """
    low, high = math.sin(start) ** 2, math.sin(stop) ** 2

    def basis(z: Array, size: int) -> Array:
        return np.asarray(np.polynomial.chebyshev.chebvander(z[:, 0], size - 1))

    def at(z: Array) -> Array:
        share = low + (high - low) * (1 + float(z[0])) / 2
        return value(np.sqrt([max(1 - share, 0.0), share]))

    lattices = [-np.cos(np.pi * np.arange(size) / (size - 1))[:, None] for size in (*_ARCS, 2049)]
    return _fit(at, lattices[:-1], lattices[-1], basis)[1:]


def _fit(
    value: Value, lattices: list[Array], fine: Array, basis: Callable[[Array, int], Array]
) -> tuple[Array, Array, Array]:
    """(the fit on the fine lattice, its largest value, its error) of each entry, by the first lattice that suffices."""
    seen: dict[tuple[float, ...], Array] = {}
    before: Array | None = None
    for points in lattices:
        for x in points:
            if tuple(x) not in seen:
                seen[tuple(x)] = value(x)
        values, size = np.array([seen[tuple(x)] for x in points]), len(points)
        coefficients = np.linalg.lstsq(basis(points, size), values, rcond=1e-13)[0]
        fitted = basis(fine, size) @ coefficients
        top = np.maximum(fitted.max(axis=0), values.max(axis=0))
        error = np.abs(basis(points, size) @ coefficients - values).max(axis=0)
        error += top if before is None else (np.abs(fitted - before) * (fitted > 0.99 * top)).max(axis=0)
        if np.all(error <= _GOOD * top):
            break
        before = fitted
    climbed = [
        _climb(lambda x, c=c: basis(x, size) @ c, fine[i])  # type: ignore[misc]
        for c, i in zip(coefficients.T, fitted.argmax(axis=0), strict=True)
    ]
    return fitted, np.maximum(top, climbed), error


def _direction(theta: float) -> Array:
    """(cos θ, sin θ), with an exact 0 at the ends of the quarter circle."""
    u = np.array([math.cos(theta), math.sin(theta)])
    u[np.abs(u) < 1e-15] = 0.0
    return u


def _unit(u: Array) -> Array:
    u = np.where(u < 1e-12, 0.0, u)
    return np.asarray(u / np.linalg.norm(u, axis=-1, keepdims=True))


def _simplex(n: int, steps: int) -> Array:
    """Non-negative weights with sum 1, dense near the faces."""
    counts = np.array([w for w in product(range(steps + 1), repeat=n) if sum(w) == steps])
    weights = np.sin(np.pi / 2 * counts / steps)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _monomials(u: Array, size: int) -> Array:
    """The monomials of degree p and p − 1, a basis of the polynomials on the sphere, p as large as `size` points carry."""
    n, p = u.shape[1], 1
    while math.comb(p + n, n - 1) + math.comb(p + n - 1, n - 1) <= 0.9 * size:
        p += 1
    rows = [[c.count(i) for i in range(n)] for q in (p, p - 1) for c in combinations_with_replacement(range(n), q)]
    ladder = u[:, :, None] ** np.arange(p + 1)
    out = np.ones((len(u), len(rows)))
    for i, powers in enumerate(np.array(rows).T):
        out *= ladder[:, i, powers]
    return out


def _climb(fit: Callable[[Array], Array], x: Array) -> float:
    """The largest value of a fit near a point of the fine lattice, by a pattern search with a step that shrinks."""
    best, eye = float(fit(x[None])[0]), np.eye(len(x))
    on_arc = len(x) == 1
    turns = np.array([[1.0], [-1.0]]) if on_arc else np.array([a - b for a in eye for b in eye if a is not b])
    step = 1e-3 if on_arc else 0.03
    while step > 1e-7:
        trial = np.clip(x + step * turns, -1.0, 1.0) if on_arc else np.maximum(x + step * turns, 0.0)
        trial = trial if on_arc else trial / trial.sum(axis=1, keepdims=True)
        values = fit(trial)
        i = int(values.argmax())
        if values[i] > best * (1 + 1e-15):
            best, x = float(values[i]), trial[i]
        else:
            step /= 4
    return best
