"""Table 1 of *Rao differential privacy*: budgets of eight definitions and how they compose, with numbers, and E15–E18."""

import math
from typing import Any

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
from curvedp.papers.style import BLUE, GREEN, GREY, legend, plain, sheet
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

RATIO, DELTA, ORDER = (
    0.1,
    1e-6,
    2.0,
)  # Δ/σ of each release; the δ at which budgets are compared; Rényi's order
COLORS = {
    "pure": "#1d2b3a", "approx": "#7f8c8d", "zcdp": "#2471a3", "renyi": "#16a085", "gdp": "#8e44ad",
    "rao": "#c0392b", "mcdp": "#e08e45",
}  # fmt: skip
STYLES = {"pure": "D-", "mcdp": "x--", "gdp": "s-"}
NAMES = {
    "pure": "pure", "approx": "approximate", "kl": "KL", "mcdp": "mCDP", "zcdp": "zCDP", "renyi": "Rényi, α = 2",
    "gdp": "GDP", "rao": "Rao, √Σθ²",
}  # fmt: skip


def rao_table1(setting: Setting) -> tuple[dict[str, Any], Figure]:
    """k releases, by a Laplace and by a Gaussian mechanism with Δ/σ = 0.1, in each definition of the table."""
    counts = [1, 2, 5, 10, 20, 50, 100] if setting.full else [1, 10]
    figures: dict[str, Any] = {
        "k": counts, "ratio": RATIO, "delta": DELTA,
        "laplace": laplace(counts), "gaussian": gaussian(counts), "angle": angles(counts), "errata": errata(),
    }  # fmt: skip
    figures["ten"] = at_ten(figures)
    figures["corollaries"] = {
        "4.5: Laplace at pure 0.5": parametric_theta(PureDP(0.5)),
        "4.9: Gaussian at GDP 0.5": parametric_theta(GDP(0.5)),
        "4.9: Gaussian at (0.5, 10⁻⁶)": parametric_theta(ApproxDP(0.5, 1e-6)),
        "exact, Laplace": float(laplace_profile(0, 1, 2.0, 1.0).rao),
    }
    return figures, draw(figures)


def at_ten(figures: dict[str, Any]) -> dict[str, Any]:
    """The table at k = 10, which both forms have."""
    at = figures["k"].index(10)
    table: dict[str, Any] = {}
    for kind in ("laplace", "gaussian"):
        rows = {name: entry for name, entry in figures[kind].items() if name != "exact"}
        table[kind] = {name: entry["composed"][at] for name, entry in rows.items()}
        table[f"{kind} ε"] = {
            name: entry["epsilon"][at] for name, entry in rows.items()
        }
        table[f"{kind} ε"]["truth"] = figures[kind]["exact"][at]
        table[f"{kind} angle"] = figures["angle"][kind][
            figures["angle"]["counts"].index(10)
        ]
    table["δ that θ never excludes"] = figures["angle"]["residual_delta"][at]
    return table


def row(one: Guarantee, counts: list[int]) -> dict[str, Any]:
    """A budget by the rule of the library, which is the table's, and the ε at δ = 10⁻⁶ that it stands for."""
    together = [compose([one] * k) for k in counts]
    return {
        "one": budget(one),
        "composed": [budget(total) for total in together],
        "epsilon": [finite(total.epsilon(DELTA)) for total in together],
    }


def budget(guarantee: Guarantee) -> Any:
    """The number that the definition is about; of mCDP there are two."""
    values = _validate.field_values(guarantee)
    numbers = [float(values[name]) for name in guarantee.additive_fields]
    return numbers if len(numbers) > 1 else numbers[0]


def approximate(one: PrivacyCurve, counts: list[int]) -> dict[str, Any]:
    """(Σε, Σδ), the k releases sharing δ = 10⁻⁶ evenly."""
    total = [k * float(one.epsilon(DELTA / k)) for k in counts]
    return {"one": float(one.epsilon(DELTA)), "composed": total, "epsilon": total}


def laplace(counts: list[int]) -> dict[str, Any]:
    x = RATIO
    profile = laplace_profile(0, 1, 1 / x, 1.0)
    renyi = math.log(
        ORDER * math.exp((ORDER - 1) * x) + (ORDER - 1) * math.exp(-ORDER * x)
    ) - math.log(2 * ORDER - 1)
    return {
        "pure": row(PureDP(x), counts),
        "approx": approximate(profile, counts),
        "kl": row(KLDP(x + math.expm1(-x)), counts),
        "mcdp": row(
            convert(profile, to=MeanConcentratedDP), counts
        ),  # the mean of the loss, and Hoeffding
        "zcdp": row(ZCDP(x * x / 2), counts),  # Bun and Steinke 2016, of any pure ε
        "renyi": row(
            RenyiDP(ORDER, renyi / (ORDER - 1)), counts
        ),  # Mironov 2017, Prop. 6
        "gdp": row(GDP(float(profile.mu)), counts),
        "rao": row(RaoDP(x), counts),
        "exact": [finite(compose([profile] * k).epsilon(DELTA)) for k in counts],
    }


def gaussian(counts: list[int]) -> dict[str, Any]:
    x = RATIO
    return {
        "approx": approximate(GDP(x), counts),
        "kl": row(KLDP(x * x / 2), counts),
        "mcdp": row(MeanConcentratedDP(x * x / 2, x), counts),
        "zcdp": row(ZCDP(x * x / 2), counts),
        "renyi": row(RenyiDP(ORDER, ORDER * x * x / 2), counts),
        "gdp": row(GDP(x), counts),
        "rao": row(RaoDP(x), counts),
        "exact": [finite(GDP(math.sqrt(k) * x).epsilon(DELTA)) for k in counts],
    }


def angles(counts: list[int]) -> dict[str, Any]:
    """The last line of the table beside the angle itself: cos(θ/2) = ∏cos(θᵢ/2), and the δ that θ never excludes."""
    one = {
        "laplace": laplace_hellinger(1.0, 1 / RATIO),
        "gaussian": gaussian_hellinger(1.0, 1 / RATIO),
    }
    # far along, where √Σθ² passes π and the angle cannot
    far = [1, 10, 100, 300, 1000, 3000, 10000]
    return {
        "counts": far,
        "printed": [math.sqrt(k) * RATIO for k in far],
        **{
            name: [hellinger_compose([theta] * k) for k in far]
            for name, theta in one.items()
        },
        "residual_delta": [
            math.sin(min(math.sqrt(k) * RATIO, math.pi) / 2) ** 2 for k in counts
        ],
    }


def errata() -> dict[str, dict[str, float]]:
    """Printed and true values of E15–E18, the true ones by integrals that use none of the library's closed forms."""
    s1, s2 = 1.0, 2.5
    a, b = math.sqrt(2) * (s1 + s2), math.sqrt(2) * (s2 - s1)
    e15 = {
        "printed": 2 * math.sqrt(2) * math.log((a + b) / (a - b)),
        "true": float(gaussian_distance(0.0, s1, 0.0, s2)),
        "integral": quad(lambda s: math.sqrt(2) / s, s1, s2)[
            0
        ],  # ds = √2·dσ/σ along the straight line
    }
    u = 5 / math.sqrt(2)  # N(0,1) and N(5,1): half circle in (μ/√2, σ) about (u/2, 0)
    start = math.atan2(1.0, -u / 2)
    e16 = {
        "printed": 5.0,
        "true": float(gaussian_distance(0.0, 1.0, 5.0, 1.0)),
        "integral": math.sqrt(2)
        * abs(quad(lambda t: 1 / math.sin(t), math.pi - start, start)[0]),
    }
    scale, power = 1.7, 2.0
    norm = 2 * scale * gamma(1 / power) / power
    score = quad(
        lambda x: (
            (power * x ** (power - 1) / scale**power) ** 2
            * math.exp(-((x / scale) ** power))
        ),
        0,
        60,
    )[0]
    e17 = {
        "printed": 2
        * quad(lambda x: math.exp(-(x**power) / scale) / norm, 0, 60)[
            0
        ],  # mass, with the sign mended
        "true": 2 * quad(lambda x: math.exp(-((x / scale) ** power)) / norm, 0, 60)[0],
        "information": generalized_gaussian_information(scale, power),
        "integral": 2 * score / norm,
    }
    shift, sigma = math.hypot(0.3, 0.4), 2.0
    info = 2 * quad(lambda x: math.exp(-x / sigma) / (2 * sigma) / sigma**2, 0, 100)[0]
    e18 = {
        "printed": shift / math.sqrt(sigma),
        "true": laplace_theta(shift, sigma),
        "integral": shift * math.sqrt(info),
    }
    return {"E15": e15, "E16": e16, "E17": e17, "E18": e18}


def finite(x: float) -> float | None:
    """None for an infinite ε: JSON has no infinity."""
    return float(x) if math.isfinite(x) else None


def draw(figures: dict[str, Any]) -> Figure:
    """What k releases are worth, by definition; right, the rule for θ beside the angle."""
    picture = sheet(13, 4.6)
    axes = picture.subplots(1, 3)
    for panel, kind in zip(axes, ("laplace", "gaussian"), strict=False):
        panel.plot(
            figures["k"],
            figures[kind]["exact"],
            color="black",
            lw=5,
            alpha=0.3,
            label="the truth",
        )
        for name, color in COLORS.items():
            entry = figures[kind].get(name)
            if entry and None not in entry["epsilon"]:
                style = STYLES.get(name, "o-")
                panel.plot(
                    figures["k"],
                    entry["epsilon"],
                    style,
                    color=color,
                    ms=4,
                    lw=1.2,
                    label=NAMES[name],
                )
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="k releases with Δ/σ = 0.1",
            ylim=(0.07, 80),
        )
        panel.set_title(
            f"{kind.capitalize()}: what the composed budget is worth", fontsize=10
        )
        plain(panel)
    axes[0].set_ylabel("ε at δ = 10⁻⁶ (Rao: none; KL: above 4800)")
    angle = figures["angle"]
    axes[2].plot(
        angle["counts"],
        angle["printed"],
        "o-",
        ms=4,
        color=COLORS["rao"],
        label="Table 1: √Σθ²",
    )
    axes[2].plot(
        angle["counts"],
        angle["gaussian"],
        "s-",
        ms=4,
        color=BLUE,
        label="Gaussian: exact angle",
    )
    axes[2].plot(
        angle["counts"],
        angle["laplace"],
        "x--",
        ms=5,
        color=GREEN,
        label="Laplace: exact angle",
    )
    axes[2].axhline(math.pi, color=GREY, lw=1, ls=":")
    axes[2].text(
        1, math.pi * 1.05, "π: perfectly distinguishable", color=GREY, fontsize=8
    )
    axes[2].set(
        xscale="log", yscale="log", xlabel="k releases with Δ/σ = 0.1", ylabel="θ"
    )
    axes[2].set_title("Rao: the rule, and the angle itself", fontsize=10)
    plain(axes[2])
    legend(picture, *axes, columns=5)
    return picture
