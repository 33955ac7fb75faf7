"""Table 1 of *Rao differential privacy*, with numbers: `curvedp reproduce rao-table1`.
The table lists how the budgets of eight definitions of privacy compose. It has no
numbers, so this module computes them for k releases of Laplace and of Gaussian noise,
and also the printed and the true values of errata E15 to E18.
"""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.integrate import quad
from scipy.special import gamma

from curvedp import _validate
from curvedp.papers.rao.mean_loss import KLDP, MeanConcentratedDP
from curvedp.papers.rao.mechanisms import (
    gaussian_distance,
    gaussian_hellinger,
    generalized_gaussian_information,
    laplace_hellinger,
    laplace_theta,
    parametric_theta,
)
from curvedp.papers.runner import Setting
from curvedp.papers.style import (
    BLUE,
    GREEN,
    GREY,
    draw_legend,
    empty_figure,
    style_axes,
)
from curvedp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PrivacyCurve,
    PureDP,
    RaoDP,
    RenyiDP,
    compose,
    convert,
    laplace_profile,
)
from curvedp.privacy.guarantees.rao import hellinger_compose

# Δ/σ of each release.
RATIO = 0.1
# The δ at which budgets of different definitions are compared, as values of ε.
DELTA = 1e-6
# The order α of Rényi privacy.
ORDER = 2.0

# How a definition is drawn and called, by its key in the figures.
COLORS = {
    "pure": "#1d2b3a", "approx": "#7f8c8d", "zcdp": "#2471a3", "renyi": "#16a085",
    "gdp": "#8e44ad", "rao": "#c0392b", "mcdp": "#e08e45",
}  # fmt: skip
STYLES = {"pure": "D-", "mcdp": "x--", "gdp": "s-"}
NAMES = {
    "pure": "pure", "approx": "approximate", "kl": "KL", "mcdp": "mCDP", "zcdp": "zCDP",
    "renyi": "Rényi, α = 2", "gdp": "GDP", "rao": "Rao, √Σθ²",
}  # fmt: skip


def rao_table1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """Compose k releases with Δ/σ = 0.1 in each definition of Table 1.

    Parameters
    ----------
    setting : Setting
        The full form has seven values of k up to 100, the reduced form two.

    Returns
    -------
    figures, picture : dict and Figure
        The composed budgets and the ε that they imply, for each mechanism and privacy
        definition; and their picture.
    """
    counts = [1, 2, 5, 10, 20, 50, 100] if setting.full else [1, 10]
    figures: dict[str, Any] = {
        "k": counts,
        "ratio": RATIO,
        "delta": DELTA,
        "laplace": laplace_budgets(counts),
        "gaussian": gaussian_budgets(counts),
        "angle": hellinger_angles(counts),
        "errata": errata_values(),
    }
    figures["ten"] = rows_of_ten_releases(figures)
    figures["corollaries"] = {
        "4.5: Laplace at pure 0.5": parametric_theta(PureDP(0.5)),
        "4.9: Gaussian at GDP 0.5": parametric_theta(GDP(0.5)),
        "4.9: Gaussian at (0.5, 10⁻⁶)": parametric_theta(ApproxDP(0.5, 1e-6)),
        "exact, Laplace": float(laplace_profile(0, 1, 2.0, 1.0).rao),
    }
    return figures, draw_table(figures)


def rows_of_ten_releases(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of Table 1 for k = 10 releases.

    The full and the reduced form both have these, so that the paper's claims at k = 10
    are checked in every run.

    Parameters
    ----------
    figures : dict
        The numbers of `rao_table1`. "k" are the numbers of releases. "laplace" and
        "gaussian" map each privacy definition to its "composed" budgets and to the
        "epsilon" that these imply at δ = 10⁻⁶, one for each k; their entry "exact" is
        the true ε. "angle" is the result of `hellinger_angles`.

    Returns
    -------
    dict
        For each mechanism: the composed budgets and the implied ε by the name of the
        definition, and the Hellinger angle θ of ten releases. Last, the δ of which no
        mechanism with the angle θ is free, however large its ε is.
    """
    index = figures["k"].index(10)
    angle_index = figures["angle"]["counts"].index(10)
    table: dict[str, Any] = {}
    for mechanism in ("laplace", "gaussian"):
        budgets = dict(figures[mechanism])
        exact_epsilons = budgets.pop("exact")
        composed = {name: budget["composed"][index] for name, budget in budgets.items()}
        implied = {name: budget["epsilon"][index] for name, budget in budgets.items()}
        table[mechanism] = composed
        table[f"{mechanism} ε"] = {**implied, "truth": exact_epsilons[index]}
        table[f"{mechanism} angle"] = figures["angle"][mechanism][angle_index]
    table["δ that θ never excludes"] = figures["angle"]["residual_delta"][index]
    return table


def compose_budget(one: Guarantee, counts: list[int]) -> dict[str, Any]:
    """Compose k releases of the same guarantee, by the rule of Table 1.

    `compose` implements the same rule for each privacy definition.

    Parameters
    ----------
    one : Guarantee
        The guarantee of one release.
    counts : list of int
        The values of k.

    Returns
    -------
    dict
        "one" and "composed", the budgets of one release and of k; and "epsilon", the ε
        that the composed guarantee implies at δ = 10⁻⁶ (None if there is none).
    """
    composed = [compose([one] * k) for k in counts]
    return {
        "one": budget_numbers(one),
        "composed": [budget_numbers(total) for total in composed],
        "epsilon": [finite_or_none(total.epsilon(DELTA)) for total in composed],
    }


def budget_numbers(guarantee: Guarantee) -> Any:
    """Return the parameter of a guarantee, such as ε or μ; of mCDP a list of two.

    Parameters
    ----------
    guarantee : Guarantee
        A guarantee of any definition of the table.
    """
    values = _validate.field_values(guarantee)
    numbers = [float(values[name]) for name in guarantee.additive_fields]
    return numbers if len(numbers) > 1 else numbers[0]


def compose_approximate(one: PrivacyCurve, counts: list[int]) -> dict[str, Any]:
    """Compose k releases of (ε, δ)-DP by adding their ε and their δ.

    Every release gets the share δ/k of δ = 10⁻⁶.

    Parameters
    ----------
    one : PrivacyCurve
        The exact privacy curve ε(δ) of one release.
    counts : list of int
        The values of k.

    Returns
    -------
    dict
        "one", the ε of one release at δ; "composed", kε(δ/k) for each k; and "epsilon",
        which equals "composed", because these budgets are already values of ε.
    """
    total = [k * float(one.epsilon(DELTA / k)) for k in counts]
    return {"one": float(one.epsilon(DELTA)), "composed": total, "epsilon": total}


def laplace_budgets(counts: list[int]) -> dict[str, Any]:
    """Compose k releases of a number with Laplace noise, in all privacy definitions.

    With x = Δ/σ, one release has the pure ε = x, the Kullback–Leibler divergence
    x + e^{−x} − 1, and Rao's distance x. Its zCDP parameter ρ is at most x²/2, as for
    every pure ε (Bun and Steinke 2016). Its Rényi divergence is that of Proposition 6
    of Mironov (2017), and its μ is that of the exact privacy profile.

    Parameters
    ----------
    counts : list of int
        The values of k.

    Returns
    -------
    dict
        A row by `compose_budget` for each definition, and "exact": the true ε at
        δ = 10⁻⁶, from the privacy loss distribution.
    """
    x = RATIO
    profile = laplace_profile(0, 1, 1 / x, 1.0)
    moment = ORDER * math.exp((ORDER - 1) * x) + (ORDER - 1) * math.exp(-ORDER * x)
    renyi = (math.log(moment) - math.log(2 * ORDER - 1)) / (ORDER - 1)
    return {
        "pure": compose_budget(PureDP(x), counts),
        "approx": compose_approximate(profile, counts),
        "kl": compose_budget(KLDP(x + math.expm1(-x)), counts),
        # The mean of the loss, and by Hoeffding's lemma its largest value.
        "mcdp": compose_budget(convert(profile, to=MeanConcentratedDP), counts),
        "zcdp": compose_budget(ZCDP(x * x / 2), counts),
        "renyi": compose_budget(RenyiDP(ORDER, renyi), counts),
        "gdp": compose_budget(GDP(float(profile.mu)), counts),
        "rao": compose_budget(RaoDP(x), counts),
        "exact": [
            finite_or_none(compose([profile] * k).epsilon(DELTA)) for k in counts
        ],
    }


def gaussian_budgets(counts: list[int]) -> dict[str, Any]:
    """Compose k releases of a number with Gaussian noise, in all privacy definitions.

    With x = Δ/σ, one release is x-GDP. Its Kullback–Leibler divergence and its zCDP
    parameter ρ are x²/2, its Rényi divergence of order α is αx²/2, and Rao's distance
    is x. It is not pure ε-DP for any ε.

    Parameters
    ----------
    counts : list of int
        The values of k.

    Returns
    -------
    dict
        A row by `compose_budget` for each definition, and "exact": the true ε at
        δ = 10⁻⁶, which is that of √k·x-GDP.
    """
    x = RATIO
    return {
        "approx": compose_approximate(GDP(x), counts),
        "kl": compose_budget(KLDP(x * x / 2), counts),
        "mcdp": compose_budget(MeanConcentratedDP(x * x / 2, x), counts),
        "zcdp": compose_budget(ZCDP(x * x / 2), counts),
        "renyi": compose_budget(RenyiDP(ORDER, ORDER * x * x / 2), counts),
        "gdp": compose_budget(GDP(x), counts),
        "rao": compose_budget(RaoDP(x), counts),
        "exact": [finite_or_none(GDP(math.sqrt(k) * x).epsilon(DELTA)) for k in counts],
    }


def hellinger_angles(counts: list[int]) -> dict[str, Any]:
    """Compare the Hellinger angle of k releases with the rule √Σθ² of Table 1.

    The exact angle of independent releases with the angles θᵢ satisfies
    cos(θ/2) = ∏cos(θᵢ/2). A bound θ on the angle does not exclude an event of
    probability sin²(θ/2) that identifies the data set with certainty. So no ε, however
    large, can be proved from θ at a smaller δ.

    Parameters
    ----------
    counts : list of int
        The values of k of the other rows, at which that δ is given.

    Returns
    -------
    dict
        "counts", values of k up to where √Σθ² passes π and the angle cannot; the rule
        ("printed") and the angle of both mechanisms there; and "residual_delta".
    """
    angle_of_one = {
        "laplace": laplace_hellinger(1.0, 1 / RATIO),
        "gaussian": gaussian_hellinger(1.0, 1 / RATIO),
    }
    angle_counts = [1, 10, 100, 300, 1000, 3000, 10000]
    exact = {
        kind: [hellinger_compose([angle] * k) for k in angle_counts]
        for kind, angle in angle_of_one.items()
    }
    by_rule = [min(math.sqrt(k) * RATIO, math.pi) for k in counts]
    return {
        "counts": angle_counts,
        "printed": [math.sqrt(k) * RATIO for k in angle_counts],
        **exact,
        "residual_delta": [math.sin(angle / 2) ** 2 for angle in by_rule],
    }


def errata_values() -> dict[str, dict[str, float]]:
    """Return printed and true values of errata E15 to E18.

    Returns
    -------
    dict
        For each erratum "printed", "true" by the library, and "integral": the true
        value once more, by an integral that uses none of the library's closed forms.
    """
    return {"E15": _e15(), "E16": _e16(), "E17": _e17(), "E18": _e18()}


def _e15() -> dict[str, float]:
    """Return Rao's distance of N(0, 1) and N(0, 2.5²), printed with a factor 2 too much.

    The integral is the length √2·∫dσ/σ of the straight line between them.
    """
    sd1, sd2 = 1.0, 2.5
    a, b = math.sqrt(2) * (sd1 + sd2), math.sqrt(2) * (sd2 - sd1)
    return {
        "printed": 2 * math.sqrt(2) * math.log((a + b) / (a - b)),
        "true": float(gaussian_distance(0.0, sd1, 0.0, sd2)),
        "integral": quad(lambda sd: math.sqrt(2) / sd, sd1, sd2)[0],
    }


def _e16() -> dict[str, float]:
    """Return Rao's distance of N(0, 1) and N(5, 1), printed as that of fixed σ.

    The geodesic is a half circle in the plane of (μ/√2, σ), about the middle of the
    means; the integral is its length in the hyperbolic metric.
    """
    distance_of_means = 5 / math.sqrt(2)
    start = math.atan2(1.0, -distance_of_means / 2)
    length, _ = quad(lambda t: 1 / math.sin(t), math.pi - start, start)
    return {
        "printed": 5.0,
        "true": float(gaussian_distance(0.0, 1.0, 5.0, 1.0)),
        "integral": math.sqrt(2) * abs(length),
    }


def _e17() -> dict[str, float]:
    """Return the mass of the printed generalized Gaussian density, which is not 1.

    At N = 2 and σ = 1.7, with the sign of its exponent mended. "information" and
    "integral" are the Fisher information of the density ∝ exp(−(|x|/σ)^N), in closed
    form and as the integral of the squared score.
    """
    scale, power = 1.7, 2.0
    normalizer = 2 * scale * gamma(1 / power) / power

    def printed_density(x: float) -> float:
        """Return what Appendix E prints, with a minus before the power."""
        return float(math.exp(-(x**power) / scale) / normalizer)

    def true_density(x: float) -> float:
        """Return the density that has the printed normalizer."""
        return float(math.exp(-((x / scale) ** power)) / normalizer)

    def squared_score(x: float) -> float:
        """Return the squared derivative of the log-density times exp(−(x/σ)^N)."""
        score = power * x ** (power - 1) / scale**power
        return float(score**2 * math.exp(-((x / scale) ** power)))

    # All are even; beyond 60 nothing is left.
    return {
        "printed": 2 * quad(printed_density, 0, 60)[0],
        "true": 2 * quad(true_density, 0, 60)[0],
        "information": generalized_gaussian_information(scale, power),
        "integral": 2 * quad(squared_score, 0, 60)[0] / normalizer,
    }


def _e18() -> dict[str, float]:
    """Return Rao's distance of Laplace laws of ℝ² at σ = 2, shifted by (0.3, 0.4).

    Printed with √σ for σ. The integral is the shift's length times the square root of
    the Fisher information of one coordinate.
    """
    shift, sigma = math.hypot(0.3, 0.4), 2.0

    def information_density(x: float) -> float:
        """Return the density of one coordinate times its squared score, 1/σ²."""
        return math.exp(-x / sigma) / (2 * sigma) / sigma**2

    information = 2 * quad(information_density, 0, 100)[0]
    return {
        "printed": shift / math.sqrt(sigma),
        "true": laplace_theta(shift, sigma),
        "integral": shift * math.sqrt(information),
    }


def finite_or_none(x: float) -> float | None:
    """Return a number, or None for an infinite one, because JSON has no infinity."""
    return float(x) if math.isfinite(x) else None


def draw_table(figures: dict[str, Any]) -> Figure:
    """Draw the ε of k composed releases by each definition, and the Hellinger angles.

    Parameters
    ----------
    figures : dict
        The numbers of `rao_table1`.
    """
    picture = empty_figure(13, 4.6)
    axes = picture.subplots(1, 3)
    _draw_implied_epsilon(axes[0], figures, "laplace")
    _draw_implied_epsilon(axes[1], figures, "gaussian")
    axes[0].set_ylabel("ε at δ = 10⁻⁶ (Rao: none; KL: above 4800)")
    _draw_angles(axes[2], figures["angle"])
    draw_legend(picture, *axes, columns=5)
    return picture


def _draw_implied_epsilon(panel: Axes, numbers: dict[str, Any], mechanism: str) -> None:
    """Draw the ε that k composed releases imply, one line for each definition.

    A definition is left out if it implies no finite ε for some k.

    Parameters
    ----------
    panel : Axes
        The panel to draw in.
    numbers : dict
        The numbers of `rao_table1`.
    mechanism : {"laplace", "gaussian"}
        The noise of each release.
    """
    counts, budgets = numbers["k"], numbers[mechanism]
    panel.plot(
        counts, budgets["exact"], color="black", lw=5, alpha=0.3, label="the truth"
    )
    for definition, color in COLORS.items():
        budget = budgets.get(definition)
        if budget is None or None in budget["epsilon"]:
            continue
        panel.plot(
            counts,
            budget["epsilon"],
            STYLES.get(definition, "o-"),
            color=color,
            ms=4,
            lw=1.2,
            label=NAMES[definition],
        )
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="k releases with Δ/σ = 0.1",
        ylim=(0.07, 80),
    )
    panel.set_title(
        f"{mechanism.capitalize()}: what the composed budget is worth", fontsize=10
    )
    style_axes(panel)


def _draw_angles(panel: Axes, angle: dict[str, Any]) -> None:
    """Draw Table 1's rule √Σθ² and the exact Hellinger angles against k.

    Parameters
    ----------
    panel : Axes
        The panel to draw in.
    angle : dict
        The figures of `hellinger_angles`.
    """
    lines = [
        ("printed", "o-", 4, COLORS["rao"], "Table 1: √Σθ²"),
        ("gaussian", "s-", 4, BLUE, "Gaussian: exact angle"),
        ("laplace", "x--", 5, GREEN, "Laplace: exact angle"),
    ]
    for key, style, marker_size, color, label in lines:
        panel.plot(
            angle["counts"],
            angle[key],
            style,
            ms=marker_size,
            color=color,
            label=label,
        )
    panel.axhline(math.pi, color=GREY, lw=1, ls=":")
    panel.text(
        1, math.pi * 1.05, "π: perfectly distinguishable", color=GREY, fontsize=8
    )
    panel.set(
        xscale="log", yscale="log", xlabel="k releases with Δ/σ = 0.1", ylabel="θ"
    )
    panel.set_title("Rao: the rule, and the angle itself", fontsize=10)
    style_axes(panel)
