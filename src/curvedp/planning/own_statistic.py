"""Plan a statistic that is not in the library. The caller of `plan` passes a class that
derives from `ClippedToBall`, whose fields start with manifold, center, radius and n.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import partial
from typing import Any

from curvedp.core.statistic import ClippedToBall
from curvedp.errors import ParameterError
from curvedp.planning.public_ball import plan_clipped_statistic
from curvedp.planning.request import (
    STATISTIC_NAMES,
    PlanRequest,
    unwrap_statistic_class,
)
from curvedp.planning.result import Plan

__all__ = ["plan_own_statistic"]

# The fields of every statistic of n records in a public ball.
_BALL_FIELDS = {"manifold", "center", "radius", "n"}


def plan_own_statistic(request: PlanRequest) -> Plan:
    """Return the plan of a statistic whose class the caller has written.

    Parameters
    ----------
    request : PlanRequest
        The parameters of `plan`. The statistic is a class, or `functools.partial` of
        one with its further parameters; the ball is public.

    Returns
    -------
    Plan
        The predicted error of each mechanism, best first.

    Raises
    ------
    ParameterError
        If the class is of another kind, or its parameters are missing.
    """
    statistic: Any = request.statistic
    statistic_class = unwrap_statistic_class(statistic)
    _check_class(statistic_class)
    if request.has_private_ball:
        raise ParameterError(
            f"must be a number: the {statistic_class.name} is planned in a public ball "
            "only",
            parameter="radius",
            value=request.radius,
        )
    own_parameters = statistic.keywords if isinstance(statistic, partial) else {}
    _check_own_parameters(statistic_class, own_parameters)
    clipped_statistic: ClippedToBall = statistic_class(
        request.manifold, request.center, request.radius, request.n, **own_parameters
    )
    return plan_clipped_statistic(clipped_statistic, request)


def _check_class(statistic_class: Any) -> None:
    """Refuse a statistic that is no class of statistics of records in a ball.

    Parameters
    ----------
    statistic_class : object
        What the caller of `plan` passes as the statistic.
    """
    is_class = isinstance(statistic_class, type)
    if is_class and issubclass(statistic_class, ClippedToBall):
        return
    raise ParameterError(
        f"must be one of {', '.join(STATISTIC_NAMES)}, or a class that derives "
        "from ClippedToBall",
        parameter="statistic",
    )


def _check_own_parameters(
    statistic_class: type[ClippedToBall], own_parameters: Mapping[str, Any]
) -> None:
    """Refuse parameters of a caller's statistic that are unknown or missing.

    The class itself would raise a TypeError; this error names its parameters.

    Parameters
    ----------
    statistic_class : type of ClippedToBall
        The class that the caller has written.
    own_parameters : mapping
        What the caller has given for its fields besides those of the ball.

    Raises
    ------
    ParameterError
        If a parameter is unknown, or one without a default is missing.
    """
    own_fields = [
        field for field in fields(statistic_class) if field.name not in _BALL_FIELDS
    ]
    known_names = {field.name for field in own_fields}
    required_names = {field.name for field in own_fields if _is_required(field)}
    if not required_names <= set(own_parameters) <= known_names:
        names = ", ".join(field.name for field in own_fields) or "none"
        raise ParameterError(
            f"must come with the parameters of its own ({names}): in Python, as "
            f"functools.partial({statistic_class.__name__}, ...)",
            parameter="statistic",
        )


def _is_required(field: Field) -> bool:
    """Return whether a field of a dataclass has no default.

    Parameters
    ----------
    field : dataclasses.Field
        The field.
    """
    return field.default is MISSING and field.default_factory is MISSING
