"""Gaussian noise on the subspaces of ℝ^m, Grassmann(m, r), of rank p = min(r, m − r) ≥
2. Two subspaces differ by p principal angles θ; q = m − p. The density is ∝
exp(−|θ|²/2σ²), with θ the angles to the center of the noise, and draws are made by
rejection under an envelope.

In a tangent space it is a normal density times the volume of the exponential map, which
is at most 1. Tangent normals are accepted by that volume, under the tangent of the
concave function u ↦ log(sin √u/√u). The normalizer is a Pfaffian (docs/theory/laws.md,
Subspaces). `curvedp.laws.exact.grassmann` draws without rounding, for releases.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry import Grassmann
from curvedp.geometry.manifold import Manifold
from curvedp.laws.backend import Floats, LawBackend

# Below this acceptance a draw would cost more than 10^5 proposals.
_SMALLEST_ACCEPTANCE = 1e-5

# A log-ratio target/envelope above 0 by less than this is round-off.
_ROUNDING = 1e-9
# The tangent of an envelope touches at a point of (0, π) that is this far from its ends.
_TOUCH_MARGIN = 1e-3

# The largest principal angle between two subspaces.
LARGEST_ANGLE = math.pi / 2

# Gauss–Legendre rule on [-1, 1].
_ORDER = 120
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_ORDER)


def rank_of(manifold: Manifold) -> int | None:
    """Return the rank min(r, m − r) of Grassmann(m, r).

    It is the number of principal angles between two subspaces.

    Parameters
    ----------
    manifold : Manifold
        Any manifold.

    Returns
    -------
    int or None
        None on other manifolds than Grassmann(m, r).
    """
    if not isinstance(manifold, Grassmann):
        return None
    return min(manifold.r, manifold.m - manifold.r)


@dataclass(frozen=True)
class GrassmannGaussian(LawBackend):
    """Sampler and integrals of the Gaussian law exp(−d²/2σ²) on subspaces of ℝ^m.

    d = |θ| is the distance to the footpoint, θ the p principal angles. Moments and the
    distribution function of d are known for rank p = 2 only.

    Parameters
    ----------
    manifold : Grassmann
        The subspaces.
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    scale : float
        The scale σ of the law.
    """

    manifold: Grassmann
    p: int
    q: int
    scale: float

    @property
    def log_normalizer(self) -> float:
        """log ∫ exp(−d²/2σ²) dvol, as a Pfaffian (`_log_mass`).

        d is the distance to the footpoint, and σ the scale.
        """
        return _log_mass(self.p, self.q, self.scale)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(d ≤ r) elementwise, by quadrature over the two principal angles.

        Parameters
        ----------
        r : array_like
            Distances from the footpoint.

        Returns
        -------
        array
            P(d ≤ r), of the shape of `r`.

        Raises
        ------
        ParameterError
            For rank 3 and more.
        """
        radius = np.asarray(r, dtype=np.float64)
        total = self._integral_up_to(math.inf)
        values = [self._integral_up_to(x) / total for x in radius.ravel().tolist()]
        return np.array(values).reshape(radius.shape)

    def moment(self, order: int) -> float:
        """Return the moment E[d^k] of the distance d to the footpoint, by quadrature.

        Parameters
        ----------
        order : int
            The power k.

        Returns
        -------
        float
            E[d^k].

        Raises
        ------
        ParameterError
            For rank 3 and more.
        """
        return self._integral_up_to(math.inf, order) / self._integral_up_to(math.inf)

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Return `count` subspaces by rejection from normals of the tangent space.

        A proposal is a matrix Z of independent normals, whose singular values are the
        principal angles θ of the point exp(Z). It is rejected beyond the cut locus,
        θ₁ ≥ π/2, and otherwise accepted with probability target/envelope.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        center : array of shape (m, r) or (count, m, r)
            One footpoint, or one for each draw.
        count : int
            The number of draws.

        Returns
        -------
        array of shape (count, m, r)
            Orthonormal bases of the subspaces.

        Raises
        ------
        EnvelopeViolation
            If the target exceeds the envelope at a proposal, which disproves it.
        """
        envelope = _best_envelope(self.p, self.q, self.scale)
        coordinates = np.empty((count, self.manifold.dim))
        n_done = 0
        while n_done < count:
            # As many proposals as the missing draws are expected to take, and a few
            # more, so that hardly any batch of a few draws has to be repeated.
            missing = count - n_done
            n_proposals = int(missing / math.exp(envelope.log_acceptance)) + 16
            accepted = self._accepted_proposals(rng, envelope, n_proposals)[:missing]
            coordinates[n_done : n_done + len(accepted)] = accepted
            n_done += len(accepted)
        v = self.manifold.from_coordinates(center, coordinates)
        return np.asarray(self.manifold.exp(center, v))

    def _accepted_proposals(
        self, rng: np.random.Generator, envelope: "_Envelope", count: int
    ) -> Floats:
        """Propose `count` normal tangent vectors, and return those that are accepted.

        Called by `draw` until there are enough draws.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        envelope : _Envelope
            The distribution of the proposals.
        count : int
            The number of proposals.

        Returns
        -------
        array of shape (n_accepted, dim)
            Coordinates of tangent vectors.
        """
        m, r = self.manifold.point_shape
        proposals = rng.normal(0.0, envelope.deviation, (count, self.manifold.dim))
        matrices = proposals.reshape(count, m - r, r)
        angles: Floats = np.linalg.svd(matrices, compute_uv=False).astype(np.float64)

        # Leave out those beyond the cut locus; the angles are in decreasing order.
        is_inside = angles[:, 0] < LARGEST_ANGLE
        proposals = proposals[is_inside]
        log_ratio = self._log_ratio(angles[is_inside], envelope)
        if not np.all(log_ratio <= _ROUNDING):
            raise EnvelopeViolation(
                f"log ratio {np.max(log_ratio)!r} > 0 on {self.manifold!r}"
            )
        # Minus an exponential variate is the logarithm of a uniform one.
        is_accepted = log_ratio > -rng.standard_exponential(len(proposals))
        return np.asarray(proposals[is_accepted])

    def _log_ratio(self, angles: Floats, envelope: "_Envelope") -> Floats:
        """Return log(target/envelope) at the principal angles θ of proposals.

        With sinc x = sin x/x, the volume of exp at a tangent vector is

            ∏_{i<j} sinc(θᵢ − θⱼ)·sinc(θᵢ + θⱼ) · ∏ᵢ sinc(θᵢ)^{q−p}.

        The envelope puts e^{a + b·x²} for each of the p(q − 1) factors sinc x. The
        squares x² add up to (p + q − 2)·|θ|².

        The log-ratio must not be positive, except by round-off: every proposal is
        checked.

        Parameters
        ----------
        angles : array of shape (n, p)
            Principal angles, each row in decreasing order.
        envelope : _Envelope
            The intercept a and the slope b.

        Returns
        -------
        array of shape (n,)
            Numbers ≤ 0, up to round-off.
        """
        # The volume: one column for each pair i < j of angles, or for each angle.
        i, j = np.triu_indices(self.p, 1)
        difference = angles[:, i] - angles[:, j]
        total = angles[:, i] + angles[:, j]
        log_ratio = np.sum(_log_sinc(difference) + _log_sinc(total), axis=1)
        log_ratio += (self.q - self.p) * np.sum(_log_sinc(angles), axis=1)

        # The envelope.
        squares = np.sum(angles * angles, axis=1)
        log_ratio -= (
            self.p * (self.q - 1) * envelope.intercept
            + envelope.slope * (self.p + self.q - 2) * squares
        )
        return np.asarray(log_ratio)

    def _integral_up_to(self, r: float, order: int = 0) -> float:
        """Return ∫ d^k·exp(−d²/2σ²)·volume over π/2 > θ₁ > θ₂ with d = |θ| ≤ r.

        The volume is ∏ sin^{q−2}(θᵢ)·sin(θ₁ − θ₂)·sin(θ₁ + θ₂). The integral is known
        up to a constant that does not depend on r and k; ratios give probabilities and
        moments.

        θ are the two principal angles, σ is the scale, and q the larger dimension of a
        subspace and its complement.

        Parameters
        ----------
        r : float
            The largest distance; it may be infinite.
        order : int
            The power k of the distance.

        Returns
        -------
        float
            A multiple of the integral.

        Raises
        ------
        ParameterError
            For rank 3 and more, whose angles need a higher-dimensional quadrature.
        """
        if self.p > 2:
            raise ParameterError(
                f"the law of the distance on {self.manifold!r} is known for rank 2 only"
            )
        r = max(min(r, _practical_radius(2, self.q, self.scale)), 0.0)
        # θ₂ ends at θ₁ up to this θ₁, and beyond it at the circle |θ| = r. Each of the
        # two ranges of θ₁ has a rule of its own, because the domain has a corner between
        # them.
        corner = min(r / math.sqrt(2), LARGEST_ANGLE)
        largest_first = min(r, LARGEST_ANGLE)
        below_corner = self._integral_over_range(0.0, corner, r, order)
        above_corner = self._integral_over_range(corner, largest_first, r, order)
        return below_corner + above_corner

    def _integral_over_range(
        self, low: float, high: float, r: float, order: int
    ) -> float:
        """Return the part of `_integral_up_to` with θ₁ between two angles.

        Parameters
        ----------
        low, high : float
            The range of θ₁.
        r : float
            The largest distance.
        order : int
            The power k of the distance.

        Returns
        -------
        float
            A multiple of the integral.
        """
        # Rows are the nodes θ₁, columns the nodes θ₂.
        first = (low + (high - low) * (_NODES + 1) / 2)[:, None]
        on_circle = np.sqrt(np.maximum(r * r - first * first, 0.0))
        end = np.minimum(first, on_circle)
        second = end * (_NODES + 1) / 2

        # About ∏ sin θ where the integrand is largest: dividing by it avoids underflow.
        unit = min(1.0, self.scale**2 * max(1.0, (self.q - 2) / math.e))
        square = first**2 + second**2
        integrand = np.exp(-square / (2 * self.scale**2)) * square ** (order / 2)
        integrand *= np.sin(first - second) * np.sin(first + second) / unit
        integrand *= (np.sin(first) * np.sin(second) / unit) ** (self.q - 2)

        # The rule in θ₂, and then the rule in θ₁.
        integral = float(_WEIGHTS @ (integrand * end / 2) @ _WEIGHTS)
        return integral * (high - low) / 2


def _log_sinc(x: Floats) -> Floats:
    """Return log(sin x/x) elementwise for |x| < π; it is 0 at x = 0."""
    return np.asarray(np.log(np.sinc(x / math.pi)))


def _practical_radius(p: int, q: int, sigma: float) -> float:
    """Return the distance from the footpoint at which integrals may end.

    A normal of the p·q-dimensional tangent space is longer with probability below
    1e-30. No distance exceeds √p·π/2.

    Parameters
    ----------
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    sigma : float
        The scale σ.

    Returns
    -------
    float
        A distance of at most √p·π/2.
    """
    return min(sigma * (math.sqrt(p * q) + 12), LARGEST_ANGLE * math.sqrt(p))


class _Envelope(NamedTuple):
    """The bound log(sin x/x) ≤ intercept + slope·x², as a normal of the tangent space.

    Parameters
    ----------
    intercept, slope : float
        The tangent of u ↦ log(sin √u/√u), a concave function of u = x².
    deviation : float
        Standard deviation of the normal proposals.
    log_acceptance : float
        Logarithm of the probability that a proposal is accepted.
    """

    intercept: float
    slope: float
    deviation: float
    log_acceptance: float


@lru_cache(maxsize=64)
def _best_envelope(p: int, q: int, sigma: float) -> _Envelope:
    """Return the envelope whose proposals are accepted most often.

    The tangent of the concave function u ↦ log(sin √u/√u) at any u = x² gives a valid
    envelope. The best x makes the mass of the envelope smallest.

    Called by `draw`; the result is cached, because it depends on public numbers only.

    Parameters
    ----------
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    sigma : float
        The scale σ.

    Returns
    -------
    _Envelope
        The tangent, the normal proposals and their acceptance.

    Raises
    ------
    ParameterError
        If even the best envelope accepts too few proposals.
    """
    # The tangent that makes the mass of the envelope smallest.
    best_touch_point = scipy.optimize.minimize_scalar(
        lambda x: _log_envelope_mass(x, p, q, sigma),
        bounds=(_TOUCH_MARGIN, math.pi - _TOUCH_MARGIN),
        method="bounded",
    ).x

    # The acceptance: the mass of the target over that of the envelope.
    log_flat_mass = p * q / 2 * math.log(2 * math.pi)
    log_envelope_mass = _log_envelope_mass(best_touch_point, p, q, sigma)
    log_acceptance = _log_mass(p, q, sigma) - log_envelope_mass - log_flat_mass

    # Refuse an envelope that accepts too few proposals.
    if log_acceptance < math.log(_SMALLEST_ACCEPTANCE):
        raise ParameterError(
            f"is too large: the envelope accepts {math.exp(log_acceptance):.1e} of its "
            "proposals; use a smaller scale",
            parameter="scale",
            value=sigma,
        )

    intercept, slope = _log_sinc_tangent(best_touch_point)
    deviation = _proposal_deviation(slope, p, q, sigma)
    return _Envelope(intercept, slope, deviation, log_acceptance)


def _log_sinc_tangent(x: float) -> tuple[float, float]:
    """Return intercept and slope of the tangent of u ↦ log(sin √u/√u) at u = x².

    An envelope consists of such tangents, one for each factor of the volume.

    Parameters
    ----------
    x : float
        The point at which the tangent touches, between 0 and π.

    Returns
    -------
    intercept, slope : float
        Numbers a ≥ 0 and b < 0 with log(sin y/y) ≤ a + b·y² for all y in (0, π).
    """
    slope = (x / math.tan(x) - 1) / (2 * x * x)
    intercept = math.log(math.sin(x) / x) - slope * x * x
    return intercept, slope


def _proposal_deviation(slope: float, p: int, q: int, sigma: float) -> float:
    """Return the standard deviation s of the normal proposals under an envelope.

    The envelope is exp(−|θ|²/2σ² + b·(p + q − 2)·|θ|²), so that
    1/s² = 1/σ² − 2b·(p + q − 2).

    Parameters
    ----------
    slope : float
        The slope b < 0 of the tangent.
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    sigma : float
        The scale σ.

    Returns
    -------
    float
        The standard deviation s, at most σ.
    """
    return 1 / math.sqrt(1 / sigma**2 - 2 * slope * (p + q - 2))


def _log_envelope_mass(x: float, p: int, q: int, sigma: float) -> float:
    """Return the log-mass of the envelope by the tangent at x, minus (pq/2)·log 2π.

    It is log(s^{pq}·e^{a·p(q−1)}), with the standard deviation s of the proposals and
    the intercept a of the tangent: the volume has p(q − 1) factors sin y/y.

    Parameters
    ----------
    x : float
        The point at which the tangent touches, between 0 and π.
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    sigma : float
        The scale σ.

    Returns
    -------
    float
        The logarithm; the least one over x gives the best envelope.
    """
    intercept, slope = _log_sinc_tangent(x)
    deviation = _proposal_deviation(slope, p, q, sigma)
    return p * q * math.log(deviation) + p * (q - 1) * intercept


def acceptance_without_envelope(p: int, q: int, sigma: float) -> float:
    """Return the probability that a normal tangent vector is accepted by its volume.

    Exact draws for releases (`curvedp.laws.exact.grassmann`) use no tangent envelope;
    this says how many proposals they need.

    Parameters
    ----------
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    sigma : float
        The scale σ.

    Returns
    -------
    float
        A number between 0 and 1: the normalizer, divided by (2πσ²)^{pq/2}.
    """
    log_flat_mass = p * q / 2 * math.log(2 * math.pi * sigma * sigma)
    return math.exp(_log_mass(p, q, sigma) - log_flat_mass)


@lru_cache(maxsize=64)
def _log_mass(p: int, q: int, sigma: float) -> float:
    """Return log ∫ exp(−|θ|²/2σ²) dvol over Grassmann, the normalizer of the Gaussian.

    With x = sin²θ the volume is ∏ sin^{q−p}(θᵢ)·∏_{i<j}(xᵢ − xⱼ), up to a constant. The
    second product is a Vandermonde determinant. So de Bruijn's formula gives the
    integral over θ₁ > … > θ_p as the Pfaffian of the skew-symmetric matrix

        A_jk = ∫∫_{s<t} (f_j(s)·f_k(t) − f_k(s)·f_j(t)) ds dt,

    where f_0, …, f_{p−1} are polynomials in x times exp(−θ²/2σ²)·sin^{q−p}(θ). For odd
    p a row and a column with the integrals ∫f_j are added.

    tests/laws/test_grassmann.py compares it with cubature over the angles.

    Parameters
    ----------
    p, q : int
        The dimensions of a subspace and of its complement, p ≤ q.
    sigma : float
        The scale σ.

    Returns
    -------
    float
        The logarithm of the normalizer.
    """
    # Nodes t in (0, end), and sines in units of the largest one.
    end = min(LARGEST_ANGLE, _practical_radius(p, q, sigma))
    t = end * (_NODES + 1) / 2
    sine = np.sin(t) / math.sin(end)
    density = np.exp(-((t / sigma) ** 2) / 2) * sine ** (q - p)
    weight = _WEIGHTS * end / 2

    # Polynomials orthonormal for the density, P = V·R⁻¹: nothing cancels, and
    # det V = det P·∏ Rᵢᵢ.
    powers = (sine**2)[:, None] ** np.arange(p)
    root = np.sqrt(weight * density)[:, None]
    frame, triangle = np.linalg.qr(root * powers)
    values = frame / root * density[:, None]  # f_j at the nodes

    # The Pfaffian is the square root of the determinant.
    integrals_below = end / 2 * _cumulative_matrix() @ values  # ∫_{s<t} f_j(s) ds
    matrix = _de_bruijn_matrix(values, integrals_below, weight)
    log_pfaffian = np.linalg.slogdet(matrix)[1] / 2

    # Undo the changes of units: of the polynomials, of the sines, and of the volume.
    log_ordered = log_pfaffian + float(np.sum(np.log(np.abs(np.diag(triangle)))))
    log_units = (p * (q - p) + p * (p - 1)) * math.log(math.sin(end))
    log_flat_mass = p * q / 2 * math.log(2 * math.pi)
    return float(log_ordered + log_units + log_flat_mass - _log_selberg(p, q))


def _de_bruijn_matrix(
    values: Floats, integrals_below: Floats, weight: Floats
) -> Floats:
    """Return the skew-symmetric matrix A of `_log_mass`, with its border for odd p.

    Parameters
    ----------
    values : array of shape (n, p)
        f_j(t) at the nodes t.
    integrals_below : array of shape (n, p)
        ∫_{s<t} f_j(s) ds.
    weight : array of shape (n,)
        The weights of the rule in t.

    Returns
    -------
    array of shape (p, p), or (p + 1, p + 1) for odd p
        The matrix, of even size.
    """
    pairs = integrals_below.T @ (weight[:, None] * values)
    matrix = pairs - pairs.T
    p = values.shape[1]
    if p % 2 == 0:
        return np.asarray(matrix)
    border = weight @ values  # ∫f_j
    corner = np.zeros((1, 1))
    return np.block([[matrix, border[:, None]], [-border[None], corner]])


def _log_selberg(p: int, q: int) -> float:
    """Return the log-integral of exp(−|s|²/2)·∏ sᵢ^{q−p}·∏_{i<j}(sᵢ² − sⱼ²).

    It is over s₁ > … > s_p > 0, the singular values of p×q matrices, and known by
    Selberg's formula. Normal p×q matrices have the total mass (2π)^{pq/2}. The ratio of
    the two is the constant of the volume on Grassmann, which is flat in the limit
    σ → 0.

    Used by `_log_mass`, which is known up to the constant of the volume.

    Parameters
    ----------
    p, q : int
        The numbers of rows and columns, p ≤ q.

    Returns
    -------
    float
        The logarithm of the integral.
    """
    log_integral = p * (q - 2) / 2 * math.log(2) - math.lgamma(p + 1)
    for j in range(p):
        log_integral += math.lgamma((q - p + 1 + j) / 2)
        log_integral += math.lgamma((3 + j) / 2) - math.lgamma(1.5)
    return log_integral


@lru_cache(maxsize=1)
def _cumulative_matrix() -> Floats:
    """Return the matrix that maps values at the nodes to integrals up to the nodes.

    A function is replaced by its Legendre series Σ c_k P_k, which is integrated term by
    term: ∫_{−1}^x P_k = (P_{k+1}(x) − P_{k−1}(x))/(2k + 1) for k ≥ 1, and x + 1 for
    k = 0.

    Returns
    -------
    array of shape (n, n)
        The matrix, for the n nodes of the Gauss–Legendre rule on [−1, 1].
    """
    # The integral of P_k from −1 to each node: rows are nodes, columns are k.
    legendre = np.polynomial.legendre.legvander(_NODES, _ORDER)
    integrals = np.empty((_ORDER, _ORDER))
    integrals[:, 0] = _NODES + 1
    degree = np.arange(1, _ORDER)
    integrals[:, 1:] = (legendre[:, 2:] - legendre[:, :-2]) / (2 * degree + 1)

    # The coefficient c_k of f is (2k + 1)/2·∫ f·P_k, computed by the rule itself.
    inverse_norms = (2 * np.arange(_ORDER) + 1) / 2
    coefficients = inverse_norms * legendre[:, :-1] * _WEIGHTS[:, None]
    return np.asarray(integrals @ coefficients.T)
