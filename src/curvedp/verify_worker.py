"""The process that recomputes a stranger's certificate, with little time and memory.

A certificate is a file from somebody else, and recomputing its claims may take as long
as its author likes. So `curvedp.verification` starts this module as a process of its
own (`python -P -m curvedp.verify_worker`), sends one question as JSON to its standard
input and reads one answer as JSON from its standard output. The process limits itself
after its imports and before it looks at the question.
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

# Bytes that a question may take beyond what the process holds when it starts.
MEMORY_LIMIT = 2 << 30

# The largest distance at which two subspaces count as the same, up to rounding.
_LARGEST_SUBSPACE_DISTANCE = 1e-6

Operation = Callable[[dict[str, Any]], Any]


def verify(question: dict[str, Any]) -> dict[str, Any]:
    """Check every claim of a certificate.

    The question has the certificate's text as `certificate`. To check a signature as
    well, it has a `public_key` (hexadecimal) and the `signature` beside the certificate
    (None where there is none).
    """
    if is_local_certificate(question["certificate"]):
        return _verify_local(question)
    certificate, checks = _load_and_check(question["certificate"])
    public_key = question.get("public_key")
    if public_key is not None:
        check = Check(
            f"signature of {public_key[:16]}…",
            is_certificate_signed(certificate, public_key, question["signature"]),
            "Ed25519 over the certificate as it stands",
        )
        checks = [check, *checks]

    refuted = any(check.holds is False for check in checks)
    notes: list[str] = []
    if not refuted:
        warnings = certificate_warnings(certificate)
        notes = [*remarks_on(certificate), *(warning.text for warning in warnings)]
    return {"checks": [_check_to_list(check) for check in checks], "notes": notes}


def _verify_local(question: dict[str, Any]) -> dict[str, Any]:
    """Check every claim of a certificate of local reports, and say what it promises.

    Parameters
    ----------
    question : dict
        As in `verify`. Such certificates have no signatures.
    """
    local = LocalCertificate.from_json(question["certificate"])
    checks = verify_local_certificate(local)
    if question.get("public_key") is not None:
        checks = [
            Check("signature", False, "certificates of local reports are not signed"),
            *checks,
        ]
    refuted = any(check.holds is False for check in checks)
    notes = [] if refuted else promise_sentences(local)
    return {"checks": [_check_to_list(check) for check in checks], "notes": notes}


def region(question: dict[str, Any]) -> dict[str, Any]:
    """Compute the confidence region of a published value, from its verified certificate.

    The question has the certificate's text, the `value_path` of the published value,
    the `level`, what the region is `of`, and the text of a second certificate as
    `against`, or None.
    """
    from curvedp.inference import consistent, region_of
    from curvedp.inference.region import count_components

    level, of = question["level"], question["of"]
    certificate = _load_verified(question["certificate"], question["path"])
    published = _read_value(Path(question["value_path"]), certificate)
    components = count_components(mechanism_of(certificate).statistic, published)
    _check_value(certificate, published, components)
    region_found = region_of(certificate, level, of, components)

    same = None
    if question["against"] is not None:
        other = _load_verified(question["against"], question["against_path"])
        same = bool(consistent(certificate, other, level, of))
    return {
        "manifold": region_found.manifold.name,
        "center": region_found.center.tolist(),
        "radius": float(region_found.radius),
        "level": region_found.level,
        "of": region_found.of,
        "about": region_found.description,
        "theorem": region_found.theorem,
        "components": components,
        "consistent": same,
    }


OPERATIONS: Mapping[str, Operation] = {"verify": verify, "region": region}


def _load_and_check(text: str) -> tuple[Certificate, list[Check]]:
    """Read a certificate and recompute its claims."""
    certificate = Certificate.from_json(text)
    return certificate, verify_certificate(certificate)


def _load_verified(text: str, path: str) -> Certificate:
    """Return a certificate of which no claim is refuted.

    Parameters
    ----------
    text : str
        The certificate as JSON.
    path : str
        The name of its file, for the message.

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
    """Return the check as JSON values, which NumPy's booleans are not."""
    holds = None if check.holds is None else bool(check.holds)
    return [check.claim, holds, check.detail]


def _read_value(path: Path, certificate: Certificate) -> np.ndarray:
    """Read a published value as `curvedp release --out` writes it.

    Parameters
    ----------
    path : path
        The npy or csv file.
    certificate : Certificate
        The certificate of the value, which names its space.
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
    """Read a csv file of numbers, or of released points below a line with column names.

    The names tell the form in which the points are written. Those of the entries of a
    point are of no form.

    Parameters
    ----------
    path : path
        The csv file.
    certificate : Certificate
        The certificate of the value, which names its space.
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

    Parameters
    ----------
    certificate : Certificate
        The value is made again from its integers.
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

    if components is not None:
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

    A certificate holds the middle of a geodesic with one predictor, half a unit of the
    predictor after its start.

    Parameters
    ----------
    space : Manifold
        Where the geodesic lies.
    footpoint : array
        The certified point.
    velocities : array
        The certified velocities, one for each predictor.
    """
    if len(velocities) == 1:
        footpoint, velocities = follow_geodesic(space, footpoint, velocities[0], -0.5)
    rows = velocities.reshape(-1, *footpoint.shape)
    return np.concatenate([footpoint[None], rows])


def _spans_leading_directions(published: np.ndarray, second_moment: np.ndarray) -> bool:
    """Return whether published directions span those of a released second moment.

    Parameters
    ----------
    published : array, shape (components, features)
        One direction in each row.
    second_moment : array
        The entries of the released matrix, as a vector.
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
    """Return whether a value is the certified one, up to the rounding of a file."""
    aligned = _align_shape(space, value, certified)
    return np.allclose(aligned, certified, rtol=1e-9, atol=1e-12)


def _align_shape(space: Manifold, candidate: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return a published shape in the position of the certificate's; others as they are.

    A shape may be published in any position.

    Parameters
    ----------
    space : Manifold
        Where the value lies.
    candidate : array
        The published value.
    own : array
        The certified value.
    """
    from curvedp.records.output_forms import align_to_center

    if candidate.shape != space.point_shape:
        return candidate
    return np.asarray(align_to_center(space, candidate, own))


def limit_process(seconds: float) -> None:
    """Let this process compute for so many more seconds, and take 2 GB more memory.

    Computing time is limited and not waiting time: a certificate cannot make the
    process wait, and on a busy machine an honest one is confirmed too. Windows has no
    such limits; there only the parent's deadline ends the process.
    """
    try:
        import resource
    except ImportError:
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    end = ceil(usage.ru_utime + usage.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (end, end + 1))

    statm = Path("/proc/self/statm")  # Linux only: elsewhere, 2 GB in all
    pages = int(statm.read_text().split()[0]) if statm.exists() else 0
    limit = pages * resource.getpagesize() + MEMORY_LIMIT
    _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
    if hard_limit != resource.RLIM_INFINITY:
        limit = min(limit, hard_limit)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard_limit))


def answer(operations: Mapping[str, Operation]) -> None:
    """Read one question from standard input, answer it on standard output, and end.

    The answer is {"result": …} or {"error": {"kind": …, "message": …}}, where the kind
    is the name of one of `curvedp.errors`, "OSError" or "MemoryError".
    """
    question = json.load(sys.stdin)
    limit_process(question["seconds"])
    try:
        reply = {"result": operations[question["operation"]](question)}
    except MemoryError:
        reply = _error("MemoryError", "")
    except OSError as error:
        reply = _error("OSError", str(error))
    except CurvedpError as error:
        reply = _error(type(error).__name__, str(error))
    except Exception as error:
        # Nothing is known of it but its name: the certificate may have chosen the text.
        text = f"the certificate cannot be recomputed ({type(error).__name__})"
        reply = _error("ParameterError", text)
    json.dump(reply, sys.stdout)


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}


if __name__ == "__main__":
    answer(OPERATIONS)
