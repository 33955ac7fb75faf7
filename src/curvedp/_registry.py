"""Registries: how mechanisms, statistics and manifolds are found by their names.
Certificates and command lines hold names. Each registry knows the modules of this
package that define its members, and an entry point group by which other packages add
theirs. The result does not depend on what was imported first, so `verify_certificate`
and `curvedp verify` accept the same certificates.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar

Member = TypeVar("Member", bound=type)


class Registry(Generic[Member]):
    """Classes by name.

    A class enters when it is defined. A name that is missing makes the registry import
    every module that defines members, once.

    Parameters
    ----------
    modules : tuple of str
        The modules of this package that define members.
    entry_point_group : str
        Where other packages list modules of theirs.

    Examples
    --------
    >>> from curvedp.core.registry import mechanisms
    >>> mechanisms.find("riemannian-laplace").__name__
    'LaplaceMechanism'
    >>> "no such mechanism" in mechanisms
    False
    """

    def __init__(self, modules: tuple[str, ...], entry_point_group: str) -> None:
        """Start an empty registry.

        Parameters
        ----------
        modules : tuple of str
            The modules of this package that define members.
        entry_point_group : str
            Where other packages list modules of theirs.
        """
        self._modules = modules
        self._entry_point_group = entry_point_group
        self._members: dict[str, Member] = {}
        self._is_complete = False

    def add(self, name: str, member: Member) -> None:
        """Register a class; one of the same name that was there before is replaced.

        Parameters
        ----------
        name : str
            The name that certificates and command lines use.
        member : type
            The class.
        """
        self._members[name] = member

    def remove(self, name: str) -> None:
        """Forget the class of a name, such as one that a test has defined.

        Parameters
        ----------
        name : str
            The name; one that is not registered is ignored.
        """
        self._members.pop(name, None)

    def find(self, name: str) -> Member:
        """Return the class of a name, after importing all modules if it is missing.

        Parameters
        ----------
        name : str
            The name, such as "Fréchet mean".

        Raises
        ------
        KeyError
            If no module defines a class of this name.
        """
        if name not in self._members:
            self.load_all()
        return self._members[name]

    def names(self) -> list[str]:
        """Return all names: first this package's names, in the order of their modules.

        Returns
        -------
        list of str
            The names by which `find` returns classes.
        """
        self.load_all()
        order = {module: place for place, module in enumerate(self._modules)}

        def place(name: str) -> tuple[int, str]:
            """Return the key by which a name is sorted: the place of its module.

            Parameters
            ----------
            name : str
                A registered name.
            """
            module = self._members[name].__module__
            return order.get(module, len(order)), module

        return sorted(self._members, key=place)

    def defined(self) -> dict[str, Member]:
        """Return the classes defined so far, without importing any module."""
        return dict(self._members)

    def load_all(self) -> None:
        """Import every module that defines members, of this package and of others."""
        if self._is_complete:
            return
        self._is_complete = True  # set first: the modules may ask for names themselves
        for module in self._modules:
            import_module(module)
        for entry_point in entry_points(group=self._entry_point_group):
            entry_point.load()

    def __contains__(self, name: object) -> bool:
        if name not in self._members:
            self.load_all()
        return name in self._members

    def __iter__(self) -> Iterator[Member]:
        return iter([self._members[name] for name in self.names()])
