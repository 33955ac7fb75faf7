"""Prove by interval arithmetic that the chart's supremum is at the ball's center.

    python -m benchmarks.sensitivity_proof

The inequality of docs/theory/sensitivity.md, "In the chart at the center": on the unit sphere, for a and
u in [0, 1.5] and every d in [0, π],

    T = q(u)²·tan²a − (p − 1)·u² − p·a² − p·D ≥ 0,    p = a²/sin²a,    q(u) = u/sin u,
    D = d² − u² − 2A·q(d)·(cos u − cos d),            A = a·cot a.

Where d ≤ u it is proved on that page without a computer. The rest is done here with Arb (python-flint),
whose balls enclose every value they stand for: a box of parameters is settled where the enclosure of
T, or of a lower bound of it, is positive; otherwise it is cut in two.
"""

import sys
from collections.abc import Sequence

from flint import arb, ctx

SMALL = 1.1  # up to this a the bound by a cubic is used, beyond it T itself
LARGEST = 1.5  # of a and u
MOST_BOXES = 100_000
_BITS = 80
_TERMS = 40  # of power series in a² or u², which are at most 2.25


def interval(low: float, high: float) -> arb:
    """Return a ball that holds [low, high]."""
    return arb(low).union(arb(high))


def bessel(order: int, square: arb) -> arb:
    """Return f_n(u²) = j_n(u)/uⁿ = Σ (−u²/2)ⁱ/(i!·(2n+2i+1)!!), an entire function of u².

    f_0 = sin u/u, f_1 = (sin u − u·cos u)/u³, and df_n/d(u²) = −f_{n+1}/2.
    """
    coefficient = arb(1)
    for odd in range(3, 2 * order + 2, 2):
        coefficient /= odd
    total, power = arb(0), arb(1)
    for i in range(_TERMS):
        total += coefficient * power
        power *= square
        coefficient /= -2 * (i + 1) * (2 * order + 2 * i + 3)
    # The terms fall by more than half each, so that twice the next one bounds the rest.
    rest = 2 * abs(coefficient) * abs(power)
    return total + rest.union(-rest)


def lower_series() -> tuple[list[arb], list[arb]]:
    """Return the Taylor coefficients, in α = a², of K₀ and K₁, all of which are positive.

    K₀ = (tan²a − p·a²)/a⁴ and K₁ = (tan²a/3 − (p − 1))/a⁴. From the series of the cosecant and the
    secant, tan²a = Σ_{m≥1} 2(2m+1)(4^{m+1}−1)ζ(2m+2)/π^{2m+2}·a^{2m} and
    p = 1 + Σ_{k≥1} 2(2k−1)ζ(2k)/π^{2k}·a^{2k}. All coefficients of K₀ and K₁ are positive, because
    4^{m+1} − 1 ≥ 63 > 3π²ζ(4) for m ≥ 2: a truncated series is a lower bound.
    """
    pi = arb.pi()

    def tangent(m: int) -> arb:
        zeta = arb(2 * m + 2).zeta()
        return 2 * (2 * m + 1) * (arb(4) ** (m + 1) - 1) * zeta / pi ** (2 * m + 2)

    def cosecant(k: int) -> arb:
        if k == 0:
            return arb(1)
        return 2 * (2 * k - 1) * arb(2 * k).zeta() / pi ** (2 * k)

    orders = range(2, _TERMS + 2)
    first = [tangent(m) - cosecant(m - 1) for m in orders]
    second = [tangent(m) / 3 - cosecant(m) for m in orders]
    if not all(number > 0 for number in [*first, *second]):
        raise AssertionError("a coefficient is not positive")
    return first, second


def polynomial(coefficients: Sequence[arb], x: arb) -> arb:
    """Return Σ cₖxᵏ."""
    total = arb(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def derivative(coefficients: Sequence[arb]) -> list[arb]:
    """Return the coefficients of a polynomial's derivative."""
    return [k * c for k, c in enumerate(coefficients) if k > 0]


def cubic_bound(
    alpha: arb, beta: arb, series: tuple[list[arb], list[arb]]
) -> tuple[arb, arb, arb]:
    """Return a lower bound H of T/a⁴ at (α, β) = (a², u²), and its two derivatives.

    With x = 1 − cos u, y = cos u − cos d and Φ(x) = arccos²(1 − x), whose Taylor coefficients are
    all positive, D = Σ_{k≥1} (1 − kA)·Φ⁽ᵏ⁾(x)·yᵏ/k!. Put ε = 1 − A and y = εz. For A ≥ 1/2 the terms
    from k = 4 on are negative and may be left out:

        D ≤ ε²·max_z (b·z − c·z² − e·z³),    b = Φ′,  c = (1 − 2ε)Φ″/2,  e = ε(2 − 3ε)Φ‴/6.

    The maximum is at z = b/(c + √(c² + 3be)). With q(u)² ≥ 1 + u²/3,
    T/a⁴ ≥ H = K₀ + β·K₁ − p·(ε/α)²·max_z(…).
    """
    first, second = series
    S, E, S2 = (bessel(n, alpha) for n in range(3))
    s, e1, e2, e3 = (bessel(n, beta) for n in range(4))
    epsilon, weight = alpha * E / S, E**2 / S**4  # 1 − a·cot a, and p·(ε/α)²
    b, second_order = 2 / s, 2 * e1 / s**3
    third_order = 2 * (3 * e1**2 - e2 * s) / s**5
    c = (1 - 2 * epsilon) * second_order / 2
    e = epsilon * (2 - 3 * epsilon) * third_order / 6
    z = b / (c + (c**2 + 3 * b * e).sqrt())
    largest = b * z - c * z**2 - e * z**3
    bound = polynomial(first, alpha) + beta * polynomial(second, alpha)

    # The derivatives; that of a maximum is the maximized function's, at the same z.
    d_S, d_E = -E / 2, -S2 / 2
    d_weight = 2 * E * d_E / S**4 - 4 * E**2 * d_S / S**5
    d_epsilon = E / S + alpha * (d_E / S - E * d_S / S**2)
    d_e = d_epsilon * (2 - 6 * epsilon) * third_order / 6
    d_largest = d_epsilon * second_order * z**2 - d_e * z**3
    by_alpha = polynomial(derivative(first), alpha)
    by_alpha += beta * polynomial(derivative(second), alpha)
    by_alpha -= d_weight * largest + weight * d_largest

    d_s, d_e1, d_e2 = -e1 / 2, -e2 / 2, -e3 / 2
    d_second = 2 * (d_e1 / s**3 - 3 * e1 * d_s / s**4)
    numerator = 3 * e1**2 - e2 * s
    d_numerator = 6 * e1 * d_e1 - d_e2 * s - e2 * d_s
    d_third = 2 * (d_numerator / s**5 - 5 * numerator * d_s / s**6)
    d_largest = -2 * d_s / s**2 * z - (1 - 2 * epsilon) * d_second / 2 * z**2
    d_largest -= epsilon * (2 - 3 * epsilon) * d_third / 6 * z**3
    by_beta = polynomial(second, alpha) - weight * d_largest
    return bound - weight * largest, by_alpha, by_beta


def prove_small() -> int:
    """Settle a ≤ 1.1: H ≥ 0 on [0, 1.21] × [0, 2.25]; return the number of boxes.

    H(0, 0) = 1/3 − (1/9)·3 = 0. On the box that touches the origin both derivatives are positive.
    """
    series, boxes = lower_series(), 0
    if not cubic_bound(arb(0), arb(0), series)[0].contains(0):
        raise AssertionError("the inequality was not settled at the origin")
    pending = [(0.0, SMALL**2 + 1e-12, 0.0, LARGEST**2)]
    while pending:
        low, high, left, right = pending.pop()
        boxes += 1
        if boxes > MOST_BOXES:
            raise AssertionError("the inequality was not settled for a ≤ 1.1")
        value, by_alpha, by_beta = cubic_bound(
            interval(low, high), interval(left, right), series
        )
        touches_origin = low == 0 and left == 0
        if value > 0 or (touches_origin and by_alpha > 0 and by_beta > 0):
            continue
        if high - low > 0.6 * (right - left):
            middle = (low + high) / 2
            pending += [(low, middle, left, right), (middle, high, left, right)]
        else:
            middle = (left + right) / 2
            pending += [(low, high, left, middle), (low, high, middle, right)]
    return boxes


def quotient(low: float, high: float) -> arb:
    """Return x/sin x, which rises, on an interval in [0, 3]."""
    ends = [arb(x) / arb(x).sin() if x > 0 else arb(1) for x in (low, high)]
    return ends[0].union(ends[1])


def prove_large() -> int:
    """Settle 1.1 ≤ a ≤ 1.5 by boxes of (a, u, d); return their number.

    tan a, p and a² rise and A falls with a: each is taken at the worse end. For d ≥ 3, q(d) ≥ q(3).
    """
    boxes, end = 0, 3.1416  # a little more than π
    pending = [
        ((SMALL, LARGEST), (0.0, LARGEST), (0.0, 3.0)),
        ((SMALL, LARGEST), (0.0, LARGEST), (3.0, end)),
    ]
    while pending:
        box = pending.pop()
        boxes += 1
        if boxes > MOST_BOXES:
            raise AssertionError("the inequality was not settled for a ≥ 1.1")
        (low, high), (left, right), (near, far) = box
        if far <= left:  # d ≤ u, which is proved without a computer
            continue
        a, u, d = arb(high), interval(left, right), interval(near, far)
        p, A = (a / a.sin()) ** 2, a * a.cos() / a.sin()
        of_d = quotient(near, far) if far <= 3.0 else quotient(3.0, 3.0)
        D = d**2 - u**2 - 2 * A * of_d * (u.cos() - d.cos())
        tangent = arb(low).tan()
        T = quotient(left, right) ** 2 * tangent**2 - (p - 1) * u**2 - p * a**2 - p * D
        if T > 0:
            continue
        widths = [side[1] - side[0] for side in box]
        longest = widths.index(max(widths))
        start, stop = box[longest]
        for half in ((start, (start + stop) / 2), ((start + stop) / 2, stop)):
            pending.append((*box[:longest], half, *box[longest + 1 :]))
    return boxes


def main() -> int:
    """Prove both parts and say how many boxes they took."""
    ctx.prec = _BITS
    small, large = prove_small(), prove_large()
    print(f"a ≤ {SMALL}: settled by {small} boxes of (a², u²)")
    print(f"{SMALL} ≤ a ≤ {LARGEST}: settled by {large} boxes of (a, u, d)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
