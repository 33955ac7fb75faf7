"""Where local records live: how they are written, read as points, and measured.
A `RecordSpace` is a manifold with the form of its records and the unit of its
distances. `Earth` is the sphere with places in degrees and distances in kilometers;
every other manifold is written by its own points (`PointRecords`).
"""

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.errors import ParameterError
from curvedp.geometry import Manifold, Sphere, project_to_ball
from curvedp.records.base import open_records
from curvedp.records.forms import find_form

EARTH_RADIUS_KM = 6371.0088
"""Mean radius of the Earth in kilometers (IUGG: (2a + b)/3 of the ellipsoid GRS 80)."""

# Records of an unbounded space are moved into a ball of this radius about the public
# point, so that float64 holds every report.
_LARGEST_DISTANCE = 1e9

# A point of a compact manifold may miss its equations by so much after projection.
_LARGEST_RESIDUAL = 1e-9


def plural(unit: str) -> str:
    """Return the plural of a unit of distance, for sentences.

    >>> plural("kilometer"), plural("unit of distance")
    ('kilometers', 'units of distance')
    """
    noun, *attribute = unit.split(" ", 1)
    return " ".join([f"{noun}s", *attribute])


def parse_place(text: str) -> tuple[float, float]:
    """Return a public place as it is typed, such as "51.5,-0.1".

    Parameters
    ----------
    text : str
        Latitude and longitude in degrees, separated by a comma.
    """
    try:
        latitude, longitude = (float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            "is latitude,longitude in degrees, such as 51.5,-0.1",
            parameter="public_place",
        ) from None
    return latitude, longitude


class RecordSpace(Protocol):
    """A manifold, the form in which its records are written, and a unit of distance."""

    @property
    def name(self) -> str:
        """The name in certificates."""
        ...

    @property
    def manifold(self) -> Manifold:
        """The manifold of the points, in its own unit of distance."""
        ...

    @property
    def record_shape(self) -> tuple[int, ...]:
        """The shape of one record."""
        ...

    @property
    def unit(self) -> str:
        """The unit of distances, in words: "kilometer"."""
        ...

    @property
    def unit_length(self) -> float:
        """How many of these units the manifold's unit of distance is."""
        ...

    @property
    def public_record(self) -> np.ndarray:
        """The record that stands for one that cannot be read, such as NaN."""
        ...

    def read(self, records: np.ndarray) -> np.ndarray:
        """Return the point of each record; `public_record` if a record is not a point.

        Bad data never raise and are never quoted, so that nobody learns of them.

        Parameters
        ----------
        records : array, shape (n, *record_shape)
            Whatever was recorded.

        Returns
        -------
        array, shape (n, *point_shape)
            Points of the manifold.
        """
        ...

    def write(self, points: np.ndarray) -> np.ndarray:
        """Return points of the manifold in the form of records; the inverse of `read`.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            Points of the manifold.
        """
        ...


@dataclass(frozen=True)
class PointRecords:
    """A manifold whose records are its points.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    public_point : array, optional
        The record that replaces one that cannot be read; by default the manifold's
        origin. On an unbounded space, records farther than 10^9 from it are moved to
        that distance.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> PointRecords(Sphere(1)).read(np.array([[0.0, 2.0], [np.nan, 1.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    manifold: Manifold
    public_point: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check the manifold and the public point, by default the manifold's origin."""
        if not isinstance(self.manifold, Manifold):
            raise ParameterError(
                "must be a manifold or Earth()",
                parameter="manifold",
                value=self.manifold,
            )
        point = self.manifold.origin
        if self.public_point is not None:
            point = _validate.array("public_point", self.public_point)
        is_point = (
            point.shape == self.manifold.point_shape
            and bool(np.isfinite(point).all())
            and bool(self.manifold.residual(point) <= _LARGEST_RESIDUAL)
        )
        if not is_point:
            raise ParameterError(f"public_point must be a point of {self.manifold!r}")
        object.__setattr__(self, "public_point", np.asarray(point))

    @property
    def name(self) -> str:
        """The manifold's name, such as "sphere:2"."""
        return self.manifold.name

    @property
    def record_shape(self) -> tuple[int, ...]:
        """The shape of a point."""
        return self.manifold.point_shape

    @property
    def unit(self) -> str:
        """Radian on a compact manifold, else "unit of distance"."""
        if math.isfinite(self.manifold.injectivity_radius):
            return "radian"
        return "unit of distance"

    @property
    def unit_length(self) -> float:
        """1: distances are stated in the manifold's own unit."""
        return 1.0

    @property
    def public_record(self) -> np.ndarray:
        """The public point, which stands for a record that cannot be read."""
        return np.asarray(self.public_point)

    def read(self, records: np.ndarray) -> np.ndarray:
        """Return the nearest point of every record; the public point where there is none.

        Parameters
        ----------
        records : array, shape (n, *point_shape)
            Whatever was recorded.

        Returns
        -------
        array, shape (n, *point_shape)
            Points of the manifold. On an unbounded one they are at most 10^9 away from
            the public point, so that doubles hold every report.
        """
        manifold = self.manifold
        if not math.isfinite(manifold.injectivity_radius):
            return np.asarray(
                project_to_ball(
                    manifold, self.public_record, _LARGEST_DISTANCE, records
                )
            )
        with quiet_about_records():
            points = np.array(manifold.from_record(records), dtype=np.float64)
            axes = tuple(range(1, points.ndim))
            is_point = np.isfinite(points).all(axis=axes)
            is_point &= np.asarray(manifold.residual(points)) <= _LARGEST_RESIDUAL
        points[~is_point] = self.public_record
        return points

    def write(self, points: np.ndarray) -> np.ndarray:
        """Return the points themselves: records of this space are its points.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            Points of the manifold.
        """
        return points


@dataclass(frozen=True)
class Earth:
    """The Earth as a sphere: places in degrees, distances in kilometers.

    A record is (latitude, longitude). Any longitude is a place. A latitude beyond a
    pole is not a place, and becomes the public place. The poles and the date line are ordinary
    places, because noise is added on the sphere and not to degrees.

    Parameters
    ----------
    radius : float
        The radius in kilometers.
    public_place : pair of float
        Latitude and longitude of what stands for a record that cannot be read.

    Examples
    --------
    >>> earth = Earth()
    >>> float(earth.dist([51.5, -0.1], [48.9, 2.4]).round(1))
    339.4
    >>> float(earth.dist([0.0, 179.9], [0.0, -179.9]).round(1))
    22.2
    """

    radius: float = EARTH_RADIUS_KM
    public_place: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        """Check the radius and the public place; store both as floats."""
        object.__setattr__(self, "radius", _validate.length("radius", self.radius))
        latitude, longitude = self.public_place
        place = (
            _validate.within("latitude", latitude, -90, 90),
            _validate.within("longitude", longitude, -360, 360),
        )
        object.__setattr__(self, "public_place", place)

    @property
    def name(self) -> str:
        """The word "earth"."""
        return "earth"

    @property
    def manifold(self) -> Sphere:
        """The unit sphere, on which places are points."""
        return Sphere(2)

    @property
    def record_shape(self) -> tuple[int, ...]:
        """The shape of a record: a pair of latitude and longitude."""
        return (2,)

    @property
    def unit(self) -> str:
        """The word "kilometer"."""
        return "kilometer"

    @property
    def unit_length(self) -> float:
        """The radius: one radian of the unit sphere in kilometers."""
        return self.radius

    @property
    def public_record(self) -> np.ndarray:
        """The public place, in degrees: it stands for a record that cannot be read."""
        return np.array(self.public_place)

    def read(self, records: np.ndarray) -> np.ndarray:
        """Return the unit vectors of places; the public place where there is none.

        Parameters
        ----------
        records : array, shape (n, 2)
            Latitudes and longitudes in degrees.
        """
        form = find_form("latlon-degrees", self.manifold)
        with quiet_about_records():
            # A copy, since rows are replaced below.
            points = np.array(form.points(np.asarray(records, dtype=np.float64)))
            is_place = np.isfinite(points).all(axis=-1)
        points[~is_place] = form.points(self.public_record[np.newaxis])[0]
        return points

    def write(self, points: np.ndarray) -> np.ndarray:
        """Return latitude and longitude in degrees.

        Parameters
        ----------
        points : array, shape (..., 3)
            Vectors from the center of the Earth toward places, of any length.

        Returns
        -------
        array, shape (..., 2)
            Latitudes in [−90, 90] and longitudes in [−180, 180].
        """
        x, y, z = np.moveaxis(np.asarray(points), -1, 0)
        latitude = np.degrees(np.arctan2(z, np.hypot(x, y)))
        longitude = np.degrees(np.arctan2(y, x))
        return np.stack([latitude, longitude], axis=-1)

    def dist(self, first: Any, second: Any) -> np.ndarray:
        """Return great-circle distances in kilometers.

        Parameters
        ----------
        first, second : arrays, shape (..., 2)
            Latitudes and longitudes in degrees.
        """
        unit_vectors = []
        for places in (first, second):
            rows = np.asarray(places, dtype=np.float64).reshape(-1, 2)
            leading_shape = np.shape(places)[:-1]
            unit_vectors.append(self.read(rows).reshape((*leading_shape, 3)))
        angles = np.asarray(self.manifold.dist(*unit_vectors))
        return self.radius * angles


def record_space(manifold: "Manifold | RecordSpace", public_point: Any) -> RecordSpace:
    """Return the space of records: the Earth, or the points of a manifold.

    Mechanisms call it, so that their users can name either kind.

    Parameters
    ----------
    manifold : Manifold or Earth
        The manifold of the records.
    public_point : array or None
        The point that stands for an unreadable record; the manifold's origin by default.
        `Earth()` has its own, `public_place`.

    Raises
    ------
    ParameterError
        For a public point beside `Earth()`, or one that is not on the manifold.
    """
    if isinstance(manifold, Earth):
        if public_point is not None:
            raise ParameterError("Earth() names its own public_place")
        return manifold
    if isinstance(manifold, PointRecords):
        return manifold
    return PointRecords(manifold, public_point)  # type: ignore[arg-type]


def read_batch(space: RecordSpace, X: Any) -> tuple[np.ndarray, bool]:
    """Read one record or a batch of records as points of the manifold.

    Only the type and the shape of an array can be refused, never a value. In a list, a
    cell or a row that cannot be read makes an unreadable record.

    Parameters
    ----------
    space : RecordSpace
        The manifold of the records.
    X : array, frame or list, shape (n, *record_shape) or record_shape
        The records, or a single one.

    Returns
    -------
    points, is_single : array of shape (n, *point_shape), bool
        The points, and whether X was a single record (n is 1 then).
    """
    shape = space.record_shape
    is_single = _depth(X) == len(shape)
    batch = X
    if is_single:
        batch = [X] if isinstance(X, list | tuple) else np.asarray(X)[np.newaxis]
    records = open_records(batch, shape, min_records=0).array()
    rows = np.asarray(records, dtype=np.float64).reshape(-1, *shape)
    return space.read(rows), is_single


def _depth(X: Any) -> int:
    """Return how many axes an array has, or how deeply lists are nested.

    An empty list counts as a batch of records, whatever their shape.

    Parameters
    ----------
    X : array, frame or list
        One record or many.
    """
    if isinstance(X, list | tuple):
        return 1 + max((_depth(entry) for entry in X), default=2)
    return int(np.ndim(X))
