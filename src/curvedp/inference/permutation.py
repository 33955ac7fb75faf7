"""Private permutation tests: the same noise law on the statistic and on every permuted one (Kim & Schrab, arXiv:2310.19043).

Level. Under the hypothesis the observed statistic and the permuted ones are exchangeable, and stay so when each gets
independent noise of the same law; rejecting where the observed one is among the ⌊α(B+1)⌋ largest of B + 1 (ties count
against it) has level at most α at every n.

Privacy. Fix the permutations and the noise of all but the observed statistic: they do not depend on the data. The test
rejects where T₀ + ξ₀ > q, q the k-th largest of the other noisy statistics. Each statistic moves by at most Δ when one record
is replaced, so q does, and T₀ − q moves by at most 2Δ: the decision is a function of one noisy number of sensitivity 2Δ
(Kim & Schrab 2023, by the quantile, for Laplace noise of scale 2Δ/ε; the argument serves every additive noise).

It does not cover the rank of T₀, whose event q' <= T₀ + ξ₀ < q has two ends that may move apart: what is released is the
decision alone, at one level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import floor, inf, nextafter, sqrt
from typing import Any, ClassVar, Literal, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import GeneratorSource, Source
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import Euclidean
from curvedp.inference.kernel import KernelStatistic
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.mechanisms.base import Draw, Mechanism, assign, check_guarantee, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import GRID
from curvedp.mechanisms.gaussian import GaussianMechanism
from curvedp.mechanisms.laplace import LaplaceMechanism
from curvedp.mechanisms.statistic import Stated, Statistic
from curvedp.privacy import Guarantee, PrivacyProfile

_MOST = 100_000  # permutations
_NOISES: dict[str, Any] = {"gaussian": GaussianMechanism, "laplace": LaplaceMechanism}


@dataclass(frozen=True, eq=False, init=False)
class PermutationMechanism(Mechanism):
    """Whether a permutation test rejects: the one bit that is released.

    Parameters
    ----------
    statistic : KernelStatistic
        What is permuted, with its sensitivity Δ.
    noise : {"gaussian", "laplace"}
        The law of the noise on each of the B + 1 statistics.
    scale : float
        Its scale.
    level : float
        α, the largest probability of a rejection where the hypothesis holds.
    permutations : int
        B.

    Notes
    -----
    Guarantees
    - the profile of one number of sensitivity 2Δ + 2^-30 (the grid) under this noise, for ANY records;
    - level at most α at every n, whatever the law of the records.
    """

    noise: Literal["gaussian", "laplace"]
    scale: float
    level: float
    permutations: int

    name: ClassVar[str] = "permutation-test"
    reads: ClassVar[Literal["value", "records"]] = "records"
    of: ClassVar[Any] = KernelStatistic

    def __init__(
        self, *, statistic: Statistic, noise: Any, scale: Any, level: Any = 0.05, permutations: Any = 498
    ) -> None:
        if not isinstance(statistic, KernelStatistic):
            raise ParameterError(f"PermutationMechanism is for kernel statistics, not the {statistic.name}")
        level = _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
        permutations = _validate.integer("permutations", permutations, 1)
        assign(self, statistic=statistic, level=level, permutations=permutations)
        if permutations > _MOST or self.allowed < 1:
            raise ParameterError(
                f"permutations={permutations} must be between 1/level - 1 = {1 / level - 1:.6g} and {_MOST}"
            )
        assign(self, noise=_validate.choice("noise", noise, tuple(_NOISES)), scale=_validate.length("scale", scale))

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The noise of the smallest standard deviation that meets the guarantee."""
        trial, found = cls(statistic=statistic, noise="laplace", scale=1.0), []
        check_guarantee(guarantee)
        moved = Stated(Euclidean(1), trial.sensitivity)
        refusals: list[CurvedpError] = []
        for noise, kind in _NOISES.items():
            try:
                scale = kind.for_statistic(moved, guarantee).law.scale
            except CurvedpError as refusal:
                refusals.append(refusal)
            else:
                found.append((scale * (sqrt(2) if noise == "laplace" else 1.0), noise, scale))
        if not found:
            raise refusals[-1]
        _, noise, scale = min(found)
        return cls(statistic=statistic, noise=noise, scale=scale)

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """From its parameters."""
        return cls(
            statistic=statistic, **{name: parameters[name] for name in ("noise", "scale", "level", "permutations")}
        )

    def at(self, level: float, permutations: int) -> Self:
        """The same noise at another level, with as many permutations."""
        return type(self)(
            statistic=self.statistic, noise=self.noise, scale=self.scale, level=level, permutations=permutations
        )

    @property
    def allowed(self) -> int:
        """k: the test rejects where the observed statistic is among the k largest."""
        return floor(self.level * (self.permutations + 1))

    @cached_property
    def sensitivity(self) -> float:
        """Of T₀ − q, rounded to the grid: rounding q to it may cost a cell."""
        return nextafter(2 * self.statistic.sensitivity + 2.0**-GRID, inf)

    @cached_property
    def profile(self) -> PrivacyProfile:
        """That of one number under this noise."""
        profile: PrivacyProfile = _NOISES[self.noise](Euclidean(1), self.sensitivity, self.scale).profile
        return profile

    @property
    def guarantee(self) -> Guarantee:
        """That of the noise."""
        guarantee: Guarantee = _NOISES[self.noise](Euclidean(1), self.sensitivity, self.scale).guarantee
        return guarantee

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public numbers as JSON values."""
        return {"noise": self.noise, "scale": self.scale, "level": self.level, "permutations": self.permutations}

    @property
    def grid(self) -> int:
        """One bit, a whole number."""
        return 0

    def accepted(self, data: Any) -> np.ndarray:
        """The kernel's arguments."""
        return self._kernel.accepted(data)

    @property
    def _kernel(self) -> KernelStatistic:
        assert isinstance(self.statistic, KernelStatistic)  # checked when it was made
        return self.statistic

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """The decision."""
        values = self._kernel.permuted(data, self.permutations, source)
        noisy, tau = self._noisy(values, source)
        rank = 1 + sum(each >= noisy[0] for each in noisy[1:])
        rejected = int(rank <= self.allowed)
        return Draw(self._pvalue(rejected), [np.array([rejected])], tau)

    def simulate(self, rng: np.random.Generator, coordinates: np.ndarray) -> bool:
        """The decision by floats: for power, NOT for release."""
        values = self._kernel.permuted(coordinates, self.permutations, GeneratorSource(rng))
        noisy = values + (rng.normal if self.noise == "gaussian" else rng.laplace)(0.0, self.scale, len(values))
        return bool(1 + np.sum(noisy[1:] >= noisy[0]) <= self.allowed)

    def _noisy(self, values: np.ndarray, source: Source) -> tuple[list[int], float]:
        """Each statistic with its own noise, on the grid."""
        if self.noise == "gaussian":
            drawn = exact_gaussian(Euclidean(len(values)), self.scale, values, source=source, grid=GRID)
            return [int(k) for k in drawn.integers], drawn.tau
        draws = [exact_laplace(Euclidean(1), self.scale, values[i : i + 1], source=source) for i in range(len(values))]
        return [int(each.integers[0]) for each in draws], sum(each.tau for each in draws)

    def _pvalue(self, rejected: int) -> np.ndarray:
        """The test's attained level where it rejects, else 1: a p-value, as it is at most u with probability at most u."""
        return np.array([self.allowed / (self.permutations + 1) if rejected else 1.0])

    def value_of(self, certificate: Certificate) -> np.ndarray:
        """The p-value of the one bit."""
        bit = float(replay(certificate.release["integers"])(np.empty(1))[0]) * 2.0**GRID
        if bit not in (0.0, 1.0):
            raise ParameterError("the released integers are not those of this mechanism")
        return self._pvalue(int(bit))
