"""Integrals of Gaussian noise on positive definite matrices: the normalizer, the mean
square distance from the center, and the distribution of that distance. β is 1 for real
symmetric and 2 for Hermitian m×m matrices, and σ is the scale. They reduce to integrals
over the logarithms ρ of the eigenvalues.

By formulas of Weyl and de Bruijn these are a Pfaffian of error functions on real
matrices (Heuveline, Said and Mostajeran 2021) and a product on Hermitian ones:
docs/theory/spd-gaussian.md, docs/theory/laws.md.

The Pfaffian cancels like σ^{m(m−1)/2}. It is evaluated in ball arithmetic, and the
precision is doubled until the ball is small.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import acb, acb_mat, arb, arb_mat
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, gammaincinv

from curvedp._validate import integer, positive
from curvedp.errors import ParameterError
from curvedp.numerics.enclosures import precision

# The step of the trapezoidal rule on a contour, in units of 2π·(distance to the next
# singularity): an error of e⁻⁴⁸ before the growth of the integrand. A smaller step is
# safe and slower.
_RELATIVE_STEP = 1 / 48

# A limit on work, far above what m = 20 with scale 1e-9 needs (about 2^13 bits).
_MAX_BITS = 1 << 17

# Accuracy asked of a ball, in bits: two more than float64 has.
_ACCURACY_BITS = 55

# Radii whose exponentials are summed together.
_RADII_PER_BLOCK = 4096

# `radial_cdf` returns 0 where the probability is below the first number, and 1 where the
# other tail is below e^−42 (6e-19). Its stated error is 1e-9.
_NEGLIGIBLE_PROBABILITY = 1e-18
_NEGLIGIBLE_LOG_TAIL = 42

# A contour ends at this height, in units of 1/radius, where the Gaussian factor of the
# integrand is negligible. A larger height is safe and slower.
_CONTOUR_HEIGHT = 6.5
# The contour may be moved by this length, in units of 1/radius: three widths of the
# integrand, which then grows by a factor below e⁹. It is part of the error bound.
_FREE_MOVE = 1.5

# Bits of the first precision beyond those that cancel.
_SPARE_BITS = 100


def dimension(m: int, beta: int) -> int:
    """Return the dimension of the symmetric (β = 1) or Hermitian (β = 2) matrices.

    Parameters
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    int
        The number of free real entries.
    """
    return m + beta * m * (m - 1) // 2


def volume_growth_rate(m: int, beta: int) -> float:
    """Return the rate β|h| at which volumes grow: like e^{β|h|r} with the radius r.

    Here hᵢ = (m+1−2i)/2 is half the sum of the positive roots, so that β|h| is
    β·√(m(m²−1)/12). A Laplace law of scale σ exists on the matrices if 1/σ exceeds this
    rate.

    Parameters
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    float
        The rate.
    """
    return beta * math.sqrt(m * (m * m - 1) / 12)


def log_normalizer(m: int, sigma: float, beta: int = 1) -> float:
    """Return the log normalizer of the affine-invariant Gaussian on m×m matrices.

    It is log ∫ exp(−d(X, I)²/2σ²) dvol(X) over the symmetric or Hermitian positive
    definite matrices, with the volume of the metric tr(W⁻¹UW⁻¹V). In log-eigenvalues
    the integrand is a constant times the density of normal numbers N(βσ²h, σ²I), with
    hᵢ = (m+1−2i)/2, times the probability that they are accepted as a proposal.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    float
        The logarithm of the integral.
    """
    m = integer("m", m, 1)
    sigma = positive("sigma", sigma)

    # The mass of these normal numbers, and the mean of that probability.
    log_normal_mass = 0.5 * m * math.log(2 * math.pi * sigma * sigma)
    log_shift = (beta * sigma) ** 2 * m * (m * m - 1) / 24
    log_drifted_mass = log_normal_mass + log_shift
    log_acceptance = log_far_acceptance(m, sigma, beta)
    return log_volume_constant(m, beta) + log_drifted_mass + log_acceptance


def log_volume_constant(m: int, beta: int) -> float:
    """Return log C, the logarithm of the constant in the volume in polar coordinates.

    With log-eigenvalues ρ₁ > … > ρ_m and eigenvectors Q of total mass 1, the volume is

        dvol = C·∏_{i<j} (2·sinh((ρᵢ−ρⱼ)/2))^β dρ dQ.

    C does not depend on the scale σ. For σ → 0 the Gaussian has the mass
    (2πσ²)^{dim/2}, as on the flat space of such matrices, while sinh x → x gives
    Mehta's integral; together they determine C.

    Parameters
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    float
        log C.
    """
    log_mehta = sum(
        math.lgamma(1 + beta / 2) - math.lgamma(1 + beta * j / 2)
        for j in range(1, m + 1)
    )
    log_powers = beta * m * (m - 1) / 4 * math.log(2 * math.pi)
    return math.lgamma(m + 1) + log_powers + log_mehta


def log_far_acceptance(m: int, sigma: float, beta: int = 1) -> float:
    """Return the log-probability that a proposal of the far envelope is accepted.

    The proposals are log-eigenvalues ρ ~ N(βσ²h, σ²I) with hᵢ = (m+1−2i)/2. One is
    accepted with probability ∏_{i<j} (1 − e^{−(ρᵢ−ρⱼ)})^β if it is decreasing. For β =
    1 the probability of acceptance is the Pfaffian Pf[erf(σ(k−j)/2)], for β = 2 it is
    ∏ₖ (1 − e^{−σ²k})^{m−k}.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    float
        A logarithm <= 0.
    """
    if beta == 1:
        return log_pfaffian(m, sigma)
    return sum((m - k) * math.log(-math.expm1(-sigma * sigma * k)) for k in range(1, m))


@lru_cache(maxsize=256)
def log_pfaffian(m: int, sigma: float) -> float:
    """Return the logarithm of the Pfaffian Pf[erf(σ(k−j)/2)], j, k = 1, …, m.

    It is the normalizer of the Gaussian law on real m×m matrices, up to elementary
    factors. The value is certified in ball arithmetic.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.

    Returns
    -------
    float
        The logarithm, to 55 bits.
    """
    ball = _evaluate_accurately(lambda: _pfaffian(m, arb(sigma)).log(), m, sigma)
    return float(ball.mid())


@lru_cache(maxsize=256)
def mean_square_radius(m: int, sigma: float, beta: int = 1) -> float:
    """Return the mean square distance E[d²] of a draw from its center.

    Theorem. With the normalizer Z of the law, E[d²] = −∂ log Z/∂(1/2σ²). To first order
    it is dim·σ². For β = 2 the derivative is in closed form. For β = 1 it is the
    derivative of a Pfaffian, evaluated in ball arithmetic.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    float
        E[d²].
    """
    m = integer("m", m, 1)
    sigma = positive("sigma", sigma)
    if beta == 2:
        slopes = sum((m - k) * k / math.expm1(sigma * sigma * k) for k in range(1, m))
        return m * sigma**2 + sigma**4 * m * (m * m - 1) / 3 + 2 * sigma**4 * slopes
    if m == 1:
        return sigma * sigma * 1.0

    ball = _evaluate_accurately(lambda: _relative_mean_square(m, arb(sigma)), m, sigma)
    return sigma * sigma * float(ball.mid())


def _relative_mean_square(m: int, sigma: arb) -> arb:
    """Return E[d²]/σ² for β = 1, from the derivative d log det B = tr(B⁻¹ dB).

    B is the matrix of half the size whose determinant is the Pfaffian.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : arb
        The scale σ.

    Returns
    -------
    arb
        A ball around the ratio, at the current precision.
    """
    erf_values = [(sigma * k / 2).erf() for k in range(m)]
    # d erf(σk/2)/dσ = k/√π · exp(−σ²k²/4)
    erf_slopes = [
        k * (-((sigma * k / 2) ** 2)).exp() / arb.pi().sqrt() for k in range(m)
    ]
    matrix = arb_mat(_half_size_matrix(m, erf_values, arb(1)))
    matrix_slope = arb_mat(_half_size_matrix(m, erf_slopes, arb(0)))
    log_slope = matrix.solve(matrix_slope).trace()
    return m + sigma**2 * m * (m * m - 1) / 12 + sigma * log_slope


def radial_cdf(
    m: int, sigma: float, r: ArrayLike, beta: int = 1
) -> NDArray[np.float64]:
    """Return the probability that a Gaussian draw is at most r from its footpoint.

    The absolute error is below 1e-9. The normalizer is analytic in σ, which gives the
    Laplace transform of |ρ|², the squared distance, as a ratio of two normalizers, the
    scale of one of them complex. The distribution function follows by inverting it on a
    contour (docs/theory/spd-gaussian.md).

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    r : array-like
        Radii; NaN is refused.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    array
        Probabilities, of the shape of `r`.
    """
    m = integer("m", m, 1)
    sigma = positive("sigma", sigma)
    radius = np.maximum(np.asarray(r, dtype=np.float64), 0.0)
    if np.any(np.isnan(radius)):
        raise ParameterError("r must not be NaN")
    if m == 1:
        return np.asarray(erf(radius / (sigma * math.sqrt(2))))

    # The result is 0 below `low`, 1 above `high`, and the inverse transform between.
    low, high = _practical_range(m, sigma, beta)
    probabilities = np.where(radius >= high, 1.0, 0.0)
    is_between = (radius > low) & (radius < high)
    inverted = _invert_laplace_transform(m, sigma, radius[is_between] / sigma, beta)
    probabilities[is_between] = np.clip(inverted, 0.0, 1.0)
    return probabilities


def _practical_range(m: int, sigma: float, beta: int) -> tuple[float, float]:
    """Return an interval outside of which the distance of a draw hardly ever lies.

    Called by `radial_cdf`, which computes probabilities inside the interval only.

    Parameters
    ----------
    m : int
        The size of the matrices, at least 2.
    sigma : float
        The scale σ > 0.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    low, high : float
        The ends of the interval.
    """
    # sinh x/x increases, so |ρ| is stochastically larger than on flat space. Below
    # `low` the distribution function of flat space is negligible.
    low = sigma * math.sqrt(
        2 * gammaincinv(dimension(m, beta) / 2, _NEGLIGIBLE_PROBABILITY)
    )

    # N(βσ²h, σ²I) divided by its acceptance bounds the other tail. Above `high` that
    # bound is negligible.
    drift = beta * sigma * math.sqrt(m * (m * m - 1) / 12)
    log_tail = _NEGLIGIBLE_LOG_TAIL - log_far_acceptance(m, sigma, beta)
    high = sigma * (drift + math.sqrt(m) + math.sqrt(2 * log_tail))
    return low, high


def _invert_laplace_transform(
    m: int, sigma: float, relative_radius: NDArray[np.float64], beta: int
) -> NDArray[np.float64]:
    """Return the probability that the distance is at most given radii, in units of σ.

    It is the inverse of a Laplace transform, a sum over the nodes of a contour. One
    contour serves all radii of a bin, which is about one standard deviation wide: below
    4σ a bin spans a factor of e^{1/4}, above it a length of σ.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    relative_radius : array
        Radii divided by σ.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    array
        Probabilities, before they are clipped to [0, 1].
    """
    # The bin of each radius.
    log_bins = 4 * np.log(relative_radius / 4)
    linear_bins = relative_radius - 4
    bins = np.floor(np.where(relative_radius < 4, log_bins, linear_bins)).astype(int)

    # One contour for each bin; exponents have a row for each radius and a column for
    # each node.
    values = np.empty(relative_radius.shape)
    for bin_number in np.unique(bins):
        in_bin = np.flatnonzero(bins == bin_number)
        contour = _contour(m, sigma, int(bin_number), beta)
        # Blocks keep the matrix of exponents small.
        for block in np.array_split(in_bin, in_bin.size // _RADII_PER_BLOCK + 1):
            squared_radius = (sigma * relative_radius[block]) ** 2
            products = np.multiply.outer(squared_radius, contour.nodes)
            exponents = products + contour.log_weights
            values[block] = contour.residue + np.exp(exponents).real.sum(axis=1)
    return values


class Contour(NamedTuple):
    """Quadrature rule that inverts a Laplace transform on a line in the complex plane.

    F(x) = residue + Re Σ e^{x·node + log_weight} is the distribution function of a
    squared distance at x.
    """

    residue: float
    """1 where the contour passes left of the pole, else 0."""
    nodes: NDArray[np.complex128]
    """Points t of the contour."""
    log_weights: NDArray[np.complex128]
    """Complex logarithms of their weights, which include the transform."""


@lru_cache(maxsize=4096)
def _contour(m: int, sigma: float, bin_number: int, beta: int) -> Contour:
    """Return the quadrature rule that inverts the Laplace transform, for one bin.

    With the squared distance R of a draw and t + 1/2σ² = w²
    (docs/theory/spd-gaussian.md),

        P(R ≤ x) = F(x) = (1/2πi) ∫ e^{tx} E[e^{−tR}]/t dt.

    The path is the vertical line Re w = p through the saddle point. With the height s
    above the real axis, the integrand falls along it like e^{−qx·s²} with 2 ≤ q ≤ 4.
    The only pole is w₀ = 1/(√2·σ); left of it the integral is F − 1.

    tests/laws/spd/test_normalizer.py compares the distribution function with
    quadrature.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    bin_number : int
        The number of the bin of radii r: floor(4·log(r/4σ)) below 4σ, where it is
        negative, and floor(r/σ − 4) above.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    Contour
        The nodes and log weights, and the residue.
    """
    x = (sigma * _central_radius(bin_number)) ** 2
    line = _contour_line(m, sigma, x, beta)
    heights = np.arange(line.n_nodes) * line.step
    w = np.asarray(line.abscissa + 1j * heights, dtype=np.complex128)

    # The weights: the transform at each node, times e^{tx}/t and the step.
    pole = 1 / (math.sqrt(2) * sigma)
    log_transform = np.array(
        [_complex_log_integral(m, complex(node), beta) for node in w]
    )
    log_transform -= _complex_log_integral(m, complex(pole), beta)
    t = w * w - pole * pole
    log_weights = log_transform + np.log(2 * w / t * (line.step / math.pi))
    # The node on the real axis counts half, since the others stand for pairs.
    log_weights[0] -= math.log(2)
    return Contour(1.0 if line.passes_left_of_pole else 0.0, t, log_weights)


def _central_radius(bin_number: int) -> float:
    """Return a radius r in the middle of a bin of radii, in units of σ.

    The bin number of r is floor(4·log(r/4)) below r = 4, and floor(r − 4) above. The
    two formulas are inverted at the number + ½.

    Parameters
    ----------
    bin_number : int
        The number of the bin, negative below r = 4.

    Returns
    -------
    float
        The radius.
    """
    if bin_number < 0:
        return 4 * math.exp((bin_number + 0.5) / 4)
    return bin_number + 4.5


class _ContourLine(NamedTuple):
    """The vertical line Re w = abscissa, and the nodes of the rule on its upper half.

    Attributes
    ----------
    abscissa : float
        The real part of the line.
    passes_left_of_pole : bool
        Whether the line passes the pole on the left.
    step : float
        The distance of neighboring nodes.
    n_nodes : int
        The number of nodes.
    """

    abscissa: float
    passes_left_of_pole: bool
    step: float
    n_nodes: int


def _contour_line(m: int, sigma: float, x: float, beta: int) -> _ContourLine:
    """Choose the line on which the Laplace transform is inverted at x.

    Called by `_contour`.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    x : float
        A squared distance.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    _ContourLine
        The line, and the step of the trapezoidal rule on it.
    """
    mean = mean_square_radius(m, sigma, beta)
    saddle = 1 / (math.sqrt(2) * _scale_of_mean_square(m, sigma, x, beta))
    pole = 1 / (math.sqrt(2) * sigma)
    gap = 1 / math.sqrt(x)  # two widths of the integrand

    # The line passes the pole at this gap or more, on the side of the saddle.
    passes_left = x > mean and gap <= pole / 4
    abscissa = min(saddle, pole - gap) if passes_left else max(saddle, pole + gap)

    # The error of the rule is e^{−2πδ/step} times the growth of the integrand when the
    # line moves by δ: at most to the pole, and away from the essential singularity at
    # w = 0. Three widths cost a factor below e⁹.
    largest_move = min(abs(abscissa - pole), abscissa / 4, _FREE_MOVE * gap)
    step = _RELATIVE_STEP * 2 * math.pi * largest_move
    n_nodes = math.ceil(_CONTOUR_HEIGHT * gap / step)
    return _ContourLine(abscissa, passes_left, step, n_nodes)


def _scale_of_mean_square(m: int, sigma: float, x: float, beta: int) -> float:
    """Return the scale s of the Gaussian with mean square distance x, to three digits.

    Used to find the saddle point of a contour.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        The scale σ > 0.
    x : float
        The mean square distance to be reached.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    float
        The scale s.
    """
    # Bracket the scale by doubling.
    low = high = sigma
    while mean_square_radius(m, low, beta) > x:
        low /= 2
    while mean_square_radius(m, high, beta) < x:
        high *= 2
    if not low < high:
        return sigma

    def excess(scale: float) -> float:
        """Return E[d²] − x for the Gaussian of a given scale."""
        return mean_square_radius(m, scale, beta) - x

    # Three digits are enough: the scale only says where a contour should pass.
    return float(scipy.optimize.brentq(excess, low, high, rtol=1e-3))


def _complex_log_integral(m: int, w: complex, beta: int) -> complex:
    """Return log Z at the complex scale s = 1/(√2·w), up to a term without w.

    The ratio of two such integrals is the Laplace transform that `radial_cdf` inverts.

    Z is the normalizer of the Gaussian of scale s: the integral of e^{−d²/2s²} over all
    positive definite m×m matrices (`log_normalizer`). Up to a factor that depends on m
    and β alone, which cancels in ratios of normalizers, it is

        Z = sᵐ·e^{s²m(m²−1)/24}·Pf[erf(s(k−j)/2)]           for β = 1,
        Z = sᵐ·e^{s²m(m²−1)/6}·∏ₖ (1 − e^{−s²k})^{m−k}      for β = 2,

    where Pf is the Pfaffian of the m×m matrix with the entry erf(s(k−j)/2) in row j and
    column k, and the product runs over k = 1, …, m − 1.

    Parameters
    ----------
    m : int
        The size of the matrices.
    w : complex
        With a positive real part.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.

    Returns
    -------
    complex
        The logarithm, on the branch that is continuous along a contour.
    """
    if beta == 2:
        s_square = 1 / (2 * w * w)
        k = np.arange(1, m)
        log_power = m * np.log(s_square) / 2
        log_exponential = s_square * m * (m * m - 1) / 6
        log_product = np.sum((m - k) * np.log(-np.expm1(-s_square * k)))
        return complex(log_power + log_exponential + log_product)

    def log_integral() -> Any:
        """Return log Z for β = 1 as a complex ball, at the current precision."""
        s = 1 / (acb(w.real, w.imag) * acb(2).sqrt())
        return m * s.log() + s**2 * m * (m * m - 1) / 24 + _pfaffian(m, s).log()

    modulus_of_s = 1 / (math.sqrt(2) * abs(w))
    return complex(_evaluate_accurately(log_integral, m, modulus_of_s))


def _half_size_matrix(m: int, f: list[Any], leading_entry: Any) -> list[list[Any]]:
    """Return a matrix of half the size whose determinant is a Pfaffian.

    The Pfaffian belongs to the odd Toeplitz matrix f(k−j), j, k = 1 … m. This matrix
    maps symmetric vectors to antisymmetric ones, and the result is the matrix of that
    map: its entries are f(m+1−j−k) − f(k−j), with a leading column of ones if m is odd.
    Pfaffian and determinant have the same sign, too.

    tests/laws/spd/test_normalizer.py compares the determinant with the Pfaffian.

    Parameters
    ----------
    m : int
        The size of the Toeplitz matrix.
    f : list of balls
        The values f(0), …, f(m − 1); f is odd.
    leading_entry : ball
        The entry of the leading column: 1, or 0 for the derivative of the matrix.

    Returns
    -------
    list of lists of balls
        The rows of the matrix.
    """

    def odd_extension(index: int) -> Any:
        """Return f(index) for a positive or negative index; f(−k) = −f(k)."""
        return f[index] if index >= 0 else -f[-index]

    rows = []
    for j in range(1, (m + 1) // 2 + 1):
        row = [leading_entry] if m % 2 else []
        for k in range(1, m // 2 + 1):
            row.append(odd_extension(m + 1 - j - k) - odd_extension(k - j))
        rows.append(row)
    return rows


def _pfaffian(m: int, sigma: Any) -> Any:
    """Return the Pfaffian Pf[erf(σ(k−j)/2)], j, k = 1, …, m, in ball arithmetic.

    The normalizer of the law on real matrices is computed from this number.

    Parameters
    ----------
    m : int
        The size of the matrix.
    sigma : arb or acb
        The scale σ, as a real or complex ball.

    Returns
    -------
    arb or acb
        A ball around the Pfaffian, computed as the determinant of `_half_size_matrix`.
        For real σ > 0 it is positive, because it is a probability of acceptance
        (`log_far_acceptance`).
    """
    matrix_type = acb_mat if isinstance(sigma, acb) else arb_mat
    erf_values = [(sigma * k / 2).erf() for k in range(m)]
    return matrix_type(_half_size_matrix(m, erf_values, sigma * 0 + 1)).det()


def _evaluate_accurately(compute_ball: Callable[[], Any], m: int, sigma: float) -> Any:
    """Evaluate a ball at growing precision until its radius is below 2^-55.

    The radius is relative to the value; for small values an absolute radius below 2^-55
    is enough too (`_is_accurate`).

    Parameters
    ----------
    compute_ball : callable
        Computes the ball at the current precision of Arb.
    m : int
        The size of the matrices, from which the first precision is guessed.
    sigma : float
        The scale of the Gaussian, from which it is guessed too.

    Returns
    -------
    arb or acb
        The ball.

    Raises
    ------
    ParameterError
        If more than 2^17 bits are needed.
    """
    # A first guess of how many bits cancel.
    bits = _SPARE_BITS + int(m * m / 8 * max(1.0, 2 - math.log2(sigma)))
    while bits <= _MAX_BITS:
        with precision(bits):
            try:
                ball = compute_ball()
            except ZeroDivisionError:
                # The matrix is singular at so few bits.
                ball = arb("nan")
            if ball.is_finite() and _is_accurate(ball):
                return ball
        bits *= 2
    raise ParameterError(
        f"with m={m} needs more than {_MAX_BITS} bits; use a larger scale",
        parameter="sigma",
        value=sigma,
    )


def _is_accurate(ball: Any) -> bool:
    """Return whether the radius of a ball is below 2^-55, relatively or absolutely.

    Called by `_evaluate_accurately` to decide whether the precision is high enough.

    Parameters
    ----------
    ball : arb or acb
        A number with an error bound.

    Returns
    -------
    bool
        True if its middle has two bits more than float64 resolves.
    """
    has_relative_accuracy = ball.rel_accuracy_bits() >= _ACCURACY_BITS
    return bool(has_relative_accuracy or float(ball.rad()) < 2**-_ACCURACY_BITS)
