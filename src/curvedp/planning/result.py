"""A `Plan` holds the errors that `plan` predicts for each mechanism, and answers further
questions about the same release: how many records a wanted error takes, which radius,
how wide the confidence region would be. It prints itself.
"""

import html
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, inf, isfinite, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np

from curvedp import _validate
from curvedp.errors import CurvedpError, ParameterError, UnattainableGuarantee
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.threads import one_blas_thread
from curvedp.planning.advice import Advice, advice_on
from curvedp.planning.request import OwnStatistic, unwrap_statistic_class
from curvedp.planning.simulation import (
    check_region_can_be_simulated,
    simulated_power,
    simulated_region_radius,
)
from curvedp.planning.solve import solve_for_error
from curvedp.privacy import GDP, Guarantee
from curvedp.statistics.frechet_mean import FrechetMean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Plan"]

# The most records that `Plan.records_needed` considers.
_MAX_RECORDS = 10**12

# A mechanism is dominated if its error is at least this many times the best error.
# Predictions are accurate to about a percent.
_DOMINATED_RATIO = 1.05

# `Plan.plot` draws the error at these multiples of n, and at these values of μ.
_PLOT_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Plan:
    """The predictions that `plan` returns. A plan prints itself, in a notebook too.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    n : int
        The number of records, or of people where a person has several records.
    radius : float, "private" or None
        The radius of the public ball, "private" where the release searches for a ball,
        and None for a classifier.
    guarantee : Guarantee
        The guarantee that the release will meet.
    center : array or None
        The center of the public ball, or of the ball in which a private ball is
        searched.
    outer_radius : float or None
        With `radius="private"`, the radius of the ball in which the search takes place.
    spread : float
        With `radius="private"`, the root mean square distance of the records to their
        mean; otherwise the radius.
    useless_error : float
        The error at which the release is of little use. In a public ball it is the
        error of the public center itself, at most a third of the radius. In a private
        ball it is a quarter of the spread, and half of the spread for a regression. For
        a dispersion it is the variance itself, for a classifier and a starter kit 80%
        of the error of guessing, and for a tangent PCA half a right angle. For
        synthetic records it is half of the energy distance of a single point to records
        about it. For k-means it is half the spread of a cluster, or less where its size
        would not be known.
    errors : dict
        The predicted error by mechanism, best first. For a mean in a public ball it is
        the mean distance to the mean of the clipped records; in a private ball, the
        root mean square distance to the mean of all records. For a dispersion it is the
        error of the variance. For a regression it is the root mean square error of the
        middle of the geodesic and of its velocity times the standard deviation of the
        predictor. For a classifier it is the share of new records that are
        misclassified, if each class has a source of its own among the strongest
        components. For a starter kit it is the share of wrong trials of a new person,
        for class centers of the stated spread. For a tangent PCA it is the root mean
        square angle, in radians, of the first direction to the true one, for records
        whose variances along the principal directions are in the ratios 1, 1/2, 1/3 and
        so on; in a public ball their spread is half the radius. For synthetic records
        it is the energy distance to the real ones, the root of a length, by model. For
        k-means it is the length of the noise of a center, in units of the spread of the
        records of its cluster.
    left_out : dict
        Why each of the other mechanisms was not considered, by mechanism.
    statistic : str, type of Statistic, or functools.partial of such a type
        What is released: "mean", "dispersion", "regression", "classifier",
        "starter-kit", "tangent-pca", "synthetic" or "kmeans".
    classes : int
        The number of classes or clusters, which have equally many records each.
    found_radius : float or None
        With `radius="private"`, about the radius of the ball that would be found.
    wide_radius : float or None
        With `radius="private"`, the radius that nine of ten balls would not exceed.
    median_error : float or None
        With `radius="private"`, the error that half of the releases would stay below.
    clipped_share : float or None
        With `radius="private"`, about the share of the records that the search leaves
        outside the ball; None where noisy counts decide about it.

    Examples
    --------
    >>> from curvedp import plan
    >>> from curvedp.geometry import Sphere
    >>> study = plan(Sphere(2), n=200, radius=0.7)
    >>> study.too_small, study.error < 0.1
    (False, True)
    """

    manifold: Manifold
    n: int
    radius: float | str | None
    guarantee: Guarantee
    center: np.ndarray | None
    outer_radius: float | None
    spread: float
    useless_error: float
    errors: dict[str, float]
    left_out: dict[str, str]
    statistic: str | OwnStatistic = "mean"
    classes: int = 1
    found_radius: float | None = None
    wide_radius: float | None = None
    median_error: float | None = None
    clipped_share: float | None = None

    @property
    def mechanism(self) -> str:
        """The name of the mechanism with the smallest predicted error.

        `mechanism="auto"` chooses it. For a classifier it is the call to make, such as
        "PrivateSoftmax".
        """
        return next(iter(self.errors))

    @property
    def error(self) -> float:
        """The predicted error of the best mechanism."""
        return self.errors[self.mechanism]

    @property
    def dominated(self) -> list[str]:
        """The mechanisms whose error is at least 5% larger than the best."""
        limit = _DOMINATED_RATIO * self.error
        return [name for name, error in self.errors.items() if error >= limit]

    @property
    def too_small(self) -> bool:
        """Whether the predicted error is so large that the release is of little use."""
        return self.error >= self.useless_error

    @property
    def statistic_name(self) -> str:
        """The name of the statistic that is released, such as "mean"."""
        if isinstance(self.statistic, str):
            return self.statistic
        name: str = unwrap_statistic_class(self.statistic).name
        return name

    @property
    def has_private_ball(self) -> bool:
        """Whether the release searches for its ball, with `radius="private"`."""
        return isinstance(self.radius, str)

    @property
    def releases_one_mean(self) -> bool:
        """Whether the release is a single Fréchet mean, not one per class."""
        return self.statistic == "mean" and self.classes == 1

    @property
    def _has_stated_spread(self) -> bool:
        """Whether the prediction depends on a spread that the caller may state."""
        return self.has_private_ball or self.statistic == "starter-kit"

    def records_needed(self, error: float) -> int:
        """Return the number of records at which the predicted error is `error`.

        Call it before a study, to know how many records it takes.

        Parameters
        ----------
        error : float
            The wanted error, in the units of `Plan.error`.

        Returns
        -------
        int
            The number of records, accurate to about a percent.

        Raises
        ------
        UnattainableGuarantee
            If no number of records up to 10¹² is enough.
        """
        target_error = _validate.positive("error", error)
        min_records = 2 * self.classes
        if self.error_with(n=min_records) <= target_error:
            return min_records

        # The error is about inversely proportional to the number of records.
        first_guess = self._to_record_count(self.n * self.error / target_error)
        # With that many records, other mechanisms may be the best ones.
        nearby_plan = self
        if len(self.errors) > 2:
            nearby_plan = self._replan(n=first_guess)

        def error_at(count: float) -> float:
            """Return the predicted error with this number of records.

            Parameters
            ----------
            count : float
                A number of records that the search tries.
            """
            return nearby_plan.error_with(n=self._to_record_count(count))

        count = solve_for_error(
            error_at, float(first_guess), target_error, increasing=False
        )
        if not 2 <= count <= _MAX_RECORDS:
            raise UnattainableGuarantee(
                f"no number of records brings the error to {target_error:g} "
                f"at {self.guarantee}"
            )
        return ceil(count)

    def _to_record_count(self, count: float) -> int:
        """Round up to a number of records that a plan accepts.

        Parameters
        ----------
        count : float
            A number of records, which may be too small or too large.
        """
        min_records = 2 * self.classes
        return ceil(min(max(min_records, count), _MAX_RECORDS))

    def region(self, level: float = 0.95) -> float:
        """Estimate the radius of the confidence region that the release will have.

        It is the radius for one simulated release of public records. In a public ball
        these records fill a concentric ball of half the radius; with `radius="private"`
        they have the stated spread.

        Parameters
        ----------
        level : float
            The probability that the region covers the truth.

        Returns
        -------
        float
            The radius.

        Raises
        ------
        ParameterError
            If the mechanism has no region, if the release is not one mean, or if there
            are more records than are simulated.
        """
        check_region_can_be_simulated(self)
        return simulated_region_radius(self, level)

    def regions(self, level: float = 0.95) -> dict[str, float]:
        """Estimate the radius of the confidence region for each mechanism that has one.

        The mechanism with the smallest error may have a region as wide as the ball. The
        mechanisms "tangent-gaussian" and "tangent-laplace" have exact regions, whose
        radius is about the length of their noise. With `radius="private"` there is only
        one mechanism.

        Parameters
        ----------
        level : float
            The probability that a region covers the truth.

        Returns
        -------
        dict
            The radius by the name of the mechanism.
        """
        # This import is slow, and most plans do not need it.
        from curvedp.inference.region import regions_in_chart

        best_radius = self.region(level)
        if self.has_private_ball:
            return {self.mechanism: best_radius}
        assert isinstance(self.radius, float), "a mean in a public ball has a radius"
        statistic = FrechetMean(self.manifold, self.center, self.radius, self.n)
        with one_blas_thread():
            chart_radii = regions_in_chart(statistic, self.guarantee, level)
        return {**chart_radii, self.mechanism: best_radius}

    def radius_for(self, error: float) -> float:
        """Return the largest radius of the public ball with at most this error.

        A wider ball holds more records but needs more noise. Call it to know how wide a
        ball the study can afford.

        Parameters
        ----------
        error : float
            The wanted error, in the units of `Plan.error`.

        Returns
        -------
        float
            The radius, accurate to about a percent; infinite if every radius that the
            manifold allows has at most this error.

        Raises
        ------
        ParameterError
            With `radius="private"`, where there is no radius to choose.
        """
        self._check_has_public_radius()
        planned_radius = _validate.positive("radius", self.radius)
        target_error = _validate.positive("error", error)

        largest_radius = inf
        if isfinite(self.manifold.curvature_bounds[1]):
            largest_radius = nextafter(self.manifold.convexity_radius, 0)

        def error_at(radius: float) -> float:
            """Return the predicted error in a public ball of this radius.

            Parameters
            ----------
            radius : float
                A radius that the search tries.
            """
            return self.error_with(radius=min(radius, largest_radius))

        return solve_for_error(error_at, planned_radius, target_error, increasing=True)

    def power(
        self,
        shift: float,
        spread: float | None = None,
        m: int | None = None,
        level: float = 0.05,
    ) -> float:
        """Estimate how often `two_sample_test` would find that two populations differ.

        The power is the fraction of 200 simulated tests that reject, with a public
        seed. Each test makes 99 permutations, or 1/level if that is more. The ball of
        the plan must be public.

        Parameters
        ----------
        shift : float
            The distance between the centers of the two populations, in the normal chart
            at the center of the ball.
        spread : float, optional
            The root mean square distance of the records to the center of their
            population; half the radius by default.
        m : int, optional
            The number of records in the second sample; as many as in the first by
            default.
        level : float
            The level of the test.

        Returns
        -------
        float
            The estimated power, between 0 and 1.
        """
        self._check_has_public_radius()
        radius = _validate.positive("radius", self.radius)
        shift = _validate.nonnegative("shift", shift)
        if spread is None:
            spread = radius / 2
        else:
            spread = _validate.positive("spread", spread)
        second_size = self.n if m is None else m
        return simulated_power(
            self, radius, shift, spread, [self.n, second_size], level
        )

    def _check_has_public_radius(self) -> None:
        """Refuse questions about the radius of a plan that compares classifiers."""
        if self.statistic == "starter-kit":
            raise ParameterError(
                "a starter kit takes any small radius, such as 0.5: its accuracy does "
                "not grow below that"
            )

    def plot(self) -> "Figure":
        """Plot the predicted error against the number of records and against μ.

        It needs the extra "report".

        Returns
        -------
        matplotlib.figure.Figure
            A figure with two panels.
        """
        from curvedp.report.figures import plan_figure

        record_counts = sorted(
            {max(2, ceil(self.n * factor)) for factor in _PLOT_FACTORS}
        )
        errors_by_count = [(count, self.error_with(n=count)) for count in record_counts]
        errors_by_mu = [
            (mu, self.error_with(guarantee=GDP(mu))) for mu in _PLOT_FACTORS
        ]
        return plan_figure(self, errors_by_count, errors_by_mu)

    def error_with(
        self,
        *,
        n: int | None = None,
        radius: float | None = None,
        guarantee: Guarantee | None = None,
    ) -> float:
        """Predict the error of the same release with other parameters.

        Only the two best mechanisms of this plan are tried, and the smaller error is
        returned. Parameters that are None are those of this plan.

        Parameters
        ----------
        n : int, optional
            Another number of records.
        radius : float, optional
            Another radius of the public ball.
        guarantee : Guarantee, optional
            Another guarantee.

        Returns
        -------
        float
            The error; infinite if neither mechanism can be used, for example in a ball
            that is too large for its sphere.
        """
        smallest_error = inf
        for mechanism in list(self.errors)[:2]:
            with suppress(CurvedpError):
                other_plan = self._replan(
                    n=n, radius=radius, guarantee=guarantee, mechanism=mechanism
                )
                smallest_error = min(smallest_error, other_plan.error)
        return smallest_error

    def _replan(
        self,
        *,
        n: int | None = None,
        radius: float | None = None,
        guarantee: Guarantee | None = None,
        mechanism: str = "auto",
    ) -> "Plan":
        """Return the plan of the same release with other parameters.

        Parameters
        ----------
        n : int, optional
            Another number of records.
        radius : float, optional
            Another radius of the public ball.
        guarantee : Guarantee, optional
            Another guarantee.
        mechanism : str
            The one mechanism to predict; "auto" predicts all of them.
        """
        # `make_plan` imports this module.
        from curvedp.planning.make_plan import plan

        return plan(
            manifold=self.manifold,
            n=self.n if n is None else n,
            radius=self.radius if radius is None else radius,
            guarantee=self.guarantee if guarantee is None else guarantee,
            center=self.center,
            outer_radius=self.outer_radius,
            mechanism=mechanism,
            statistic=self.statistic,
            classes=self.classes,
            spread=self.spread if self._has_stated_spread else None,
        )

    def advice(self) -> list[str]:
        """Return advice that follows from the predictions, as a list of sentences.

        The best mechanism comes first, then warnings and remedies.
        """
        return [line.text for line in self.advice_with_kinds()]

    def advice_with_kinds(self) -> list[Advice]:
        """Return advice that follows from the predictions, as sentences with codes.

        The code of a sentence says what it is about. Programs use it to show only some
        of the sentences.

        Returns
        -------
        list of Advice
            Each has a `kind` and a `text`.
        """
        return advice_on(self)

    @property
    def largest_number_of_clusters(self) -> int:
        """The largest number of clusters for which a k-means release is useful.

        The clusters are assumed to have equal sizes.

        Raises
        ------
        ParameterError
            For another statistic.
        """
        if self.statistic != "kmeans":
            raise ParameterError(f"a {self.statistic_name} has no clusters")
        return int(self.classes * self.useless_error / self.error)

    def to_dict(self) -> dict[str, Any]:
        """Return the predictions and the advice as values that JSON can hold.

        `curvedp plan --json` prints them.
        """
        return {
            "manifold": self.manifold.name,
            "statistic": self.statistic_name,
            "classes": self.classes,
            "n": self.n,
            "radius": self.radius,
            "guarantee": self.guarantee.to_dict(),
            "spread": self.spread,
            "mechanism": self.mechanism,
            "error": self.error,
            "errors": self.errors,
            "dominated": self.dominated,
            "left_out": self.left_out,
            "too_small": self.too_small,
            "found_radius": self.found_radius,
            "advice": self.advice(),
        }

    @property
    def title(self) -> str:
        """The planned release in one line: statistic, records, space and guarantee."""
        unit = "people" if self.statistic == "starter-kit" else "records"
        records = f"{self.n} {unit}"
        if self.classes > 1:
            group_name = "clusters" if self.statistic == "kmeans" else "classes"
            records += f" in {self.classes} {group_name}"
        ball = "" if self.radius is None else f"radius {self.radius}, "
        return (
            f"private {self.statistic_name} of {records} on {self.manifold.name}, "
            f"{ball}{self.guarantee}"
        )

    def rows(self) -> list[tuple[str, str]]:
        """Return the rows of a table: a mechanism's name and its predicted error.

        Mechanisms that were left out come last, with the reason in place of the error.
        """
        predicted = [(name, f"{error:.4g}") for name, error in self.errors.items()]
        excluded = [
            (name, f"left out: {reason}") for name, reason in self.left_out.items()
        ]
        return predicted + excluded

    def __str__(self) -> str:
        """Return the title, the table of mechanisms and the advice as plain text."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        table = [f"  {name:<{width}}  {text}" for name, text in rows]
        advice = [f"- {line}" for line in self.advice()]
        return "\n".join([self.title, *table, *advice])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the title, the table of mechanisms and the advice for a notebook."""
        rows = "".join(
            f"<tr><th align='left'>{html.escape(name)}<td>{html.escape(text)}"
            for name, text in self.rows()
        )
        advice = "".join(f"<li>{html.escape(line)}" for line in self.advice())
        return (
            f"<p><b>{html.escape(self.title)}</b><table>{rows}</table><ul>{advice}</ul>"
        )
