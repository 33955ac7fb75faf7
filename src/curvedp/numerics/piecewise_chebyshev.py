"""Functions of one variable, stored as polynomials on short intervals. An interval is
cut into panels. On each panel, every function is a Chebyshev series of degree 23
through its values at 24 nodes, and a panel is halved until the last coefficients of its
series vanish.

See Trefethen, *Approximation Theory and Approximation Practice*, 2013.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.errors import NotResolved
from curvedp.numerics.directed_rounding import Array

# Size of the last coefficients that counts as zero, relative to the largest value in
# the panel or to 1.
RESOLUTION = 1e-12

# The Chebyshev nodes on [−1, 1], and the matrix that turns the values at them into the
# coefficients of the series: c_k = 2/24·Σ_j f(cos θ_j)·cos(kθ_j), half of it for k = 0.
_N_NODES = 24
_INDEX = np.arange(_N_NODES)
_ANGLES = np.pi * (_INDEX + 0.5) / _N_NODES
_NODES = np.cos(_ANGLES)
_TO_COEFFICIENTS = 2.0 / _N_NODES * np.cos(np.outer(_INDEX, _ANGLES))
_TO_COEFFICIENTS[0] /= 2

# The logarithm of 0 is replaced by this number, so that coefficients stay finite.
_STAND_IN_FOR_MINUS_INFINITY = -1e300

_MAX_HALVINGS = 40
# If the functions are noisy, a panel is halved at most so often. Last coefficients that
# are still large then are the noise of the functions.
_MAX_COARSE_HALVINGS = 20


def _last_coefficients(coefficients: Array) -> Array:
    """Return the size of the last three coefficients, for each panel and function.

    It estimates the error of a Chebyshev series, which is cut off after them.

    Parameters
    ----------
    coefficients : array, shape (panels, functions, 24)
        Chebyshev coefficients.

    Returns
    -------
    array, shape (panels, functions)
        The size of the end of each series.
    """
    return np.asarray(np.abs(coefficients[:, :, -3:]).max(axis=2))


class _Locations(NamedTuple):
    """Where points lie among the panels: one entry for each point in every field."""

    panel: Array  # the index of the panel that contains the point
    z: Array  # the coordinate of the point on its panel, from −1 to 1
    dz_dx: Array  # 2/width of the panel
    distance_beyond: Array  # how far the point lies beyond the last panel; 0 within


class PiecewiseChebyshev:
    """Chebyshev series of several functions of one variable, on common panels.

    Parameters
    ----------
    functions : callable
        Takes a flat array and returns one array of values for each function.
    argument_rounding : callable
        What one rounding of the argument is worth at each point, in units of 2^-50:
        changes of the values by that much are not resolved.
    resolution : float
        Relative error of the functions. Above `RESOLUTION` the values are noisy, and
        halving may end before they are resolved (see `unresolved`).
    lowest_value : float
        Values of the first function below it do not matter.

    Attributes
    ----------
    edges : array
        The ends of the panels, increasing.
    unresolved : float
        The largest last coefficient that halving did not remove: an error of the
        values.
    """

    def __init__(
        self,
        functions: Callable[[Array], Any],
        argument_rounding: Callable[[Array], Array],
        resolution: float,
        lowest_value: float,
    ) -> None:
        """Store the functions; the series has no panel until `add` is called.

        Parameters
        ----------
        functions : callable
            Takes a flat array and returns one array of values for each function.
        argument_rounding : callable
            By how much rounding changes the argument, in units of 2^-50.
        resolution : float
            The relative error that the functions have.
        lowest_value : float
            Values of the first function below it do not matter.
        """
        self._functions = functions
        self._argument_rounding = argument_rounding
        self._resolution = resolution
        self._lowest_value = lowest_value
        self._coefficients = np.empty(0)
        self.edges = np.empty(0)
        self.unresolved = 0.0

    @property
    def end(self) -> float:
        """The right end of the last panel."""
        return float(self.edges[-1])

    def add(self, edges: Array) -> None:
        """Lay panels between the given edges, refined until they resolve the functions.

        A panel is an interval with one Chebyshev series for each function. New panels
        are appended to the existing ones.

        Parameters
        ----------
        edges : array
            Increasing points. The first one is the end of the existing panels, if there
            are any.
        """
        lows, highs, coefficients = self._halve_until_resolved(edges[:-1], edges[1:])

        # Append the new panels in increasing order.
        order = np.argsort(lows)
        if len(self.edges):
            self.edges = np.concatenate([self.edges, highs[order]])
            self._coefficients = np.concatenate(
                [self._coefficients, coefficients[order]]
            )
        else:
            self.edges = np.append(lows[order], highs[order][-1])
            self._coefficients = coefficients[order]

    def with_function(self, function: Callable[[Array], Array]) -> "PiecewiseChebyshev":
        """Return the series of another function on the panels of this one.

        Use this for a function that is as smooth as those of this series: no panel is
        halved, so that 24 evaluations on each panel are enough.

        Parameters
        ----------
        function : callable
            A function from arrays to arrays.

        Returns
        -------
        PiecewiseChebyshev
            The new series; this one is not changed.
        """
        other = PiecewiseChebyshev(
            lambda points: (function(points),),
            self._argument_rounding,
            self._resolution,
            self._lowest_value,
        )
        other.edges = self.edges
        _, other._coefficients = other._interpolate(self.edges[:-1], self.edges[1:])
        return other

    def _interpolate(self, lows: Array, highs: Array) -> tuple[Array, Array]:
        """Return the values at the nodes of panels, and the series through them.

        Panels are refined and evaluated by these coefficients.

        Parameters
        ----------
        lows : array
            The left ends of the panels.
        highs : array
            The right ends of the panels.

        Returns
        -------
        values : array, shape (panels, functions, 24)
            The values at the nodes; −infinity is replaced by −1e300.
        coefficients : array, shape (panels, functions, 24)
            The coefficients, from degree 0 to degree 23.
        """
        centers = (lows + highs)[:, None] / 2
        half_widths = (highs - lows)[:, None] / 2
        nodes = centers + half_widths * _NODES

        # Evaluate all functions at all nodes; the axes are panels, functions and nodes.
        results = self._functions(nodes.ravel())
        stacked = np.stack([result.reshape(nodes.shape) for result in results], axis=1)
        values = np.maximum(stacked, _STAND_IN_FOR_MINUS_INFINITY)
        return values, values @ _TO_COEFFICIENTS.T

    def _halve_until_resolved(
        self, lows: Array, highs: Array
    ) -> tuple[Array, Array, Array]:
        """Halve panels until each of them resolves the functions.

        A panel resolves a function if the last coefficients of its series vanish
        (`_is_resolved`).

        Parameters
        ----------
        lows, highs : array
            The ends of the panels.

        Returns
        -------
        lows, highs : array
            The ends of the refined panels, in no particular order.
        coefficients : array, shape (panels, functions, 24)
            The Chebyshev coefficients on each of them.
        """
        finished_lows = []
        finished_highs = []
        finished_coefficients = []

        for n_halvings in range(_MAX_HALVINGS):
            values, coefficients = self._interpolate(lows, highs)
            is_finished = self._is_resolved(values, coefficients, lows, highs)
            # Noise cannot be resolved: record it, and stop halving.
            if self._is_noisy and n_halvings >= _MAX_COARSE_HALVINGS:
                self._record_noise(values, coefficients, is_finished)
                is_finished[:] = True

            # Keep the finished panels.
            finished_lows.append(lows[is_finished])
            finished_highs.append(highs[is_finished])
            finished_coefficients.append(coefficients[is_finished])
            if np.all(is_finished):
                return (
                    np.concatenate(finished_lows),
                    np.concatenate(finished_highs),
                    np.concatenate(finished_coefficients),
                )

            # Both halves of each panel that is not finished.
            middles = (lows + highs)[~is_finished] / 2
            lows = np.concatenate([lows[~is_finished], middles])
            highs = np.concatenate([middles, highs[~is_finished]])
        raise NotResolved("the tails of the privacy loss could not be resolved")

    @property
    def _is_noisy(self) -> bool:
        """Whether the functions have a larger relative error than 1e-12.

        Then the last coefficients of a series do not vanish, however short its panel.
        """
        return self._resolution > RESOLUTION

    def _is_resolved(
        self, values: Array, coefficients: Array, lows: Array, highs: Array
    ) -> NDArray[np.bool_]:
        """Return which panels need not be halved.

        A panel is resolved if the last three coefficients of every function are below
        `_allowed_error`. With noisy functions, a panel also counts as resolved if the
        first function is far below `lowest_value` on it. That happens next to the end
        of the support of a sum of losses, where a tail drops to 0 too steeply for any
        panel.

        A larger tolerance would make the series less accurate than `resolution` says.

        Parameters
        ----------
        values : array, shape (panels, functions, 24)
            The values at the nodes.
        coefficients : array, shape (panels, functions, 24)
            The Chebyshev coefficients.
        lows : array, shape (panels,)
            The left ends of the panels.
        highs : array, shape (panels,)
            The right ends of the panels.

        Returns
        -------
        array of bool, shape (panels,)
            One truth value for each panel.
        """
        last = _last_coefficients(coefficients)
        allowed_error = self._allowed_error(values, lows, highs)
        is_resolved = np.all(last <= allowed_error, axis=1)

        if self._is_noisy:
            is_resolved |= values[:, 0].max(axis=1) < 2 * self._lowest_value
        return np.asarray(is_resolved)

    def _record_noise(
        self, values: Array, coefficients: Array, is_resolved: NDArray[np.bool_]
    ) -> None:
        """Raise `unresolved` to the last coefficients of panels that are not resolved.

        Panels on which the first function is below `lowest_value` do not count.

        Parameters
        ----------
        values : array, shape (panels, functions, 24)
            The values at the nodes.
        coefficients : array, shape (panels, functions, 24)
            The Chebyshev coefficients.
        is_resolved : array of bool, shape (panels,)
            Whether a panel is resolved, for each panel.
        """
        matters = ~is_resolved & (values[:, 0].max(axis=1) > self._lowest_value)
        last = _last_coefficients(coefficients)
        noise = float(np.max(last[matters], initial=0.0))
        self.unresolved = max(self.unresolved, noise)

    def _allowed_error(self, values: Array, lows: Array, highs: Array) -> Array:
        """Return how large the last coefficients of resolved panels may be.

        A panel with larger ones is halved. The bound is the resolution relative to the
        values, plus what rounding the argument does to them.

        Parameters
        ----------
        values : array, shape (panels, functions, 24)
            The values at the nodes.
        lows, highs : array
            The ends of the panels.

        Returns
        -------
        array, shape (panels, functions)
            The bounds.
        """
        size = np.maximum(np.abs(values).max(axis=2), 1.0)
        steepness = np.ptp(values, axis=2) / (highs - lows)[:, None]
        # The slope times what one rounding changes the argument, in units of 2^-50.
        rounding = 2.0**-50 * self._argument_rounding(highs)[:, None] * steepness
        return np.asarray(self._resolution * size + rounding)

    def _locate(self, x: Array) -> _Locations:
        """Find the panel of each point, and its place on the panel.

        Evaluation starts with this step.

        Parameters
        ----------
        x : array
            The points.

        Returns
        -------
        _Locations
            Points outside of all panels belong to the first or the last panel.
        """
        inside = np.minimum(x, self.edges[-1])
        last_edge_before = np.searchsorted(self.edges, inside, side="right") - 1
        panel = np.clip(last_edge_before, 0, len(self._coefficients) - 1)

        low = self.edges[panel]
        high = self.edges[panel + 1]
        z = np.clip((2 * inside - low - high) / (high - low), -1.0, 1.0)
        distance_beyond = np.where(np.isfinite(x), x - inside, 0.0)
        return _Locations(panel, z, 2 / (high - low), distance_beyond)

    def value(self, x: Array, function_index: int) -> Array:
        """Evaluate one of the functions by Clenshaw's recurrence.

        With the coefficients cₖ of the panel and its coordinate z in [−1, 1], the sums
        bₖ = cₖ + 2z·bₖ₊₁ − bₖ₊₂ run from the highest degree down, and the value is c₀ +
        z·b₁ − b₂.

        Parameters
        ----------
        x : array
            Points. Beyond the last panel, the value at its end is returned.
        function_index : int
            The index of the function.

        Returns
        -------
        array
            The values, of the shape of `x`.
        """
        panel, z, _, _ = self._locate(x)
        coefficients = self._coefficients[:, function_index].T
        two_z = 2 * z
        # After the step of degree k, `sum_now` is b_k and `sum_before` is b_{k+1}.
        sum_now = sum_before = np.zeros_like(z)
        for degree in range(_N_NODES - 1, 0, -1):
            next_sum = coefficients[degree].take(panel) + two_z * sum_now - sum_before
            sum_before = sum_now
            sum_now = next_sum
        return np.asarray(coefficients[0].take(panel) + z * sum_now - sum_before)

    def value_and_slope(
        self, x: Array, function_index: int
    ) -> tuple[Array, Array, Array]:
        """Evaluate one of the functions and its derivative.

        Clenshaw's recurrence (see `value`) is differentiated term by term.

        Parameters
        ----------
        x : array
            Points. Beyond the last panel, the function is continued linearly.
        function_index : int
            The index of the function.

        Returns
        -------
        value, slope : array
            The function and its derivative.
        distance_beyond : array
            How far each point lies beyond the last panel; 0 within the panels.
        """
        # Locate the points in their panels.
        panel, z, dz_dx, distance_beyond = self._locate(x)
        coefficients = self._coefficients[:, function_index].T
        two_z = 2 * z
        sum_now = sum_before = slope_now = slope_before = np.zeros_like(z)
        # From the highest degree k down, with b_{n} = b_{n+1} = 0:
        #     b_k = c_k + 2z·b_{k+1} − b_{k+2},
        #     b′_k = 2b_{k+1} + 2z·b′_{k+1} − b′_{k+2}.
        # `sum_now` and `sum_before` are b_{k+1} and b_{k+2}, and slopes are b′.
        for degree in range(_N_NODES - 1, 0, -1):
            next_slope = 2 * sum_now + two_z * slope_now - slope_before
            slope_before = slope_now
            slope_now = next_slope

            next_sum = coefficients[degree].take(panel) + two_z * sum_now - sum_before
            sum_before = sum_now
            sum_now = next_sum

        # The last step gives the derivative and the value. Beyond the last panel the
        # function is continued linearly.
        slope = (sum_now + z * slope_now - slope_before) * dz_dx
        value_on_panel = coefficients[0].take(panel) + z * sum_now - sum_before
        return value_on_panel + slope * distance_beyond, slope, distance_beyond
