"""Confidence regions for a private tangent covariance: its mean, variances, directions.
A release of `TangentMoments` is the mean logarithm G and the second moment S of the
records at a center c, with Gaussian (or Laplace) noise. The regions here are about the
Fréchet mean of the records, and about C = S − GGᵀ, the covariance of their logarithms
at c, clipped to the ball. docs/theory/tangent-pca.md has the proofs.
"""

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainccinv, ndtri

from curvedp.core.capabilities import NoisyDraw, NoisyMeanSquare
from curvedp.core.certificate import Certificate
from curvedp.core.statistic import Ball
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.inference.shapes import (
    Region,
    bound_by_gaussian,
    principal_subspaces,
)
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.noisy_sum import SumMechanism
from curvedp.mechanisms.vector import std_per_scale
from curvedp.release.rebuild import (
    final_mechanism_of,
    mechanism_of,
    recorded_draw_of,
)
from curvedp.statistics.second_moment import SecondMoment, symmetric_to_vector
from curvedp.statistics.tangent_moments import (
    MOMENT_WEIGHT,
    TangentEstimate,
    TangentMoments,
    TangentMomentsSum,
    count_above_noise,
    estimate_moments,
    largest_noise_eigenvalue,
    moments_size,
    separate_from_noise,
    split_moments,
)

# The probability with which the components that are reported to stand out really do.
STANDS_OUT_LEVEL = 0.95

# A relative margin for the grid of drawn numbers, which is finer than noise by far.
_ROUNDING_OF_DRAW = 1e-6

# The fraction of 1 − level that is spent on the noise of the mean, which has a small
# part in the noise of the covariance. The value is a choice; it costs little.
_MEAN_SHARE = 0.1


class VarianceIntervals(NamedTuple):
    """Confidence intervals for the leading variances, all at once.

    Attributes
    ----------
    lower, upper : array, shape (k,)
        The ends of the interval of each variance.
    level : float
        The probability with which all of them hold their variances.
    """

    lower: np.ndarray
    upper: np.ndarray
    level: float


class _NoisyCovariance(NamedTuple):
    """A drawn covariance with bounds on its noise.

    Attributes
    ----------
    estimate : TangentEstimate
        The drawn covariance; the bias of its mean was corrected.
    drawn : array, shape (d, d)
        The drawn covariance without this correction, in the same coordinates.
    noise : float
        The deviation of the symmetric Gaussian noise on the diagonal.
    error_of_mean : float
        A bound on the operator norm of the errors that the noise of the mean and
        rounding add.
    failure_probability : float
        The part of 1 − level that remains for the symmetric noise.
    radius : float
        The length to which logarithms were clipped.
    """

    estimate: TangentEstimate
    drawn: np.ndarray
    noise: float
    error_of_mean: float
    failure_probability: float
    radius: float


def gradient_of_moments(statistic: TangentMoments, draw: NoisyDraw) -> NoisyDraw:
    """Return the noisy mean logarithm and mean square that drawn moments contain.

    The entries of Gaussian noise are independent, so that those of the mean are noise
    of the same scale. The length of Laplace noise bounds that of its part.

    The trace of the second moment is the mean squared length of the logarithms.

    Parameters
    ----------
    statistic : TangentMoments
        What was released.
    draw : NoisyDraw
        What was drawn, in units of the radius.

    Returns
    -------
    NoisyDraw
        Of the kind "gradient", in units of the manifold.
    """
    dim = statistic.manifold.dim
    radius = statistic.clipping_radius
    moments = split_moments(draw.value, dim)

    # The noise of the mean has the scale of the whole vector, in units of the manifold.
    scale = radius * draw.law.scale
    law: RiemannianGaussian | RiemannianLaplace
    mean_square = None
    if isinstance(draw.law, RiemannianGaussian):
        law = RiemannianGaussian(Euclidean(dim), scale)
        mean_square = NoisyMeanSquare(
            value=radius**2 * float(np.trace(moments.moment)),
            noise_std=radius * scale * sqrt(dim) / MOMENT_WEIGHT,
        )
    else:
        law = RiemannianLaplace(Euclidean(draw.value.size), scale)
    return NoisyDraw(
        "gradient",
        law,
        radius * moments.mean,
        grid_width=radius * draw.grid_width,
        base=np.asarray(statistic.ball.center),
        max_length=statistic.radius,
        mean_square=mean_square,
    )


def estimate_of_release(
    vector: np.ndarray, certificate: Certificate
) -> TangentEstimate:
    """Return the private mean and covariance that follow from a released vector.

    Parameters
    ----------
    vector : array
        The released value: two moments, and the noisy count if the number of records is
        private.
    certificate : Certificate
        The certificate of the release.

    Returns
    -------
    TangentEstimate
        The private mean, the private covariance about it, and their noise.

    Raises
    ------
    ParameterError
        If the certificate is of another release.
    """
    mechanism = final_mechanism_of(certificate)
    statistic = mechanism.statistic
    if isinstance(statistic, TangentMoments) and isinstance(
        mechanism, IsotropicMechanism
    ):
        scale, kind = mechanism.scale, mechanism.noise_kind
        noise_std = scale * std_per_scale(kind, statistic.value_space.dim)
    elif isinstance(statistic, TangentMomentsSum) and isinstance(
        mechanism, SumMechanism
    ):
        scale, kind = mechanism.scale, mechanism.noise_kind
        sum_noise = scale * std_per_scale(kind, statistic.vector_size)
        noise_std = sum_noise / float(vector[-1])
    else:
        raise ParameterError(f"the {statistic.name} is no tangent covariance")
    ball = Ball(statistic.center, statistic.radius)
    return estimate_moments(statistic.manifold, ball, vector, noise_std)


def geodesics_of_release(vector: np.ndarray, certificate: Certificate) -> np.ndarray:
    """Return the private mean with its principal directions.

    Each direction is as long as the standard deviation of the records along it, without
    the bias of the noise.

    Parameters
    ----------
    vector : array
        The released value: two moments, and the noisy count if the number of records is
        private.
    certificate : Certificate
        The certificate of the release.

    Returns
    -------
    array of shape (1 + dim, *point_shape)
        The mean, then the tangent vectors at it, from long to short. The sign of a
        direction is arbitrary.
    """
    estimate = estimate_of_release(vector, certificate)
    spectrum = separate_from_noise(
        estimate.covariance,
        estimate.covariance_noise,
        components_above_noise(vector, certificate),
    )
    deviations = np.sqrt(spectrum.variances)
    statistic: Any = final_mechanism_of(certificate).statistic
    manifold = statistic.manifold
    tangents = manifold.from_coordinates(
        estimate.mean, deviations[:, None] * spectrum.directions
    )
    return np.concatenate([estimate.mean[None], np.asarray(tangents)])


def components_above_noise(
    vector: np.ndarray, certificate: Certificate, level: float = STANDS_OUT_LEVEL
) -> int:
    """Return the number of directions in which the clipped records vary for sure.

    Theorem T4 (docs/theory/tangent-pca.md). Two counts of `count_above_noise` are made,
    each with half of the probability 1 − level, and the larger one is returned:

    - that of the drawn covariance, in which the noise of the mean, of length q at most,
      adds a matrix of norm at most 2|g|q + q². This is small near the center;
    - that of the drawn second moment S + N, minus one: the covariance S − GGᵀ has a rank
      that is smaller by one at most. This serves records far from the center.

    If the number of records is private, both moments are divided by a noisy number n̂,
    and n/n̂ ≠ 1 adds a matrix of norm at most (|g| + q)²·x/(1 − x) to the covariance,
    where x bounds |n/n̂ − 1|.

    Parameters
    ----------
    vector : array
        The released value: two moments, and the noisy count if the number of records is
        private.
    certificate : Certificate
        The certificate of the release.
    level : float
        The probability of the statement.

    Returns
    -------
    int
        A lower bound on the rank of the records' covariance, at that level.
    """
    mechanism = final_mechanism_of(certificate)
    statistic = mechanism.statistic
    assert isinstance(mechanism, IsotropicMechanism | SumMechanism)
    assert isinstance(statistic, TangentMoments | TangentMomentsSum)
    # σ bounds the noise of one entry by Gaussian noise; a sum is divided by n̂.
    size = moments_size(statistic.manifold.dim)
    n_hat = 1.0
    if isinstance(statistic, TangentMomentsSum):
        size += 1
        n_hat = float(vector[-1])
    law: RiemannianGaussian | RiemannianLaplace
    law = RiemannianGaussian(Euclidean(size), mechanism.scale)
    if mechanism.noise_kind == "laplace":
        law = RiemannianLaplace(Euclidean(size), mechanism.scale)
    draw = NoisyDraw("point", law, np.zeros(size), grid_width=0.0)
    gaussian = bound_by_gaussian(draw, 1 - level)
    sigma = gaussian.sigma / n_hat * (1 + _ROUNDING_OF_DRAW)

    # The error of the mean: q is a quantile of the length of its noise (χ² law).
    dim = statistic.manifold.dim
    moments = split_moments(vector, dim)
    half_failure = gaussian.failure_probability / 2
    mean_failure = _MEAN_SHARE * half_failure
    q = sigma * sqrt(2 * float(gammainccinv(dim / 2, mean_failure)))
    length = float(np.linalg.norm(moments.mean))
    error_of_mean = 2 * length * q + q**2
    noise = sigma / MOMENT_WEIGHT
    noise_failure = half_failure - mean_failure

    # The error of the noisy count, if there is one.
    if isinstance(statistic, TangentMomentsSum):
        count_failure = _MEAN_SHARE * half_failure
        noise_failure -= count_failure
        x = -float(ndtri(count_failure / 2)) * sigma / statistic.count_weight
        error_of_mean += (length + q) ** 2 * x / (1 - x) if x < 1 else inf

    covariance = moments.moment - np.outer(moments.mean, moments.mean)
    variances = np.linalg.eigvalsh(covariance)[::-1]
    about_mean = count_above_noise(variances, noise, noise_failure, error_of_mean)
    squares = np.linalg.eigvalsh(moments.moment)[::-1]
    about_center = count_above_noise(squares, noise, half_failure)
    return max(about_mean, about_center - 1, 0)


def variance_intervals(
    certificate: Certificate, components: int, level: float = 0.95
) -> VarianceIntervals:
    """Return confidence intervals for the leading variances of the clipped records.

    Theorem T3 (docs/theory/tangent-pca.md). The drawn matrix is C + N + D, with N
    symmetric Gaussian noise and ‖D‖ ≤ B (`_noisy_covariance`). On a fixed subspace of
    dimension m, no eigenvalue of N exceeds q(m) = `largest_noise_eigenvalue` but with
    the stated probability. By Courant and Fischer, with the subspaces of C itself,

        λ_k(drawn) − q(d − k + 1) − B  ≤  λ_k(C)  ≤  λ_k(drawn) + q(k) + B.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release of `TangentMoments`.
    components : int
        How many of the largest variances get an interval.
    level : float
        The probability with which all intervals hold their variances.

    Returns
    -------
    VarianceIntervals
        In squared units of the manifold's distance, cut to [0, r²].

    Raises
    ------
    ParameterError
        If the certificate is of another release, or has no integers.
    """
    noisy = _noisy_covariance(certificate, level)
    eigenvalues = np.linalg.eigvalsh(noisy.drawn)[::-1]
    dim = len(eigenvalues)
    one_sided = noisy.failure_probability / (2 * components)
    above = [
        largest_noise_eigenvalue(dim - k, noisy.noise, one_sided)
        for k in range(components)
    ]
    below = [
        largest_noise_eigenvalue(k + 1, noisy.noise, one_sided)
        for k in range(components)
    ]

    lower = eigenvalues[:components] - above - noisy.error_of_mean
    upper = eigenvalues[:components] + below + noisy.error_of_mean
    largest = noisy.radius**2
    return VarianceIntervals(
        np.clip(lower, 0.0, largest), np.clip(upper, 0.0, largest), level
    )


def directions_region(
    certificate: Certificate, components: int, level: float = 0.95
) -> Region:
    """Return the confidence region of the subspace of the leading directions.

    It is on the Grassmann manifold of such subspaces, in the coordinates
    `manifold.to_coordinates(mean, ·)` at the released mean. The theorem is that of
    `principal_subspaces`, where D of `variance_intervals` counts as further noise.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release of `TangentMoments`.
    components : int
        The dimension of the subspace, from 1 to d − 1. The radius of the region is then
        the largest principal angle, or the root of the sum of their squares.
    level : float
        The probability with which the region holds the subspace.

    Returns
    -------
    Region
        The region; the whole Grassmann manifold if the noise hides the directions.

    Raises
    ------
    ParameterError
        If the certificate is of another release, or has no integers.
    """
    noisy = _noisy_covariance(certificate, level)
    dim = len(noisy.drawn)

    # Treat the noisy covariance as a released second moment, whose region is known.
    vector = symmetric_to_vector(noisy.drawn)
    law = RiemannianGaussian(Euclidean(vector.size), noisy.noise)
    manifold, shape = principal_subspaces(
        SecondMoment(dim, noisy.radius, 2),
        NoisyDraw("point", law, vector, grid_width=0.0),
        1 - noisy.failure_probability,
        components,
        noisy.error_of_mean,
    )

    description = (
        "the leading directions of the covariance of the logarithms of the records, "
        "shortened to the radius"
    )
    return Region(
        manifold,
        shape.base,
        shape.radius,
        level,
        "records",
        description,
        shape.theorem,
        shape.within,
    )


def _noisy_covariance(certificate: Certificate, level: float) -> _NoisyCovariance:
    """Return the drawn covariance of a certificate, with bounds on its noise.

    With g = G + e and S + N drawn, S + N − ggᵀ = C + N + D where D = eeᵀ − geᵀ − egᵀ.
    If |e| ≤ q, then ‖D‖ ≤ 2|g|q + q².

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release of `TangentMoments`.
    level : float
        The probability with which all bounds have to hold.

    Returns
    -------
    _NoisyCovariance
        The drawn covariance in coordinates at the released mean, with σ, the bound on
        ‖D‖, and the rest of the failure probability.

    Raises
    ------
    ParameterError
        If the certificate is of another release, or has no integers.
    """
    integers = certificate.release["integers"]
    if integers is None:
        raise ParameterError(
            "no region: the certificate does not list what was drawn, which was too long"
        )
    draw = recorded_draw_of(certificate)
    statistic = draw.frame or mechanism_of(certificate).statistic
    if not isinstance(statistic, TangentMoments):
        raise ParameterError(
            f"the variances of a {statistic.name} have no region: it is no tangent "
            "covariance"
        )
    gaussian = bound_by_gaussian(draw, 1 - level)
    dim = statistic.manifold.dim
    radius = statistic.clipping_radius

    # `estimate_moments` adds s²·1 to make the covariance unbiased; the theorem is about
    # the drawn one, so this is taken off again below.
    estimate = estimate_moments(
        statistic.manifold,
        Ball(statistic.center, statistic.radius),
        draw.value,
        gaussian.sigma,
    )
    correction = estimate.mean_noise**2 * np.eye(dim)

    # The length of the noise of the mean is below σ times a quantile of the χ law.
    mean_failure = _MEAN_SHARE * gaussian.failure_probability
    chi = sqrt(2 * float(gammainccinv(dim / 2, mean_failure)))
    rounding = sqrt(draw.value.size) * draw.grid_width
    longest_noise = radius * (gaussian.sigma * chi + rounding)
    gradient = radius * float(np.linalg.norm(split_moments(draw.value, dim).mean))
    error_of_mean = 2 * gradient * longest_noise + longest_noise**2
    error_of_mean += radius**2 * rounding / MOMENT_WEIGHT
    return _NoisyCovariance(
        estimate,
        estimate.covariance - correction,
        radius**2 * gaussian.sigma / MOMENT_WEIGHT,
        error_of_mean,
        gaussian.failure_probability - mean_failure,
        radius,
    )
