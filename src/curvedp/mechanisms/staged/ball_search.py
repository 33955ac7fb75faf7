"""A ball for which nobody has to know a radius, and any statistic of the records in it.

The user gives a public *outer* ball as generous as they like. Unit of measurement,
location and radius are found in stages, each a release at points that are already
released; everything that is left of the budget goes to one final mechanism, for the
statistic of the records in the ball that was found (docs/private-ball.md).

All tuned numbers are one set for every space, chosen by measurement, and another for
pure ε: there a share s of the budget costs 1/s in noise and not 1/√s, so fewer
questions are asked.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, log2, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import (
    ChecksItself,
    EndsInAnother,
    LeadsToRegion,
    NeedsManyRecords,
    NoisyDraw,
    PredictsError,
    SimulatesRelease,
)
from curvedp.core.certificate import Certificate, Check
from curvedp.core.codes import PostProcessing
from curvedp.core.fields import assign
from curvedp.core.mechanism import Draw, Mechanism, MechanismInfo, check_supported
from curvedp.core.registry import mechanisms
from curvedp.core.statistic import Ball, Statistic
from curvedp.geometry.capabilities import EmbeddedMean, ScalableCone
from curvedp.laws.exact import ExactDraw
from curvedp.mechanisms.chart import shrink_vector
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.staged.budget import (
    StageBudget,
    StagedMechanism,
    StagedResult,
    check_transcript,
)
from curvedp.mechanisms.staged.quantile_search import BinarySearch, ShellHistogram
from curvedp.mechanisms.staged.queries import (
    Bins,
    Queries,
    half_bin_count,
    likeliest_bin,
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
from curvedp.privacy import Guarantee
from curvedp.randomness import Source
from curvedp.records.base import Records, open_records
from curvedp.release.populations import population_of_spread
from curvedp.statistics.searched_ball import (
    BallSearchStatistic,
    SearchData,
    SearchedClassMean,
    SearchedMean,
    is_hyperbolic,
    simulate_mean,
)


class SearchShares(NamedTuple):
    """Shares of the budget by stage.

    Attributes
    ----------
    units : float
        For the unit of measurement of a cone.
    counts : float
        For a search of a radius.
    location : float
        For a step.
    hessian : float
        For the two numbers about the Hessian, in hyperbolic space.
    final : float
        Kept for the final mechanism: steps end before it is touched.
    """

    units: float
    counts: float
    location: float
    hessian: float
    final: float


_SHARES: dict[NoiseKind, SearchShares] = {
    "gaussian": SearchShares(0.04, 0.08, 0.06, 0.01, 0.35),
    "laplace": SearchShares(0.04, 0.12, 0.1, 0.03, 0.4),
}
# The largest share of a search where records are few, of all units and of all
# embeddings.
_MAX_SHARE = 0.25
# The square root of an embedded mean's share where records are few, times nμ.
_EMBEDDING_ROOT_SHARE = 12.0

# A radius of this many times the noise of a mean is hardly widened by that noise.
_NOISE_PER_RADIUS: dict[NoiseKind, float] = {"gaussian": 8.0, "laplace": 2.0}
# Where the next search begins, times a median distance or a radius.
_SEARCH_START: dict[NoiseKind, float] = {"gaussian": 4.0, "laplace": 2.0}

# Searches for Gaussian noise.
_COARSE_SEARCH = BinarySearch(queries=6, ratio=1.6)
_FINE_SEARCH = BinarySearch(queries=5, ratio=1.15, patience=0.25)
# Histograms for pure ε.
_WIDE_SHELLS = ShellHistogram(n_shells=63, ratio=1.6)
_NARROW_SHELLS = ShellHistogram(n_shells=8, ratio=1.4)

# Where records are few, a stage of pure ε has the share 20/(nε), a wide histogram
# 40/(nε).
_FEW_RECORDS_SHARE = 20.0
_FEW_RECORDS_WIDE_SHARE = 40.0

# Of the radius: a mean logarithm this long says that all records lie one way.
_ONE_WAY_LENGTH = 0.6
# Another step pays where the radius has fallen to this share of the one before.
_WORTHWHILE_SHRINKAGE = 0.5
# r²·|κ| up to which one step of pure ε is as good as Newton's, and has all of ε.
_NEARLY_FLAT = 1.0
# Newton's steps that are enough where the ball is so small that H is the same all over
# it.
_STEPS_IN_SMALL_BALL = 3
# The width of a bin of units of measurement.
_BIN_WIDTH = 2.0
# Radii whose noise doubles hold too: what is paid for is not refused.
_SMALLEST_RADIUS = 1e-80
_LARGEST_RADIUS = 1e90
# The radius of a private ball, in spreads of the records, and the share of the budget
# that the search usually leaves (benchmarks/predictions.py).
_TYPICAL_RADIUS = 1.5
_TYPICAL_SHARE_LEFT = 0.6
# Simulated releases of a prediction, and their seed, which is public.
_MIN_SIMULATED_RUNS = 3
_MAX_SIMULATED_RUNS = 16
_SEED = 20230615


class BallSearchResult(NamedTuple):
    """A replayed release: the final mechanism, its integers, and the stages before it."""

    final: Mechanism
    final_integers: Any
    transcript: list[dict[str, Any]]


class Rehearsal(NamedTuple):
    """What simulated releases of public records say.

    Attributes
    ----------
    error : float
        The root mean square error of the statistic.
    radius : float
        The median radius of the balls that were found.
    """

    error: float
    radius: float


class EmbeddedStart(NamedTuple):
    """A starting point by embedded means, and how far noise may have led it.

    The noise is infinite where a factor has no embedding.
    """

    point: np.ndarray
    noise_length: float


class Step(NamedTuple):
    """A noisy step: where it leads, and the length of the noisy mean logarithm."""

    point: np.ndarray
    log_length: float


@dataclass(frozen=True, eq=False, kw_only=True)
class PrivateBallMechanism(
    StagedMechanism,
    PredictsError,
    SimulatesRelease,
    LeadsToRegion,
    EndsInAnother,
    NeedsManyRecords,
    ChecksItself,
):
    """A ball found in stages, then a final mechanism for the records in it.

    Attributes
    ----------
    final_name : str, optional
        The name of the final mechanism; by default the statistic's first choice.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replace-one adjacency, for ANY
      records;
    - every released number is on the grid 2^-30 (finer for small noise), within total
      variation distance `slack` of the ideal law.
    """

    if TYPE_CHECKING:
        statistic: BallSearchStatistic

    final_name: Any = None

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "private-ball", option="private-ball", reads="records", is_staged=True
    )
    noise_kinds: ClassVar[tuple[NoiseKind, ...]] = NOISE_KINDS
    # Each simulated draw is a run through all stages.
    max_simulated_draws = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        names = tuple(self.statistic.final_mechanisms(self.noise_kind))
        if self.final_name is None:
            assign(self, final_name=names[0])
        else:
            _validate.choice("final_name", self.final_name, names)

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        return isinstance(statistic, BallSearchStatistic)

    @classmethod
    def calibrate(
        cls, statistic: Statistic, guarantee: Guarantee, *, in_memory: bool = True
    ) -> Self:
        """Return the least noise that meets the guarantee.

        Parameters
        ----------
        statistic : BallSearchStatistic
        guarantee : Guarantee
        in_memory : bool
            Records that are not in memory are not read by several steps in a row.
        """
        check_supported(cls, statistic)
        assert isinstance(statistic, BallSearchStatistic)
        level = cls.calibrate_noise(statistic, guarantee)
        names = statistic.final_mechanisms(level.kind, in_memory=in_memory)
        return cls(
            statistic=statistic,
            scale=level.scale,
            noise_kind=level.kind,
            final_name=names[0],
        )

    @classmethod
    def laplace_cost_ratio(cls, statistic: Any) -> float:
        return float(statistic.laplace_cost_ratio)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        return self.statistic.post_processing

    @property
    def has_enough_records(self) -> bool:
        """Whether there are enough records for the stages to be of use.

        A mean needs nμ ≥ 40, and 50 where the unit of measurement is unknown; a
        variance 2.5 times that. Pure ε needs nε ≥ 200, and 400.
        """
        has_unknown_unit = any(
            isinstance(factor, ScalableCone) for factor in self.manifold.factors
        )
        if self._is_pure:
            needed = 400.0 if has_unknown_unit else 200.0
        else:
            needed = 50.0 if has_unknown_unit else 40.0
            needed *= self.statistic.min_records_factor
        # The scale is rounded up, so 1/scale is a little below μ.
        return bool(self.statistic.n * (1 + 1e-9) / self.scale >= needed)

    @property
    def noise_share(self) -> float:
        """About the length of the final noise over the spread of the records.

        It is a public number: noise of length 2r√d/(nμ), or 2r√(d(d + 1))/(nε), in a
        ball of 1.5 spreads with 0.6 of the budget. `plan` simulates what this
        estimates.
        """
        dim = self.manifold.dim
        # 2/n, of one class where there are several.
        sensitivity = float(self.statistic.sensitivity)
        worth = _TYPICAL_SHARE_LEFT if self._is_pure else sqrt(_TYPICAL_SHARE_LEFT)
        std = std_per_scale(self.noise_kind, dim) * self.scale
        length = sqrt(dim) * std / worth
        return float(_TYPICAL_RADIUS * sensitivity * length)

    @property
    def clipped_share(self) -> float | None:
        """About the share of the records that the search leaves outside the ball.

        It is a public number where the noise is Gaussian. For pure ε the radius is read
        off noisy counts, and the share is not known before.
        """
        if self._is_pure:
            return None
        return float(self._allowed_outside / self.statistic.n)

    # ---- release and replay ----

    def prepare_data(self, data: Any) -> Any:
        return self.statistic.prepare(data)

    def queries(self, data: Records | None = None) -> Queries:
        return Queries(self.statistic, data)

    def draw(self, data: Any, source: Source) -> Draw:
        """Find a ball with part of the budget, then release the statistic in it."""
        search_data = self.statistic.split_data(data)
        queries = self.queries(search_data.search_records)
        draws = self._search_draws(search_data, queries, source)

        # The ball is a function of the released integers, and hence public.
        integers = [draw.integers for draw in draws]
        ball, budget = self.replay([part.ravel().tolist() for part in integers])
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
        """Return the draws of the search; of a shared search those made before."""
        shared = data.shared_search
        if shared is not None and shared.draws is not None:
            return shared.draws
        noise = ExactNoise(self.noise_kind, source)
        self.run(queries, noise)
        if shared is not None:
            shared.draws = noise.draws
        return noise.draws

    def _final_data(
        self, final: Mechanism, data: SearchData, queries: Queries, ball: Ball
    ) -> Any:
        """Return what the final mechanism draws from."""
        target = data.target
        if (
            isinstance(final, GradientMechanism)
            and target is data.search_records
            and data.search_records.location == "memory"
        ):
            # The search has computed the logarithms at the center already.
            return queries.logs(ball.center)
        if final.info.reads == "value":
            return final.prepare_data(final.statistic.compute(target))
        if final.info.reads == "array" and isinstance(target, Records):
            return final.prepare_data(target.array())
        return final.prepare_data(target)

    def final_mechanism_in(self, ball: Ball, budget: StageBudget) -> Mechanism:
        """Return the final mechanism in a ball, for everything that is left."""
        share = budget.share_left
        guarantee = budget.spend_rest()
        radius = min(max(ball.radius, _SMALLEST_RADIUS), _LARGEST_RADIUS)
        ball = ball._replace(radius=radius)
        negative_curvature = -self.manifold.curvature_bounds[0]

        name = self.final_name
        if self._is_pure and radius**2 * negative_curvature <= _NEARLY_FLAT:
            name = self.statistic.final_mechanisms(self.noise_kind)[-1]
        final = mechanisms.find(name).calibrate(self.statistic.in_ball(ball), guarantee)
        step_length = self._step_noise_ratio * radius
        if isinstance(final, NewtonMechanism) and (
            step_length**2 * negative_curvature <= 1
        ):
            final = replace(final, steps=min(final.steps, _STEPS_IN_SMALL_BALL))
        budget.transcript += [
            {"kind": "ball", "center": ball.center.tolist(), "radius": radius},
            {"kind": name, "share": share, **final.parameters},
        ]
        return final

    def reconstruct_value(self, certificate: Certificate) -> Any:
        result = self._replay_all(certificate.release["integers"])
        final_certificate = self._final_certificate(certificate, result)
        return result.final.reconstruct_value(final_certificate)

    def noisy_draw(self, integers: Any) -> NoisyDraw:
        """Return what the final mechanism has drawn: given the ball, its noise is fresh."""
        result = self._replay_all(integers)
        if not isinstance(result.final, LeadsToRegion):
            raise NotImplementedError("every final mechanism leads to a region")
        draw = result.final.noisy_draw(result.final_integers)
        return draw._replace(frame=result.final.statistic)

    def final_mechanism(self, certificate: Certificate) -> Mechanism:
        return self._replay_all(certificate.release["integers"]).final

    def further_checks(self, certificate: Certificate) -> list[Check]:
        """Check the stages, the final mechanism's own claims, and that nothing is added."""
        result = self._replay_all(certificate.release["integers"])
        final_certificate = self._final_certificate(certificate, result)
        n_stages = len(result.transcript)
        stated = certificate.release["stages"][:n_stages]
        checks = check_transcript(result.transcript, stated)
        if isinstance(result.final, ChecksItself):
            checks += result.final.further_checks(final_certificate)
        has_stages = bool(final_certificate.release["stages"])
        checks.append(
            Check(
                "stages of the final mechanism",
                has_stages == result.final.info.is_staged,
                "as the mechanism lists them",
            )
        )
        return checks

    def _replay_all(self, integers: Any) -> BallSearchResult:
        """Return the final mechanism that a certificate's integers lead to."""
        ball, budget = self.replay(integers)
        n_draws = len(budget.transcript)
        final = self.final_mechanism_in(ball, budget)
        return BallSearchResult(final, integers[n_draws:], budget.transcript)

    @staticmethod
    def _final_certificate(
        certificate: Certificate, result: BallSearchResult
    ) -> Certificate:
        """Return the certificate with what belongs to the final mechanism alone."""
        release = {
            **certificate.release,
            "integers": result.final_integers,
            "stages": certificate.release["stages"][len(result.transcript) :],
        }
        return replace(certificate, release=release)

    # ---- the search ----

    def run(self, queries: Queries, add_noise: AddNoise) -> StagedResult:
        """Find units of measurement and a starting point, then step and shrink the ball."""
        budget = StageBudget(self.scale, add_noise, self.noise_kind)
        center = self._find_units(queries, budget, self.statistic.center)
        center, start_noise = self._embedded_start(queries, budget, center)
        radius = self._median_radius(queries, budget, center, start_noise / 4)

        noise_ratio = self._step_noise_ratio
        # Noise across the step counts for more where geodesics part.
        is_hopeless = noise_ratio > (0.5 if self._is_hyperbolic else 1.0)
        needed_shrinkage = _WORTHWHILE_SHRINKAGE
        if self._is_pure:
            noise_limit = _NOISE_PER_RADIUS[self.noise_kind] * noise_ratio
            needed_shrinkage = min(needed_shrinkage, noise_limit)

        is_stepping = (
            not is_hopeless
            and radius <= _NOISE_PER_RADIUS[self.noise_kind] * start_noise
            and self._can_afford_step(budget)
        )
        if not is_stepping and self._can_afford_step(budget):
            has_shells_about_start = self._is_pure and start_noise < inf
            if not has_shells_about_start:
                radius = self._enclosing_radius(queries, budget, center, radius)
        while is_stepping:
            center, log_length = self._step(queries, budget, center, radius)
            previous_radius = radius
            radius = self._enclosing_radius(queries, budget, center, radius)
            has_shrunk = radius <= needed_shrinkage * previous_radius
            lies_one_way = (
                self._is_hyperbolic and log_length > _ONE_WAY_LENGTH * previous_radius
            )
            is_stepping = (has_shrunk or lies_one_way) and self._can_afford_step(budget)
        return StagedResult(Ball(center, radius), budget)

    def _can_afford_step(self, budget: StageBudget) -> bool:
        """Return whether one more step, or one more search, leaves the final share."""
        needed = (
            self._shares.final
            + self._step_share
            + self._shares.hessian
            + self._search_share(_FINE_SEARCH)
        )
        return bool(budget.share_left >= needed)

    @property
    def _is_pure(self) -> bool:
        """Whether stages have Laplace noise, for pure ε."""
        return self.noise_kind == "laplace"

    @property
    def _shares(self) -> SearchShares:
        return _SHARES[self.noise_kind]

    @property
    def _is_hyperbolic(self) -> bool:
        """Whether geodesics part so fast that the Hessian must be measured."""
        return is_hyperbolic(self.manifold)

    @property
    def _step_share(self) -> float:
        """The share of a step."""
        return self._share_for_few(self._shares.location)

    def _share_for_few(
        self, share: float, few_records_share: float = _FEW_RECORDS_SHARE
    ) -> float:
        """Return a share, raised for pure ε where records are few.

        It is so large that the records are few_records_share/2 times the noise of a
        count.
        """
        if not self._is_pure:
            return share
        raised = few_records_share * self.scale / self.statistic.n
        return min(_MAX_SHARE, max(share, raised))

    @property
    def _step_noise_ratio(self) -> float:
        """The length of the noise of a step, over the radius."""
        dim = self.manifold.dim
        worth = self._step_share if self._is_pure else sqrt(self._step_share)
        noise = 2 * sqrt(dim) * std_per_scale(self.noise_kind, dim) * self.scale
        return float(noise / (self.statistic.n * worth))

    # ---- radii ----

    def _median_radius(
        self,
        queries: Queries,
        budget: StageBudget,
        center: np.ndarray,
        smallest: float = inf,
    ) -> float:
        """Return about the distance within which half of the records are.

        For pure ε it is a distance that few are beyond; shells then reach down to
        `smallest`.
        """
        largest = self.statistic.outer_radius
        if not self._is_pure:
            return _COARSE_SEARCH.find(
                budget,
                partial(queries.count_beyond, center),
                largest,
                self.statistic.n / 2,
                self._search_share(_COARSE_SEARCH),
                center,
            )
        shells = _WIDE_SHELLS
        if smallest < largest:
            many_narrow = _NARROW_SHELLS._replace(n_shells=_WIDE_SHELLS.n_shells)
            shells = many_narrow.reaching_to(smallest / largest)
        return self._radius_by_shells(queries, budget, center, largest, shells)

    def _enclosing_radius(
        self, queries: Queries, budget: StageBudget, center: np.ndarray, radius: float
    ) -> float:
        """Return a radius that only as many records are beyond as noise hides.

        `radius` is a median distance, or the radius before a step. Where every answer
        says that it must be wider still, noise has misled the search for `radius`,
        which is made again.
        """
        start = _SEARCH_START[self.noise_kind] * radius
        enclosing = self._radius_within(queries, budget, center, start)
        if enclosing < start or not self._can_afford_step(budget):
            return enclosing
        radius = self._median_radius(queries, budget, center)
        if self._is_pure:
            return radius
        start = _SEARCH_START[self.noise_kind] * radius
        return self._radius_within(queries, budget, center, start)

    def _radius_within(
        self, queries: Queries, budget: StageBudget, center: np.ndarray, largest: float
    ) -> float:
        """Return the least radius, at most `largest`, that few records are beyond."""
        if self._is_pure:
            return self._radius_by_shells(
                queries, budget, center, largest, _NARROW_SHELLS
            )
        return _FINE_SEARCH.find(
            budget,
            partial(queries.count_beyond, center),
            largest,
            self._allowed_outside,
            self._search_share(_FINE_SEARCH),
            center,
        )

    @property
    def _allowed_outside(self) -> float:
        """How many records may stay outside the ball: about as many as noise hides."""
        count_std = _FINE_SEARCH.count_std(self.scale, self._search_share(_FINE_SEARCH))
        hidden = 2 * sqrt(self.manifold.dim) * self.scale + 2 * count_std
        return float(min(self.statistic.n / 2, hidden))

    def _radius_by_shells(
        self,
        queries: Queries,
        budget: StageBudget,
        center: np.ndarray,
        largest: float,
        shells: ShellHistogram,
    ) -> float:
        """Return the radius of least expected loss, from one histogram of shells."""
        share = self._search_share(_FINE_SEARCH)
        if shells.ratio == _WIDE_SHELLS.ratio:
            share = self._share_for_few(self._shares.units, _FEW_RECORDS_WIDE_SHARE)
        dim = self.manifold.dim
        share_of_final = max(budget.share_left - share, self._shares.final)
        noise = 2 * sqrt(dim) * std_per_scale(self.noise_kind, dim) * self.scale
        estimate = shells.estimate(
            budget,
            partial(queries.count_beyond, center),
            self.statistic.n,
            largest,
            noise / share_of_final,
            share,
            center,
        )
        return estimate.best_radius

    def _search_share(self, search: BinarySearch) -> float:
        """Return the share of a search.

        Where records are few it is so large that half of them are 2.5 standard
        deviations of a count.
        """
        share = self._shares.counts
        if self._is_pure:
            return self._share_for_few(share)
        if search is not _FINE_SEARCH:
            share = share / 8
        share_of_few = search.queries * (5 * self.scale / self.statistic.n) ** 2
        return float(min(_MAX_SHARE, max(share, share_of_few)))

    # ---- locations ----

    def _find_units(
        self, queries: Queries, budget: StageBudget, center: np.ndarray
    ) -> np.ndarray:
        """Scale every factor that is a cone to where most records are."""
        cones = [
            index
            for index, factor in enumerate(self.manifold.factors)
            if isinstance(factor, ScalableCone)
        ]
        for index in cones:
            cone = self.manifold.factors[index]
            half_count = half_bin_count(cone, self.statistic.outer_radius, _BIN_WIDTH)
            bins = Bins(_BIN_WIDTH, half_count, self.noise_kind)
            share = self._share_for_few(self._shares.units, _FEW_RECORDS_WIDE_SHARE)
            share = min(share, _MAX_SHARE / len(cones))
            shares = queries.scale_histogram(center, index, bins)
            noisy_shares, noise_std = budget.release(
                "units", share, sqrt(2), shares, l1_sensitivity=2.0
            )
            bin_offset = likeliest_bin(
                noisy_shares, noise_std, self.statistic.n, self.noise_kind
            )
            center = rescale_factor(
                self.manifold, center, index, _BIN_WIDTH * float(bin_offset)
            )
        return center

    def _embedded_start(
        self, queries: Queries, budget: StageBudget, center: np.ndarray
    ) -> EmbeddedStart:
        """Start at the projected mean of embedded points, in every factor that has them."""
        factors = self.manifold.factors
        parts = list(self.manifold.split(center))
        embedded = [
            index
            for index, factor in enumerate(factors)
            if isinstance(factor, EmbeddedMean)
        ]
        share = self._step_share
        if not self._is_pure:
            few = (_EMBEDDING_ROOT_SHARE * self.scale / self.statistic.n) ** 2
            share = max(share, few)

        noise_length = 0.0 if len(embedded) == len(factors) else inf
        for index in embedded:
            answer = queries.mean_embedding(index)
            mean, noise_std = budget.release(
                "extrinsic",
                min(_MAX_SHARE / len(embedded), share),
                answer.sensitivity,
                answer.values,
            )
            factor = factors[index]
            assert isinstance(factor, EmbeddedMean)  # `embedded` has no others
            parts[index] = np.asarray(factor.from_embedding(mean))
            noise_length += noise_std * sqrt(factor.dim)
        point = point_or_fallback(
            self.manifold, partial(self.manifold.join, parts), center
        )
        return EmbeddedStart(point, noise_length)

    def _step(
        self, queries: Queries, budget: StageBudget, center: np.ndarray, radius: float
    ) -> Step:
        """Take one noisy clipped gradient step from the center."""
        answer = queries.mean_clipped_log(center, radius)
        # A public power of two, so that the grid is fine in any unit of the records.
        unit = 2.0 ** ceil(log2(radius))
        noisy_mean, noise_std = budget.release(
            "location",
            self._step_share,
            answer.sensitivity / unit,
            answer.values / unit,
        )
        step = shrink_vector(unit * noisy_mean, unit * noise_std)
        log_length = float(np.linalg.norm(step))
        if self._is_hyperbolic:
            step = self._divide_by_hessian(queries, budget, center, radius, step)
        step = step * min(1.0, radius / max(float(np.linalg.norm(step)), radius))
        point = point_or_fallback(
            self.manifold,
            lambda: self.manifold.from_normal_coordinates(center, step),
            center,
        )
        return Step(point, log_length)

    def _divide_by_hessian(
        self,
        queries: Queries,
        budget: StageBudget,
        center: np.ndarray,
        radius: float,
        step: np.ndarray,
    ) -> np.ndarray:
        """Divide a step by the private mean Hessian along it.

        It is 1 where the records lie in the direction of the step, and about the radius
        where they lie all around.
        """
        answer = queries.hessian_excess(center, radius, step)
        noisy = budget.release(
            "bend", self._shares.hessian, answer.sensitivity, answer.values
        ).values
        largest = answer.sensitivity * self.statistic.n
        excess = float(np.clip(noisy[0] - noisy[1], 0.0, largest))
        return step / (1 + excess)

    # ---- predicted errors ----

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        """Simulate releases of a mean, for records that stand for n of their kind."""
        records = np.asarray(data)
        released = []
        for _ in range(size):
            _, final = self.simulate_search(rng, records)
            released.append(simulate_mean(final, rng, records))
        return np.stack(released)

    def predict_error(self) -> float:
        """Predict the error for records as spread out as `plan` takes them by default."""
        return self.rehearse(self.statistic.reference_spread).error

    def rehearse(self, spread: float) -> Rehearsal:
        """Simulate releases of public records of a spread. NOT for release.

        Parameters
        ----------
        spread : float
            The root mean square distance of the records to their mean.
        """
        statistic = self.statistic
        rng = np.random.default_rng(_SEED)
        population = population_of_spread(
            self.manifold, statistic.center, spread, statistic.n
        )
        n_runs = min(_MAX_SIMULATED_RUNS, 1024 // self.manifold.dim)
        n_runs = max(_MIN_SIMULATED_RUNS, n_runs)
        errors = []
        radii = []
        for _ in range(n_runs):
            ball, final = self.simulate_search(rng, population.records)
            errors.append(statistic.simulated_error(final, rng, *population))
            radii.append(ball.radius)
        rms_error = float(sqrt(np.mean(np.square(errors))))
        return Rehearsal(rms_error, float(np.median(radii)))

    def simulate_search(
        self, rng: np.random.Generator, records: np.ndarray
    ) -> tuple[Ball, Mechanism]:
        """Return a ball that such records lead to, and the final mechanism in it."""
        stored = open_records(records, self.manifold.point_shape, min_records=1)
        ball, budget = self.run(self.queries(stored), self.simulated_noise(rng))
        return ball, self.final_mechanism_in(ball, budget)


def class_mean_statistic(
    everyone: SearchedMean,
    class_size: int,
    smallest_size: int,
    guarantee: Guarantee,
    ball: str = "auto",
) -> SearchedMean:
    """Return the statistic of one class's mean.

    Parameters
    ----------
    everyone : SearchedMean
        The mean of the records of all classes.
    class_size, smallest_size : int
        The number of records of this class, and of the smallest one.
    guarantee : Guarantee
    ball : {"auto", "each", "shared"}
        Whether each class has a ball of its own: by default where all are large enough.
    """
    smallest = replace(everyone, n=smallest_size)
    is_large = PrivateBallMechanism.calibrate(smallest, guarantee).has_enough_records
    if ball == "each" or (ball == "auto" and is_large):
        return replace(everyone, n=class_size)
    return SearchedClassMean(
        everyone.manifold,
        everyone.center,
        everyone.outer_radius,
        everyone.n,
        class_size,
    )
