"""The K-norm gradient mechanism, drawn exactly, for pure ε.
The release is one draw of the density ∝ exp(−‖∇E(x; D)‖/s) on a public domain, where
∇E(x; D) is the gradient at x of an energy of the records D (Reimherr & Awan 2019; on
manifolds Soto et al. 2022). Let Δ be its sensitivity. Between neighboring data sets the
exponent moves by at most Δ/s everywhere, and so does the logarithm of the normalizing
constant, which depends on the data too. Hence s = 2Δ/ε, not Δ/ε (docs/errata.md, E23).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import atanh, erf, expm1, inf, log1p, nextafter, sqrt
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import log_ndtr

from curvedp.core.capabilities import SimulatesRelease, SometimesExcluded
from curvedp.core.certificate import Certificate
from curvedp.core.chart import CHART_ERROR, grid_of
from curvedp.core.codes import SamplingPath
from curvedp.core.fields import Length, Positive
from curvedp.core.mechanism import (
    Draw,
    Mechanism,
    MechanismInfo,
    check_guarantee,
    check_supported,
    replay_draws,
)
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry.manifold import Manifold
from curvedp.laws.knorm import GeodesicBall, LipschitzRejectionSampler
from curvedp.privacy import GDP, ApproxDP, Guarantee, PrivacyCurve, PureDP
from curvedp.randomness import Source
from curvedp.records.base import Records
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.sensitivity import mean_gradient_sensitivity

# The largest radius of a domain, in noise scales, at which float64 draws still resolve
# the density.
_WIDEST_DOMAIN = 1e8
# A stated scale may be below 2Δ/ε, as recomputed, by this relative rounding error.
_SCALE_ROUNDING = 1e-12
# e^x overflows for larger x (the limit is 709.8).
_LARGEST_EXPONENT = 700
# The number of distances that are in memory at once while the gradient is evaluated.
_MAX_DISTANCES = 1 << 22


@dataclass(frozen=True, eq=False, kw_only=True)
class KNormMechanism(Mechanism):
    """Base class: one draw of the density ∝ exp(−norm/s) of a gradient norm.

    If one record is replaced, the logarithms of exp(−norm/s) and of its normalizing
    constant each move by at most ε/2.

    Attributes
    ----------
    epsilon : float
        The pure ε of the draw.
    scale : float
        The scale s, at least 2Δ/ε, where Δ is the sensitivity of the gradient.
    """

    epsilon: Positive
    scale: Length

    def __post_init__(self) -> None:
        """Check that the scale of the density is at least 2Δ/ε.

        Here Δ is the sensitivity of the gradient. Replacing a record moves both the
        exponent and the logarithm of the normalizing constant by at most Δ/scale, so
        that a smaller scale would not satisfy ε-DP.

        Raises
        ------
        ParameterError
            If the stated scale is too small.
        """
        super().__post_init__()
        smallest_scale = 2 * self.sensitivity / self.epsilon
        if not self.scale >= smallest_scale * (1 - _SCALE_ROUNDING):
            raise ParameterError(
                f"must be at least 2Δ/ε = {smallest_scale:g}",
                parameter="scale",
                value=self.scale,
            )

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise that meets a guarantee.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.
        guarantee : Guarantee
            The privacy guarantee that the release must satisfy: pure ε-DP, or one that
            pure ε-DP implies.
        """
        check_supported(cls, statistic)
        epsilon = pure_epsilon(guarantee)
        # The density ∝ exp(−norm/s) satisfies ε-DP if s is at least 2Δ/ε, where Δ is
        # the sensitivity of the gradient.
        scale = nextafter(2 * cls.gradient_sensitivity(statistic) / epsilon, inf)
        return cls(statistic=statistic, epsilon=epsilon, scale=scale)

    @classmethod
    @abstractmethod
    def gradient_sensitivity(cls, statistic: Any) -> float:
        """Return how far the computed gradient can move if one record is replaced.

        The bound holds at every point of the domain, and includes float errors.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.
        """

    @cached_property
    def sensitivity(self) -> float:
        """How far the computed gradient can move if one record is replaced."""
        return self.gradient_sensitivity(self.statistic)

    @property
    def manifold(self) -> Manifold:
        """Where the released value lives."""
        return self.statistic.value_space

    @property
    def privacy_profile(self) -> PrivacyCurve:
        """The guarantee of pure ε-DP; no finer profile is known."""
        return PureDP(self.epsilon)


@dataclass(frozen=True, eq=False, kw_only=True)
class KNGMechanism(KNormMechanism, SimulatesRelease, SometimesExcluded):
    """Release a Fréchet mean as one draw of the density ∝ exp(−‖∇E(x)‖/s) on a ball.

    Here E(x) is half the mean squared distance of x to the n records, and the ball is
    public.

    Parameters
    ----------
    statistic : FrechetMean
        The mean of n records in a public ball, on a manifold of dimension up to 4.
    epsilon : float
        The pure ε of the draw. `calibrated` computes it from a guarantee.
    scale : float
        The scale s of the density. `calibrated` computes it too.

    Notes
    -----
    Guarantees
    - ε-DP for replace-one adjacency, for ANY records: those outside the ball are
      clipped into it first;
    - the draw is by rejection from a verified envelope, with no Markov chain. It runs
      in float64, and its coordinates in the chart at `center` are rounded to the public
      grid 2^-30 (finer for small noise), which the certificate says;
    - how long a release takes depends on the records, and ε does not cover that.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (100, 3)))
    >>> mechanism = KNGMechanism.calibrated(Sphere(2), [1.0, 0, 0], 0.7, 100, PureDP(1.0))
    >>> mechanism.release(X).value.shape
    (3,)
    """

    if TYPE_CHECKING:
        statistic: FrechetMean

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "k-norm-gradient",
        option="kng",
        reads="array",
        sampling=SamplingPath.FLOAT64,
    )

    def __post_init__(self) -> None:
        """Check the scale, and that K-norm draws are possible on this ball."""
        super().__post_init__()
        _ = self.domain  # refuses here, and not at the first release

    @classmethod
    def calibrated(
        cls,
        manifold: Manifold,
        center: Any,
        radius: float,
        n: int,
        guarantee: Guarantee,
    ) -> Self:
        """Return the mechanism for the mean of n records in a public ball.

        Parameters
        ----------
        manifold : Manifold
            Where the records live; its dimension is at most 4.
        center : point or None
            The center of the public ball that contains the records and the release.
            None stands for the origin.
        radius : float
            The radius of the public ball.
        n : int
            The number of records.
        guarantee : Guarantee
            The privacy guarantee that the release must satisfy: pure ε-DP, or one that
            pure ε-DP implies.

        Returns
        -------
        KNGMechanism
            The mechanism; its `release` takes the records.
        """
        return cls.calibrate(FrechetMean(manifold, center, radius, n), guarantee)

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a Fréchet mean, which this class releases."""
        return isinstance(statistic, FrechetMean)

    @classmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why `mechanism="auto"` never considers this mechanism.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.
        """
        return "on request only: it draws in float64, and its running time depends on the records"

    @cached_property
    def domain(self) -> GeodesicBall:
        """The ball on which the density is positive, in the canonical frame.

        In that frame an isometry has moved the center of the public ball to the origin.
        """
        center = np.asarray(self.statistic.ball.center)
        return GeodesicBall(self.manifold, center, self.statistic.radius)

    @classmethod
    def gradient_sensitivity(cls, statistic: FrechetMean) -> float:
        """Return how far the computed gradient can move if one record is replaced.

        The gradient at a point is the mean of the logarithms of the records there. To
        its exact sensitivity a bound on the float errors of the logarithms is added.

        Parameters
        ----------
        statistic : FrechetMean
            The mean that is to be released.
        """
        exact = mean_gradient_sensitivity(
            statistic.manifold, statistic.clipping_radius, statistic.n
        )
        return nextafter(exact + 4 * CHART_ERROR * statistic.radius, inf)

    def prepare_data(self, data: Any) -> np.ndarray:
        """Return the records in the form in which `draw` takes them.

        Parameters
        ----------
        data : array of shape (n, *point_shape) or Records
            The records.

        Returns
        -------
        array of shape (n, *point_shape)
            The records, clipped into the public ball, in the canonical frame (an
            isometry has moved the center of the ball to the origin).
        """
        points = data.array() if isinstance(data, Records) else data
        return self.statistic.clip_records(points)

    def gradient_norm(self, records: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that computes the norm of the gradient at points x.

        The gradient at x is the mean of log_x xᵢ over the records xᵢ, up to its sign.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records, in the canonical frame (an isometry has moved the center of the
            ball to the origin).

        Returns
        -------
        function of points, shape (k, *point_shape)
            Returns the k norms as an array.
        """
        manifold = self.manifold
        points_at_once = max(1, _MAX_DISTANCES // records.size)

        def norm(points: np.ndarray) -> np.ndarray:
            """Return ‖mean log_x xᵢ‖ at each point x, a block of points at a time.

            Parameters
            ----------
            points : array of shape (k, *point_shape)
                The points x, in the ball.
            """
            norms = []
            for start in range(0, len(points), points_at_once):
                some_points = points[start : start + points_at_once]
                mean_logs = np.mean(manifold.log(some_points[:, None], records), axis=1)
                norms.append(np.asarray(manifold.norm(some_points, mean_logs)))
            return np.concatenate(norms)

        return norm

    def lipschitz_constant(self, records: np.ndarray) -> float:
        """Return a Lipschitz constant of the gradient norm on the ball.

        It is the mean over the records of a bound on the Hessian of half the squared
        distance. It depends on the records, but affects only the running time of the
        sampler and not the distribution of the draw (docs/theory/knorm.md).

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records, in the canonical frame (an isometry has moved the center of the
            ball to the origin).
        """
        radius = self.statistic.radius
        center = self.statistic.ball.center
        # How far each record can be from a point of the ball.
        distances = radius + np.asarray(self.manifold.dist(center, records))
        distances = np.minimum(distances, 2 * radius)
        return float(np.mean(_hessian_bound(self.manifold, distances)))

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Draw a point x of the ball with density ∝ exp(−‖mean log_x xᵢ‖/scale).

        Parameters
        ----------
        data : array of shape (n, *point_shape)
            The records xᵢ, clipped into the public ball, in the canonical frame (an
            isometry has moved the center of the ball to the origin).
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The point, with its coordinates as integers on the public grid.
        """
        lipschitz = (self.lipschitz_constant(data),)
        norm = self.gradient_norm(data)
        knorm_draw = draw_knorm(self.domain, self.scale, norm, lipschitz, source)
        return Draw(knorm_draw.points[0], [knorm_draw.integers], None)

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        """Draw points by the float sampler, to predict errors. The points are NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the draws.
        data : array of shape (n, *point_shape)
            The records.
        size : int
            The number of draws.

        Returns
        -------
        array of shape (size, *point_shape)
            The points, projected into the public ball.
        """
        check_domain_width(self.domain, self.scale)
        sampler = LipschitzRejectionSampler(
            self.domain,
            self.scale,
            self.gradient_norm(data),
            (self.lipschitz_constant(data),),
            rng,
        )
        points = np.asarray(self.domain.points(sampler.draw(size))[0])
        return np.asarray(self.statistic.project(points))

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Project a drawn point into the public ball, in the frame of the records.

        Parameters
        ----------
        value : array of shape point_shape
            The drawn point, in the canonical frame (an isometry has moved the center of
            the public ball to the origin).
        """
        points = self.statistic.project(value[None])
        return np.asarray(self.statistic.to_data_frame(points)[0])

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        """Compute the released point again from the coordinates in a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release, which lists the drawn coordinates as integers
            on the public grid.
        """
        shape = (1, 1, self.manifold.dim)  # one draw, of one point
        next_draw = replay_draws(certificate.release["integers"])
        coordinates = next_draw(np.empty(shape), [self.scale])
        point = np.asarray(self.domain.points(coordinates)[0][0])
        return np.asarray(self.post_process(point))


class KNormDraw(NamedTuple):
    """One draw of the K-norm density.

    Attributes
    ----------
    points : tuple of arrays
        The drawn point; on a tangent bundle the point and the tangent vector.
    integers : array
        The grid integers of its coordinates.
    """

    points: tuple[np.ndarray, ...]
    integers: np.ndarray


def draw_knorm(
    domain: GeodesicBall,
    scale: float,
    norm: Callable[..., Any],
    lipschitz: Any,
    source: Source,
) -> KNormDraw:
    """Draw once from the density ∝ exp(−norm/scale) on a domain.

    The coordinates are rounded to the public grid, which is post-processing.

    Parameters
    ----------
    domain : GeodesicBall
        The set on which the density is positive.
    scale : float
        The scale of the noise.
    norm : function of points
        Returns the norm at each point.
    lipschitz : tuple of float, or function
        Lipschitz constants of the norm on the domain, or a function that bounds them
        near given points.
    source : Source
        Where random bits come from.

    Returns
    -------
    KNormDraw
        The drawn point (of a tangent bundle: the point and the velocity), and its
        coordinates as multiples of the grid width.
    """
    check_domain_width(domain, scale)
    sampler = LipschitzRejectionSampler(
        domain, scale, norm, lipschitz, _random_number_methods(source)
    )
    grid_width = 2.0 ** -grid_of(scale)
    multiples = np.round(sampler.draw(1) / grid_width)
    rounded_draws = domain.points(multiples * grid_width)
    points = tuple(np.asarray(draws[0]) for draws in rounded_draws)
    integers = np.array([int(multiple) for multiple in multiples.flat], dtype=object)
    return KNormDraw(points, integers.reshape(multiples.shape))


def _random_number_methods(source: Source) -> SimpleNamespace:
    """Return the three methods of a NumPy generator that the rejection sampler uses.

    Parameters
    ----------
    source : Source
        Where they take their random bits from.
    """

    def uniform(low: Any, high: Any, size: Any) -> Any:
        """Return uniform numbers between `low` and `high`."""
        return low + (high - low) * source.uniform(size)

    def standard_exponential(size: Any) -> Any:
        """Return exponential numbers of mean 1."""
        return -np.log(source.uniform(size, full_precision=True))

    return SimpleNamespace(
        random=source.uniform,
        uniform=uniform,
        standard_exponential=standard_exponential,
    )


def check_domain_width(domain: GeodesicBall, scale: float) -> None:
    """Refuse a domain that is so wide that rounding errors would distort the density.

    Parameters
    ----------
    domain : GeodesicBall
        The set on which the density is positive.
    scale : float
        The scale of the noise.

    Raises
    ------
    ParameterError
        If the domain is too wide for that scale.
    """
    width = max(domain.radii) / scale
    if not width <= _WIDEST_DOMAIN:
        raise ParameterError(
            f"the domain is {width:.3g} noise scales wide; float64 draws allow "
            f"{_WIDEST_DOMAIN:g}"
        )


def pure_epsilon(guarantee: Guarantee) -> float:
    """Return the largest ε such that pure ε-DP implies a guarantee.

    - ε₀-DP implies (ε, δ)-DP with δ = (e^ε₀ − e^ε)/(1 + e^ε₀). This is solved for ε₀.
    - ε-DP implies μ-GDP with μ = −2Φ⁻¹(1/(1 + e^ε)), where Φ is the standard normal
      distribution function. For small μ the equivalent equation tanh(ε/2) = erf(μ/√8)
      is solved, which loses no digits.

    Parameters
    ----------
    guarantee : Guarantee
        A guarantee of pure ε-DP, (ε, δ)-DP or μ-GDP.

    Returns
    -------
    float
        The ε, rounded down by a relative 1e-12 where it is computed in floats.

    Raises
    ------
    UnattainableGuarantee
        If the guarantee is of another kind.
    ParameterError
        If no float ε > 0 meets the guarantee.
    """
    check_guarantee(guarantee)
    if isinstance(guarantee, PureDP):
        return guarantee.eps
    if isinstance(guarantee, ApproxDP):
        if guarantee.eps > _LARGEST_EXPONENT:  # ε-DP implies (ε, δ)-DP
            return guarantee.eps
        epsilon = _pure_epsilon_of_approx(guarantee)
    elif isinstance(guarantee, GDP):
        epsilon = _pure_epsilon_of_mu(guarantee.mu)
    else:
        raise UnattainableGuarantee(
            f"the K-norm gradient mechanism is pure ε: use PureDP, not {guarantee}"
        )
    if not 0 < epsilon < inf:
        raise ParameterError(
            f"{guarantee} is met by no pure ε > 0 that a float can hold"
        )
    return epsilon * (1 - 1e-12)


def _pure_epsilon_of_approx(guarantee: ApproxDP) -> float:
    """Return the ε₀ for which ε₀-DP implies (ε, δ)-DP, by δ = (e^ε₀ − e^ε)/(1 + e^ε₀).

    Parameters
    ----------
    guarantee : ApproxDP
        The guarantee (ε, δ), with an ε of at most 700.
    """
    # ε₀ = ε + log(1 + δ·(1 + e^ε)/((1 − δ)·e^ε)), in terms of e^ε − 1.
    growth = expm1(guarantee.eps)
    excess = guarantee.delta0 * (2 + growth) / (1 - guarantee.delta0)
    return guarantee.eps + log1p(excess / (1 + growth))


def _pure_epsilon_of_mu(mu: float) -> float:
    """Return the ε for which ε-DP implies μ-GDP, by the formula that loses no digits.

    Parameters
    ----------
    mu : float
        The parameter μ of Gaussian DP.
    """
    if mu < 1:
        return 2 * atanh(erf(mu / sqrt(8)))
    half = mu / 2
    return float(log_ndtr(half) - log_ndtr(-half))


def _hessian_bound(manifold: Manifold, distance: np.ndarray) -> np.ndarray:
    """Bound the eigenvalues of the Hessian of half the squared distance to a point.

    At distance d from the point they lie between s·cot s and t·coth t, where s = √κ·d
    for the upper curvature bound κ > 0 and t = √(−λ)·d for the lower curvature bound
    λ < 0 (Karcher 1977).

    Parameters
    ----------
    manifold : Manifold
        The space.
    distance : array
        The largest distances from the point.

    Returns
    -------
    array
        The largest absolute value of an eigenvalue within each distance.
    """
    lower_curvature, upper_curvature = manifold.curvature_bounds
    bound = np.ones_like(distance)
    if manifold.dim > 1 and lower_curvature < 0:
        # For t below 1e-8, t·coth t is 1; raising t to it avoids 0/0.
        t = np.maximum(sqrt(-lower_curvature) * distance, 1e-8)
        bound = np.maximum(bound, t / np.tanh(t))
    if manifold.dim > 1 and upper_curvature > 0:
        # |s·cot s| exceeds 1 only where s·cot s is below −1, at some s > 1.
        s = sqrt(upper_curvature) * distance
        beyond_one = -s / np.tan(np.maximum(s, 1.0))
        bound = np.maximum(bound, np.where(s > 1, beyond_one, 1.0))
    return bound
