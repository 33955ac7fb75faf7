"""Pictures and pages about a release, made from its certificate."""

from curvedp.report.html import write_report

__all__ = ["write_report"]
