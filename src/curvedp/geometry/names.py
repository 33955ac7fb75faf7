"""Short names of manifolds for command lines and certificates, such as ``sphere:2``. A
name is the kind of the manifold (``sphere``), a colon, and one number for each field of
its class, or a product of such names. `parse_manifold` reads a name and `manifold_name`
writes it.
"""

from dataclasses import fields
from functools import lru_cache
from math import prod
from typing import Any

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold, manifold_kinds
from curvedp.geometry.spaces.product import Product

# Largest allowed size of a point, in numbers, and largest whole number in a name (a point
# has at least as many numbers). Without a limit a typing error could use up all memory.
_MOST_NUMBERS = 10**7


def parse_manifold(text: str) -> Manifold:
    """Return the manifold that a name describes; `manifold_name` is the inverse.

    Command lines and certificates state manifolds by such names.

    Parameters
    ----------
    text : str
        A kind and its numbers, or a product of such names.

    Returns
    -------
    Manifold
        The same instance for the same name.

    Raises
    ------
    ParameterError
        If the name is not known, has other numbers, or describes points too large.

    Examples
    --------
    >>> from curvedp.geometry import parse_manifold
    >>> parse_manifold("stiefel:5,2")
    Stiefel(m=5, r=2)
    >>> parse_manifold("product(sphere:2,euclidean:1)")
    Product(Sphere(d=2), Euclidean(d=1))
    """
    if not isinstance(text, str):
        raise ParameterError(
            f"must be a name, {_known_names()}", parameter="manifold", value=text
        )
    try:
        manifold = _parse(text)
    except RecursionError:
        raise ParameterError(
            "is nested too deeply", parameter="manifold", value=text
        ) from None
    n_numbers = prod(manifold.point_shape)
    if n_numbers > _MOST_NUMBERS:
        raise _too_large(text, str(n_numbers))
    return manifold


def _too_large(text: str, numbers: str) -> ParameterError:
    """Return the error to raise for a name whose points would have too many numbers.

    Parameters
    ----------
    text : str
        The whole name.
    numbers : str
        How many numbers a point would have, in words for the message, such as
        "at least 1e+08".

    Returns
    -------
    ParameterError
        The error; the caller raises it.
    """
    return ParameterError(
        f"is too large: a point has {numbers} numbers", parameter="manifold", value=text
    )


def _parse(text: str) -> Manifold:
    """Return the manifold of a name; `parse_manifold` also checks its total size.

    Parameters
    ----------
    text : str
        The name, or a part of it, such as "sphere:2".

    Returns
    -------
    Manifold
        The manifold.

    Raises
    ------
    ParameterError
        If the name is not known, or one of its numbers is wrong or too large.
    """
    # A product: parse the names between its parentheses.
    name = text.strip().lower()
    if name.startswith("product(") and name.endswith(")"):
        names = _split_factors(text, name[len("product(") : -1])
        return Product(*map(parse_manifold, names))

    # A kind and its numbers, such as "stiefel:5,2".
    kind, colon, sizes = name.partition(":")
    kind = kind.strip()
    if kind not in manifold_kinds or not colon:
        raise ParameterError(
            f"is not a known name, {_known_names()}", parameter="manifold", value=text
        )
    numbers = _parse_numbers(text, kind, sizes)

    # Refuse large numbers before anything of that size is built.
    whole_numbers = [number for number in numbers if isinstance(number, int)]
    largest = max(whole_numbers, default=0)
    if largest > _MOST_NUMBERS:
        raise _too_large(text, f"at least {largest:.4g}")
    return _cached_manifold(manifold_kinds.find(kind), *numbers)


def _parse_numbers(text: str, kind: str, sizes: str) -> list[float]:
    """Return the numbers in a manifold's name, one for each field of its class.

    Parameters
    ----------
    text : str
        The whole name, for the error message.
    kind : str
        The part before the colon, such as "grassmann".
    sizes : str
        The part after the colon, such as "4,2".

    Returns
    -------
    list of float or int
        The numbers, such as [4, 2].

    Raises
    ------
    ParameterError
        If there are too few numbers, too many, or something else.
    """
    expected = fields(manifold_kinds.find(kind))  # type: ignore[arg-type]  # every manifold is a dataclass
    try:
        return [
            _parse_number(field.type, size.strip())
            for field, size in zip(expected, sizes.split(","), strict=True)
        ]
    except ValueError:
        descriptions = []
        for field in expected:
            kind_of_number = "any" if field.type is float else "a whole"
            descriptions.append(f"{kind_of_number} number for {field.name}")
        raise ParameterError(
            f"must be {_form_of_name(kind)} with {', '.join(descriptions)}",
            parameter="manifold",
            value=text,
        ) from None


def manifold_name(M: Manifold) -> str:
    """Return the name that `parse_manifold` reads back as M.

    Parameters
    ----------
    M : Manifold
        A manifold whose class has a `kind`.

    Returns
    -------
    str
        The name, such as ``sphere:2``.

    Examples
    --------
    >>> from curvedp.geometry import manifold_name, parse_manifold
    >>> manifold_name(parse_manifold("sphere:2"))
    'sphere:2'
    """
    return check_manifold(M).name


@lru_cache(maxsize=64)
def _cached_manifold(cls: type[Manifold], *sizes: float) -> Manifold:
    """Return cls(*sizes), the same instance for the same arguments.

    A certificate names its manifold in several places. With one instance the constants
    of the manifold, which it computes when they are first asked for, are computed once.

    Parameters
    ----------
    cls : type
        The class of a manifold.
    *sizes : float or int
        Its fields.

    Returns
    -------
    Manifold
        The instance.
    """
    return cls(*sizes)


def _parse_number(field_type: Any, text: str) -> float:
    """Read one number of a manifold's name.

    Python's `float` also accepts underscores and digits of other scripts; names do not.

    Parameters
    ----------
    field_type : object
        The type of the field: float for a length such as 0.5, anything else for a whole
        number.
    text : str
        The number.

    Returns
    -------
    float or int
        The number.

    Raises
    ------
    ValueError
        If the text is not such a number.
    """
    if not text.isascii() or "_" in text:
        raise ValueError
    if field_type is float:
        return float(text)
    if not text.isdigit():
        raise ValueError
    return int(text)


def _split_factors(text: str, factors: str) -> list[str]:
    """Split the names of the factors of a product at the commas between them.

    Commas also separate the numbers within a name: "stiefel:5,2,sphere:2" has two
    names. A new name starts at a letter that follows a comma outside nested
    parentheses.

    Parameters
    ----------
    text : str
        The whole name, for error messages.
    factors : str
        The text between its parentheses.

    Returns
    -------
    list of str
        The names of the factors.

    Raises
    ------
    ParameterError
        If a parenthesis is closed that was not opened.
    """
    names = []
    start_of_name = 0
    n_open_parentheses = 0
    for i, character in enumerate(factors):
        if character == "(":
            n_open_parentheses += 1
        elif character == ")":
            n_open_parentheses -= 1
        if n_open_parentheses < 0:
            raise ParameterError(
                "has unbalanced parentheses", parameter="manifold", value=text
            )

        is_before_letter = factors[i + 1 :].lstrip()[:1].isalpha()
        if character == "," and n_open_parentheses == 0 and is_before_letter:
            names.append(factors[start_of_name:i])
            start_of_name = i + 1
    return [*names, factors[start_of_name:]]


def _form_of_name(kind: str) -> str:
    """Return what names of a kind look like, such as ``stiefel:m,r``.

    Parameters
    ----------
    kind : str
        The word of a class of manifolds, such as "stiefel".

    Returns
    -------
    str
        The kind, and the names of its fields.
    """
    expected = fields(manifold_kinds.find(kind))  # type: ignore[arg-type]  # every manifold is a dataclass
    return f"{kind}:{','.join(field.name for field in expected)}"


def _known_names() -> str:
    """Return the forms of all names that `parse_manifold` knows, for error messages."""
    forms = ", ".join(_form_of_name(kind) for kind in sorted(manifold_kinds.names()))
    return f"one of {forms}, product(name,name,...)"
