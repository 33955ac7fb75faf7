"""Packages whose names are imported on first use (PEP 562), and registers that are filled when they are asked."""

import ast
import sys
from collections import UserDict
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


def exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, by the imports that its `if TYPE_CHECKING:` block shows to type checkers.

    A name that is a module's too must not be among them: importing the module would bind the name to it.
    """

    def find(name: str) -> Any:
        if name not in _homes(package):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(_homes(package)[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find, lambda: sorted(vars(sys.modules[package])["__all__"])


@cache
def _homes(package: str) -> dict[str, str]:
    """The module of each name."""
    loader: Any = sys.modules[package].__loader__
    shown = (
        node
        for node in ast.parse(loader.get_source(package)).body
        if isinstance(node, ast.If)
    )
    lines = [
        line
        for block in shown
        for line in block.body
        if isinstance(line, ast.ImportFrom)
    ]
    return {alias.name: str(line.module) for line in lines for alias in line.names}


class Registry(UserDict[str, Kind]):
    """Classes by name, which they enter as they are defined, in the order of their modules.

    The modules of the package and of its subpackages are imported when a name is missing, or all are asked for.
    """

    def __init__(self, package: str) -> None:
        super().__init__()
        self._package: str | None = package

    def fill(self) -> None:
        """Import the package's modules, once."""
        if self._package is not None:
            for module in walk_packages(
                import_module(self._package).__path__, f"{self._package}."
            ):
                import_module(module.name)
            self._package = None

    def __missing__(self, name: str) -> Kind:
        self.fill()
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        if name not in self.data:
            self.fill()
        return name in self.data

    def __iter__(self) -> Iterator[str]:
        self.fill()
        return iter(sorted(self.data, key=lambda name: self.data[name].__module__))
