"""Predict how accurate a private release would be, before any data exist. `plan`
compares the mechanisms that could release a statistic, and returns a `Plan`. Errors are
distances from the release to the true value, predicted from public numbers: the space,
the ball, n and the guarantee.

A `Plan` answers further questions: how many records a wanted error takes, which radius,
or how powerful a two-sample test would be.
"""

import html
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from functools import partial
from math import ceil, degrees, inf, isfinite, log, nextafter, pi, prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from curvedp import _validate
from curvedp.core.mechanism import Mechanism, check_guarantee
from curvedp.core.statistic import ClippedToBall, Statistic
from curvedp.errors import CurvedpError, ParameterError, UnattainableGuarantee
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.ball_search import (
    PrivateBallMechanism,
    class_mean_statistic,
)
from curvedp.mechanisms.staged.kmeans import KMeansMechanism
from curvedp.mechanisms.staged.reduced_classifier import candidate_classifiers
from curvedp.mechanisms.staged.step_to_mean import ways_in_public_ball
from curvedp.mechanisms.vector import smallest_noise, std_per_scale
from curvedp.numerics.threads import one_blas_thread
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import GeneratorSource
from curvedp.release.choose import choose_mechanism, rank_mechanisms
from curvedp.release.predict import baseline_error, predicted_error, reference_ball
from curvedp.release.warnings import USELESS_FRACTION
from curvedp.statistics.clusters import Clusters
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.population import (
    MODELS,
    SearchedPopulation,
    SyntheticPopulation,
)
from curvedp.statistics.populations import (
    Population,
    population_of_spread,
    reference_populations,
)
from curvedp.statistics.searched_ball import (
    BallSearchStatistic,
    SearchedGeodesic,
    SearchedMean,
    SearchedVariance,
    default_outer_radius,
)
from curvedp.statistics.tangent_moments import SearchedTangentMoments, TangentMoments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Plan", "plan"]

# What a plan can be made for by name.
_STATISTIC_NAMES = (
    "mean",
    "dispersion",
    "regression",
    "classifier",
    "starter-kit",
    "tangent-pca",
    "synthetic",
    "kmeans",
)

# The most records of a release that `Plan.region` simulates.
_MAX_SIMULATED_RECORDS = 10**5
# The most records that `Plan.records_needed` considers.
_MAX_RECORDS = 10**12
# The most numbers in one point. A prediction simulates about a hundred points, which
# takes minutes beyond this size.
_MAX_NUMBERS_PER_POINT = 10**5

# The fields of a statistic of n records in a public ball.
_BALL_FIELDS = {"manifold", "center", "radius", "n"}

# A statistic that is not in the library: its class, or `functools.partial` of the class
# with further parameters of its own.
OwnStatistic = type[Statistic] | partial[Statistic]

# A mechanism is dominated if its error is at least this many times the best error.
# Predictions are accurate to about a percent.
_DOMINATED_RATIO = 1.05

# A search for the argument where the error has a wanted value: the factor of its first
# step, its largest number of steps, and the ratio of the bracket's ends where it stops.
_FIRST_STEP_FACTOR = 1.1
_MAX_STEPS = 40
_BRACKET_RATIO = 1.01

# Tests that are simulated to estimate a power, the public seed of the simulation, and
# the fewest permutations of each test.
_SIMULATED_TESTS = 200
_POWER_SEED = 20231019
_MIN_PERMUTATIONS = 99

# `Plan.plot` draws the error at these multiples of n, and at these values of μ.
_PLOT_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

# A classifier is called good if it misclassifies at most this share of new records.
_GOOD_MISCLASSIFIED_SHARE = 0.2
# `plan` compares a starter kit in a public ball of this radius with one in a private
# ball. Class means of most people are longer, so that the direction of each counts.
_KIT_RADIUS = 0.5
# Advice on a classifier that is not good tries these multiples of the records.
_RECORD_MULTIPLES = (2, 4, 8, 16)
# A classifier is of little use if it errs at least this often, relative to guessing.
_USELESS_SHARE_OF_GUESSING = 0.8

# In a private ball, a mean or a geodesic is of little use if its error is at least this
# share of the spread of the records.
_USELESS_SHARE_OF_SPREAD = {
    "mean": USELESS_FRACTION,
    "regression": 2 * USELESS_FRACTION,
}


# A first direction is of little use if it is farther than this from the true one, in
# radians: half a right angle.
_USELESS_ANGLE = pi / 4
# Synthetic records are of little use from half of the energy distance of one point to
# records about it. For normal records of root mean square distance s the square of that
# is at most (2 − √2)·s.
_USELESS_SQUARED_ENERGY = (2 - sqrt(2)) / 4


# Rare large errors make up most of a root mean square error that is at least this many
# times the median. For normal errors the ratio is 1.5 in one dimension, and less in more.
_RARE_ERRORS_RATIO = 2.0

# If a search leaves more than this share of the records outside its ball, the error
# depends on where these lie, and cannot be predicted from the spread.
_MANY_OUTSIDE = 0.25

# A region of at least this part of the radius of its ball says next to nothing.
_WIDE_REGION_SHARE = 0.5


class AdviceKind(StrEnum):
    """The subjects of a plan's advice."""

    MECHANISM = "mechanism"
    ERROR_SHARE = "error share"
    ASSUMED_SPREAD = "assumed spread"
    SAMPLING_ERROR = "sampling error"
    TOO_SMALL = "too small"
    SEVERAL_MEANS = "several means"
    RARE_ERRORS = "rare errors"
    RECORDS_OUTSIDE = "records outside"
    WIDE_REGION = "wide region"
    REMEDY = "remedy"


class Advice(NamedTuple):
    """One line of a plan's advice.

    Attributes
    ----------
    kind : AdviceKind
        The subject of the line, for programs that show only some lines.
    text : str
        The sentence that people read.
    """

    kind: AdviceKind
    text: str


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
        a dispersion it is the variance itself, for a classifier
        and a starter kit 80% of the error of guessing, and for a tangent PCA half a right angle. For synthetic records it is
        half of the energy distance of a single point to records about it. For k-means
        it is half the spread of a cluster, or less where its size would not be known.
    errors : dict
        The predicted error by mechanism, best first. For a mean in a public ball it is
        the mean distance to the mean of the clipped records; in a private ball, the
        root mean square distance to the mean of all records. For a dispersion it is the
        error of the variance. For a regression it is the root mean square error of the
        middle of the geodesic and of its velocity times the standard deviation of the
        predictor. For a classifier it is the share of new records that are
        misclassified, if each class has a source of its own among the strongest
        components. For a starter kit it is the share of wrong trials of a new person,
        for class centers of the stated spread. For a tangent PCA it is the root mean square angle, in radians, of
        the first direction to the true one, for records whose variances along the
        principal directions are in the ratios 1, 1/2, 1/3 and so on; in a public ball
        their spread is half the radius. For synthetic records it is the energy
        distance to the real ones, the root of a length, by model. For k-means it is
        the length of the noise of a center, in units of the spread of the records of
        its cluster.
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
        name: str = _class_of(self.statistic).name
        return name

    @property
    def _has_private_ball(self) -> bool:
        """Whether the release searches for its ball, with `radius="private"`."""
        return isinstance(self.radius, str)

    @property
    def _has_stated_spread(self) -> bool:
        """Whether the prediction depends on a spread that the caller may state."""
        return self._has_private_ball or self.statistic == "starter-kit"

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
        wanted_error = _validate.positive("error", error)
        min_records = 2 * self.classes
        if self._error_with(n=min_records) <= wanted_error:
            return min_records

        def to_record_count(count: float) -> int:
            """Round up to a number of records that a plan accepts.

            Parameters
            ----------
            count : float
                A number of records that the search tries.
            """
            return ceil(min(max(min_records, count), _MAX_RECORDS))

        # The error is about inversely proportional to the number of records.
        first_guess = to_record_count(self.n * self.error / wanted_error)

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
            return nearby_plan._error_with(n=to_record_count(count))

        count = _solve_for_error(
            error_at, float(first_guess), wanted_error, increasing=False
        )
        if not 2 <= count <= _MAX_RECORDS:
            raise UnattainableGuarantee(
                f"no number of records brings the error to {wanted_error:g} "
                f"at {self.guarantee}"
            )
        return ceil(count)

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
        # This import is slow, and most plans do not need it.
        from curvedp.inference import region_of

        self._check_region_is_simulated()
        statistic = _planned_statistic(
            self.manifold, self.center, self.radius, self.n, self.outer_radius
        )
        mechanism = choose_mechanism(
            self.mechanism, statistic, self.guarantee
        ).mechanism
        data = self._simulated_data(mechanism, self._simulated_population(statistic))

        with one_blas_thread():
            source = GeneratorSource(np.random.default_rng(0))
            simulated_release = mechanism.release(data, source=source)
            return region_of(simulated_release.certificate, level).radius

    def _check_region_is_simulated(self) -> None:
        """Refuse plans for which `region` cannot simulate a confidence region.

        They are plans of anything but a single mean, and of too many records.
        """
        has_too_many_records = self.n > _MAX_SIMULATED_RECORDS
        is_one_mean = self.statistic == "mean" and self.classes == 1
        if is_one_mean and not has_too_many_records:
            return
        if self.statistic == "synthetic":
            raise ParameterError(
                "synthetic records have no region: combine_synthetic gives error bars "
                "of what is computed from them"
            )
        if self.statistic == "starter-kit":
            raise ParameterError(
                "a starter kit has no region: its error is the share of wrong trials"
            )
        if has_too_many_records:
            subject = f"{self.n} records"
        else:
            subject = f"a {self.statistic_name}"
        raise ParameterError(
            f"the region of {subject} is known after the release; its noise is `error`"
        )

    def _simulated_population(self, statistic: "_PlannedStatistic") -> Population:
        """Return made-up records with their mean, for a simulated release.

        `region` simulates a release of these records.

        Parameters
        ----------
        statistic : ClippedToBall or BallSearchStatistic
            The planned statistic, with its ball.

        Returns
        -------
        Population
            Public records with their Fréchet mean.
        """
        if isinstance(statistic, BallSearchStatistic):
            return population_of_spread(
                self.manifold,
                statistic.center,
                self.spread,
                self.n,
                statistic.reference_shape,
            )
        ball = reference_ball(statistic)
        assert ball is not None, "every statistic that is planned has a ball"
        return reference_populations(self.manifold, ball)[0]

    def _simulated_data(
        self, mechanism: Mechanism, population: Population
    ) -> np.ndarray:
        """Return the data that a mechanism needs for a simulated release.

        Parameters
        ----------
        mechanism : Mechanism
            The mechanism that is simulated.
        population : Population
            Made-up records with their mean.

        Returns
        -------
        array
            The mean, if the mechanism reads the statistic's value; otherwise the
            records, repeated or cut to n.
        """
        if mechanism.info.reads == "value":
            return population.mean
        return np.resize(population.records, (self.n, *population.mean.shape))

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
        if self._has_private_ball:
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
        wanted_error = _validate.positive("error", error)

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
            return self._error_with(radius=min(radius, largest_radius))

        return _solve_for_error(error_at, planned_radius, wanted_error, increasing=True)

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
        # These imports are slow, and most plans do not need them.
        from curvedp.inference.kernel import SamplesDistance
        from curvedp.inference.permutation import PermutationMechanism

        self._check_has_public_radius()
        radius = _validate.positive("radius", self.radius)
        shift = _validate.nonnegative("shift", shift)
        if spread is None:
            spread = radius / 2
        else:
            spread = _validate.positive("spread", spread)
        sample_sizes = [self.n, self.n if m is None else m]
        statistic = SamplesDistance(self.manifold, self.center, radius, sample_sizes)
        level = _validate.within(
            "level", level, 0.0, 1.0, open_low=True, open_high=True
        )
        permutations = max(_MIN_PERMUTATIONS, ceil(1 / level))
        mechanism = PermutationMechanism.calibrate(statistic, self.guarantee)
        test = mechanism.at_level(level, permutations)

        rng = np.random.default_rng(_POWER_SEED)
        rejections = 0
        for _ in range(_SIMULATED_TESTS):
            records = _two_shifted_samples(
                rng, sample_sizes, self.manifold.dim, shift, spread, radius
            )
            rejections += test.simulate_decision(rng, records)
        return rejections / _SIMULATED_TESTS

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
        errors_by_count = [
            (count, self._error_with(n=count)) for count in record_counts
        ]
        errors_by_mu = [
            (mu, self._error_with(guarantee=GDP(mu))) for mu in _PLOT_FACTORS
        ]
        return plan_figure(self, errors_by_count, errors_by_mu)

    def _error_with(
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

        The methods that ask for another n, radius or guarantee call it.

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

        Returns
        -------
        Plan
            A plan of its own, with all predictions made again.
        """
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
        if self.statistic == "classifier":
            return self._classifier_advice()
        if self.statistic == "starter-kit":
            return self._kit_advice()
        if self.statistic == "kmeans":
            return self._clusters_advice()
        take_best = f"take {self.mechanism}, as 'auto' does: error {self.error:.3g}"
        lines = [Advice(AdviceKind.MECHANISM, take_best)]
        if self.dominated:
            text = f"dominated: {', '.join(self.dominated)}"
            lines.append(Advice(AdviceKind.MECHANISM, text))

        if self._has_private_ball:
            lines += self._private_ball_advice()
        elif self.too_small:
            rival = "the public center alone would be as accurate"
            if self.statistic == "tangent-pca":
                rival = "a guessed direction is nearly as good"
            if self.statistic == "synthetic":
                rival = "one point at the center is nearly as good"
            text = f"this study is too small: {rival} ({self._error_relative_to('radius')})"
            lines.append(Advice(AdviceKind.TOO_SMALL, text))
        else:
            text = self._error_relative_to("radius")
            lines.append(Advice(AdviceKind.ERROR_SHARE, text))

        if self.too_small and self.statistic == "mean":
            lines += [Advice(AdviceKind.REMEDY, text) for text in self._remedies()]
        return lines + self._region_advice()

    def _region_advice(self) -> list[Advice]:
        """Return advice if the best mechanism has a useless confidence region.

        The advice names a mechanism with a narrower region. This can happen if the best
        mechanism is "newton": its regions rest on bounds of the Hessian over the whole
        ball. In wide balls on spheres they are as wide as the ball, although the error
        is small.

        Returns
        -------
        list of Advice
            One line, or none.
        """
        is_newton = self.mechanism == NewtonMechanism.info.option
        is_one_mean = self.statistic == "mean" and self.classes == 1
        if not (is_newton and is_one_mean) or self.n > _MAX_SIMULATED_RECORDS:
            return []
        if not isinstance(self.radius, float):
            return []
        best_region_radius = self.region()
        if best_region_radius < _WIDE_REGION_SHARE * self.radius:
            return []

        for name, error in self.errors.items():
            radius = replace(self, errors={name: error}).region()
            if radius < _WIDE_REGION_SHARE * best_region_radius:
                text = (
                    f"the 95% region of {self.mechanism} can be as wide as the ball; "
                    f"that of {name} about {radius:.3g}, at an error of {error:.3g}"
                )
                return [Advice(AdviceKind.WIDE_REGION, text)]
        return []

    def _error_relative_to(self, length_name: str) -> str:
        """Return a clause such as "the error is 0.2 of the radius".

        The predicted error is compared with `spread`. A dispersion is a variance, so
        its error is compared with the square. The error of a principal direction is an
        angle, which is not compared with anything.

        Parameters
        ----------
        length_name : str
            What `spread` is called in the clause: "radius" or "spread of the records".

        Returns
        -------
        str
            A clause without a full stop.
        """
        if self.statistic == "tangent-pca":
            return (
                f"the first direction is off by {degrees(self.error):.2g}°, where "
                "variances fall as 1, 1/2, 1/3"
            )
        if self.statistic == "synthetic":
            of_point = 2 * self.useless_error
            return (
                f"the energy distance to the real records is {self.error:.2g}, where "
                f"that of one point in their middle is {of_point:.2g}"
            )
        if self.statistic == "dispersion":
            share = self.error / self.spread**2
            return f"the error is {share:.2g} of the square of the {length_name}"
        return f"the error is {self.error / self.spread:.2g} of the {length_name}"

    def _private_ball_advice(self) -> list[Advice]:
        """Return the advice on a release whose ball is searched for privately.

        The error is compared with the spread of the records and with the sampling error
        of their mean. A warning is added if the records may have several means, because
        the ball is too large for its manifold.

        Returns
        -------
        list of Advice
            The error as a share of the spread first, then warnings.
        """
        error_as_share = self._error_relative_to("spread of the records")
        spread_name = "the root mean square distance to their mean"
        if self.statistic in ("tangent-pca", "synthetic"):
            spread_name = "with a root mean square distance to the mean"
        assumed_spread = (
            f"{error_as_share}, {spread_name}, taken as {self.spread:.3g}: "
            "state yours (spread)"
        )
        lines = [Advice(AdviceKind.ASSUMED_SPREAD, assumed_spread)]
        if self.statistic == "mean":
            class_size = self.n // self.classes
            sampling_error = self.spread / sqrt(class_size)
            ratio = self.error / sampling_error
            text = f"the error is {ratio:.2g} times the sampling error of the mean"
            lines.append(Advice(AdviceKind.SAMPLING_ERROR, text))
        if self.too_small:
            text = f"this study is too small: {error_as_share}"
            lines.append(Advice(AdviceKind.TOO_SMALL, text))

        # Within a ball of this radius, records have only one mean.
        largest_unique_radius = self.manifold.convexity_radius
        has_bounded_curvature = isfinite(self.manifold.curvature_bounds[1])
        may_have_several_means = (
            has_bounded_curvature
            and self.wide_radius is not None
            and self.wide_radius >= largest_unique_radius
        )
        if may_have_several_means:
            text = (
                "records of this spread need a ball of radius up to "
                f"{self.wide_radius:.3g}, and have only one mean for sure below "
                f"{largest_unique_radius:.3g}: the error may be "
                "many times as large; PrivateFrechetMedian is steadier"
            )
            lines.append(Advice(AdviceKind.SEVERAL_MEANS, text))
        if self.clipped_share is not None and self.clipped_share > _MANY_OUTSIDE:
            text = (
                f"the search leaves about {self.clipped_share:.0%} of so few records "
                "outside the ball: where these lie decides about the error, which may "
                "be twice the prediction"
            )
            lines.append(Advice(AdviceKind.RECORDS_OUTSIDE, text))
        if self._has_rare_errors:
            text = (
                "rare large errors make up most of the predicted error: half of the "
                f"releases err by less than {self.median_error:.2g}, and the next one "
                "may err by several times the prediction"
            )
            lines.append(Advice(AdviceKind.RARE_ERRORS, text))
        return lines

    @property
    def _has_rare_errors(self) -> bool:
        """Whether rare large errors make up most of the predicted error."""
        if self.median_error is None:
            return False
        return self.error >= _RARE_ERRORS_RATIO * self.median_error

    def _remedies(self) -> list[str]:
        """Return sentences on what would make a private mean accurate enough.

        The first one states a number of records. In d dimensions the noise of a mean of
        n records in a ball of radius r has about the length 2r√d/(nμ) under μ-GDP, and
        2r√(d(d+1))/(nε) under pure ε-DP. The stated n makes this length half of the
        error at which a release is useless. A private ball needs twice as many records:
        its radius is about 1.5 times the spread of the records, and the mean in it gets
        0.6 of the budget.

        Returns
        -------
        list of str
            One or two sentences.
        """
        # For sensitivity 1 the noise scale is 1/μ, or 1/ε for pure ε-DP.
        noise_law, inverse_budget = smallest_noise(self.guarantee)
        dim = self.manifold.dim
        unit_noise_length = sqrt(dim) * std_per_scale(noise_law, dim)
        # Twice for the diameter of the ball, and twice for half of the useless error.
        factor = 8 if self._has_private_ball else 4
        noise_length = factor * self.spread * unit_noise_length * inverse_budget
        enough_per_class = ceil(noise_length / self.useless_error)
        records = self.classes * max(enough_per_class, 2 * self.n // self.classes)
        lines = [
            f"about {records} records would do, or fewer channels, a smaller ball, "
            "a larger budget"
        ]
        if isinstance(self.manifold, SPD):
            lines.append(
                "to tell classes apart: plan a classifier, "
                "which reduces the matrices first"
            )
        return lines

    def _classifier_advice(self) -> list[Advice]:
        """Return the advice on a private classifier.

        It names the best classifier. If that would misclassify more than 20% of new
        records, it also says how many records would reduce this to 20%.

        Returns
        -------
        list of Advice
            Two or three lines.
        """
        take_best = (
            f"take {self.mechanism}: {1 - self.error:.0%} right "
            "where classes differ in the strongest components"
        )
        lines = [Advice(AdviceKind.MECHANISM, take_best)]
        if self.too_small:
            text = "this study is too small: guessing is about as good"
            lines.append(Advice(AdviceKind.TOO_SMALL, text))
        if self.error <= _GOOD_MISCLASSIFIED_SHARE:
            return lines

        enough_records = self._records_for_good_classifier()
        if enough_records is None:
            remedy = f"not even {_RECORD_MULTIPLES[-1]} times as many records"
        else:
            remedy = f"about {enough_records} records"
        text = f"for {1 - _GOOD_MISCLASSIFIED_SHARE:.0%}: {remedy} would do"
        lines.append(Advice(AdviceKind.REMEDY, text))
        return lines

    def _records_for_good_classifier(
        self, wanted_error: float = _GOOD_MISCLASSIFIED_SHARE
    ) -> int | None:
        """Return how many records make a classifier misclassify few new records.

        Parameters
        ----------
        wanted_error : float
            The largest share of new records that may be misclassified; 20% by default.

        Returns
        -------
        int or None
            The smallest of 2, 4, 8 and 16 times n that is enough; None if none is.
        """
        for multiple in _RECORD_MULTIPLES:
            count = self.n * multiple
            if self._error_with(n=count) <= wanted_error:
                return count
        return None

    def _kit_advice(self) -> list[Advice]:
        """Return the advice on a starter kit.

        It names the best call, compares it with exact class centers, and states the
        assumed distance of the centers. If noise takes more than half of what exact
        centers have over guessing, it says how many people would do.

        Returns
        -------
        list of Advice
            Two to four lines.
        """
        # This import is slow, and most plans do not need it.
        from curvedp.neuro.class_centers import predict_kit

        exact_error = predict_kit(
            self.manifold.point_shape[0],
            self.classes,
            self.n,
            _KIT_RADIUS,
            self.guarantee,
            self.spread,
        ).exact_error
        lines = [
            Advice(
                AdviceKind.MECHANISM,
                f"take {self.mechanism}: right for {1 - self.error:.0%} of a new "
                f"person's trials, where exact class centers are right for "
                f"{1 - exact_error:.0%} and guessing for {1 / self.classes:.0%}",
            ),
            Advice(
                AdviceKind.ASSUMED_SPREAD,
                "a person's class centers are taken to be "
                f"{self.spread:.3g} from the identity after recentering, a third of "
                "that (squared) common to all people; with two classes 0.5 is one "
                "source twice as strong: state yours (spread)",
            ),
        ]
        if self.too_small:
            text = "this study is too small: guessing is about as good"
            lines.append(Advice(AdviceKind.TOO_SMALL, text))
        wanted_error = (exact_error + 1 - 1 / self.classes) / 2
        if self.error <= wanted_error:
            return lines

        enough_people = self._records_for_good_classifier(wanted_error)
        remedy = f"not even {_RECORD_MULTIPLES[-1]} times as many people"
        if enough_people is not None:
            remedy = f"about {enough_people} people, fewer channels or a larger budget"
        text = (
            f"to be halfway between guessing and an exact kit ({1 - wanted_error:.1%}): "
            f"{remedy} would do"
        )
        lines.append(Advice(AdviceKind.REMEDY, text))
        return lines

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

    def _clusters_advice(self) -> list[Advice]:
        """Return the advice on k-means.

        It says how many clusters of equal size this number of records and this privacy
        budget allow.

        Returns
        -------
        list of Advice
            Two lines.
        """
        largest = self.largest_number_of_clusters
        if self.too_small:
            enough_records = ceil(self.n * self.error / self.useless_error)
            carried = f"at most {largest} clusters" if largest > 1 else "no clusters"
            return [
                Advice(
                    AdviceKind.TOO_SMALL,
                    f"this study is too small for {self.classes} clusters: {self.n} "
                    f"records at {self.guarantee} carry {carried} of equal size",
                ),
                Advice(
                    AdviceKind.REMEDY,
                    f"about {enough_records} records would do, or a larger budget",
                ),
            ]
        return [
            Advice(
                AdviceKind.ERROR_SHARE,
                f"the center of a cluster of {self.n // self.classes} records is off by "
                f"{self.error:.2g} of the spread of these records",
            ),
            Advice(
                AdviceKind.SEVERAL_MEANS,
                f"{self.n} records carry at most {largest} clusters of equal size; "
                "smaller ones are found where they lie apart, or not at all",
            ),
        ]

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
            parts = "clusters" if self.statistic == "kmeans" else "classes"
            records += f" in {self.classes} {parts}"
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


def plan(
    manifold: Manifold,
    n: int,
    radius: float | str | None = None,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value, safe as a default
    center: ArrayLike | None = None,
    outer_radius: float | None = None,
    mechanism: str = "auto",
    statistic: str | OwnStatistic = "mean",
    classes: int = 1,
    spread: float | None = None,
) -> Plan:
    """Predict the error of a private release for each mechanism, before there are data.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    n : int
        The number of records, or of people if a person has several records.
    radius : float or "private"
        The radius of the public ball. With "private" the release finds a ball, and the
        error depends on the spread. A classifier takes no radius.
    guarantee : Guarantee
        The guarantee that the release will meet.
    center : point, optional
        The center of the public ball; the origin of the manifold by default.
    outer_radius : float, optional
        With `radius="private"`, the radius of the public ball about `center` in which
        the release searches; a generous one by default.
    mechanism : str
        The name of one mechanism, which is predicted faster than all of them; all of
        them by default.
    statistic : str, type of Statistic, or functools.partial of such a type
        What will be released: "mean", "dispersion", "regression", "classifier",
        "starter-kit", "tangent-pca", "synthetic" (records, `PrivateSynthesizer`) or "kmeans", which
        takes no radius. A regression has one predictor and takes `radius="private"`. A
        classifier is for covariance matrices of many channels, which are reduced
        privately: `PrivateMDM(reduce=)` or `PrivateSoftmax`, whichever is better, with
        the better features. A starter kit (`PrivateStarterKit`) is for few people who
        have trials of every class; it takes any radius, or compares two. A class of
        your own derives from `ClippedToBall` and has its four fields, and takes a
        public ball.
    classes : int
        The number of classes, with equally many records each. The mean is then that of
        one class, as `PrivateMDM` releases it. For "kmeans", the number of clusters.
    spread : float, optional
        With `radius="private"`, the root mean square distance of the records to their
        mean, from an earlier study or from experience: it is public. By default 0.5, or
        less where the space is small; the error is nearly in proportion to it. For a
        starter kit, the distance of a person's class centers from the identity.

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
    if isinstance(statistic, str):
        _validate.choice("statistic", statistic, _STATISTIC_NAMES)
    adjacencies: tuple[str, ...] = ("replace-one",)
    if statistic == "kmeans":
        adjacencies = ("replace-one", ADD_REMOVE)
    check_guarantee(guarantee, *adjacencies)
    _check_point_size(manifold)
    n = _validate.integer("n", n, 2)
    classes = _validate.integer("classes", classes, 1)

    # Statistics without a radius.
    if statistic == "kmeans":
        for name, value in (("radius", radius), ("spread", spread)):
            if value is not None:
                raise ParameterError(
                    "is not for k-means, which finds its own",
                    parameter=name,
                    value=value,
                )
        _validate.choice("mechanism", mechanism, ("auto", "kmeans"))
        return _plan_clusters(manifold, n, guarantee, center, outer_radius, classes)
    if statistic == "classifier":
        return _plan_classifier(
            manifold,
            n,
            guarantee,
            mechanism,
            classes,
            ball=(radius, center, outer_radius),
        )
    if statistic == "starter-kit":
        return _plan_starter_kit(
            manifold,
            n,
            radius,
            guarantee,
            mechanism,
            classes,
            spread,
            outer_ball=(center, outer_radius),
        )

    # Statistics in a public or in a private ball.
    has_private_ball = isinstance(radius, str)
    spread = _check_spread(spread, has_private_ball)
    if statistic == "synthetic":
        population = _planned_population(
            manifold, center, radius, n, outer_radius, classes, guarantee
        )
        return _plan_synthetic(population, guarantee, mechanism, spread)
    _check_class_sizes(n, classes, statistic)
    if not isinstance(statistic, str):
        own_statistic = _own_statistic(statistic, manifold, center, radius, n)
        return _plan_public_ball(
            own_statistic, n, guarantee, mechanism, statistic, classes
        )

    # A private ball is searched with the records of all classes.
    class_size = n // classes
    planned = _planned_statistic(
        manifold,
        center,
        radius,
        n if has_private_ball else class_size,
        outer_radius,
        statistic,
    )
    if isinstance(planned, SearchedMean) and classes > 1:
        planned = class_mean_statistic(planned, class_size, class_size, guarantee)
    if isinstance(planned, TangentMoments):
        return _plan_tangent_pca(planned, guarantee, mechanism)
    if isinstance(planned, BallSearchStatistic):
        return _plan_private_ball(
            planned, n, guarantee, mechanism, statistic, classes, spread
        )
    return _plan_public_ball(planned, n, guarantee, mechanism, statistic, classes)


def _check_point_size(manifold: Manifold) -> None:
    """Refuse a manifold whose points have too many numbers to simulate quickly.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.

    Raises
    ------
    ParameterError
        If a point has more than 10⁵ numbers.
    """
    numbers = prod(manifold.point_shape)
    if numbers > _MAX_NUMBERS_PER_POINT:
        raise ParameterError(
            f"a point of {manifold!r} has {numbers} numbers; "
            f"plans are for at most {_MAX_NUMBERS_PER_POINT}"
        )


def _check_spread(spread: float | None, has_private_ball: bool) -> float | None:
    """Return a stated spread after checking it.

    Parameters
    ----------
    spread : float or None
        The root mean square distance of the records to their mean, if the caller
        states it.
    has_private_ball : bool
        Whether the release searches for its ball. Otherwise a spread has no use.

    Returns
    -------
    float or None
        The spread as a float; None if none was stated.

    Raises
    ------
    ParameterError
        If the spread is not positive, or has no use.
    """
    if spread is None:
        return None
    if not has_private_ball:
        raise ParameterError(
            "is for a private radius", parameter="spread", value=spread
        )
    return _validate.positive("spread", spread)


def _check_class_sizes(n: int, classes: int, statistic: object) -> None:
    """Refuse several classes for a statistic without classes, or too few records.

    Parameters
    ----------
    n : int
        The number of records of all classes together.
    classes : int
        The number of classes.
    statistic : str or type of Statistic
        What is released. Only means and classifiers have classes, of at least two
        records each.

    Raises
    ------
    ParameterError
        If the statistic has no classes, or a class has fewer than 2 records.
    """
    if classes > 1 and (statistic != "mean" or n < 2 * classes):
        raise ParameterError(
            "is for means and classifiers, of at least 2 records a class",
            parameter="classes",
            value=classes,
        )


def _plan_classifier(
    manifold: Manifold,
    n: int,
    guarantee: Guarantee,
    mechanism: str,
    classes: int,
    ball: tuple[Any, Any, Any],
) -> Plan:
    """Return the plan of a classifier of covariance matrices of many channels.

    The matrices are reduced to a few components privately.

    Parameters
    ----------
    manifold : Manifold
        The space in which the matrices lie.
    n : int
        The number of records of all classes together.
    guarantee : Guarantee
        The guarantee that the release will meet.
    mechanism : str
        "auto", or one of the calls that `candidate_classifiers` names, such as
        "PrivateSoftmax".
    classes : int
        The number of classes.
    ball : tuple
        The radius, center and outer radius, which must be None.

    Returns
    -------
    Plan
        The predicted error rate of each call, best first.

    Raises
    ------
    ParameterError
        If the caller has named a ball.
    """
    if any(part is not None for part in ball):
        raise ParameterError(
            "a classifier needs no ball: leave radius, center and outer_radius out"
        )

    # The candidates are named by the calls with which a user makes them.
    candidates = candidate_classifiers(manifold, n, classes, guarantee)
    calls = list(candidates)
    if mechanism != "auto":
        calls = [_validate.choice("mechanism", mechanism, tuple(candidates))]
    with one_blas_thread():
        error_by_call = {call: candidates[call].predict_error() for call in calls}

    calls_best_first = sorted(calls, key=error_by_call.__getitem__)
    guessing_error = 1 - 1 / classes
    return Plan(
        manifold=manifold,
        n=n,
        radius=None,
        guarantee=guarantee,
        center=None,
        outer_radius=None,
        spread=1.0,
        useless_error=_USELESS_SHARE_OF_GUESSING * guessing_error,
        errors={call: error_by_call[call] for call in calls_best_first},
        left_out={},
        statistic="classifier",
        classes=classes,
    )


def _plan_starter_kit(
    manifold: Manifold,
    n: int,
    radius: Any,
    guarantee: Guarantee,
    mechanism: str,
    classes: int,
    spread: float | None,
    outer_ball: tuple[Any, Any],
) -> Plan:
    """Return the plan of a starter kit: how often it would be right for a new person.

    `plan` calls it for a starter kit: released class means from which new users
    calibrate.

    Parameters
    ----------
    manifold : Manifold
        The space of the covariance matrices.
    n : int
        The number of people, each of whom has trials of every class.
    radius : float, "private" or None
        The radius of the ball; None compares 0.5 with "private".
    guarantee : Guarantee
        The guarantee that the release will meet.
    mechanism : str
        "auto", or one of the calls that are compared, such as
        "PrivateStarterKit(radius=0.5)".
    classes : int
        The number of classes.
    spread : float or None
        The distance of a person's class center from the identity.
    outer_ball : tuple
        The center and the outer radius, which must be None.

    Returns
    -------
    Plan
        The predicted share of wrong trials of each call, best first.

    Raises
    ------
    ParameterError
        If the records are no covariance matrices, there are fewer than two classes, or
        a parameter is not usable.
    """
    # This import is slow, and most plans do not need it.
    from curvedp.neuro.class_centers import TYPICAL_SPREAD, predict_kit

    if any(part is not None for part in outer_ball):
        raise ParameterError(
            "a starter kit is centered at the identity: leave center and outer_radius "
            "out"
        )
    if not isinstance(manifold, SPD):
        raise ParameterError(
            "must be a space of covariance matrices, such as SPDAffineInvariant(8), "
            "for a starter kit",
            parameter="manifold",
            value=manifold,
        )
    if classes < 2:
        raise ParameterError(
            "must be two or more for a starter kit", parameter="classes", value=classes
        )
    radii: list[float | str] = [_KIT_RADIUS, "private"]
    if isinstance(radius, str):
        _validate.private_radius(radius)
        radii = [radius]
    elif radius is not None:
        radii = [_validate.length("radius", radius)]
    if spread is None:
        spread = TYPICAL_SPREAD
    spread = _validate.length("spread", spread)

    channels = manifold.point_shape[0]
    calls = {f"PrivateStarterKit(radius={value!r})": value for value in radii}
    if mechanism != "auto":
        _validate.choice("mechanism", mechanism, tuple(calls))
        calls = {mechanism: calls[mechanism]}
    with one_blas_thread():  # more threads do not pay for small matrices
        errors = {
            call: predict_kit(channels, classes, n, value, guarantee, spread).error
            for call, value in calls.items()
        }
    return Plan(
        manifold=manifold,
        n=n,
        radius=radius,
        guarantee=guarantee,
        center=None,
        outer_radius=None,
        spread=spread,
        useless_error=_USELESS_SHARE_OF_GUESSING * (1 - 1 / classes),
        errors={call: errors[call] for call in sorted(errors, key=errors.__getitem__)},
        left_out={},
        statistic="starter-kit",
        classes=classes,
    )


def _plan_clusters(
    manifold: Manifold,
    n: int,
    guarantee: Guarantee,
    center: ArrayLike | None,
    outer_radius: float | None,
    classes: int,
) -> Plan:
    """Return the plan of k-means: how well clusters of equal size would be found.

    `plan` calls it for the statistic "kmeans".

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    n : int
        The number of records, or of people.
    guarantee : Guarantee
        The guarantee that the release will meet.
    center : array or None
        The center of the ball; the origin of the manifold if it is None.
    outer_radius : float or None
        The radius of the public ball in which a private ball is searched.
    classes : int
        The number of clusters; at least two are planned.

    Returns
    -------
    Plan
        The length of the noise of a center, in units of the spread of a cluster.

    Raises
    ------
    ParameterError
        If there are more clusters than records.
    """
    n_clusters = max(classes, 2)
    if n_clusters > n:
        raise ParameterError(
            f"is more clusters than there are records: {n}",
            parameter="classes",
            value=classes,
        )

    # On a sphere no ball is needed: records are unit vectors.
    reach = 1.0
    if not isinstance(manifold, Sphere):
        reach = default_outer_radius(manifold, outer_radius)
    public_n = None if guarantee.adjacency == ADD_REMOVE else n
    statistic = Clusters(
        manifold, center, reach, clusters=n_clusters, starts=None, n=public_n
    )

    mechanism = KMeansMechanism.calibrate(statistic, guarantee)
    noise = mechanism.center_noise
    return Plan(
        manifold=manifold,
        n=n,
        radius=None,
        guarantee=guarantee,
        center=None if center is None else np.asarray(center, dtype=np.float64),
        outer_radius=outer_radius,
        spread=1.0,
        useless_error=noise / mechanism.smallest_cluster,
        errors={"kmeans": noise * n_clusters / n},
        left_out={},
        statistic="kmeans",
        classes=n_clusters,
    )


def _plan_public_ball(
    planned: ClippedToBall,
    n: int,
    guarantee: Guarantee,
    mechanism: str,
    statistic: str | OwnStatistic,
    classes: int,
) -> Plan:
    """Return the plan of a statistic whose records are clipped to a public ball.

    `plan` calls it if the radius is a number, for statistics without a plan of their
    own.

    Parameters
    ----------
    planned : ClippedToBall
        The statistic of the records of one class, with its ball.
    n : int
        The number of records of all classes together.
    guarantee : Guarantee
        The guarantee that the release will meet.
    mechanism : str
        The one mechanism to predict; "auto" predicts all of them.
    statistic : str or type of Statistic
        What is released, as the caller of `plan` named it.
    classes : int
        The number of classes, with equally many records each.

    Returns
    -------
    Plan
        The predicted error of each mechanism, best first.
    """
    manifold = planned.manifold
    errors, left_out = _predict_errors(planned, guarantee, mechanism)
    if statistic == "dispersion":
        spread = float(planned.radius)
        # The variance of records that fill a ball of half the radius, in dim
        # dimensions.
        useless_error = spread**2 / 4 * manifold.dim / (manifold.dim + 2)
    else:
        ball = reference_ball(planned)
        assert ball is not None, "every statistic that is planned has a ball"
        spread = ball.radius
        useless_error = baseline_error(planned)
    return Plan(
        manifold=manifold,
        n=n,
        radius=float(planned.radius),
        guarantee=guarantee,
        center=np.asarray(planned.center, dtype=np.float64),
        outer_radius=None,
        spread=spread,
        useless_error=useless_error,
        errors=errors,
        left_out=left_out,
        statistic=statistic,
        classes=classes,
    )


def _plan_tangent_pca(
    planned: TangentMoments, guarantee: Guarantee, mechanism: str
) -> Plan:
    """Return the plan of principal geodesics of records clipped to a public ball.

    `plan` calls it if the radius is a number, for the statistic "tangent-pca".

    Parameters
    ----------
    planned : TangentMoments
        The statistic: the moments of the records' logarithms at the ball's center.
    guarantee : Guarantee
        The guarantee that the release will meet.
    mechanism : str
        The one mechanism to predict; "auto" predicts all of them.

    Returns
    -------
    Plan
        The predicted angle of the first direction, for each way to release it.
    """
    with one_blas_thread():
        ways = ways_in_public_ball(planned, guarantee)
    if mechanism != "auto":
        _validate.choice("mechanism", mechanism, tuple(ways))
        ways = {mechanism: ways[mechanism]}
    return Plan(
        manifold=planned.manifold,
        n=planned.n,
        radius=float(planned.radius),
        guarantee=guarantee,
        center=np.asarray(planned.center, dtype=np.float64),
        outer_radius=None,
        spread=float(planned.radius),
        useless_error=_USELESS_ANGLE,
        errors={name: way.angle for name, way in ways.items()},
        left_out={},
        statistic="tangent-pca",
    )


def _planned_population(
    manifold: Manifold,
    center: ArrayLike | None,
    radius: Any,
    n: int,
    outer_radius: float | None,
    classes: int,
    guarantee: Guarantee,
) -> SyntheticPopulation | SearchedPopulation:
    """Return the population of n records, in a public or in a private ball.

    `plan` predicts the error of synthetic records with it.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array or None
        The center of the ball; the origin of the manifold if it is None.
    radius : float or "private"
        The radius of the public ball, or "private" to search for one.
    n : int
        The number of records, or of people.
    outer_radius : float or None
        The radius of the public ball in which a private ball is searched.
    classes : int
        The number of classes, with equally many records each.
    guarantee : Guarantee
        The guarantee that the release will meet. The best model in a private ball
        depends on it.

    Returns
    -------
    SyntheticPopulation or SearchedPopulation
        The statistic that the release would have.
    """
    if not isinstance(radius, str):
        return SyntheticPopulation(manifold, center, radius, n, classes)
    _validate.private_radius(radius)
    searched = SearchedPopulation(manifold, center, outer_radius, n, MODELS[0])
    # In a private ball the release takes the model that is best in a typical one.
    typical = SyntheticPopulation(manifold, *searched.reference_ball, n, classes)
    errors, _ = _predict_errors(typical, guarantee, "auto")
    model = next(iter(errors))
    return SearchedPopulation(manifold, center, outer_radius, n, model, classes)


def _plan_synthetic(
    planned: SyntheticPopulation | SearchedPopulation,
    guarantee: Guarantee,
    mechanism: str,
    spread: float | None,
) -> Plan:
    """Return the plan of synthetic records, in a public or in a private ball.

    `plan` calls it for the statistic "synthetic".

    Parameters
    ----------
    planned : SyntheticPopulation or SearchedPopulation
        The population, in a public ball or in one that is searched.
    guarantee : Guarantee
        The guarantee that the release will meet.
    mechanism : str
        The one mechanism to predict; "auto" predicts all of them.
    spread : float or None
        The stated root mean square distance of the records to their mean.

    Returns
    -------
    Plan
        The predicted energy distance to the real records, for each model.
    """
    left_out: dict[str, str] = {}
    outer_radius = found_radius = wide_radius = None
    radius: float | str = "private"
    if isinstance(planned, SearchedPopulation):
        # A private ball: simulate the search and the release in the ball that it finds.
        _validate.choice("mechanism", mechanism, ("auto", planned.model))
        length = planned.reference_spread if spread is None else spread
        search = PrivateBallMechanism.calibrate(planned, guarantee)
        with one_blas_thread():
            rehearsal = search.rehearse(length)
        errors = {planned.model: rehearsal.error}
        outer_radius = planned.outer_radius
        found_radius, wide_radius = rehearsal.radius, rehearsal.wide_radius
        typical_length = length
    else:
        # A public ball: predict the error of each model in it.
        radius = length = float(planned.radius)
        errors, left_out = _predict_errors(planned, guarantee, mechanism)
        # The public populations of a prediction fill half of the ball.
        typical_length = length / 2

    return Plan(
        manifold=planned.manifold,
        n=planned.n,
        radius=radius,
        guarantee=guarantee,
        center=np.asarray(planned.center, dtype=np.float64),
        outer_radius=outer_radius,
        spread=length,
        useless_error=sqrt(_USELESS_SQUARED_ENERGY * typical_length),
        errors=errors,
        left_out=left_out,
        statistic="synthetic",
        classes=planned.classes,
        found_radius=found_radius,
        wide_radius=wide_radius,
    )


def _predict_errors(
    planned: ClippedToBall | SyntheticPopulation,
    guarantee: Guarantee,
    mechanism: str,
) -> tuple[dict[str, float], dict[str, str]]:
    """Predict the error of the named mechanism, or of all of them with "auto".

    `plan` calls it for statistics that several mechanisms can release.

    Parameters
    ----------
    planned : ClippedToBall or SyntheticPopulation
        The statistic, with its ball.
    guarantee : Guarantee
        The guarantee that the release will meet.
    mechanism : str
        The one mechanism to predict; "auto" predicts all of them.

    Returns
    -------
    errors : dict
        The predicted error by mechanism, best first.
    left_out : dict
        By mechanism, why no error was predicted for the others.

    Raises
    ------
    UnattainableGuarantee
        If no mechanism meets the guarantee.
    """
    with one_blas_thread():  # more threads do not pay for small matrices
        if mechanism != "auto":
            named_mechanism = choose_mechanism(mechanism, planned, guarantee).mechanism
            return {mechanism: predicted_error(named_mechanism)}, {}
        ranking = rank_mechanisms(planned, guarantee)
    if not ranking.candidates:
        # A statistic without a sensitivity raises here, and says why it has none.
        _ = planned.sensitivity
        reasons = "; ".join(
            f"{name}: {reason}" for name, reason in ranking.excluded.items()
        )
        raise UnattainableGuarantee(
            f"no mechanism meets {guarantee} on {planned.manifold!r}: {reasons}"
        )
    errors = {name: candidate.error for name, candidate in ranking.candidates.items()}
    return errors, ranking.excluded


def _plan_private_ball(
    planned: BallSearchStatistic,
    n: int,
    guarantee: Guarantee,
    mechanism: str,
    statistic: str,
    classes: int,
    spread: float | None,
) -> Plan:
    """Return the plan of a release with a private search for the ball.

    The error is that of a rehearsal: a simulated release of made-up records.

    Parameters
    ----------
    planned : BallSearchStatistic
        The statistic, with the outer ball in which a ball is searched.
    n : int
        The number of records of all classes together.
    guarantee : Guarantee
        The guarantee that the release will meet.
    mechanism : str
        The one mechanism to predict; "auto" predicts all of them.
    statistic : str or type of Statistic
        What is released, as the caller of `plan` named it.
    classes : int
        The number of classes, with equally many records each.
    spread : float or None
        The root mean square distance of the public records to their mean; None takes
        the statistic's own default.

    Returns
    -------
    Plan
        The error of the rehearsal, and about the radius that would be found.
    """
    search_name = PrivateBallMechanism.info.name
    _validate.choice("mechanism", mechanism, ("auto", search_name))
    if spread is None:
        spread = planned.reference_spread
    search = PrivateBallMechanism.calibrate(planned, guarantee)
    with one_blas_thread():  # more threads do not pay for small matrices
        rehearsal = search.rehearse(spread)

    if statistic == "dispersion":
        useless_error = spread**2
    elif statistic == "tangent-pca":
        useless_error = _USELESS_ANGLE
    else:
        useless_error = _USELESS_SHARE_OF_SPREAD[statistic] * spread
    return Plan(
        manifold=planned.manifold,
        n=n,
        radius="private",
        guarantee=guarantee,
        center=np.asarray(planned.center, dtype=np.float64),
        outer_radius=planned.outer_radius,
        spread=spread,
        useless_error=useless_error,
        errors={search_name: rehearsal.error},
        left_out={},
        statistic=statistic,
        classes=classes,
        found_radius=rehearsal.radius,
        wide_radius=rehearsal.wide_radius,
        median_error=rehearsal.median_error,
        clipped_share=search.clipped_share,
    )


_PlannedStatistic = ClippedToBall | BallSearchStatistic


def _planned_statistic(
    manifold: Manifold,
    center: ArrayLike | None,
    radius: Any,
    n: int,
    outer_radius: float | None,
    statistic: str = "mean",
) -> _PlannedStatistic:
    """Return the statistic with a given name, for records in a ball.

    The ball is public, or with `radius="private"` is searched for privately.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array or None
        The center of the ball; the origin of the manifold if it is None.
    radius : float or "private"
        The radius of the public ball. Another type is refused with a clear message.
    n : int
        The number of records that the statistic reads.
    outer_radius : float or None
        The radius of the public ball in which a private ball is searched.
    statistic : {"mean", "dispersion", "regression"}
        The name of the statistic.

    Returns
    -------
    ClippedToBall or BallSearchStatistic
        The statistic that the release would have.

    Raises
    ------
    ParameterError
        If a regression has a public radius, or a parameter is not usable.
    """
    if isinstance(radius, str):
        _validate.private_radius(radius)
        if statistic == "regression":
            predictor_ranges = [(0.0, 1.0)]
            return SearchedGeodesic(manifold, center, outer_radius, n, predictor_ranges)
        if statistic == "dispersion":
            return SearchedVariance(manifold, center, outer_radius, n)
        if statistic == "tangent-pca":
            return SearchedTangentMoments(manifold, center, outer_radius, n)
        return SearchedMean(manifold, center, outer_radius, n)

    if statistic == "regression":
        raise ParameterError(
            "must be 'private' for a regression, which finds its speed and clip too",
            parameter="radius",
            value=radius,
        )
    if statistic == "dispersion":
        return FrechetVariance(manifold, center, radius, n)
    if statistic == "tangent-pca":
        return TangentMoments(manifold, center, radius, n)
    return FrechetMean(manifold, center, radius, n)


def _own_statistic(
    statistic: Any, manifold: Manifold, center: ArrayLike | None, radius: Any, n: int
) -> ClippedToBall:
    """Return a statistic of a class that the caller has written.

    `plan` calls it if `statistic` is a class instead of one of the names.

    Parameters
    ----------
    statistic : type of ClippedToBall, or functools.partial of it
        The class, with its further parameters if it has any; anything else is refused.
    manifold : Manifold
        The manifold of the records.
    center : array or None
        The center of the public ball; the origin of the manifold if it is None.
    radius : float
        The radius of the public ball.
    n : int
        The number of records.

    Returns
    -------
    ClippedToBall
        An instance for n records in that ball.

    Raises
    ------
    ParameterError
        If the class is of another kind, or its parameters are missing.
    """
    statistic_class = _class_of(statistic)
    is_of_records_in_ball = isinstance(statistic_class, type) and issubclass(
        statistic_class, ClippedToBall
    )
    if not is_of_records_in_ball:
        raise ParameterError(
            f"must be one of {', '.join(_STATISTIC_NAMES)}, or a class that derives "
            "from ClippedToBall",
            parameter="statistic",
        )
    if isinstance(radius, str):
        raise ParameterError(
            f"must be a number: the {statistic_class.name} is planned in a public ball "
            "only",
            parameter="radius",
            value=radius,
        )

    own_parameters = statistic.keywords if isinstance(statistic, partial) else {}
    _check_own_parameters(statistic_class, own_parameters)
    own_statistic: ClippedToBall = statistic_class(
        manifold, center, radius, n, **own_parameters
    )
    return own_statistic


def _class_of(statistic: Any) -> Any:
    """Return the class of a statistic, which `functools.partial` may wrap.

    Parameters
    ----------
    statistic : type, or functools.partial of one
        What the caller of `plan` passes.
    """
    return statistic.func if isinstance(statistic, partial) else statistic


def _check_own_parameters(
    statistic_class: type[ClippedToBall], own_parameters: Mapping[str, Any]
) -> None:
    """Refuse parameters of a caller's statistic that are unknown or missing.

    Parameters are checked here so that the message names them; the class itself would
    raise a TypeError.

    Parameters
    ----------
    statistic_class : type of ClippedToBall
        The class that the caller has written.
    own_parameters : mapping
        What the caller has given for its fields besides those of the ball.

    Raises
    ------
    ParameterError
        If a parameter is unknown, or one without a default is missing.
    """
    own_fields = [
        field for field in fields(statistic_class) if field.name not in _BALL_FIELDS
    ]
    known_names = {field.name for field in own_fields}
    required_names = {
        field.name
        for field in own_fields
        if field.default is MISSING and field.default_factory is MISSING
    }
    if not required_names <= set(own_parameters) <= known_names:
        names = ", ".join(field.name for field in own_fields) or "none"
        raise ParameterError(
            f"must come with the parameters of its own ({names}): in Python, as "
            f"functools.partial({statistic_class.__name__}, ...)",
            parameter="statistic",
        )


def _two_shifted_samples(
    rng: np.random.Generator,
    sample_sizes: list[int],
    dim: int,
    shift: float,
    spread: float,
    radius: float,
) -> np.ndarray:
    """Draw two normal samples of vectors whose centers are `shift` apart.

    The vectors are coordinates in a chart of a ball. The samples are used to estimate
    how often a two-sample test would find a difference.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the samples.
    sample_sizes : list of two int
        The number of records in each sample.
    dim : int
        The dimension of the chart.
    shift : float
        The distance between the two centers, which lie on either side of the origin.
    spread : float
        The root mean square distance of a sample's records to its center.
    radius : float
        Records that are farther from the origin are clipped to this length.

    Returns
    -------
    array of shape (sum of the sizes, dim)
        The records of the first sample, followed by those of the second.
    """
    first_axis = np.eye(1, dim)
    centers = np.repeat([[shift / 2], [-shift / 2]], sample_sizes, axis=0) * first_axis
    noise = rng.standard_normal((sum(sample_sizes), dim))
    records = centers + spread / sqrt(dim) * noise
    lengths = np.linalg.norm(records, axis=1, keepdims=True)
    return np.asarray(records * np.minimum(1.0, radius / lengths))


def _solve_for_error(
    error_at: Callable[[float], float],
    start: float,
    target: float,
    *,
    increasing: bool,
) -> float:
    """Return the argument x > 0 at which a monotone error function reaches a target.

    The error is assumed to be nearly proportional to x, or to 1/x if it decreases. The
    search starts at the solution that exact proportionality would have, brackets the
    true one with growing steps, and bisects the bracket on the logarithmic scale until
    its ends agree to about a percent.

    Parameters
    ----------
    error_at : callable
        The error as a function of x; it may be infinite.
    start : float
        An argument whose error is used for the first guess.
    target : float
        The wanted error.
    increasing : bool
        Whether the error increases with x.

    Returns
    -------
    float
        The end of the bracket at which the error is at most `target`. If the error does
        not cross the target, it is 0 or infinity, in the direction of the search.
    """
    x = start
    start_error = error_at(start)
    if start_error < inf:
        ratio = target / start_error if increasing else start_error / target
        x = start * ratio

    # Step toward the crossing: up if the error is small enough and increases with x, or
    # is too large and decreases; down otherwise.
    is_within_target = error_at(x) <= target
    factor = _FIRST_STEP_FACTOR
    if is_within_target != increasing:
        factor = 1 / _FIRST_STEP_FACTOR
    for _ in range(_MAX_STEPS):
        next_x = x * factor
        if (error_at(next_x) <= target) != is_within_target:
            break
        x = next_x
        # Steps grow, up to a factor of about e².
        if abs(log(factor)) < 1:
            factor = factor**2
    else:
        # No crossing was found.
        return inf if factor > 1 else 0.0

    within, beyond = (x, next_x) if is_within_target else (next_x, x)
    while max(within, beyond) > _BRACKET_RATIO * min(within, beyond):
        middle = sqrt(within * beyond)
        if error_at(middle) <= target:
            within = middle
        else:
            beyond = middle
    return within
