"""The budget of a release in stages, and the base class of mechanisms that spend it.

The package docstring of `curvedp.mechanisms.staged` explains run and replay.
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import inf, nextafter, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import ChecksItself
from curvedp.core.certificate import Certificate, Check
from curvedp.core.fields import Positive
from curvedp.core.mechanism import Draw, check_guarantee, replay_draws
from curvedp.core.statistic import Statistic
from curvedp.mechanisms.vector import (
    AddNoise,
    ExactNoise,
    NoiseKind,
    NoiseLevel,
    VectorMechanism,
    smallest_gaussian_scale,
    smallest_noise,
    std_per_scale,
)
from curvedp.privacy import GDP, ApproxDP, Guarantee, PureDP
from curvedp.randomness import Source

# Relative margin that covers the rounding of the shares when they are added up.
_SHARE_ROUNDING = 1e-12


class ReleasedCounts(NamedTuple):
    """Noisy counts of records beyond distances from a point, for warnings and regions.

    Attributes
    ----------
    center : array
        The point from which distances are measured.
    radii : float or array
        The distances.
    counts : float or array
        The noisy number of records beyond each.
    noise_scale : float
        Of one count; later counts of a histogram are sums of several such.
    """

    center: Any
    radii: Any
    counts: Any
    noise_scale: float


class NoisyAnswer(NamedTuple):
    """A released answer and the standard deviation of the noise in each of its numbers."""

    values: np.ndarray
    std: float


class StageBudget:
    """What is left of the budget, and the transcript of what was released from it.

    Parameters
    ----------
    scale : float
        1/μ, or 1/ε, of the whole release: the noise that a sensitivity of 1 would need
        if it had all of the budget.
    add_noise : function of (values, scales)
        Draws noise, or returns what was drawn before.
    noise_kind : {"gaussian", "laplace"}

    Attributes
    ----------
    share_left : float
        Of a total of 1.
    transcript : list of dict
        Kind, share, sensitivity, noise and size of each stage, for the certificate.
    counts : list of ReleasedCounts
    """

    def __init__(
        self, scale: float, add_noise: AddNoise, noise_kind: NoiseKind = "gaussian"
    ) -> None:
        self.share_left = 1.0
        self.transcript: list[dict[str, Any]] = []
        self.counts: list[ReleasedCounts] = []
        self.noise_kind = noise_kind
        self._scale = nextafter(scale * (1 + _SHARE_ROUNDING), inf)
        self._add_noise = add_noise

    def release(
        self,
        kind: str,
        share: float,
        sensitivity: float,
        values: np.ndarray,
        l1_sensitivity: float | None = None,
    ) -> NoisyAnswer:
        """Release values for a share of the budget.

        Parameters
        ----------
        kind : str
            What the transcript calls the stage.
        share : float
            Of the total of 1; less is spent where less is left.
        sensitivity : float
            How far the vector of values can move, in the Euclidean norm.
        values : array, shape (size,)
            The answer to a query. NOT private.
        l1_sensitivity : float, optional
            How far the values can move in sum. Where it is given, Laplace noise is
            drawn for each value by itself (Dwork et al. 2006), which is less noise than
            the law of the norm for many values that move little.

        Returns
        -------
        NoisyAnswer
        """
        share = min(share, self.share_left)
        self.share_left -= share

        is_laplace = self.noise_kind == "laplace"
        if is_laplace and l1_sensitivity is not None:
            rows = values[:, None]
            charged_sensitivity = l1_sensitivity
        else:
            rows = values[None]
            charged_sensitivity = sensitivity
        share_of_scale = share if is_laplace else sqrt(share)
        noise_scale = charged_sensitivity * self._scale / share_of_scale

        self.transcript.append(
            {
                "kind": kind,
                "share": share,
                "sensitivity": charged_sensitivity,
                "noise": noise_scale,
                "size": values.size,
            }
        )
        noisy = self._add_noise(rows, np.full(len(rows), noise_scale))
        std = noise_scale * std_per_scale(self.noise_kind, rows.shape[1])
        return NoisyAnswer(noisy.reshape(values.shape), std)

    def spend_rest(self) -> Guarantee:
        """Return everything that is left, as the guarantee of one final release."""
        share = self.share_left
        self.share_left = 0.0
        if self.noise_kind == "laplace":
            return PureDP(share / self._scale)
        return GDP(sqrt(share) / self._scale)


class StagedResult(NamedTuple):
    """What a run ends with: the value, and the budget with its transcript."""

    value: Any
    budget: StageBudget


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedMechanism(VectorMechanism, ChecksItself):
    """A release in stages. Subclasses implement `queries` and `run`.

    Attributes
    ----------
    scale : float
        1/μ, or 1/ε, of the whole release.
    """

    scale: Positive

    noise_kinds: ClassVar[tuple[NoiseKind, ...]] = ("gaussian",)

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("noise_kind", self.noise_kind, self.noise_kinds)

    @property
    def total_sensitivity(self) -> float:
        """Every stage scales its own noise; the whole is one release of sensitivity 1."""
        return 1.0

    @abstractmethod
    def queries(self, data: Any = None) -> Any:
        """Return what `run` may ask of the data; without data, answers are zeros."""

    @abstractmethod
    def run(self, queries: Any, add_noise: AddNoise) -> StagedResult:
        """Run all stages: the same code for a release and for its replay."""

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        level = cls.calibrate_noise(statistic, guarantee)
        return cls(statistic=statistic, scale=level.scale, noise_kind=level.kind)

    @classmethod
    def calibrate_noise(cls, statistic: Statistic, guarantee: Guarantee) -> NoiseLevel:
        """Return the least noise that meets the guarantee.

        (ε, δ) may be met by Gaussian stages or by Laplace stages of pure ε. The latter
        are taken where `laplace_cost_ratio` of the statistic says that they err less.
        """
        check_guarantee(guarantee)
        if "laplace" not in cls.noise_kinds:
            return NoiseLevel("gaussian", smallest_gaussian_scale(guarantee))
        level = smallest_noise(guarantee)
        if isinstance(guarantee, ApproxDP):
            laplace_cost = cls.laplace_cost_ratio(statistic) * std_per_scale(
                "laplace", statistic.value_space.dim
            )
            if laplace_cost < level.scale * guarantee.eps:
                return smallest_noise(PureDP(guarantee.eps))
        return level

    @classmethod
    def laplace_cost_ratio(cls, statistic: Statistic) -> float:
        """How much more Laplace stages cost than Gaussian ones; infinite if never tried."""
        return inf

    def draw(self, data: Any, source: Source) -> Draw:
        noise = ExactNoise(self.noise_kind, source)
        value, budget = self.run(self.queries(data), noise)
        return Draw(value, noise.integers, noise.slack, budget.transcript)

    def replay(self, integers: Any) -> StagedResult:
        """Run the stages again from a certificate's integers, without records."""
        return self.run(self.queries(), replay_draws(integers))

    def post_process(self, value: Any) -> Any:
        """Return the value as it is: the run has moved it to where it can be."""
        return value

    def reconstruct_value(self, certificate: Certificate) -> Any:
        return self.replay(certificate.release["integers"]).value

    def further_checks(self, certificate: Certificate) -> list[Check]:
        """Check that the stages follow from the integers, and that shares add up to 1."""
        budget = self.replay(certificate.release["integers"]).budget
        return check_transcript(budget.transcript, certificate.release["stages"])


def check_transcript(recomputed: list[dict[str, Any]], stated: Any) -> list[Check]:
    """Compare the stages that a certificate states with those its integers lead to.

    Parameters
    ----------
    recomputed : list of dict
        The transcript of a replay.
    stated : Any
        The stages of a certificate, which may hold anything.
    """
    total_share = sum(stage.get("share", 0.0) for stage in recomputed)
    is_same = (
        isinstance(stated, list)
        and len(stated) == len(recomputed)
        and all(
            _is_same_stage(own, other)
            for own, other in zip(recomputed, stated, strict=True)
        )
    )
    return [
        Check(
            f"{len(recomputed)} stages",
            is_same,
            "each follows from the integers released before it",
        ),
        Check(
            f"shares of the budget {total_share:.9g}",
            total_share <= 1 + 1e-9,
            "they add up to at most 1",
        ),
    ]


def _is_same_stage(recomputed: dict[str, Any], stated: Any) -> bool:
    """Return whether two stages have the same fields with the same values."""
    if not isinstance(stated, dict) or sorted(stated) != sorted(recomputed):
        return False
    return all(_is_equal(value, stated[name]) for name, value in recomputed.items())


def _is_equal(recomputed: Any, stated: Any) -> bool:
    """Compare texts exactly, and numbers up to the last digits of recomputation."""
    if isinstance(recomputed, str) or recomputed is None:
        return bool(recomputed == stated)
    numbers = np.asarray(recomputed)
    others = np.asarray(stated)
    if others.dtype.kind not in "if" or numbers.shape != others.shape:
        return False
    return bool(np.allclose(numbers, others, rtol=1e-9, atol=1e-12))
