"""The mean logarithm of records in hyperbolic space, with their mean square distance and
mean Hessian, as one vector of little more sensitivity than the mean logarithm alone.

The last of several Newton steps releases this vector (`curvedp.mechanisms.newton`). The
mean square distance and the mean Hessian make confidence regions narrow
(`curvedp.inference.newton_regions`). The theorem is in docs/theory/inference.md, "The
mean Hessian costs little".
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from curvedp.core.chart import CHART_ERROR
from curvedp.statistics.second_moment import vector_to_symmetric

# The further entries raise the squared sensitivity of the mean logarithm by at most
# this fraction, so that its noise grows by at most 4 %. The value is a choice.
_ADDED_SQUARE = 0.08

# The squared weights of the further entries if the point is the center of the ball. The
# theorem needs ½ for the matrix and at most 2.77 for all of them together.
_MATRIX_SQUARE = 0.5
_SCALAR_SQUARE = 1.125

# Below this distance, in radii of curvature, s·coth(s) − 1 is computed by its series,
# because the subtraction would cancel.
_SERIES_BELOW = 0.1

# Relative margins for rounding: of the theorem's bound, and of the further entries,
# whose Lipschitz constant as functions of the logarithm is below 4.
_ROUNDING = 1e-9
_LIPSCHITZ = 4.0


def hessian_excess(distance: Any) -> np.ndarray:
    """Return s·coth(s) − 1, accurately for small s too.

    In the hyperbolic space of curvature −1, half the squared distance to a point at
    distance s has the Hessian 1 along the geodesic to the point, and s·coth(s) across
    it. The excess over 1 increases from 0 and is concave in s².

    Parameters
    ----------
    distance : float or array
        s ≥ 0, the distance in radii of curvature.

    Returns
    -------
    array
        The excess for each distance.

    Examples
    --------
    >>> float(hessian_excess(1.0).round(6)), float(hessian_excess(1e-8) * 3e16)
    (0.313035, 1.0)
    """
    s = np.asarray(distance, dtype=np.float64)
    square = np.minimum(s, _SERIES_BELOW) ** 2
    # The expansion s²/3 − s⁴/45 + 2s⁶/945 − s⁸/4725 + 2s¹⁰/93555.
    series = square * (
        1 / 3
        - square
        * (1 / 45 - square * (2 / 945 - square * (1 / 4725 - square * 2 / 93555)))
    )
    far = np.maximum(s, _SERIES_BELOW)
    return np.where(s < _SERIES_BELOW, series, far / np.tanh(far) - 1)


class HyperbolicMoments(NamedTuple):
    """What a released vector says, with the noise of each part.

    Attributes
    ----------
    mean_log : array, shape (runs, dim)
        The mean logarithm of the records.
    mean_square : array, shape (runs,)
        Their mean square distance m².
    mean_square_std : array, shape (runs,)
        The standard deviation of the noise of `mean_square`.
    mean_excess : array, shape (runs,)
        T, the mean Hessian excess t of the records.
    mean_excess_std : array, shape (runs,)
        The standard deviation of the noise of `mean_excess`.
    excess_matrix : array, shape (runs, dim, dim)
        The mean of t·uuᵀ over the records, where u is the direction to a record.
    excess_matrix_std : array, shape (runs,)
        The standard deviation of its noise in each orthonormal coordinate of the
        symmetric matrices.
    """

    mean_log: np.ndarray
    mean_square: np.ndarray
    mean_square_std: np.ndarray
    mean_excess: np.ndarray
    mean_excess_std: np.ndarray
    excess_matrix: np.ndarray
    excess_matrix_std: np.ndarray


@dataclass(frozen=True, eq=False)
class HyperbolicMomentVector:
    """The vectors of records at public points, whose mean is released.

    A record at distance s in the direction u from the point, with the logarithm z =
    s·u, has the vector

        (z, a·ρ·φ(s)·uuᵀ, b·ρ·s²/ρ², b·ρ·φ(s)),

    where ρ is the largest distance that a record can have from the point, and φ(s) =
    t(s)/t(ρ) is its Hessian excess t relative to the largest one.

    Theorem (docs/theory/inference.md, "The mean Hessian costs little"). Let the records
    lie in a ball of radius r whose center is at distance δ from the point, so that ρ =
    r + δ. For 0 ≤ τ ≤ 1, a² = τ/2 and b² = 9τ/8 the vectors of two records are at most
    2·√((1 − τ)·r² + τ·ρ²) apart. The logarithms alone can be 2r apart.

    The weight τ is the largest one that raises the squared sensitivity by at most 8 %.

    Attributes
    ----------
    dim : int
        The dimension of the hyperbolic space.
    root_curvature : float
        √−κ for the curvature κ: distances times this number are in radii of curvature.
    radius : float
        r, the radius of the ball of the records.
    center_distance : array, shape (runs,)
        δ, the distance of each public point from the center of the ball.
    """

    dim: int
    root_curvature: float
    radius: float
    center_distance: np.ndarray

    @property
    def size(self) -> int:
        """The number of entries of a vector."""
        return self.dim + self._n_matrix_entries + 2

    @property
    def _n_matrix_entries(self) -> int:
        """The number of orthonormal coordinates of symmetric matrices."""
        return self.dim * (self.dim + 1) // 2

    @cached_property
    def max_distance(self) -> np.ndarray:
        """ρ, the largest distance of a record from each point."""
        return np.asarray(self.radius + self.center_distance, dtype=np.float64)

    @cached_property
    def weight(self) -> np.ndarray:
        """τ for each point, between 0 and 1; it is 1 at the center of the ball."""
        increase = (self.max_distance / self.radius) ** 2 - 1
        return np.asarray(_ADDED_SQUARE / np.maximum(increase, _ADDED_SQUARE))

    @cached_property
    def largest_excess(self) -> np.ndarray:
        """t(ρ), the largest Hessian excess that a record can have at each point."""
        return hessian_excess(self.root_curvature * self.max_distance)

    @property
    def _matrix_weight(self) -> np.ndarray:
        """a for each point."""
        return np.sqrt(_MATRIX_SQUARE * self.weight)

    @property
    def _scalar_weight(self) -> np.ndarray:
        """b for each point."""
        return np.sqrt(_SCALAR_SQUARE * self.weight)

    def sensitivity(self, n: int) -> np.ndarray:
        """Return how far the computed mean of n vectors can move if a record is replaced.

        It is the bound of the theorem, divided by n, plus a bound on the rounding
        errors of logarithms, which grow with the distance of the point from the center.

        Parameters
        ----------
        n : int
            The number of records.

        Returns
        -------
        array, shape (runs,)
            The bound for each point.
        """
        square = (1 - self.weight) * self.radius**2 + self.weight * self.max_distance**2
        exact = 2 * np.sqrt(square) / n * (1 + _ROUNDING)
        with np.errstate(over="ignore"):  # infinite if doubles hold no such point
            growth = np.exp(self.root_curvature * self.center_distance)
        relative_error = CHART_ERROR + 2.0**-48 * self.dim * growth
        rounding = 4 * _LIPSCHITZ * self.radius * relative_error
        return np.asarray(np.nextafter(exact + rounding, inf))

    def sum_vectors(self, logs: np.ndarray, runs: slice) -> np.ndarray:
        """Return the sum of the vectors of some records, for each run.

        Parameters
        ----------
        logs : array, shape (runs, records, dim)
            The logarithms of the records, in coordinates at the point of each run.
        runs : slice
            Which points these are.

        Returns
        -------
        array, shape (runs, size)
            The sums.
        """
        max_distance = self.max_distance[runs, None]
        distances = np.linalg.norm(logs, axis=-1)
        relative = np.minimum(distances / max_distance, 1.0)
        scaled = self.root_curvature * max_distance * relative
        excess = hessian_excess(scaled) / self.largest_excess[runs, None]

        # φ·uuᵀ = (φ/s²)·zzᵀ, which is 0 for a record at the point itself.
        safe_square = np.maximum(distances, np.finfo(float).tiny ** 0.5) ** 2
        weighted = logs * (excess / safe_square)[..., None]
        matrices = np.swapaxes(weighted, 1, 2) @ logs
        diagonal = np.diagonal(matrices, axis1=1, axis2=2)
        rows, columns = np.triu_indices(self.dim, 1)
        coordinates = np.concatenate(
            [diagonal, sqrt(2) * matrices[:, rows, columns]], axis=1
        )

        matrix_unit = (self._matrix_weight[runs] * self.max_distance[runs])[:, None]
        scalar_unit = (self._scalar_weight[runs] * self.max_distance[runs])[:, None]
        return np.concatenate(
            [
                logs.sum(axis=1),
                matrix_unit * coordinates,
                scalar_unit * np.sum(relative**2, axis=1, keepdims=True),
                scalar_unit * np.sum(excess, axis=1, keepdims=True),
            ],
            axis=1,
        )

    def estimate_moments(
        self, noisy: np.ndarray, noise_std: np.ndarray
    ) -> HyperbolicMoments:
        """Return the moments that follow from noisy means of the vectors.

        Parameters
        ----------
        noisy : array, shape (runs, size)
            The noisy means.
        noise_std : array, shape (runs,)
            The standard deviation of the noise in each entry.

        Returns
        -------
        HyperbolicMoments
            The moments with their noise.
        """
        last_of_matrix = self.dim + self._n_matrix_entries
        square_unit = self.max_distance / self._scalar_weight
        excess_unit = self.largest_excess / (self._scalar_weight * self.max_distance)
        matrix_unit = self.largest_excess / (self._matrix_weight * self.max_distance)
        matrices = [
            unit * vector_to_symmetric(row, self.dim)
            for unit, row in zip(
                matrix_unit, noisy[:, self.dim : last_of_matrix], strict=True
            )
        ]
        return HyperbolicMoments(
            mean_log=noisy[:, : self.dim],
            mean_square=square_unit * noisy[:, -2],
            mean_square_std=square_unit * noise_std,
            mean_excess=excess_unit * noisy[:, -1],
            mean_excess_std=excess_unit * noise_std,
            excess_matrix=np.stack(matrices),
            excess_matrix_std=matrix_unit * noise_std,
        )
