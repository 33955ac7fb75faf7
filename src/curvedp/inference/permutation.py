"""Private permutation tests: the mechanism that releases whether a test rejects. Noise
is added to a statistic of the samples and to its values after random permutations of
the records. The test rejects if the first noisy value is among the largest; only this
one bit is released.

The test (Kim & Schrab, arXiv:2310.19043) adds independent noise of one law to a
statistic T₀ and to its B permuted values. It rejects if the noisy T₀ is among the
⌊α(B + 1)⌋ largest of all, so its level is at most α for samples of any size.

Let Δ be the sensitivity of the statistic. Replacing a record moves T₀ by at most Δ, and
it moves the k-th largest of the permuted values, q, by at most Δ. So the decision is a
function of one noisy number of sensitivity 2Δ. This does not hold for the rank of T₀,
so only the decision at one level is released. The proofs are in
docs/theory/inference.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import floor, inf, nextafter, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.core.certificate import Certificate
from curvedp.core.chart import GRID
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
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.isotropic.gaussian import GaussianMechanism
from curvedp.mechanisms.isotropic.laplace import LaplaceMechanism
from curvedp.privacy import Guarantee, PrivacyCurve
from curvedp.randomness import GeneratorSource, Source

_MAX_PERMUTATIONS = 100_000
# The test that `calibrate` returns; `at_level` turns it into any other.
_DEFAULT_LEVEL = 0.05
_DEFAULT_PERMUTATIONS = 498
_NOISE_MECHANISMS: dict[str, type[IsotropicMechanism]] = {
    "gaussian": GaussianMechanism,
    "laplace": LaplaceMechanism,
}
# The standard deviation of the noise on one number, divided by its scale.
_STD_PER_SCALE = {"gaussian": 1.0, "laplace": sqrt(2)}

Noise = Annotated[str, partial(_validate.choice, options=tuple(_NOISE_MECHANISMS))]
Level = Annotated[
    float, partial(_validate.within, low=0.0, high=1.0, open_low=True, open_high=True)
]


def _permutations_error(level: float, permutations: int) -> ParameterError:
    """Return the error for too few permutations to ever reject, or for too many.

    Parameters
    ----------
    level : float
        The level of the test: with B permutations the smallest p-value is 1/(B + 1).
    permutations : int
        The number B that the caller asked for.
    """
    return ParameterError(
        f"must be between 1/level - 1 = {1 / level - 1:.6g} and {_MAX_PERMUTATIONS}",
        parameter="permutations",
        value=permutations,
    )


def _attained_level(level: float, permutations: int) -> float:
    """Return the largest level k/(B + 1), k an integer, that is not above the given one.

    A test with B permutations can reject with exactly these probabilities.

    Parameters
    ----------
    level : float
        The wanted level α, between 0 and 1.
    permutations : int
        The number B of permutations.

    Raises
    ------
    ParameterError
        If not even k = 1 is possible, or B is above the limit.
    """
    n_allowed = floor(level * (permutations + 1))
    if n_allowed < 1 or permutations > _MAX_PERMUTATIONS:
        raise _permutations_error(level, permutations)
    return n_allowed / (permutations + 1)


class CalibratedNoise(NamedTuple):
    """A kind of noise that meets a guarantee; the first field orders candidates.

    Attributes
    ----------
    std : float
        The standard deviation of the noise on one number.
    kind : {"gaussian", "laplace"}
        The kind of noise.
    scale : float
        The scale parameter of the noise law.
    """

    std: float
    kind: str
    scale: float


class NoisyStatistics(NamedTuple):
    """The statistic of each permutation with noise, on the grid.

    Attributes
    ----------
    integers : list of int
        The noisy statistics, in units of the grid.
    slack : float
        A bound on the distance in total variation from the ideal noise.
    """

    integers: list[int]
    slack: float


@dataclass(frozen=True, eq=False, kw_only=True)
class PermutationMechanism(Mechanism):
    """The mechanism that releases one bit: whether a permutation test rejects.

    Attributes
    ----------
    noise : {"gaussian", "laplace"}
        The kind of noise that is added to each of the B + 1 statistics.
    scale : float
        The scale of this noise.
    level : float
        α, the largest probability of a rejection if the hypothesis is true. It is one
        of the levels k/(B + 1) that a test with B permutations attains; `at_level`
        rounds any other level down to one of them. Neither α nor B can therefore be
        changed alone in a certificate, not even by a little.
    permutations : int
        B, the number of permutations.

    Notes
    -----
    Guarantees

    - the privacy profile is that of one number of sensitivity 2Δ + 2^-30 under this
      noise, for ANY records, with Δ the sensitivity of the statistic and 2^-30 the
      grid;
    - the level is at most α for samples of any size, whatever their distribution.
    """

    if TYPE_CHECKING:
        statistic: KernelStatistic

    noise: Noise
    scale: Length
    level: Level
    permutations: Count

    info: ClassVar[MechanismInfo] = MechanismInfo("permutation-test", reads="array")

    def __post_init__(self) -> None:
        """Check that the level and the number of permutations fit together.

        Raises
        ------
        ParameterError
            If there are too many permutations, too few to ever reject, or the level is
            not a multiple of 1/(permutations + 1).
        """
        super().__post_init__()
        if self.n_allowed < 1 or self.permutations > _MAX_PERMUTATIONS:
            raise _permutations_error(self.level, self.permutations)
        if self.level != self.n_allowed / (self.permutations + 1):
            raise ParameterError(
                "must be a multiple of 1/(permutations + 1); see at_level",
                parameter="level",
                value=self.level,
            )

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether the statistic is a kernel statistic of samples.

        Parameters
        ----------
        statistic : Statistic
            The statistic whose permuted values would be compared.
        """
        return isinstance(statistic, KernelStatistic)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism whose noise has the smallest deviation for a guarantee.

        Gaussian and Laplace noise are compared. Level and number of permutations are
        the defaults; `at_level` changes both.

        Parameters
        ----------
        statistic : KernelStatistic
            The statistic that the test compares.
        guarantee : Guarantee
            The guarantee that the released bit has to meet.

        Returns
        -------
        PermutationMechanism
            A test at level 0.05 with 498 permutations.

        Raises
        ------
        CurvedpError
            If no kind of noise meets the guarantee.
        """
        check_supported(cls, statistic)
        check_guarantee(guarantee)
        assert isinstance(statistic, KernelStatistic)  # it is supported
        trial = cls(
            statistic=statistic,
            noise="laplace",
            scale=1.0,
            level=_attained_level(_DEFAULT_LEVEL, _DEFAULT_PERMUTATIONS),
            permutations=_DEFAULT_PERMUTATIONS,
        )
        one_number = ExternalValue(Euclidean(1), trial.sensitivity)

        candidates: list[CalibratedNoise] = []
        refusal: CurvedpError | None = None
        for kind, mechanism in _NOISE_MECHANISMS.items():
            try:
                scale = mechanism.calibrate(one_number, guarantee).scale
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
        """Return the mechanism with the same noise at another level of the test.

        Parameters
        ----------
        level : float
            Between 0 and 1. It is rounded down to the nearest level k/(permutations +
            1) that a test with so many permutations attains.
        permutations : int
            At least 1/level − 1.

        Returns
        -------
        PermutationMechanism
            A mechanism with the same privacy: neither number has a part in it.

        Raises
        ------
        ParameterError
            If a number is out of its range.
        """
        level = _validate.within(
            "level", level, low=0.0, high=1.0, open_low=True, open_high=True
        )
        permutations = _validate.integer("permutations", permutations, minimum=1)
        attained = _attained_level(level, permutations)
        return replace(self, level=attained, permutations=permutations)

    @property
    def n_allowed(self) -> int:
        """The k such that the test rejects if T₀ is among the k largest values.

        T₀ is the noisy statistic of the data; the other values are the permuted ones.
        """
        return round(self.level * (self.permutations + 1))

    @cached_property
    def sensitivity(self) -> float:
        """The sensitivity of the number T₀ − q on which the decision depends.

        T₀ is the statistic and q the k-th largest permuted value. Each moves by at most
        the sensitivity of the statistic; rounding q to the grid may add one cell.
        """
        return nextafter(2 * self.statistic.sensitivity + 2.0**-GRID, inf)

    @cached_property
    def _noise_on_one_number(self) -> IsotropicMechanism:
        """The mechanism that adds the same noise to one number of this sensitivity.

        The decision is a function of such a number, so the test has the same profile.
        """
        kind = _NOISE_MECHANISMS[self.noise]
        return kind(Euclidean(1), self.sensitivity, self.scale)

    @property
    def privacy_profile(self) -> PrivacyCurve:
        """The profile of this noise on one number of sensitivity 2Δ + 2^-30."""
        return self._noise_on_one_number.privacy_profile

    def prepare_data(self, data: Any) -> np.ndarray:
        """Return the records' coordinates in the public ball.

        Parameters
        ----------
        data : sequence of arrays
            The samples, each of shape (size, *point_shape).

        Returns
        -------
        array of shape (total, dim)
            The samples one after the other, clipped to the ball.

        Raises
        ------
        ParameterError
            For a wrong shape or type, never because of the value of a record.
        """
        return np.asarray(self.statistic.coordinates(data))

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Draw the decision: one bit, which is 1 if the test rejects.

        Every statistic gets its own noise. Rank 1 is the largest statistic. The test
        rejects if the rank of the first statistic (of the data as they are) is at most
        `n_allowed`, the largest rank at which a test of this level may reject. The rank
        itself is not released.

        Parameters
        ----------
        data : array of shape (total, dim)
            The coordinates of all records in the public ball, sample after sample.
        source : Source
            The source of random bits for permutations and noise.

        Returns
        -------
        Draw
            The p-value (1 unless the test rejects), with the bit as its only integer.
        """
        values = self.statistic.permuted(data, self.permutations, source)
        # The slack bounds the error of the noise's law (`Draw.slack`).
        noisy, slack = self._add_noise(values, source)
        # The first statistic is that of the data, the others are permuted. Ties count
        # against rejection.
        rank = 1 + sum(other >= noisy[0] for other in noisy[1:])
        is_rejected = int(rank <= self.n_allowed)
        return Draw(self._pvalue(is_rejected), [np.array([is_rejected])], slack)

    def simulate_decision(
        self, rng: np.random.Generator, coordinates: np.ndarray
    ) -> bool:
        """Return a decision computed with floats: for studies of power, NOT for release.

        Parameters
        ----------
        rng : numpy Generator
            The source of permutations and noise.
        coordinates : array of shape (total, dim)
            The coordinates of all records in the public ball, sample after sample.

        Returns
        -------
        bool
            Whether the simulated test rejects.
        """
        source = GeneratorSource(rng)
        values = self.statistic.permuted(coordinates, self.permutations, source)
        draw_noise = rng.normal if self.noise == "gaussian" else rng.laplace
        noisy = values + draw_noise(0.0, self.scale, len(values))
        rank = 1 + np.sum(noisy[1:] >= noisy[0])
        return bool(rank <= self.n_allowed)

    def _add_noise(self, values: np.ndarray, source: Source) -> NoisyStatistics:
        """Add exact noise to each statistic, and return the results on the grid.

        The rank of the first result among all of them decides the test.

        Parameters
        ----------
        values : array
            The statistic of each permutation.
        source : Source
            Where random bits come from.

        Returns
        -------
        NoisyStatistics
            Multiples of 2^-30, which are compared without ties of floats.
        """
        if self.noise == "gaussian":
            noise_draw = exact_gaussian(
                Euclidean(len(values)), self.scale, values, source=source, grid=GRID
            )
            integers = [int(integer) for integer in noise_draw.integers]
            return NoisyStatistics(integers, noise_draw.tau)

        draws = [
            exact_laplace(Euclidean(1), self.scale, values[i : i + 1], source=source)
            for i in range(len(values))
        ]
        integers = [int(draw.integers[0]) for draw in draws]
        return NoisyStatistics(integers, sum(draw.tau for draw in draws))

    def _pvalue(self, is_rejected: int) -> np.ndarray:
        """Return the attained level of the test if it rejects, otherwise 1.

        This is a p-value: if the hypothesis is true, it is at most u with probability
        at most u, for every u.

        Parameters
        ----------
        is_rejected : int
            The released bit: 1 if the test rejects.

        Returns
        -------
        array of shape (1,)
            The p-value.
        """
        if not is_rejected:
            return np.array([1.0])
        return np.array([self.n_allowed / (self.permutations + 1)])

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Return the p-value as it is.

        Parameters
        ----------
        value : array of shape (1,)
            The p-value, a function of the drawn bit.
        """
        return value

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        """Return the p-value that follows from the bit recorded in a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a test.

        Returns
        -------
        array of shape (1,)
            The p-value.

        Raises
        ------
        ParameterError
            If the certificate records anything other than one bit.
        """
        # Draws are replayed in units of the grid; the recorded bit is a whole number.
        replayed_values = replay_draws(certificate.release["integers"])(np.empty(1))
        bit = float(replayed_values[0]) * 2.0**GRID
        if bit not in (0.0, 1.0):
            raise ParameterError(
                "the released integers are not those of this mechanism"
            )
        return self._pvalue(int(bit))
