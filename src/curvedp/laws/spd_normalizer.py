"""The affine-invariant Gaussian on SPD and HPD matrices: normalizer, moments and radial CDF in closed form, no sampling.

By formulas of Weyl and de Bruijn the integral over the log-eigenvalues is a Pfaffian of erf's (Heuveline, Said, Mostajeran
2021), on Hermitian matrices (β = 2) a product: docs/spd-gaussian.md and docs/laws.md. The Pfaffian cancels like
σ^{m(m−1)/2}: it is evaluated in ball arithmetic, the precision doubled until the ball is small. The formula is analytic in σ,
which gives E e^{−t|ρ|²} as a ratio of two normalizers, the scale of one complex, and the CDF of |ρ| by inverting that.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from flint import acb, acb_mat, arb, arb_mat
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, gammaincinv

from curvedp._validate import integer, positive
from curvedp.errors import ParameterError
from curvedp.numerics.enclosures import precision

_STEP = 1 / 48  # a trapezoidal error of e⁻⁴⁸ before the integrand's growth
_MAX_BITS = (
    1 << 17
)  # a bound on work, far above what m = 20 with scale 1e-9 asks for (about 2^13)


def dimension(m: int, beta: int) -> int:
    """Of real symmetric (β = 1) or Hermitian (β = 2) m×m matrices."""
    return m + beta * m * (m - 1) // 2


def log_normalizer(m: int, sigma: float, beta: int = 1) -> float:
    """log ∫ exp(−d(X,I)²/2σ²) dvol(X) over the SPD m×m matrices (β = 2: HPD), volume of the metric tr(W⁻¹UW⁻¹V)."""
    m, sigma = integer("m", m, 1), positive("sigma", sigma)
    drifted = (
        0.5 * m * math.log(2 * math.pi * sigma * sigma)
        + (beta * sigma) ** 2 * m * (m * m - 1) / 24
    )
    return log_volume_constant(m, beta) + drifted + log_ordered_share(m, sigma, beta)


def log_volume_constant(m: int, beta: int) -> float:
    """log of C in dvol = C ∏ (2·sinh((ρᵢ−ρⱼ)/2))^β dρ dQ on ρ₁ > … > ρ_m, Q of mass 1.

    C does not depend on σ, and for σ → 0 the Gaussian's volume is that of the flat space of such matrices, (2πσ²)^{dim/2},
    while sinh x → x gives Mehta's integral: that fixes C.
    """
    mehta = sum(
        math.lgamma(1 + beta / 2) - math.lgamma(1 + beta * j / 2)
        for j in range(1, m + 1)
    )
    return math.lgamma(m + 1) + beta * m * (m - 1) / 4 * math.log(2 * math.pi) + mehta


def log_ordered_share(m: int, sigma: float, beta: int = 1) -> float:
    """The log-probability that the far proposal of the sampler is accepted."""
    if beta == 1:
        return log_pfaffian(m, sigma)
    return sum((m - k) * math.log(-math.expm1(-sigma * sigma * k)) for k in range(1, m))


@lru_cache(maxsize=256)
def log_pfaffian(m: int, sigma: float) -> float:
    """log Pf[erf(σ(k−j)/2)]."""
    return float(_refined(lambda: _pfaffian(m, arb(sigma)).log(), m, sigma).mid())


@lru_cache(maxsize=256)
def mean_square_radius(m: int, sigma: float, beta: int = 1) -> float:
    """E d(X, footpoint)² = −∂ log Z / ∂(1/2σ²), exactly; dim·σ² to first order."""
    m, sigma = integer("m", m, 1), positive("sigma", sigma)
    if beta == 2:
        slopes = sum((m - k) * k / math.expm1(sigma * sigma * k) for k in range(1, m))
        return m * sigma**2 + sigma**4 * m * (m * m - 1) / 3 + 2 * sigma**4 * slopes

    def value() -> Any:
        s = arb(sigma)
        matrix = arb_mat(_half(m, [(s * k / 2).erf() for k in range(m)], arb(1)))
        # d erf(σk/2)/dσ = k/√π · exp(−σ²k²/4)
        slope = arb_mat(
            _half(
                m,
                [k * (-((s * k / 2) ** 2)).exp() / arb.pi().sqrt() for k in range(m)],
                arb(0),
            )
        )
        log_slope = matrix.solve(slope).trace()  # d log det B = tr(B⁻¹ dB)
        return m + s**2 * m * (m * m - 1) / 12 + s * log_slope

    return sigma * sigma * (float(_refined(value, m, sigma).mid()) if m > 1 else 1.0)


def radial_cdf(
    m: int, sigma: float, r: ArrayLike, beta: int = 1
) -> NDArray[np.float64]:
    """P(d(X, footpoint) ≤ r), by inverting the Laplace transform of |ρ|². Absolute error below 1e-9."""
    m, sigma = integer("m", m, 1), positive("sigma", sigma)
    radius = np.maximum(np.asarray(r, dtype=np.float64), 0.0)
    if np.any(np.isnan(radius)):
        raise ParameterError("r must not be NaN")
    if m == 1:
        return np.asarray(erf(radius / (sigma * math.sqrt(2))))
    # sinh x / x increases, so |ρ| is stochastically larger than in the flat case: below `low` that bound is < 1e-18.
    low = sigma * math.sqrt(2 * gammaincinv(dimension(m, beta) / 2, 1e-18))
    # The far envelope of the sampler, N(βσ²h, σ²I) over its acceptance, bounds the other tail: above `high` it is < e⁻⁴².
    drift = beta * sigma * math.sqrt(m * (m * m - 1) / 12)
    high = sigma * (
        drift + math.sqrt(m) + math.sqrt(2 * (42 - log_ordered_share(m, sigma, beta)))
    )
    out = np.where(radius >= high, 1.0, 0.0)
    inside = (radius > low) & (radius < high)
    r_in = radius[inside] / sigma
    # One contour serves the radii within about one standard deviation: a factor e^{1/4} below 4σ, a length σ above.
    bins = np.floor(np.where(r_in < 4, 4 * np.log(r_in / 4), r_in - 4)).astype(int)
    values = np.empty(r_in.shape)
    for b in np.unique(bins):
        chosen = np.flatnonzero(bins == b)
        whole, nodes, log_weight = _contour(m, sigma, int(b), beta)
        for piece in np.array_split(chosen, chosen.size // 4096 + 1):
            x = (sigma * r_in[piece]) ** 2
            values[piece] = whole + np.exp(
                np.multiply.outer(x, nodes) + log_weight
            ).real.sum(axis=1)
    out[inside] = np.clip(values, 0.0, 1.0)
    return out


@lru_cache(maxsize=4096)
def _contour(
    m: int, sigma: float, b: int, beta: int
) -> tuple[float, NDArray[np.complex128], NDArray[np.complex128]]:
    """Nodes and log-weights of F(x) = whole + Re Σ exp(x·node + log_weight) for the radii of bin b.

    F(x) = (1/2πi) ∫ e^{tx} E[e^{−tR}]/t dt with R = |ρ|², t + 1/2σ² = w² (docs/spd-gaussian.md). The path is the vertical
    line Re w = p through the saddle, where the integrand is e^{−qx·s²} wide with 2 ≤ q ≤ 4; the only pole is
    w₀ = 1/(√2·σ), left of which the integral is F − 1.
    """
    x = (sigma * (4 * math.exp((b + 0.5) / 4) if b < 0 else b + 4.5)) ** 2
    mean = mean_square_radius(m, sigma, beta)
    # dim·s² ≤ E R ≤ dim·s² + β²s⁴m(m²−1)/12 + …: bracket the saddle's scale by doubling
    low = high = sigma
    while mean_square_radius(m, low, beta) > x:
        low /= 2
    while mean_square_radius(m, high, beta) < x:
        high *= 2
    scale = sigma
    if low < high:
        scale = scipy.optimize.brentq(
            lambda s: mean_square_radius(m, s, beta) - x, low, high, rtol=1e-3
        )
    pole, gap = (
        1 / (math.sqrt(2) * sigma),
        1 / math.sqrt(x),
    )  # gap: two widths of the integrand
    left = x > mean and gap <= pole / 4
    p = (
        min(1 / (math.sqrt(2) * scale), pole - gap)
        if left
        else max(1 / (math.sqrt(2) * scale), pole + gap)
    )
    # The rule's error is e^{−2πδ/step} times the growth of the integrand when the line moves by δ: at most to the
    # pole, and away from the essential singularity at w = 0; three widths cost a factor below e⁹.
    step = _STEP * 2 * math.pi * min(abs(p - pole), p / 4, 1.5 * gap)
    s = np.arange(math.ceil(6.5 * gap / step)) * step
    w = np.asarray(p + 1j * s, dtype=np.complex128)
    log_z = np.array([_complex_log_integral(m, complex(z), beta) for z in w])
    log_z -= _complex_log_integral(m, complex(pole), beta)
    log_weight = log_z + np.log(2 * w / (w * w - pole * pole) * (step / math.pi))
    log_weight[0] -= math.log(2)
    return (1.0 if left else 0.0), w * w - pole * pole, log_weight


def _complex_log_integral(m: int, w: complex, beta: int) -> complex:
    """log of Z at the complex scale 1/(√2·w), without factors that do not depend on w."""
    if beta == 2:
        square, k = 1 / (2 * w * w), np.arange(1, m)
        share = np.sum((m - k) * np.log(-np.expm1(-square * k)))
        return complex(m * np.log(square) / 2 + square * m * (m * m - 1) / 6 + share)

    def value() -> Any:
        s = 1 / (acb(w.real, w.imag) * acb(2).sqrt())
        return m * s.log() + s**2 * m * (m * m - 1) / 24 + _pfaffian(m, s).log()

    return complex(_refined(value, m, 1 / (math.sqrt(2) * abs(w))))


def _half(m: int, f: list[Any], one: Any) -> list[list[Any]]:
    """A matrix of half the size whose determinant is the Pfaffian of the odd Toeplitz matrix f(k−j), j, k = 1…m, which
    carries symmetric vectors to antisymmetric ones: f(m+1−j−k) − f(k−j), with a column of ones if m is odd."""

    def odd(t: int) -> Any:
        return f[t] if t >= 0 else -f[-t]

    border = [one] if m % 2 else []
    return [
        [*border, *(odd(m + 1 - j - k) - odd(k - j) for k in range(1, m // 2 + 1))]
        for j in range(1, (m + 1) // 2 + 1)
    ]


def _pfaffian(m: int, sigma: Any) -> Any:
    """Pf[erf(σ(k−j)/2)] at a real or complex ball."""
    matrix = acb_mat if isinstance(sigma, acb) else arb_mat
    return matrix(
        _half(m, [(sigma * k / 2).erf() for k in range(m)], sigma * 0 + 1)
    ).det()


def _refined(value: Callable[[], Any], m: int, sigma: float) -> Any:
    """Evaluate at growing precision until the ball's radius is below 2^-55, absolutely or relative to its center."""
    bits = 100 + int(
        m * m / 8 * max(1.0, 2 - math.log2(sigma))
    )  # a first guess of the cancellation
    while bits <= _MAX_BITS:
        with precision(bits):
            try:
                ball = value()
            except ZeroDivisionError:  # a matrix that is singular at so few bits
                ball = arb("nan")
            if ball.is_finite() and (
                ball.rel_accuracy_bits() >= 55 or float(ball.rad()) < 2**-55
            ):
                return ball
        bits *= 2
    raise ParameterError(
        f"with m={m} needs more than {_MAX_BITS} bits; use a larger scale",
        parameter="sigma",
        value=sigma,
    )
