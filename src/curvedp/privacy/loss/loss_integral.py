"""Integrals of a positive function f of the privacy loss, over all losses in a table. The
variable of integration is the coordinate w of the table (`LossCoordinate`). Intervals
of w, called *cells*, are halved until f varies little on each.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.privacy.loss.tail_table import TailTable

# A Gauss–Legendre rule with 16 nodes on (0, 1), for integrals over one cell.
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(16)
CELL_NODES = (_LEGENDRE_NODES + 1) / 2
CELL_WEIGHTS = _LEGENDRE_WEIGHTS / 2
# Parts of an integral that are smaller than the largest one by these factors are
# negligible. The numbers are logarithms: e^-50 is 2e-22. Larger numbers are safe and
# slower.
_NEGLIGIBLE_CELL = 50  # one cell
_NEGLIGIBLE_END = 60  # the end of the table
# A cell is halved if the log integrand changes by more across it.
_STEEP_CHANGE = 8
_MOST_HALVINGS = 60  # more would halve cells below the spacing of floats
_SHORTEST_CELL = 1e-12  # relative to its end; nearly the spacing of floats
_FEWEST_CELLS = 8

LogIntegrand = Callable[[Array], Array]  # log f, a function of an array of losses


class _Cells(NamedTuple):
    """Intervals of the coordinate w; one for each array entry."""

    low: Array
    high: Array


def log_integral(table: TailTable, log_integrand: LogIntegrand, growth: float) -> float:
    """Return log ∫₀^T f(t) dt of a positive function f of the privacy loss.

    T is the largest loss. If T is infinite, the table is first extended in place until
    f is negligible at its end. Each cell is integrated with 16 nodes.

    Parameters
    ----------
    table : TailTable
        The table of the privacy loss.
    log_integrand : callable
        log f, a function of an array of losses.
    growth : float
        f(t) is about as large as e^{growth·t}·P₁(L > t).

    Returns
    -------
    float
        The logarithm of the integral.
    """
    if not table.is_bounded:
        _extend_until_negligible(table, growth)
    cells = _halve_steep_cells(table, log_integrand, _first_cells(table))

    # One quadrature rule on each cell: rows are cells, columns are nodes.
    width = (cells.high - cells.low)[:, None]
    nodes = cells.low[:, None] + width * CELL_NODES
    with np.errstate(divide="ignore"):
        log_weight = np.log(width * CELL_WEIGHTS)
    log_terms = _log_integrand_in_w(table, log_integrand, nodes) + log_weight
    return float(log_sum_exp(log_terms.ravel(), axis=0))


def _extend_until_negligible(table: TailTable, growth: float) -> None:
    """Extend the table in place until e^{growth·t}·P₁(L > t) is negligible.

    An integrand is about as large as that. Negligible means below e^-60 of the maximum.
    The privacy loss L must be unbounded.

    Parameters
    ----------
    table : TailTable
        The table of the privacy loss.
    growth : float
        The rate at which the integrand grows relative to the tail P₁(L > t).
    """
    while True:
        grid = table.grid()
        log_largest = (growth * grid + table.log_upper_tail(grid)).max()
        log_tail_at_end = table.log_upper_tail(np.array([table.end]))[0]
        log_at_end = growth * table.end + log_tail_at_end
        # Written with `not`, so that a NaN ends the loop.
        if not log_at_end > log_largest - _NEGLIGIBLE_END:
            return
        table.double_range()


def _first_cells(table: TailTable) -> _Cells:
    """Return the cells between neighboring points of the grid of a table."""
    grid_w = table.coordinate.from_loss(table.grid())
    edges = np.unique(np.concatenate([table.series.edges, grid_w]))
    # If T is huge, the last loss of the grid is rounded to T, where w is infinite.
    edges = edges[edges <= table.series.edges[-1]]
    edges = np.append(edges, table.edges_beyond)
    return _Cells(edges[:-1], edges[1:])


def _halve_steep_cells(
    table: TailTable, log_integrand: LogIntegrand, cells: _Cells
) -> _Cells:
    """Halve cells until a positive function f varies little on each.

    On each of them f must vary by less than a factor of e^8, or the quadrature rule
    would be inaccurate. Cells at whose ends f is below e^-50 of its largest value are
    dropped. At least 8 cells remain. There are at most 60 rounds of halving.

    Parameters
    ----------
    table : TailTable
        The table of the privacy loss.
    log_integrand : callable
        log f, a function of an array of losses.
    cells : _Cells
        The cells to begin with.

    Returns
    -------
    _Cells
        The remaining cells.
    """
    low, high = cells
    for _ in range(_MOST_HALVINGS):
        # Evaluate log f at both ends of every cell, in one call.
        ends = np.concatenate([low, high])
        values = _log_integrand_in_w(table, log_integrand, ends)
        at_low = values[: len(low)]
        at_high = values[len(low) :]
        larger = np.maximum(at_low, at_high)

        # Drop the negligible cells.
        matters = (larger > larger.max() - _NEGLIGIBLE_CELL) & (high > low)
        low, high = low[matters], high[matters]
        at_low, at_high = at_low[matters], at_high[matters]

        # Stop if no cell needs to be halved. A cell that is nearly as short as the
        # spacing of floats is at a jump of f, and cannot become less steep.
        is_steep = np.abs(at_low - at_high) > _STEEP_CHANGE
        has_too_few_cells = len(low) < _FEWEST_CELLS
        can_be_halved = high - low > _SHORTEST_CELL * high
        if not has_too_few_cells and not np.any(is_steep & can_be_halved):
            break

        low, high = _halve(low, high, is_steep | has_too_few_cells)
    return _Cells(low, high)


def _halve(low: Array, high: Array, is_split: NDArray[np.bool_]) -> _Cells:
    """Halve selected cells, in which an integrand varies too much for one rule.

    Parameters
    ----------
    low, high : array
        The ends of the cells.
    is_split : array of bool
        The cells to halve.

    Returns
    -------
    _Cells
        The left half takes the place of its cell, and the right half is appended.
    """
    middle = (low + high) / 2
    new_low = np.concatenate([low, middle[is_split]])
    new_high = np.concatenate([np.where(is_split, middle, high), high[is_split]])
    return _Cells(new_low, new_high)


def _log_integrand_in_w(
    table: TailTable, log_integrand: LogIntegrand, w: Array
) -> Array:
    """Return log(f(t)·dt/dw): the integrand of ∫f dt if w is the variable.

    f is a function of the privacy loss t, and w the coordinate of t in its table.

    Parameters
    ----------
    table : TailTable
        The table of the privacy loss.
    log_integrand : callable
        log f, a function of an array of losses t.
    w : array
        The coordinates of the losses.

    Returns
    -------
    array
        One logarithm for each w.
    """
    t = table.loss_at(w)
    return np.asarray(log_integrand(t) + table.coordinate.log_dt_dw(w))
