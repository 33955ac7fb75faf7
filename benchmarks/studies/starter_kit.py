"""Starter kits of few people: predicted accuracy against that of releases, and rivals.

    python -m benchmarks.starter_kit [--picture docs/images/starter_kit.png]

People are simulated: each mixes the sources of the EEG in a way of their own, and trials
of two classes differ in the power of one source each. The first table compares what
`plan(..., statistic="starter-kit")` predicts with the accuracy of releases on new
people. The second one compares kits with other classifiers of the same trials.
`docs/howto/few-people.md` shows the picture and the second table.
"""

import argparse
import warnings
from collections.abc import Callable
from math import log, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np

from curvedp import GDP, PrivateMDM, PrivateSoftmax, plan
from curvedp.errors import CurvedpError, ReleaseWarning
from curvedp.estimators.joint_means import PrivateJointMeans
from curvedp.geometry import SPDAffineInvariant
from curvedp.neuro import PrivateStarterKit
from curvedp.randomness import GeneratorSource

_SEED = 20261119
_CHANNELS = (4, 8, 16)
_PEOPLE = (8, 12, 16, 24)
_BUDGETS = (1.0, 2.0)
_POWER_FACTORS = (2.0, 4.0)
# Cohorts, with one release each, and new people on whom a release is tried.
_COHORTS = 8
_NEW_PEOPLE = 8
# Trials of a class per person, and samples of a trial: one second at 250 Hz.
_TRIALS = 20
_SAMPLES = 250
# How much the mixing matrices and the powers of trials vary.
_MIXING_SPREAD = 0.3
_POWER_SPREAD = 0.3


class Cohort(NamedTuple):
    """Covariance matrices of trials, with their classes and people.

    Attributes
    ----------
    X : array of shape (n, channels, channels)
        In V².
    y : array of int
        0 or 1.
    person : array of int
        Counted from 0.
    """

    X: np.ndarray
    y: np.ndarray
    person: np.ndarray

    def of_people(self, first: int, last: int) -> "Cohort":
        """Return the trials of the people from `first` up to `last`, without `last`."""
        chosen = (first <= self.person) & (self.person < last)
        return Cohort(self.X[chosen], self.y[chosen], self.person[chosen])


def simulate(
    n_people: int, channels: int, power_factor: float, rng: np.random.Generator
) -> Cohort:
    """Return simulated trials of people, each of whom has trials of both classes."""
    common_mixing = np.eye(channels) + rng.normal(size=(channels, channels)) / sqrt(
        channels
    )
    matrices = []
    y = np.tile([0, 1], _TRIALS)
    for _ in range(n_people):
        own_mixing = _MIXING_SPREAD * rng.normal(size=(channels, channels))
        volts = 1e-5 * np.exp(0.3 * rng.normal())
        power = np.exp(_POWER_SPREAD * rng.normal(size=(len(y), channels)))
        power[y == 0, 0] *= power_factor
        power[y == 1, 1] *= power_factor
        sources = np.sqrt(power)[:, :, None] * rng.normal(
            size=(len(y), channels, _SAMPLES)
        )
        signals = volts * (common_mixing + own_mixing) @ sources
        matrices.append(signals @ signals.mT / _SAMPLES)
    person = np.repeat(np.arange(n_people), len(y))
    return Cohort(np.concatenate(matrices), np.tile(y, n_people), person)


def accuracy_of_kit(kit: PrivateStarterKit, training: Cohort, new: Cohort) -> float:
    """Return the mean accuracy of a released kit on new people."""
    kit.fit(training.X, training.y, training.person)
    scores = [
        kit.score(new.X[new.person == person], new.y[new.person == person])
        for person in np.unique(new.person)
    ]
    return float(np.mean(scores))


def compare_with_plans() -> list[tuple[float, float, float]]:
    """Print predicted and measured accuracies.

    Returns
    -------
    list of (predicted, measured, channels)
        One entry for each row of the table.
    """
    print("| channels | power | people | GDP | predicted | measured |")
    print("|---|---|---|---|---|---|")
    points = []
    for channels in _CHANNELS:
        for power_factor in _POWER_FACTORS:
            rng = np.random.default_rng(_SEED)
            n_people = max(_PEOPLE) + _NEW_PEOPLE
            cohorts = [
                simulate(n_people, channels, power_factor, rng) for _ in range(_COHORTS)
            ]
            for n in _PEOPLE:
                for mu in _BUDGETS:
                    study = plan(
                        SPDAffineInvariant(channels),
                        n=n,
                        radius=0.5,
                        guarantee=GDP(mu),
                        statistic="starter-kit",
                        classes=2,
                        spread=log(power_factor) / sqrt(2),
                    )
                    accuracies = [
                        accuracy_of_kit(
                            PrivateStarterKit(
                                radius=0.5,
                                guarantee=GDP(mu),
                                source=GeneratorSource(rng),
                            ),
                            cohort.of_people(0, n),
                            cohort.of_people(max(_PEOPLE), n_people),
                        )
                        for cohort in cohorts
                    ]
                    predicted, measured = 1 - study.error, float(np.mean(accuracies))
                    points.append((predicted, measured, channels))
                    print(
                        f"| {channels} | x{power_factor:g} | {n} | {mu:g} | "
                        f"{predicted:.2f} | {measured:.2f} |",
                        flush=True,
                    )
    differences = np.array([measured - predicted for predicted, measured, _ in points])
    print(
        f"\nmeasured - predicted: mean {differences.mean():+.3f}, "
        f"from {differences.min():+.3f} to {differences.max():+.3f}"
    )
    return points


def compare_with_rivals(n: int = 12, channels: int = 8) -> None:
    """Print the accuracy of classifiers of the same trials, all for people as the unit."""
    manifold = SPDAffineInvariant(channels)

    def of_fitted(build: Callable[[GDP], object]) -> Callable[..., float]:
        """Return a function that fits with groups, and scores on new people."""

        def accuracy(guarantee: GDP, training: Cohort, new: Cohort) -> float:
            """Fit on some people, and return the accuracy on others."""
            model = build(guarantee)
            model.fit(training.X, training.y, groups=training.person)
            return float(model.score(new.X, new.y))

        return accuracy

    def of_kit(**options: object) -> Callable[..., float]:
        """Return a function that fits a kit, and scores it on new people."""

        def accuracy(guarantee: GDP, training: Cohort, new: Cohort) -> float:
            """Fit on some people, and return the accuracy on others."""
            kit = PrivateStarterKit(guarantee=guarantee, **options)
            return accuracy_of_kit(kit, training, new)

        return accuracy

    ways = {
        "PrivateStarterKit(radius=0.5)": of_kit(radius=0.5),
        'PrivateStarterKit(radius="private")': of_kit(),
        'PrivateStarterKit(unit="trial")': of_kit(unit="trial"),
        'PrivateJointMeans(radius="private")': of_fitted(
            lambda guarantee: PrivateJointMeans(
                manifold, radius="private", guarantee=guarantee
            )
        ),
        "PrivateMDM(reduce=4)": of_fitted(
            lambda guarantee: PrivateMDM(manifold, reduce=4, guarantee=guarantee)
        ),
        "PrivateSoftmax(reduce=4)": of_fitted(
            lambda guarantee: PrivateSoftmax(manifold, reduce=4, guarantee=guarantee)
        ),
    }
    rng = np.random.default_rng(_SEED + 1)
    cohorts = [simulate(n + _NEW_PEOPLE, channels, 4.0, rng) for _ in range(_COHORTS)]
    budgets = ", ".join(f"GDP({mu:g})" for mu in _BUDGETS)
    print(f"\n{n} people, {channels} channels, power x4: {budgets}\n")
    for name, accuracy in ways.items():
        cells = []
        for mu in _BUDGETS:
            try:
                values = [
                    accuracy(
                        GDP(mu),
                        cohort.of_people(0, n),
                        cohort.of_people(n, n + _NEW_PEOPLE),
                    )
                    for cohort in cohorts
                ]
                cells.append(f"{np.mean(values):.2f}")
            except CurvedpError as error:
                cells.append(type(error).__name__)
        print(f"| `{name}` | {' | '.join(cells)} |", flush=True)


def draw(points: list[tuple[float, float, float]], path: Path) -> None:
    """Draw measured against predicted accuracies into a file."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
    axes.plot([0.5, 1], [0.5, 1], color="#95a5a6", linewidth=1)
    colors = {4: "#2471a3", 8: "#c0392b", 16: "#1d2b3a"}
    for channels, color in colors.items():
        chosen = [(x, y) for x, y, count in points if count == channels]
        axes.scatter(
            *zip(*chosen, strict=True), s=22, color=color, label=f"{channels} channels"
        )
    axes.set(
        xlabel="accuracy that plan predicts",
        ylabel="accuracy of releases on new people",
        title="Starter kits of 8 to 24 people",
        xlim=(0.5, 1.01),
        ylim=(0.5, 1.01),
    )
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="where the picture is written")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ReleaseWarning)
    points = compare_with_plans()
    if options.picture is not None:
        draw(points, options.picture)
    compare_with_rivals()


if __name__ == "__main__":
    main()
