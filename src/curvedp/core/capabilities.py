"""What only some mechanisms or statistics can do, as classes with abstract methods.

A caller asks `isinstance(mechanism, PredictsError)`; nobody looks for attributes by
name. A mechanism that gains an ability derives from its class, and the type checker
holds it to the signature.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from curvedp.core.statistic import Statistic

if TYPE_CHECKING:
    from curvedp.core.certificate import Certificate, Check
    from curvedp.core.codes import PostProcessing
    from curvedp.core.mechanism import Mechanism


class PredictsError(ABC):
    """A mechanism that can say how far its release will be from the truth."""

    @abstractmethod
    def predict_error(self) -> float:
        """Return the expected error, from public numbers alone."""


class SimulatesRelease(ABC):
    """A mechanism whose releases can be simulated in floats, for predicted errors."""

    max_simulated_draws: int = 2048

    @abstractmethod
    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: Any
    ) -> np.ndarray:
        """Draw releases by the fast float path. They are NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
        data : array
            The value, or records that stand for n of their kind.
        size : int or tuple
            How many.

        Returns
        -------
        array
            Released points, post-processed, in the canonical frame of the statistic.
        """


class NoisyMeanSquare(NamedTuple):
    """The mean squared length of the records' logarithms, with Gaussian noise.

    Attributes
    ----------
    value : float
        What was drawn; noise may have made it negative.
    noise_std : float
        The standard deviation of the noise.
    """

    value: float
    noise_std: float


class NoisyDraw(NamedTuple):
    """A draw before shrinkage and projection, with the law of its noise.

    It says about which unknown quantity the draw was made, so that a theorem leads from
    it to a confidence region (docs/theory/inference.md). `kind` names the quantity:

    - "point": the statistic itself;
    - "chart": the coordinates of the statistic in the normal chart at `base`, clipped to
      the length `reach`;
    - "gradient": the mean logarithm of the records at `base`, of length at most `reach`;
    - "counts": how many records are farther from `base` than each of `radii`;
    - "line": the linearized geodesic at (p, V), stacked in `base`.

    Attributes
    ----------
    law
        The noise law.
    value : array
        What was drawn.
    base : array, optional
    reach : float
    radii : array, optional
    frame : Statistic, optional
        The statistic in whose canonical frame all this is, where it is not the
        mechanism's own.
    cell : float
        The width of the grid on which `value` was rounded.
    mean_square : NoisyMeanSquare, optional
        For a "gradient": the mean squared length of the same logarithms, where it was
        released beside their mean.
    """

    kind: Literal["point", "chart", "gradient", "counts", "line"]
    law: Any
    value: np.ndarray
    cell: float
    base: np.ndarray | None = None
    reach: float = float("inf")
    radii: np.ndarray | None = None
    frame: Statistic | None = None
    mean_square: NoisyMeanSquare | None = None


class LeadsToRegion(ABC):
    """A mechanism from whose draws a theorem leads to a confidence region."""

    @abstractmethod
    def noisy_draw(self, integers: Any) -> NoisyDraw:
        """Return what was drawn, from a certificate's grid integers alone."""


class BoundsSamplingError(ABC):
    """A statistic that knows how far it is from the statistic of the population.

    The records are independent draws of a population. A statistic without this ability
    has no confidence region for its population.
    """

    @abstractmethod
    def sampling_error(self, failure_probability: float) -> float:
        """Bound how far the statistic of n records is from that of their population.

        The unit is that of the theorem which the region uses (docs/theory/inference.md, "Regions
        of the population"): a distance for means, variances and second moments; for
        medians and geodesics the length of the mean direction of the records at the
        population's own median or geodesic, which has expectation 0.

        Parameters
        ----------
        failure_probability : float
            The probability with which the bound may fail.

        Raises
        ------
        ParameterError
            Where the ball is too wide for a theorem.
        """


class EndsInAnother(ABC):
    """A mechanism that finds something in stages and ends in another mechanism."""

    @abstractmethod
    def final_mechanism(self, certificate: "Certificate") -> "Mechanism":
        """Return the mechanism of the last draw: a function of released integers."""


class ChecksItself(ABC):
    """A mechanism whose certificates make further claims, which `verify` recomputes."""

    @abstractmethod
    def further_checks(self, certificate: "Certificate") -> list["Check"]:
        """Return one check for each further claim."""


class NeedsManyRecords(ABC):
    """A mechanism that is of no use for few records."""

    @property
    @abstractmethod
    def has_enough_records(self) -> bool:
        """Whether n and the budget suffice, by public numbers."""


class SometimesExcluded(ABC):
    """A mechanism that "auto" leaves out for some statistics."""

    @classmethod
    @abstractmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why "auto" leaves it out, or None where it considers it."""


class RefusesRelease(ABC):
    """A mechanism with public numbers for which no release could keep its promise."""

    @abstractmethod
    def check_releasable(self) -> None:
        """Raise `ParameterError` for such numbers, before anything is paid."""


class PostProcessesItself(ABC):
    """A mechanism that post-processes its draws in another way than its statistic."""

    @property
    @abstractmethod
    def post_processing(self) -> "tuple[PostProcessing, ...]":
        """What `post_process` does, as codes for the certificate."""


class HasNoiseLength(ABC):
    """A mechanism that knows the root mean square length of its noise."""

    @property
    @abstractmethod
    def noise_length(self) -> float:
        """The root mean square length of the noise, from public numbers."""
