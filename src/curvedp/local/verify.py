"""Recompute what a certificate of local reports claims.
The mechanism is built again from the public parameters alone, by the same code as on
the device, and each claim is compared with the recomputed one.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from curvedp.core.certificate import Check, check_at_least
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import parse_manifold
from curvedp.laws.exact import grid_shape
from curvedp.local.bounded import BoundedNoise, LocalGaussian, LocalLaplace
from curvedp.local.certificate import (
    MAX_LISTED_INTEGERS,
    LocalCertificate,
    hash_reports,
)
from curvedp.local.mechanism import LocalMechanism
from curvedp.local.metric import MetricLaplace
from curvedp.local.privunit import (
    CapParameters,
    PrivUnit,
    certified_epsilon,
    mean_length,
)
from curvedp.local.spaces import Earth
from curvedp.privacy.guarantees.base import guarantee_from_dict
from curvedp.randomness.csprng import SECURE_SOURCE_NAME

# Numbers that need quadrature or a root may differ on another machine by so much.
_TOLERANCE = 1e-9

# 2^64 has so many decimal digits.
_LONGEST_NUMBER = 20


def rebuild(certificate: LocalCertificate) -> LocalMechanism:
    """Return the mechanism of a certificate, from its public parameters.

    Parameters
    ----------
    certificate : LocalCertificate
        A certificate, maybe from someone else.

    Raises
    ------
    ParameterError
        If no mechanism has these parameters.
    """
    parameters = certificate.parameters
    try:
        if certificate.mechanism == MetricLaplace.name:
            return _rebuild_metric(certificate)
        if certificate.mechanism == PrivUnit.name:
            return PrivUnit(parameters["dim"], parameters["epsilon"])
        kinds: dict[str, type[BoundedNoise]] = {
            LocalGaussian.name: LocalGaussian,
            LocalLaplace.name: LocalLaplace,
        }
        mechanism = kinds[certificate.mechanism]
        guarantee = guarantee_from_dict(dict(certificate.guarantee["definition"]))
        return mechanism(
            parse_manifold(certificate.space),
            np.array(parameters["center"], dtype=np.float64),
            parameters["radius"],
            guarantee,
        )
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
    ) as error:
        if isinstance(error, CurvedpError):
            raise
        raise ParameterError(
            "the parameters of the local mechanism are missing or of the wrong kind"
        ) from None


def _rebuild_metric(certificate: LocalCertificate) -> MetricLaplace:
    """Build the `MetricLaplace` of a certificate again, to compare it with the claims.

    Parameters
    ----------
    certificate : LocalCertificate
        A certificate that names this mechanism; its parameters may be missing or wrong.

    Returns
    -------
    MetricLaplace
        The mechanism with the stated ε, space and public record.
    """
    parameters = certificate.parameters
    public_record = np.array(parameters["public_record"], dtype=np.float64)
    insist = bool(parameters["insist"])
    if certificate.space == "earth":
        latitude, longitude = public_record.tolist()
        earth = Earth(parameters["unit_length"], (latitude, longitude))
        return MetricLaplace(earth, parameters["epsilon"], insist=insist)
    return MetricLaplace(
        parse_manifold(certificate.space),
        parameters["epsilon"],
        public_point=public_record,
        insist=insist,
    )


def verify_local_certificate(certificate: LocalCertificate) -> list[Check]:
    """Recompute every claim of a certificate of local reports.

    Parameters
    ----------
    certificate : LocalCertificate
        A certificate, maybe from someone else.

    Returns
    -------
    list of Check

    Examples
    --------
    >>> from curvedp.local import Earth, MetricLaplace
    >>> checks = verify_local_certificate(MetricLaplace(Earth(), 1.0).certificate_)
    >>> all(check.holds for check in checks)
    True
    """
    checks = [
        Check(
            "certificate unchanged",
            certificate.sha256 == certificate.fingerprint,
            "SHA-256 of all other fields",
        )
    ]

    # Recompute the claims with a mechanism that is built from the public parameters.
    mechanism = rebuild(certificate)
    if not _has_structure_of(mechanism.parameters(), dict(certificate.parameters)):
        detail = "they are not the parameters of this mechanism"
        return [*checks, Check("parameters", False, detail)]

    checks += _check_guarantee(certificate, mechanism)
    checks.append(_check_parameters(certificate, mechanism))
    checks.append(
        Check(
            f"slack {certificate.slack:.3g}",
            certificate.slack >= mechanism.report_slack,
            f"at least {mechanism.report_slack:.3g} for every report",
        )
    )
    entropy = certificate.entropy
    checks.append(
        Check(
            f"random bits: {entropy.get('source')}",
            dict(entropy) == {"source": SECURE_SOURCE_NAME, "cryptographic": True},
            "only those of the operating system are private",
        )
    )

    # The certificate may list the reports that were drawn.
    if certificate.reports is not None:
        width = math.prod(grid_shape(mechanism.space.manifold))
        checks.append(_check_reports(certificate.reports, width))
    return checks


def _check_guarantee(
    certificate: LocalCertificate, mechanism: LocalMechanism
) -> list[Check]:
    """Recompute the guarantee from the stated noise: ε, or the noise that it needs.

    Each of the three kinds of mechanisms has its own bound. `MetricLaplace` is private
    with ε = 1/scale per unit (Theorem N1). The ε of `PrivUnit` follows from its cap. For
    noise in a ball the least scale is calibrated again.

    Parameters
    ----------
    certificate : LocalCertificate
        The certificate, whose numbers are checked.
    mechanism : LocalMechanism
        The mechanism that was rebuilt from the certificate's parameters.

    Returns
    -------
    list of Check
        One check for each claim about privacy.
    """
    stated = dict(certificate.guarantee)
    is_same = stated == mechanism.guarantee_record()
    parameters = certificate.parameters
    if isinstance(mechanism, MetricLaplace):
        claim = f"metric privacy, ε = {mechanism.epsilon:g} per {mechanism.space.unit}"
        scale = Fraction(_number(parameters["scale"]))
        per_unit = Fraction(mechanism.epsilon) * Fraction(mechanism.space.unit_length)
        holds = is_same and scale * per_unit >= 1
        scale_in_units = scale * Fraction(mechanism.space.unit_length)
        # The reciprocal of a smaller number is beyond what doubles hold.
        has_reciprocal = scale_in_units > Fraction(2.0**-1000)
        ratio = float(1 / scale_in_units) if has_reciprocal else math.inf
        return [
            Check(
                claim,
                holds,
                f"homogeneous space, so the log-ratio is at most {ratio:.17g} per unit",
            )
        ]
    if isinstance(mechanism, PrivUnit):
        cap = CapParameters(
            _number(parameters["threshold"]), _whole_number(parameters["cap_weight"])
        )
        is_cap = 0 <= cap.threshold < 1 and 0 < cap.cap_weight < 1 << 64
        epsilon = certified_epsilon(mechanism.dim, cap) if is_cap else math.inf
        length = mean_length(mechanism.dim, cap) if is_cap else math.nan
        stated_length = _number(parameters["mean_length"])
        return [
            Check(
                f"local privacy, ε = {mechanism.epsilon:g}",
                is_same and epsilon <= mechanism.epsilon,
                f"two-level density, recomputed in balls: at most {epsilon:.17g}",
            ),
            _check_certified(
                parameters["certified_epsilon"], epsilon, mechanism.epsilon
            ),
            Check(
                f"mean length {stated_length:.9g}",
                math.isclose(length, stated_length, rel_tol=_TOLERANCE),
                f"recomputed {length:.9g}",
            ),
        ]
    assert isinstance(mechanism, BoundedNoise), "the three kinds of mechanisms"
    return [
        Check(
            f"local privacy, {mechanism.guarantee}",
            is_same,
            "calibrated again, to the diameter of the public ball",
        ),
        check_at_least("sensitivity", parameters["sensitivity"], mechanism.sensitivity),
        check_at_least("noise scale", parameters["scale"], mechanism.scale),
    ]


def _check_certified(stated: Any, certified: float, promised: float) -> Check:
    """Check that a stated bound of ε lies between the recomputed one and the promise.

    Parameters
    ----------
    stated : JSON value
        The bound in the certificate.
    certified : float
        The recomputed bound.
    promised : float
        The ε of the guarantee.
    """
    check = check_at_least("certified ε", stated, certified)
    return check._replace(holds=bool(check.holds) and stated <= promised)


def _check_parameters(
    certificate: LocalCertificate, mechanism: LocalMechanism
) -> Check:
    """Check that all stated parameters agree with the rebuilt mechanism.

    The four numbers of PrivUnit's cap are left out: they may differ between machines, and
    `_check_guarantee` recomputes ε from them.

    Parameters
    ----------
    certificate : LocalCertificate
        The certificate, whose parameters are checked.
    mechanism : LocalMechanism
        The mechanism that was rebuilt from some of them.
    """
    recomputed = mechanism.parameters()
    stated = certificate.parameters
    different = sorted(
        name
        for name in recomputed.keys() | stated.keys()
        if name not in ("threshold", "cap_weight", "certified_epsilon", "mean_length")
        and not _is_close(stated.get(name), recomputed.get(name))
    )
    detail = "rebuilt from them"
    if different:
        detail = f"recomputed otherwise: {', '.join(different)}"
    is_space = certificate.space == mechanism.space.name
    return Check("parameters", is_space and not different, detail)


def _has_structure_of(recomputed: Any, stated: Any) -> bool:
    """Return whether two JSON values have the same names, lengths and types.

    After this check, the parameters of a certificate from someone else can be read like those
    of a mechanism, without a Python exception.

    Parameters
    ----------
    recomputed : JSON value
        A value from the rebuilt mechanism.
    stated : JSON value
        The value in the same place of a certificate.
    """
    if type(recomputed) is not type(stated):
        return False
    if isinstance(recomputed, dict):
        return set(recomputed) == set(stated) and all(
            _has_structure_of(value, stated[name]) for name, value in recomputed.items()
        )
    if isinstance(recomputed, list):
        return len(recomputed) == len(stated) and all(
            map(_has_structure_of, recomputed, stated)
        )
    return True


def _is_close(stated: Any, recomputed: Any) -> bool:
    """Return whether two JSON values are equal, floats up to a part of 10⁻⁹.

    Parameters
    ----------
    stated : JSON value
        A value from a certificate.
    recomputed : JSON value
        The value of the rebuilt mechanism.
    """
    are_floats = isinstance(stated, float) and isinstance(recomputed, float)
    if are_floats:
        return math.isclose(stated, recomputed, rel_tol=_TOLERANCE, abs_tol=1e-300)
    return bool(stated == recomputed)


def _check_reports(reports: Any, width: int) -> Check:
    """Check that the certificate was made for the reports that it lists.

    Parameters
    ----------
    reports : mapping
        The field `reports` of a certificate: the number, the SHA-256, and the integers
        of the reports (None if they are too many to list).
    width : int
        How many integers one report has.

    Returns
    -------
    Check
        Undecided (None) for reports that are too many to list.
    """
    integers = reports["integers"]
    claim = f"{reports['count']} reports"
    if integers is None and reports["count"] * width <= MAX_LISTED_INTEGERS:
        return Check(claim, False, "so few reports are listed")
    if integers is None:
        return Check(
            claim, None, f"too many to list; SHA-256 {reports['sha256'][:16]}…"
        )
    is_same = (
        len(integers) == reports["count"]
        and all(len(row) == width for row in integers)
        and hash_reports(integers) == reports["sha256"]
    )
    return Check(claim, is_same, "SHA-256 of the listed integers")


def _whole_number(digits: str) -> int:
    """Return the whole number that a text of digits spells; 0 for any other text.

    The text may be from someone else. Longer ones than 2^64 needs are not parsed.

    Parameters
    ----------
    digits : str
        The weight of a cap, as a certificate states it.
    """
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER
    return int(digits) if is_number else 0


def _number(value: Any) -> float:
    """Return a finite JSON number of a certificate as a float.

    Parameters
    ----------
    value : JSON value
        The statement of a certificate, which may be from someone else.

    Raises
    ------
    ParameterError
        If it is not a number, or not finite.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise ParameterError("a number of the certificate is missing")
    return float(value)
