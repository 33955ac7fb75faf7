"""What is wrong with records, for those who may see them: `check`. Nothing here is private, and no release reads it."""

import html
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from math import ceil, floor, log10
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import frechet_mean
from curvedp.geometry.manifold import OFF_MANIFOLD_TOLERANCE, Manifold, check_manifold
from curvedp.records import read_records
from curvedp.records.base import is_chunked
from curvedp.records.persons import person_codes

__all__ = ["Checked", "check"]

FIRST_LINE = "NOT PRIVATE: this page describes the records. Keep it where they are, never beside a release."
_LAST_LINE = (
    "Whatever you take from this page as the radius or the center is itself a release "
    "of the data: choose both from what is "
    "known of the field, or pay for them with a private radius."
)
_DEGREES = "There are entries beyond 2π: degrees? Nothing is guessed; a form's name says degrees or radians."
_MOST = 10**6  # records of a dask array that are looked at
_MANY, _SOME = (
    20_000,
    256,
)  # records that what takes long is measured on, and that a rough mean is taken of
_SHARES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Checked:
    """What `check` found. It prints itself, in a notebook too. NOT private.

    Attributes
    ----------
    facts, advice : dict and list of str
        What was counted and measured, by name; and what to do about it, one line each.
    """

    manifold: Manifold
    facts: dict[str, Any] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain numbers, lists and texts."""
        return {
            "warning": FIRST_LINE,
            "manifold": repr(self.manifold),
            "facts": self.facts,
            "advice": self.advice,
        }

    @property
    def shown(self) -> dict[str, str]:
        """The facts as texts."""
        return {name: _shown(value) for name, value in self.facts.items()}

    def __str__(self) -> str:
        width = max(map(len, self.facts))
        lines = [f"  {name:<{width}}  {text}" for name, text in self.shown.items()]
        return "\n".join(
            [
                FIRST_LINE,
                f"{self.manifold!r}",
                *lines,
                *(f"- {line}" for line in self.advice),
            ]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(k)}<td>{html.escape(v)}"
            for k, v in self.shown.items()
        )
        advice = "".join(f"<li>{html.escape(line)}" for line in self.advice)
        return f"<p><b>{FIRST_LINE}</b><p>{html.escape(repr(self.manifold))}<table>{rows}</table><ul>{advice}</ul>"


def check(
    manifold: Manifold,
    X: Any,
    center: Any = None,
    radius: float | None = None,
    groups: Any = None,
    **reading: Any,
) -> Checked:
    """Look at records before anything is spent: what is missing, off the manifold, in other units, outside the ball, copied.

    The result is NOT private: it is for the person who may see the records, and no part of it belongs in a report, a
    certificate or a parameter. Distances to their mean and condition numbers are of at most 20,000 records.

    Parameters
    ----------
    manifold : Manifold
        Where the records are meant to live.
    X : array, frame, list or path
        Whatever `curvedp.records.read_records` reads.
    center, radius : array and float, optional
        The public ball's; the center is the manifold's origin otherwise, and without a radius nothing is said of the ball.
    groups : array, optional
        Whose record each is, where a person has several.
    **reading
        How a file is read, as of `read_records`: `form`, `header`, `key`, `columns`, `mask`, `sep`, `decimal`, `skip`,
        `encoding`.

    Returns
    -------
    Checked
        Facts and advice; it prints itself.

    Raises
    ------
    ParameterError
        For a shape, a file or a parameter that does not fit.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> found = check(SPDAffineInvariant(2), np.eye(2) * 1e-10 * np.ones((5, 1, 1)), radius=2.0)
    >>> found.facts["outside the ball"]
    5
    >>> print(found.advice[0])
    The records are near 1e-10 times the center: change the units, pass center= near 1e-10 times it, or radius='private'.
    """
    M = check_manifold(manifold)
    middle = M.origin if center is None else _validate.array("center", center)
    if (
        middle.shape != M.point_shape
        or not float(M.residual(middle)) <= OFF_MANIFOLD_TOLERANCE
    ):
        raise ParameterError(f"center is not a point of {M!r}")
    reach = None if radius is None else _validate.length("radius", radius)
    with quiet_about_records():
        found = read_records(X, M, **reading)
        if is_chunked(found):
            found = found[:_MOST].compute()
        records = np.asarray(found, dtype=np.float64)
    if not len(records):
        raise ParameterError("there are no records")
    with quiet_about_records():
        looked = _Look(M, records, middle, reach, groups)
        return Checked(M, dict(looked.facts()), [*looked.advice(), _LAST_LINE])


class _Look:
    """One look at the records: what several facts and pieces of advice need is found once."""

    def __init__(
        self,
        M: Manifold,
        X: np.ndarray,
        center: np.ndarray,
        radius: float | None,
        groups: Any,
    ) -> None:
        self.M, self.X, self.center, self.radius = M, X, center, radius
        axes = tuple(range(1, X.ndim))
        self.finite = np.isfinite(X).all(axis=axes)
        nearest = np.asarray(
            M.from_record(
                np.where(self.finite.reshape(-1, *(1,) * (X.ndim - 1)), X, center)
            )
        )
        self.usable = self.finite & np.isfinite(nearest).all(axis=axes)
        self.points = nearest[self.usable]
        self.off = np.asarray(M.residual(X[self.usable]))
        self.size = np.sqrt(np.sum(np.square(X[self.usable]), axis=axes))
        self.size /= (
            np.linalg.norm(center) or 1.0
        )  # a center at 0 has no size to compare with
        self.distance = np.asarray(M.dist(center, self.points))
        rows = np.ascontiguousarray(X[self.finite].reshape(-1, X[0].size))
        self.copies = len(rows) - len(
            np.unique(rows.view(np.dtype((np.void, 8 * X[0].size))))
        )
        self.many = self.points[:: max(1, len(self.points) // _MANY)]
        self.persons = (
            None
            if groups is None
            else np.bincount(person_codes(groups, len(X), least=0))
        )
        self.mean, self.spread = None, np.empty(0)
        with suppress(CurvedpError, ValueError):  # there may be none
            self.mean = np.asarray(
                frechet_mean(M, self.points[:: max(1, len(self.points) // _SOME)])
            )
            self.spread = np.asarray(M.dist(self.mean, self.many))

    def facts(self) -> Iterator[tuple[str, Any]]:
        n = len(self.X)
        yield "records", n
        yield "not finite", int(n - self.finite.sum())
        yield "zero or singular", int(self.finite.sum() - self.usable.sum())
        yield "off the manifold", int((self.off > OFF_MANIFOLD_TOLERANCE).sum())
        if len(self.points):
            yield from self._measures()
        yield "copies of another record", self.copies
        if self.persons is not None:
            yield "persons", len(self.persons)
            yield "most records of one person", int(self.persons.max())
        some, those = self.X[self.finite][:1000], (self.M, *_of_shape(self.X.shape[1:]))
        fitting = (
            M.name
            for M in those
            if len(some) and np.mean(np.asarray(M.residual(some)) < 1e-3) > 0.9
        )
        yield (
            "spaces they fit",
            list(dict.fromkeys(fitting)),
        )  # of whose equations nearly all are within rounding

    def _measures(self) -> Iterator[tuple[str, Any]]:
        yield "off by (half, 90%, 99%, all)", _quantiles(self.off)
        some = self.X[self.usable][:1000]
        yield (
            "decimals written",
            next(
                (k for k in range(10) if np.array_equal(np.round(some, k), some)), None
            ),
        )
        yield (
            ("size, times the center's" if self.center.any() else "size"),
            _quantiles(self.size),
        )
        yield "distance to the center", _quantiles(self.distance)
        if self.radius is not None:
            yield "outside the ball", int((self.distance > self.radius).sum())
        if self.mean is not None:
            yield (
                "their mean to the center",
                _short(float(self.M.dist(self.center, self.mean))),
            )
            yield "distance to their mean", _quantiles(self.spread)
        if self.X.ndim == 3 and self.X.shape[1] == self.X.shape[2]:
            yield "condition numbers", _quantiles(np.linalg.cond(self.many))

    def advice(self) -> Iterator[str]:
        n, good = len(self.X), len(self.points)
        if good < n:
            yield f"Not finite, zero or singular: {n - good} of {n} records, which become the ball's center."
        if 2 * good < n:
            ways = "header, columns, separator, decimal sign, encoding, form"
            yield f"That is most of them: is the file read as it was written ({ways}), without thousands separators?"
        if 2 * (self.finite.sum() - good) > n and self.X.ndim == 3:
            yield "Covariances of fewer samples than channels are singular: take fewer channels, or regularize."
        if good:
            yield from self._units()
            yield from self._ball()
        if self.copies:
            yield f"{self.copies} records are exact copies of others: is a person in the file more than once?"
        if self.persons is not None and self.persons.max() > 1:
            most = self.persons.max()
            yield (
                f"A person has up to {most} records: "
                "release with groups, so that it is for persons."
            )
        if n < 2:
            yield "One record has no private mean: at least 2 are needed, and some hundreds for a useful one."

    def _units(self) -> Iterator[str]:
        low, scale, high = map(float, np.quantile(self.size, (0.05, 0.5, 0.95)))
        beyond = float(np.abs(self.X[self.usable]).max()) > 2 * np.pi
        # Points of many spaces differ in length, and are points.
        off = (
            not self._scale_free()
            and float(np.median(self.off)) > OFF_MANIFOLD_TOLERANCE
        )
        if (
            self._scale_free()
            and self.center.any()
            and scale > 0
            and abs(log10(scale)) > 1
        ):
            near = f"near {_short(scale):g} times"
            yield f"The records are {near} the center: change the units, choose a center {near} it, or a private radius."
        elif off and high > 1.2 * low:
            factor = high / low if low > 0 else np.inf
            yield f"Lengths differ by a factor of {factor:.3g}: are these points? Latitudes, quaternions, … need a form."
            if beyond:
                yield _DEGREES
        elif self._scale_free() and self.M.convexity_radius < np.inf and beyond:
            yield _DEGREES
        elif OFF_MANIFOLD_TOLERANCE < (most := float(self.off.max())) < 0.01:
            yield f"The records are off by up to {most:.1g}, as rounded ones are, and are taken for the nearest points."
        elif off and abs(scale - 1) > 1e-3:
            yield f"The records are {_short(scale):g} times as long as points and are taken for the nearest: other units?"

    def _ball(self) -> Iterator[str]:
        furthest = float(self.distance.max())
        if self.radius is not None and furthest > self.radius:
            outside = int((self.distance > self.radius).sum())
            yield f"Outside the ball: {outside} of {len(self.X)} records, which are moved to its edge and bias the mean."
        elif self.radius is not None and furthest < self.radius / 4:
            yield f"Every record is within {_up(furthest):g} of the center: the noise is for a wider ball than they need."
        reach = _up(float(np.quantile(self.distance, 0.99)))
        if reach > self.M.convexity_radius > 0:
            limit = f"only balls below {self.M.convexity_radius:.3g} have one mean"
            yield f"A ball about this center needs radius {reach:g}, and {limit}: choose another center."
        if (
            self.mean is not None
        ):  # a ball about it: what a private choice would look for
            reach = _up(float(np.quantile(self.spread, 0.99)))
            fits = f"99% of them fit into {self.M.name} with radius {reach:g} about a center near their mean"
            yield fits + (
                ": more than a given ball may have."
                if reach >= self.M.convexity_radius
                else "."
            )

    def _scale_free(self) -> bool:
        """Whether multiples of points are points: the space has no scale of its own."""
        return bool(
            np.all(
                np.asarray(self.M.residual(1e3 * self.points[:100]))
                <= OFF_MANIFOLD_TOLERANCE
            )
        )


def _of_shape(shape: tuple[int, ...]) -> Iterator[Manifold]:
    """Every named space whose points have this shape, but for those of which everything is a point."""
    for cls in Manifold.kinds.values():
        arity = len(fields(cls))  # type: ignore[arg-type]  # every manifold is a dataclass
        for sizes in {shape[:arity], tuple(size - 1 for size in shape[:arity])}:
            try:
                M = cls(*sizes)
                if (
                    M.point_shape == shape
                    and not M.residual(np.full(shape, 57.3)) <= OFF_MANIFOLD_TOLERANCE
                ):
                    yield M
            except (CurvedpError, TypeError):
                continue


def _quantiles(values: np.ndarray) -> list[float]:
    return [_short(float(q)) for q in np.quantile(values, _SHARES)]


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _up(value: float) -> float:
    """Rounded up to two digits."""
    if not 0 < value < np.inf:
        return float(value)
    unit = 10.0 ** (floor(log10(value)) - 1)
    return _short(ceil(value / unit) * unit)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return (
            ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)
            or "none"
        )
    return (
        "more than 9"
        if value is None
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
