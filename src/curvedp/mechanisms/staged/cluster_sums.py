"""Exact sums over the records, which the stages of private k-means release with noise. A
function such as `sum_vectors` sums over a block of records, as integers in units of
2^-32; `ClusterQueries` adds up the blocks. A record counts with a *weight*, 1 unless its
person has several records.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import device, is_numpy_array

from curvedp.geometry.spaces.sphere import Sphere
from curvedp.numerics.arrays import Array, like, namespace, to_host
from curvedp.numerics.fixed_point import gram_mean, gram_sums
from curvedp.numerics.threads import blocks
from curvedp.records.base import Records
from curvedp.statistics.clusters import (
    Chart,
    nearest_center_of_records,
    round_to_grid,
)

__all__ = [
    "MAX_RECORDS",
    "MAX_ROWS_PER_PERSON",
    "ClusterData",
    "ClusterQueries",
    "IdentityProjection",
    "ProjectedChart",
    "ProjectedQueries",
    "Projection",
    "count_nearest",
    "distance_histogram",
    "nearest_center",
    "residual_histogram",
    "sum_grams",
    "sum_residuals",
    "sum_sizes",
    "sum_vectors",
    "to_grid_positions",
    "weights_of_persons",
]

# Entries of what a record contributes are multiples of 2^-32, so that sums over 2^30
# records are exact. Projections and centers are multiples of 2^-25: squares of their
# differences then add up exactly in doubles.
_CONTRIBUTION_BITS = 32
_POSITION_BITS = 25
MAX_RECORDS = 2**30
# How many records are read at once: so few that what is computed of them stays in the
# processor's cache; and more where each block ends with a large matrix of integers.
_RECORDS_PER_BLOCK = 1 << 10
_GRAM_BLOCK = 1 << 12
# A device is slow in small pieces. Sums of this many sum_block are exact in doubles.
_DEVICE_BLOCK = 1 << 17

MAX_ROWS_PER_PERSON = 1 << 12
"""How many records of one person are read: the first ones."""


class ClusterData(NamedTuple):
    """Records, and the weight with which each counts.

    Attributes
    ----------
    records : Records
        The records.
    weights : array, shape (n,), optional
        One over the number of records of the same person: an array of NumPy, or of dask
        in the chunks of the records. None where each counts 1.
    """

    records: Records
    weights: Any = None


def weights_of_persons(person_index: np.ndarray) -> np.ndarray:
    """Return the weight of each record, so that each person counts 1 in all.

    Parameters
    ----------
    person_index : array of int, shape (n,)
        The person to whom each record belongs, from 0 on.

    Returns
    -------
    array, shape (n,)
        1/m for each of the m records of a person. Of more than `MAX_ROWS_PER_PERSON`
        records the first ones count, and the others have weight 0.

    Examples
    --------
    >>> weights_of_persons(np.array([0, 1, 0, 1, 1])).round(2).tolist()
    [0.5, 0.33, 0.5, 0.33, 0.33]
    """
    counts = np.bincount(person_index)
    # The rank of a record among those of its person, in their order: sort the records
    # by person, and subtract where each person begins.
    by_person = np.argsort(person_index, kind="stable")
    start_of_person = np.cumsum(counts) - counts
    rank = np.empty(len(person_index), dtype=np.int64)
    rank[by_person] = (
        np.arange(len(person_index)) - start_of_person[person_index[by_person]]
    )
    n_counted = np.minimum(counts, MAX_ROWS_PER_PERSON)[person_index]
    return np.where(rank < MAX_ROWS_PER_PERSON, 1.0 / n_counted, 0.0)


class ClusterQueries:
    """Sums over the records as vectors. They are NOT private.

    Records on a device stay there if they are points of a sphere. The sums are the same
    integers as those on the host. (JAX takes entries below the smallest normal number
    of their type as 0; a row of such entries has no direction there.)

    Parameters
    ----------
    data : ClusterData, optional
        The records. Without them, as in a replay, every sum is an array of zeros.
    """

    def __init__(self, data: ClusterData | None = None) -> None:
        """Keep the records for the sums of every stage; None makes each sum zero."""
        self._data = data

    def sum(self, sum_block: Callable[..., Array], size: int) -> np.ndarray:
        """Return the sum over all records of a vector that is computed from each record.

        Parameters
        ----------
        sum_block : function of (block of records, their weights or None)
            Returns the sum over a block of records as int64, in units of 2^-32.
        size : int
            The number of entries of the vector.

        Returns
        -------
        array of shape (size,)
            The sum, as floats.
        """
        integer_sum = self._integer_sum(sum_block, size)
        return np.asarray(integer_sum * 2.0**-_CONTRIBUTION_BITS)

    def gram(self, chart: Chart) -> np.ndarray:
        """Return Σ yyᵀ over the vectors y of all records.

        Parameters
        ----------
        chart : Chart
            The map from records to vectors of length at most 1.

        Returns
        -------
        array of shape (size, size)
            The sum, as floats.
        """
        size = chart.size
        # An exact sum is stored as six matrices of integers (`gram_sums`).
        integer_sum = self._integer_sum(partial(sum_grams, chart), 6 * size * size)
        return gram_mean(integer_sum.reshape(6, size, size), 1, 1.0)

    def _integer_sum(self, sum_block: Callable[..., Array], size: int) -> np.ndarray:
        """Return a sum of integers over all records, or zeros if there are no records.

        Parameters
        ----------
        sum_block : function of (block of records, their weights or None)
            Returns the sum over a block of records as int64.
        size : int
            The number of entries of the sum.
        """
        if self._data is None:
            return np.zeros(size, dtype=np.int64)
        records, weights = self._data
        arrays_beside_records = () if weights is None else (weights,)
        return records.sums_in_place(sum_block, *arrays_beside_records)

    def project(self, space: "ProjectedChart") -> "ProjectedQueries":
        """Return queries about the projected vectors of the records.

        Parameters
        ----------
        space : ProjectedChart
            The map from records to vectors in the released subspace.
        """
        is_sphere = isinstance(space.chart.manifold, Sphere)
        if self._data is None or not is_sphere:
            return ProjectedQueries(self._data, space)
        records, weights = self._data
        positions = records.project_once(space.positions)
        if positions is None:  # not on a device: each pass projects the records again
            return ProjectedQueries(self._data, space)
        return ProjectedQueries(ClusterData(positions, weights), IdentityProjection())


class ProjectedQueries(ClusterQueries):
    """Sums over the projected vectors of the records. They are NOT private.

    Parameters
    ----------
    data : ClusterData or None
        The records, or their projected vectors.
    space : Projection
        The map from `data` to the projected vectors.
    """

    def __init__(self, data: ClusterData | None, space: "Projection") -> None:
        """Keep the records, and the map to the vectors that later stages sum."""
        super().__init__(data)
        self.space = space


class Projection(Protocol):
    """A map from the records of a block to vectors in the released subspace."""

    def positions(self, records: Any) -> Array:
        """Return the projected vector of each record, on the grid 2^-25.

        Parameters
        ----------
        records : array
            A block of records, or of what stands for them.
        """
        ...


class IdentityProjection(NamedTuple):
    """The identity map, for blocks that already hold projected vectors."""

    def positions(self, records: Any) -> Array:
        """Return the block itself.

        Parameters
        ----------
        records : array, shape (k, components)
            The projected vectors of some records.
        """
        return records


class ProjectedChart(NamedTuple):
    """A chart, followed by the projection on released directions.

    Attributes
    ----------
    chart : Chart
        The map from records to vectors of length at most 1.
    directions : array, shape (components, size)
        Rows of length at most 1, on the grid 2^-26.
    """

    chart: Chart
    directions: np.ndarray

    def positions(self, records: Any) -> Array:
        """Return the projected vector of each record, rounded to the grid 2^-25.

        Products are exact: entries are multiples of 2^-26, and every partial sum of an
        inner product of two vectors of length at most 1 is at most 1.

        Parameters
        ----------
        records : array, shape (k, *point_shape)
            The records, perhaps on a device.
        """
        vectors = self.chart.vectors(records)
        directions = like(vectors, self.directions)
        return round_to_grid(vectors @ directions.T, _POSITION_BITS)


def to_grid_positions(centers: np.ndarray) -> np.ndarray:
    """Return centers shortened to length 1, and rounded to the grid 2^-25.

    Projected records are on the same grid, so that squared distances are exact.

    Parameters
    ----------
    centers : array of shape (clusters, components)
        Vectors in the subspace, of any length.
    """
    lengths = np.linalg.norm(centers, axis=1, keepdims=True)
    shortened = centers / np.maximum(lengths, 1.0)
    return np.asarray(round_to_grid(shortened, _POSITION_BITS))


def nearest_center(positions: Array, centers: Array) -> Array:
    """Return the index of the nearest center of each position; in a tie the first one.

    The squared distance of a position z to a center c is |z|² − 2⟨z, c⟩ + |c|². Its
    first term is the same for all centers, so ⟨z, c⟩ − |c|²/2 is maximized.

    Parameters
    ----------
    positions : array, shape (k, components)
        The projected vectors of the records.
    centers : array, shape (clusters, components)
        The centers, as vectors in the subspace.
    """
    xp = namespace(positions)
    half_squares = 0.5 * xp.sum(centers**2, axis=1)
    return xp.argmax(positions @ centers.T - half_squares, axis=1)


# ---- what records contribute: sums over a block, in units of 2^-32 ----


def _to_fixed_point(rows: Array, weights: np.ndarray | None) -> Array:
    """Return weighted rows in units of 2^-32, truncated to integers, as doubles.

    Sums of such integers are exact, so that they do not depend on the order of records.

    Parameters
    ----------
    rows : array of shape (k, ...)
        One row for each record, with entries of modulus at most 2.
    weights : array, shape (k,), or None
        How much each record counts; 1 if it is None.
    """
    if weights is not None:
        rows = rows * like(rows, weights.reshape(-1, *(1,) * (rows.ndim - 1)))
    return namespace(rows).trunc(rows * 2.0**_CONTRIBUTION_BITS)


def _blockwise(
    sum_records: Callable[[Any, np.ndarray | None], Array],
    block: Any,
    weights: Any,
) -> Array:
    """Return an exact sum over a block of records, in units of 2^-32.

    The contributions of records are multiples of 2^-32, so that sums are exact and do
    not depend on the order of records. A block is divided into pieces of 2^10 records
    on the host or 2^17 on a device. The sum over a piece is exact in doubles, because
    it has at most 2^17 sum_block of at most 2^33 units. The sums of pieces are added as
    64-bit integers.

    Parameters
    ----------
    sum_records : function of (records, weights)
        Returns the sums over at most 2^17 records in units of 2^-32, as doubles.
    block : array, shape (k, *point_shape)
        Some of the records.
    weights : array, shape (k,), or None
        How much each record counts; 1 if it is None.
    """
    block_sum: Any = 0
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        for piece in _slices_of_block(block, _RECORDS_PER_BLOCK):
            piece_weights = None if weights is None else np.asarray(weights)[piece]
            piece_sum = sum_records(block[piece, ...], piece_weights)
            xp = namespace(piece_sum)
            block_sum = block_sum + xp.astype(piece_sum, xp.int64)
    return block_sum


def _slices_of_block(block: Any, size_on_host: int) -> list[slice]:
    """Return the slices that divide a block of records into pieces.

    An empty block has one empty piece, so that its sums have the right shape.

    Parameters
    ----------
    block : array, shape (k, *point_shape)
        Some of the records.
    size_on_host : int
        The number of records of a piece, if the block is a NumPy array. On a device it
        is `_DEVICE_BLOCK`.
    """
    size = size_on_host if is_numpy_array(block) else _DEVICE_BLOCK
    return blocks(block.shape[0], size) or [slice(0, 0)]


def _append_column(rows: Array, value: float) -> Array:
    """Return rows with one more column, which has the same value everywhere."""
    xp = namespace(rows)
    column = xp.full((rows.shape[0], 1), value, dtype=rows.dtype, device=device(rows))
    return xp.concat([rows, column], axis=1)


def _histogram(labels: Array, size: int, weights: np.ndarray | None) -> np.ndarray:
    """Return the sum of the weights of the records with each label, in units of 2^-32.

    The labels are bins of a histogram, or clusters. The sums are computed on the host,
    because few array libraries can count labels on a device.

    Parameters
    ----------
    labels : array of int, shape (k,)
        The label of each record, from 0 to size − 1.
    size : int
        The number of labels.
    weights : array, shape (k,), or None
        How much each record counts; 1 if it is None.
    """
    labels_on_host = to_host(labels)
    fixed_point_weights = _to_fixed_point(np.ones(len(labels_on_host)), weights)
    return np.bincount(labels_on_host, fixed_point_weights, size)


def sum_vectors(chart: Chart, weight: float, block: Any, weights: Any = None) -> Array:
    """Return (Σy, weight·n) over a block of records, where y is a record's vector.

    The stage of the center adds these sums up over all blocks of records.

    Parameters
    ----------
    chart : Chart
        The map from records to vectors of length at most 1.
    weight : float
        The weight of the count.
    block : array, shape (k, *point_shape)
        Some of the records.
    weights : array, optional
        How much each record counts; 1 by default.
    """

    def sum_records(records: Any, piece_weights: np.ndarray | None) -> Array:
        """Return the sums over a piece of the block, in units of 2^-32."""
        rows = _to_fixed_point(
            _append_column(chart.vectors(records), weight), piece_weights
        )
        return namespace(rows).sum(rows, axis=0)

    return _blockwise(sum_records, block, weights)


def sum_grams(chart: Chart, block: Any, weights: Any = None) -> Array:
    """Return the exact sum Σ yyᵀ over a block of records, where y is a record's vector.

    A record of weight w contributes (√w·y)(√w·y)ᵀ. The sum is exact because it is
    stored as six matrices of integers (`gram_sums`).

    Parameters
    ----------
    chart : Chart
        The map from records to vectors of length at most 1.
    block : array, shape (k, *point_shape)
        Some of the records.
    weights : array, optional
        How much each record counts; 1 by default.
    """
    integer_sum: Any = 0
    for part in _slices_of_block(block, _GRAM_BLOCK):
        vectors = chart.vectors(block[part, ...])
        if weights is not None:
            roots = np.sqrt(np.asarray(weights)[part])[:, None]
            vectors = vectors * like(vectors, roots)
        integer_sum = integer_sum + gram_sums(vectors, 1.0)
    return namespace(integer_sum).reshape(integer_sum, (-1,))


def _bin_indices(lengths: Array, edges: np.ndarray) -> Array:
    """Return the index of the first edge that is at least each length, or the last one."""
    xp = namespace(lengths)
    indices = xp.searchsorted(like(lengths, edges), lengths)
    return xp.clip(indices, max=len(edges) - 1)


def distance_histogram(
    chart: Chart, edges: np.ndarray, block: Any, weights: Any = None
) -> Array:
    """Return a histogram of the distances of a block's records to the first center.

    The chart maps a record to a vector whose length is the distance to the center in
    units of the chart's radius. The private radius follows from the noisy histogram.

    Parameters
    ----------
    chart : Chart
        The map from records to vectors of length at most 1.
    edges : array
        Upper edges of the bins.
    block : array, shape (k, *point_shape)
        Some of the records.
    weights : array, optional
        How much each record counts; 1 by default.
    """

    def sum_records(records: Any, piece_weights: np.ndarray | None) -> np.ndarray:
        """Return the histogram of a piece of the block, in units of 2^-32."""
        vectors = chart.vectors(records)
        xp = namespace(vectors)
        lengths = xp.sqrt(xp.sum(vectors**2, axis=1))
        return _histogram(_bin_indices(lengths, edges), len(edges), piece_weights)

    return _blockwise(sum_records, block, weights)


def count_nearest(
    space: Projection, candidates: np.ndarray, block: Any, weights: Any = None
) -> Array:
    """Return how many records of a block are nearest to each candidate for a center.

    Initial centers are chosen by the noisy counts of all records.

    Parameters
    ----------
    space : Projection
        The map from records to vectors in the released subspace.
    candidates : array, shape (count, components)
        The candidates for centers, as vectors in the subspace.
    block : array, shape (k, *point_shape)
        Some of the records.
    weights : array, optional
        How much each record counts; 1 by default.
    """

    def sum_records(records: Any, piece_weights: np.ndarray | None) -> np.ndarray:
        """Return the counts of a piece of the block, in units of 2^-32."""
        positions = space.positions(records)
        nearest = nearest_center(positions, like(positions, candidates))
        return _histogram(nearest, len(candidates), piece_weights)

    return _blockwise(sum_records, block, weights)


def residual_histogram(
    space: Projection,
    centers: np.ndarray,
    edges: np.ndarray,
    block: Any,
    weights: Any = None,
) -> Array:
    """Return a histogram of the distances of records to their nearest centers.

    The stage of the spread adds these histograms up over all blocks of records.

    Parameters
    ----------
    space : Projection
        The map from records to vectors in the released subspace.
    centers : array, shape (clusters, components)
        The centers, as vectors in the subspace.
    edges : array
        Upper edges of the bins.
    block : array, shape (k, *point_shape)
        Some of the records.
    weights : array, optional
        How much each record counts; 1 by default.
    """

    def sum_records(records: Any, piece_weights: np.ndarray | None) -> np.ndarray:
        """Return the histogram of a piece of the block, in units of 2^-32."""
        _, _, lengths = _residuals(space.positions(records), centers)
        return _histogram(_bin_indices(lengths, edges), len(edges), piece_weights)

    return _blockwise(sum_records, block, weights)


def _residuals(positions: Array, centers: np.ndarray) -> tuple[Array, Array, Array]:
    """Return the nearest center's index, the residual about it, and its length.

    Parameters
    ----------
    positions : array, shape (k, components)
        The projected vectors of the records, multiples of 2^-25.
    centers : array, shape (clusters, components)
        The centers, multiples of 2^-25.

    Returns
    -------
    labels : array of int, shape (k,)
        The indices.
    residuals : array, shape (k, components)
        Position minus center.
    lengths : array, shape (k,)
        Their lengths. The squares are multiples of 2^-50 of modulus at most 4, so they
        add up exactly.
    """
    xp = namespace(positions)
    own_centers = like(positions, centers)
    labels = nearest_center(positions, own_centers)
    residuals = positions - xp.take(own_centers, labels, axis=0)
    return labels, residuals, xp.sqrt(xp.sum(residuals**2, axis=1))


def sum_residuals(
    space: Projection,
    centers: np.ndarray,
    spread: float,
    weight: float,
    block: Any,
    weights: Any = None,
) -> Array:
    """Return (Σ clip(z − c)/spread, weight·number) for each cluster, over a block.

    The cluster of a record consists of the records with the same nearest center c. Here
    z is the projected vector of a record, and clip shortens z − c to the spread.

    Parameters
    ----------
    space : Projection
        The map from records to vectors in the released subspace.
    centers : array, shape (clusters, components)
        The centers, as vectors in the subspace.
    spread : float
        Longer residuals are shortened to this length.
    weight : float
        The weight of counts.
    block : array, shape (k, *point_shape)
        Some of the records.
    weights : array, optional
        How much each record counts; 1 by default.

    Returns
    -------
    array of int64, shape (clusters·(components + 1),)
        The sums of all clusters, in units of 2^-32.
    """

    def sum_records(records: Any, piece_weights: np.ndarray | None) -> Array:
        """Return the sums over a piece of the block, in units of 2^-32."""
        labels, residuals, lengths = _residuals(space.positions(records), centers)
        clipped = residuals / namespace(lengths).clip(lengths, min=spread)[:, None]
        rows = _to_fixed_point(_append_column(clipped, weight), piece_weights)
        return _sum_by_cluster(labels, rows, len(centers))

    return _blockwise(sum_records, block, weights)


def sum_sizes(
    manifold: Any,
    centers: np.ndarray,
    longest: float,
    block: Any,
    weights: Any = None,
) -> Array:
    """Return (number of records, Σ (t − ½)) for each cluster, over a block of records.

    Here t = min(d/longest, 1)² for a record at distance d from its nearest center. The
    ½ is subtracted because numbers in [−½, ½] have the least sensitivity.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    centers : array, shape (clusters, *point_shape)
        The centers, as points of the manifold.
    longest : float
        Longer distances count as this one.
    block : array, shape (k, *point_shape)
        Some of the records.
    weights : array, optional
        How much each record counts; 1 by default.

    Returns
    -------
    array of int64, shape (2·clusters,)
        The number and the sum of each cluster in turn, in units of 2^-32.
    """

    def sum_records(records: Any, piece_weights: np.ndarray | None) -> np.ndarray:
        """Return the sums over a piece of the block, in units of 2^-32."""
        labels, distances = nearest_center_of_records(manifold, centers, records)
        excess = np.minimum(distances / longest, 1.0) ** 2 - 0.5
        counts = _histogram(labels, len(centers), piece_weights)
        sums = np.bincount(labels, _to_fixed_point(excess, piece_weights), len(centers))
        return np.stack([counts, sums], axis=1).ravel()

    return _blockwise(sum_records, block, weights)


def _sum_by_cluster(labels: Array, rows: Array, n_clusters: int) -> Array:
    """Return the sum of the rows of each cluster, as one flat array.

    Sums of whole numbers are exact in any order.

    Parameters
    ----------
    labels : array of int, shape (k,)
        The index of the cluster of each record.
    rows : array, shape (k, size)
        Whole numbers of modulus at most 2^33.
    n_clusters : int
        The number of clusters.
    """
    xp = namespace(rows)
    clusters = xp.arange(n_clusters, dtype=labels.dtype, device=device(labels))
    membership = xp.astype(clusters[:, None] == labels[None, :], rows.dtype)
    return xp.reshape(membership @ rows, (-1,))
