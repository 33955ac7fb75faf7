"""Local privacy in the studio: each place of a file is perturbed by itself.
No ledger is charged: a report protects the place of one person at a price that is said
before it is drawn (docs/howto/local-privacy.md). The map is of public example places.
"""

import io
import json
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curvedp._files import write_atomically
from curvedp.errors import ParameterError
from curvedp.records import read_records
from curvedp.studio.study import Study

if TYPE_CHECKING:
    from curvedp.local import MetricLaplace

# How places are written; the page calls it "latitude, longitude in degrees".
_PLACES = "latlon-degrees"


def mechanism_of_page(page_values: Mapping[str, Any]) -> "MetricLaplace":
    """Return the mechanism that the page asks for.

    Parameters
    ----------
    page_values : mapping
        "epsilon_per_km" as a number, and possibly "public_place" as a text.

    Returns
    -------
    MetricLaplace
        The mechanism that draws one report of each place.

    Raises
    ------
    ParameterError
        If ε is missing, or a number or the place cannot be read.
    """
    from curvedp.local import Earth, MetricLaplace
    from curvedp.local.spaces import parse_place

    earth = Earth()
    if page_values.get("public_place"):
        earth = Earth(public_place=parse_place(str(page_values["public_place"])))
    epsilon = page_values.get("epsilon_per_km")
    if epsilon is None:
        raise ParameterError("say what ε per kilometer each report may cost")
    return MetricLaplace(earth, epsilon)


def expect_reports(page_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far reports will lie, and a map of public example places.

    Nothing is drawn from the records.

    Parameters
    ----------
    page_values : mapping
        "epsilon_per_km" as a number, and possibly "public_place" as a text.

    Returns
    -------
    dict
        The expected distances in words as "said", and the map as "picture", a data URI.
    """
    from curvedp.local.picture import plot_places
    from curvedp.local.wording import expectation_sentence

    mechanism = mechanism_of_page(page_values)
    buffer = io.BytesIO()
    plot_places(mechanism).savefig(buffer, format="png", dpi=110)
    picture = "data:image/png;base64," + b64encode(buffer.getvalue()).decode()
    return {"said": expectation_sentence(mechanism), "picture": picture}


class PlaceReports:
    """The reports that a session drew, so that no click draws them twice.

    Parameters
    ----------
    folder : Path
        Where files are written.
    """

    def __init__(self, folder: Path) -> None:
        """Start without reports.

        Parameters
        ----------
        folder : Path
            Where the folders of reports are made.
        """
        self.folder = folder
        # What `draw` returned, by the file, how it was read, and the mechanism.
        self._drawn: dict[str, dict[str, Any]] = {}

    def draw(
        self, study: Study, data: Path, page_values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Draw one report of each place in a file, and write them with a certificate.

        Asking again for reports of the same file at the same ε returns the first ones:
        new ones would cost as much again.

        Parameters
        ----------
        study : Study
            How the file is read.
        data : Path
            The file with the places.
        page_values : mapping
            "epsilon_per_km" as a number, and possibly "public_place" as a text.

        Returns
        -------
        dict
            The "folder" of the files, the "count" of reports, and the "promise" in
            lines.

        Raises
        ------
        ParameterError
            If the records are not places, or ε is missing.
        """
        from curvedp.local.report_files import report_table

        mechanism = mechanism_of_page(page_values)
        if study.form != _PLACES:
            raise ParameterError(
                "reports are of places: choose “latitude, longitude in degrees” as records"
            )
        # A file that was modified is another one, and its reports are drawn anew.
        modified = data.stat().st_mtime_ns
        parameters = [mechanism.parameters(), study.reading_options(), str(data)]
        request_key = json.dumps([parameters, modified], default=str)
        if request_key in self._drawn:
            return self._drawn[request_key]
        points = read_records(data, mechanism.space.manifold, **study.reading_options())

        # Write to the first folder that does not exist yet.
        number = 1
        while (self.folder / f"reports-{number}").exists():
            number += 1
        folder = self.folder / f"reports-{number}"
        folder.mkdir(parents=True)  # If this fails, nothing has been drawn yet.

        reports = mechanism.randomize(mechanism.space.write(np.asarray(points)))
        table = report_table(mechanism, reports, _PLACES)
        mechanism.certificate_.save(folder / "certificate.json")
        write_atomically(folder / "reports.csv", table.encode())
        self._drawn[request_key] = {
            "folder": str(folder),
            "count": len(reports),
            "promise": mechanism.certificate_.explain().splitlines(),
        }
        return self._drawn[request_key]
