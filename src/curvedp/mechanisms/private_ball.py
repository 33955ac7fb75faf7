"""A ball for which nobody has to know a radius, found privately; then any statistic of the records in it.

The user gives a public OUTER ball as generous as he likes. Units, location and radius are found in stages (`stages`), each a
release at points that are already released, and all that is left of the budget goes to one last mechanism, for the statistic
of the ball that was found (docs/private-ball.md). Constants are one set for every space, measured; another for pure ε, where
a share s of the budget costs 1/s in noise and not 1/√s, so that fewer questions are asked: one histogram of shells in place
of each search.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, log2, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.geometry.capabilities import EmbeddedMean, ScalableCone
from curvedp.mechanisms.base import Draw, Mechanism, Reading
from curvedp.mechanisms.certificate import Certificate, Check
from curvedp.mechanisms.chart import shrunk
from curvedp.mechanisms.choose import population_of_spread
from curvedp.mechanisms.gradient import GradientMechanism
from curvedp.mechanisms.in_private_ball import (
    InPrivateBall,
    OuterBallClassMean,
    OuterBallMean,
    simulated_mean,
)
from curvedp.mechanisms.measured import Measured, half_bins, likeliest, rescaled, usable
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.noise import LAWS, Law, Noise, spread_of
from curvedp.mechanisms.stages import (
    Search,
    Shells,
    StagedMechanism,
    Stages,
    same_stages,
)
from curvedp.mechanisms.statistic import Ball, assign
from curvedp.privacy import Guarantee
from curvedp.records.base import open_records


class _Shares(NamedTuple):
    """Of the budget, by stage; `kept` is for the last mechanism: steps end before."""

    units: float
    counts: float
    location: float
    bend: float
    kept: float


_SHARES = {
    "gaussian": _Shares(0.04, 0.08, 0.06, 0.01, 0.35),
    "laplace": _Shares(0.04, 0.12, 0.1, 0.03, 0.4),
}
_MOST = 0.25  # the largest share of a search where records are few, of all units and of all extrinsic means
_EXTRINSIC = 12.0  # times 1/(nμ): the square root of an extrinsic mean's share where records are few
_OFF = {
    "gaussian": 8.0,
    "laplace": 2.0,
}  # times the noise of a mean: a radius that it hardly widens
_COARSE, _FINE = Search(6, 1.6), Search(5, 1.15, 0.25)
_WIDER = {
    "gaussian": 4.0,
    "laplace": 2.0,
}  # times a median distance, or a radius: where the next search begins
_WIDE, _NARROW = Shells(63, 1.6), Shells(8, 1.4)  # for pure ε
# Times 1/(nε): where records are few, the share of a stage of pure ε, and of a long histogram.
_FEW, _FIRST = 20.0, 40.0
_LONG = 0.6  # of the radius: a mean logarithm of records that all lie one way
_STRAIGHT = 1.0  # r²·|κ|: in smaller balls one step of pure ε is as good as Newton's, and has all of ε
_BIN = 2.0  # width of a bin of units
_HELD = (
    1e-80,
    1e90,
)  # radii of which doubles hold the noise too: what is paid for is not refused
_TYPICAL_RADIUS = (
    1.5  # of a private ball, in spreads of the records (benchmarks/predictions.py)
)
_TYPICAL_REST = 0.6  # of the budget: what the search for a ball usually leaves
_FEWEST_RUNS, _MOST_RUNS = 3, 16  # simulated releases of a prediction


class Rehearsal(NamedTuple):
    """What simulated releases of public records say."""

    error: float  # root mean square error of the statistic
    radius: float  # the median radius of the balls that were found


@dataclass(frozen=True, eq=False, kw_only=True)
class PrivateBallMechanism(StagedMechanism):
    """A ball found in stages, and a last mechanism for the statistic of the records in it, as one release.

    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replace-one adjacency, for ANY records;
    - every released number is on the grid 2^-30 (finer for small noise), within total variation τ of the ideal law.
    """

    last: Any = None  # the name of the last mechanism

    laws: ClassVar[tuple[Law, ...]] = LAWS
    name: ClassVar[str] = "private-ball"
    option: ClassVar[str | None] = "private-ball"
    most_simulated: ClassVar[int] = 32  # each is a walk through all stages
    of: ClassVar[Any] = InPrivateBall

    def __post_init__(self) -> None:
        super().__post_init__()
        names = tuple(kind.name for kind in self.statistic.lasts(self.law))
        assign(
            self,
            last=names[0]
            if self.last is None
            else _validate.choice("last", self.last, names),
        )

    @classmethod
    def for_statistic(
        cls, statistic: Any, guarantee: Guarantee, in_memory: bool = True
    ) -> Self:
        """Records that are not in memory are not read by several steps in a row."""
        noise = cls.least(guarantee, statistic)
        return cls(
            statistic=statistic,
            **noise,
            last=statistic.lasts(noise["law"], in_memory=in_memory)[0].name,
        )

    @property
    def enough(self) -> bool:
        """Whether there are enough records for the stages to be of use: nμ >= 40, and 50 where units are unknown, for a
        variance 100 and 125; nε >= 200, and 400."""
        unknown = any(
            isinstance(factor, ScalableCone) for factor in self.manifold.factors
        )
        least = (
            (200, 400)[unknown]
            if self._pure
            else (40, 50)[unknown] * self.statistic.fewest
        )
        return bool(
            self.statistic.n * (1 + 1e-9) / self.scale >= least
        )  # 1 over the scale is rounded down

    @property
    def noise_share(self) -> float:
        """About the length of the last noise over the spread of the records.

        It is a public number: noise of length 2r√d/(nμ), or 2r√(d(d + 1))/(nε), in a
        ball of 1.5 spreads with 0.6 of the budget. `plan` simulates what this estimates.
        """
        dim = self.manifold.dim
        sensitivity = float(
            self.statistic.sensitivity
        )  # 2/n, of one class where there are several
        worth = _TYPICAL_REST if self._pure else sqrt(_TYPICAL_REST)
        length = sqrt(dim) * spread_of(self.law, dim) * self.scale / worth
        return float(_TYPICAL_RADIUS * sensitivity * length)

    @property
    def clipped_share(self) -> float | None:
        """About the share of the records that the search for a radius leaves outside.

        It is a public number where the noise is Gaussian. For pure ε the radius is read
        off noisy counts, and the share is not known before.
        """
        if self._pure:
            return None
        return float(self._outside / self.statistic.n)

    def draw(self, data: Any, source: Source) -> Draw:
        found, counted, shared = self.statistic.parts(data)
        measured, draws = Measured(self.statistic, found), shared or []
        if not draws:
            draws, noisy = self.exact_noise(source)
            self.walk(measured, noisy)
        if shared is not None:
            shared[:] = draws
        ball, stages = self.replayed([each.integers.ravel().tolist() for each in draws])
        last = self.last_in(ball, stages)
        known = (
            counted is found
            and found.where == "memory"
            and isinstance(last, GradientMechanism)
        )
        whole = (
            not known
            and last.reads == "records"
            and not last.streams
            and hasattr(counted, "array")
        )
        given = (
            last.statistic.of(counted)
            if last.reads == "value"
            else counted.array()
            if whole
            else counted
        )
        drawn = last.draw(
            measured.logs(ball.center) if known else last.accepted(given), source
        )
        integers = [*(each.integers for each in draws), *drawn.integers]
        tau = sum(each.tau for each in draws) + (drawn.tau or 0.0)
        return Draw(
            last.finish(drawn.value), integers, tau, [*stages.told, *drawn.stages]
        )

    def last_in(self, ball: Ball, stages: Stages) -> Any:
        """The last mechanism, for all that is left."""
        share, rest = stages.left, stages.rest()
        ball = ball._replace(radius=min(max(ball.radius, _HELD[0]), _HELD[1]))
        straight = (
            self._pure
            and ball.radius**2 * -self.manifold.curvature_bounds[0] <= _STRAIGHT
        )
        name = self.statistic.lasts(self.law)[-1].name if straight else self.last
        found: Any = Mechanism.registry[name].for_statistic(
            self.statistic.within(ball), rest
        )
        near = (self._roughness * ball.radius) ** 2 * -self.manifold.curvature_bounds[
            0
        ] <= 1  # H is the same that near
        if name == NewtonMechanism.name and near:  # so three steps are enough
            found = found.rebuilt(
                found.statistic, {**found.parameters, "steps": min(found.steps, 3)}
            )
        place = {"kind": "ball", "center": ball.center.tolist(), "radius": ball.radius}
        stages.told += [place, {"kind": name, "share": share, **found.parameters}]
        return found

    def value_of(self, certificate: Certificate) -> Any:
        last, rest, _ = self._read(certificate)
        return last.value_of(rest)

    def reading(self, integers: Any) -> Reading:
        """What the last mechanism has drawn: given the ball that was found before, its noise is fresh."""
        last, rest, _ = self._parts(integers)
        return last.reading(rest)._replace(frame=last.statistic)  # type: ignore[no-any-return]  # a reading

    def ending(self, certificate: Certificate) -> Any:
        """The last mechanism, in the ball that was found: a function of released integers."""
        return self._parts(certificate.release["integers"])[0]

    def checks(self, certificate: Certificate) -> list[Check]:
        """Every stage follows from the integers before it, and so does the last mechanism; shares add up to at most 1."""
        last, rest, told = self._read(certificate)
        own = bool(rest.release["stages"]) == last.staged
        more = Check(
            "stages of the last mechanism", own, "as it tells them"
        )  # one without any leaves none
        return [
            *same_stages(told, certificate.release["stages"][: len(told)]),
            *last.checks(rest),
            more,
        ]

    def _read(self, certificate: Certificate) -> tuple[Any, Certificate, list[Any]]:
        """(the last mechanism, what of the certificate is its own, the stages before)."""
        last, rest, told = self._parts(certificate.release["integers"])
        stages = certificate.release["stages"][len(told) :]
        return (
            last,
            replace(
                certificate,
                release={**certificate.release, "integers": rest, "stages": stages},
            ),
            told,
        )

    def _parts(self, integers: Any) -> tuple[Any, Any, list[Any]]:
        """(the last mechanism, its integers, the stages before)."""
        ball, stages = self.replayed(integers)
        asked = len(stages.told)
        return self.last_in(ball, stages), integers[asked:], stages.told

    # ---- the stages ----

    def walk(self, measured: Measured, noisy: Noise) -> tuple[Ball, Stages]:
        stages = Stages(self.scale, noisy, self.law)
        c = self._units(measured, stages, self.statistic.center)
        c, off = self._extrinsic(measured, stages, c)
        rough = self._roughness
        hopeless = rough > (
            0.5 if self._bent else 1.0
        )  # noise across the step counts for more where directions part
        nearer = (
            min(0.5, _OFF[self.law] * rough) if self._pure else 0.5
        )  # a radius at which another step pays
        r = self._median(measured, stages, c, off / 4)
        going = not hopeless and r <= _OFF[self.law] * off and self._affords(stages)
        if not going and self._affords(stages) and not (self._pure and off < inf):
            r = self._widened(measured, stages, c, r)
        while going:
            c, length = self._step(measured, stages, c, r)
            before, r = r, self._widened(measured, stages, c, r)
            going = (
                r <= nearer * before or (self._bent and length > _LONG * before)
            ) and self._affords(stages)
        return Ball(c, r), stages

    def _affords(self, stages: Stages) -> bool:
        """One more step, or one more search."""
        return bool(
            stages.left
            >= self._shares.kept
            + self._located
            + self._shares.bend
            + self._share(_FINE)
        )

    _pure = property(lambda self: self.law == "laplace")
    _shares = property(lambda self: _SHARES[self.law])
    # whether directions part so fast that a step is a small part of the way, and the Hessian is measured
    _bent = property(
        lambda self: (
            (self.manifold.constant_curvature or 0.0) < 0 and self.manifold.dim > 1
        )
    )
    _located = property(
        lambda self: self._least(self._shares.location)
    )  # the share of a step

    def _least(self, share: float, few: float = _FEW) -> float:
        """A share, or for pure ε one so large that the records are few/2 times the noise of a count, where there are few."""
        return (
            min(_MOST, max(share, few * self.scale / self.statistic.n))
            if self._pure
            else share
        )

    @property
    def _roughness(self) -> float:
        """The length of the noise of a step, over the radius."""
        share, d = self._located, self.manifold.dim
        worth = share if self._pure else sqrt(share)
        return float(
            2
            * sqrt(d)
            * spread_of(self.law, d)
            * self.scale
            / (self.statistic.n * worth)
        )

    def _median(
        self, measured: Measured, stages: Stages, c: np.ndarray, least: float = inf
    ) -> float:
        """About the distance within which half of the records are; for pure ε that which few are beyond."""
        top, beyond = self.statistic.outer_radius, partial(measured.beyond, c)
        if self._pure:
            fine = _NARROW._replace(number=_WIDE.number).down_to(least / top)
            return self._in_shells(
                measured, stages, c, top, fine if least < top else _WIDE
            )
        return _COARSE.quantile(
            stages, beyond, top, self.statistic.n / 2, self._share(_COARSE), c
        )

    def _widened(
        self, measured: Measured, stages: Stages, c: np.ndarray, r: float
    ) -> float:
        """A radius that only as many records are beyond as noise hides, r being a median distance or that before a step.
        Where every answer is that it must be wider still, noise has misled the search for r, which is made again."""
        top = _WIDER[self.law] * r
        found = self._tight(measured, stages, c, top)
        if found < top or not self._affords(stages):
            return found
        r = self._median(measured, stages, c)
        return (
            r if self._pure else self._tight(measured, stages, c, _WIDER[self.law] * r)
        )

    def _tight(
        self, measured: Measured, stages: Stages, c: np.ndarray, top: float
    ) -> float:
        if self._pure:
            return self._in_shells(measured, stages, c, top, _NARROW)
        return _FINE.quantile(
            stages,
            partial(measured.beyond, c),
            top,
            self._outside,
            self._share(_FINE),
            c,
        )

    @property
    def _outside(self) -> float:
        """How many records may stay outside: about as many as noise hides."""
        hidden = 2 * sqrt(self.manifold.dim) * self.scale + 2 * _FINE.noise(
            self.scale, self._share(_FINE)
        )
        return float(min(self.statistic.n / 2, hidden))

    def _in_shells(
        self,
        measured: Measured,
        stages: Stages,
        c: np.ndarray,
        top: float,
        shells: Shells,
    ) -> float:
        share = (
            self._least(self._shares.units, _FIRST)
            if shells.ratio == _WIDE.ratio
            else self._share(_FINE)
        )
        d, beyond = self.manifold.dim, partial(measured.beyond, c)
        worth = (
            2
            * sqrt(d)
            * spread_of(self.law, d)
            * self.scale
            / max(stages.left - share, self._shares.kept)
        )
        return shells.read(stages, beyond, self.statistic.n, top, worth, share, c)[1]

    def _share(self, search: Search) -> float:
        """Of a search: so much that half of the records are 2.5 deviations of a count, where there are few."""
        counts = self._shares.counts
        if self._pure:
            return self._least(counts)
        few = search.queries * (5 * self.scale / self.statistic.n) ** 2
        return float(min(_MOST, max(counts if search is _FINE else counts / 8, few)))

    def _units(self, measured: Measured, stages: Stages, c: np.ndarray) -> np.ndarray:
        """The scale of every factor that is a cone: where most records are."""
        cones = [
            place
            for place, factor in enumerate(self.manifold.factors)
            if isinstance(factor, ScalableCone)
        ]
        for place in cones:
            half = half_bins(
                self.manifold.factors[place], self.statistic.outer_radius, _BIN
            )
            share = min(self._least(self._shares.units, _FIRST), _MOST / len(cones))
            sums = measured.histogram(c, place, _BIN, half, self.law)
            noisy, noise = stages.ask("units", share, sqrt(2), sums, summed=2.0)
            c = rescaled(
                self.manifold,
                c,
                place,
                _BIN * float(likeliest(noisy, noise, self.statistic.n, self.law)),
            )
        return c

    def _extrinsic(
        self, measured: Measured, stages: Stages, c: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """(the mean of embedded points, brought back, for every factor that has an embedding; how far noise leads it)."""
        factors, parts = self.manifold.factors, list(self.manifold.split(c))
        found = [
            place
            for place, factor in enumerate(factors)
            if isinstance(factor, EmbeddedMean)
        ]
        off = 0.0 if len(found) == len(factors) else inf
        for place in found:
            share = max(
                self._located,
                0.0
                if self._pure
                else (_EXTRINSIC * self.scale / self.statistic.n) ** 2,
            )
            mean, moved = measured.embedded(place)
            noisy, noise = stages.ask(
                "extrinsic", min(_MOST / len(found), share), moved, mean
            )
            factor = factors[place]
            assert isinstance(factor, EmbeddedMean)  # `found` has no others
            parts[place] = np.asarray(factor.from_embedding(noisy))
            off = off + noise * sqrt(factor.dim)
        return usable(self.manifold, partial(self.manifold.join, parts), c), off

    def _step(
        self, measured: Measured, stages: Stages, c: np.ndarray, r: float
    ) -> tuple[np.ndarray, float]:
        """(one noisy clipped gradient step from c, the gradient's length)."""
        mean, moved = measured.clipped(c, r)
        unit = 2.0 ** ceil(
            log2(r)
        )  # a public power of two, so that the grid is fine whatever the records' unit
        noisy, noise = stages.ask("location", self._located, moved / unit, mean / unit)
        v = shrunk(unit * noisy, unit * noise)
        length = float(np.linalg.norm(v))
        if self._bent:  # over H along the step: 1 where the records lie in its direction, about r where all around
            bend, moved = measured.bend(c, r, v)
            told, _ = stages.ask("bend", self._shares.bend, moved, bend)
            v = v / (
                1 + float(np.clip(told[0] - told[1], 0.0, moved * self.statistic.n))
            )
        v = v * min(1.0, r / max(float(np.linalg.norm(v)), r))
        return usable(
            self.manifold, lambda: self.manifold.from_normal_coordinates(c, v), c
        ), length

    # ---- what "auto" and `plan` want to know ----

    def simulate(
        self, rng: np.random.Generator, records: np.ndarray, size: int
    ) -> np.ndarray:
        """Float releases of a mean for records that stand for n of their kind: for predicted error, NOT for release."""
        records = np.asarray(records)
        ends = (self.simulated_end(rng, records)[1] for _ in range(size))
        return np.stack([simulated_mean(final, rng, records) for final in ends])

    def predicted_error(self) -> float:
        """Predict the error for records as spread out as `plan` takes them by default."""
        return self.rehearse(self.statistic.typical_spread).error

    def rehearse(self, spread: float) -> Rehearsal:
        """Simulate releases of public records of this spread; NOT for release.

        Parameters
        ----------
        spread : float
            The root mean square distance of the records to their mean.
        """
        statistic = self.statistic
        rng = np.random.default_rng(20230615)
        about = population_of_spread(
            self.manifold, statistic.center, spread, statistic.n
        )
        runs = max(_FEWEST_RUNS, min(_MOST_RUNS, 1024 // self.manifold.dim))
        errors, radii = [], []
        for _ in range(runs):
            ball, final = self.simulated_end(rng, about.records)
            errors.append(statistic.missed(final, rng, *about))
            radii.append(ball.radius)
        return Rehearsal(
            float(sqrt(np.mean(np.square(errors)))), float(np.median(radii))
        )

    def simulated_end(
        self, rng: np.random.Generator, records: np.ndarray
    ) -> tuple[Ball, Any]:
        """(A ball that such records lead to, the last mechanism in it); NOT for release."""
        found = Measured(
            self.statistic, open_records(records, self.manifold.point_shape, least=1)
        )
        ball, stages = self.walk(found, self.simulated_noise(rng))
        return ball, self.last_in(ball, stages)


def class_mean(
    everyone: OuterBallMean,
    size: int,
    least: int,
    guarantee: Guarantee,
    ball: str = "auto",
) -> OuterBallMean:
    """The mean of one class, of `size` records, where the smallest has `least`: in a ball of its own where all are large
    enough for that, else in one that all share."""
    alone = PrivateBallMechanism.for_statistic(
        replace(everyone, n=least), guarantee
    ).enough
    if ball == "each" or (ball == "auto" and alone):
        return replace(everyone, n=size)
    return OuterBallClassMean(
        everyone.manifold, everyone.center, everyone.outer_radius, everyone.n, size
    )
