"""A nested partition of a cube into cells, and consistent counts of what is in them.

A tree of cells is split only where released counts are large, so its shape is itself a
function of released numbers. `consistent_counts` turns the noisy counts of all cells
into one measure; docs/theory/synthetic-records.md has the theorems.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class CellArrays(NamedTuple):
    """The cells of a tree as arrays with one entry for each cell.

    Attributes
    ----------
    left : array of int
        The index of the left child; the right child is the next one. It is -1 for a
        leaf.
    axis : array of int
        The axis along which the cell is halved.
    middle : array
        Where it is halved.
    """

    left: np.ndarray
    axis: np.ndarray
    middle: np.ndarray


@dataclass
class CellTree:
    """Cells of [0, 1]^k, one root for each component, halved again and again.

    Attributes
    ----------
    lengths : array, shape (components, k)
        How long a side of the cube is for each component, in the unit of the records. A
        cell is halved along the side that is longest.
    component : list of int
        The component of each cell.
    lower, upper : lists of arrays, shape (k,)
        The corners of each cell.
    left : list of int
        The index of each cell's left child; the right child is the next one. It is -1
        for a leaf.
    axis : list of int
        The axis along which each cell is halved, if it is.
    level : list of int
        How many times the root was halved to make the cell.
    """

    lengths: np.ndarray
    component: list[int] = field(default_factory=list)
    lower: list[np.ndarray] = field(default_factory=list)
    upper: list[np.ndarray] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    axis: list[int] = field(default_factory=list)
    level: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Add one root for each component: the whole cube [0, 1]^k."""
        n_components, size = self.lengths.shape
        for index in range(n_components):
            self._add(index, np.zeros(size), np.ones(size), level=0)

    def __len__(self) -> int:
        return len(self.left)

    def _add(
        self, component: int, lower: np.ndarray, upper: np.ndarray, level: int
    ) -> int:
        """Add a leaf and return its index.

        Parameters
        ----------
        component : int
            The index of the component to which the cell belongs.
        lower, upper : arrays, shape (k,)
            The corners of the cell.
        level : int
            How many times the root was halved to make the cell.

        Returns
        -------
        int
            The index of the new cell.
        """
        sides = self.lengths[component] * (upper - lower)
        self.component.append(component)
        self.lower.append(lower)
        self.upper.append(upper)
        self.left.append(-1)
        self.axis.append(int(np.argmax(sides)))
        self.level.append(level)
        return len(self.left) - 1

    def split(self, cells: list[int]) -> list[int]:
        """Halve some leaves along their longest sides.

        Parameters
        ----------
        cells : list of int
            The indices of the leaves.

        Returns
        -------
        list of int
            The indices of the children: the left and the right child of the first cell,
            then those of the second, and so on.
        """
        children = []
        for cell in cells:
            axis = self.axis[cell]
            middle = (self.lower[cell][axis] + self.upper[cell][axis]) / 2
            left_upper = self.upper[cell].copy()
            right_lower = self.lower[cell].copy()
            left_upper[axis] = middle
            right_lower[axis] = middle
            component = self.component[cell]
            level = self.level[cell] + 1
            left = self._add(component, self.lower[cell], left_upper, level)
            right = self._add(component, right_lower, self.upper[cell], level)
            self.left[cell] = left
            children += [left, right]
        return children

    def arrays(self) -> CellArrays:
        """Return the tree as arrays, with which `find_leaves` finds the leaf of a point."""
        axis = np.array(self.axis)
        cells = np.arange(len(self))
        # The ends of each cell's side along its own axis.
        lower = np.array(self.lower)[cells, axis]
        upper = np.array(self.upper)[cells, axis]
        return CellArrays(np.array(self.left), axis, (lower + upper) / 2)


def find_leaves(
    cells: CellArrays, component: np.ndarray, positions: np.ndarray
) -> np.ndarray:
    """Return the leaf in which each point lies.

    All points descend together, one level in each round: a point on or above the middle
    of its cell goes to the right child. The leaf of a point depends on that point
    alone, so that replacing a record changes no other's leaf.

    Parameters
    ----------
    cells : CellArrays
        The tree.
    component : array of int, shape (n,)
        The component of each point, which is the index of its root.
    positions : array, shape (n, k)
        The points, in [0, 1]^k.

    Returns
    -------
    array of int, shape (n,)
        The index of each point's leaf.
    """
    leaf = np.array(component, dtype=np.int64)
    rows = np.flatnonzero(cells.left[leaf] >= 0)
    while rows.size:
        cell = leaf[rows]
        is_right = positions[rows, cells.axis[cell]] >= cells.middle[cell]
        leaf[rows] = cells.left[cell] + is_right
        rows = rows[cells.left[leaf[rows]] >= 0]
    return leaf


def consistent_counts(
    tree: CellTree, counts: np.ndarray, variances: np.ndarray, total: float
) -> np.ndarray:
    """Return the nonnegative counts of all cells that add up, from noisy ones.

    Theorem Y3 (docs/theory/synthetic-records.md). Let y be the independent noisy counts
    of the cells, with variances s². The weighted least squares estimate of the true
    counts, among those in which each cell is the sum of its children and the roots add
    up to the total, is found in two passes:

    - upwards, z = (y/s² + Z/V)/(1/s² + 1/V) with the variance 1/(1/s² + 1/V), where Z
      and V are the sums of the children's z and variances;
    - downwards, each child gets z plus its share, in proportion to its variance, of
      what its parent has more than Z.

    On the way down, what is below 0 is raised to it, and the sibling lowered by as
    much.

    Parameters
    ----------
    tree : CellTree
        The cells, with the children of each.
    counts : array, shape (cells,)
        The noisy counts y.
    variances : array, shape (cells,)
        Their variances s²; infinite for a cell without a count, and 0 where it is
        known.
    total : float
        The number of all records, which is public.

    Returns
    -------
    array, shape (cells,)
        Nonnegative counts; each cell has the sum of its children, and the roots have
        the total.
    """
    left = np.array(tree.left)
    estimates, spreads = _upward_pass(left, counts, variances)

    # The roots share what the total has more than their estimates, by their variances.
    result = np.zeros(len(tree))
    n_roots = len(tree.lengths)
    roots = np.arange(n_roots)
    excess = total - estimates[roots].sum()
    root_spread = spreads[roots].sum()
    shares = np.full(n_roots, 1 / n_roots)
    if root_spread > 0:
        shares = spreads[roots] / root_spread
    result[roots] = project_to_simplex(estimates[roots] + excess * shares, total)

    # Downwards, the two children of each parent share its excess in the same way.
    levels = np.array(tree.level)
    for level in range(max(tree.level)):
        parents = np.flatnonzero((levels == level) & (left >= 0))
        first = left[parents]
        second = first + 1
        # The tiny number stands for 0, where both children are known exactly.
        spread = np.maximum(spreads[first] + spreads[second], 1e-300)
        excess_of_parents = result[parents] - estimates[first] - estimates[second]
        first_counts = estimates[first] + excess_of_parents * spreads[first] / spread
        result[first] = np.clip(first_counts, 0.0, result[parents])
        result[second] = result[parents] - result[first]
    return result


def _upward_pass(
    left: np.ndarray, counts: np.ndarray, variances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Combine each cell's own count with the sum of its children, from leaves to roots.

    Two independent unbiased estimates are averaged with weights that are inverse to
    their variances; the variance of the average is the product over the sum.

    Parameters
    ----------
    left : array of int
        The index of each cell's left child (the right one is the next), or -1.
    counts, variances : arrays
        The noisy counts and their variances; an infinite variance stands for a cell
        without a count of its own.

    Returns
    -------
    estimates, spreads : arrays
        The combined estimates and their variances.
    """
    estimates = np.array(counts, dtype=np.float64)
    spreads = np.array(variances, dtype=np.float64)
    # Children come after their parents.
    for cell in np.flatnonzero(left >= 0)[::-1]:
        children = [left[cell], left[cell] + 1]
        child_sum = estimates[children].sum()
        child_spread = spreads[children].sum()
        own_spread = spreads[cell]
        if np.isinf(own_spread):
            estimates[cell], spreads[cell] = child_sum, child_spread
        elif own_spread > 0 and child_spread > 0:
            weight = child_spread / (own_spread + child_spread)
            estimates[cell] = weight * estimates[cell] + (1 - weight) * child_sum
            spreads[cell] = weight * own_spread
    return estimates, spreads


def project_to_simplex(values: np.ndarray, total: float) -> np.ndarray:
    """Return the nearest nonnegative numbers that add up to a total.

    The nearest ones are max(values − t, 0) with the same shift t for all; sorting finds
    the t at which they add up.

    Parameters
    ----------
    values : array, shape (k,)
        Any numbers.
    total : float
        The sum of the result, nonnegative.

    Returns
    -------
    array, shape (k,)
        The projection in the Euclidean norm.
    """
    ordered = np.sort(values)[::-1]
    # The shift t if exactly the k largest numbers stay positive, for k = 1, 2, ….
    shifts = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    # The right k is the last one whose smallest positive number stays positive.
    last_positive = int(np.flatnonzero(ordered > shifts)[-1]) if total > 0 else 0
    return np.asarray(np.maximum(values - shifts[last_positive], 0.0))
