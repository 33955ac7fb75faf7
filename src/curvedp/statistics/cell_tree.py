"""A nested partition of a cube into cells, and consistent counts of their records. A
cell is halved along its longest side into a left and a right child, one after the other
in all lists; a *leaf* is a cell without children. Each *component* (a group of records)
has a cube of its own.

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
        The coordinate on this axis at which the cell is halved.
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
        The lengths of the sides of the cube for each component, in the unit of the
        records. A cell is halved along its longest side.
    component : list of int
        The component of each cell.
    lower, upper : lists of arrays, shape (k,)
        The corners of each cell.
    left : list of int
        The index of each cell's left child; the right child is the next one. It is -1
        for a leaf.
    axis : list of int
        The axis of the longest side of each cell, along which it is halved or would be.
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

        The tree starts with one root for each component; `split` adds two children at a
        time.

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

        A mechanism calls this for the leaves whose noisy counts are large.

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
            # The right child is always left + 1, so that it need not be stored.
            self.left[cell] = left
            children += [left, right]
        return children

    def to_arrays(self) -> CellArrays:
        """Return what `find_leaves` needs to descend in the tree, as arrays.

        These are, for each cell, its left child (-1 for a leaf), the axis along which it
        is halved, and the coordinate on this axis at which it is halved.
        """
        axis = np.array(self.axis)
        cells = np.arange(len(self))
        # A cell is a box. Of its corners only the coordinates on its axis are needed.
        lower_ends = np.array(self.lower)[cells, axis]
        upper_ends = np.array(self.upper)[cells, axis]
        return CellArrays(
            left=np.array(self.left), axis=axis, middle=(lower_ends + upper_ends) / 2
        )


def find_leaves(
    cells: CellArrays, component: np.ndarray, positions: np.ndarray
) -> np.ndarray:
    """Return the leaf in which each point lies.

    All points descend together, one level in each round. A point at or above the middle
    of its cell goes to the right child. The leaf of a point depends on this point alone,
    so that replacing one record does not change the leaf of another.

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
    cell_of_point = np.array(component, dtype=np.int64)
    # The points whose cell is not a leaf yet.
    descending = np.flatnonzero(cells.left[cell_of_point] >= 0)
    while descending.size:
        cell = cell_of_point[descending]
        is_right = positions[descending, cells.axis[cell]] >= cells.middle[cell]
        # The right child follows the left one.
        cell_of_point[descending] = cells.left[cell] + is_right
        descending = descending[cells.left[cell_of_point[descending]] >= 0]
    return cell_of_point


def consistent_counts(
    tree: CellTree, counts: np.ndarray, variances: np.ndarray, total: float
) -> np.ndarray:
    """Return nonnegative counts that add up in the tree, from the noisy counts of cells.

    Theorem Y3 (docs/theory/synthetic-records.md). Let y be the independent noisy counts
    of the cells, with variances s². The weighted least squares estimate of the true
    counts, among those in which each cell is the sum of its children and the roots add
    up to the total, is computed in two passes:

    - From the leaves up, each cell gets z = (y/s² + Z/V)/(1/s² + 1/V) with the variance
      1/(1/s² + 1/V), where Z and V are the sums of its children's z and variances.
    - From the roots down, the difference between a cell's final count and Z is divided
      among its children in proportion to their variances, and added to their z.

    On the way down a negative count is replaced by 0, and its sibling is lowered by the
    same amount. This step is not part of the theorem.

    Parameters
    ----------
    tree : CellTree
        The cells, with the children of each.
    counts : array, shape (cells,)
        The noisy counts y.
    variances : array, shape (cells,)
        Their variances s². The variance is infinite for a cell without a count, and 0
        for a cell whose count is known.
    total : float
        The number of all records, which is public.

    Returns
    -------
    array, shape (cells,)
        Nonnegative counts. The count of a cell is the sum of its children's counts, and
        the counts of the roots add up to the total.
    """
    left = np.array(tree.left)
    estimates, combined_variances = _upward_pass(left, counts, variances)
    final_counts = np.zeros(len(tree))
    n_roots = len(tree.lengths)
    final_counts[:n_roots] = _root_counts(
        estimates[:n_roots], combined_variances[:n_roots], total
    )

    # From the roots down, each parent's count is divided between its two children.
    levels = np.array(tree.level)
    for level in range(max(tree.level)):
        parents = np.flatnonzero((levels == level) & (left >= 0))
        left_child = left[parents]
        right_child = left_child + 1
        # The tiny number stands for 0, where both children are known exactly.
        variance_of_both = np.maximum(
            combined_variances[left_child] + combined_variances[right_child], 1e-300
        )
        parent_counts = final_counts[parents]
        parent_excess = parent_counts - estimates[left_child] - estimates[right_child]
        left_excess = parent_excess * combined_variances[left_child] / variance_of_both
        left_counts = estimates[left_child] + left_excess
        final_counts[left_child] = np.clip(left_counts, 0.0, parent_counts)
        final_counts[right_child] = parent_counts - final_counts[left_child]
    return final_counts


def _root_counts(
    estimates: np.ndarray, variances: np.ndarray, total: float
) -> np.ndarray:
    """Return nonnegative counts of the roots that add up to the total.

    The difference between the total and the sum of the estimates is divided among the
    roots in proportion to their variances.

    Parameters
    ----------
    estimates, variances : arrays of shape (roots,)
        The combined estimate of each root's count, and its variance.
    total : float
        The number of all records.
    """
    excess = total - estimates.sum()
    sum_of_variances = variances.sum()
    shares = np.full(len(estimates), 1 / len(estimates))
    if sum_of_variances > 0:
        shares = variances / sum_of_variances
    return project_to_simplex(estimates + excess * shares, total)


def _upward_pass(
    left: np.ndarray, counts: np.ndarray, variances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Combine each cell's noisy count with the sum of its children, from leaves to roots.

    Both are independent unbiased estimates of the true count. They are averaged with
    weights proportional to 1/variance. If their variances are a and b, the average has
    the variance ab/(a + b).

    Parameters
    ----------
    left : array of int
        The index of each cell's left child (the right one is the next), or -1.
    counts, variances : arrays
        The noisy counts and their variances; an infinite variance stands for a cell
        without a count of its own.

    Returns
    -------
    estimates, combined_variances : arrays
        The combined estimates and their variances.
    """
    estimates = np.array(counts, dtype=np.float64)
    combined_variances = np.array(variances, dtype=np.float64)
    # Children have larger indices than their parents, so they are visited first.
    for cell in np.flatnonzero(left >= 0)[::-1]:
        children = [left[cell], left[cell] + 1]
        child_sum = estimates[children].sum()
        child_variance = combined_variances[children].sum()
        own_variance = combined_variances[cell]
        if np.isinf(own_variance):
            estimates[cell] = child_sum
            combined_variances[cell] = child_variance
        elif own_variance > 0 and child_variance > 0:
            weight = child_variance / (own_variance + child_variance)
            estimates[cell] = weight * estimates[cell] + (1 - weight) * child_sum
            combined_variances[cell] = weight * own_variance
        # If one of the variances is 0, the cell keeps its own count.
    return estimates, combined_variances


def project_to_simplex(values: np.ndarray, total: float) -> np.ndarray:
    """Return the nearest nonnegative numbers that add up to a given total.

    They are max(value − t, 0) for the shift t at which they add up to the total. It is
    found from the sorted values.

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
