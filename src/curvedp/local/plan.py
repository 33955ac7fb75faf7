"""How many people a question takes: a curator, a federation, and local reports.
The question is the same for all three, the mean of records in a public ball, and so is
the guarantee. What differs is who is trusted.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.codes import TrustModel
from curvedp.core.wording import TRUST_WORDS
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import Euclidean, Manifold, Sphere
from curvedp.local.bounded import BoundedNoise, LocalGaussian, LocalLaplace
from curvedp.local.moments import RadialDistribution
from curvedp.local.privunit import PrivUnit
from curvedp.planning import Plan
from curvedp.planning import plan as plan_curator
from curvedp.privacy import GDP, Guarantee, PureDP, convert

# Mechanisms whose noise a federation can add in masked sums, best first.
_SUMMABLE = ("newton", "tangent-gaussian")


class TrustRow(NamedTuple):
    """One model of trust in a comparison.

    Attributes
    ----------
    trust : TrustModel
        Who sees the records.
    mechanism : str
        The best mechanism there.
    error : float
        The predicted error of the mean at n records, from noise alone.
    people : int or None
        How many records the wanted error takes; None if none was asked for.

    Examples
    --------
    >>> from curvedp.privacy import GDP
    >>> rows = compare_trust(Euclidean(2), 1000, 1.0, GDP(1.0)).rows
    >>> [row.trust.value for row in rows]
    ['central', 'federated', 'local']
    """

    trust: TrustModel
    mechanism: str
    error: float
    people: int | None


@dataclass(frozen=True)
class TrustComparison:
    """The three models of trust, at equal ε, on the same question.

    Attributes
    ----------
    title : str
        The question.
    rows : list of TrustRow
        Curator, federation and local reports, where each is possible.
    left_out : dict
        Why a model is missing.

    Examples
    --------
    >>> from curvedp.privacy import PureDP
    >>> compare_trust(Euclidean(2), 1000, 1.0, PureDP(1.0)).left_out
    {'federated': 'its noise is Gaussian, which does not meet PureDP(1.0)'}
    """

    title: str
    rows: list[TrustRow]
    left_out: dict[str, str]

    def __str__(self) -> str:
        lines = [self.title]
        for row in self.rows:
            people = "" if row.people is None else f", {row.people:,} people"
            lines.append(
                f"  {row.trust.value:<10} {row.mechanism:<18} error {row.error:.3g}"
                f"{people}: {TRUST_WORDS[row.trust].split('.')[0]}"
            )
        lines += [f"  {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join(lines)


def compare_trust(
    manifold: Manifold,
    n: int,
    radius: float,
    guarantee: Guarantee,
    *,
    error: float | None = None,
) -> TrustComparison:
    """Predict the error of a mean with a curator, a federation, and local reports.

    Parameters
    ----------
    manifold : Manifold
        A sphere or Euclidean space.
    n : int
        How many people there are, with one record each.
    radius : float
        Of the public ball that holds the records, about the origin.
    guarantee : Guarantee
        The guarantee of each person in every model, such as `GDP(1.0)` or `PureDP(2.0)`.
    error : float, optional
        A wanted error, for which each row says how many people it takes.

    Returns
    -------
    TrustComparison
        It prints itself.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.privacy import PureDP
    >>> comparison = compare_trust(Sphere(2), 10_000, 0.5, PureDP(2.0), error=0.01)
    >>> curator, local = comparison.rows[0], comparison.rows[-1]
    >>> local.people > 30 * curator.people
    True
    """
    n = _validate.integer("n", n, 2)
    radius = _validate.length("radius", radius)
    if error is not None:
        error = _validate.positive("error", error)
    if not isinstance(manifold, Sphere | Euclidean):
        raise ParameterError(
            "must be a sphere or Euclidean space: elsewhere no unbiased mean of reports "
            "is known",
            parameter="manifold",
            value=manifold,
        )

    # A curator adds noise to the mean of all records.
    rows, left_out = [], {}
    curator = plan_curator(manifold, n, radius, guarantee)
    people = None if error is None else curator.records_needed(error)
    rows.append(TrustRow(TrustModel.CENTRAL, curator.mechanism, curator.error, people))

    federated = _federated_row(curator, error)
    if federated is None:
        left_out["federated"] = (
            f"its noise is Gaussian, which does not meet {guarantee}"
        )
    else:
        rows.append(federated)

    # The mean of n local reports has an error of one report's over √n.
    report_errors = _local_errors(manifold, radius, guarantee)
    best_mechanism = min(report_errors, key=report_errors.__getitem__)
    report_error = report_errors[best_mechanism]
    people = None if error is None else math.ceil((report_error / error) ** 2)
    local_error = report_error / math.sqrt(n)
    rows.append(TrustRow(TrustModel.LOCAL, best_mechanism, local_error, people))
    title = (
        f"mean of {n:,} records on {manifold.name} in a ball of radius {radius:g}, "
        f"{guarantee} for each person"
    )
    return TrustComparison(title, rows, left_out)


def _federated_row(curator: Plan, error: float | None) -> TrustRow | None:
    """Return the row of a federation, whose sites add up masked sums.

    The sum carries the noise of one release of a curator, so that its error is that of
    the best mechanism whose noise can be added in sums.

    Parameters
    ----------
    curator : Plan
        The predictions for a curator, with the error of each mechanism.
    error : float or None
        The error for which the number of people is asked.

    Returns
    -------
    TrustRow or None
        None if no such mechanism meets the guarantee: the noise of sums is Gaussian.
    """
    if isinstance(curator.guarantee, PureDP):
        return None
    candidates = [name for name in _SUMMABLE if name in curator.errors]
    if not candidates:
        return None
    best_mechanism = candidates[0]
    predicted_error = curator.errors[best_mechanism]

    people = None
    if error is not None:
        # The error of a mean with the noise of one release falls as 1/n.
        people = math.ceil(curator.n * predicted_error / error)
    return TrustRow(TrustModel.FEDERATED, best_mechanism, predicted_error, people)


def _local_errors(
    manifold: Sphere | Euclidean, radius: float, guarantee: Guarantee
) -> dict[str, float]:
    """Return √n times the error of the mean of n local reports, by mechanism.

    Errors are mean distances from noise alone, as in predictions for a curator. For many
    reports the noise of their mean is normal in d dimensions. So its mean length is the
    root mean square error times E|N(0, I_d)|/√d, where
    E|N(0, I_d)| = √2·Γ((d + 1)/2)/Γ(d/2).

    Parameters
    ----------
    manifold : Sphere or Euclidean
        The manifold of the records.
    radius : float
        The radius ρ of the public ball that holds the records.
    guarantee : Guarantee
        The local guarantee of each report.

    Returns
    -------
    dict
        An error for each mechanism that meets the guarantee, by the mechanism's name.

    Raises
    ------
    ParameterError
        If none does.
    """
    errors: dict[str, float] = {}
    noise_classes: tuple[type[BoundedNoise], ...] = (LocalGaussian, LocalLaplace)
    for noise_class in noise_classes:
        try:
            mechanism = noise_class(manifold, manifold.origin, radius, guarantee)
        except CurvedpError:  # Gaussian noise meets no pure ε in flat space
            continue
        errors[noise_class.name] = _report_error(mechanism, radius)
    epsilon = _pure_epsilon(guarantee)
    if isinstance(manifold, Sphere) and epsilon is not None:
        privunit = PrivUnit(manifold.dim + 1, epsilon)
        across = manifold.dim * privunit.largest_variance
        total = min(across, privunit.report_error)
        errors[PrivUnit.name] = math.sqrt(total) / _least_length(radius)
    if not errors:
        raise ParameterError(f"no local mechanism meets {guarantee}")
    half = manifold.dim / 2
    mean_length = math.sqrt(2) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    reduction = mean_length / math.sqrt(manifold.dim)
    return {name: error * reduction for name, error in errors.items()}


def _report_error(mechanism: BoundedNoise, radius: float) -> float:
    """Return the root mean square error of the mean of n noisy reports, times √n.

    On a sphere, with r the distance from a record x to its report, the report has the
    mean a·x with a = E cos r, and varies by E sin² r across x. The mean of n reports is
    divided by a, and its direction is taken: an error across a vector of length m turns
    it by error/m. In Euclidean space each of d coordinates of the noise has the variance
    scale² (Gaussian) or (d + 1)·scale² (Laplace).

    Parameters
    ----------
    mechanism : BoundedNoise
        Gaussian or Laplace noise, on a sphere or in Euclidean space.
    radius : float
        The radius ρ of the public ball, on which the least length m depends.
    """
    manifold: Any = mechanism.manifold
    if isinstance(manifold, Sphere):
        distance = RadialDistribution(mechanism)
        return math.sqrt(distance.mean_squared_sine) / (
            distance.mean_cosine * _least_length(radius)
        )
    per_coordinate = 1.0 if mechanism.kind == "gaussian" else manifold.dim + 1
    return mechanism.scale * float(np.sqrt(manifold.dim * per_coordinate))


def _least_length(radius: float) -> float:
    """Return a lower bound on the length of the mean of unit vectors in a ball.

    If unit vectors are within the angle ρ < π/2 of a center, the component of their
    mean along the center is at least cos ρ. For larger ρ there is no such bound. Then
    0.05 is assumed, so that predicted errors are large but finite.

    Parameters
    ----------
    radius : float
        The radius ρ of the ball, in radians.
    """
    return max(math.cos(min(radius, math.pi / 2)), 0.05)


def _pure_epsilon(guarantee: Guarantee) -> float | None:
    """Return the largest ε such that pure ε-privacy meets a guarantee.

    PrivUnit is calibrated to a pure ε. For a guarantee in Gaussian differential privacy,
    ε is found by bisection: the μ that pure ε implies increases with ε.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of a report.

    Returns
    -------
    float or None
        None for a guarantee of another kind, or if no positive ε was found.
    """
    if isinstance(guarantee, PureDP):
        return guarantee.eps
    if not isinstance(guarantee, GDP):
        return None
    # An ε of 200 implies more than any μ in use; 60 halvings exhaust the doubles.
    low = 0.0
    high = 200.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle > 0 and convert(PureDP(middle), to=GDP).mu <= guarantee.mu:
            low = middle
        else:
            high = middle
    return low if low > 0 else None
