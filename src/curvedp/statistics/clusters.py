"""Centers of clusters with their sizes and spreads, and the map of records to vectors.
A *chart* maps each record to a vector of length at most 1, rounded to a grid: a unit
vector on a sphere, elsewhere a clipped logarithm at a released point.

Inner products of rounded vectors are exact on this grid, so that a result does not
depend on how the records are divided into blocks.
"""

from dataclasses import dataclass
from math import asin, ceil, log2, pi
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp._silence import numerical_silence
from curvedp.core.codes import PostProcessing
from curvedp.core.fields import Length, assign
from curvedp.core.statistic import Statistic, check_point, is_point
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.numerics.arrays import Array, like, namespace, to_host
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

# It represents a number of clusters that is chosen from released numbers.
PRIVATE_NUMBER = 0

MAX_CLUSTERS = 1000
"""The largest number of clusters; the noise of each stage is drawn for all of them."""

# Below this radius the angle of a chord of length 2·radius is less than about π/2.
_LARGEST_NARROW_RADIUS = 0.7

# Entries of vectors, and of the directions on which they are projected, are multiples
# of 2^-26. Inner products of such vectors of length at most 1 are whole multiples of
# 2^-52, so doubles add them up exactly in any order. Differences of two of them are
# multiples of 2^-25, for the same reason.
_VECTOR_BITS = 26
_DIFFERENCE_BITS = 25
_DOUBLE_BITS = 53


def _check_number_of_clusters(name: str, value: Any) -> int:
    """Return a number of clusters between 2 and `MAX_CLUSTERS`, or `PRIVATE_NUMBER`."""
    number = _validate.integer(name, value, PRIVATE_NUMBER)
    if number == 1 or number > MAX_CLUSTERS:
        raise ParameterError(
            f"must be between 2 and {MAX_CLUSTERS}", parameter="n_clusters", value=value
        )
    return number


def _check_public_count(name: str, value: Any) -> int | None:
    """Return a number of records of at least 2, or None where it is private."""
    if value is None:
        return None
    return _validate.integer(name, value, 2)


class Clustering(NamedTuple):
    """A released clustering.

    Attributes
    ----------
    centers : array, shape (clusters, *point_shape)
        The centers, points of the manifold.
    counts : array, shape (clusters,)
        The noisy number of records whose nearest center this is. It may be negative.
    count_error : float
        The half-width of a 95 % interval of each count.
    dispersions : array, shape (clusters,)
        The noisy mean square distance of these records to their center.
    dispersion_errors : array, shape (clusters,)
        The half-width of an approximate 95 % interval of each dispersion.
    directions : array, shape (components, size)
        The released principal directions of the records' vectors.
    """

    centers: np.ndarray
    counts: np.ndarray
    count_error: float
    dispersions: np.ndarray
    dispersion_errors: np.ndarray
    directions: np.ndarray


class Chart(NamedTuple):
    """The map from records to vectors of length at most 1, by released numbers.

    On a sphere the vector of a record x is (x − base)/radius, and elsewhere it is
    log_base(x)/radius. A longer vector is shortened to length 1.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    base : array
        On a sphere a vector of R^(d+1), which need not be a unit vector. Elsewhere a
        point of the manifold.
    radius : float
        The unit of the vectors, and the distance from the base beyond which records are
        clipped.
    """

    manifold: Manifold
    base: np.ndarray
    radius: float

    @property
    def size(self) -> int:
        """The number of entries of a vector."""
        return vector_size(self.manifold)

    def vectors(self, records: Any) -> Array:
        """Return each record's vector, of length at most 1, on the grid 2^-26.

        A record that is not a point of the manifold is replaced: by the zero vector of
        R^(d+1) on a sphere, and elsewhere by the base, whose vector is 0.

        Parameters
        ----------
        records : array, shape (k, *point_shape)
            The records. Entries may be any numbers. On a sphere the array may be on a
            device, and the result is on the same device. Elsewhere it is on the host.
        """
        with numerical_silence():
            if isinstance(self.manifold, Sphere):
                return round_to_grid(self._about_base(unit_rows(records)))
            rows = np.asarray(to_host(records), dtype=np.float64)
            points = np.asarray(self.manifold.from_record(rows))
            scaled = logs_at(self.manifold, self.base, points) / self.radius
            return round_to_grid(clip_rows_to(np.ascontiguousarray(scaled), 1.0))

    def _about_base(self, units: Array) -> Array:
        """Return (u − base)/radius for each unit vector, shortened to length 1.

        Both vectors are rounded to multiples of 2^-25 first. The length of their
        difference is at most 2, so that the sum of its squares is exact, in any order
        and on any device.

        Parameters
        ----------
        units : array, shape (k, size)
            The records as unit vectors, or zero for records that are not points.
        """
        xp = namespace(units)
        base = like(units, round_to_grid(self.base, _DIFFERENCE_BITS))
        differences = round_to_grid(units, _DIFFERENCE_BITS) - base
        squares = xp.sum(differences * differences, axis=1, keepdims=True)
        return differences / xp.clip(xp.sqrt(squares), min=self.radius)

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """Return the points of the manifold that released vectors represent.

        It is the inverse of `vectors`, up to clipping and rounding.

        Parameters
        ----------
        vectors : array, shape (k, size)
            Released vectors.
        """
        if isinstance(self.manifold, Sphere):
            ambient = self.base + self.radius * vectors
            # A vector of length 0 would have no direction, but noise never produces it.
            return np.asarray(self.manifold.project(ambient))
        points = [
            np.asarray(
                self.manifold.from_normal_coordinates(self.base, self.radius * vector)
            )
            for vector in vectors
        ]
        return np.stack(
            [point if is_point(self.manifold, point) else self.base for point in points]
        )

    @property
    def longest_distance(self) -> float:
        """The distance to a center at which squared distances are cut off."""
        if not isinstance(self.manifold, Sphere):
            return self.radius
        # Two vectors of the chart are at most 2·radius apart, which is a chord.
        is_narrow = self.radius < _LARGEST_NARROW_RADIUS
        return 2 * asin(min(self.radius, 1.0)) if is_narrow else pi / 2


def vector_size(manifold: Manifold) -> int:
    """Return the number of entries of a record's vector."""
    if isinstance(manifold, Sphere):
        return int(manifold.dim) + 1
    return int(manifold.dim)


@dataclass(frozen=True, eq=False)
class Clusters(Statistic):
    """Centers, sizes and spreads of clusters of records.

    Attributes
    ----------
    manifold : Manifold
    center : point
        Where the search begins. On a sphere it is not used.
    reach : float
        Records farther from `center` are clipped to this distance, until a center has
        been released. On a sphere it is not used.
    clusters : int
        The number of clusters, or 0 where it is to be chosen from what is released.
    starts : array of shape (clusters, *point_shape), optional
        Public initial centers.
    n : int, optional
        The number of records or people; None where it is private.
    """

    manifold: Manifold
    center: Any
    reach: Length
    clusters: Annotated[int, _check_number_of_clusters]
    starts: Any
    n: Annotated[int | None, _check_public_count]

    name: ClassVar[str] = "clusters"

    def __post_init__(self) -> None:
        super().__post_init__()
        center = self.manifold.origin if self.center is None else self.center
        assign(self, center=check_point("center", self.manifold, center))
        if self.starts is None:
            return
        if self.clusters == PRIVATE_NUMBER:
            raise ParameterError(
                "initial centers say how many clusters there are; the number cannot be "
                "private, too"
            )
        starts = _validate.array("initial centers", self.starts)
        if starts.shape != (self.clusters, *self.manifold.point_shape):
            raise ParameterError(
                f"initial centers have shape {starts.shape}, not "
                f"{(self.clusters, *self.manifold.point_shape)}"
            )
        points = [
            check_point("initial centers", self.manifold, start) for start in starts
        ]
        assign(self, starts=np.stack(points))

    @property
    def value_space(self) -> Manifold:
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """1: every stage scales its noise by a sensitivity of its own."""
        return 1.0

    @property
    def public_count(self) -> int | None:
        return self.n

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        return (PostProcessing.QUOTIENT_OF_NOISY_SUMS,)

    @property
    def first_chart(self) -> Chart:
        """The public chart from which the first stage reads the records."""
        if isinstance(self.manifold, Sphere):
            return Chart(self.manifold, np.zeros(vector_size(self.manifold)), 1.0)
        return Chart(self.manifold, self.center, self.reach)


# ---- vectors on a grid ----


def round_to_grid(vectors: Array, bits: int = _VECTOR_BITS) -> Array:
    """Round entries toward 0 to multiples of 2^-bits, so that no vector becomes longer."""
    return namespace(vectors).trunc(vectors * 2.0**bits) * 2.0**-bits


def unit_rows(records: Any) -> Array:
    """Return the unit vector of each row, or 0 where a row has none.

    A row is divided by its largest entry and rounded to whole multiples of 2^-b, whose
    squares add up exactly. So its unit vector depends neither on the order in which a
    device adds numbers nor on the other rows.

    Parameters
    ----------
    records : array, shape (k, size)
        Rows of any real type, of any library. A row that is 0 or not finite becomes 0.
    """
    xp = namespace(records)
    rows = xp.astype(xp.asarray(records), xp.float64)
    size = rows.shape[1]
    bits = (_DOUBLE_BITS - ceil(log2(max(size, 2)))) // 2
    with numerical_silence():
        largest = xp.max(xp.abs(rows), axis=1, keepdims=True)
        is_usable = (largest > 0) & xp.isfinite(largest)
        zero = xp.zeros_like(largest)
        scale = xp.where(is_usable, largest, zero + 1.0)
        integers = xp.round(xp.where(is_usable, rows, zero) / scale * 2.0**bits)
        squares = xp.sum(integers * integers, axis=1, keepdims=True)
        return integers / xp.sqrt(xp.clip(squares, min=1.0))


def distances_to_centers(
    manifold: Manifold, centers: np.ndarray, records: Any
) -> np.ndarray:
    """Return the distance of each record to each center, shape (records, centers).

    A record that is not a point of the manifold has the distance π/2 from all centers
    on a sphere, and 0 elsewhere.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    centers : array, shape (clusters, *point_shape)
        The centers, as points of the manifold.
    records : array, shape (k, *point_shape)
        The records. Entries may be anything.
    """
    with numerical_silence():
        if isinstance(manifold, Sphere):
            cosines = to_host(_cosines(centers, records))
            return np.asarray(np.arccos(np.clip(cosines, -1.0, 1.0)))
        rows = np.asarray(to_host(records), dtype=np.float64)
        points = np.asarray(manifold.from_record(rows))
        columns = [np.asarray(manifold.dist(center, points)) for center in centers]
        distances = np.stack(columns, axis=1)
        return np.asarray(np.where(np.isfinite(distances), distances, 0.0))


def nearest_center_of_records(
    manifold: Manifold, centers: np.ndarray, records: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the nearest center of each record, and the distance to it.

    Of several nearest centers it is the first. Records on a device stay there if the
    manifold is a sphere: two numbers of each record come to the host.

    Parameters
    ----------
    manifold : Manifold
        The space of the records.
    centers : array, shape (clusters, *point_shape)
        The centers, as points of the manifold.
    records : array, shape (k, *point_shape)
        The records. Entries may be anything.

    Returns
    -------
    labels : array of int, shape (k,)
        The indices.
    distances : array of shape (k,)
        The distances, as those of `distances_to_centers`.
    """
    if isinstance(manifold, Sphere):
        # Cosines are exact on every device, but the last bit of an arc cosine is not.
        cosines = _cosines(centers, records)
        xp = namespace(cosines)
        labels = to_host(xp.argmax(cosines, axis=1))
        largest = to_host(xp.max(cosines, axis=1))
        with numerical_silence():
            return labels, np.arccos(np.clip(largest, -1.0, 1.0))
    distances = distances_to_centers(manifold, centers, records)
    return np.argmin(distances, axis=1), np.min(distances, axis=1)


def _cosines(centers: np.ndarray, records: Any) -> Array:
    """Return the exact inner products of rounded unit vectors, shape (records, centers).

    Parameters
    ----------
    centers : array, shape (clusters, size)
        The centers, as unit vectors.
    records : array, shape (k, size)
        Rows of any library, whose directions count.
    """
    units = round_to_grid(unit_rows(records))
    return units @ like(units, round_to_grid(centers)).T
