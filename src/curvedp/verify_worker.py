"""The process that recomputes a certificate from someone else, with limited resources.
A certificate states the privacy guarantee of a release. It is a file from someone
else, and recomputing its claims may take as long as its author likes. So
`curvedp.verification` starts this module as a process of its own, sends it one request
as JSON and reads one answer. The process limits its own time and memory before it looks
at the certificate.
"""

import csv
import json
import sys
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.core.certificate import Certificate, Check, is_certificate_signed
from curvedp.errors import CurvedpError, ParameterError, VerificationFailed
from curvedp.geometry.manifold import Manifold, follow_geodesic
from curvedp.local.certificate import LocalCertificate, is_local_certificate
from curvedp.local.verify import verify_local_certificate
from curvedp.local.wording import promise_sentences
from curvedp.release.rebuild import mechanism_of
from curvedp.release.verify import remarks_on, verify_certificate
from curvedp.release.warnings import certificate_warnings
from curvedp.statistics.tangent_moments import (
    SearchedTangentMoments,
    TangentMoments,
    TangentMomentsSum,
)

# Bytes that a request may take beyond what the process holds when it starts.
MEMORY_LIMIT = 2 << 30

# The largest distance at which two subspaces count as the same, up to rounding.
_LARGEST_SUBSPACE_DISTANCE = 1e-6

# Statistics that are published as a mean and principal directions.
_TANGENT_MOMENTS = (TangentMoments, TangentMomentsSum, SearchedTangentMoments)

# Principal geodesics in a file may differ from certified ones by this: eigenvectors of
# close variances depend on the machine.
_GEODESIC_TOLERANCE = 1e-6

# A value in a file may differ from the certified one by these tolerances: a file has
# fewer digits.
_VALUE_RTOL = 1e-9
_VALUE_ATOL = 1e-12

# A certificate holds the middle of a geodesic with one predictor; its start is half a
# unit of the predictor earlier.
_START_OF_GEODESIC = -0.5

Operation = Callable[[dict[str, Any]], Any]


def verify(request: dict[str, Any]) -> dict[str, Any]:
    """Check every claim of a certificate, and return the results.

    Parameters
    ----------
    request : dict
        The text of the "certificate". To check a signature as well, it also has a
        "public_key" in hexadecimal digits and the "signature", which is None if there
        is none.

    Returns
    -------
    dict
        "checks", with a claim, whether it holds and a detail each; and "notes", remarks
        for the reader, if no claim is refuted.
    """
    if is_local_certificate(request["certificate"]):
        return _verify_local(request)
    certificate, checks = _load_and_check(request["certificate"])
    public_key = request.get("public_key")
    if public_key is not None:
        check = Check(
            f"signature of {public_key[:16]}…",
            is_certificate_signed(certificate, public_key, request["signature"]),
            "Ed25519 over the certificate as it stands",
        )
        checks = [check, *checks]

    refuted = any(check.holds is False for check in checks)
    notes: list[str] = []
    if not refuted:
        warnings = certificate_warnings(certificate)
        notes = [*remarks_on(certificate), *(warning.text for warning in warnings)]
    return {"checks": [_check_to_list(check) for check in checks], "notes": notes}


def _verify_local(request: dict[str, Any]) -> dict[str, Any]:
    """Check every claim of a certificate of local reports, and say what it promises.

    In local privacy every person adds noise to their own report. The parameters and the
    result are those of `verify`, but such certificates have no signatures.

    Parameters
    ----------
    request : dict
        The text of the "certificate", and possibly a "public_key".

    Returns
    -------
    dict
        "checks" and "notes", as `verify` returns them.
    """
    local = LocalCertificate.from_json(request["certificate"])
    checks = verify_local_certificate(local)
    if request.get("public_key") is not None:
        checks = [
            Check("signature", False, "certificates of local reports are not signed"),
            *checks,
        ]
    refuted = any(check.holds is False for check in checks)
    notes = [] if refuted else promise_sentences(local)
    return {"checks": [_check_to_list(check) for check in checks], "notes": notes}


def region(request: dict[str, Any]) -> dict[str, Any]:
    """Compute the confidence region of a published value from its certificate.

    The certificate is verified first.

    Parameters
    ----------
    request : dict
        The text of the "certificate" and its "path", the "value_path" of the published
        value, the "level" of the region, and what it is "of": the population's value or
        that of the records. If "against" is the text of a second certificate, from
        "against_path", the two releases are compared as well.

    Returns
    -------
    dict
        The region as JSON values. "consistent" says whether the second release agrees
        with this one, or is None.
    """
    from curvedp.inference import consistent, region_of
    from curvedp.inference.region import count_components

    level, of = request["level"], request["of"]
    certificate = _load_verified(request["certificate"], request["path"])
    published = _read_value(Path(request["value_path"]), certificate)
    components = count_components(mechanism_of(certificate).statistic, published)
    _check_value(certificate, published, components)
    confidence_region = region_of(certificate, level, of, components)

    is_consistent = None
    if request["against"] is not None:
        other = _load_verified(request["against"], request["against_path"])
        is_consistent = bool(consistent(certificate, other, level, of))
    return {
        "manifold": confidence_region.manifold.name,
        "center": confidence_region.center.tolist(),
        "radius": float(confidence_region.radius),
        "level": confidence_region.level,
        "of": confidence_region.of,
        "about": confidence_region.description,
        "theorem": confidence_region.theorem,
        "components": components,
        "consistent": is_consistent,
    }


OPERATIONS: Mapping[str, Operation] = {"verify": verify, "region": region}


def _load_and_check(text: str) -> tuple[Certificate, list[Check]]:
    """Parse a certificate, and recompute all of its claims.

    Parameters
    ----------
    text : str
        The certificate as JSON.

    Returns
    -------
    certificate, checks : Certificate, list of Check
        The certificate and the result for each claim.
    """
    certificate = Certificate.from_json(text)
    return certificate, verify_certificate(certificate)


def _load_verified(text: str, path: str) -> Certificate:
    """Read a certificate and verify it; raise an exception if a claim is refuted.

    Parameters
    ----------
    text : str
        The certificate as JSON.
    path : str
        The name of its file, for the message.

    Returns
    -------
    Certificate
        A certificate of which no claim was refuted.

    Raises
    ------
    VerificationFailed
        If a claim is refuted.
    """
    certificate, checks = _load_and_check(text)
    refuted = [check.claim for check in checks if check.holds is False]
    if refuted:
        raise VerificationFailed(f"{path}: {', '.join(refuted)}")
    return certificate


def _check_to_list(check: Check) -> list[Any]:
    """Return the check as JSON values, which NumPy's booleans are not.

    Parameters
    ----------
    check : Check
        The result for one claim.
    """
    holds = None if check.holds is None else bool(check.holds)
    return [check.claim, holds, check.detail]


def _read_value(path: Path, certificate: Certificate) -> np.ndarray:
    """Read a published value from an npy or csv file.

    The command `curvedp release --out` writes such files.

    Parameters
    ----------
    path : path
        The file.
    certificate : Certificate
        The certificate of the value, which names the space in which it lies.

    Returns
    -------
    array
        The numbers of the file in rows, or as an npy file has them.

    Raises
    ------
    ParameterError
        If the file cannot be read.
    """
    try:
        if path.suffix == ".csv":
            return _read_table(path, certificate)
        with path.open("rb") as file:
            return np.asarray(np.load(file, allow_pickle=False), dtype=np.float64)
    except (OSError, ValueError, TypeError, EOFError):
        raise ParameterError(
            f"{path} is not an npy or csv file as --out of curvedp release writes it"
        ) from None


def _read_table(path: Path, certificate: Certificate) -> np.ndarray:
    """Read a csv file of released numbers or points.

    A file of points has a first line with the names of the columns, such as "released",
    "latitude" and "longitude". They say in which form the points are written, so that
    they can be converted to points of the manifold. Any other file is read as numbers.

    Parameters
    ----------
    path : path
        The csv file.
    certificate : Certificate
        The certificate of the value, which names the space in which it lies.

    Returns
    -------
    array
        One point in each row, converted to the coordinates of the manifold.
    """
    from curvedp.records.forms import find_form
    from curvedp.records.output_forms import form_of_columns

    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    if not rows or rows[0][:1] != ["released"]:
        return np.loadtxt(path, delimiter=",", ndmin=2)
    header, *table = rows
    numbers = np.array([row[1:] for row in table], dtype=np.float64)
    manifold = mechanism_of(certificate).statistic.value_space
    form = find_form(form_of_columns(tuple(header[1:]), manifold), manifold)
    if numbers.shape[1] != form.width:
        return numbers  # points of another space, which are refused as values
    points = form.points(numbers.reshape(-1, *form.shape))
    return np.asarray(points).reshape(len(numbers), -1)


def _check_value(
    certificate: Certificate, published: np.ndarray, components: int | None
) -> None:
    """Refuse a published value that is not the one of this certificate.

    The value is computed again from the integers that the certificate records.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.
    published : array
        The published value. If it is the means of several classes, one of them has to
        be this certificate's.
    components : int or None
        How many principal directions were published; None for every other value.

    Raises
    ------
    VerificationFailed
        If the two values differ by more than rounding.
    """
    mechanism = mechanism_of(certificate)
    space = mechanism.statistic.value_space
    certified = mechanism.reconstruct_value(certificate)
    if isinstance(certified, tuple):
        certified = _geodesic_as_rows(space, *certified)
    certified = np.asarray(certified)

    if isinstance(mechanism.statistic, _TANGENT_MOMENTS):
        is_certified = _are_leading_geodesics(published, certified, certificate)
    elif components is not None:
        is_certified = _spans_leading_directions(published, certified)
    elif published.size % certified.size == 0:
        candidates = published.reshape(-1, *certified.shape)
        is_certified = any(
            _is_same_value(space, candidate, certified) for candidate in candidates
        )
    else:
        is_certified = False
    if not is_certified:
        raise VerificationFailed(
            "the value is not the one that this certificate is about"
        )


def _geodesic_as_rows(
    space: Manifold, footpoint: np.ndarray, velocities: np.ndarray
) -> np.ndarray:
    """Return a certified geodesic as it is published: its start, then its velocities.

    If there is one predictor, the certificate holds the middle of the geodesic, which
    is half a unit of the predictor after its start. So the geodesic is followed back.

    Parameters
    ----------
    space : Manifold
        The space in which the geodesic lies.
    footpoint : array
        The certified point.
    velocities : array
        The certified velocities, one for each predictor.

    Returns
    -------
    array
        The starting point, then one velocity for each predictor.
    """
    if len(velocities) == 1:
        footpoint, velocities = follow_geodesic(
            space, footpoint, velocities[0], _START_OF_GEODESIC
        )
    rows = velocities.reshape(-1, *footpoint.shape)
    return np.concatenate([footpoint[None], rows])


def _are_leading_geodesics(
    published: np.ndarray, moments: np.ndarray, certificate: Certificate
) -> bool:
    """Return whether a published mean and its directions agree with a certificate.

    Parameters
    ----------
    published : array
        The mean, and then the leading principal directions, each as long as its
        deviation; in rows if it was read from a table. The sign of a direction is free.
    moments : array
        The certified vector.
    certificate : Certificate
        The certificate of the release, which says how the vector is read.

    Returns
    -------
    bool
        True if the mean and every published direction agree to 1e-6.
    """
    from curvedp.inference.tangent_regions import geodesics_of_release

    certified = geodesics_of_release(moments, certificate)
    rows = certified.reshape(len(certified), -1)
    if published.size % rows.shape[1]:
        return False
    mean, *directions = published.reshape(-1, rows.shape[1])
    if len(directions) > len(rows) - 1:
        return False

    def is_close(value: np.ndarray, row: np.ndarray) -> bool:
        """Return whether a published row equals a certified row, up to rounding.

        Parameters
        ----------
        value : array
            The published numbers.
        row : array
            The certified numbers.
        """
        return np.allclose(
            value, row, rtol=_GEODESIC_TOLERANCE, atol=_GEODESIC_TOLERANCE
        )

    # Fewer directions than there are may be published.
    pairs = zip(directions, rows[1:], strict=False)
    return is_close(mean, rows[0]) and all(
        is_close(direction, row) or is_close(-direction, row)
        for direction, row in pairs
    )


def _spans_leading_directions(published: np.ndarray, second_moment: np.ndarray) -> bool:
    """Return whether published directions span a matrix's leading eigenvectors.

    Parameters
    ----------
    published : array, shape (components, features)
        One direction in each row.
    second_moment : array
        The entries of the released matrix, as a vector.

    Returns
    -------
    bool
        Whether the two subspaces agree up to rounding.
    """
    from curvedp.geometry import Grassmann
    from curvedp.statistics.second_moment import vector_to_symmetric

    components, features = published.shape
    eigenvectors = np.linalg.eigh(vector_to_symmetric(second_moment, features))[1]
    # `eigh` sorts eigenvalues upward; the leading directions come last.
    leading_directions = eigenvectors[:, ::-1][:, :components]
    subspaces = Grassmann(features, components)
    distance = float(subspaces.dist(leading_directions, published.T))
    return distance < _LARGEST_SUBSPACE_DISTANCE


def _is_same_value(space: Manifold, value: np.ndarray, certified: np.ndarray) -> bool:
    """Return whether a value equals the certified value, up to a file's rounding.

    Parameters
    ----------
    space : Manifold
        The space in which the value lies.
    value : array
        A published value.
    certified : array
        The certified value.
    """
    aligned = _align_shape(space, value, certified)
    return np.allclose(aligned, certified, rtol=_VALUE_RTOL, atol=_VALUE_ATOL)


def _align_shape(
    space: Manifold, published: np.ndarray, certified: np.ndarray
) -> np.ndarray:
    """Align a published point with the certified one where a value has many equal forms.

    A shape of landmarks, for example, may be published in any rotation. Values of other
    spaces, and values that are no points, are returned unchanged.

    Parameters
    ----------
    space : Manifold
        The space in which the value lies.
    published : array
        The published value.
    certified : array
        The certified value.

    Returns
    -------
    array
        The same point, as close to the certified array as another representative can
        be.
    """
    from curvedp.records.output_forms import align_to_center

    if published.shape != space.point_shape:
        return published
    return np.asarray(align_to_center(space, published, certified))


def limit_process(seconds: float) -> None:
    """Limit this process to some more seconds of CPU time and 2 GB more memory.

    The process is stopped beyond these limits. Only computing time counts, not waiting
    time: a certificate cannot make the process wait, and on a busy machine an honest
    one shall be confirmed too. Windows has no such limits; there only the deadline of
    the parent process ends it.

    Parameters
    ----------
    seconds : float
        The CPU time that the process may still use.
    """
    try:
        import resource
    except ImportError:
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    end = ceil(usage.ru_utime + usage.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (end, end + 1))

    # The memory that the process has now is known on Linux only. Elsewhere the limit is
    # 2 GB in total.
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[0]) if statm.exists() else 0
    limit = pages * resource.getpagesize() + MEMORY_LIMIT
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    if hard_limit != resource.RLIM_INFINITY:
        limit = min(limit, hard_limit)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard_limit))


def answer(operations: Mapping[str, Operation]) -> None:
    """Read one request from standard input, and write the answer to standard output.

    This is all that the process does. The answer is JSON: {"result": …} or {"error":
    {"kind": …, "message": …}}, where the kind is the name of an exception.

    Parameters
    ----------
    operations : mapping
        The functions that answer requests, by the name of the operation.
    """
    request = json.load(sys.stdin)
    limit_process(request["seconds"])
    try:
        reply = {"result": operations[request["operation"]](request)}
    except MemoryError:
        reply = _error("MemoryError", "")
    except OSError as error:
        reply = _error("OSError", str(error))
    except CurvedpError as error:
        reply = _error(type(error).__name__, str(error))
    except Exception as error:
        # Only the name of the exception is reported: the certificate may have chosen the
        # text of its message.
        text = f"the certificate cannot be recomputed ({type(error).__name__})"
        reply = _error("ParameterError", text)
    json.dump(reply, sys.stdout)


def _error(kind: str, message: str) -> dict[str, Any]:
    """Return an answer that reports an exception by its name and message.

    Parameters
    ----------
    kind : str
        The name of the exception, which `curvedp.verification` raises again.
    message : str
        Its message.
    """
    return {"error": {"kind": kind, "message": message}}


if __name__ == "__main__":
    answer(OPERATIONS)
