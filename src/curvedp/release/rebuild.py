"""Rebuild the mechanism of a certificate, and read its recorded draws.
`rebuild_mechanism` validates a certificate that may come from someone else. The other
functions return the mechanism, the final mechanism after a private search, and the
recorded noisy draw.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from curvedp.core.capabilities import HasFinalMechanism, LeadsToRegion, NoisyDraw
from curvedp.core.certificate import RECOMPUTATION_ERROR, Certificate, record_space
from curvedp.core.mechanism import Mechanism, mechanism_from_parameters
from curvedp.core.registry import mechanisms
from curvedp.core.statistic import (
    UNIT_FIELD,
    ExternalValue,
    statistic_from_dict,
)
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import Euclidean, parse_manifold
from curvedp.mechanisms.isotropic.tangent import TangentMechanism

# The exceptions that may be raised when a certificate from someone else is recomputed.
RECOMPUTATION_FAILURES = (
    CurvedpError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    LookupError,
    RecursionError,
)

# The largest dimensions at which a certificate is recomputed. Without such limits a
# short text could cause any amount of work. Flat spaces take less of it.
_MAX_DIMENSION = 20_000
_MAX_FLAT_DIMENSION = 999_999
_MAX_NAME_LENGTH = 400
_MAX_FACTORS = 8


def rebuild_mechanism(certificate: Certificate) -> Mechanism:
    """Build the mechanism that a certificate describes, and check it as a new one.

    Parameters
    ----------
    certificate : Certificate
        The certificate, which may come from someone else.

    Returns
    -------
    Mechanism
        The mechanism, with its statistic.

    Raises
    ------
    ParameterError
        If the certificate describes no known mechanism, or a field is not what the
        rebuilt statistic or mechanism would write.
    """
    if certificate.mechanism not in mechanisms:
        known_names = ", ".join(mechanisms.names())
        raise ParameterError(f"unknown mechanism; known: {known_names}")

    # Refuse what would take too long to build, then build the statistic.
    _check_size(certificate)
    mechanism_class = mechanisms.find(certificate.mechanism)
    statistic = statistic_from_dict(dict(certificate.statistic))
    if not mechanism_class.supports(statistic):
        raise ParameterError(
            f"{mechanism_class.info.name} does not release a {statistic.name}"
        )

    # Every field must be written as the statistic and the mechanism write it.
    described = {
        name: value
        for name, value in certificate.statistic.items()
        if name != UNIT_FIELD
    }
    if not _has_form_of(statistic.to_dict(), described):
        raise ParameterError("the statistic is not written as it writes itself")

    mechanism: Mechanism = mechanism_from_parameters(
        mechanism_class, statistic, certificate.parameters
    )
    _check_parameters(certificate.parameters, mechanism)
    _check_no_needless_ball(mechanism)
    if certificate.manifold != mechanism.statistic.value_space.name:
        raise ParameterError("the manifold is not that of the statistic")
    return mechanism


@lru_cache(maxsize=64)
def mechanism_of(certificate: Certificate) -> Mechanism:
    """Return the mechanism that a certificate describes. The result is cached.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    Mechanism
        The rebuilt mechanism, calibrated as in the release.

    Raises
    ------
    ParameterError
        If the certificate describes no known mechanism.
    """
    return rebuild_mechanism(certificate)


@lru_cache(maxsize=64)
def final_mechanism_of(certificate: Certificate) -> Mechanism:
    """Return the mechanism that made the last draw of a release.

    After a private search it is the mechanism that released the statistic in the ball
    that was found. Otherwise it is the mechanism that the certificate names. Predicted
    errors are those of this mechanism.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    Mechanism
        The mechanism with the budget and the ball that the earlier stages left.
    """
    mechanism = mechanism_of(certificate)
    if isinstance(mechanism, HasFinalMechanism):
        return mechanism.final_mechanism(certificate)
    return mechanism


@lru_cache(maxsize=64)
def recorded_draw_of(certificate: Certificate) -> NoisyDraw:
    """Return the recorded draw of a release before shrinkage and projection.

    Confidence regions are computed from it.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release, which lists its integers.

    Returns
    -------
    NoisyDraw
        The noisy quantity, with the distribution of its noise.

    Raises
    ------
    ParameterError
        If there is no theorem about confidence regions for this mechanism.
    """
    mechanism = mechanism_of(certificate)
    if not isinstance(mechanism, LeadsToRegion):
        raise ParameterError(
            f"no region follows from {certificate.mechanism}: no theorem leads from its "
            "draws to the truth"
        )
    return mechanism.recorded_draw(certificate.release["integers"])


def _check_size(certificate: Certificate) -> None:
    """Refuse a manifold so large that building it would take minutes or gigabytes.

    A certificate may come from someone else, who can state any size.

    Parameters
    ----------
    certificate : Certificate
        The certificate, which may come from someone else.

    Raises
    ------
    ParameterError
        If a name is too long, or its manifold has too many dimensions or factors.
    """
    for name in (certificate.manifold, record_space(certificate)):
        if len(name) > _MAX_NAME_LENGTH or name.count("product") > _MAX_FACTORS:
            raise ParameterError("the manifold's name is too long")
        manifold = parse_manifold(name)
        is_flat = isinstance(manifold, Euclidean)
        largest = _MAX_FLAT_DIMENSION if is_flat else _MAX_DIMENSION
        if manifold.dim > largest:
            raise ParameterError(f"the manifold has more than {largest} dimensions")
        if len(manifold.factors) > _MAX_FACTORS:
            raise ParameterError("the manifold has more than eight factors")


def _check_parameters(
    stated_parameters: Mapping[str, Any], mechanism: Mechanism
) -> None:
    """Refuse parameters that the rebuilt mechanism would not write.

    A noise scale that is larger than necessary is accepted.

    Parameters
    ----------
    stated_parameters : mapping
        The parameters in the certificate.
    mechanism : Mechanism
        The mechanism that was built from them.

    Raises
    ------
    ParameterError
        If a name, type or value differs.
    """
    own_parameters = mechanism.parameters
    if sorted(own_parameters) != sorted(stated_parameters):
        names = ", ".join(own_parameters)
        raise ParameterError(f"the parameters of {mechanism.info.name} are {names}")
    for name, own_value in own_parameters.items():
        value = stated_parameters[name]
        if name == "scale" and isinstance(value, float):
            if value >= own_value * (1 - RECOMPUTATION_ERROR):
                continue
        is_same_kind = type(value) is type(own_value)
        is_whole_float = isinstance(own_value, float) and type(value) is int
        if not (is_same_kind or is_whole_float) or value != own_value:
            raise ParameterError(f"the parameter {name} is not what the others imply")


def _check_no_needless_ball(mechanism: Mechanism) -> None:
    """Refuse a certificate that states a ball which its mechanism does not use.

    A value whose sensitivity the caller states may have a ball or a base point, which
    only noise in a chart uses.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that was rebuilt from a certificate.

    Raises
    ------
    ParameterError
        If there is a ball, a base point or a chart sensitivity without a chart.
    """
    statistic = mechanism.statistic
    if isinstance(mechanism, TangentMechanism) or not isinstance(
        statistic, ExternalValue
    ):
        return
    ball_parts = (
        statistic.center,
        statistic.radius,
        statistic.stated_chart_sensitivity,
    )
    if any(part is not None for part in ball_parts):
        raise ParameterError(
            "this mechanism has no chart, so no ball of one can be stated"
        )


def _has_form_of(own_value: Any, stated_value: Any) -> bool:
    """Return whether two JSON values have the same structure and the same texts.

    A statistic must be described as it describes itself, or two texts could mean the
    same release. Numbers may differ: the last digits of a computed number depend on the
    machine.

    Parameters
    ----------
    own_value : object
        The JSON value that the library writes.
    stated_value : object
        The JSON value in the certificate.

    Returns
    -------
    bool
        Whether keys, lengths, types and texts agree at every depth.
    """
    if isinstance(own_value, Mapping):
        return (
            isinstance(stated_value, Mapping)
            and set(stated_value) == set(own_value)
            and all(
                _has_form_of(own_entry, stated_value[name])
                for name, own_entry in own_value.items()
            )
        )
    if isinstance(own_value, list | tuple):
        return (
            isinstance(stated_value, list | tuple)
            and len(stated_value) == len(own_value)
            and all(map(_has_form_of, own_value, stated_value))
        )
    if isinstance(own_value, int | float):
        return isinstance(stated_value, int | float)
    return bool(stated_value == own_value)
