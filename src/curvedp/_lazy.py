"""Names of a package that are imported on first use, and registries of classes.
Both keep `import curvedp` fast: a module is imported when someone asks for what it
defines (PEP 562).
"""

import sys
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


def exports(
    package: str, names_by_module: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its names late.

    A name is imported when it is first used, so that `import curvedp` stays fast.

    Parameters
    ----------
    package : str
        The package's `__name__`.
    names_by_module : mapping
        The names, by the module that defines them. Type checkers do not read it: the
        package repeats it as imports in an `if TYPE_CHECKING:` block, and a test
        compares the two. No name may be a module's of the package too: importing that
        module would bind the name to it.

    Returns
    -------
    get_attribute, list_names : callables
        What the package binds to `__getattr__` and `__dir__` (PEP 562).
    """
    module_of = {
        name: module for module, names in names_by_module.items() for name in names
    }

    def get_attribute(name: str) -> Any:
        """Import and return a name of the package, and bind it there for next time.

        Parameters
        ----------
        name : str
            The name that was asked for.
        """
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        """Return the public names of the package, whether imported or not."""
        return sorted(vars(sys.modules[package])["__all__"])

    return get_attribute, list_names


class Registry(UserDict[str, Kind]):
    """Classes by name, which they enter as they are defined, in the order of their modules.

    The modules of the package and of its subpackages are imported when a name is
    missing, or all are asked for.
    """

    def __init__(self, package: str) -> None:
        """Start an empty registry.

        Parameters
        ----------
        package : str
            The name of the package whose modules define the members.
        """
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
