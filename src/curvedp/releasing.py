"""The table of statistics that can be released by name, and the files of a release.

`curvedp release` and the studio both read this one table, so that they offer the same
statistics with the same parameters, and write the same files.
"""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from curvedp._files import write_atomically
from curvedp.errors import ParameterError

if TYPE_CHECKING:
    from curvedp.core.certificate import Certificate
    from curvedp.estimators.base import PrivateEstimator

# What a column beside the records contains, for the message that it is missing.
_COLUMN_DESCRIPTIONS = {
    "labels": "the column with the class of each record, which is public",
    "x": "the column with the predictor",
}


class Offer(NamedTuple):
    """An estimator, as it is offered to people who write no Python.

    Attributes
    ----------
    estimator : str
        The name of its class in `curvedp`.
    title : str
        What is released, in a word or two.
    description : str
        What is released, in a sentence.
    parameters : tuple of str
        Its public parameters, besides those that every estimator has.
    fit_arguments : tuple of str
        What `fit` takes, in this order: "records", and possibly a column beside them.
    """

    estimator: str
    title: str
    description: str
    parameters: tuple[str, ...]
    fit_arguments: tuple[str, ...] = ("records",)

    @property
    def column(self) -> str | None:
        """The column that `fit` takes beside the records: "labels", "x" or None."""
        for name in self.fit_arguments:
            if name != "records":
                return name
        return None

    def build(self, options: Mapping[str, Any], **payment: Any) -> "PrivateEstimator":
        """Return the estimator with these options, before it is fitted.

        Parameters
        ----------
        options : mapping
            Options by name. Those that the estimator does not have, and those that are
            None, are ignored.
        **payment
            What every estimator takes: `guarantee`, `ledger`, `label`.
        """
        estimator_class = _estimator_classes()[self.estimator]
        return estimator_class(**self.select_options(options), **payment)

    def select_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return those options that the estimator has and that are not None.

        Raises
        ------
        ParameterError
            If the estimator needs the public range of a predictor (`x_range`), and it
            is missing or is not two numbers with a comma between them.
        """
        selected = {}
        for name in self.parameters:
            if options.get(name) is not None:
                selected[name] = options[name]
        if "x_range" in self.parameters:
            selected["x_range"] = _parse_range(selected.get("x_range"))
        return selected

    def fit(self, estimator: Any, columns: Mapping[str, Any]) -> Any:
        """Fit the estimator, which spends the budget, and return it.

        Parameters
        ----------
        estimator : PrivateEstimator
            What `build` returns.
        columns : mapping
            The records as "records", the column beside them by its name, and possibly
            the person of each record as "groups".
        """
        self.check_columns(columns)
        arguments = [columns[name] for name in self.fit_arguments]
        return estimator.fit(*arguments, groups=columns.get("groups"))

    def check_columns(self, columns: Mapping[str, Any]) -> None:
        """Raise a `ParameterError` if the column beside the records is missing."""
        if self.column is not None and columns.get(self.column) is None:
            raise ParameterError(
                f"is missing: {_COLUMN_DESCRIPTIONS[self.column]}",
                parameter=self.column,
            )


def _parse_range(text: Any) -> tuple[float, float]:
    """Return the two numbers of a public range, such as "20,90"."""
    if text is None:
        raise ParameterError(
            "is missing: choose it from domain knowledge, not from the data",
            parameter="x_range",
        )
    low, _, high = str(text).partition(",")
    try:
        return float(low), float(high)
    except ValueError:
        raise ParameterError(
            "must be two numbers with a comma between, such as 20,90",
            parameter="x_range",
            value=text,
        ) from None


def _estimator_classes() -> "dict[str, Callable[..., PrivateEstimator]]":
    """Return the classes of the estimators in the table, by name."""
    # This import is slow, and the command line needs the table before it.
    from curvedp import estimators

    return {
        "PrivateFrechetMean": estimators.PrivateFrechetMean,
        "PrivateFrechetMedian": estimators.PrivateFrechetMedian,
        "PrivateDispersion": estimators.PrivateDispersion,
        "PrivatePCA": estimators.PrivatePCA,
        "PrivateMDM": estimators.PrivateMDM,
        "PrivateGeodesicRegression": estimators.PrivateGeodesicRegression,
    }


# The public parameters of a statistic of records in a ball.
_BALL_PARAMETERS = ("manifold", "radius", "center", "mechanism", "outer_radius")

# The statistics that can be released, by the name that is typed.
OFFERS = {
    "mean": Offer(
        estimator="PrivateFrechetMean",
        title="Fréchet mean",
        description=("The private Fréchet mean; with -r private no radius is needed."),
        parameters=_BALL_PARAMETERS,
    ),
    "median": Offer(
        estimator="PrivateFrechetMedian",
        title="median",
        description="The private geometric median.",
        parameters=_BALL_PARAMETERS,
    ),
    "dispersion": Offer(
        estimator="PrivateDispersion",
        title="dispersion",
        description="The private Fréchet variance.",
        parameters=_BALL_PARAMETERS,
    ),
    "pca": Offer(
        estimator="PrivatePCA",
        title="principal directions",
        description="Private principal directions of vectors.",
        parameters=("n_components", "radius", "method"),
    ),
    "mdm": Offer(
        estimator="PrivateMDM",
        title="class means",
        description="Private class means, to classify by the nearest.",
        parameters=(*_BALL_PARAMETERS, "ball"),
        fit_arguments=("records", "labels"),
    ),
    "regression": Offer(
        estimator="PrivateGeodesicRegression",
        title="geodesic",
        description="A private geodesic through the records, by a predictor.",
        parameters=(
            "manifold",
            "radius",
            "speed",
            "clip",
            "x_range",
            "method",
            "center",
            "outer_radius",
        ),
        fit_arguments=("x", "records"),
    ),
}


def find_offer(name: str) -> Offer:
    """Return the offer of this name, or raise an error that lists them all."""
    if name not in OFFERS:
        raise ParameterError(
            f"{str(name)[:40]!r} is not a statistic; choose one of {', '.join(OFFERS)}"
        )
    return OFFERS[name]


def parse_column(text: str) -> str | int:
    """Return a column as it is typed: its place from 0 if it is a number, or its name.

    Only ASCII digits make a number. Python also calls characters such as ² digits, but
    does not read them as numbers.
    """
    is_number = text.isascii() and text.isdigit()
    return int(text) if is_number else text


def write(
    fitted: "PrivateEstimator",
    out: Path | None,
    certificate: Path | None,
    report: Path | None,
) -> None:
    """Write what was released: value, certificates and report, each if it has a path.

    Parameters
    ----------
    fitted : PrivateEstimator
        The estimator after `fit`.
    out : path, optional
        The file of the released values as one array, .npy or .csv.
    certificate : path, optional
        The file of the certificate; several certificates are numbered.
    report : path, optional
        The file of the page that explains the release.
    """
    if out is not None:
        write_atomically(out, value_content(fitted, out.suffix))
    if certificate is not None:
        contents = certificate_contents(fitted, certificate.name)
        for name, content in contents.items():
            write_atomically(certificate.with_name(name), content)
    if report is not None:
        # The report needs an extra that others do not have to install.
        from curvedp.report import write_report

        write_report(report, fitted)


def value_content(fitted: "PrivateEstimator", suffix: str) -> bytes:
    """Return the file content of all released values.

    Parameters
    ----------
    fitted : PrivateEstimator
        The estimator after `fit`.
    suffix : str
        ".csv" for text with all digits; any other suffix for numpy's own format.
    """
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
    """Return the contents of the certificate files by file name; several are numbered.

    Parameters
    ----------
    fitted : PrivateEstimator
        The estimator after `fit`.
    name : str
        The file name if there is one certificate, such as "certificate.json". With
        several they are called "certificate-1.json", "certificate-2.json", …
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
    """Return the certificates of what was released, each once.

    Several released values may share one certificate object.
    """
    certificate_by_id = {
        id(release.certificate): release.certificate for release in fitted.releases
    }
    return list(certificate_by_id.values())
