"""What an attacker can prove about a mechanism from its outputs: a lower bound on ε, to hold against the claim.

The worst pair of neighbours is two statistics exactly the sensitivity apart. The best event, by Neyman and Pearson, is a
threshold of the privacy loss; here the loss is learnt without the mechanism's own formula, from the difference of the
distances to the two statistics, so that a mechanism with the wrong law is caught too.
"""

from typing import NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.audit.release_attacks import distinguish
from curvedp.mechanisms.base import Mechanism

__all__ = ["AuditResult", "audit_mechanism"]

_BINS = 64


class AuditResult(NamedTuple):
    """`audited` is a lower bound on ε at `delta` that holds with the given confidence; `claimed` is the profile's ε."""

    claimed: float
    audited: float
    delta: float
    samples: int
    confidence: float

    @property
    def holds(self) -> bool:
        """Whether the claim survived."""
        return self.audited <= self.claimed


def audit_mechanism(
    mechanism: Mechanism,
    samples: int = 100_000,
    delta: float = 1e-3,
    confidence: float = 1 - 1e-6,
    rng: np.random.Generator | None = None,
    sampler: Mechanism | None = None,
) -> AuditResult:
    """Attack the claim of `mechanism` with `samples` draws at each of two neighbouring statistics.

    `sampler` is the mechanism that draws, by default the same one: giving another shows that a wrong one is caught.

    >>> from curvedp.geometry import Sphere
    >>> from curvedp.mechanisms import GaussianMechanism
    >>> audit_mechanism(GaussianMechanism(Sphere(2), 0.5, 0.5), samples=20000, rng=np.random.default_rng(0)).holds
    True
    """
    samples = _validate.integer("samples", samples, 100)
    rng = np.random.default_rng() if rng is None else rng
    manifold, drawn = mechanism.manifold, mechanism if sampler is None else sampler
    step = np.zeros(manifold.dim)
    step[0] = mechanism.sensitivity
    first = np.asarray(getattr(mechanism, "base", manifold.origin))
    second = np.asarray(manifold.exp(first, manifold.from_coordinates(first, step)))

    def score(statistic: np.ndarray) -> np.ndarray:
        points = drawn.simulate(rng, statistic, samples)
        gap: np.ndarray = np.asarray(manifold.dist(second, points)) ** 2 - np.asarray(manifold.dist(first, points)) ** 2
        return gap

    one, two = score(first), score(second)
    # Bins by quantiles of a part that is not tested: `distinguish` uses even entries to choose and odd ones to test.
    edges = np.quantile(np.concatenate([one[::2], two[::2]]), np.linspace(0, 1, _BINS + 1)[1:-1])
    audited = distinguish(np.digitize(one, edges), np.digitize(two, edges), delta=delta, confidence=confidence)
    return AuditResult(float(mechanism.profile.epsilon(delta)), max(audited, 0.0), delta, samples, confidence)
