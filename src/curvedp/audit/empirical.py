"""What an attacker can prove about a mechanism from its outputs: lower bounds on ε and μ, to hold against the claim.

Two neighbors D and D', many outputs of each, and a few real-valued scores of an output (such as how much farther it is
from one statistic than from the other). Half of the outputs choose the score and the threshold; the other half, unseen
until then, bounds the probabilities p = P(event | D) and p' = P(event | D') of that one event (Clopper & Pearson 1934).
Then any (ε, δ) the mechanism has satisfies ε ≥ log((p − δ)/p'), and any μ-GDP it has satisfies μ ≥ Φ⁻¹(p) − Φ⁻¹(p')
(Nasr et al. 2023), which uses the bulk of the outputs instead of a rare tail and so sees a scale that is off by percents.

Noise about a statistic on a homogeneous space is worst for any two statistics a sensitivity apart; noise in a chart at a
public base is worst where the chart stretches most, at the edge of the ball and across the radius. On other spaces a fixed
list of directions is searched for the pair that is farthest apart in the chart while at most a sensitivity apart on the
manifold.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import ndtri

from curvedp import _validate
from curvedp.core.mechanism import Mechanism
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms import LogGaussianMechanism, LogLaplaceMechanism
from curvedp.mechanisms.isotropic.base import ValueMechanism
from curvedp.privacy import GDP, Guarantee, PureDP, convert

Pair = tuple[np.ndarray, np.ndarray]
_THRESHOLDS = 400
_DIRECTIONS = 32
_EDGE = 1 - 1e-9  # of the ball: inside it after rounding


class AuditResult(NamedTuple):
    """What an attack has proved.

    Attributes
    ----------
    claimed, audited : float
        ε at `delta` as claimed, and the lower bound that the attack proves.
    delta : float
        At which.
    samples : int
        Draws at each neighbor, or records whose coins were guessed from one run.
    confidence : float
        Of both bounds.
    claimed_mu, audited_mu : float
        The same for μ; ∞ and 0 where only ε is bounded.

    Examples
    --------
    >>> AuditResult(claimed=1.0, audited=0.9, delta=0.01, samples=1000, confidence=0.999).holds
    True
    """

    claimed: float
    audited: float
    delta: float
    samples: int
    confidence: float
    claimed_mu: float = np.inf
    audited_mu: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the claim survived."""
        return self.audited <= self.claimed and self.audited_mu <= self.claimed_mu

    @property
    def tightness(self) -> float:
        """The larger share of a claim that was proved to be used up: 1 is a claim that cannot be improved."""
        pairs = (self.audited, self.claimed), (self.audited_mu, self.claimed_mu)
        return max(
            proved / claimed if 0 < claimed < np.inf else 0.0
            for proved, claimed in pairs
        )


def claimed_mu(claim: Guarantee) -> float:
    """The μ of the μ-GDP that a claim implies; inf where it implies none."""
    if isinstance(claim, PureDP):
        return float(convert(claim, to=GDP).mu)
    return float(getattr(claim, "mu", np.inf))


def audit_scores(
    claim: Guarantee,
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    *,
    delta: float = 1e-3,
    confidence: float = 1 - 1e-6,
) -> AuditResult:
    """Hold a claim against outputs at two neighbors: if it is true, `holds` is False with probability <= 1 − confidence.

    Parameters
    ----------
    claim : Guarantee
        What is attacked.
    first, second : sequences of arrays
        Rows of scores of the outputs at each neighbor: first[k] and second[k] are the k-th score.
    delta, confidence : float
        At which ε is bounded, and how surely.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noisy = [rng.normal(0, 1, 20_000)], [rng.normal(1, 1, 20_000)]
    >>> audit_scores(GDP(1.0), *noisy).holds, audit_scores(GDP(0.8), *noisy).holds
    (True, False)
    """
    if not isinstance(claim, Guarantee):
        raise ParameterError(
            "must be a guarantee, such as GDP(1.0)", parameter="claim", value=claim
        )
    delta = _validate.within("delta", delta, 0, 1, open_low=True, open_high=True)
    confidence = _validate.within(
        "confidence", confidence, 0, 1, open_low=True, open_high=True
    )
    a, b = (
        np.atleast_2d(np.asarray(first, dtype=np.float64)),
        np.atleast_2d(np.asarray(second, dtype=np.float64)),
    )
    if a.shape[0] != b.shape[0] or min(a.shape[1], b.shape[1]) < 4:
        needed = "must have equally many rows, of at least 4 outputs each"
        raise ParameterError(f"scores of shapes {a.shape} and {b.shape} {needed}")
    failure = (1 - confidence) / 4  # two directions, two statements
    either = _proved(a, b, failure, delta), _proved(b, a, failure, delta)
    eps, mu = (max(0.0, *bounds) for bounds in zip(*either, strict=True))
    return AuditResult(
        float(claim.epsilon(delta)),
        eps,
        delta,
        a.shape[1],
        confidence,
        claimed_mu(claim),
        mu,
    )


def audit_mechanism(
    mechanism: ValueMechanism,
    samples: int = 100_000,
    delta: float = 1e-3,
    confidence: float = 1 - 1e-6,
    rng: np.random.Generator | None = None,
    sampler: ValueMechanism | None = None,
) -> AuditResult:
    """Attack the claim of `mechanism` with draws at the worst pair of neighboring statistics that is known.

    Parameters
    ----------
    mechanism : Mechanism
        Whose claim is attacked.
    samples : int
        Draws at each neighbor.
    delta, confidence : float
        At which ε is bounded, and how surely.
    rng : numpy.random.Generator, optional
        For draws that must repeat.
    sampler : Mechanism, optional
        The one that draws, by default the same: giving another shows that a wrong one is caught.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.mechanisms import GaussianMechanism
    >>> audit_mechanism(GaussianMechanism(Sphere(2), 0.5, 0.5), samples=20000, rng=np.random.default_rng(0)).holds
    True
    """
    if not isinstance(mechanism, ValueMechanism):
        raise ParameterError(
            "must be one that adds noise to a value",
            parameter="mechanism",
            value=mechanism,
        )
    samples = _validate.integer("samples", samples, 100)
    rng = np.random.default_rng() if rng is None else rng
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(
            "must be a numpy.random.Generator", parameter="rng", value=rng
        )
    drawn, pair = sampler or mechanism, neighbors(mechanism)
    one, two = (
        scores(mechanism, pair, drawn.simulate_draws(rng, statistic, samples))
        for statistic in pair
    )
    return audit_scores(
        mechanism.privacy_profile, one, two, delta=delta, confidence=confidence
    )


def _epsilon(p: np.ndarray, q: np.ndarray, delta: float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > delta, np.log((p - delta) / q), -np.inf)


def _mu(p: np.ndarray, q: np.ndarray, delta: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.where((p > 0) & (q < 1), ndtri(p) - ndtri(q), -np.inf)


# What two probabilities prove, at δ.
_STATEMENTS: tuple[Callable[[np.ndarray, np.ndarray, float], np.ndarray], ...] = (
    _epsilon,
    _mu,
)


def _proved(a: np.ndarray, b: np.ndarray, failure: float, delta: float) -> list[float]:
    """Each statement's bound from the event {score ≥ threshold} or {score ≤ threshold} that the even outputs chose for it."""
    best, events = [-np.inf] * len(_STATEMENTS), [(0, 1.0, 0.0)] * len(_STATEMENTS)
    for row in range(len(a)):
        train_a, train_b = np.sort(a[row, ::2]), np.sort(b[row, ::2])
        edges = np.quantile(
            np.concatenate([train_a, train_b]), np.linspace(0, 1, _THRESHOLDS + 2)[1:-1]
        )
        for sign in (1.0, -1.0):
            hits = [
                t.size - np.searchsorted(t, edges, "left")
                if sign > 0
                else np.searchsorted(t, edges, "right")
                for t in (train_a, train_b)
            ]
            ends = _ends(hits[0], train_a.size, hits[1], train_b.size, failure)
            for which, statement in enumerate(_STATEMENTS):
                value = statement(*ends, delta)
                k = int(np.argmax(value))
                if value[k] > best[which]:
                    best[which], events[which] = (
                        float(value[k]),
                        (row, sign, float(edges[k])),
                    )
    found = []
    for statement, (row, sign, edge) in zip(_STATEMENTS, events, strict=True):
        test_a, test_b = sign * a[row, 1::2], sign * b[row, 1::2]
        hits = [
            np.array([np.count_nonzero(t >= sign * edge)]) for t in (test_a, test_b)
        ]
        found.append(
            float(
                statement(
                    *_ends(hits[0], test_a.size, hits[1], test_b.size, failure), delta
                )[0]
            )
        )
    return found


def _ends(
    hits_a: np.ndarray, n_a: int, hits_b: np.ndarray, n_b: int, failure: float
) -> tuple[np.ndarray, np.ndarray]:
    """Clopper–Pearson: p at its lower and p' at its upper end, each missed with probability failure/2."""
    low = np.where(
        hits_a > 0,
        stats.beta.ppf(failure / 2, np.maximum(hits_a, 1), n_a - hits_a + 1),
        0.0,
    )
    high = np.where(
        hits_b < n_b,
        stats.beta.ppf(1 - failure / 2, hits_b + 1, np.maximum(n_b - hits_b, 1)),
        1.0,
    )
    return low, high


def neighbors(mechanism: Mechanism) -> Pair:
    """Two statistics at most the sensitivity apart, as telling as is known."""
    manifold, step = mechanism.statistic.value_space, mechanism.sensitivity
    if not isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism):
        origin = np.asarray(manifold.origin)
        return origin, manifold.from_normal_coordinates(
            origin, step * _worst_direction(manifold)
        )
    base, reach = (
        mechanism.base,
        getattr(mechanism.statistic.value_ball, "radius", None),
    )
    along = min(step, _EDGE * reach) if reach is not None else step
    pairs = [(np.zeros(manifold.dim), along * _unit(manifold.dim, 0))]
    if reach is not None and manifold.dim > 1:
        frames = np.random.default_rng(0).standard_normal(
            (_DIRECTIONS, manifold.dim, 2)
        )
        frames[0] = np.eye(manifold.dim)[:, :2]
        q = np.linalg.qr(frames)[0]
        pairs += list(
            zip(
                *_across(manifold, base, q[..., 0], q[..., 1], step, _EDGE * reach),
                strict=True,
            )
        )
    a, b = max(pairs, key=lambda pair: float(np.linalg.norm(pair[0] - pair[1])))
    return manifold.from_normal_coordinates(base, a), manifold.from_normal_coordinates(
        base, b
    )


def scores(mechanism: Mechanism, pair: Pair, outputs: np.ndarray) -> list[np.ndarray]:
    """How much farther an output is from the second statistic than from the first: in distance and in its square, the log
    likelihood ratios, up to factors, of a Laplace and a Gaussian law, by Neyman and Pearson the best there is. Noise in a
    chart is measured there (where a logarithm is slow, as on Stiefel manifolds, in the ambient space). Scores are rounded to
    2^-26: the law is under audit, not the last bits of the fast float path, which no release shows."""
    manifold = mechanism.statistic.value_space
    if not manifold.is_symmetric:
        one, two = (
            np.linalg.norm((outputs - x).reshape(len(outputs), -1), axis=1)
            for x in pair
        )
    elif isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism):
        z, a, b = (
            np.asarray(manifold.normal_coordinates(mechanism.base, x))
            for x in (outputs, *pair)
        )
        one, two = np.linalg.norm(z - a, axis=-1), np.linalg.norm(z - b, axis=-1)
    else:
        one, two = (np.asarray(manifold.dist(x, outputs)) for x in pair)
    return [rounded(two - one), rounded(two**2 - one**2)]


def data_sets(manifold: Manifold, radius: float, n: int) -> Pair:
    """All records at one end of the ball about the origin; one of them is replaced by the other end."""
    step = radius * _unit(manifold.dim, manifold.dim - 1)
    near, far = (
        manifold.from_normal_coordinates(np.asarray(manifold.origin), sign * step)
        for sign in (1, -1)
    )
    records = np.stack([near] * n)
    return records, np.concatenate([records[:-1], far[None]])


def rounded(score: np.ndarray) -> np.ndarray:
    """To the grid 2^-26, so that an event cannot look at the last bits of floats."""
    return np.asarray(np.round(score * 2.0**26) * 2.0**-26)


def _across(
    M: Manifold,
    base: np.ndarray,
    radial: np.ndarray,
    side: np.ndarray,
    step: float,
    reach: float,
) -> Pair:
    """Chart points at the edge of the ball, as far apart along `side` as a distance of `step` on the manifold allows."""

    def pair(half: np.ndarray) -> Pair:
        height = np.sqrt(np.maximum(reach**2 - half**2, 0.0))
        return height * radial - half * side, height * radial + half * side

    low, high = np.zeros((len(radial), 1)), np.full((len(radial), 1), reach)
    for _ in range(40):
        middle = (low + high) / 2
        a, b = (M.from_normal_coordinates(base, z) for z in pair(middle))
        near = (np.asarray(M.dist(a, b)) <= step)[:, None]
        low, high = np.where(near, middle, low), np.where(near, high, middle)
    return pair(low)


def _worst_direction(manifold: Manifold) -> np.ndarray:
    """Along the most negatively curved factor of a product, where the Gaussian costs most; any direction elsewhere."""
    if (
        len(manifold.factors) == 1
    ):  # on SPD(2) = ℝ × H² the last coordinate is off the diagonal: in H²
        return _unit(manifold.dim, manifold.dim - 1)
    place = int(np.argmin([f.curvature_bounds[0] for f in manifold.factors]))
    return _unit(manifold.dim, sum(f.dim for f in manifold.factors[:place]))


def _unit(dim: int, place: int) -> np.ndarray:
    return np.asarray(np.eye(dim)[place])
