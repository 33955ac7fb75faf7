"""Functions and integrals in ball arithmetic, for proved bounds on δ and μ. A *ball* is a
number with an error bound (arb for real, acb for complex numbers, from Arb in
python-flint). Every function here returns a ball that contains the exact value.
"""

from collections.abc import Callable
from functools import lru_cache

from flint import acb, acb_poly, arb, ctx

# An integrand for Arb's quadrature: a function of a ball r of complex radii and of a
# flag. If the flag is set, the function must return a ball that is not finite unless it
# is analytic on all of r.
Integrand = Callable[[acb, bool], acb]

# From this z on, Mills' ratio e^{z²/2}·Φ(−z) is enclosed by elementary bounds.
_LARGE_Z = 1e6
# Limits on the work of one integral: evaluations of the integrand, and halvings of an
# interval. Arb returns a valid, but wide, ball if they are exceeded.
_MOST_EVALUATIONS = 200_000
_MOST_HALVINGS = 400


def normal_cdf(x: arb) -> arb:
    """Return the normal distribution function Φ(x) = erfc(−x/√2)/2."""
    return (-x / arb(2).sqrt()).erfc() / 2


def scaled_normal_tail(eps: arb, z: arb) -> arb:
    """Return e^ε·Φ(−z) for z > 0, without computing the large number e^ε.

    Closed forms of δ(ε) contain such terms. Φ is the normal distribution function. The
    result is computed as the product of e^{ε − z²/2} and e^{z²/2}·Φ(−z). For z >= 10⁶
    the second factor is known to lie between z/(1+z²) and 1/z, divided by √(2π).

    Parameters
    ----------
    eps, z : arb
        ε and z > 0, as balls.

    Returns
    -------
    arb
        A ball around e^ε·Φ(−z).
    """
    first_factor = (eps - z * z / 2).exp()
    if z < _LARGE_Z:
        return first_factor * (z * z / 2).exp() * normal_cdf(-z)
    mills_ratio = (z / (1 + z * z)).union(1 / z)  # Φ(−z)/Φ′(z)
    return first_factor * mills_ratio / (2 * arb.pi()).sqrt()


def enclose_integral(integrand: Integrand, a: arb, b: arb, tolerance: arb) -> arb:
    """Return a ball around the integral of a function from a to b.

    It is computed by Arb's adaptive Gauss–Legendre quadrature, whose error bound is
    rigorous.

    Parameters
    ----------
    integrand : callable
        A function of a ball r and a flag. If the flag is set, the result must not be
        finite unless the function is analytic on r.
    a, b : arb
        The ends of the interval.
    tolerance : arb
        The absolute error to aim for. The ball is valid even if it is not reached.

    Returns
    -------
    arb
        A ball that contains the integral.
    """
    # Three fifths of the bits of the current precision: the others are for rounding
    # errors.
    relative_tolerance = arb(2) ** (-(3 * ctx.prec) // 5)
    return acb.integral(
        integrand,
        acb(a),
        acb(b),
        abs_tol=tolerance,
        rel_tol=relative_tolerance,
        eval_limit=_MOST_EVALUATIONS,
        depth_limit=_MOST_HALVINGS,
    ).real


def sn(k: int, r: acb) -> acb:
    """Return sn_k(r): r, sin r or sinh r for the curvature k = 0, 1 or −1.

    A sphere of radius r has an area proportional to sn_k(r)^{d−1} in dimension d.

    Parameters
    ----------
    k : int
        The sign of the curvature: −1, 0 or 1.
    r : acb
        A radius, or a ball of radii.

    Returns
    -------
    acb
        A ball around sn_k(r).
    """
    if k == 0:
        return r
    return r.sin() if k == 1 else r.sinh()


def log_derivative_of_sn(k: int, r: arb) -> arb:
    """Return sn_k′(r)/sn_k(r): 1/r, cot r or coth r for k = 0, 1 or −1.

    It is the slope of log sn_k, which the slope of a log radial density contains.

    Parameters
    ----------
    k : int
        The sign of the curvature: −1, 0 or 1.
    r : arb
        A radius > 0.

    Returns
    -------
    arb
        A ball around sn_k′(r)/sn_k(r).
    """
    if k == 0:
        return 1 / r
    return r.cot() if k == 1 else r.coth()


def sine_integral(m: int, x: acb, y: acb, analytic: bool) -> acb:
    """Return J_m = ∫_φ^π sin^m, given x = cos²(φ/2) and y = sin²(φ/2).

    J_m is proportional to the measure of the directions that make an angle of at least
    φ with a given one, in dimension m + 2. With c = cos φ, integration by parts gives

        J_m = c·(1−c²)^{(m−1)/2}/m + (m−1)/m·J_{m−2},    J₀ = π − φ,    J₁ = 1 + c.

    So J_m is a multiple of J₀ or J₁, plus c times a polynomial in 1 − c² = 4xy
    (`sine_recurrence`). It is analytic if 4xy avoids (−∞, 0], which the square root
    verifies. This covers arctan√(x/y) too: its branch cut is at y in (−∞, 0], where
    x = 1 − y makes 4xy negative.

    If `analytic` is set, the result must not be finite across a branch cut, or the
    quadrature would not be rigorous.

    Parameters
    ----------
    m : int
        The power, m >= 0.
    x, y : acb
        Two numbers with x + y = 1, both to full relative precision.
    analytic : bool
        Whether the result must not be finite unless it is analytic on the given balls.

    Returns
    -------
    acb
        A ball around J_m.
    """
    if m == 1:
        return 2 * x
    c = x - y
    sin_square = 4 * x * y  # sin²φ = 1 − c²
    polynomial, factor = sine_recurrence(m, ctx.prec)
    is_odd = m % 2 == 1
    if is_odd:
        return factor * 2 * x + c * sin_square * polynomial(sin_square)

    # π − φ = 2·arctan√(x/y), or π − 2·arctan√(y/x) if that is farther from the pole.
    sine = sin_square.sqrt(analytic=analytic)
    if abs(x) > abs(y):
        angle = acb(arb.pi()) - 2 * (sine / (2 * x)).atan()
    else:
        angle = 2 * (sine / (2 * y)).atan()
    if m == 0:
        return angle
    return factor * angle + c * sine * polynomial(sin_square)


@lru_cache(maxsize=16)
def sine_recurrence(m: int, precision: int) -> tuple[acb_poly, arb]:
    """Return the polynomial and the factor in the closed form of J_m = ∫_φ^π sin^m.

    The closed form makes the fraction of directions in a tail of the privacy loss cheap
    to enclose. It follows from integration by parts:

        J_m = factor·J₀ + cos φ·sin φ·polynomial(sin²φ)     for even m,
        J_m = factor·J₁ + cos φ·sin²φ·polynomial(sin²φ)     for odd m.

    Parameters
    ----------
    m : int
        The power.
    precision : int
        The current precision of the arithmetic in bits (`ctx.prec`). The body computes
        at that precision without being told. The argument is here for the cache only,
        which must not return a result of another precision.

    Returns
    -------
    polynomial : acb_poly
        The polynomial in sin²φ.
    factor : arb
        The product of (j − 1)/j over j = m, m − 2, … down to 2 or 3.
    """
    factor = arb(1)
    coefficients = []  # from the highest power to the lowest
    for j in range(m, 1, -2):
        coefficients.append(factor / j)
        factor = factor * (j - 1) / j
    return acb_poly(coefficients[::-1]), factor
