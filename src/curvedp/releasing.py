"""What can be released by name, and what each asks for: the command line and the studio read this one table."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from curvedp._files import write_atomically
from curvedp.errors import ParameterError

if TYPE_CHECKING:
    from curvedp.core.certificate import Certificate
    from curvedp.estimators.base import PrivateEstimator


class Offer(NamedTuple):
    """An estimator, as those who write no Python ask for it."""

    estimator: str  # its name in `curvedp`
    title: str  # what is released, in a word
    words: str  # and in a sentence
    asks: tuple[str, ...]  # its public parameters, besides what every estimator has
    takes: tuple[str, ...] = (
        "records",
    )  # what `fit` takes, in this order: the records, and a column beside them

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
        given = {
            name: options[name] for name in self.asks if options.get(name) is not None
        }
        if "x_range" not in self.asks:
            return given
        if (ends := given.get("x_range")) is None:
            raise ParameterError(
                "is missing: choose it from domain knowledge, not from the data",
                parameter="x_range",
            )
        low, _, high = str(ends).partition(",")
        try:
            return {**given, "x_range": (float(low), float(high))}
        except ValueError:
            raise ParameterError(
                "must be two numbers with a comma between, such as 20,90",
                parameter="x_range",
                value=ends,
            ) from None

    def fit(self, estimator: Any, columns: Mapping[str, Any]) -> Any:
        """Release: the only call, whoever asks."""
        self.check(columns)
        return estimator.fit(
            *(columns[name] for name in self.takes), groups=columns.get("groups")
        )

    def check(self, columns: Mapping[str, Any]) -> None:
        """Refuse where the column beside the records is missing."""
        if self.column is not None and columns.get(self.column) is None:
            raise ParameterError(
                f"is missing: {_COLUMNS[self.column]}", parameter=self.column
            )


_COLUMNS = {
    "labels": "the column with the class of each record, which is public",
    "x": "the column with the predictor",
}
_BALL = ("manifold", "radius", "center", "mechanism", "outer_radius")
_LINE = (
    "manifold",
    "radius",
    "speed",
    "clip",
    "x_range",
    "method",
    "center",
    "outer_radius",
)
_NO_RADIUS = "with -r private no radius is needed"
_MEANS, _VECTORS = (
    "Private class means, to classify by the nearest.",
    "Private principal directions of vectors.",
)
_GEODESIC = "A private geodesic through the records, by a predictor."
OFFERS = {
    "mean": Offer(
        "PrivateFrechetMean",
        "Fréchet mean",
        f"The private Fréchet mean; {_NO_RADIUS}.",
        _BALL,
    ),
    "median": Offer(
        "PrivateFrechetMedian", "median", "The private geometric median.", _BALL
    ),
    "dispersion": Offer(
        "PrivateDispersion", "dispersion", "The private Fréchet variance.", _BALL
    ),
    "pca": Offer(
        "PrivatePCA",
        "principal directions",
        _VECTORS,
        ("n_components", "radius", "method"),
    ),
    "mdm": Offer(
        "PrivateMDM", "class means", _MEANS, (*_BALL, "ball"), ("records", "labels")
    ),
    "regression": Offer(
        "PrivateGeodesicRegression", "geodesic", _GEODESIC, _LINE, ("x", "records")
    ),
}


def offered(name: str) -> Offer:
    """The offer of that name, or a `ParameterError` that lists them."""
    if name not in OFFERS:
        raise ParameterError(
            f"{str(name)[:40]!r} is not a statistic; choose one of {', '.join(OFFERS)}"
        )
    return OFFERS[name]


def place_of(column: str) -> str | int:
    """A column as it is typed: its place, where that is a number, or its name. Of names such as ² Python calls digits what it
    does not read as numbers."""
    return int(column) if column.isascii() and column.isdigit() else column


def write(
    fitted: "PrivateEstimator",
    out: Path | None,
    certificate: Path | None,
    report: Path | None,
) -> None:
    """Write what was released: value, certificates and report, each where it is asked for.

    Parameters
    ----------
    fitted : PrivateEstimator
        After `fit`.
    out : path, optional
        For the released values as one array, .npy or .csv.
    certificate : path, optional
        For the certificate; where there are several they are numbered.
    report : path, optional
        For the page that explains the release.
    """
    if out is not None:
        write_atomically(out, value_content(fitted, out.suffix))
    if certificate is not None:
        contents = certificate_contents(fitted, certificate.name)
        for name, content in contents.items():
            write_atomically(certificate.with_name(name), content)
    if report is not None:
        from curvedp.report import write_report

        write_report(report, fitted)


def value_content(fitted: "PrivateEstimator", suffix: str) -> bytes:
    """Return the file of everything that was released: csv with all digits, or npy."""
    import numpy as np

    value = fitted.released_array()
    buffer = io.BytesIO()
    if suffix == ".csv":
        n_rows = len(value) if value.ndim > 1 else 1
        rows = value.reshape(n_rows, -1)
        np.savetxt(buffer, rows, delimiter=",", fmt="%.17g")
    else:
        np.save(buffer, value)
    return buffer.getvalue()


def certificate_contents(fitted: "PrivateEstimator", name: str) -> dict[str, bytes]:
    """Return the files of the certificates, by name; several are numbered.

    Parameters
    ----------
    fitted : PrivateEstimator
        After `fit`.
    name : str
        The name of the file where there is one certificate: "certificate.json".
    """
    certificates = certificates_of(fitted)
    path = Path(name)
    contents = {}
    for number, certificate in enumerate(certificates, 1):
        suffix = f"-{number}" if len(certificates) > 1 else ""
        content = (certificate.to_json() + "\n").encode()
        contents[path.stem + suffix + path.suffix] = content
    return contents


def certificates_of(fitted: "PrivateEstimator") -> list["Certificate"]:
    """Return the certificates of what was released, each once."""
    each = {id(release.certificate): release.certificate for release in fitted.releases}
    return list(each.values())
