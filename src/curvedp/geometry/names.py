"""Manifolds as short names, for command lines and certificates: `sphere:2`,
`product(sphere:2,euclidean:1)`.
"""

from dataclasses import fields
from functools import lru_cache
from math import prod
from typing import Any

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.product import Product

# The most numbers of a point that a name may ask for, and the largest whole number in
# a name: a point has at least as many numbers. Beyond, a typing error takes all memory.
_MOST = 10**7


def parse_manifold(text: str) -> Manifold:
    """The manifold that a name describes; `manifold_name` is its inverse.

    Parameters
    ----------
    text : str
        A kind and its numbers.

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
            f"must be a name, {_help()}", parameter="manifold", value=text
        )
    try:
        found = _parsed(text)
    except RecursionError:
        raise ParameterError(
            "is nested too deeply", parameter="manifold", value=text
        ) from None
    if (numbers := prod(found.point_shape)) > _MOST:
        raise _too_large(text, str(numbers))
    return found


def _too_large(text: str, numbers: str) -> ParameterError:
    return ParameterError(
        f"is too large: a point has {numbers} numbers", parameter="manifold", value=text
    )


def _parsed(text: str) -> Manifold:
    name = text.strip().lower()
    if name.startswith("product(") and name.endswith(")"):
        return Product(*map(parse_manifold, _factors(text, name[len("product(") : -1])))
    kind, colon, sizes = name.partition(":")
    if kind.strip() not in Manifold.kinds or not colon:
        raise ParameterError(
            f"is not a known name, {_help()}", parameter="manifold", value=text
        )
    cls = Manifold.kinds[kind.strip()]
    expected = fields(cls)  # type: ignore[arg-type]  # every manifold is a dataclass
    try:
        found = [
            _size(field.type, size.strip())
            for field, size in zip(expected, sizes.split(","), strict=True)
        ]
    except ValueError:
        needed = ", ".join(
            f"{'any' if f.type is float else 'a whole'} number for {f.name}"
            for f in expected
        )
        raise ParameterError(
            f"must be {_form(kind.strip())} with {needed}",
            parameter="manifold",
            value=text,
        ) from None
    whole_numbers = [size for size in found if isinstance(size, int)]
    largest = max(whole_numbers, default=0)
    if largest > _MOST:  # refused before anything of that size is built
        raise _too_large(text, f"at least {largest:.4g}")
    return _built(cls, *found)


def manifold_name(M: Manifold) -> str:
    """The name that `parse_manifold` reads back as M.

    Parameters
    ----------
    M : Manifold
        Of this library.

    Examples
    --------
    >>> from curvedp.geometry import manifold_name, parse_manifold
    >>> manifold_name(parse_manifold("sphere:2"))
    'sphere:2'
    """
    return check_manifold(M).name


# A certificate names its manifold in several places: each is the same value, with the
# facts it has worked out.
@lru_cache(maxsize=64)
def _built(cls: type[Manifold], *sizes: float) -> Manifold:
    return cls(*sizes)


def _size(kind: Any, text: str) -> float:
    """Read one number of a name: whole, or any number where the manifold has a length.

    A length is written as Python writes a double, with as many digits as it takes; no
    underscores, and no digits of other scripts.
    """
    if not text.isascii() or "_" in text:
        raise ValueError
    if kind is float:
        return float(text)
    if not text.isdigit():
        raise ValueError
    return int(text)


def _factors(text: str, inside: str) -> list[str]:
    """Names between the parentheses: a new one starts at a letter that follows a comma
    outside nested parentheses.
    """
    names, depth, start = [], 0, 0
    for i, character in enumerate(inside):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            raise ParameterError(
                "has unbalanced parentheses", parameter="manifold", value=text
            )
        if character == "," and depth == 0 and inside[i + 1 :].lstrip()[:1].isalpha():
            names.append(inside[start:i])
            start = i + 1
    return [*names, inside[start:]]


def _form(kind: str) -> str:
    return f"{kind}:{','.join(field.name for field in fields(Manifold.kinds[kind]))}"  # type: ignore[arg-type]  # every manifold is a dataclass


def _help() -> str:
    return f"one of {', '.join(map(_form, sorted(Manifold.kinds)))}, product(name,name,...)"
