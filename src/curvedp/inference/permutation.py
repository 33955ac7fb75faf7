"""Private permutation tests: one noise law on the statistic and on every permuted one.

Kim & Schrab (arXiv:2310.19043). Of T₀ and its B permuted values, each with independent
noise of one law, the test rejects where T₀ is among the ⌊α(B+1)⌋ largest: its level is
at most α at every n. The k-th largest of the others, q, moves by at most Δ where a
record is replaced, and so does T₀: the decision is a function of one noisy number of
sensitivity 2Δ. The rank of T₀ is not: what is released is the decision alone, at one
level. docs/inference.md has the proofs.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import floor, inf, nextafter, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.core.certificate import Certificate
from curvedp.core.fields import Count, Length
from curvedp.core.mechanism import (
    Draw,
    Mechanism,
    MechanismInfo,
    check_guarantee,
    check_supported,
    replay_draws,
)
from curvedp.core.statistic import ExternalValue, Statistic
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import Euclidean
from curvedp.inference.kernel import KernelStatistic
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.mechanisms.chart import GRID
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.isotropic.gaussian import GaussianMechanism
from curvedp.mechanisms.isotropic.laplace import LaplaceMechanism
from curvedp.privacy import Guarantee
from curvedp.randomness import GeneratorSource, Source

_MAX_PERMUTATIONS = 100_000
_NOISE_MECHANISMS: dict[str, type[IsotropicMechanism]] = {
    "gaussian": GaussianMechanism,
    "laplace": LaplaceMechanism,
}
# The standard deviation of one number's noise, over its scale.
_STD_PER_SCALE = {"gaussian": 1.0, "laplace": sqrt(2)}

Noise = Annotated[str, partial(_validate.choice, options=tuple(_NOISE_MECHANISMS))]
Level = Annotated[
    float, partial(_validate.within, low=0.0, high=1.0, open_low=True, open_high=True)
]


class CalibratedNoise(NamedTuple):
    """A kind of noise, its standard deviation and its scale."""

    std: float
    kind: str
    scale: float


class NoisyStatistics(NamedTuple):
    """Noisy statistics as grid integers, and the slack of their draws."""

    integers: list[int]
    slack: float


@dataclass(frozen=True, eq=False, kw_only=True)
class PermutationMechanism(Mechanism):
    """Whether a permutation test rejects: the one bit that is released.

    Attributes
    ----------
    noise : {"gaussian", "laplace"}
        On each of the B + 1 statistics.
    scale : float
        Of the noise.
    level : float
        α, the largest probability of a rejection where the hypothesis holds.
    permutations : int
        B.

    Notes
    -----
    Guarantees
    - the profile of one number of sensitivity 2Δ + 2^-30 (the grid) under this noise, for
      ANY records;
    - level at most α at every n, whatever the law of the records.
    """

    if TYPE_CHECKING:
        statistic: KernelStatistic

    noise: Noise
    scale: Length
    level: Level
    permutations: Count

    info: ClassVar[MechanismInfo] = MechanismInfo("permutation-test", reads="array")

    def __post_init__(self) -> None:
        """Refuse a number of permutations with which the test could never reject."""
        super().__post_init__()
        if self.permutations > _MAX_PERMUTATIONS or self.n_allowed < 1:
            raise ParameterError(
                f"must be between 1/level - 1 = {1 / self.level - 1:.6g} and "
                f"{_MAX_PERMUTATIONS}",
                parameter="permutations",
                value=self.permutations,
            )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        return isinstance(statistic, KernelStatistic)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the noise of the smallest standard deviation that meets the guarantee."""
        check_supported(cls, statistic)
        check_guarantee(guarantee)
        assert isinstance(statistic, KernelStatistic)  # it is supported
        trial = cls(
            statistic=statistic,
            noise="laplace",
            scale=1.0,
            level=0.05,
            permutations=498,
        )
        number = ExternalValue(Euclidean(1), trial.sensitivity)
        candidates: list[CalibratedNoise] = []
        refusal: CurvedpError | None = None
        for kind, mechanism in _NOISE_MECHANISMS.items():
            try:
                scale = mechanism.calibrate(number, guarantee).scale
            except CurvedpError as error:
                refusal = error
                continue
            std = scale * _STD_PER_SCALE[kind]
            candidates.append(CalibratedNoise(std, kind, scale))
        if not candidates:
            assert refusal is not None  # every candidate was refused
            raise refusal
        best = min(candidates)
        return replace(trial, noise=best.kind, scale=best.scale)

    def at_level(self, level: float, permutations: int) -> Self:
        """Return the same noise at another level, with so many permutations."""
        return replace(self, level=level, permutations=permutations)

    @property
    def n_allowed(self) -> int:
        """The k for which the test rejects where T₀ is among the k largest."""
        return floor(self.level * (self.permutations + 1))

    @cached_property
    def sensitivity(self) -> float:
        """Of T₀ − q, rounded to the grid: rounding q to it may cost a cell."""
        return nextafter(2 * self.statistic.sensitivity + 2.0**-GRID, inf)

    @cached_property
    def _noise_on_one_number(self) -> IsotropicMechanism:
        """This noise on one number of the same sensitivity."""
        kind = _NOISE_MECHANISMS[self.noise]
        return kind(Euclidean(1), self.sensitivity, self.scale)

    @property
    def privacy_profile(self) -> Guarantee:
        return self._noise_on_one_number.privacy_profile

    def prepare_data(self, data: Any) -> np.ndarray:
        """Return the coordinates of all samples in the ball."""
        return np.asarray(self.statistic.coordinates(data))

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Draw the decision: one bit, 1 where the test rejects.

        Every statistic has its own noise. The rank of the first among all is compared
        with the number of ranks at which the level allows a rejection; it is not
        released.

        Parameters
        ----------
        data : array of shape (total, dim)
            What `prepare_data` returns.
        source : Source
        """
        values = self.statistic.permuted(data, self.permutations, source)
        noisy, slack = self._add_noise(values, source)
        rank = 1 + sum(other >= noisy[0] for other in noisy[1:])
        is_rejected = int(rank <= self.n_allowed)
        return Draw(self._pvalue(is_rejected), [np.array([is_rejected])], slack)

    def simulate_decision(
        self, rng: np.random.Generator, coordinates: np.ndarray
    ) -> bool:
        """Return a decision by floats: for power, NOT for release."""
        source = GeneratorSource(rng)
        values = self.statistic.permuted(coordinates, self.permutations, source)
        draw_noise = rng.normal if self.noise == "gaussian" else rng.laplace
        noisy = values + draw_noise(0.0, self.scale, len(values))
        rank = 1 + np.sum(noisy[1:] >= noisy[0])
        return bool(rank <= self.n_allowed)

    def _add_noise(self, values: np.ndarray, source: Source) -> NoisyStatistics:
        """Draw each statistic with its own exact noise, on the grid."""
        if self.noise == "gaussian":
            drawn = exact_gaussian(
                Euclidean(len(values)), self.scale, values, source=source, grid=GRID
            )
            return NoisyStatistics([int(k) for k in drawn.integers], drawn.tau)
        draws = [
            exact_laplace(Euclidean(1), self.scale, values[i : i + 1], source=source)
            for i in range(len(values))
        ]
        integers = [int(draw.integers[0]) for draw in draws]
        return NoisyStatistics(integers, sum(draw.tau for draw in draws))

    def _pvalue(self, is_rejected: int) -> np.ndarray:
        """Return the test's attained level where it rejects, else 1.

        This is a p-value: it is at most u with probability at most u.
        """
        if not is_rejected:
            return np.array([1.0])
        return np.array([self.n_allowed / (self.permutations + 1)])

    def post_process(self, value: np.ndarray) -> np.ndarray:
        return value

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        """Return the p-value that follows from the released bit of a certificate."""
        drawn = replay_draws(certificate.release["integers"])(np.empty(1))
        bit = float(drawn[0]) * 2.0**GRID
        if bit not in (0.0, 1.0):
            raise ParameterError(
                "the released integers are not those of this mechanism"
            )
        return self._pvalue(int(bit))
