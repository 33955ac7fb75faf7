"""Private permutation tests: the same noise law on the statistic and on every permuted one (Kim & Schrab, arXiv:2310.19043).

Of T₀ and its B permuted values, each with independent noise of one law, the test rejects where T₀ is among the ⌊α(B+1)⌋
largest: level at most α at every n. The k-th largest of the others, q, moves by at most Δ where a record is replaced, and so
does T₀: the decision is a function of one noisy number of sensitivity 2Δ. The rank of T₀ is not: what is released is the
decision alone, at one level. docs/inference.md has the proofs.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import floor, inf, nextafter, sqrt
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import GeneratorSource, Source
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import Euclidean
from curvedp.inference.kernel import KernelStatistic
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.mechanisms.base import Draw, Mechanism, check_guarantee, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import GRID
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.mechanisms.statistic import Count, Length, Stated
from curvedp.privacy import Guarantee

_MOST = 100_000  # permutations
_NOISES: dict[Any, Any] = {"gaussian": GaussianMechanism, "laplace": LaplaceMechanism}
Level = Annotated[
    float, partial(_validate.within, low=0.0, high=1.0, open_low=True, open_high=True)
]


@dataclass(frozen=True, eq=False, kw_only=True)
class PermutationMechanism(Mechanism):
    """Whether a permutation test rejects: the one bit that is released.

    Guarantees
    - the profile of one number of sensitivity 2Δ + 2^-30 (the grid) under this noise, for ANY records;
    - level at most α at every n, whatever the law of the records.
    """

    noise: Annotated[
        str, partial(_validate.choice, options=tuple(_NOISES))
    ]  # on each of the B + 1 statistics
    scale: Length  # of the noise
    level: Level  # α, the largest probability of a rejection where the hypothesis holds
    permutations: Count  # B

    name: ClassVar[str] = "permutation-test"
    reads: ClassVar[Literal["value", "records"]] = "records"
    of: ClassVar[Any] = KernelStatistic

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.permutations > _MOST or self.allowed < 1:
            raise ParameterError(
                f"must be between 1/level - 1 = {1 / self.level - 1:.6g} and {_MOST}",
                parameter="permutations",
                value=self.permutations,
            )

    @classmethod
    def for_statistic(cls, statistic: Any, guarantee: Guarantee) -> Self:
        """The noise of the smallest standard deviation that meets the guarantee."""
        trial, found = (
            cls(
                statistic=statistic,
                noise="laplace",
                scale=1.0,
                level=0.05,
                permutations=498,
            ),
            [],
        )
        check_guarantee(guarantee)
        moved = Stated(Euclidean(1), trial.sensitivity)
        for noise, kind in _NOISES.items():
            try:
                scale = kind.for_statistic(moved, guarantee).law.scale
            except CurvedpError as error:
                refusal = error
            else:
                found.append(
                    (scale * (sqrt(2) if noise == "laplace" else 1.0), noise, scale)
                )
        if not found:
            raise refusal
        _, noise, scale = min(found)
        return replace(trial, noise=noise, scale=scale)

    def at(self, level: float, permutations: int) -> Self:
        """The same noise at another level, with as many permutations."""
        return replace(self, level=level, permutations=permutations)

    @property
    def allowed(self) -> int:
        """k: the test rejects where the observed statistic is among the k largest."""
        return floor(self.level * (self.permutations + 1))

    @cached_property
    def sensitivity(self) -> float:
        """Of T₀ − q, rounded to the grid: rounding q to it may cost a cell."""
        return nextafter(2 * self.statistic.sensitivity + 2.0**-GRID, inf)

    @cached_property
    def _of_one(self) -> Any:
        """This noise on one number."""
        return _NOISES[self.noise](Euclidean(1), self.sensitivity, self.scale)

    profile = property(lambda self: self._of_one.profile)
    guarantee = property(lambda self: self._of_one.guarantee)
    grid = 0  # one bit, a whole number

    def accepted(self, data: Any) -> np.ndarray:
        return np.asarray(self.statistic.accepted(data))

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        values = self.statistic.permuted(data, self.permutations, source)
        noisy, tau = self._noisy(values, source)
        rank = 1 + sum(each >= noisy[0] for each in noisy[1:])
        rejected = int(rank <= self.allowed)
        return Draw(self._pvalue(rejected), [np.array([rejected])], tau)

    def simulate(self, rng: np.random.Generator, coordinates: np.ndarray) -> bool:
        """The decision by floats: for power, NOT for release."""
        values = self.statistic.permuted(
            coordinates, self.permutations, GeneratorSource(rng)
        )
        noisy = values + (rng.normal if self.noise == "gaussian" else rng.laplace)(
            0.0, self.scale, len(values)
        )
        return bool(1 + np.sum(noisy[1:] >= noisy[0]) <= self.allowed)

    def _noisy(self, values: np.ndarray, source: Source) -> tuple[list[int], float]:
        """Each statistic with its own noise, on the grid."""
        if self.noise == "gaussian":
            drawn = exact_gaussian(
                Euclidean(len(values)), self.scale, values, source=source, grid=GRID
            )
            return [int(k) for k in drawn.integers], drawn.tau
        draws = [
            exact_laplace(Euclidean(1), self.scale, values[i : i + 1], source=source)
            for i in range(len(values))
        ]
        return [int(each.integers[0]) for each in draws], sum(
            each.tau for each in draws
        )

    def _pvalue(self, rejected: int) -> np.ndarray:
        """The test's attained level where it rejects, else 1: a p-value, as it is at most u with probability at most u."""
        return np.array([self.allowed / (self.permutations + 1) if rejected else 1.0])

    def value_of(self, certificate: Certificate) -> np.ndarray:
        bit = float(replay(certificate.release["integers"])(np.empty(1))[0]) * 2.0**GRID
        if bit not in (0.0, 1.0):
            raise ParameterError(
                "the released integers are not those of this mechanism"
            )
        return self._pvalue(int(bit))
