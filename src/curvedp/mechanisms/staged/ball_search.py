"""Find a ball that holds most records privately, then release a statistic of them in
it. The user gives a large public *outer ball*. *Stages*, each a noisy answer about the
records, find a much smaller ball in it. The *final mechanism* then releases the
statistic of the records in that ball.

The outer ball may be as generous as the user likes. The stages find the unit of
measurement, the location and the radius of the smaller ball.

Each stage is a private release at points that are already public, and takes a fraction
of the privacy budget; the final mechanism has everything that is left
(docs/theory/private-ball.md).

The tuned numbers below were chosen by measurement, one set for all spaces. Pure ε has a
set of its own: there a stage with the fraction s of the budget has 1/s times the noise
instead of 1/√s, so fewer questions are asked.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, log2, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import (
    ChecksItself,
    HasFinalMechanism,
    LeadsToRegion,
    NeedsManyRecords,
    NoisyDraw,
    PredictsError,
    SimulatesRelease,
)
from curvedp.core.certificate import Certificate, Check
from curvedp.core.chart import shrink_vector
from curvedp.core.fields import assign
from curvedp.core.mechanism import Draw, Mechanism, MechanismInfo, check_supported
from curvedp.core.registry import mechanisms
from curvedp.core.statistic import Ball, Statistic
from curvedp.errors import ParameterError
from curvedp.geometry.capabilities import EmbeddedMean, ScalableCone
from curvedp.geometry.spaces.product import join_factors, split_into_factors
from curvedp.laws.exact import ExactDraw
from curvedp.mechanisms.gradient_step import (
    GradientMechanism,
    Moments,
    check_moments,
)
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.staged.budget import (
    StageBudget,
    StagedMechanism,
    StagedResult,
    check_transcript,
)
from curvedp.mechanisms.staged.quantile_search import BinarySearch, ShellHistogram
from curvedp.mechanisms.staged.queries import Queries
from curvedp.mechanisms.staged.scale_search import (
    Bins,
    half_bin_count,
    likeliest_position,
    point_or_fallback,
    rescale_factor,
)
from curvedp.mechanisms.vector import (
    NOISE_KINDS,
    AddNoise,
    ExactNoise,
    NoiseKind,
    std_per_scale,
)
from curvedp.numerics.threads import one_blas_thread
from curvedp.privacy import Guarantee
from curvedp.randomness import Source
from curvedp.records.base import Records, open_records
from curvedp.statistics.populations import population_of_spread
from curvedp.statistics.searched_ball import (
    CONCENTRATION_DIM,
    BallSearchStatistic,
    SearchData,
    SearchedClassMean,
    SearchedMean,
    is_hyperbolic,
    is_spherical,
    simulate_mean,
)


class SearchShares(NamedTuple):
    """Fractions of the privacy budget that the kinds of stages take.

    Attributes
    ----------
    units : float
        The fraction for finding the unit of measurement of a cone of matrices.
    counts : float
        The fraction for one search for a radius.
    location : float
        The fraction for one step of the center.
    hessian : float
        The fraction for the two numbers about the Hessian, in hyperbolic space.
    final : float
        The fraction reserved for the final mechanism: steps end before it is touched.
    """

    units: float
    counts: float
    location: float
    hessian: float
    final: float


_SHARES: dict[NoiseKind, SearchShares] = {
    "gaussian": SearchShares(
        units=0.04, counts=0.08, location=0.06, hessian=0.01, final=0.35
    ),
    "laplace": SearchShares(
        units=0.04, counts=0.12, location=0.1, hessian=0.03, final=0.4
    ),
}
# With few records a stage takes a larger fraction of the budget, but at most this one.
# All units of measurement together, and all embedded means, take at most this, too.
_MAX_SHARE = 0.25
# With few records and Gaussian noise an embedded mean takes the fraction (12/(nμ))².
_EMBEDDING_ROOT_SHARE = 12.0

# The noise of a mean hardly widens a ball whose radius is this many times that noise.
_NOISE_PER_RADIUS: dict[NoiseKind, float] = {"gaussian": 8.0, "laplace": 2.0}
# A search for a radius begins at this many times the last median distance or radius.
_SEARCH_START: dict[NoiseKind, float] = {"gaussian": 4.0, "laplace": 2.0}

# Searches for a radius by one noisy count after the other, for Gaussian noise.
_COARSE_SEARCH = BinarySearch(queries=6, ratio=1.6)
_FINE_SEARCH = BinarySearch(queries=5, ratio=1.15, patience=0.25)
# On spheres of many dimensions distances concentrate: all records lie in a narrow
# shell. A finer search then saves noise, and records outside are hardly outside, so
# that many more of them may be, and their number may be less exact: this fraction of
# the budget is enough for the search. Measured on embeddings
# (benchmarks/studies/embeddings.py).
_NARROW_SEARCH = BinarySearch(queries=8, ratio=1.02, patience=0.25)
_NARROW_SEARCH_SHARE = 0.02
_OUTSIDE_IN_SHELL = 6.0
# Histograms of distances, for pure ε.
_WIDE_SHELLS = ShellHistogram(n_shells=63, ratio=1.6)
_NARROW_SHELLS = ShellHistogram(n_shells=8, ratio=1.4)

# With few records and pure ε a stage takes the fraction 20/(nε) of the budget, and a
# wide histogram 40/(nε).
_FEW_RECORDS_SHARE = 20.0
_FEW_RECORDS_WIDE_SHARE = 40.0

# If the mean logarithm is longer than this fraction of the radius, all records lie in
# one direction from the center.
_ONE_WAY_LENGTH = 0.6
# Another step pays off if the radius has fallen to this fraction of the previous one.
_WORTHWHILE_SHRINKAGE = 0.5
# A step is hopeless if its noise is longer than this fraction of the radius. The bound
# is lower in hyperbolic space, where noise across the step counts for more.
_HOPELESS_NOISE_RATIO = 1.0
_HOPELESS_NOISE_RATIO_IN_HYPERBOLIC_SPACE = 0.5
# Up to this r²·|κ|, one gradient step for pure ε is as good as Newton's steps.
_NEARLY_FLAT = 1.0
# This many Newton steps are enough in a ball so small that the Hessian hardly varies.
_STEPS_IN_SMALL_BALL = 3
# The width of a bin of units of measurement, as a geodesic length.
_BIN_WIDTH = 2.0
# Doubles can hold the noise of a mean in balls of radii between these two, so nothing
# can fail after the release was paid for.
_SMALLEST_RADIUS = 1e-80
_LARGEST_RADIUS = 1e90

# Typical outcomes of a search (benchmarks/studies/predictions.py): the radius of the
# ball over the spread of the records, and the fraction of the budget that is left.
_TYPICAL_RADIUS = 1.5
_TYPICAL_SHARE_LEFT = 0.6
# An error is predicted from this many simulated releases, with a public seed.
_MIN_SIMULATED_RUNS = 3
_MAX_SIMULATED_RUNS = 32
# In more than 32 dimensions fewer releases are simulated: this number over the dimension.
_RUNS_TIMES_DIMENSION = 1024
# Among the radii of the balls found, the widest of typical ones is this quantile.
_WIDE_QUANTILE = 0.9
_SEED = 20230615


class BallSearchResult(NamedTuple):
    """A release that was replayed from its integers.

    Attributes
    ----------
    final : Mechanism
        The final mechanism, in the ball that follows from the noisy integers.
    final_integers : list of lists of int
        The integers that the final mechanism has drawn.
    transcript : list of dict
        The stages of the search, and the choice of the final mechanism.
    """

    final: Mechanism
    final_integers: Any
    transcript: list[dict[str, Any]]


class SimulatedReleases(NamedTuple):
    """What simulated releases of public records show.

    Attributes
    ----------
    error : float
        The root mean square error of the released statistic.
    median_error : float
        The error that half of the releases stay below. It is far below `error` where
        rare releases with large errors make up most of that.
    radius : float
        The median radius of the balls that the searches found.
    wide_radius : float
        The radius that nine of ten balls do not exceed.
    """

    error: float
    median_error: float
    radius: float
    wide_radius: float


class EmbeddedStart(NamedTuple):
    """A starting point from the noisy means of embedded records.

    Attributes
    ----------
    point : array
        The starting point.
    noise_length : float
        About how far noise has moved it; infinite if a factor of the manifold has no
        embedding, so that its part of the point says nothing about the records.
    """

    point: np.ndarray
    noise_length: float


class CenterStep(NamedTuple):
    """One noisy step of the center.

    Attributes
    ----------
    point : array
        The new center.
    log_length : float
        The length of the noisy mean logarithm at the old center.
    """

    point: np.ndarray
    log_length: float


@dataclass(frozen=True, eq=False, kw_only=True)
class PrivateBallMechanism(
    StagedMechanism,
    PredictsError,
    SimulatesRelease,
    LeadsToRegion,
    HasFinalMechanism,
    NeedsManyRecords,
    ChecksItself,
):
    """A mechanism that finds a ball in stages, and releases a statistic of the records in it.

    Attributes
    ----------
    final_name : str, optional
        The registered name of the final mechanism. The default is the statistic's first
        choice.
    moments : {"first", "first-and-second"}
        Whether the last of several Newton steps releases second moments with the mean
        logarithm, if the final mechanism makes such steps. Certificates from before
        this was possible do not state it, which means "first".

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replace-one adjacency, for
      ANY records;
    - every released number is on the grid 2^-30 (finer for small noise), within total
      variation distance `slack` of the ideal distribution.
    """

    if TYPE_CHECKING:
        statistic: BallSearchStatistic

    final_name: Any = None
    moments: Annotated[Moments, check_moments] = "first"

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "private-ball", option="private-ball", reads="records", is_staged=True
    )
    noise_kinds: ClassVar[tuple[NoiseKind, ...]] = NOISE_KINDS
    # Each simulated draw is a run through all stages.
    max_simulated_draws = 32

    def __post_init__(self) -> None:
        """Check the name of the final mechanism, or fill in the default.

        The final mechanism releases the statistic in the ball that the search finds.

        Raises
        ------
        ParameterError
            If the statistic does not propose a final mechanism of this name.
        """
        super().__post_init__()
        allowed_names = tuple(self.statistic.final_mechanisms(self.noise_kind))
        if self.final_name is None:
            assign(self, final_name=allowed_names[0])
        else:
            _validate.choice("final_name", self.final_name, allowed_names)

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic can be released in a ball found privately."""
        return isinstance(statistic, BallSearchStatistic)

    @classmethod
    def calibrate(
        cls, statistic: Statistic, guarantee: Guarantee, *, in_memory: bool = True
    ) -> Self:
        """Return the mechanism with the least noise that meets the guarantee.

        Parameters
        ----------
        statistic : BallSearchStatistic
            The statistic to release.
        guarantee : Guarantee
            The guarantee of the search and the final mechanism together.
        in_memory : bool
            Whether the records are in memory. If not, the final mechanism is one that
            reads them only once.

        Returns
        -------
        PrivateBallMechanism
            The mechanism. Its final mechanism, which releases the statistic in the
            ball, is the first one that the statistic proposes.

        Raises
        ------
        ParameterError
            If the statistic is not a `BallSearchStatistic`.
        """
        check_supported(cls, statistic)
        assert isinstance(statistic, BallSearchStatistic)

        level = cls.calibrate_noise(statistic, guarantee)
        final_names = statistic.final_mechanisms(level.kind, in_memory=in_memory)
        makes_newton_steps = final_names[0] == NewtonMechanism.info.name
        can_release_moments = makes_newton_steps and level.kind == "gaussian"
        return cls(
            statistic=statistic,
            scale=level.scale,
            noise_kind=level.kind,
            final_name=final_names[0],
            moments="first-and-second" if can_release_moments else "first",
        )

    @classmethod
    def laplace_cost_ratio(cls, statistic: Any) -> float:
        """Return the error with Laplace stages over that with Gaussian stages.

        Both have noise of the same length. The ratio was measured for each statistic.

        Parameters
        ----------
        statistic : BallSearchStatistic
            The statistic to release.
        """
        return float(statistic.laplace_cost_ratio)

    @property
    def has_enough_records(self) -> bool:
        """Whether there are enough records for the stages to be of use.

        The thresholds were measured. With Gaussian noise a mean needs nμ ≥ 40, or 50 if
        the unit of measurement of the records is unknown (as for covariance matrices),
        and a variance 2.5 times as much (`min_records_factor`). With pure ε every
        statistic needs nε ≥ 200, or 400 if the unit is unknown.
        """
        has_unknown_unit = any(
            isinstance(factor, ScalableCone) for factor in self.manifold.factors
        )
        if self._is_pure:
            threshold = 400.0 if has_unknown_unit else 200.0
        else:
            threshold = 50.0 if has_unknown_unit else 40.0
            threshold *= self.statistic.min_records_factor

        # 1/scale is μ, or ε. The scale is rounded up, so 1/scale is a little too small.
        records_times_budget = self.statistic.n * (1 + 1e-9) / self.scale
        return bool(records_times_budget >= threshold)

    @property
    def noise_share(self) -> float:
        """About the length of the final noise, divided by the spread of the records.

        This is a public estimate, without simulation. In a ball of radius r the noise
        of a mean in dimension d has length 2r√d/(nμ), or 2r√(d(d + 1))/(nε) for pure ε.
        The estimate takes a ball of 1.5 spreads, and 0.6 of the budget for the final
        mechanism. `plan` simulates the same quantity.
        """
        dim = self.manifold.dim
        if self._is_pure:
            noise_reduction = _TYPICAL_SHARE_LEFT
        else:
            noise_reduction = sqrt(_TYPICAL_SHARE_LEFT)

        # The sensitivity of a mean in a ball of radius 1: 2/n. If there are several
        # classes of records, n is the size of one class.
        sensitivity = float(self.statistic.sensitivity)
        noise_std = std_per_scale(self.noise_kind, dim) * self.scale
        noise_length = sqrt(dim) * noise_std / noise_reduction
        return float(_TYPICAL_RADIUS * sensitivity * noise_length)

    @property
    def clipped_share(self) -> float | None:
        """About the fraction of the records that the search leaves outside the ball.

        This is a public number for Gaussian noise. For pure ε it is None: the radius is
        read off noisy counts, so the fraction is not known beforehand.
        """
        if self._is_pure:
            return None
        return float(self._allowed_outside / self.statistic.n)

    # ---- release and replay ----

    def prepare_data(self, data: Any) -> Any:
        """Return the records in the form that the search and the statistic read.

        Parameters
        ----------
        data : Any
            The records, as an estimator passes them: an array, `Records`, or both with
            class indices if the statistic has classes.
        """
        return self.statistic.load_data(data)

    def queries(self, data: Records | None = None) -> Queries:
        """Return an object that computes counts and means of records, without noise.

        Parameters
        ----------
        data : Records, optional
            The records of the search. None in a replay, where all answers are zeros.
        """
        return Queries(self.statistic, data)

    def draw(self, data: Any, source: Source) -> Draw:
        """Find a ball with part of the budget, then release the statistic in it.

        Parameters
        ----------
        data : Any
            The records, in the form that `prepare_data` returns.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The released value, the noisy integers of all stages, and the transcript.
        """
        # Many small matrices: threads of the BLAS would spend more time than they save.
        with one_blas_thread():
            return self._find_and_release(data, source)

    def _find_and_release(self, data: Any, source: Source) -> Draw:
        """Find a ball with part of the budget, then release the statistic in it.

        The search adds noise to counts and means of the records, so that the ball is a
        function of released integers. The final mechanism is built in this ball, with
        the rest of the budget.

        Parameters
        ----------
        data : Any
            The records, in the form that `prepare_data` returns.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The released value, the noisy integers of all stages, and the transcript.
        """
        search_data = self.statistic.split_data(data)
        queries = self.queries(search_data.search_records)
        draws = self._search_draws(search_data, queries, source)

        # The ball is a function of the released integers, and hence public.
        integers = [draw.integers for draw in draws]
        ball, budget = self.replay([array.ravel().tolist() for array in integers])

        final = self.final_mechanism_in(ball, budget)
        final_data = self._final_data(final, search_data, queries, ball)
        final_draw = final.draw(final_data, source)
        return Draw(
            value=final.post_process(final_draw.value),
            integers=[*integers, *final_draw.integers],
            slack=sum(draw.tau for draw in draws) + (final_draw.slack or 0.0),
            stages=[*budget.transcript, *final_draw.stages],
        )

    def _search_draws(
        self, data: SearchData, queries: Queries, source: Source
    ) -> list[ExactDraw]:
        """Run the search for a ball, and return its noisy draws.

        Several releases can share one search. The first of them runs it and stores the
        draws in `data.shared_search`; the others return the stored draws.

        Parameters
        ----------
        data : SearchData
            The records for the search, and the draws of a search that is shared.
        queries : Queries
            Computes counts and means of the private records, before noise is added.
        source : Source
            Where random bits come from.

        Returns
        -------
        list of ExactDraw
            The draws, from which the ball follows by a replay.
        """
        shared_search = data.shared_search
        if shared_search is not None and shared_search.draws is not None:
            return shared_search.draws

        noise = ExactNoise(self.noise_kind, source)
        self.run(queries, noise)
        if shared_search is not None:
            shared_search.draws = noise.draws
        return noise.draws

    def _final_data(
        self, final: Mechanism, data: SearchData, queries: Queries, ball: Ball
    ) -> Any:
        """Return the data in the form that the final mechanism's `draw` takes.

        Most final mechanisms take the records or a value computed from them. A noisy
        mean takes the records' logarithms at the center of the ball, which the search
        has already computed if the records are in memory.

        Parameters
        ----------
        final : Mechanism
            The mechanism that releases the statistic in the ball.
        data : SearchData
            The records of the search, and those that the final mechanism reads
            (`target`).
        queries : Queries
            The queries of the search, which keep the logarithms of the records at the
            center of the ball.
        ball : Ball
            The ball that the search has found.

        Returns
        -------
        Any
            Logarithms, a value, or records: what `final.info.reads` asks for.
        """
        target = data.target
        can_reuse_logs = (
            isinstance(final, GradientMechanism)
            and target is data.search_records
            and data.search_records.location == "memory"
        )
        if can_reuse_logs:
            return queries.logs(ball.center)

        if final.info.reads == "value":
            return final.prepare_data(final.statistic.compute(target))
        if final.info.reads == "array" and isinstance(target, Records):
            return final.prepare_data(target.array())
        return final.prepare_data(target)

    def final_mechanism_in(self, ball: Ball, budget: StageBudget) -> Mechanism:
        """Return the final mechanism in a ball, calibrated to the rest of the budget.

        It is the mechanism `final_name`, with two exceptions that depend only on
        released numbers. For pure ε it is a gradient step if the ball is so small that
        curvature hardly matters. And Newton's method takes fewer steps in a small ball.
        The rest of `budget` is spent, and the ball and the mechanism are added to its
        transcript.

        Parameters
        ----------
        ball : Ball
            The ball that the search has found.
        budget : StageBudget
            The privacy budget that the search has left.

        Returns
        -------
        Mechanism
            The mechanism that will release the statistic in the ball.
        """
        share_left = budget.share_left
        guarantee = budget.spend_remaining()
        # Between these limits a double can hold the noise of a mean in the ball.
        radius = min(max(ball.radius, _SMALLEST_RADIUS), _LARGEST_RADIUS)
        ball = ball._replace(radius=radius)
        name = self._final_name_in(radius)
        statistic = self.statistic.with_ball(ball)
        final = mechanisms.find(name).calibrate(statistic, guarantee)
        if isinstance(final, NewtonMechanism) and self._is_small_for_newton(radius):
            final = replace(final, steps=min(final.steps, _STEPS_IN_SMALL_BALL))
        if isinstance(final, NewtonMechanism) and self.moments == "first-and-second":
            final = final.with_second_moments()

        budget.transcript += [
            {"kind": "ball", "center": ball.center.tolist(), "radius": radius},
            {"kind": name, "share": share_left, **final.parameters},
        ]
        return final

    @property
    def _negative_curvature(self) -> float:
        """−κ for the lowest sectional curvature κ; negative on spheres."""
        return -self.manifold.curvature_bounds[0]

    def _final_name_in(self, radius: float) -> str:
        """Return the name of the final mechanism in a ball of this radius.

        Parameters
        ----------
        radius : float
            The released radius.
        """
        is_nearly_flat = radius**2 * self._negative_curvature <= _NEARLY_FLAT
        if not (self._is_pure and is_nearly_flat):
            usual_name: str = self.final_name
            return usual_name
        # The statistic lists a single gradient step last. It gets all of ε, whereas
        # Newton's method would divide ε over its steps.
        options: list[str] = self.statistic.final_mechanisms(self.noise_kind)
        return options[-1]

    def _is_small_for_newton(self, radius: float) -> bool:
        """Return whether few Newton steps suffice in a ball of this radius.

        The Hessian hardly varies over a length at which length²·|κ| ≤ 1. Few steps
        suffice if noise moves the iterates no farther than that.

        Parameters
        ----------
        radius : float
            The released radius.
        """
        noise_length = self._step_noise_ratio * radius
        return noise_length**2 * self._negative_curvature <= 1

    def reconstruct_value(self, certificate: Certificate) -> Any:
        """Compute the released value again from the noisy integers in a certificate.

        The search is replayed first, which gives the ball; then the final mechanism
        computes its value from the remaining integers.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.
        """
        result = self._replay_all(certificate.release["integers"])
        final_certificate = self._final_certificate(certificate, result)
        return result.final.reconstruct_value(final_certificate)

    def recorded_draw(self, integers: Any) -> NoisyDraw:
        """Return the final mechanism's noisy draw, for a confidence region.

        Given the ball, the noise of the final mechanism is independent of the search.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists: those of
            the search, then those of the final mechanism.

        Returns
        -------
        NoisyDraw
            What the final mechanism drew, with the distribution of its noise.

        Raises
        ------
        ParameterError
            If the final mechanism's draws do not lead to a confidence region.
        """
        result = self._replay_all(integers)
        if not isinstance(result.final, LeadsToRegion):
            raise ParameterError(
                f"no region follows from {result.final.info.name}: no theorem leads from "
                "its draws to the truth"
            )
        draw = result.final.recorded_draw(result.final_integers)
        return draw._replace(frame=result.final.statistic)

    def final_mechanism(self, certificate: Certificate) -> Mechanism:
        """Return the mechanism that released the statistic in the ball that was found.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release, whose search is replayed.
        """
        return self._replay_all(certificate.release["integers"]).final

    def further_checks(self, certificate: Certificate) -> list[Check]:
        """Check the stages of the search and the claims of the final mechanism.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.

        Returns
        -------
        list of Check
            Whether the stated stages follow from the noisy integers, the final mechanism's
            own checks, and whether its stages are listed if and only if it has some.
        """
        result = self._replay_all(certificate.release["integers"])
        n_search_stages = len(result.transcript)
        stated_stages = certificate.release["stages"][:n_search_stages]
        checks = check_transcript(result.transcript, stated_stages)

        final_certificate = self._final_certificate(certificate, result)
        if isinstance(result.final, ChecksItself):
            checks += result.final.further_checks(final_certificate)

        has_final_stages = bool(final_certificate.release["stages"])
        checks.append(
            Check(
                "stages of the final mechanism",
                has_final_stages == result.final.info.is_staged,
                "as the mechanism lists them",
            )
        )
        return checks

    def _replay_all(self, integers: Any) -> BallSearchResult:
        """Replay the search, and return the final mechanism that it leads to.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists: those of
            the search, then those of the final mechanism.

        Returns
        -------
        BallSearchResult
            The final mechanism in the ball, its integers, and the stages of the search.
        """
        ball, budget = self.replay(integers)
        # So far there is one stage in the transcript for each draw.
        n_search_draws = len(budget.transcript)
        final = self.final_mechanism_in(ball, budget)
        return BallSearchResult(final, integers[n_search_draws:], budget.transcript)

    @staticmethod
    def _final_certificate(
        certificate: Certificate, result: BallSearchResult
    ) -> Certificate:
        """Return a copy of a certificate, reduced to the part of the final mechanism.

        A release has a search for a ball and then a final mechanism in that ball. Its
        certificate lists the noisy integers and the stages of both. The final mechanism
        knows nothing about the search, so to check or recompute its part it is given
        this copy, which lists its own integers and stages only.

        Parameters
        ----------
        certificate : Certificate
            The certificate of the whole release.
        result : BallSearchResult
            What a replay of all integers gave: the stages of the search, and the
            integers that are left for the final mechanism.

        Returns
        -------
        Certificate
            The copy. It keeps the privacy statement of the whole release, and has no
            valid seal of its own.
        """
        n_search_stages = len(result.transcript)
        release = {
            **certificate.release,
            "integers": result.final_integers,
            "stages": certificate.release["stages"][n_search_stages:],
        }
        return replace(certificate, release=release)

    # ---- the search ----

    def run(self, queries: Queries, add_noise: AddNoise) -> StagedResult:
        """Search for a ball that holds most records.

        1. Find the unit of measurement of every factor that is a cone of matrices.
        2. Start at the mean of embedded records, if the manifold has an embedding.
        3. Find a median distance from there.
        4. Move the center by noisy steps and shrink the ball, or only widen it so that
           few records are outside.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added. In
            a replay there are no records, and all answers are zeros.
        add_noise : function of (values, scales)
            Draws noise. In a replay it returns the recorded draws.

        Returns
        -------
        StagedResult
            Its value is the `Ball`; its budget is what is left for the final mechanism.
        """
        budget = StageBudget(self.scale, add_noise, self.noise_kind)
        center = self._rescale_center(queries, budget, self.statistic.center)
        start = self._embedded_start(queries, budget, center)
        radius = self._first_radius(
            queries, budget, start.point, smallest=start.noise_length / 4
        )
        ball = Ball(start.point, radius)

        if not self._can_afford_step(budget):
            return StagedResult(ball, budget)
        if self._is_worth_moving(radius, start.noise_length):
            ball = self._move_and_shrink(queries, budget, ball)
            return StagedResult(ball, budget)

        # For pure ε and a good start the median radius has few records beyond it
        # already.
        is_wide_enough = self._is_pure and start.noise_length < inf
        if not is_wide_enough:
            radius = self._enclosing_radius(queries, budget, ball.center, ball.radius)
            ball = ball._replace(radius=radius)
        return StagedResult(ball, budget)

    def _is_worth_moving(self, radius: float, start_noise: float) -> bool:
        """Return whether steps of the center are likely to lead to a smaller ball.

        They are not if the noise of a step is about as long as the radius, or if the
        noise of the starting point is short beside the radius.

        Parameters
        ----------
        radius : float
            The radius of the ball about the starting point.
        start_noise : float
            About how far noise has moved the starting point. It is infinite if the
            starting point says nothing about the records.
        """
        hopeless_ratio = _HOPELESS_NOISE_RATIO
        if self._is_hyperbolic:
            hopeless_ratio = _HOPELESS_NOISE_RATIO_IN_HYPERBOLIC_SPACE
        if self._step_noise_ratio > hopeless_ratio:
            return False
        return bool(radius <= _NOISE_PER_RADIUS[self.noise_kind] * start_noise)

    def _move_and_shrink(
        self, queries: Queries, budget: StageBudget, ball: Ball
    ) -> Ball:
        """Move the center of a ball and shrink its radius, as long as this pays off.

        Each round takes one noisy step and searches for a radius about the new center.
        There is another round if the budget allows it, and either the radius has shrunk
        enough or, in hyperbolic space, all records lie in one direction.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        ball : Ball
            The ball about the starting point.

        Returns
        -------
        Ball
            The last center and its radius. Few records are outside.
        """
        needed_shrinkage = _WORTHWHILE_SHRINKAGE
        if self._is_pure:
            # The radius cannot be expected to fall below this by another step.
            noise_limit = _NOISE_PER_RADIUS[self.noise_kind] * self._step_noise_ratio
            needed_shrinkage = min(needed_shrinkage, noise_limit)

        center, radius = ball
        is_worthwhile = True
        while is_worthwhile and self._can_afford_step(budget):
            center, log_length = self._take_center_step(queries, budget, center, radius)
            previous_radius = radius
            radius = self._enclosing_radius(queries, budget, center, radius)

            has_shrunk = radius <= needed_shrinkage * previous_radius
            lies_one_way = (
                self._is_hyperbolic and log_length > _ONE_WAY_LENGTH * previous_radius
            )
            is_worthwhile = has_shrunk or lies_one_way
        return Ball(center, radius)

    def _can_afford_step(self, budget: StageBudget) -> bool:
        """Return whether the budget is enough for another step and search for a radius.

        The fraction that is reserved for the final mechanism must be left after them.

        Parameters
        ----------
        budget : StageBudget
            The privacy budget that is left.

        Returns
        -------
        bool
            Whether so much is left. Only public numbers decide it.
        """
        share_needed = (
            self._shares.final
            + self._step_share
            + self._shares.hessian
            + self._search_share(self._fine_search)
        )
        return bool(budget.share_left >= share_needed)

    @property
    def _is_pure(self) -> bool:
        """Whether the noise of all stages is Laplace noise, for pure ε."""
        return self.noise_kind == "laplace"

    @property
    def _shares(self) -> SearchShares:
        """The fractions of the budget by kind of stage, for this kind of noise."""
        return _SHARES[self.noise_kind]

    @property
    def _is_hyperbolic(self) -> bool:
        """Whether geodesics part so fast that the Hessian must be measured."""
        return is_hyperbolic(self.manifold)

    @property
    def _step_share(self) -> float:
        """The fraction of the budget that one step of the center takes."""
        return self._share_for_few_records(self._shares.location)

    def _share_for_few_records(
        self, share: float, few_records_share: float = _FEW_RECORDS_SHARE
    ) -> float:
        """Return the fraction of the budget for a stage, raised if records are few.

        For pure ε it is raised to c/(nε), but at most 0.25. The number n of records is
        then c/2 times the noise scale of a count in a histogram. For Gaussian noise the
        fraction is returned as it is.

        Parameters
        ----------
        share : float
            The fraction that the stage takes with many records.
        few_records_share : float
            The constant c; a histogram of many bins needs a larger one.
        """
        if not self._is_pure:
            return share
        raised_share = few_records_share * self.scale / self.statistic.n
        return min(_MAX_SHARE, max(share, raised_share))

    @property
    def _step_noise_ratio(self) -> float:
        """The length of the noise of a step, divided by the radius r of the ball.

        A step is a mean of n logarithms of length at most r, whose sensitivity is 2r/n.
        In dimension d its noise has the length 2r√d/(nμ√share) for Gaussian noise, with
        the step's share of the budget.
        """
        dim = self.manifold.dim
        noise_std = std_per_scale(self.noise_kind, dim) * self.scale
        noise_reduction = self._step_share if self._is_pure else sqrt(self._step_share)
        noise_length = 2 * sqrt(dim) * noise_std
        return float(noise_length / (self.statistic.n * noise_reduction))

    # ---- radii ----

    def _first_radius(
        self,
        queries: Queries,
        budget: StageBudget,
        center: np.ndarray,
        smallest: float = inf,
    ) -> float:
        """Find a first radius about a center, from the outer radius downward.

        The first guess of a search: a finer search starts from it
        (`_enclosing_radius`).

        Parameters
        ----------
        queries : Queries
            Computes counts of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for the search.
        center : array of shape point_shape
            The public point from which distances are measured.
        smallest : float
            For pure ε only: the smallest radius of interest. If it is below the outer
            radius, the search uses narrow shells that end there, and otherwise wide
            ones.

        Returns
        -------
        float
            With Gaussian noise, about the distance within which half of the records
            lie; for pure ε, about a distance that few records are beyond.
        """
        largest = self.statistic.outer_radius
        if not self._is_pure:
            return _COARSE_SEARCH.find(
                budget,
                partial(queries.count_beyond, center),
                largest,
                allowed_outside=self.statistic.n / 2,
                share=self._search_share(_COARSE_SEARCH),
                center=center,
            )
        # For pure ε, one noisy histogram of distances in shells about the center.
        if smallest >= largest:
            wide_share = self._share_for_few_records(
                self._shares.units, _FEW_RECORDS_WIDE_SHARE
            )
            return self._radius_by_shells(
                queries, budget, center, largest, _WIDE_SHELLS, wide_share
            )

        many_narrow_shells = _NARROW_SHELLS._replace(n_shells=_WIDE_SHELLS.n_shells)
        shells = many_narrow_shells.without_inner_shells(smallest / largest)
        return self._radius_by_shells(
            queries,
            budget,
            center,
            largest,
            shells,
            self._search_share(self._fine_search),
        )

    def _enclosing_radius(
        self, queries: Queries, budget: StageBudget, center: np.ndarray, radius: float
    ) -> float:
        """Find a radius about a center that leaves few records outside.

        The search begins at a multiple of `radius` and goes inward. If it ends where it
        began, `radius` may be too small because of noise. If the budget allows it, the
        median distance and the radius are then searched for again.

        Parameters
        ----------
        queries : Queries
            Computes counts of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for one to three searches.
        center : array of shape point_shape
            The public point from which distances are measured.
        radius : float
            A rough radius: the median distance from the center that an earlier search
            has found, or the radius before a step.

        Returns
        -------
        float
            The released radius.
        """
        start = _SEARCH_START[self.noise_kind] * radius
        enclosing_radius = self._radius_within(queries, budget, center, start)
        if enclosing_radius < start or not self._can_afford_step(budget):
            return enclosing_radius

        median_radius = self._first_radius(queries, budget, center)
        if self._is_pure:
            return median_radius
        start = _SEARCH_START[self.noise_kind] * median_radius
        return self._radius_within(queries, budget, center, start)

    def _radius_within(
        self, queries: Queries, budget: StageBudget, center: np.ndarray, largest: float
    ) -> float:
        """Find the smallest radius that leaves few records outside.

        The fine search, which starts at a radius that a coarser search has found.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        center : array of shape point_shape
            The public point from which distances are measured.
        largest : float
            The largest radius that is tried.

        Returns
        -------
        float
            The released radius.
        """
        search_share = self._search_share(self._fine_search)
        if self._is_pure:
            return self._radius_by_shells(
                queries, budget, center, largest, _NARROW_SHELLS, search_share
            )
        return self._fine_search.find(
            budget,
            partial(queries.count_beyond, center),
            largest,
            allowed_outside=self._allowed_outside,
            share=search_share,
            center=center,
        )

    @property
    def _allowed_outside(self) -> float:
        """The number of records that may stay outside the ball, for Gaussian noise.

        A smaller ball needs less noise, but the records outside of it are clipped. With
        the radius r, clipping a record at distance 2r moves the mean of n records by
        r/n. The noise of that mean has the length 2√d·r/(n·μ) in dimension d, for
        μ-GDP. So the bias of 2√d/μ such records is no longer than the noise. Two
        standard deviations of a noisy count are added, because a count cannot tell that
        many records from none. At most half of all n records are given up.

        On spheres of many dimensions all records lie in a narrow shell, so that those
        outside the ball are hardly outside. Then 6 times as many are allowed.
        """
        search = self._fine_search
        count_std = search.count_std(self.scale, self._search_share(search))
        # `scale` is 1/μ of the whole release.
        n_hidden_by_noise = 2 * sqrt(self.manifold.dim) * self.scale
        if self._distances_concentrate:
            n_hidden_by_noise *= _OUTSIDE_IN_SHELL
        return float(min(self.statistic.n / 2, n_hidden_by_noise + 2 * count_std))

    @property
    def _distances_concentrate(self) -> bool:
        """Whether the space is a sphere of so many dimensions that distances hardly differ."""
        return self.manifold.dim >= CONCENTRATION_DIM and is_spherical(self.manifold)

    @property
    def _fine_search(self) -> BinarySearch:
        """The search for the radius of the ball, for Gaussian noise."""
        return _NARROW_SEARCH if self._distances_concentrate else _FINE_SEARCH

    def _radius_by_shells(
        self,
        queries: Queries,
        budget: StageBudget,
        center: np.ndarray,
        largest: float,
        shells: ShellHistogram,
        share: float,
    ) -> float:
        """Find the radius of the ball in which a mean has the least error, for pure ε.

        In a larger ball the mean needs more noise; from a smaller one more records are
        left out. A noisy histogram of the distances shows how many records that is.

        Parameters
        ----------
        queries : Queries
            Computes counts of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for the histogram.
        center : array of shape point_shape
            The public point from which distances are measured.
        largest : float
            The radius of the outermost shell.
        shells : ShellHistogram
            The number of shells, and the ratio of their radii.
        share : float
            The fraction of the budget for the histogram.

        Returns
        -------
        float
            The released radius.
        """
        dim = self.manifold.dim
        # The final mechanism gets what is left, and at least what is reserved for it.
        final_share = max(budget.share_left - share, self._shares.final)
        noise_std = std_per_scale(self.noise_kind, dim) * self.scale
        noise_per_radius = 2 * sqrt(dim) * noise_std / final_share
        estimate = shells.estimate(
            budget,
            partial(queries.count_beyond, center),
            n=self.statistic.n,
            largest=largest,
            noise_per_radius=noise_per_radius,
            share=share,
            center=center,
        )
        return estimate.best_radius

    def _search_share(self, search: BinarySearch) -> float:
        """Return the fraction of the budget that a search for a radius takes.

        With many records it is `_shares.counts`. With Gaussian noise it is an eighth of
        that for the coarse search, and 0.02 for the narrow one (where distances
        concentrate). With few records it is so large that n/2 is 2.5 standard
        deviations of a noisy count, but at most 0.25.

        Parameters
        ----------
        search : BinarySearch
            The search: `_COARSE_SEARCH`, `_FINE_SEARCH` or `_NARROW_SEARCH`.

        Returns
        -------
        float
            The fraction of the whole budget, of μ² or of ε.
        """
        share = self._shares.counts
        if self._is_pure:
            return self._share_for_few_records(share)
        if search is _COARSE_SEARCH:
            share = share / 8
        elif search is _NARROW_SEARCH:
            share = _NARROW_SEARCH_SHARE

        # The standard deviation of a count is scale·√(queries/share). It is n/5 for
        # this share.
        few_records_share = search.queries * (5 * self.scale / self.statistic.n) ** 2
        return float(min(_MAX_SHARE, max(share, few_records_share)))

    # ---- locations ----

    def _rescale_center(
        self, queries: Queries, budget: StageBudget, center: np.ndarray
    ) -> np.ndarray:
        """Rescale the center to the records' unit of measurement.

        A factor of the manifold that is a cone of matrices can be multiplied by any
        positive number. For each such factor a noisy histogram of log scales shows
        where most records are. The budget is charged once for each cone.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        center : array of shape point_shape
            A public point.

        Returns
        -------
        array of shape point_shape
            The center, with its cones rescaled.
        """
        cone_indices = [
            index
            for index, factor in enumerate(self.manifold.factors)
            if isinstance(factor, ScalableCone)
        ]
        for index in cone_indices:
            cone = self.manifold.factors[index]
            half_count = half_bin_count(cone, self.statistic.outer_radius, _BIN_WIDTH)
            bins = Bins(_BIN_WIDTH, half_count, self.noise_kind)

            budget_share = self._share_for_few_records(
                self._shares.units, _FEW_RECORDS_WIDE_SHARE
            )
            budget_share = min(budget_share, _MAX_SHARE / len(cone_indices))
            # A record has weights at the two edges of its bin, so it moves the
            # histogram by √2 in the Euclidean norm and by 2 in the ℓ₁ norm.
            edge_weights = queries.scale_histogram(center, index, bins)
            noisy_weights, noise_std = budget.release(
                "units", budget_share, sqrt(2), edge_weights, l1_sensitivity=2.0
            )

            bin_offset = likeliest_position(
                noisy_weights, noise_std, self.statistic.n, self.noise_kind
            )
            center = rescale_factor(
                self.manifold, center, index, _BIN_WIDTH * float(bin_offset)
            )
        return center

    def _embedded_start(
        self, queries: Queries, budget: StageBudget, center: np.ndarray
    ) -> EmbeddedStart:
        """Find a starting point for the search from noisy means of embedded records.

        Some factors of the manifold, such as spheres, are embedded in a bounded part of
        a vector space. For these the noisy mean of the embedded records is projected
        back to the factor. Other factors stay at the center. The budget is charged once
        for each embedded factor.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        center : array of shape point_shape
            A public point.

        Returns
        -------
        EmbeddedStart
            The starting point, and the length of its noise. That is infinite if a
            factor has no embedding.
        """
        factors = self.manifold.factors
        embedded_indices = [
            index
            for index, factor in enumerate(factors)
            if isinstance(factor, EmbeddedMean)
        ]
        budget_share = self._embedding_share(len(embedded_indices))
        components = list(split_into_factors(self.manifold, center))
        is_fully_embedded = len(embedded_indices) == len(factors)
        noise_length = 0.0 if is_fully_embedded else inf
        for index in embedded_indices:
            exact_mean = queries.mean_embedding(index)
            noisy_mean, noise_std = budget.release(
                "extrinsic", budget_share, exact_mean.sensitivity, exact_mean.values
            )
            factor = factors[index]
            assert isinstance(factor, EmbeddedMean)  # `embedded_indices` has no others
            components[index] = np.asarray(factor.from_embedding(noisy_mean))
            noise_length += noise_std * sqrt(factor.dim)

        point = point_or_fallback(
            self.manifold,
            partial(join_factors, self.manifold, components),
            fallback=center,
        )
        return EmbeddedStart(point, noise_length)

    def _embedding_share(self, n_embedded: int) -> float:
        """Return the fraction of the budget for the noisy mean of one embedded factor.

        It is the share of a step; with few records and Gaussian noise (12/(nμ))² if
        that is larger.

        Parameters
        ----------
        n_embedded : int
            The number of embedded factors, which share the budget.
        """
        if not n_embedded:
            return 0.0
        share = self._step_share
        if not self._is_pure:
            few_records_root = _EMBEDDING_ROOT_SHARE * self.scale / self.statistic.n
            share = max(share, few_records_root**2)
        return float(min(_MAX_SHARE / n_embedded, share))

    def _take_center_step(
        self, queries: Queries, budget: StageBudget, center: np.ndarray, radius: float
    ) -> CenterStep:
        """Take one noisy clipped gradient step from the center.

        The step is the noisy mean of the records' logarithms at the center, each
        clipped to the radius. It is shrunk by the rule of James and Stein, divided by
        the mean Hessian in hyperbolic space, and at most as long as the radius.

        Parameters
        ----------
        queries : Queries
            Computes counts and means of the private records, before noise is added.
        budget : StageBudget
            The rest of the privacy budget, which pays for what is released here.
        center : array of shape point_shape
            A public point.
        radius : float
            The length to which logarithms are clipped.

        Returns
        -------
        CenterStep
            The new center, and the length of the noisy mean logarithm.
        """
        exact_mean = queries.mean_clipped_log(center, radius)
        # A public power of two, so that the grid is fine in any unit of the records.
        unit = 2.0 ** ceil(log2(radius))
        noisy_mean, noise_std = budget.release(
            "location",
            self._step_share,
            exact_mean.sensitivity / unit,
            exact_mean.values / unit,
        )
        # The rule of James and Stein.
        step = shrink_vector(unit * noisy_mean, unit * noise_std)
        log_length = float(np.linalg.norm(step))

        if self._is_hyperbolic:
            step = self._divide_step_by_hessian(queries, budget, center, radius, step)
        step_length = float(np.linalg.norm(step))
        step = step * min(1.0, radius / max(step_length, radius))  # at most the radius
        point = point_or_fallback(
            self.manifold,
            lambda: self.manifold.from_normal_coordinates(center, step),
            fallback=center,
        )
        return CenterStep(point, log_length)

    def _divide_step_by_hessian(
        self,
        queries: Queries,
        budget: StageBudget,
        center: np.ndarray,
        radius: float,
        step: np.ndarray,
    ) -> np.ndarray:
        """Divide a step by the noisy mean Hessian of half the squared distance along it.

        In hyperbolic space that Hessian is 1 if all records lie in the direction of the
        step, and about as large as the radius if they lie in all directions. It follows
        from two released numbers: the mean excess of the records' Hessians over 1, and
        the part of it along the step.

        Parameters
        ----------
        queries : Queries
            Computes means of the private records, before noise is added.
        budget : StageBudget
            The privacy budget that is left. It is charged for the two numbers.
        center : array of shape point_shape
            The point from which the step is taken.
        radius : float
            The largest distance of a record that counts; larger ones are clipped to it.
        step : array of shape (dim,)
            The step in coordinates at the center. It has been released already.

        Returns
        -------
        array of shape (dim,)
            The shortened step.
        """
        exact_excess = queries.hessian_excess(center, radius, step)
        noisy_excess = budget.release(
            "bend",
            self._shares.hessian,
            exact_excess.sensitivity,
            exact_excess.values,
        )
        total_excess, excess_along_step = noisy_excess.values

        # A mean of n numbers from 0 to t has the sensitivity t/n, so that t, or a
        # little more, is n times the sensitivity. Noise may leave that range.
        largest_excess = exact_excess.sensitivity * self.statistic.n
        excess = float(np.clip(total_excess - excess_along_step, 0.0, largest_excess))
        return step / (1 + excess)

    # ---- predicted errors ----

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        """Simulate releases of a mean in floats. NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        data : array of shape (k, *point_shape)
            Public records. They represent the n records of the statistic.
        size : int
            How many releases to simulate.

        Returns
        -------
        array of shape (size, *point_shape)
            The released points.
        """
        records = np.asarray(data)
        released_points = []
        for _ in range(size):
            _, final = self.simulate_search(rng, records)
            released_points.append(simulate_mean(final, rng, records))
        return np.stack(released_points)

    def predict_error(self) -> float:
        """Predict the error for records as spread out as `plan` assumes by default."""
        return self.simulate_releases(self.statistic.reference_spread).error

    def simulate_releases(self, spread: float) -> SimulatedReleases:
        """Simulate 3 to 32 releases of public records of a given spread. NOT private.

        Errors are predicted from them, before private records are read.

        Parameters
        ----------
        spread : float
            The root mean square distance of the records to their mean.

        Returns
        -------
        SimulatedReleases
            The root mean square and the median of the errors, and about the radii of
            the balls found.
        """
        statistic = self.statistic
        rng = np.random.default_rng(_SEED)
        population = population_of_spread(
            self.manifold,
            statistic.center,
            spread,
            statistic.n,
            statistic.reference_shape,
        )
        # A release takes longer in high dimensions, and its error varies less.
        n_runs = min(_MAX_SIMULATED_RUNS, _RUNS_TIMES_DIMENSION // self.manifold.dim)
        n_runs = max(_MIN_SIMULATED_RUNS, n_runs)

        errors = []
        radii = []
        for _ in range(n_runs):
            ball, final = self.simulate_search(rng, population.records)
            errors.append(statistic.simulated_error(final, rng, *population))
            radii.append(ball.radius)
        rms_error = float(sqrt(np.mean(np.square(errors))))
        return SimulatedReleases(
            error=rms_error,
            median_error=float(np.median(errors)),
            radius=float(np.median(radii)),
            wide_radius=float(np.quantile(radii, _WIDE_QUANTILE)),
        )

    def simulate_search(
        self, rng: np.random.Generator, records: np.ndarray
    ) -> tuple[Ball, Mechanism]:
        """Simulate one search for a ball, with noise in floats. NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (k, *point_shape)
            Public records. They represent the n records of the statistic.

        Returns
        -------
        ball : Ball
            The ball that was found.
        final : Mechanism
            The final mechanism in it.
        """
        population = open_records(records, self.manifold.point_shape, min_records=1)
        ball, budget = self.run(self.queries(population), self.simulated_noise(rng))
        return ball, self.final_mechanism_in(ball, budget)


def class_mean_statistic(
    mean_of_all_records: SearchedMean,
    class_size: int,
    smallest_size: int,
    guarantee: Guarantee,
    ball: str = "auto",
) -> SearchedMean:
    """Return the statistic that releases the mean of one class of records.

    Used once for each class. A search costs budget, so small classes share one ball.

    Parameters
    ----------
    mean_of_all_records : SearchedMean
        The mean of the records of all classes.
    class_size : int
        The number of records of this class.
    smallest_size : int
        The number of records of the smallest class.
    guarantee : Guarantee
        The guarantee of the release.
    ball : {"auto", "each", "shared"}
        Whether each class has a ball of its own, or all classes share one. With "auto"
        each has its own if even the smallest class has enough records for a search.

    Returns
    -------
    SearchedMean
        The mean of this class in its own ball, or a `SearchedClassMean` in a shared
        one.
    """
    mean_of_smallest = replace(mean_of_all_records, n=smallest_size)
    mechanism = PrivateBallMechanism.calibrate(mean_of_smallest, guarantee)
    has_own_ball = ball == "each" or (ball == "auto" and mechanism.has_enough_records)
    if has_own_ball:
        return replace(mean_of_all_records, n=class_size)
    return SearchedClassMean(
        mean_of_all_records.manifold,
        mean_of_all_records.center,
        mean_of_all_records.outer_radius,
        mean_of_all_records.n,
        class_size,
    )
