"""How good a release would be, before there are data: `plan`. Everything here is computed from public numbers."""

import html
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, inf, isfinite, log, nextafter, prod, sqrt
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.core.mechanism import check_guarantee
from curvedp.entropy import GeneratorSource
from curvedp.errors import CurvedpError, ParameterError, UnattainableGuarantee
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.mechanisms.staged.ball_search import (
    PrivateBallMechanism,
    class_mean_statistic,
)
from curvedp.mechanisms.staged.reduced_classifier import candidate_classifiers
from curvedp.mechanisms.vector import smallest_noise, std_per_scale
from curvedp.numerics.threads import one_blas_thread
from curvedp.privacy import GDP, Guarantee
from curvedp.release.choose import choose_mechanism, rank_mechanisms
from curvedp.release.populations import population_of_spread, reference_populations
from curvedp.release.predict import baseline_error, predicted_error, reference_ball
from curvedp.release.warnings import USELESS_SHARE
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.searched_ball import (
    BallSearchStatistic,
    SearchedGeodesic,
    SearchedMean,
    SearchedVariance,
)

__all__ = ["Plan", "plan"]

_MOST_SIMULATED, _LARGEST = 10**5, 10**12  # records: of a simulated release, and at all
_MOST_NUMBERS = (
    10**5
)  # of a point: a hundred of them are simulated, and beyond that takes minutes
_WORSE = 1.05  # times the best error: what is beyond is dominated; predictions are good to about a percent
_STEP, _TRIES, _CLOSE = (
    1.1,
    40,
    1.01,
)  # first step and number of steps of a search, and the ratio where it has arrived
_TESTS = 200  # simulated for a power
_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of n, and μ, of a picture
_ASKED = (
    "manifold",
    "n",
    "radius",
    "guarantee",
    "center",
    "outer_radius",
    "statistic",
    "classes",
)
_TOLD = (
    *(
        "manifold",
        "statistic",
        "classes",
        "n",
        "radius",
        "guarantee",
        "spread",
        "mechanism",
        "error",
        "errors",
    ),
    *("dominated", "left_out", "too_small", "found_radius"),
)
_WRONG, _MORE = (
    0.2,
    (2, 4, 8, 16),
)  # of new records misclassified, and how many times the records may bring that


@dataclass(frozen=True)
class Plan:
    """What `plan` predicts. It prints itself, in a notebook too.

    Attributes
    ----------
    spread : float
        With `radius="private"`, the root mean square distance of the records to their
        mean; else the radius.
    errors, left_out : dict
        The predicted error by mechanism, best first: in a public ball the mean distance
        to the mean of the records as clipped to it, in a private ball the root mean
        square distance to the mean of all records. And why the other mechanisms are not
        considered.
    useless : float
        The error at which the release is of little use. In a public ball the public
        center is as good then: it is the center's own error, at most a third of the
        radius. In a private ball it is a quarter of the spread, half of it for a
        regression. Of a dispersion, the variance itself.
    found_radius : float or None
        About the radius of the private ball that would be found.
    statistic : str
        What is released. The error of a dispersion is that of the variance; of a regression, the root mean square error of
        the middle of the geodesic and of its velocity times a predictor's standard deviation; of a classifier, the share of
        new records that are misclassified, where each class has a source of its own among the strongest components.
    classes : int
        Of as many records each.
    """

    manifold: Manifold
    n: int
    radius: float | str | None
    guarantee: Guarantee
    center: Any
    outer_radius: float | None
    spread: float
    useless: float
    errors: dict[str, float]
    left_out: dict[str, str]
    statistic: str = "mean"
    classes: int = 1
    found_radius: float | None = None

    @property
    def mechanism(self) -> str:
        """The best one: what "auto" takes; of classifiers, the call that makes it."""
        return next(iter(self.errors))

    @property
    def error(self) -> float:
        """The best one's predicted error."""
        return self.errors[self.mechanism]

    @property
    def dominated(self) -> list[str]:
        """Mechanisms at least 5% worse than the best."""
        return [
            name for name, error in self.errors.items() if error >= _WORSE * self.error
        ]

    @property
    def too_small(self) -> bool:
        """Whether the release would be of little use: the error is at least `useless`."""
        return self.error >= self.useless

    def records_needed(self, error: float) -> int:
        """The number of records at which the predicted error is `error`, to about a percent; an `UnattainableGuarantee` if no
        number up to 10¹² is enough."""
        wanted, least = _validate.positive("error", error), 2 * self.classes
        if self._error(n=least) <= wanted:
            return least
        guess = ceil(min(max(least, self.n * self.error / wanted), _LARGEST))
        near = (
            self._at(n=guess) if len(self.errors) > 2 else self
        )  # other mechanisms may be the best there
        found = _crossing(
            lambda n: near._error(n=ceil(min(max(least, n), _LARGEST))),
            float(guess),
            wanted,
            rises=False,
        )
        if not 2 <= found <= _LARGEST:
            raise UnattainableGuarantee(
                f"no number of records brings the error to {wanted:g} at {self.guarantee}"
            )
        return ceil(found)

    def region(self, level: float = 0.95) -> float:
        """About the radius of the confidence region that the release would come with.

        It is that of one simulated release of public records: they fill half of a public
        ball, and have the stated spread where a private one is found. Refused for a
        mechanism without regions, and for more records than are simulated.
        """
        from curvedp.inference import (
            region_of,
        )  # slow to import, and not wanted by most

        if (
            (many := self.n > _MOST_SIMULATED)
            or self.statistic != "mean"
            or self.classes > 1
        ):
            what = f"{self.n} records" if many else f"a {self.statistic}"
            raise ParameterError(
                f"the region of {what} is known after the release; its noise is `error`"
            )
        statistic = _statistic(
            self.manifold, self.center, self.radius, self.n, self.outer_radius
        )
        mechanism = choose_mechanism(
            self.mechanism, statistic, self.guarantee
        ).mechanism
        if isinstance(self.radius, str):
            about = population_of_spread(
                self.manifold, statistic.center, self.spread, self.n
            )
        else:
            ball = reference_ball(statistic)
            assert ball is not None  # statistics that are planned have one
            about = reference_populations(self.manifold, ball)[0]
        data = (
            about.mean
            if mechanism.info.reads == "value"
            else np.resize(about.records, (self.n, *about.mean.shape))
        )
        with one_blas_thread():
            simulated = mechanism.release(
                data, source=GeneratorSource(np.random.default_rng(0))
            )
            return region_of(simulated.certificate, level).radius

    def regions(self, level: float = 0.95) -> dict[str, float]:
        """About the radius of the region by the best mechanism, and by others in its ball.

        The mechanism with the least error may have a region that is as wide as the ball;
        "tangent-gaussian" and "tangent-laplace" have exact ones, of about the length of their noise.
        With `radius="private"` there is one mechanism.
        """
        from curvedp.inference.region import regions_in_chart  # slow to import

        radii = {self.mechanism: self.region(level)}
        if isinstance(self.radius, str):
            return radii
        statistic = _statistic(self.manifold, self.center, self.radius, self.n, None)
        with one_blas_thread():
            return {**regions_in_chart(statistic, self.guarantee, level), **radii}

    def radius_for(self, error: float) -> float:
        """The largest radius that keeps the predicted error at `error`, to about a percent; inf where any allowed one does.
        With radius="private" there is nothing to choose, which is refused."""
        start, wanted = (
            _validate.positive("radius", self.radius),
            _validate.positive("error", error),
        )
        widest = (
            nextafter(self.manifold.convexity_radius, 0)
            if isfinite(self.manifold.curvature_bounds[1])
            else inf
        )
        return _crossing(
            lambda r: self._error(radius=min(r, widest)), start, wanted, rises=True
        )

    def power(
        self,
        shift: float,
        spread: float | None = None,
        m: int | None = None,
        level: float = 0.05,
    ) -> float:
        """How often `two_sample_test` would find that two populations differ, by simulation with a public seed.

        The populations are `shift` apart in the chart of the ball, which has to be public; `spread` is the root mean square
        distance of records from their middle, half the radius by default; `m` is how many records the second sample has, as
        many as the first by default. At this level the test makes 99 permutations here, or as many as the level takes.
        """
        from curvedp.inference.kernel import SamplesDistance
        from curvedp.inference.permutation import PermutationMechanism

        radius, apart = (
            _validate.positive("radius", self.radius),
            _validate.nonnegative("shift", shift),
        )
        wide = radius / 2 if spread is None else _validate.positive("spread", spread)
        sizes, d = [self.n, self.n if m is None else m], self.manifold.dim
        statistic = SamplesDistance(self.manifold, self.center, radius, sizes)
        level = _validate.within(
            "level", level, 0.0, 1.0, open_low=True, open_high=True
        )
        mechanism = PermutationMechanism.calibrate(statistic, self.guarantee).at_level(
            level, max(99, ceil(1 / level))
        )
        rng, found = np.random.default_rng(20231019), 0
        middles = np.repeat([[apart / 2], [-apart / 2]], sizes, axis=0) * np.eye(1, d)
        for _ in range(_TESTS):
            z = middles + wide / sqrt(d) * rng.standard_normal((sum(sizes), d))
            found += mechanism.simulate_decision(
                rng,
                z * np.minimum(1.0, radius / np.linalg.norm(z, axis=1, keepdims=True)),
            )
        return found / _TESTS

    def plot(self) -> Any:
        """A matplotlib figure of the error against the number of records and against μ (extra: report)."""
        from curvedp.report.figures import plan_figure

        by_n = [
            (n, self._error(n=n))
            for n in sorted({max(2, ceil(self.n * factor)) for factor in _FACTORS})
        ]
        return plan_figure(
            self, by_n, [(mu, self._error(guarantee=GDP(mu))) for mu in _FACTORS]
        )

    def _error(self, **other: Any) -> float:
        """The least error of the few best mechanisms with another n, radius or guarantee; infinite where there is none."""
        found = inf
        for name in list(self.errors)[:2]:
            with suppress(
                CurvedpError
            ):  # such as a ball that is too large for its sphere
                found = min(found, self._at(**other, mechanism=name).error)
        return found

    def _at(self, **other: Any) -> "Plan":
        """The plan with something else instead."""
        same = {name: getattr(self, name) for name in _ASKED}
        if isinstance(self.radius, str):
            same["spread"] = self.spread
        return plan(**{**same, **other})

    def advice(self) -> list[str]:
        """What follows, one line each."""
        if self.statistic == "classifier":
            return self._classified()
        lines = [f"take {self.mechanism}, as 'auto' does: error {self.error:.3g}"]
        if self.dominated:
            lines.append(f"dominated: {', '.join(self.dominated)}")
        if isinstance(self.radius, str):
            lines += self._in_private_ball()
        elif self.too_small:
            lines.append(
                "this study is too small: the public center is as good "
                f"({self._share_of('radius')})"
            )
        else:
            lines.append(self._share_of("radius"))
        if self.too_small and self.statistic == "mean":
            lines += self._cures()
        return lines

    def _share_of(self, name: str) -> str:
        """Compare the error with the radius or the spread, in a sentence."""
        if self.statistic == "dispersion":
            share = self.error / self.spread**2
            return f"the error is {share:.2g} of the square of the {name}"
        return f"the error is {self.error / self.spread:.2g} of the {name}"

    def _in_private_ball(self) -> list[str]:
        """What the error is compared with where the ball is found privately."""
        lines = [
            f"{self._share_of('spread of the records')}, the root mean square distance "
            f"to their mean, taken as {self.spread:.3g}: state yours (spread)"
        ]
        if self.statistic == "mean":
            size = self.n // self.classes
            times = self.error / (self.spread / sqrt(size))
            lines.append(
                f"the error is {times:.2g} times the sampling error of the mean"
            )
        if self.too_small:
            lines.append(
                f"this study is too small: {self._share_of('spread of the records')}"
            )
        limit = self.manifold.convexity_radius
        bounded = isfinite(self.manifold.curvature_bounds[1])
        if bounded and self.found_radius is not None and self.found_radius >= limit:
            lines.append(
                f"records of this spread need a ball of radius {self.found_radius:.3g}, "
                f"and have only one mean for sure below {limit:.3g}: the error may be "
                "many times as large; PrivateFrechetMedian is steadier"
            )
        return lines

    def _cures(self) -> list[str]:
        """How many records would do, and what else."""
        law, scale = smallest_noise(self.guarantee)  # 1/μ, or 1/ε
        # Noise of length 2r√d/(nμ), or 2r√(d(d+1))/(nε), as long as half of what is
        # useless. A private ball is about 1.5 spreads wide and has 0.6 of the budget.
        length = sqrt(self.manifold.dim) * std_per_scale(law, self.manifold.dim)
        factor = 8 if isinstance(self.radius, str) else 4
        needed = ceil(factor * self.spread * length * scale / self.useless)
        many = self.classes * max(needed, 2 * self.n // self.classes)
        lines = [
            f"about {many} records would do, or fewer channels, a smaller ball, a larger budget"
        ]
        if isinstance(self.manifold, SPD):
            lines.append(
                "to tell classes apart: plan a classifier, which reduces the matrices first"
            )
        return lines

    def _classified(self) -> list[str]:
        """Which classifier, and where it errs much how many records would do."""
        lines = [
            f"take {self.mechanism}: {1 - self.error:.0%} right where classes differ in the strongest components"
        ]
        lines += ["this study is too small: guessing is about as good"] * self.too_small
        if self.error > _WRONG:
            enough = [
                self.n * more
                for more in _MORE
                if self._error(n=self.n * more) <= _WRONG
            ]
            found = (
                f"about {enough[0]} records"
                if enough
                else f"not even {_MORE[-1]} times as many records"
            )
            lines.append(f"for {1 - _WRONG:.0%}: {found} would do")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        told = {name: getattr(self, name) for name in _TOLD}
        return {
            **told,
            "manifold": self.manifold.name,
            "guarantee": self.guarantee.to_dict(),
            "advice": self.advice(),
        }

    @property
    def title(self) -> str:
        """The question, in one line."""
        count = f"{self.n} records" + (
            f" in {self.classes} classes" if self.classes > 1 else ""
        )
        ball = "" if self.radius is None else f"radius {self.radius}, "
        return f"private {self.statistic} of {count} on {self.manifold.name}, {ball}{self.guarantee}"

    def rows(self) -> list[tuple[str, str]]:
        """Mechanism and predicted error, or why there is none."""
        found = [(name, f"{error:.4g}") for name, error in self.errors.items()]
        return found + [
            (name, f"left out: {why}") for name, why in self.left_out.items()
        ]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        lines = [f"  {name:<{width}}  {text}" for name, text in self.rows()]
        return "\n".join([self.title, *lines, *(f"- {line}" for line in self.advice())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th align='left'>{html.escape(a)}<td>{html.escape(b)}"
            for a, b in self.rows()
        )
        advice = "".join(f"<li>{html.escape(line)}" for line in self.advice())
        return (
            f"<p><b>{html.escape(self.title)}</b><table>{rows}</table><ul>{advice}</ul>"
        )


def plan(
    manifold: Manifold,
    n: int,
    radius: float | str | None = None,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value, safe as a default
    center: Any = None,
    outer_radius: float | None = None,
    mechanism: str = "auto",
    statistic: str = "mean",
    classes: int = 1,
    spread: float | None = None,
) -> Plan:
    """How far a private mean would be from the mean, for each mechanism, before there are data.

    Parameters
    ----------
    manifold, n : Manifold and int
        Where the records will live, and how many there will be; of persons, where a person has several.
    radius : float or "private"
        Of the public ball; with "private" it is found, and the error depends on the spread. A classifier has none.
    guarantee : Guarantee
        What will be asked for.
    center, outer_radius : point and float, optional
        As of `PrivateFrechetMean`.
    mechanism : str
        All of them by default; one by name is sooner predicted.
    statistic : {"mean", "dispersion", "regression", "classifier"}
        What will be released; regressions of one predictor, with `radius="private"`; a classifier of covariance matrices of
        many channels, by a private reduction: `PrivateMDM(reduce=)` or `PrivateSoftmax`, with which features.
    classes : int
        Of as many records each: the mean is that of a class, as `PrivateMDM` releases it.
    spread : float, optional
        With `radius="private"`, the root mean square distance of the records to their
        mean, from an earlier study or from experience: it is public. By default 0.5, or
        less where the space is small; the error is nearly in proportion to it.

    Returns
    -------
    Plan
        The predictions; it prints itself.

    Raises
    ------
    ParameterError, UnattainableGuarantee
        If a parameter is not usable, or no mechanism meets the guarantee.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> study = plan(SPDAffineInvariant(3), n=972, radius=2.5, guarantee=GDP(1.0))
    >>> study.mechanism, study.too_small, round(study.error, 2)
    ('tangent-gaussian', False, 0.01)
    >>> 550 < study.records_needed(0.02) < 650
    True
    """
    check_manifold(manifold)
    check_guarantee(guarantee)
    if (numbers := prod(manifold.point_shape)) > _MOST_NUMBERS:
        raise ParameterError(
            f"a point of {manifold!r} has {numbers} numbers; plans are for at most {_MOST_NUMBERS}"
        )
    n, classes = _validate.integer("n", n, 2), _validate.integer("classes", classes, 1)
    _validate.choice(
        "statistic", statistic, ("mean", "dispersion", "regression", "classifier")
    )
    if statistic == "classifier":
        if (radius, center, outer_radius) != (None, None, None):
            raise ParameterError(
                "a classifier needs no ball: leave radius, center and outer_radius out"
            )
        made = candidate_classifiers(manifold, n, classes, guarantee)
        names = (
            made
            if mechanism == "auto"
            else [_validate.choice("mechanism", mechanism, tuple(made))]
        )
        with one_blas_thread():
            errors = dict(
                sorted(
                    ((name, made[name].predict_error()) for name in names),
                    key=lambda each: each[1],
                )
            )
        guessed = 0.8 * (1 - 1 / classes)
        return Plan(
            manifold,
            n,
            None,
            guarantee,
            None,
            None,
            1.0,
            guessed,
            errors,
            {},
            statistic,
            classes,
        )
    if spread is not None:
        if not isinstance(radius, str):
            raise ParameterError(
                "is for a private radius", parameter="spread", value=spread
            )
        spread = _validate.positive("spread", spread)
    if classes > 1 and (statistic != "mean" or n < 2 * classes):
        raise ParameterError(
            "is for means and classifiers, of at least 2 records a class",
            parameter="classes",
            value=classes,
        )
    size, searched = n // classes, isinstance(radius, str)
    wanted = _statistic(
        manifold, center, radius, n if searched else size, outer_radius, statistic
    )
    if searched and classes > 1:
        wanted = class_mean_statistic(wanted, size, size, guarantee)
    if isinstance(wanted, BallSearchStatistic):
        return _plan_private_ball(
            wanted, n, guarantee, mechanism, statistic, classes, spread
        )
    left_out: dict[str, str] = {}
    with one_blas_thread():  # small matrices
        if mechanism != "auto":
            chosen = choose_mechanism(mechanism, wanted, guarantee).mechanism
            errors = {mechanism: predicted_error(chosen)}
        else:
            found, left_out = rank_mechanisms(wanted, guarantee)
            errors = {name: error for name, (error, _) in found.items()}
    if not errors:
        _ = wanted.sensitivity  # where there is none, that is the reason
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise UnattainableGuarantee(
            f"no mechanism meets {guarantee} on {manifold!r}: {why}"
        )
    wide = float(wanted.radius)
    if statistic == "dispersion":
        # The variance of records that fill a ball of half the radius.
        useless = wide**2 / 4 * manifold.dim / (manifold.dim + 2)
    else:
        reference = reference_ball(wanted)
        assert reference is not None  # statistics that are planned have one
        wide = reference.radius
        useless = baseline_error(wanted)
    return Plan(
        manifold,
        n,
        float(wanted.radius),
        guarantee,
        np.asarray(wanted.center, dtype=np.float64),
        None,
        wide,
        useless,
        errors,
        left_out,
        statistic,
        classes,
    )


# Of the spread: a mean or a geodesic that errs by so much is of little use.
_USELESS_SHARE = {"mean": USELESS_SHARE, "regression": 2 * USELESS_SHARE}


def _plan_private_ball(
    wanted: Any,
    n: int,
    guarantee: Guarantee,
    mechanism: str,
    statistic: str,
    classes: int,
    spread: float | None,
) -> Plan:
    """Plan a statistic in a private ball, of records of a stated spread."""
    _validate.choice("mechanism", mechanism, ("auto", PrivateBallMechanism.info.name))
    if spread is None:
        spread = wanted.reference_spread
    search = PrivateBallMechanism.calibrate(wanted, guarantee)
    with one_blas_thread():  # small matrices
        rehearsal = search.rehearse(spread)
    if statistic == "dispersion":
        useless = spread**2
    else:
        useless = _USELESS_SHARE[statistic] * spread
    return Plan(
        wanted.manifold,
        n,
        "private",
        guarantee,
        np.asarray(wanted.center, dtype=np.float64),
        wanted.outer_radius,
        spread,
        useless,
        {PrivateBallMechanism.info.name: rehearsal.error},
        {},
        statistic,
        classes,
        rehearsal.radius,
    )


def _statistic(
    manifold: Manifold,
    center: Any,
    radius: Any,
    n: int,
    outer_radius: Any,
    what: str = "mean",
) -> Any:
    if isinstance(radius, str):
        _validate.private_radius(radius)
        if what == "regression":
            return SearchedGeodesic(manifold, center, outer_radius, n, [(0.0, 1.0)])
        return {"mean": SearchedMean, "dispersion": SearchedVariance}[what](
            manifold, center, outer_radius, n
        )
    if what == "regression":
        raise ParameterError(
            "must be 'private' for a regression, which finds its speed and clip too",
            parameter="radius",
            value=radius,
        )
    return {"mean": FrechetMean, "dispersion": FrechetVariance}[what](
        manifold, center, radius, n
    )


def _crossing(
    error: Callable[[float], float], start: float, wanted: float, *, rises: bool
) -> float:
    """Where `error`, nearly proportional to x (or to 1/x), is as wanted: bracketed about what proportion gives, then
    halved on the logarithm. The end returned is the one where it is no larger; 0 or inf where there is none."""
    here = error(start)
    x = start * (wanted / here if rises else here / wanted) if here < inf else start
    good = error(x) <= wanted
    factor = _STEP if good == rises else 1 / _STEP
    for _ in range(_TRIES):
        if (error(x * factor) <= wanted) != good:
            break
        x, factor = x * factor, factor**2 if abs(log(factor)) < 1 else factor
    else:
        return inf if factor > 1 else 0.0
    ends = {good: x, not good: x * factor}
    while max(ends.values()) > _CLOSE * min(ends.values()):
        middle = sqrt(ends[True] * ends[False])
        ends[error(middle) <= wanted] = middle
    return ends[True]
