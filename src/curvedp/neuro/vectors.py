"""The private mean of one vector for each person, with its error bars.
Connectomes (Fisher's z of the edges), region tensors (their logarithms) and the class
means of a starter kit are vectors in a flat space. Their mean is released once, for one
charge, and everything that people look at follows from it by post-processing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy.stats import norm

from curvedp import _validate
from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import check_can_be_listed
from curvedp.errors import ParameterError
from curvedp.estimators import PrivateFrechetMean
from curvedp.geometry import Euclidean
from curvedp.inference import region_of
from curvedp.ledger import Ledger
from curvedp.mechanisms.vector import smallest_noise, std_per_scale
from curvedp.privacy import Guarantee
from curvedp.randomness import Source
from curvedp.release.rebuild import final_mechanism_of, recorded_draw_of

# The share of a GDP budget's μ² that is left for the mean after a private search for
# its ball, as the certificates of `radius="private"` state it; for predictions alone.
_MEAN_SHARE_AFTER_SEARCH = 0.9

# From a noisy vector of a given noise to an estimate of the vector without noise.
Estimator = Callable[[np.ndarray], np.ndarray]

# The seed and the length of the probe with which a risk is estimated. Both are public,
# so that everybody finds the same estimate in the same release.
_PROBE_SEED = 20260101
_PROBE_LENGTH = 1e-3
_PROBES = 8


@dataclass(frozen=True)
class NoisyMean:
    """A released mean of vectors before shrinkage, and the distribution of its noise.

    Attributes
    ----------
    value : array of shape (d,)
        The mean of the clipped vectors plus noise.
    noise_std : float
        The standard deviation of the noise in each entry.
    is_gaussian : bool
        Whether the entries of the noise are independent normal numbers.
    n : int
        The number of persons, or of records without persons.
    sampling_std : float or None
        How far an entry of the mean of n persons is from that of the population: the
        root mean square over the entries, from the mean square length that was released
        with the mean. None if it was not released.
    certificate : Certificate
        The certificate of the release.
    """

    value: np.ndarray
    noise_std: float
    is_gaussian: bool
    n: int
    sampling_std: float | None
    certificate: Certificate

    def half_width(self, level: float, of: str = "records") -> float:
        """Return the half width of intervals that hold for all entries at once.

        Theorem (Šidák, for independent noise). With noise N(0, σ²) in each of d
        entries, all |noise| are at most σ·Φ⁻¹((1 + level^{1/d})/2) with probability
        `level`, exactly. Of other noise, no entry is farther from its mean than the
        whole vector, whose quantile is that of the confidence region.

        Parameters
        ----------
        level : float
            The probability that every interval holds its target.
        of : {"records", "population"}
            The mean of the clipped vectors; or that of the population, which takes all
            entries to vary together between persons, and many persons.

        Raises
        ------
        ParameterError
            If the level is not a probability, or the spread of the persons is unknown.
        """
        level = _validate.within(
            "level", level, 0.0, 1.0, open_low=True, open_high=True
        )
        _validate.choice("of", of, ("records", "population"))
        quantile = float(norm.ppf((1 + level ** (1 / len(self.value))) / 2))
        if of == "population":
            if self.sampling_std is None or not self.is_gaussian:
                raise ParameterError(
                    "needs a GDP, zCDP or approximate DP guarantee, under which the "
                    "spread of the persons is released beside their mean",
                    parameter="of",
                    value=of,
                )
            return quantile * sqrt(self.noise_std**2 + self.sampling_std**2)
        if self.is_gaussian:
            return quantile * self.noise_std
        return float(region_of(self.certificate, level).radius)


def release_mean_vector(
    vectors: np.ndarray,
    groups: Any,
    *,
    radius: float | str,
    center: np.ndarray,
    outer_radius: float,
    guarantee: Guarantee,
    ledger: Ledger | None,
    label: str,
    source: Source | None,
) -> PrivateFrechetMean:
    """Release the mean of vectors, for one charge, and return the fitted estimator.

    Parameters
    ----------
    vectors : array of shape (n, d)
        One vector for each record. The row of a record depends on that record alone.
    groups : sequence of n ids, or None
        The person to whom each record belongs. Vectors of one person are averaged.
    radius : float or "private"
        The radius of the ball into which vectors are clipped.
    center : array of shape (d,)
        The public center of that ball, or of the search for it.
    outer_radius : float
        With a private radius: the radius of the public ball that holds all vectors.
    guarantee : Guarantee
        The privacy guarantee of the release.
    ledger : Ledger or None
        The ledger that is charged.
    label : str
        The name of the ledger's entry.
    source : Source or None
        Replaces the cryptographic source of random bits in simulations.

    Returns
    -------
    PrivateFrechetMean
        The fitted estimator of the mean.

    Raises
    ------
    ParameterError
        Before anything is paid, because of parameters and shapes.
    """
    estimator = PrivateFrechetMean(
        Euclidean(vectors.shape[1]),
        radius=radius,
        center=center,
        outer_radius=outer_radius if isinstance(radius, str) else None,
        guarantee=guarantee,
        mechanism="auto" if isinstance(radius, str) else "gradient",
        ledger=ledger,
        label=label,
        source=source,
    )
    return estimator.fit(vectors, groups=groups)


def check_is_readable(n_entries: int, radius: float | str) -> None:
    """Refuse, before it is paid for, a release that `noisy_mean_of` could not read.

    Parameters
    ----------
    n_entries : int
        The number of entries of a vector.
    radius : float or "private"
        The radius of the public ball. With a private one the certificate lists all
        numbers, however many there are.

    Raises
    ------
    ParameterError
        If the certificate would have no more than the hash of so many numbers.
    """
    if not isinstance(radius, str):
        # One more number, because the mean square is released beside the mean.
        check_can_be_listed(n_entries + 1)


def noisy_mean_of(fitted: PrivateFrechetMean) -> NoisyMean:
    """Return the noisy mean that was drawn for a released mean, before shrinkage.

    Parameters
    ----------
    fitted : PrivateFrechetMean
        What `release_mean_vector` returned.
    """
    return noisy_mean_in(fitted.certificate_)


def noisy_mean_in(certificate: Certificate) -> NoisyMean:
    """Return the noisy mean that was drawn, from the certificate of its release alone.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release that `release_mean_vector` made. It lists the
        integers that were drawn.

    Raises
    ------
    ParameterError
        If it is the certificate of another release.
    """
    draw = recorded_draw_of(certificate)
    if draw.kind != "gradient":
        raise ParameterError("is no mean of vectors that a gradient step released")
    dimension = len(draw.value)
    is_gaussian = draw.mean_square is not None
    kind = "gaussian" if is_gaussian else "laplace"
    noise_std = float(draw.law.scale) * std_per_scale(kind, dimension)  # type: ignore[arg-type]
    n = int(certificate.statistic["n"])
    sampling_std = None
    if draw.mean_square is not None:
        # |mean|² of the records is |value|² less the mean square of the noise.
        squared_mean = float(draw.value @ draw.value) - dimension * noise_std**2
        variance = max(draw.mean_square.value - max(squared_mean, 0.0), 0.0)
        sampling_std = sqrt(variance / (dimension * n))
    statistic: Any = final_mechanism_of(certificate).statistic
    return NoisyMean(
        value=np.asarray(statistic.center) + draw.value,
        noise_std=noise_std,
        is_gaussian=is_gaussian,
        n=n,
        sampling_std=sampling_std,
        certificate=certificate,
    )


def predicted_noise(
    dimension: int, n: int, entry_length: float, radius: float | str, guarantee: Any
) -> float:
    """Return the predicted standard deviation of the noise in each entry.

    The sensitivity of a mean of n vectors in a ball of radius r is 2r/n.

    Parameters
    ----------
    dimension : int
        The length d of the vectors.
    n : int
        The number of persons.
    entry_length : float
        With a private radius: how far an entry of a record typically is from the
        center. The radius is taken to be √d times as much.
    radius : float or "private"
        As in `release_mean_vector`.
    guarantee : Guarantee
        The privacy guarantee of the release.
    """
    share = 1.0
    if isinstance(radius, str):
        radius = entry_length * sqrt(dimension)
        share = _MEAN_SHARE_AFTER_SEARCH
    level = smallest_noise(guarantee, 2 * float(radius) / n)
    return level.scale * std_per_scale(level.kind, dimension) / sqrt(share)


def estimated_risk(estimator: Estimator, value: np.ndarray, noise_std: float) -> float:
    """Estimate the mean square error of an entry, from released numbers alone.

    Theorem (Stein 1981). For value y = s + N(0, σ²I) and a weakly differentiable f,
    E|f(y) − s|² = E[|f(y) − y|² − dσ² + 2σ² div f(y)]. The divergence is estimated by
    random probes b of ±1: div f ≈ b·(f(y + hb) − f(y))/h (Ramani, Blu & Unser 2008).

    Parameters
    ----------
    estimator : callable
        The function f.
    value : array of shape (d,)
        The released noisy vector y.
    noise_std : float
        The standard deviation σ of its noise.

    Returns
    -------
    float
        The estimate of E|f(y) − s|²/d. It may be negative: its own standard deviation
        is about `risk_resolution`.
    """
    rng = np.random.default_rng(_PROBE_SEED)
    estimate = estimator(value)
    step = _PROBE_LENGTH * noise_std
    divergence = 0.0
    for _ in range(_PROBES):
        probe = rng.choice([-1.0, 1.0], len(value))
        change = estimator(value + step * probe) - estimate
        divergence += float(probe @ change) / (step * _PROBES)
    squared_change = float(np.sum((estimate - value) ** 2))
    risk = squared_change + noise_std**2 * (2 * divergence - len(value))
    return risk / len(value)


def risk_resolution(dimension: int, noise_std: float) -> float:
    """Return how small a mean square error Stein's estimate can tell from 0.

    Where all of the vector is noise, the estimate |y|²/d − σ² of the error of 0 has the
    standard deviation σ²√(2/d).

    Parameters
    ----------
    dimension : int
        The length d of the vector.
    noise_std : float
        The standard deviation σ of the noise in each entry.
    """
    return noise_std**2 * sqrt(2 / dimension)


def estimated_error(estimator: Estimator, value: np.ndarray, noise_std: float) -> float:
    """Estimate the root mean square error of an entry of an estimate.

    Parameters
    ----------
    estimator : callable
        Maps a noisy vector to an estimate of the vector without noise.
    value : array of shape (d,)
        The noisy vector.
    noise_std : float
        The standard deviation of the noise in each entry.

    Returns
    -------
    float
        No less than what `estimated_risk` can tell from 0.
    """
    risk = estimated_risk(estimator, value, noise_std)
    return sqrt(max(risk, risk_resolution(len(value), noise_std)))


def james_stein_shrinkage(center: np.ndarray, noise_std: float) -> Estimator:
    """Return positive-part James-Stein shrinkage of a noisy vector to a public center.

    Parameters
    ----------
    center : array of shape (d,)
        The center of the ball.
    noise_std : float
        The standard deviation of the noise in each entry.
    """

    def shrink(value: np.ndarray) -> np.ndarray:
        """Return c + max(0, 1 − (d − 2)σ²/|y − c|²)·(y − c) for the noisy vector y.

        Parameters
        ----------
        value : array of shape (d,)
            The noisy vector y; c is the center, and σ the standard deviation of noise.
        """
        offset = value - center
        squared_length = float(offset @ offset)
        if squared_length == 0 or len(value) < 3:
            return value
        factor = 1 - (len(value) - 2) * noise_std**2 / squared_length
        return np.asarray(center + max(factor, 0.0) * offset)

    return shrink
