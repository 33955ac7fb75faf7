"""Figures and pages that explain a release, made from its certificate (extra: report).

`write_report` writes one HTML page; the single figures are in `curvedp.report.figures`.
"""

from curvedp import errors

try:
    import matplotlib  # noqa: F401 - checked here so that the error names the extra
except ImportError as error:
    raise errors.MissingExtra(
        "curvedp.report needs matplotlib: pip install 'curvedp[report]'"
    ) from error

from curvedp.report.html import write_report

__all__ = ["write_report"]
