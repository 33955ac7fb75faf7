"""What can be released by name, and what each asks for: the command line and the studio read this one table."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from curvedp._files import write_atomically
from curvedp.errors import ParameterError


class Offer(NamedTuple):
    """An estimator, as those who write no Python ask for it.

    Attributes
    ----------
    estimator : str
        Its name in `curvedp`.
    title, words : str
        What is released, in a word and in a sentence.
    asks : tuple of str
        Its public parameters, besides what every estimator has.
    takes : tuple of str
        What `fit` takes, in this order: the records, and a column of the file with them.
    """

    estimator: str
    title: str
    words: str
    asks: tuple[str, ...]
    takes: tuple[str, ...] = ("records",)

    @property
    def column(self) -> str | None:
        """The column that is asked for beside the records."""
        return next((name for name in self.takes if name != "records"), None)

    def made(self, options: Mapping[str, Any], **paid: Any) -> Any:
        """The estimator with these options, of which others and those that are None are left out."""
        from curvedp import estimators

        return getattr(estimators, self.estimator)(**self.chosen(options), **paid)

    def chosen(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that the estimator asks for."""
        given = {name: options[name] for name in self.asks if options.get(name) is not None}
        if "x_range" in self.asks:
            given["x_range"] = _pair(given.get("x_range"))
        return given

    def fit(self, estimator: Any, columns: Mapping[str, Any]) -> Any:
        """Release: the only call, whoever asks."""
        self.check(columns)
        return estimator.fit(*(columns[name] for name in self.takes), groups=columns.get("groups"))

    def check(self, columns: Mapping[str, Any]) -> None:
        """Refuse where the column beside the records is missing."""
        if self.column is not None and columns.get(self.column) is None:
            raise ParameterError(f"{self.column} is missing: {_COLUMNS[self.column]}")


_COLUMNS = {"labels": "the column with the class of each record, which is public", "x": "the column with the predictor"}
_BALL = ("manifold", "radius", "center", "mechanism", "outer_radius")
_LINE = ("manifold", "radius", "speed", "clip", "x_range", "method", "center", "outer_radius")
OFFERS = {
    "mean": Offer(
        "PrivateFrechetMean",
        "Fréchet mean",
        "The private Fréchet mean; with -r private no radius is needed.",
        _BALL,
    ),
    "median": Offer("PrivateFrechetMedian", "median", "The private geometric median.", _BALL),
    "dispersion": Offer("PrivateDispersion", "dispersion", "The private Fréchet variance.", _BALL),
    "pca": Offer(
        "PrivatePCA",
        "principal directions",
        "Private principal directions of records that are vectors.",
        ("n_components", "radius", "method"),
    ),
    "mdm": Offer(
        "PrivateMDM",
        "class means",
        "One private mean a class: a classifier by the nearest of them.",
        (*_BALL, "ball"),
        ("records", "labels"),
    ),
    "regression": Offer(
        "PrivateGeodesicRegression",
        "geodesic",
        "A private geodesic through the records, by a predictor.",
        _LINE,
        ("x", "records"),
    ),
}


def offered(name: str) -> Offer:
    """The offer of that name, or a `ParameterError` that lists them."""
    if name not in OFFERS:
        raise ParameterError(f"{str(name)[:40]!r} is not a statistic; choose one of {', '.join(OFFERS)}")
    return OFFERS[name]


def _pair(ends: Any) -> tuple[float, float]:
    if ends is None:
        raise ParameterError("x_range is missing: choose it from domain knowledge, not from the data")
    low, _, high = str(ends).partition(",")
    try:
        return float(low), float(high)
    except ValueError:
        raise ParameterError(f"x_range={ends!r} must be two numbers with a comma between, such as 20,90") from None


def values(fitted: Any, found: Any) -> Any:
    """All that was released (`alarms.released`), as one array."""
    import numpy as np

    if hasattr(fitted, "velocity_"):
        shape = (-1, *fitted.footpoint_.shape)
        return np.concatenate([fitted.footpoint_[None], fitted.velocity_.reshape(shape)])
    each = [value for _, value, _ in found]
    return np.stack(each) if hasattr(fitted, "certificates_") else each[0]


def write(fitted: Any, out: Path | None, certificate: Path | None, report: Path | None) -> Any:
    """Value (npy or csv), certificates (numbered where there are several) and page; what `alarms.released` finds."""
    from curvedp.alarms import released

    found = released(fitted)
    if out is not None:
        write_atomically(out, _encoded(values(fitted, found), out.suffix))
    if certificate is not None:
        for number, (_, _, each) in enumerate(found, 1):
            name = certificate.stem + (f"-{number}" if len(found) > 1 else "") + certificate.suffix
            each.save(certificate.with_name(name))
    if report is not None:
        from curvedp.report import write_report

        write_report(report, fitted)
    return found


def _encoded(value: Any, suffix: str) -> bytes:
    import numpy as np

    buffer = io.BytesIO()
    if suffix == ".csv":
        rows = value.reshape(len(value) if value.ndim > 1 else 1, -1)
        np.savetxt(buffer, rows, delimiter=",", fmt="%.17g")
    else:
        np.save(buffer, value)
    return buffer.getvalue()
