"""Files of released values with their certificates, as estimators save and load them.
Such a file is JSON: public parameters, and for each release its title, the value and
the certificate. It holds nothing that was not released, so it may be published.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curvedp._files import write_atomically
from curvedp.core.certificate import MAX_BYTES, Certificate, compute_sha256
from curvedp.core.released import ReleasedValue
from curvedp.errors import CurvedpError, ParameterError, VerificationFailed
from curvedp.release.rebuild import RECOMPUTATION_FAILURES, mechanism_of

# A saved value and the one that follows from its certificate may differ by rounding.
_VALUE_ERROR = 1e-9


def write_published(
    path: str | Path,
    schema: str,
    parameters: Mapping[str, Any],
    releases: Sequence[ReleasedValue],
) -> None:
    """Write released values with their certificates to a file.

    Parameters
    ----------
    path : str or Path
        The file. If writing fails, an old file stays as it is.
    schema : str
        The name and the version of the format.
    parameters : mapping
        Public parameters as JSON values.
    releases : sequence of ReleasedValue
        The released values with their certificates.
    """
    content = {
        "schema": schema,
        "parameters": dict(parameters),
        "releases": [
            {
                "title": release.title,
                "value": np.asarray(release.value).tolist(),
                "certificate": release.certificate.to_dict(),
            }
            for release in releases
        ],
    }
    write_atomically(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def read_published(
    path: str | Path, schema: str
) -> tuple[dict[str, Any], list[ReleasedValue]]:
    """Read a file that `write_published` wrote, and check its values.

    Each value is made again from the integers in its certificate, where they are
    listed. That shows which release the value belongs to; `curvedp verify` checks the
    certificates themselves.

    Parameters
    ----------
    path : str or Path
        The file.
    schema : str
        The expected format.

    Returns
    -------
    parameters : dict
        The public parameters of the estimator that wrote the file.
    releases : list of ReleasedValue
        The released values, each with its certificate.

    Raises
    ------
    ParameterError
        If the file cannot be read, is of another format, or holds a value that does not
        belong to its certificate.
    """
    try:
        with Path(path).open("rb") as file:
            content = json.loads(file.read(MAX_BYTES + 1).decode("utf-8"))
        if content["schema"] != schema:
            raise ParameterError(f"{path} is not of the format {schema!r}")
        parameters = dict(content["parameters"])
        releases = [
            ReleasedValue(
                str(saved["title"]),
                np.asarray(saved["value"], dtype=float),
                Certificate.from_json(json.dumps(saved["certificate"])),
            )
            for saved in content["releases"]
        ]
    except OSError as error:
        raise ParameterError(f"cannot read {path}: {error.strerror}") from None
    except RECOMPUTATION_FAILURES as error:
        if isinstance(error, CurvedpError):
            raise
        raise ParameterError(f"{path} is not a file of the format {schema!r}") from None
    for release in releases:
        _check_value(path, release)
    return parameters, releases


def _check_value(path: str | Path, release: ReleasedValue) -> None:
    """Refuse a changed certificate, and a value that does not follow from its integers.

    The value cannot be compared if the certificate lists no integers: of a very large
    draw it has the hash alone.

    Parameters
    ----------
    path : str or Path
        The file, for messages.
    release : ReleasedValue
        The value and its certificate.

    Raises
    ------
    ParameterError
        If the value is another one, or not finite, or if the certificate was changed
        or cannot be rebuilt.
    """
    certificate = release.certificate
    value = np.asarray(release.value)
    if not np.isfinite(value).all():
        raise ParameterError(f"{path}: the value of {release.title!r} is not finite")
    try:
        if certificate.provenance.sha256 != compute_sha256(certificate):
            raise VerificationFailed("its SHA-256 is not the one it was written with")
        if certificate.release.get("integers") is None:
            return
        mechanism = mechanism_of(certificate)
        with np.errstate(
            all="ignore"
        ):  # numbers of a file from someone else may overflow
            expected = np.asarray(mechanism.reconstruct_value(certificate))
    except RECOMPUTATION_FAILURES:
        raise ParameterError(
            f"{path}: the certificate of {release.title!r} was changed or cannot be "
            "recomputed"
        ) from None
    scale = max(1e-300, float(np.max(np.abs(expected))))
    if value.shape != expected.shape or not np.allclose(
        value, expected, rtol=0.0, atol=_VALUE_ERROR * scale
    ):
        raise ParameterError(
            f"{path}: the value of {release.title!r} is not that of its certificate"
        )
