"""What the private optimizers release, as mechanisms that `verify` can recompute.
Optimizers (`curvedp.optim`) release noisy gradients many times over. The draws are made
there, in floats; here is what they cost.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import sqrt
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np

from curvedp import _validate
from curvedp.core.certificate import Certificate
from curvedp.core.codes import SamplingPath
from curvedp.core.fields import Count, Length, check_length
from curvedp.core.mechanism import Draw, Mechanism, MechanismInfo
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.privacy import Guarantee, PrivacyCurve, gaussian_profile
from curvedp.privacy import optimizer_accounting as accounting
from curvedp.randomness import Source
from curvedp.statistics.clipped_gradient import ClippedGradient, ClippedGradientSum

Sampling = Annotated[str, partial(_validate.choice, options=("poisson", "fixed-size"))]
Rate = Annotated[
    float, check_length, partial(_validate.within, low=0, high=1, open_low=True)
]

# Runs a descent with random bits from a source, and returns its last iterate.
Descent = Callable[[Source], np.ndarray]


def _optimizer_info(name: str) -> MechanismInfo:
    """Return the description of an optimizer for the registry of mechanisms.

    Parameters
    ----------
    name : str
        What certificates call the optimizer. All of them read the records one by
        one and draw their noise in floats.
    """
    return MechanismInfo(name, reads="records", sampling=SamplingPath.FLOAT64)


@dataclass(frozen=True, eq=False, kw_only=True)
class OptimizerMechanism(Mechanism):
    """Noisy gradients, many times over.

    `release` takes a function that runs the descent.
    """

    if TYPE_CHECKING:
        statistic: ClippedGradient

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a mean of clipped gradients."""
        return isinstance(statistic, ClippedGradient)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Raise `ParameterError`: a descent is calibrated by its optimizer.

        The optimizers in `curvedp.optim` know the number of steps, which the noise
        scale depends on.
        """
        raise ParameterError(
            "a descent is calibrated by its optimizer, which knows the number of steps"
        )

    def prepare_data(self, data: Descent) -> Descent:
        """Return the descent unchanged: its function already holds the records.

        Parameters
        ----------
        data : function of a Source
            Runs the descent and returns its last iterate.
        """
        return data

    def draw(self, data: Descent, source: Source) -> Draw:
        """Run the descent, with random bits from a source.

        Parameters
        ----------
        data : function of a Source
            Runs the descent and returns its last iterate.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The last iterate. It has no integers, because noise is drawn in floats.
        """
        return Draw(np.asarray(data(source)), [], None)

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Return the last iterate unchanged: the optimizer has already projected it.

        Parameters
        ----------
        value : array
            The last iterate.
        """
        return value

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        """Return an empty array: a descent in floats cannot be replayed.

        Its certificate lists no integers, from which other mechanisms compute their
        value again.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.

        Raises
        ------
        ParameterError
            If the certificate does list integers.
        """
        if certificate.release["integers"]:
            raise ParameterError("a descent in floats releases no integers")
        return np.empty(0)


class BatchMechanism(OptimizerMechanism):
    """A descent over random batches.

    Sampling amplifies privacy only against an attacker who does not know which records
    are in each batch.
    """

    @abstractmethod
    def guarantee_of_all_steps(self, *, batches_are_known: bool) -> Guarantee:
        """Return the guarantee of all steps together.

        Parameters
        ----------
        batches_are_known : bool
            Whether an attacker knows which records are in each batch.
        """

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """The guarantee of all steps, if an attacker does not know the batches."""
        return self.guarantee_of_all_steps(batches_are_known=False)

    @cached_property
    def profile_of_known_batches(self) -> Guarantee:
        """The guarantee that holds even for an attacker who knows the batches."""
        return self.guarantee_of_all_steps(batches_are_known=True)


def _check_batch_size(batch_size: int, n: int) -> None:
    """Refuse a batch that is larger than the data set.

    Parameters
    ----------
    batch_size : int
        The (expected) number of records in a batch.
    n : int
        The number of records.

    Raises
    ------
    ParameterError
        If `batch_size` exceeds `n`.
    """
    if batch_size > n:
        raise ParameterError("batch_size is more than the number of records")


@dataclass(frozen=True, eq=False, kw_only=True)
class DescentMechanism(OptimizerMechanism):
    """DP-RGD: `steps` noisy mean gradients; the iterates between are post-processing.

    μ = √T·2C/(n·noise) (Dong, Roth & Su 2022).

    Attributes
    ----------
    steps : int
        The number T of steps.
    noise : float
        The standard deviation on a mean gradient.
    """

    steps: Count
    noise: Length

    info: ClassVar[MechanismInfo] = _optimizer_info("dp-rgd")

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """The guarantee of all T steps: as of one release with √T times the sensitivity."""
        total_sensitivity = sqrt(self.steps) * self.sensitivity
        return gaussian_profile(0.0, 1, self.noise, total_sensitivity)


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchDescentMechanism(BatchMechanism):
    """DP-RSGD: `steps` noisy sums over random batches of about `batch_size` records."""

    steps: Count
    batch_size: Count
    noise: Length
    sampling: Sampling

    info: ClassVar[MechanismInfo] = _optimizer_info("dp-rsgd")

    def __post_init__(self) -> None:
        """Check the fields, and that a batch is no larger than the data set."""
        super().__post_init__()
        _check_batch_size(self.batch_size, self.statistic.n)

    def guarantee_of_all_steps(self, *, batches_are_known: bool) -> Guarantee:
        """Return the guarantee of all steps together.

        Parameters
        ----------
        batches_are_known : bool
            Whether an attacker knows which records are in each batch. If not, sampling
            amplifies privacy.

        Returns
        -------
        Guarantee
            The guarantee, for replacing a record.
        """
        clip = self.statistic.clip
        if batches_are_known:
            # A batch is then a data set of its own, without amplification.
            return accounting.rgd_guarantee(
                self.batch_size, self.steps, clip, self.noise
            )
        return accounting.rsgd_guarantee(
            self.statistic.n,
            self.steps,
            self.batch_size,
            clip,
            self.noise,
            self.sampling,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class VarianceReducedMechanism(BatchMechanism):
    """DP-RSVRG: a noisy full gradient each epoch, and noisy sums of clipped differences."""

    epochs: Count
    inner_steps: Count
    batch_size: Count
    difference_clip: Length
    full_noise: Length
    inner_noise: Length
    sampling: Sampling

    info: ClassVar[MechanismInfo] = _optimizer_info("dp-rsvrg")

    def __post_init__(self) -> None:
        """Check the fields, and that a batch is no larger than the data set."""
        super().__post_init__()
        _check_batch_size(self.batch_size, self.statistic.n)

    def guarantee_of_all_steps(self, *, batches_are_known: bool) -> Guarantee:
        """Return the guarantee of all epochs: full gradients and inner steps together.

        Each epoch releases one noisy gradient of all records, and in its inner steps
        noisy sums over batches of the change of each record's gradient.

        Parameters
        ----------
        batches_are_known : bool
            Whether an attacker knows which records are in each batch. If not, sampling
            amplifies privacy.

        Returns
        -------
        Guarantee
            The guarantee, for replacing a record.
        """
        return accounting.rsvrg_guarantee(
            self.statistic.n,
            self.epochs,
            self.inner_steps,
            self.batch_size,
            (self.statistic.clip, self.difference_clip),
            (self.full_noise, self.inner_noise),
            self.sampling,
            batches_are_known,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AddRemoveDescentMechanism(BatchMechanism):
    """DP-RSGD where the number of records is private.

    `steps` noisy sums over random batches are released, each record in them with chance
    `rate`, and one noisy count; steps go along quotients of released numbers.
    """

    if TYPE_CHECKING:
        statistic: ClippedGradientSum  # type: ignore[assignment]

    steps: Count
    rate: Rate
    noise: Length
    count_noise: Length

    info: ClassVar[MechanismInfo] = _optimizer_info("dp-rsgd-sum")

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a sum of clipped gradients with a private n."""
        return isinstance(statistic, ClippedGradientSum)

    def guarantee_of_all_steps(self, *, batches_are_known: bool) -> Guarantee:
        """Return the guarantee of all steps and of the noisy count of records.

        Parameters
        ----------
        batches_are_known : bool
            Whether an attacker knows which records are in each batch. If not, sampling
            amplifies privacy.

        Returns
        -------
        Guarantee
            The guarantee, for adding or removing a record.
        """
        # Without amplification a record counts as being in every batch.
        rate = 1.0 if batches_are_known else self.rate
        return accounting.add_remove_guarantee(
            self.steps, rate, self.statistic.clip, self.noise, self.count_noise
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AddRemoveVarianceReducedMechanism(BatchMechanism):
    """DP-RSVRG where the number of records is private.

    A noisy sum of gradients each epoch, noisy sums of clipped differences over random
    batches, each record in them with chance `rate`, and one noisy count.
    """

    if TYPE_CHECKING:
        statistic: ClippedGradientSum  # type: ignore[assignment]

    epochs: Count
    inner_steps: Count
    rate: Rate
    difference_clip: Length
    full_noise: Length
    inner_noise: Length
    count_noise: Length

    info: ClassVar[MechanismInfo] = _optimizer_info("dp-rsvrg-sum")

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a sum of clipped gradients with a private n."""
        return isinstance(statistic, ClippedGradientSum)

    def guarantee_of_all_steps(self, *, batches_are_known: bool) -> Guarantee:
        """Return the guarantee of all epochs and of the noisy count of records.

        Each epoch releases one noisy sum of gradients over all records, and in its
        inner steps noisy sums over batches of the change of each record's gradient.

        Parameters
        ----------
        batches_are_known : bool
            Whether an attacker knows which records are in each batch. If not, sampling
            amplifies privacy.

        Returns
        -------
        Guarantee
            The guarantee, for adding or removing a record.
        """
        # Without amplification a record counts as being in every batch.
        rate = 1.0 if batches_are_known else self.rate
        return accounting.add_remove_rsvrg_guarantee(
            self.epochs,
            self.inner_steps,
            rate,
            (self.statistic.clip, self.difference_clip),
            (self.full_noise, self.inner_noise),
            self.count_noise,
        )
