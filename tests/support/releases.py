"""What tests read off fitted estimators and certificates."""

from curvedp.release.warnings import estimator_warnings


def warning_texts(estimator):
    """Return the texts of all warnings of a fitted estimator."""
    return [warning.text for warning in estimator_warnings(estimator)]


def value_at(record, path):
    """Return the part of a JSON value that lies at a path."""
    for step in path:
        record = record[step]
    return record
