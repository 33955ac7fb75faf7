"""Where mechanisms, statistics and manifolds are found by the names in certificates.

Each registry knows the modules of this package that define its members, and an entry
point group for other packages. A member enters when its class is defined; a name that
is missing makes the registry import everything once. The result does not depend on what
was imported first, so `verify_certificate` and `curvedp verify` accept the same
certificates.

A package of yours registers its mechanisms by an entry point in its `pyproject.toml`:

    [project.entry-points."curvedp.mechanisms"]
    mine = "my_package.mechanisms"      # a module that defines the classes
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from curvedp.core.mechanism import Mechanism
    from curvedp.core.statistic import Statistic

Member = TypeVar("Member", bound=type)


class Registry(Generic[Member]):
    """Classes by name.

    Parameters
    ----------
    modules : tuple of str
        The modules of this package that define members.
    entry_point_group : str
        Where other packages list modules of theirs.

    Examples
    --------
    >>> mechanisms.find("riemannian-laplace").__name__
    'LaplaceMechanism'
    >>> "no such mechanism" in mechanisms
    False
    """

    def __init__(self, modules: tuple[str, ...], entry_point_group: str) -> None:
        self._modules = modules
        self._entry_point_group = entry_point_group
        self._members: dict[str, Member] = {}
        self._is_complete = False

    def add(self, name: str, member: Member) -> None:
        """Register a class; a class of the same name that was there before is replaced."""
        self._members[name] = member

    def remove(self, name: str) -> None:
        """Forget the class of this name, such as one that a test has defined."""
        self._members.pop(name, None)

    def find(self, name: str) -> Member:
        """Return the class of this name, or raise `KeyError`."""
        if name not in self._members:
            self.load_all()
        return self._members[name]

    def names(self) -> list[str]:
        """Return all names, those of this package first, in the order of their modules."""
        self.load_all()
        order = {module: place for place, module in enumerate(self._modules)}

        def place(name: str) -> tuple[int, str]:
            module = self._members[name].__module__
            return order.get(module, len(order)), module

        return sorted(self._members, key=place)

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


# In the order in which "auto" and messages list them.
_MECHANISM_MODULES = (
    "curvedp.mechanisms.isotropic.gaussian",
    "curvedp.mechanisms.isotropic.laplace",
    "curvedp.mechanisms.isotropic.tangent",
    "curvedp.mechanisms.gradient_step",
    "curvedp.mechanisms.newton",
    "curvedp.mechanisms.knorm_gradient",
    "curvedp.mechanisms.noisy_sum",
    "curvedp.mechanisms.staged.median",
    "curvedp.mechanisms.staged.ball_search",
    "curvedp.mechanisms.staged.reduced_classifier",
    "curvedp.mechanisms.geodesic_descent",
    "curvedp.mechanisms.geodesic_knorm",
    "curvedp.mechanisms.optimizer",
    "curvedp.mechanisms.selection",
    "curvedp.inference.permutation",
    "curvedp.federated.release",
)
_STATISTIC_MODULES = (
    "curvedp.core.statistic",
    "curvedp.statistics.frechet_mean",
    "curvedp.statistics.frechet_variance",
    "curvedp.statistics.second_moment",
    "curvedp.statistics.noisy_sums",
    "curvedp.statistics.searched_ball",
    "curvedp.statistics.geometric_median",
    "curvedp.statistics.geodesic",
    "curvedp.statistics.reduced_classes",
    "curvedp.statistics.clipped_gradient",
    "curvedp.mechanisms.selection",
    "curvedp.inference.kernel",
    "curvedp.federated.plan",
)

mechanisms: "Registry[type[Mechanism]]" = Registry(
    _MECHANISM_MODULES, "curvedp.mechanisms"
)
statistics: "Registry[type[Statistic]]" = Registry(
    _STATISTIC_MODULES, "curvedp.statistics"
)
