"""What a study has released, as the page shows it and as files are written of it.
A *study* is what the user chose on the page: a file, a statistic and a guarantee. Its
*outcome* is a summary for the page, and the files that the user can download.
"""

import io
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvedp.core.wording import protected_unit_sentence
from curvedp.geometry import parse_manifold
from curvedp.records.output_forms import value_lines
from curvedp.release.warnings import estimator_warnings
from curvedp.releasing import certificate_contents, public_center, value_content

if TYPE_CHECKING:
    from curvedp.estimators.base import PrivateEstimator
    from curvedp.studio.study import Study

# So many lines of a further file are shown on the page.
_SHOWN_LINES = 6


@dataclass(frozen=True)
class Outcome:
    """What a study has released, after it was paid for.

    Attributes
    ----------
    summary : dict
        The text of the page about it, apart from its files, as JSON values.
    files : dict
        For each file by name a function that returns its content. Those that cannot be
        made again, the value and the certificates, come first.
    warnings : list of str
        Warnings about what was released.
    private_picture : callable, optional
        Returns a picture of the records beside what was released, as a data URI. NOT
        private.
    """

    summary: dict[str, Any]
    files: dict[str, Callable[[], str | bytes]]
    warnings: list[str] = field(default_factory=list)
    private_picture: Callable[[], str] | None = None


def estimator_outcome(
    study: "Study", fitted_estimator: "PrivateEstimator", data: Path
) -> Outcome:
    """Return the outcome of a fitted estimator: its summary for the page and its files.

    Parameters
    ----------
    study : Study
        The study that was released.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    data : Path
        The file with the records.

    Returns
    -------
    Outcome
        The results for the page, and their files.
    """
    form = study.form
    files: dict[str, Callable[[], str | bytes]] = {
        "value.csv": partial(value_content, fitted_estimator, ".csv", form)
    }
    contents = certificate_contents(fitted_estimator, "certificate.json")
    if study.offer.make_files is not None:
        contents.update(study.offer.make_files(fitted_estimator, form))
    for name, content in contents.items():
        files[name] = partial(bytes, content)
    files["report.html"] = partial(_report, study, fitted_estimator)

    picture = None
    if study.offer.private_picture is not None:
        picture = partial(_private_picture, study, fitted_estimator, data)
    return Outcome(
        summary=_page_summary(study, fitted_estimator),
        files=files,
        warnings=[warning.text for warning in estimator_warnings(fitted_estimator)],
        private_picture=picture,
    )


def _page_summary(
    study: "Study", fitted_estimator: "PrivateEstimator"
) -> dict[str, Any]:
    """Return the text of the page about a release, apart from its files.

    Parameters
    ----------
    study : Study
        The study that was released.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.

    Returns
    -------
    dict
        JSON values: the title, the value in lines, the guarantee and the unit.
    """
    releases = fitted_estimator.releases
    certificate = releases[0].certificate
    center = public_center(fitted_estimator)
    lines = []
    if study.offer.make_files is not None:
        # The parameters of a distribution mean little to a reader. The first lines of
        # the files that are made from it are shown instead.
        files = study.offer.make_files(fitted_estimator, study.form)
        for name, content in files.items():
            first_lines = content.decode().splitlines()[:_SHOWN_LINES]
            lines += [f"{name}:", *first_lines, "…"]
    else:
        for release in releases:
            manifold = parse_manifold(release.certificate.manifold)
            if len(releases) > 1:
                lines.append(f"{release.title}:")
            lines += value_lines(manifold, release.value, study.form, center)
    return {
        "what": study.offer.title,
        "value": "\n".join(lines),
        "guarantee": str(certificate.guarantee),
        "unit": protected_unit_sentence(certificate),
    }


def _report(study: "Study", fitted_estimator: Any) -> str:
    """Return the report about a release, as an HTML page.

    Parameters
    ----------
    study : Study
        The study that was released.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    """
    # The report needs an extra that others do not have to install.
    from curvedp.report.html import render_report

    return render_report(fitted_estimator, form=study.form)


def _private_picture(study: "Study", fitted_estimator: Any, data: Path) -> str:
    """Return a picture of the records beside the released values, as a data URI.

    NOT private: it is shown on the page and written nowhere.

    Parameters
    ----------
    study : Study
        The study that was released.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    data : Path
        The file with the records.

    Returns
    -------
    str
        A PNG picture as a data URI.
    """
    assert study.offer.private_picture is not None, "asked for where there is one"
    records = study.read_columns(data)["records"]
    figure = study.offer.private_picture(fitted_estimator, records)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()
