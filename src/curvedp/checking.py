"""Look for problems in records before they are released privately: `check`.
The results are for people who may see the records. Nothing here is private, and no
release reads any of it. A private release clips records to a public ball, so that the
checks compare the records with that ball.
"""

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import frechet_mean
from curvedp.geometry.manifold import (
    OFF_MANIFOLD_TOLERANCE,
    Manifold,
    check_manifold,
    manifold_kinds,
)
from curvedp.geometry.spaces.correlation import CorrelationMatrices
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.numerics.threads import one_blas_thread
from curvedp.records import read_records
from curvedp.records.base import is_chunked
from curvedp.records.persons import encode_persons

__all__ = ["RecordCheck", "check"]

FIRST_LINE = (
    "NOT PRIVATE: this page describes the records. "
    "Keep it with the data; never publish it with a release."
)
_LAST_LINE = (
    "A radius or center that you take from this page is itself a release of the data: "
    "choose both from domain knowledge, or use a private radius."
)
_DEGREES_ADVICE = (
    "There are entries beyond 2π: are these degrees? Units are never guessed: "
    "choose a form whose name contains degrees or radians."
)

# The largest number of records of a dask array that are read.
_MAX_CHUNKED_RECORDS = 10**6
# The approximate largest number of records on which slow measurements are made:
# distances to their mean and condition numbers.
_MAX_MEASURED_RECORDS = 20_000
# The approximate number of records from which the mean is computed.
_MEAN_SAMPLE_SIZE = 256
# The number of records on which quick tests are made, such as that of decimals.
_TESTED_RECORDS = 1000
# The fractions of the records for which quantiles of a measurement are reported.
_QUANTILE_SHARES = (0.5, 0.9, 0.99, 1.0)
# Correlations are at most 1. Entries beyond this are something else.
_BEYOND_CORRELATION = 1.5
# Matrices with an eigenvalue below this share of the largest one, negatively, are not
# rounded covariances.
_CLEARLY_INDEFINITE = -0.1
# An eigenvalue above this share, negatively, is 0 up to rounding.
_ZERO_EIGENVALUE = -1e-9
# Lengths of records that differ by more than this factor are not lengths of points.
_LENGTH_FACTOR = 1.2
# Records that are off the manifold by less than this are rounded points.
_ROUNDED_RESIDUAL = 0.01
# Half of the records differ in length from points by more than this share.
_LENGTH_TOLERANCE = 1e-3
# Records fit a space if more than this fraction of them satisfy its equations to within
# this tolerance.
_FITTING_SHARE = 0.9
_FITTING_TOLERANCE = 1e-3


@dataclass(frozen=True)
class RecordCheck:
    """The result of `check`. It prints itself, in a notebook too. It is NOT private.

    Attributes
    ----------
    manifold : Manifold
        The manifold on which the records should lie.
    facts : dict
        Counts and measurements by name, such as "outside the ball".
    advice : list of str
        Sentences that recommend what to do about the records.
    """

    manifold: Manifold
    facts: dict[str, Any] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return facts and advice as plain numbers, lists and texts."""
        return {
            "warning": FIRST_LINE,
            "manifold": repr(self.manifold),
            "facts": self.facts,
            "advice": self.advice,
        }

    @property
    def fact_texts(self) -> dict[str, str]:
        """The facts as texts, by name, for the page and the terminal."""
        return {name: _fact_text(value) for name, value in self.facts.items()}

    def __str__(self) -> str:
        """Return the warning, the facts and the advice as plain text."""
        width = max(len(name) for name in self.facts)
        facts = [f"  {name:<{width}}  {text}" for name, text in self.fact_texts.items()]
        advice = [f"- {line}" for line in self.advice]
        return "\n".join([FIRST_LINE, repr(self.manifold), *facts, *advice])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the warning, the facts and the advice for a notebook."""
        rows = "".join(
            f"<tr><th>{html.escape(name)}<td>{html.escape(text)}"
            for name, text in self.fact_texts.items()
        )
        advice = "".join(f"<li>{html.escape(line)}" for line in self.advice)
        manifold = html.escape(repr(self.manifold))
        return (
            f"<p><b>{FIRST_LINE}</b><p>{manifold}<table>{rows}</table><ul>{advice}</ul>"
        )


def check(
    manifold: Manifold,
    X: Any,
    center: ArrayLike | None = None,
    radius: float | str | None = None,
    groups: ArrayLike | None = None,
    **reading: Any,
) -> RecordCheck:
    """Look for problems in records before privacy budget is spent on a release.

    It finds records that are missing, off the manifold, in other units, outside the
    ball, or copied. The result is NOT private: it is for people who may see the
    records, and no part of it belongs in a report, a certificate or a parameter.
    Distances to the mean and condition numbers are computed for at most about 20,000
    records.

    Parameters
    ----------
    manifold : Manifold
        The manifold on which the records should lie.
    X : array, frame, list or path
        The records, in any form that `curvedp.records.read_records` accepts.
    center : array, optional
        The center of the public ball; the manifold's origin by default.
    radius : float or "private", optional
        The radius of the public ball. If it is None or "private", the result says
        nothing about the ball.
    groups : array, optional
        The person to whom each record belongs, if people have several records.
    **reading
        Options for reading a file, as for `read_records`: `form`, `header`, `key`,
        `columns`, `mask`, `sep`, `decimal`, `skip`, `encoding`.

    Returns
    -------
    RecordCheck
        Facts and advice. It prints itself.

    Raises
    ------
    ParameterError
        If the file cannot be read, or a shape or parameter is wrong.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> records = np.eye(2) * 1e-10 * np.ones((5, 1, 1))
    >>> checked = check(SPDAffineInvariant(2), records, radius=2.0)
    >>> checked.facts["outside the ball"]
    5
    >>> checked.advice[0].startswith("The records are near 1e-10 times the center")
    True
    """
    check_manifold(manifold)
    ball_center = _check_center(manifold, center)
    ball_radius = None
    if isinstance(radius, str):
        _validate.private_radius(radius)
    elif radius is not None:
        ball_radius = _validate.length("radius", radius)
    with quiet_about_records():
        raw_records = read_records(X, manifold, **reading)
        if is_chunked(raw_records):
            raw_records = raw_records[:_MAX_CHUNKED_RECORDS].compute()
        records = np.asarray(raw_records, dtype=np.float64)
    if not len(records):
        raise ParameterError("there are no records")

    # Two threads of the BLAS take three times the CPU time on matrices of 32 channels.
    with quiet_about_records(), one_blas_thread():
        inspection = _Inspection(manifold, records, ball_center, ball_radius, groups)
        facts = dict(inspection.facts())
        if reading.get("form") is not None:
            # With a form, points are computed from the numbers in the file, so that
            # their decimals say nothing about the file.
            facts.pop("decimals written", None)
        advice = [*inspection.advice(), _LAST_LINE]
    if isinstance(X, str | Path):
        advice = [*advise_on_decimal_sign(X, manifold, records, reading), *advice]
    return RecordCheck(manifold, facts, advice)


def advise_on_decimal_sign(
    path: str | Path,
    manifold: Manifold,
    records: np.ndarray,
    reading: Mapping[str, Any],
) -> list[str]:
    """Say whether a file can be read with decimal commas. NOT private.

    Parameters
    ----------
    path : str or Path
        The file.
    manifold : Manifold
        The manifold of the records.
    records : array of shape (n, *point_shape)
        What was read with decimal points.
    reading : mapping
        How it was read; see `read_records`.

    Returns
    -------
    list of str
        One sentence if most records cannot be read with decimal points, and most can
        be with commas. Otherwise none.
    """
    has_points = reading.get("decimal", ".") == "."
    if not has_points or _finite_share(records) > 0.5:
        return []
    with_commas = {**reading, "decimal": ","}
    try:
        with quiet_about_records():
            reread = np.asarray(read_records(path, manifold, **with_commas))
    except ParameterError:  # the comma separates columns, or the file is no table
        return []
    if _finite_share(reread) <= 0.5:
        return []
    return [
        'Its numbers have decimal commas: with "," as the decimal sign most records can '
        "be read."
    ]


def _finite_share(records: np.ndarray) -> float:
    """Return the share of records all of whose entries are finite.

    Parameters
    ----------
    records : array of shape (n, *point_shape)
        The records.
    """
    rows = np.asarray(records, dtype=np.float64).reshape(len(records), -1)
    return float(np.isfinite(rows).all(axis=1).mean())


def _check_center(manifold: Manifold, center: ArrayLike | None) -> np.ndarray:
    """Return the center of the ball after checking that it is a point.

    Parameters
    ----------
    manifold : Manifold
        Where the center should be.
    center : array of shape point_shape, or None
        The center; None stands for the origin.

    Returns
    -------
    array of shape point_shape
        The center.

    Raises
    ------
    ParameterError
        If the center has another shape or is off the manifold.
    """
    if center is None:
        return np.asarray(manifold.origin)
    point = _validate.array("center", center)
    has_shape = point.shape == manifold.point_shape
    if not has_shape or not float(manifold.residual(point)) <= OFF_MANIFOLD_TOLERANCE:
        raise ParameterError(f"center is not a point of {manifold!r}")
    return point


class _Inspection:
    """Measurements of the records, and the facts and advice that follow from them.

    Attributes
    ----------
    manifold : Manifold
        The manifold on which the records should lie.
    records : array of shape (n, *point_shape)
        The records as they were read.
    center : array of shape point_shape
        The center of the public ball.
    radius : float or None
        The radius of the public ball, if there is one.
    is_finite : array of bool, shape (n,)
        Whether all numbers of a record are finite.
    is_usable : array of bool, shape (n,)
        Whether a record is finite and has a nearest point on the manifold. Zero and
        singular records have none.
    usable_records : array of shape (m, *point_shape)
        The usable records.
    points : array of shape (m, *point_shape)
        The point of the manifold that is nearest to each usable record.
    residuals : array of shape (m,)
        The error of each usable record in the manifold's equations.
    sizes : array of shape (m,)
        The norm of each usable record divided by the norm of the center, if that is not
        zero.
    center_distances : array of shape (m,)
        The distance of each point to the center.
    records_per_person : array of int or None
        The number of records of each person, if groups were given.
    """

    def __init__(
        self,
        manifold: Manifold,
        records: np.ndarray,
        center: np.ndarray,
        radius: float | None,
        groups: ArrayLike | None,
    ) -> None:
        """Measure the records once; `facts` and `advice` follow from the measurements.

        The records are moved to the manifold as a release would move them.

        Parameters
        ----------
        manifold : Manifold
            The manifold on which the records should lie.
        records : array of shape (n, *point_shape)
            The records as they were read, at least one.
        center : array of shape point_shape
            The center of the public ball.
        radius : float or None
            The radius of the public ball, if there is one.
        groups : array or None
            The person to whom each record belongs.
        """
        self.manifold = manifold
        self.records = records
        self.center = center
        self.radius = radius

        point_axes = tuple(range(1, records.ndim))
        self.is_finite = np.isfinite(records).all(axis=point_axes)
        is_finite_column = self.is_finite.reshape(-1, *(1,) * len(point_axes))
        finite_records = np.where(is_finite_column, records, center)
        nearest_points = np.asarray(manifold.from_record(finite_records))
        has_nearest_point = np.isfinite(nearest_points).all(axis=point_axes)
        self.is_usable = self.is_finite & has_nearest_point
        self.usable_records = records[self.is_usable]
        self.points = nearest_points[self.is_usable]

        self.residuals = np.asarray(manifold.residual(self.usable_records))
        norms = np.sqrt(np.sum(np.square(self.usable_records), axis=point_axes))
        # A center at zero has no size to compare with.
        center_norm = np.linalg.norm(center) or 1.0
        self.sizes = norms / center_norm
        self.center_distances = np.asarray(manifold.dist(center, self.points))
        self.records_per_person = None
        if groups is not None:
            person_index = encode_persons(groups, len(records), min_persons=0)
            self.records_per_person = np.bincount(person_index)

    @cached_property
    def n_copies(self) -> int:
        """The number of finite records that are exact copies of an earlier one."""
        record_size = self.records[0].size
        rows = np.ascontiguousarray(
            self.records[self.is_finite].reshape(-1, record_size)
        )
        # Each row is compared as one block of bytes, 8 for each float.
        row_bytes = rows.view(np.dtype((np.void, 8 * record_size)))
        return len(rows) - len(np.unique(row_bytes))

    @cached_property
    def n_constant_entries(self) -> int:
        """The number of entries (columns) with the same value in all usable records.

        Entries that are constant on the manifold, such as the diagonal of a correlation
        matrix, are not counted. The number is 0 if there are fewer than three records,
        or all of them are copies of one.
        """
        if len(self.usable_records) < 3 or self.n_copies >= len(self.records) - 1:
            return 0
        never_varies = (self.usable_records == self.usable_records[0]).all(axis=0)
        random_points = self.manifold.random_point(np.random.default_rng(0), 3)
        varies_by_nature = (random_points != random_points[0]).any(axis=0)
        return int((never_varies & varies_by_nature).sum())

    @cached_property
    def least_eigenvalues(self) -> np.ndarray | None:
        """The smallest eigenvalue of each finite matrix, divided by its largest one.

        It is None if points of the manifold are not positive definite matrices. The
        largest eigenvalue is that of largest absolute value.
        """
        if not isinstance(self.manifold, SPD | CorrelationMatrices):
            return None
        finite_records = _evenly_spaced(
            self.records[self.is_finite], _MAX_MEASURED_RECORDS
        )
        halves = finite_records / 2  # the sum of two entries near 1e308 would overflow
        symmetric_parts = halves + halves.swapaxes(1, 2)
        eigenvalues = np.linalg.eigvalsh(symmetric_parts)
        largest = np.abs(eigenvalues).max(axis=1)
        return np.asarray(eigenvalues[:, 0] / np.where(largest > 0, largest, 1.0))

    @cached_property
    def n_indefinite(self) -> int:
        """The number of usable matrices with a negative eigenvalue.

        A release repairs such records by raising the eigenvalue.
        """
        halves = self.usable_records / 2  # sums of two entries could overflow
        symmetric_parts = halves + halves.swapaxes(1, 2)
        if not len(symmetric_parts):
            return 0
        return int((np.linalg.eigvalsh(symmetric_parts)[:, 0] < 0).sum())

    @cached_property
    def measured_points(self) -> np.ndarray:
        """Evenly spaced points, at most about 20,000, for slow measurements."""
        return _evenly_spaced(self.points, _MAX_MEASURED_RECORDS)

    @cached_property
    def mean(self) -> np.ndarray | None:
        """The Fréchet mean of about 256 points, or None if the solver fails."""
        try:
            sample = _evenly_spaced(self.points, _MEAN_SAMPLE_SIZE)
            return np.asarray(frechet_mean(self.manifold, sample))
        except (CurvedpError, ValueError):
            return None

    @cached_property
    def mean_distances(self) -> np.ndarray:
        """The distances of the measured points to `mean`; empty if there is no mean."""
        if self.mean is None:
            return np.empty(0)
        return np.asarray(self.manifold.dist(self.mean, self.measured_points))

    @cached_property
    def is_scale_free(self) -> bool:
        """Whether multiples of points are points too, as for covariance matrices.

        Then records in any unit are points of the space.
        """
        multiples = 1e3 * self.points[:100]
        residuals = np.asarray(self.manifold.residual(multiples))
        return bool(np.all(residuals <= OFF_MANIFOLD_TOLERANCE))

    def facts(self) -> Iterator[tuple[str, Any]]:
        """Yield the counts and measurements as pairs of a name and a value.

        The order is that of the printed page.

        Returns
        -------
        iterator of (str, object)
            Numbers, lists of numbers and lists of texts.
        """
        n = len(self.records)
        n_finite = int(self.is_finite.sum())
        n_off_manifold = int((self.residuals > OFF_MANIFOLD_TOLERANCE).sum())
        yield "records", n
        yield "not finite", n - n_finite
        yield "zero or singular", n_finite - len(self.points)
        if self.least_eigenvalues is not None:
            yield "indefinite, repaired", self.n_indefinite
        yield "off the manifold", n_off_manifold
        if len(self.points):
            yield from self._measurements()
        yield "copies of another record", self.n_copies
        yield "entries that never vary", self.n_constant_entries
        if self.records_per_person is not None:
            yield "persons", len(self.records_per_person)
            yield "most records of one person", int(self.records_per_person.max())
        yield "spaces they fit", self._fitting_spaces()

    def _measurements(self) -> Iterator[tuple[str, Any]]:
        """Yield facts about lengths and distances of the usable records.

        Each is a pair of a name and a value.

        Returns
        -------
        iterator of (str, object)
            The name and the value of each fact.
        """
        yield "distance off the manifold (50/90/99/100%)", _quantiles(self.residuals)
        yield (
            "decimals written",
            _count_decimals(self.usable_records[:_TESTED_RECORDS]),
        )
        size_name = "scale relative to the center" if self.center.any() else "scale"
        yield size_name, _quantiles(self.sizes)
        yield "distance to the center", _quantiles(self.center_distances)

        if self.radius is not None:
            yield "outside the ball", self._count_outside(self.radius)
        if self.mean is not None:
            mean_distance = float(self.manifold.dist(self.center, self.mean))
            yield "distance from their mean to the center", _three_digits(mean_distance)
            yield "distance to their mean", _quantiles(self.mean_distances)
        has_square_matrices = (
            self.records.ndim == 3 and self.records.shape[1] == self.records.shape[2]
        )
        if has_square_matrices:
            condition_numbers = np.linalg.cond(self.measured_points)
            yield "condition numbers", _quantiles(condition_numbers)

    def _count_outside(self, radius: float) -> int:
        """Return how many points are farther than `radius` from the center.

        Parameters
        ----------
        radius : float
            The radius of the public ball.
        """
        return int((self.center_distances > radius).sum())

    def _fitting_spaces(self) -> list[str]:
        """Return the names of the spaces in which nearly all records lie.

        A record lies in a space if it satisfies its equations up to a tolerance.

        Returns
        -------
        list of str
            Names such as "sphere:2".
        """
        tested_records = self.records[self.is_finite][:_TESTED_RECORDS]
        if not len(tested_records):
            return []
        names = []
        for space in (self.manifold, *_spaces_of_shape(self.records.shape[1:])):
            residuals = np.asarray(space.residual(tested_records))
            fitting_share = np.mean(residuals < _FITTING_TOLERANCE)
            if fitting_share > _FITTING_SHARE and space.name not in names:
                names.append(space.name)
        return names

    def advice(self) -> Iterator[str]:
        """Yield sentences that recommend what to do about the records.

        Returns
        -------
        iterator of str
            Sentences, the most serious first.
        """
        n = len(self.records)
        n_usable = len(self.points)
        n_singular = int(self.is_finite.sum()) - n_usable
        if n_usable < n:
            yield (
                f"Not finite, zero or singular: {n - n_usable} of {n} records, "
                "which become the ball's center."
            )
        if 2 * n_usable < n:
            yield (
                "That is most of them. Check how the file is read: header, columns, "
                "separator, decimal sign, thousands separators, encoding, form."
            )

        if self.least_eigenvalues is not None:
            yield from self._definiteness_advice(n_singular)
        if n_usable:
            yield from self._unit_advice()
            yield from self._ball_advice()
        yield from self._preprocessing_advice()
        yield from self._copy_advice()
        if n < 2:
            yield (
                "One record has no private mean: at least 2 are needed, "
                "and some hundreds for a useful one."
            )

    def _definiteness_advice(self, n_singular: int) -> Iterator[str]:
        """Yield advice on matrices that are not positive definite.

        Parameters
        ----------
        n_singular : int
            The number of finite records without a nearest point on the manifold.

        Returns
        -------
        iterator of str
            Sentences.
        """
        finite_records = self.records[self.is_finite]
        diagonals = np.diagonal(finite_records, axis1=1, axis2=2)
        if n_singular and not diagonals.any():
            yield (
                "All diagonals are 0, as in files of Fisher's z values or where the "
                "diagonal was cleared. Set it to 1, of z values after taking tanh of the "
                "entries; that is a function of each record."
            )
            return

        is_correlation = isinstance(self.manifold, CorrelationMatrices)
        if is_correlation and (np.abs(finite_records) > _BEYOND_CORRELATION).any():
            yield (
                "There are entries beyond 1.5: a covariance is scaled to a correlation, "
                "Fisher's z values are not correlations; take tanh of them."
            )
        if self.n_indefinite:
            yield (
                "Not positive definite, by at most a tenth of the largest eigenvalue, as "
                f"rounded matrices are: {self.n_indefinite} of {len(self.records)} records, "
                "whose small eigenvalues are raised."
            )
        yield from self._singularity_advice(n_singular)

    def _singularity_advice(self, n_singular: int) -> Iterator[str]:
        """Yield advice on matrices that are singular, or clearly indefinite.

        Parameters
        ----------
        n_singular : int
            The number of finite records without a nearest point on the manifold.

        Returns
        -------
        iterator of str
            One sentence, or none.
        """
        least = self.least_eigenvalues
        assert least is not None, "the caller has checked"
        are_mostly_singular = 2 * n_singular > len(self.records)
        if are_mostly_singular and float(np.median(least)) > _ZERO_EIGENVALUE:
            yield (
                "Covariances of fewer samples than channels are singular: "
                "take fewer channels, or regularize."
            )
        elif n_singular and float(least.min()) < _CLEARLY_INDEFINITE:
            yield (
                f"Clearly indefinite: the least eigenvalue is {float(least.min()):.2g} of "
                "the largest. No covariance or correlation matrix is; is the file read as "
                "it was written?"
            )

    def _preprocessing_advice(self) -> Iterator[str]:
        """Yield advice on entries that have the same value in all records.

        Returns
        -------
        iterator of str
            One sentence, or none.
        """
        count = self.n_constant_entries
        if not count:
            return
        yield (
            f"{count} of {self.records[0].size} entries are the same number in all "
            "records. If they were computed from all of them (a template, an average of "
            "trials as in pyRiemann's ERPCovariances, a filter such as Xdawn fitted to "
            "these trials), one person's data are in every record, and no release of "
            "these records is private: fit such steps on public data, or drop them."
        )

    def _copy_advice(self) -> Iterator[str]:
        """Yield advice on records that are copies, or that belong to one person.

        Returns
        -------
        iterator of str
            At most two sentences.
        """
        if self.n_copies:
            yield (
                f"{self.n_copies} records are exact copies of others: "
                "is a person in the file more than once?"
            )
        if self.records_per_person is not None and self.records_per_person.max() > 1:
            yield (
                f"A person has up to {self.records_per_person.max()} records: "
                "pass groups, so that people are protected."
            )

    def _unit_advice(self) -> Iterator[str]:
        """Yield advice on records that seem to be in wrong units or in a wrong form.

        Several causes are tested in turn, and only the first one that fits is reported.

        Returns
        -------
        iterator of str
            No sentence, one, or two.
        """
        # On a scale-free space records of any length are points.
        is_off_manifold = (
            not self.is_scale_free
            and float(np.median(self.residuals)) > OFF_MANIFOLD_TOLERANCE
        )
        small, median, large = np.quantile(self.sizes, (0.05, 0.5, 0.95)).tolist()
        largest_residual = float(self.residuals.max())

        # At most one of these pieces of advice is given, the likeliest cause first.
        if self._are_in_other_units(median):
            multiple = f"near {_three_digits(median):g} times"
            yield (
                f"The records are {multiple} the center: change the units, "
                f"choose a center {multiple} it, or a private radius."
            )
        elif is_off_manifold and large > _LENGTH_FACTOR * small:
            ratio = large / small if small > 0 else np.inf
            yield (
                f"Lengths differ by a factor of {ratio:.3g}: are these points? "
                "Latitudes, quaternions, … need a form."
            )
            if self._has_large_entries():
                yield _DEGREES_ADVICE
        elif self._may_be_degrees():
            yield _DEGREES_ADVICE
        elif OFF_MANIFOLD_TOLERANCE < largest_residual < _ROUNDED_RESIDUAL:
            yield (
                f"The records are off the manifold by up to {largest_residual:.1g}, as "
                "rounded numbers are; the nearest points replace them."
            )
        elif is_off_manifold and abs(median - 1) > _LENGTH_TOLERANCE:
            yield (
                f"The records are {_three_digits(median):g} times as long as points "
                "and are replaced by the nearest points. Are the units right?"
            )

    def _are_in_other_units(self, median_size: float) -> bool:
        """Return whether most records differ from the center by a factor above ten.

        Parameters
        ----------
        median_size : float
            The median size of the records, relative to the center.
        """
        if not self.is_scale_free or not self.center.any() or median_size <= 0:
            return False
        return abs(log10(median_size)) > 1

    def _has_large_entries(self) -> bool:
        """Return whether entries exceed 2π, the largest angle in radians."""
        return float(np.abs(self.usable_records).max()) > 2 * np.pi

    def _may_be_degrees(self) -> bool:
        """Return whether angles on a curved, scale-free space may be in degrees."""
        is_curved = self.manifold.convexity_radius < np.inf
        return self.is_scale_free and is_curved and self._has_large_entries()

    def _ball_advice(self) -> Iterator[str]:
        """Yield advice on the public ball: whether it fits the records.

        Records outside are clipped to its boundary; a larger ball needs more noise.

        Returns
        -------
        iterator of str
            At most three sentences.
        """
        largest_distance = float(self.center_distances.max())
        if self.radius is not None and largest_distance > self.radius:
            yield (
                f"Outside the ball: {self._count_outside(self.radius)} of "
                f"{len(self.records)} records, which are clipped to its boundary and bias "
                "the mean."
            )
        elif self.radius is not None and largest_distance < self.radius / 4:
            yield (
                f"Every record is within {_round_up(largest_distance):g} of the "
                "center: a smaller ball would need less noise."
            )

        largest_allowed = self.manifold.convexity_radius
        needed_radius = _round_up(float(np.quantile(self.center_distances, 0.99)))
        if needed_radius > largest_allowed > 0:
            yield (
                f"A ball about this center needs radius {needed_radius:g}, and "
                f"only balls below {largest_allowed:.3g} have one mean: choose another "
                "center."
            )
        if self.mean is not None:
            # This is about the ball that a private search would find.
            radius_at_mean = _round_up(float(np.quantile(self.mean_distances, 0.99)))
            ending = "."
            if radius_at_mean >= largest_allowed:
                ending = ": more than a given ball may have."
            yield (
                f"99% of them fit into {self.manifold.name} with radius "
                f"{radius_at_mean:g} about a center near their mean{ending}"
            )


def _evenly_spaced(points: np.ndarray, count: int) -> np.ndarray:
    """Return about `count` evenly spaced points.

    It is every k-th point, with k such that at least `count` points remain.

    Parameters
    ----------
    points : array of shape (n, ...)
        The points. If there are fewer than 2·count, all of them are returned.
    count : int
        About the number of points to return.

    Returns
    -------
    array of shape (k, ...)
        Between `count` and twice as many points.
    """
    step = max(1, len(points) // count)
    return points[::step]


def _count_decimals(records: np.ndarray) -> int | None:
    """Return the number of decimals with which the numbers of a file were written.

    Parameters
    ----------
    records : array
        The numbers.

    Returns
    -------
    int or None
        The smallest number of decimals, from 0 to 9, to which rounding changes no
        number; None if there is none.
    """
    for decimals in range(10):
        if np.array_equal(np.round(records, decimals), records):
            return decimals
    return None


def _spaces_of_shape(shape: tuple[int, ...]) -> Iterator[Manifold]:
    """Yield the spaces whose points are arrays of a given shape, such as (3, 3).

    Only spaces with names are tried. A space is omitted if every array of the shape is
    a point of it.

    Parameters
    ----------
    shape : tuple of int
        The shape of one record.

    Returns
    -------
    iterator of Manifold
        Spaces of any curvature.
    """
    for kind in manifold_kinds:
        n_sizes = len(fields(kind))  # type: ignore[arg-type]  # each is a dataclass
        sizes_as_shape = shape[:n_sizes]
        # On a sphere, for example, the dimension is one less than the shape.
        sizes_one_less = tuple(size - 1 for size in sizes_as_shape)
        for sizes in {sizes_as_shape, sizes_one_less}:
            try:
                space = kind(*sizes)
                if space.point_shape == shape and not _is_everywhere_a_point(space):
                    yield space
            except (CurvedpError, TypeError):
                continue


def _is_everywhere_a_point(space: Manifold) -> bool:
    """Return whether every array of the right shape is a point of a space.

    One array is tested, whose entries are all 57.3: no space of interest contains it by
    chance.

    Parameters
    ----------
    space : Manifold
        The space.
    """
    array = np.full(space.point_shape, 57.3)
    return bool(space.residual(array) <= OFF_MANIFOLD_TOLERANCE)


def _quantiles(values: np.ndarray) -> list[float]:
    """Return the median, the 90% and 99% quantiles and the maximum, to three digits.

    Parameters
    ----------
    values : array
        Measurements, at least one.

    Returns
    -------
    list of float
        Four numbers in ascending order.
    """
    quantiles = np.quantile(values, _QUANTILE_SHARES)
    return [_three_digits(float(quantile)) for quantile in quantiles]


def _three_digits(value: float) -> float:
    """Return a number rounded to three significant digits.

    Parameters
    ----------
    value : float
        A measurement.
    """
    return float(f"{value:.3g}")


def _round_up(value: float) -> float:
    """Return a positive number rounded up to two significant digits.

    Parameters
    ----------
    value : float
        A length; 0, infinity and NaN are returned as they are.
    """
    if not 0 < value < np.inf:
        return float(value)
    unit = 10.0 ** (floor(log10(value)) - 1)
    return _three_digits(ceil(value / unit) * unit)


def _fact_text(value: Any) -> str:
    """Return the value of a fact as text; None stands for more than 9 decimals.

    Parameters
    ----------
    value : object
        A number, a text, a list of them, or None.
    """
    if isinstance(value, list):
        return ", ".join(_number_text(item) for item in value) or "none"
    if value is None:
        return "more than 9"
    return _number_text(value)


def _number_text(value: Any) -> str:
    """Return a float in its shortest form, and anything else as Python prints it.

    Parameters
    ----------
    value : object
        A number or a text.
    """
    return f"{value:g}" if isinstance(value, float) else str(value)
