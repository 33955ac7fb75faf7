"""Find the worst split of the sensitivity over the two parts of a product of spaces. A
*split* is a pair of lengths, (cos θ, sin θ) up to a factor. Its *cost* is a privacy
parameter, such as μ², that increases with both lengths. An *arc* is an interval of θ.

`largest_over_splits` fits polynomials to the cost, at few splits, and raises their
maximum by the error of the fit (docs/theory/exact-profiles.md, "Products and SPD
matrices").
"""

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from curvedp.numerics.directed_rounding import NINE_ROUNDINGS, Array

# A function of a split (a pair of lengths) that returns a row of positive numbers, each
# of which increases with either length. A number is the privacy parameter of the split
# (such as μ²) in one definition of privacy, or at one ε.
CostOfSplit = Callable[[Array], Array]

_GOOD_ERROR = 1e-7  # a relative error of the fit that is good enough
_POOR_ERROR = 1e-5  # a larger relative error makes the search narrow the arc
_NEGLIGIBLE_SINGULAR_VALUE = 1e-13  # relative, in the least squares of a fit
_FIT_SIZES = (5, 9, 17, 33, 65)  # numbers of splits to which polynomials are fitted
_MOST_NARROWINGS = 12  # times that the arc is narrowed; fewer are usual
_SHORTER_ARCS = 12  # into which an arc is divided to narrow it
_FINE_GRID_SIZE = 2049  # points at which a fit is searched for its maximum
_NEAR_MAXIMUM = 0.99  # fraction of the maximum beyond which errors of a fit count
# The first and the last step of the search for a maximum of a fit on [−1, 1]. The fine
# grid has cells of about 1e-3; an error of 1e-7 in z changes a maximum by 1e-14.
_FIRST_CLIMB_STEP = 1e-3
_LAST_CLIMB_STEP = 1e-7
_STEP_DIVISOR = 4  # by which a step is divided if it does not lead uphill
_FIT_ROUNDING = 1e-12  # covers the arithmetic of a fit, relative


class Arc(NamedTuple):
    """The splits (cos θ, sin θ) with start <= θ <= stop."""

    start: float
    stop: float


class _Supremum(NamedTuple):
    """The largest value of each entry of a cost over an arc."""

    value: Array
    error: Array  # an estimate of how far the value may be below the supremum


def largest_over_splits(
    cost: CostOfSplit, start: float = 0.0, stop: float = math.pi / 2
) -> Array:
    """Return the supremum of a cost over all splits, raised by an error estimate.

    The result may be too large only: tests/privacy/test_products.py checks that no
    split exceeds it.

    Parameters
    ----------
    cost : CostOfSplit
        A function of the split (cos θ, sin θ) that returns a row of positive numbers,
        each increasing in both lengths.
    start : float
        The smallest angle θ of a split, >= 0.
    stop : float
        The largest angle θ of a split, <= π/2.

    Returns
    -------
    array
        The suprema, one for each entry of the cost.
    """
    arc = Arc(start, stop)
    value, error = _fit_over_arc(cost, arc)

    # Entries that one polynomial fits poorly get a search of their own.
    poorly_fitted = np.nonzero(error > _POOR_ERROR * value)[0]
    for entry in poorly_fitted.tolist():
        supremum = _fit_over_narrowed_arc(_select_entry(cost, entry), arc)
        value[entry] = supremum.value[0]
        error[entry] = supremum.error[0]
    return (value + error) * (1 + _FIT_ROUNDING)


def _select_entry(cost: CostOfSplit, entry: int) -> CostOfSplit:
    """Return a function that computes one entry of a cost, and drops the others.

    Parameters
    ----------
    cost : callable
        A function of a split that returns a row of numbers.
    entry : int
        The position, in that row, of the number to keep.

    Returns
    -------
    callable
        A function of a split that returns an array with one number.
    """

    def one_entry(split: Array) -> Array:
        """Return the kept entry of the cost, as an array of length 1."""
        return cost(split)[entry : entry + 1]

    return one_entry


def _fit_over_narrowed_arc(cost: CostOfSplit, arc: Arc) -> _Supremum:
    """Return the supremum of a cost with one entry, over arcs that get shorter.

    It is for a cost that a polynomial fits poorly over the whole arc, as happens for ε
    near the largest privacy loss. The arc is narrowed up to 12 times, until the fit is
    good or the arc no longer shrinks.

    Parameters
    ----------
    cost : callable
        The cost, as a function of the split (cos θ, sin θ).
    arc : Arc
        The splits in question.

    Returns
    -------
    _Supremum
        The largest value over the last arc, and the error of its fit.
    """
    supremum: _Supremum | None = None
    for _ in range(_MOST_NARROWINGS):
        narrowed = _narrow(cost, arc)
        if supremum is not None and narrowed == arc:
            return supremum

        arc = narrowed
        supremum = _fit_over_arc(cost, arc)
        if supremum.error[0] <= _POOR_ERROR * supremum.value[0]:
            return supremum

    assert supremum is not None
    return supremum


def _narrow(cost: CostOfSplit, arc: Arc) -> Arc:
    """Return a shorter arc that contains the worst split too.

    The cost increases with both lengths. So between θ and θ′ > θ it is at most the cost
    at (cos θ, sin θ′). Of 12 shorter arcs, one where this bound is below a known value
    of the cost cannot contain the worst split. Such arcs are dropped at both ends, and
    for no other reason may an arc be dropped.

    Parameters
    ----------
    cost : callable
        The cost, as a function of the split (cos θ, sin θ); it has one entry.
    arc : Arc
        The arc to narrow.

    Returns
    -------
    Arc
        The narrowed arc, or the same one.
    """
    theta = np.linspace(arc.start, arc.stop, _SHORTER_ARCS + 1)
    largest_known_value = max(float(cost(_direction(angle))[0]) for angle in theta)
    upper_bounds = [
        float(cost(np.array([math.cos(left), math.sin(right)]))[0])
        for left, right in pairwise(theta)
    ]

    # Keep the shorter arcs that may contain the worst split, and those between.
    may_contain_worst = np.array(upper_bounds) >= largest_known_value
    possible_arcs = np.nonzero(may_contain_worst)[0]
    first, last = possible_arcs[0], possible_arcs[-1]
    return Arc(float(theta[first]), float(theta[last + 1]))


def _fit_over_arc(cost: CostOfSplit, arc: Arc) -> _Supremum:
    """Return the largest value of a cost over an arc, by a polynomial fit.

    The cost is fitted by a Chebyshev series in sin²θ, the square of the second length.
    Since the privacy loss does not depend on the sign of a length, the cost is smooth
    in the squares, and nearly linear. The number of splits grows until the error of the
    fit is small: its residual, plus the difference from the fit before.

    Parameters
    ----------
    cost : callable
        The cost, as a function of the split (cos θ, sin θ).
    arc : Arc
        The splits in question.

    Returns
    -------
    _Supremum
        The largest value of each entry, and the error of the last fit.
    """
    cost_at = _cost_of_chebyshev_point(cost, arc)
    fine_points = _chebyshev_points(_FINE_GRID_SIZE)
    previous_fit: Array | None = None

    for size in _FIT_SIZES:
        points = _chebyshev_points(size)
        values = np.array([cost_at(z) for z in points.tolist()])

        # Fit a polynomial to the values.
        degree = size - 1
        basis = chebvander(points, degree)
        coefficients, *_ = np.linalg.lstsq(
            basis, values, rcond=_NEGLIGIBLE_SINGULAR_VALUE
        )

        # The maximum of the fit on a fine grid, or of the values themselves.
        fit = chebvander(fine_points, degree) @ coefficients
        largest = np.maximum(fit.max(axis=0), values.max(axis=0))
        residual = np.abs(basis @ coefficients - values).max(axis=0)
        error = residual + _difference_near_maximum(fit, previous_fit, largest)
        if np.all(error <= _GOOD_ERROR * largest):
            break
        previous_fit = fit

    # Climb from the best point of the fine grid to the maximum between grid points.
    maxima = [
        _climb_to_maximum(column, fine_points[best])
        for column, best in zip(coefficients.T, fit.argmax(axis=0), strict=True)
    ]
    return _Supremum(np.maximum(largest, maxima), error)


def _cost_of_chebyshev_point(cost: CostOfSplit, arc: Arc) -> Callable[[float], Array]:
    """Return the cost as a function of a number z in [−1, 1], computed once for each z.

    Polynomials in z are fitted to it. z stands for the split of the arc with
    sin²θ = low + (high − low)·(1 + z)/2, where low and high are the values of sin²θ at
    the two ends.

    Parameters
    ----------
    cost : callable
        The cost, as a function of the split (cos θ, sin θ).
    arc : Arc
        The splits in question.

    Returns
    -------
    callable
        A function from z to the row of costs.
    """
    low = math.sin(arc.start) ** 2
    high = math.sin(arc.stop) ** 2

    @cache
    def cost_at(z: float) -> Array:
        """Return the row of costs of the split that belongs to z."""
        sin_square = low + (high - low) * (1 + z) / 2
        split = np.sqrt([max(1 - sin_square, 0.0), sin_square])
        return cost(split)

    return cost_at


def _difference_near_maximum(
    fit: Array, previous_fit: Array | None, largest: Array
) -> Array:
    """Return by how much two polynomial fits differ where they are near the maximum.

    It estimates the error of the fit `fit`. If there is no previous fit, the maximum
    itself is returned as the error.

    Parameters
    ----------
    fit : array, shape (n_points, n_entries)
        Values of a polynomial for each of several functions (entries of a cost).
    previous_fit : array or None
        Values of polynomials of lower degree at the same points; None if there are none
        yet.
    largest : array, shape (n_entries,)
        The maximum of each function.

    Returns
    -------
    array, shape (n_entries,)
        The largest difference, >= 0, among points at which the fit is above 99 % of the
        maximum.
    """
    if previous_fit is None:
        return largest
    is_near_maximum = fit > _NEAR_MAXIMUM * largest
    return np.asarray((np.abs(fit - previous_fit) * is_near_maximum).max(axis=0))


def _chebyshev_points(size: int) -> Array:
    """Return the extrema −cos(πj/(size − 1)) of a Chebyshev polynomial.

    A polynomial through values at these points is close to the best fit. Here j = 0, …,
    size − 1. They increase from −1 to 1 and are denser near the ends.

    Parameters
    ----------
    size : int
        The number of points, at least 2.

    Returns
    -------
    array, shape (size,)
        The points.
    """
    return -np.cos(np.pi * np.arange(size) / (size - 1))


def _direction(theta: float) -> Array:
    """Return (cos θ, sin θ), with an exact 0 in place of a rounding error.

    Parameters
    ----------
    theta : float
        The angle θ in [0, π/2].

    Returns
    -------
    array, shape (2,)
        The direction.
    """
    direction = np.array([math.cos(theta), math.sin(theta)])
    # cos(π/2) is 6e-17 in floats. An exact 0 means that this part does not change.
    direction[np.abs(direction) < NINE_ROUNDINGS] = 0.0
    return direction


def _climb_to_maximum(coefficients: Array, z: float) -> float:
    """Return the value of a Chebyshev series at a local maximum near z.

    The maximum of a fitted cost lies between the points of a grid. The search tries one
    step to either side. It moves there if the series is larger, and divides the step by
    4 otherwise, from 1e-3 down to 1e-7.

    Parameters
    ----------
    coefficients : array
        The coefficients of the series on [−1, 1].
    z : float
        The point at which the search starts.

    Returns
    -------
    float
        The largest value that was evaluated.
    """
    # Evaluate the series at the start.
    degree = len(coefficients) - 1
    largest = float((chebvander(np.array([z]), degree) @ coefficients)[0])

    # Move uphill, with shorter and shorter steps.
    step = _FIRST_CLIMB_STEP
    while step > _LAST_CLIMB_STEP:
        candidates = np.clip([z + step, z - step], -1.0, 1.0)
        values = chebvander(candidates, degree) @ coefficients
        best = int(values.argmax())
        if values[best] > largest * (1 + NINE_ROUNDINGS):
            largest = float(values[best])
            z = float(candidates[best])
        else:
            step /= _STEP_DIVISOR
    return largest
