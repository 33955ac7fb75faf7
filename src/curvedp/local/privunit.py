"""PrivUnit: true local privacy of one unit vector, with the best constants.
The mechanism is that of Bhowmick et al. (2018), with the parameters that Asi, Feldman
and Talwar (2022) show to be optimal. They are computed here, and ε is certified in ball
arithmetic. docs/theory/local.md has the theorems.
"""

import math
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy  # scipy.optimize is loaded by its first use
from flint import arb
from scipy.special import betainc, betaincinv, gammaln

from curvedp import _validate
from curvedp.core.chart import GRID
from curvedp.errors import ParameterError
from curvedp.geometry import Sphere
from curvedp.laws.exact.cap import draw_from_cap_or_outside
from curvedp.local.estimates import MeanEstimate, mean_of_vectors
from curvedp.local.mechanism import LocalMechanism
from curvedp.local.spaces import PointRecords
from curvedp.numerics.enclosures import float_up
from curvedp.numerics.enclosures import precision as at_precision
from curvedp.privacy import PureDP
from curvedp.randomness import Source
from curvedp.randomness.csprng import Allowance

# Bits of ball arithmetic in which ε and the mean length are computed.
_BITS = 256

# The largest ε: e^ε is far inside the range of doubles, and reports are exact anyway.
_LARGEST_EPSILON = 500.0

# The smallest ε. The probability of the cap is a multiple of 2^-64, so that no cap has
# an ε below about 1e-19, other than 0.
_SMALLEST_EPSILON = 1e-15


class CapParameters(NamedTuple):
    """The two public numbers of PrivUnit.

    Attributes
    ----------
    threshold : float
        γ, the cosine of the angle of the cap about the record.
    cap_weight : int
        The probability p of a report in the cap, in units of 2^-64.
    """

    threshold: float
    cap_weight: int


def cap_probability(dim: int, threshold: float) -> arb:
    """Return the share of the sphere in a cap: the measure A of PrivUnit's cap.

    A = P(W ≥ γ) for the first coordinate W of a uniform unit vector. It is
    ½·I_{1−γ²}((d − 1)/2, ½), with I the regularized incomplete beta function.

    Parameters
    ----------
    dim : int
        The number d of coordinates, at least 2.
    threshold : float
        γ in [0, 1), the cosine of the cap's angle. It is taken as an exact number.

    Returns
    -------
    arb
        A ball: a number with a rigorous error bound, in the precision that is set.
    """
    gamma = arb(threshold)
    squared_sine = 1 - gamma * gamma
    half = arb(1) / 2
    return squared_sine.beta_lower(arb(dim - 1) / 2, half, regularized=True) / 2


def certified_epsilon(dim: int, parameters: CapParameters) -> float:
    """Return an upper bound of the ε of PrivUnit, for its certificate.

    Against the uniform density the report has the density p/A in the cap, of
    probability A, and (1 − p)/(1 − A) outside, where p is the probability of a report in
    the cap. So ε is exactly the larger of
    |log(p/(1 − p)) + log((1 − A)/A)| and 0, attained for two records of which only one
    has the report in its cap.

    Parameters
    ----------
    dim : int
        The number d of coordinates, at least 2.
    parameters : CapParameters
        The threshold and the weight of the cap.

    Returns
    -------
    float
        ε, rounded up from 256 bits.
    """
    with at_precision(_BITS):
        in_cap = arb(parameters.cap_weight)
        outside = arb((1 << 64) - parameters.cap_weight)
        probability = cap_probability(dim, parameters.threshold)
        log_ratio = (in_cap / outside).log() + ((1 - probability) / probability).log()
        return float_up(abs(log_ratio))


def mean_length(dim: int, parameters: CapParameters) -> float:
    """Return the mean length m = E⟨V, v⟩ of a report V about the record v.

    Reports are divided by m, so that their mean is unbiased. With W the first
    coordinate of a uniform unit vector, p the probability of a report in the cap W ≥ γ,
    and A that of the cap under the uniform distribution,

        m = T·(p/A − (1 − p)/(1 − A)),
        T = E[W; W ≥ γ] = Γ(d/2)/(2√π·Γ((d + 1)/2))·(1 − γ²)^{(d−1)/2}.

    Parameters
    ----------
    dim : int
        The number d of coordinates, at least 2.
    parameters : CapParameters
        The threshold and the weight of the cap.

    Returns
    -------
    float
        m in double precision, between 0 and 1.
    """
    with at_precision(_BITS):
        gamma = arb(parameters.threshold)
        d = arb(dim)
        constant = (d / 2).gamma() / (2 * arb.pi().sqrt() * ((d + 1) / 2).gamma())
        partial_mean = constant * (1 - gamma * gamma) ** ((d - 1) / 2)
        p = arb(parameters.cap_weight) / arb(1 << 64)
        probability = cap_probability(dim, parameters.threshold)
        contrast = p / probability - (1 - p) / (1 - probability)
        return float(partial_mean * contrast)


@lru_cache(maxsize=64)
def optimal_parameters(dim: int, epsilon: float) -> CapParameters:
    """Return the parameters with the smallest variance at a given ε.

    The report is uniform on a cap (inner product with the record at least γ) with
    probability p, else uniform outside. Its variance is least where its mean length m is
    largest. Theorem N3 (docs/theory/local.md), with A(γ) the share of the sphere in the
    cap, and T(γ) the mean of a uniform inner product, restricted to the cap: for a
    threshold γ the best p makes ε tight, and then m(γ) = T(γ)/(κ + A(γ)) with
    κ = 1/(e^ε − 1). It has one maximum on [0, 1), at the only root of T = γ·(κ + A),
    where m = γ: the best threshold is the mean length of a report itself.

    The threshold is the root in floats, which changes m in second order only. The
    weight of the cap is the largest multiple of 2^-64 at which the certified ε is at
    most `epsilon`.

    Parameters
    ----------
    dim : int
        The number d of coordinates, at least 2.
    epsilon : float
        ε > 0.

    Returns
    -------
    CapParameters
        The threshold γ and the weight of the cap.
    """
    threshold = _best_threshold(dim, epsilon)
    with at_precision(_BITS):
        probability = cap_probability(dim, threshold)
        # Tight ε: p/(1 − p) = e^ε·A/(1 − A). Rounded down to units of 2^-64.
        odds = arb(epsilon).exp() * probability / (1 - probability)
        p = odds / (1 + odds)
        units = (p * arb(1 << 64)).lower().floor()
        cap_weight = min(int(units.fmpz()), (1 << 64) - 1)

    # Lower p until the upper bound of ε is small enough: by one unit of 2^-64, or by a
    # few where rounding hides single units.
    while certified_epsilon(dim, CapParameters(threshold, cap_weight)) > epsilon:
        cap_weight -= 1 + (cap_weight >> 60)
    return CapParameters(threshold, cap_weight)


def _best_threshold(dim: int, epsilon: float) -> float:
    """Return the threshold γ with the smallest variance: the root of T = γ·(κ + A).

    Parameters
    ----------
    dim : int
        The number d of entries of a record.
    epsilon : float
        The guarantee ε of a report, from which κ = 1/(e^ε − 1).

    Returns
    -------
    float
        The root in [0, 1), in floats. T(γ) and A(γ) are as in `optimal_parameters`.
    """
    kappa = 1.0 / math.expm1(epsilon)
    exponent = (dim - 1) / 2
    log_constant = float(
        gammaln(dim / 2)
        - gammaln((dim + 1) / 2)
        - math.log(2)
        - 0.5 * math.log(math.pi)
    )

    def excess(gamma: float) -> float:
        """Return T − γ·(κ + A), which decreases; its root is the best threshold."""
        squared_sine = (1 - gamma) * (1 + gamma)
        partial_mean = math.exp(log_constant + exponent * math.log(squared_sine))
        probability = 0.5 * float(betainc(exponent, 0.5, squared_sine))
        return partial_mean - gamma * (kappa + probability)

    # For a huge ε the root is beyond what doubles tell from 1.
    largest = 1 - 2.0**-50
    if excess(largest) >= 0:
        return largest
    return float(scipy.optimize.brentq(excess, 0.0, largest, xtol=1e-14))


class PrivUnit(LocalMechanism):
    """Report a random direction that leans toward the record: pure local privacy.

    With probability p the report is uniform on the cap of unit vectors whose inner
    product with the record is at least γ, otherwise uniform on the others. Its mean is
    m times the record, so that the mean of all reports over m is unbiased. Each report
    has the error 1/m² − 1, the least of all unbiased mechanisms of this kind.

    Parameters
    ----------
    dim : int
        How many coordinates a unit vector has, at least 2.
    epsilon : float
        ε of local privacy: any record could have been any other one.

    Attributes
    ----------
    threshold : float
        γ.
    cap_probability : float
        p.
    certified_epsilon : float
        An upper bound of the ε of these parameters, at most `epsilon`.
    mean_length : float
        m.
    report_error : float
        1/m² − 1, the mean squared error of one report over m.
    certificate_ : LocalCertificate
        The promise in full; after `randomize`, about those reports.

    Examples
    --------
    >>> import numpy as np
    >>> privunit = PrivUnit(dim=16, epsilon=4.0)
    >>> privunit.certified_epsilon <= 4.0
    True
    >>> X = np.tile(np.eye(16)[0], (200, 1))
    >>> reports = privunit.randomize(X)
    >>> privunit.estimate_mean(reports).value.shape
    (16,)
    """

    name = "privunit"

    def __init__(self, dim: int, epsilon: float) -> None:
        """Compute the best cap for ε, and certify its ε; nothing is drawn yet."""
        self.dim = _validate.integer("dim", dim, 2)
        self.epsilon = _validate.within(
            "epsilon", epsilon, _SMALLEST_EPSILON, _LARGEST_EPSILON
        )
        self.space = PointRecords(Sphere(self.dim - 1))
        self.cap = optimal_parameters(self.dim, self.epsilon)
        self.threshold = self.cap.threshold
        self.cap_probability = self.cap.cap_weight / 2**64
        self.certified_epsilon = certified_epsilon(self.dim, self.cap)
        self.mean_length = mean_length(self.dim, self.cap)
        if not self.mean_length > 0:
            raise ParameterError(
                "is too small: a report would tell nothing",
                parameter="epsilon",
                value=epsilon,
            )
        self.report_error = 1 / self.mean_length**2 - 1
        self.certificate_ = self._certificate()

    def __repr__(self) -> str:
        return f"PrivUnit(dim={self.dim}, epsilon={self.epsilon:g})"

    @property
    def grid(self) -> int:
        """Number of binary digits of a report: coordinates are multiples of 2^-30."""
        return GRID

    def parameters(self) -> dict[str, Any]:
        """Return the dimension, ε, the cap and the mean length, for the certificate.

        The weight of the cap is a text of digits, since it exceeds the integers that
        every JSON reader keeps exactly.
        """
        return {
            "dim": self.dim,
            "epsilon": self.epsilon,
            "threshold": self.threshold,
            "cap_weight": str(self.cap.cap_weight),
            "certified_epsilon": self.certified_epsilon,
            "mean_length": self.mean_length,
            "grid": self.grid,
        }

    def guarantee_record(self) -> dict[str, Any]:
        """Return the promise of pure local privacy: in words, and as JSON values."""
        guarantee = PureDP(self.epsilon)
        return {
            "kind": "local",
            "promise": str(guarantee),
            "definition": guarantee.to_dict(),
        }

    @property
    def report_slack(self) -> float:
        """Bound of the total variation between one drawn report and an exact one.

        It is 2^-100 for up to 4096 coordinates, and grows in proportion beyond.
        """
        return Allowance(self.dim).tau()

    def draw_reports(self, points: np.ndarray, source: Source) -> np.ndarray:
        """Draw an exact report from the cap about each record, or from outside of it.

        Parameters
        ----------
        points : array, shape (n, dim)
            The records as unit vectors.
        source : Source
            The random bits.

        Returns
        -------
        array of int64, shape (n, dim)
            The reports in units of 2^-30.
        """
        draws = [
            draw_from_cap_or_outside(
                point, self.threshold, self.cap.cap_weight, source, self.grid
            )
            for point in points
        ]
        integers = [draw.integers.astype(np.int64) for draw in draws]
        shape = (len(points), self.dim)
        return np.array(integers, dtype=np.int64).reshape(shape)

    def points_from_grid(self, integers: np.ndarray) -> np.ndarray:
        """Return reports as vectors, exactly: they have length 1 up to the rounding.

        Parameters
        ----------
        integers : array of int64, shape (n, dim)
            Reports in units of 2^-grid.
        """
        return np.asarray(integers * 2.0**-self.grid)

    def simulate_points(
        self, points: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return reports with the same distribution, drawn in floats. NOT private.

        The inner product of record and report is drawn by inverting its distribution
        function, and the direction across the record is uniform.

        Parameters
        ----------
        points : array, shape (n, dim)
            The records as unit vectors.
        rng : numpy.random.Generator
            The source of randomness.
        """
        n = len(points)
        exponent = (self.dim - 1) / 2
        squared_sine = (1 - self.threshold) * (1 + self.threshold)
        tail = 0.5 * float(betainc(exponent, 0.5, squared_sine))
        is_in_cap = rng.random(n) < self.cap_probability
        # The share of the sphere that has a larger inner product with the record than
        # the report has: below the share of the cap in it, above that share outside.
        uniform = rng.random(n)
        upper_tail = np.where(is_in_cap, tail * uniform, tail + (1 - tail) * uniform)

        # Invert tail = ½·I_{1−t²}(exponent, ½) on the half of the sphere where it holds.
        smaller_tail = np.minimum(upper_tail, 1 - upper_tail)
        squared_sines = betaincinv(exponent, 0.5, 2 * smaller_tail)
        heights = np.sqrt(1 - squared_sines) * np.where(upper_tail < 0.5, 1.0, -1.0)

        # A uniform direction orthogonal to the record.
        across = rng.standard_normal(points.shape)
        across -= np.sum(across * points, axis=1, keepdims=True) * points
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        along_record = heights[:, np.newaxis] * points
        beside_record = np.sqrt(squared_sines)[:, np.newaxis] * across
        return np.asarray(along_record + beside_record)

    @cached_property
    def largest_variance(self) -> float:
        """The largest variance, in any direction, of a report V divided by m.

        m is the mean length, and v the record. Along v the variance is E⟨V, v⟩²/m² − 1,
        in each of the d − 1 directions across it (1 − E⟨V, v⟩²)/((d − 1)·m²). The radius
        of a confidence region follows from the larger one.
        """
        exponent = (self.dim - 1) / 2
        squared_sine = (1 - self.threshold) * (1 + self.threshold)
        tail = 0.5 * float(betainc(exponent, 0.5, squared_sine))
        # E[W²; W ≥ γ] of the first coordinate W of a uniform vector; E[W²] is 1/dim.
        in_cap = float(betainc(exponent, 1.5, squared_sine)) / (2 * self.dim)
        outside = 1 / self.dim - in_cap
        p = self.cap_probability
        second_moment = p * in_cap / tail + (1 - p) * outside / (1 - tail)
        along = second_moment / self.mean_length**2 - 1
        across = (1 - second_moment) / ((self.dim - 1) * self.mean_length**2)
        return max(along, across)

    def estimate_mean(
        self, reports: Any, level: float = 0.95, *, finite_sample: bool = False
    ) -> MeanEstimate:
        """Return an unbiased estimate of the mean record, with a confidence region.

        A report is a unit vector whose expectation is the record times `mean_length`. So
        reports are divided by `mean_length` to be unbiased. The region is a ball about
        the mean of these scaled reports. By default its radius follows from the central
        limit theorem and the largest variance in any direction, which is public. With
        `finite_sample` the region holds for every n by McDiarmid's inequality, and is
        larger.

        Parameters
        ----------
        reports : array, shape (n, dim)
            The report of each person, as `randomize` returned it.
        level : float
            The probability with which the ball contains the mean of the records.
        finite_sample : bool
            Whether this probability is guaranteed for every n, or for large n.

        Returns
        -------
        MeanEstimate
            The estimated mean vector, and the radius of the ball about it.
        """
        # Unit vectors that are multiplied by a factor have this factor as their length.
        unbiasing_factor = 1 / self.mean_length
        return mean_of_vectors(
            reports,
            shape=(self.dim,),
            length=unbiasing_factor,
            largest_variance=self.largest_variance,
            total_variance=self.report_error,
            level=level,
            finite_sample=finite_sample,
            factor=unbiasing_factor,
        )
