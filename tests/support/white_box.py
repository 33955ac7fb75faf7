"""Which tests look inside: they name something private of the package.

Such a test may fail because the inside was written anew, and not because anything is wrong. The marker `white_box` is set
for all of them, so that `pytest -m "not white_box"` runs the tests that hold for every inside.
"""

from types import CodeType, FunctionType
from typing import Any

from _pytest.assertion import rewrite

# Names that begin with an underscore and are public: of named tuples, and of notebooks.
_PUBLIC_NAMES = {"_asdict", "_fields", "_make", "_replace", "_repr_html_"}


# What pytest writes into every function with an assertion.
_NAMES_OF_PYTEST = {name for name in vars(rewrite) if name.startswith("_")}


def is_white_box(function: Any) -> bool:
    """Return whether a test function, or a function inside it, names something private."""
    if not isinstance(function, FunctionType):
        return False
    own_names = {
        name
        for name, value in function.__globals__.items()
        if getattr(value, "__module__", None) == function.__module__
    }
    return bool(_private_names(function.__code__) - own_names)


def _private_names(code: CodeType) -> set[str]:
    """Return the names with one leading underscore that compiled code uses."""
    names = {
        name
        for name in code.co_names
        if name.startswith("_") and not name.startswith("__") and name != "_"
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _private_names(constant)
    return names - _PUBLIC_NAMES - _NAMES_OF_PYTEST
