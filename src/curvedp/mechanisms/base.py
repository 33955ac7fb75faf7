"""A mechanism: the sampler and its privacy map in one frozen value, so that they cannot drift apart.

Public parameters are fields; private data are arguments of calls. `release` returns the value WITH its certificate.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold, check_manifold
from curvedp.geometry.names import manifold_name
from curvedp.laws.exact import ExactDraw
from curvedp.mechanisms.certificate import Certificate, Claims
from curvedp.privacy import Guarantee, PrivacyProfile

__all__ = [
    "CHART_ERROR",
    "GRID",
    "REACH",
    "Ball",
    "Mechanism",
    "Release",
    "check_guarantee",
    "check_manifold",
    "check_point",
]

GRID = 30  # releases are whole multiples of 2^-30, a public constant

# log_o and to_coordinates are accurate to 1e-12 relative on every space (tests/geometry); tenfold is allowed for.
CHART_ERROR = 1e-11
# Where no ball is given, a statistic is moved to within this distance of the base, so that the float error is bounded.
REACH = 100.0


class Ball(NamedTuple):
    """The public ball that holds the records."""

    center: np.ndarray
    radius: float


@dataclass(frozen=True)
class Release:
    """A value that may leave the machine, and the certificate that says why."""

    value: np.ndarray
    certificate: Certificate


@dataclass(frozen=True)
class Mechanism(ABC):
    """Noise of one law about a statistic on `manifold` that moves by at most `sensitivity` between adjacent data sets."""

    manifold: Manifold
    sensitivity: float

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_manifold(self.manifold)
        object.__setattr__(self, "sensitivity", _validate.length("sensitivity", self.sensitivity))

    @property
    @abstractmethod
    def profile(self) -> PrivacyProfile:
        """The exact privacy profile of the ideal law."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The strongest statement in one definition."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The public fields as JSON values."""

    @abstractmethod
    def draw(self, value: np.ndarray, source: Source) -> tuple[np.ndarray, ExactDraw]:
        """One exact-then-round draw about a point of the manifold, and the grid integers it is made of."""

    @abstractmethod
    def simulate(self, rng: np.random.Generator, value: np.ndarray, size: int) -> np.ndarray:
        """Draws by the fast float path: for simulation and predicted error, NOT for release."""

    def release(
        self,
        value: Any,
        *,
        source: Source | None = None,
        guarantee: Guarantee | None = None,
        statistic: Mapping[str, Any] | None = None,
    ) -> Release:
        """The noisy value, on the public grid, with its certificate.

        A value that is not finite or not on the manifold is data, not an argument: it is mapped to the manifold's
        origin and the guarantee holds. Only a wrong shape raises. `guarantee` is what was asked for (recorded, and by
        default what the parameters give); `statistic` describes it in public terms.
        """
        value = _validate.array("value", value)
        if value.shape != self.manifold.point_shape:
            raise ParameterError(f"value has shape {value.shape}; one point has shape {self.manifold.point_shape}")
        source = SecureSource() if source is None else source
        on_manifold = project_to_ball(self.manifold, self.manifold.origin, 1e300, value[None])[0]
        noisy, draw = self.draw(on_manifold, source)
        certificate = Certificate(
            mechanism=self.name,
            manifold=manifold_name(self.manifold),
            parameters=self.parameters,
            sensitivity=self.sensitivity,
            claims=Claims.of(self.profile, draw.tau),
            guarantee=self.guarantee if guarantee is None else guarantee,
            numerics={"path": "exact-then-round", "grid": draw.grid, "tau": draw.tau, "profile": self.profile.label},
            entropy={"source": source.name, "cryptographic": source.is_cryptographic},
            statistic={} if statistic is None else statistic,
        )
        return Release(noisy, certificate)


def check_guarantee(guarantee: Any) -> Guarantee:
    """A guarantee of ours, or a `ParameterError`."""
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(f"guarantee={guarantee!r} must be a guarantee, such as GDP(1.0) or ApproxDP(1.0, 1e-6)")
    return guarantee


def check_point(name: str, manifold: Manifold, point: Any) -> np.ndarray:
    """A public point of the manifold, or a `ParameterError`; round-off is projected away."""
    array = _validate.array(name, point)
    if array.shape != manifold.point_shape:
        raise ParameterError(
            f"{name} has shape {array.shape}; a point of {manifold!r} has shape {manifold.point_shape}"
        )
    if not np.all(np.isfinite(array)) or not float(manifold.residual(array)) <= 1e-6:
        raise ParameterError(f"{name} is not a point of {manifold!r} (residual above 1e-6); see manifold.project")
    return np.asarray(manifold.project(array))
