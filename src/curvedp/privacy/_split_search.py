"""The largest value of a smooth function over the ways to share out a squared length between two, from few evaluations.

A split is a unit vector u with non-negative entries: factor i moves by Δ·uᵢ. What a product spends (μ_ε², ρ, …) is a
smooth function of it, close to Σuᵢ²cᵢ, fitted by polynomials of growing degree in the share of one factor; the difference
of two successive fits, where they are large, is added to the largest value of the last one. Two bounded losses make a
kink of order dim + 1, which the fit feels at about 1e-8. Where it is not good at all (ε near the largest loss), the arc
is narrowed first: what is spent grows with each distance, so on an arc from θ to θ′ it is at most its value at (cos θ,
sin θ′), and arcs on which that is below a value already seen cannot hold the worst split.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from curvedp.privacy.rounding import Array

Value = Callable[[Array], Array]  # a vector of lengths -> a row of positive numbers, increasing in each length

_GOOD = 1e-7  # a relative error that needs no finer lattice
_POOR = 1e-5
_ARCS = (5, 9, 17, 33, 65)  # directions between two factors


def largest_over_splits(value: Value, start: float = 0.0, stop: float = math.pi / 2) -> Array:
    """The supremum of each entry of `value` over the splits (cos θ, sin θ), θ from start to stop, rounded up by the error
    of the fit."""
    top, error = _on_arc(value, start, stop)
    for column in np.nonzero(error > _POOR * top)[0]:
        top[column], error[column] = _narrowed(lambda u, c=column: value(u)[c : c + 1], start, stop)  # type: ignore[misc]
    return (top + error) * (1 + 1e-12)  # the fit's own arithmetic


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


def _on_arc(value: Value, start: float, stop: float) -> tuple[Array, Array]:
    """(value, error) of each entry over an arc, by Chebyshev series in the share sin²θ of the second factor. A factor's
    loss does not see the sign of its length, so what is spent is smooth in the squared lengths, and nearly linear: half
    the degree that a series in the angle would need."""
    low, high = math.sin(start) ** 2, math.sin(stop) ** 2
    seen: dict[float, Array] = {}
    before: Array | None = None
    *lattices, fine = (-np.cos(np.pi * np.arange(size) / (size - 1)) for size in (*_ARCS, 2049))
    for points in lattices:
        for z in points.tolist():
            if z not in seen:
                share = low + (high - low) * (1 + z) / 2
                seen[z] = value(np.sqrt([max(1 - share, 0.0), share]))
        values, degree = np.array([seen[z] for z in points.tolist()]), len(points) - 1
        coefficients = np.linalg.lstsq(chebvander(points, degree), values, rcond=1e-13)[0]
        fitted = chebvander(fine, degree) @ coefficients
        top = np.maximum(fitted.max(axis=0), values.max(axis=0))
        error = np.abs(chebvander(points, degree) @ coefficients - values).max(axis=0)
        error += top if before is None else (np.abs(fitted - before) * (fitted > 0.99 * top)).max(axis=0)
        if np.all(error <= _GOOD * top):
            break
        before = fitted
    climbed = [
        _climb(lambda z, c=c: chebvander(z, degree) @ c, fine[i])  # type: ignore[misc]
        for c, i in zip(coefficients.T, fitted.argmax(axis=0), strict=True)
    ]
    return np.maximum(top, climbed), error


def _direction(theta: float) -> Array:
    """(cos θ, sin θ), with an exact 0 at the ends of the quarter circle."""
    u = np.array([math.cos(theta), math.sin(theta)])
    u[np.abs(u) < 1e-15] = 0.0
    return u


def _climb(fit: Callable[[Array], Array], z: float) -> float:
    """The largest value of a fit near a point of the fine lattice, by a pattern search with a step that shrinks."""
    best, step = float(fit(np.array([z]))[0]), 1e-3
    while step > 1e-7:
        trial = np.clip([z + step, z - step], -1.0, 1.0)
        values = fit(trial)
        i = int(values.argmax())
        if values[i] > best * (1 + 1e-15):
            best, z = float(values[i]), float(trial[i])
        else:
            step /= 4
    return best
