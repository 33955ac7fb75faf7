"""The privacy budget of a release in *stages*: private steps of which each adds noise
to one answer about the records. A stage takes a *share* of the budget, a fraction of μ²
(of ε for Laplace noise). The *transcript* lists the released integers, from which the
stages are *replayed* without records.

`StageBudget` adds noise to each answer according to the fraction of the budget that the
stage takes. The package docstring of `curvedp.mechanisms.staged` explains how the same
code runs a release and replays it.
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

# Relative margin that covers the rounding when fractions of the budget are added up.
_SHARE_ROUNDING = 1e-12

REMAINING_BUDGET = 1.0
"""The share of a last stage: `StageBudget.release` gives it the remaining budget."""


class ReleasedCounts(NamedTuple):
    """Noisy counts of the records that are farther from a point than given distances.

    They are released during a search; warnings and confidence regions use them again.

    Attributes
    ----------
    center : array
        The point from which distances are measured.
    radii : float or array
        The distances.
    counts : float or array
        The noisy number of records beyond each distance.
    noise_scale : float
        The noise scale of one count. In a histogram the k-th count is the sum of k
        noisy numbers, each with this scale.
    """

    center: Any
    radii: Any
    counts: Any
    noise_scale: float


class NoisyAnswer(NamedTuple):
    """The noisy values that a stage has released.

    Attributes
    ----------
    values : array
        The noisy numbers.
    std : float
        The standard deviation of the noise in each number.
    """

    values: np.ndarray
    std: float


class StageBudget:
    """The privacy budget of a release in stages, with a transcript of the stages.

    Parameters
    ----------
    scale : float
        1/μ of the whole release, or 1/ε for Laplace noise. It is the noise scale that
        one stage of sensitivity 1 would need if it took the whole budget.
    add_noise : function of (values, scales)
        Returns the values plus noise. In a replay it ignores the values and returns the
        recorded draws.
    noise_kind : {"gaussian", "laplace"}
        The kind of noise of all stages.

    Attributes
    ----------
    share_left : float
        The fraction of the budget that is not yet spent, from 1 down to 0. Fractions
        are of μ² for Gaussian noise, and of ε for Laplace noise.
    transcript : list of dict
        One entry for each stage, for the certificate: its kind, fraction of the budget,
        sensitivity, noise scale and number of values.
    counts : list of ReleasedCounts
        The noisy counts of records beyond distances.
    """

    def __init__(
        self, scale: float, add_noise: AddNoise, noise_kind: NoiseKind = "gaussian"
    ) -> None:
        """Start with the whole budget.

        Parameters
        ----------
        scale : float
            1/μ of the whole release, or 1/ε for Laplace noise. A small margin is added
            to it, because shares of the budget are rounded.
        add_noise : function of (values, scales)
            Returns the values plus noise. In a replay it returns the recorded draws.
        noise_kind : {"gaussian", "laplace"}
            The kind of noise.
        """
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
        """Add noise to the values of one stage, and charge a fraction of the budget.

        The charge is subtracted from `share_left`, and the stage is appended to
        `transcript`.

        Parameters
        ----------
        kind : str
            The name of the stage in the transcript.
        share : float
            The fraction of the whole budget for this stage. If less is left, all that
            is left is spent.
        sensitivity : float
            How far the vector of values can move if one record is replaced, in the
            Euclidean norm.
        values : array of shape (size,)
            The exact numbers, computed from the records. NOT private.
        l1_sensitivity : float, optional
            The sensitivity in the ℓ₁ norm. If it is given and the noise is Laplace,
            each value gets independent noise (Dwork et al. 2006). If one record changes
            only few of many values, this is less noise than the Laplace distribution of
            the Euclidean norm needs.

        Returns
        -------
        NoisyAnswer
            The noisy values, and the standard deviation of their noise.
        """
        share = min(share, self.share_left)
        self.share_left -= share
        if self.noise_kind == "laplace" and l1_sensitivity is not None:
            rows = values[:, np.newaxis]  # each value alone gets Laplace noise
            charged_sensitivity = l1_sensitivity
        else:
            rows = values[np.newaxis]  # all values together, as one vector
            charged_sensitivity = sensitivity
        noise_scale = self._noise_scale(share, charged_sensitivity)

        self.transcript.append(
            {
                "kind": kind,
                "share": share,
                "sensitivity": charged_sensitivity,
                "noise": noise_scale,
                "size": values.size,
            }
        )
        noisy_rows = self._add_noise(rows, np.full(len(rows), noise_scale))
        std = noise_scale * std_per_scale(self.noise_kind, rows.shape[1])
        return NoisyAnswer(noisy_rows.reshape(values.shape), std)

    def _noise_scale(self, share: float, sensitivity: float) -> float:
        """Return the noise scale of a stage that spends a share of the budget.

        A share of ε divides the scale of the whole budget by itself; a share of μ² by
        its square root.

        Parameters
        ----------
        share : float
            The fraction of the whole budget.
        sensitivity : float
            The sensitivity of the stage's values.
        """
        divisor = share if self.noise_kind == "laplace" else sqrt(share)
        return sensitivity * self._scale / divisor

    def spend_remaining(self) -> Guarantee:
        """Spend the budget that is left, and return it as a guarantee for one release.

        Returns
        -------
        GDP or PureDP
            The guarantee to which a final mechanism can be calibrated.
        """
        share = self.share_left
        self.share_left = 0.0
        # The whole budget is ε = 1/scale or μ = 1/scale; shares are of ε or of μ².
        if self.noise_kind == "laplace":
            return PureDP(share / self._scale)
        return GDP(sqrt(share) / self._scale)


class StagedResult(NamedTuple):
    """The result of running all stages.

    Attributes
    ----------
    value : Any
        The result of the last stage: a point, a ball or a classifier.
    budget : StageBudget
        The budget after the last stage, with the transcript.
    """

    value: Any
    budget: StageBudget


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedMechanism(VectorMechanism, ChecksItself):
    """The base class of mechanisms in stages. Subclasses implement `queries` and `run`.

    Attributes
    ----------
    scale : float
        1/μ of the whole release, or 1/ε for Laplace noise.
    """

    scale: Positive

    noise_kinds: ClassVar[tuple[NoiseKind, ...]] = ("gaussian",)

    def __post_init__(self) -> None:
        """Check the scale, and that the stages can use this kind of noise."""
        super().__post_init__()
        _validate.choice("noise_kind", self.noise_kind, self.noise_kinds)

    @property
    def total_sensitivity(self) -> float:
        """The sensitivity of all stages together, in units of `scale`: always 1.

        Each stage multiplies its noise by its own sensitivity and its share of the
        budget, so that all stages cost as much as one release of sensitivity 1.
        """
        return 1.0

    @abstractmethod
    def queries(self, data: Any = None) -> Any:
        """Return an object that answers the questions of `run` about the data.

        Parameters
        ----------
        data : Any
            The records, in the form that `prepare_data` returns. If it is None, as in a
            replay, all answers are zeros.
        """

    @abstractmethod
    def run(self, queries: Any, add_noise: AddNoise) -> StagedResult:
        """Run all stages, either for a release or for its replay.

        Parameters
        ----------
        queries : Any
            The object that `self.queries` returns.
        add_noise : function of (values, scales)
            Returns the values plus noise. In a replay it ignores the values and returns
            the recorded draws.
        """

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets a guarantee.

        Parameters
        ----------
        statistic : Statistic
            The statistic to release.
        guarantee : Guarantee
            The guarantee that all stages together must satisfy.
        """
        level = cls.calibrate_noise(statistic, guarantee)
        return cls(statistic=statistic, scale=level.scale, noise_kind=level.kind)

    @classmethod
    def calibrate_noise(cls, statistic: Statistic, guarantee: Guarantee) -> NoiseLevel:
        """Return the kind and the scale of the least noise that meets the guarantee.

        An (ε, δ) guarantee is met by Gaussian noise, and also by Laplace noise for pure
        ε. Laplace noise is chosen if √(d + 1)·r/ε is below the scale σ of the Gaussian
        noise. Here √(d + 1)/ε is the standard deviation of a coordinate of Laplace
        noise in dimension d, and r is the measured factor `laplace_cost_ratio`.

        Parameters
        ----------
        statistic : Statistic
            The statistic to release.
        guarantee : Guarantee
            The guarantee that all stages together must satisfy.

        Returns
        -------
        NoiseLevel
            The kind of noise, and its scale for a sensitivity of 1.
        """
        check_guarantee(guarantee)
        if "laplace" not in cls.noise_kinds:
            return NoiseLevel("gaussian", smallest_gaussian_scale(guarantee))

        level = smallest_noise(guarantee)
        if isinstance(guarantee, ApproxDP):
            laplace_std = std_per_scale("laplace", statistic.value_space.dim)
            laplace_cost = cls.laplace_cost_ratio(statistic) * laplace_std
            if laplace_cost < level.scale * guarantee.eps:
                return smallest_noise(PureDP(guarantee.eps))
        return level

    @classmethod
    def laplace_cost_ratio(cls, statistic: Statistic) -> float:
        """Return the error with Laplace stages over that with Gaussian stages.

        Both have noise of the same length. The ratio is infinite, as here, if Laplace
        stages are not an alternative to Gaussian ones.

        Parameters
        ----------
        statistic : Statistic
            The statistic to release.
        """
        return inf

    def draw(self, data: Any, source: Source) -> Draw:
        """Run all stages on the data with exact noise.

        Parameters
        ----------
        data : Any
            The records, in the form that `prepare_data` returns.
        source : Source
            Where random bits come from.
        """
        noise = ExactNoise(self.noise_kind, source)
        value, budget = self.run(self.queries(data), noise)
        return Draw(value, noise.integers, noise.slack, budget.transcript)

    def replay(self, integers: Any) -> StagedResult:
        """Repeat the stages of a release without records, from its recorded integers.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.
        """
        return self.run(self.queries(), replay_draws(integers))

    def post_process(self, value: Any) -> Any:
        """Return the value unchanged: `run` has already projected it."""
        return value

    def reconstruct_value(self, certificate: Certificate) -> Any:
        """Compute the released value again: replay all stages from a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release, which lists the noisy integers of all stages.
        """
        return self.replay(certificate.release["integers"]).value

    def further_checks(self, certificate: Certificate) -> list[Check]:
        """Check that the stated stages follow from the released integers.

        Their shares of the budget must not add up to more than 1. `verify` calls this.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.
        """
        budget = self.replay(certificate.release["integers"]).budget
        return check_transcript(budget.transcript, certificate.release["stages"])


def check_transcript(
    recomputed: list[dict[str, Any]], stated_stages: Any
) -> list[Check]:
    """Check that a certificate states the same stages as a replay of its integers.

    Parameters
    ----------
    recomputed : list of dict
        The stages of the replay, each with its kind, share of the budget and so on.
    stated_stages : Any
        The stages of the certificate, which may hold any JSON value.

    Returns
    -------
    list of two Check
        The first check holds if the stages agree, the second if their fractions of the
        budget add up to at most 1.
    """
    is_same = (
        isinstance(stated_stages, list)
        and len(stated_stages) == len(recomputed)
        and all(
            _is_same_stage(own, other)
            for own, other in zip(recomputed, stated_stages, strict=True)
        )
    )
    # The sum of rounded fractions may exceed 1 by 1e-9. That is far more than rounding
    # does, and `StageBudget` never spends more than is left.
    total_share = sum(stage.get("share", 0.0) for stage in recomputed)
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


def _is_same_stage(recomputed: dict[str, Any], stated_stage: Any) -> bool:
    """Return whether a stated stage has the fields and values of the recomputed one.

    Parameters
    ----------
    recomputed : dict
        A stage of the replay.
    stated_stage : object
        A stage of the certificate, which may be any JSON value.
    """
    if not isinstance(stated_stage, dict) or sorted(stated_stage) != sorted(recomputed):
        return False
    return all(
        _is_equal(value, stated_stage[name]) for name, value in recomputed.items()
    )


def _is_equal(recomputed: Any, stated_value: Any) -> bool:
    """Return whether two entries of a stage are equal, up to rounding.

    Texts must be the same. Numbers may have a relative difference of 1e-9 or an
    absolute one of 1e-12, because the last digits differ between machines.

    Parameters
    ----------
    recomputed : str, None, number or list of numbers
        The entry that the replay has computed.
    stated_value : Any
        The entry that the certificate states, which may be any JSON value.

    Returns
    -------
    bool
        Whether the certificate states what the replay has computed.
    """
    if isinstance(recomputed, str) or recomputed is None:
        return bool(recomputed == stated_value)

    numbers = np.asarray(recomputed)
    others = np.asarray(stated_value)
    if others.dtype.kind not in "if" or numbers.shape != others.shape:
        return False
    return bool(np.allclose(numbers, others, rtol=1e-9, atol=1e-12))
