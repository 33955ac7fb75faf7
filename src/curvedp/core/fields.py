"""Fields of frozen dataclasses that check themselves.
A statistic and a mechanism are frozen dataclasses whose fields are public parameters.
The type of a field carries its check, so that every way to build one (a user's call,
calibration, a certificate) passes the same checks:

>>> @dataclass(frozen=True)
... class Noise:
...     scale: Length
...     def __post_init__(self):
...         check_fields(self)
>>> Noise(2).scale
2.0
"""

from dataclasses import dataclass as dataclass
from dataclasses import fields
from functools import partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from curvedp import _validate


def assign(frozen: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is being built.

    `__post_init__` uses it to store checked values: a frozen dataclass refuses ordinary
    assignment.

    Parameters
    ----------
    frozen : dataclass instance
        The instance under construction.
    **values : Any
        The new value of each field, by its name.
    """
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def check_length(name: str, value: Any) -> float:
    """Return a length between 1e-100 and 1e100 as a float.

    Parameters
    ----------
    name : str
        The parameter's name, for error messages.
    value : object
        What the caller passes.

    Returns
    -------
    float
        The value, converted.

    Raises
    ------
    ParameterError
        If the value is no such number.
    """
    if type(value) is float and 1e-100 <= value <= 1e100:
        return (
            value  # choosing a mechanism builds hundreds of them: skip the full check
        )
    return _validate.length(name, value)


Length = Annotated[float, check_length]
Positive = Annotated[float, _validate.positive]
Count = Annotated[int, partial(_validate.integer, minimum=1)]
AtLeastTwo = Annotated[int, partial(_validate.integer, minimum=2)]


def check_fields(instance: Any) -> None:
    """Replace every field of a dataclass by what the check in its type returns.

    Called by statistics and mechanisms in `__post_init__`, so that no instance has
    unchecked fields.

    Parameters
    ----------
    instance : dataclass
        Its fields may have types `Annotated[T, check]`, where `check(name, value)`
        returns the value to keep or raises `ParameterError`.
    """
    declared = fields(instance)
    types: dict[str, Any] = {field.name: field.type for field in declared}
    if any(isinstance(field_type, str) for field_type in types.values()):
        # The class was defined under `from __future__ import annotations`.
        types = get_type_hints(type(instance), include_extras=True)

    for name, value in _validate.field_values(instance).items():
        checked_value = value
        for check in annotations_of(types[name]):
            checked_value = check(name, checked_value)
            assign(instance, **{name: checked_value})


def annotations_of(declared_type: Any) -> tuple[Any, ...]:
    """Return the metadata that `Annotated[T, ...]` lists after T.

    Parameters
    ----------
    declared_type : type
        The declared type of a field. For a type that is not `Annotated` the result is
        empty.
    """
    if get_origin(declared_type) is not Annotated:
        return ()
    return get_args(declared_type)[1:]
