"""The table of private reports that `curvedp perturb` and the studio write.
A report is a record with noise of its own (local privacy); each is one row.
"""

import csv
import io

import numpy as np

from curvedp.local.metric import MetricLaplace
from curvedp.records.output_forms import output_form

# Reported degrees have this many decimals: a centimeter. Rounding costs no privacy.
_DEGREE_DECIMALS = 7


def report_table(
    mechanism: MetricLaplace, reports: np.ndarray, form: str | None
) -> str:
    """Return reports as a csv table with a line of column names.

    Parameters
    ----------
    mechanism : MetricLaplace
        The mechanism that drew the reports. Its space says what a report is.
    reports : array, shape (n, *record_shape)
        The reports, one for each line of the table.
    form : str or None
        The form in which the records were written, such as "latlon-degrees"; reports are
        written in the same one.

    Returns
    -------
    str
        The text of the table. Degrees have 7 decimals; other numbers have all digits.
    """
    written_as = output_form(form, mechanism.space.manifold)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(written_as.columns)
    if mechanism.space.name == "earth":
        digits = _DEGREE_DECIMALS
        writer.writerows(
            [f"{latitude:.{digits}f}", f"{longitude:.{digits}f}"]
            for latitude, longitude in reports.tolist()
        )
    else:
        writer.writerows(
            np.ravel(written_as.numbers(report)).tolist() for report in reports
        )
    return lines.getvalue()
