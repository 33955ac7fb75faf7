"""Noise about a sum over records whose number is private. Neighboring data sets differ
by one record that is added or removed, so the sum moves by at most the largest length
of one record's vector, half of what replacing a record costs.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import (
    Draw,
    MechanismInfo,
    check_guarantee,
    check_supported,
    replay_draws,
)
from curvedp.core.statistic import Statistic
from curvedp.mechanisms.vector import (
    ExactNoise,
    VectorMechanism,
    smallest_noise,
    std_per_scale,
)
from curvedp.privacy import Guarantee, PrivacyCurve
from curvedp.randomness import Source
from curvedp.records.base import Records, open_records
from curvedp.statistics.noisy_sums import SumStatistic

ADD_REMOVE = "add-remove"


@dataclass(frozen=True, eq=False, kw_only=True)
class SumMechanism(VectorMechanism):
    """Gaussian noise, or for pure ε Laplace noise, about a sum over records.

    The scale is the standard deviation of each entry of the sum, or b of the density
    ∝ exp(−|y|/b).

    Notes
    -----
    Guarantees
    - exactly μ-GDP with μ = (length of a record's vector)/σ for add-remove adjacency,
      or ε-DP with that over b, for ANY records; the number of records is not released.
    """

    if TYPE_CHECKING:
        statistic: SumStatistic

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "gaussian-sum", option="sum", reads="records"
    )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a sum over records, as this class needs."""
        return isinstance(statistic, SumStatistic)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets an add-remove guarantee.

        Parameters
        ----------
        statistic : SumStatistic
            The sum over records that is to be released.
        guarantee : Guarantee
            The guarantee that the release must satisfy if a record is added or removed.

        Returns
        -------
        SumMechanism
            The mechanism; Laplace noise if the guarantee needs a bounded privacy loss.
        """
        check_supported(cls, statistic)
        check_guarantee(guarantee, ADD_REMOVE)
        # A sum that moves by Δ needs the same noise whether a record is added, removed
        # or replaced. `smallest_noise` takes guarantees for replaced records only.
        same_guarantee = replace(guarantee, adjacency="replace-one")
        level = smallest_noise(same_guarantee, statistic.sensitivity)
        assert isinstance(statistic, SumStatistic)  # it is supported
        return cls(statistic=statistic, scale=level.scale, noise_kind=level.kind)

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """The privacy profile, for adding or removing a record."""
        return replace(super().privacy_profile, adjacency=ADD_REMOVE)

    def prepare_data(self, data: Any) -> np.ndarray:
        """Return the exact sum of the vectors of all records.

        An empty data set is allowed, because the number of records is private.

        Parameters
        ----------
        data : array of shape (n, *record_shape), or Records
            The records.

        Returns
        -------
        array of shape (vector_size,)
            The sum, before noise is added. NOT private.
        """
        records = data
        if not isinstance(data, Records):
            records = open_records(
                data, self.statistic.record_shape, "records", min_records=0
            )
        return self.statistic.compute_sum(records)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Add exact noise to the sum.

        Parameters
        ----------
        data : array of shape (vector_size,)
            The exact sum over the records.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The noisy sum, with its integers on the public grid and a bound on the total
            variation distance of the sampler from the ideal distribution.
        """
        noise = ExactNoise(self.noise_kind, source)
        noisy_sum = noise(data[None], np.array([self.scale]))[0]
        return Draw(noisy_sum, noise.integers, noise.slack)

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Return the released value, such as a mean, that follows from the noisy sum.

        Parameters
        ----------
        value : array of shape (vector_size,)
            The noisy sum.
        """
        noise_std = self.scale * std_per_scale(self.noise_kind, value.size)
        with np.errstate(all="ignore"):  # these are released numbers
            return np.asarray(self.statistic.estimate_from_sum(value, noise_std))

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        """Compute the released value again from a certificate's noisy integers.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.
        """
        next_draw = replay_draws(certificate.release["integers"])
        noisy_sum = next_draw(np.empty(self.statistic.vector_size), [self.scale])
        return self.post_process(noisy_sum)
