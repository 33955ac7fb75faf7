"""Private geodesic regression by descent on the tangent bundle, for any symmetric space and any number of predictors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, nextafter, sqrt, tanh
from typing import Any, ClassVar, Self

import numpy as np

from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.base import Draw, Reading, check_guarantee, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import grid_of
from curvedp.mechanisms.noise import VectorMechanism, bounded, bounded_epsilon
from curvedp.mechanisms.regression import Data, LineMechanism, Pair, into_domain
from curvedp.mechanisms.statistic import Count, Statistic
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy import Guarantee, PureDP, gaussian_profile, smallest_scale
from curvedp.regression.bounds import DEVIATION, HALF, Domain, spread
from curvedp.regression.gradient import (
    clipped_direction,
    contributions,
    mean_over_persons,
)
from curvedp.regression.linearity import LENGTHENED, Neighborhood

_LEAST = 0.5  # of an eigenvalue of mean aaᵀ, in the last step: it is 1 where predictors are spread evenly


@dataclass(frozen=True, eq=False, kw_only=True)
class BundleDescentMechanism(VectorMechanism, LineMechanism):
    """DP-RGD on the tangent bundle, then one Newton step of a release that is worth as much as all before it.

    T exact noisy releases of `clipped_direction`, the last 2T/3 iterates averaged; at their average the `Neighborhood` is
    released: the direction once more, and how it changes, from which a region follows. Gaussian noise, or Laplace noise for
    pure ε, whose ε add up.
    """

    steps: Count

    name: ClassVar[str] = "tangent-bundle-descent"
    option: ClassVar[str | None] = "dp-rgd"

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        domain, sensitivity = statistic.domain, statistic.sensitivity  # type: ignore[attr-defined]  # a `GeodesicLine`
        k, rate = domain.predictors, _rate(statistic.space, domain)
        warm = min(
            ceil(1.5 * (domain.radius + k * domain.speed * HALF) / (rate * domain.clip))
            + 6 * k,
            1000,
        )
        if bounded(check_guarantee(guarantee)):
            # The ε of T Laplace steps add up: averaging more of them would cost more than it gives.
            scale = round_up(2 * warm * sensitivity / bounded_epsilon(guarantee), 1e-15)
            return cls(statistic=statistic, scale=scale, steps=warm, law="laplace")
        moved = (
            sqrt(6 * warm) * sensitivity
        )  # T steps are one of √T times the sensitivity (Dong, Roth & Su 2022)
        sigma = smallest_scale(
            lambda s: gaussian_profile(0.0, 1, s, moved), guarantee, moved
        )
        return cls(
            statistic=statistic,
            scale=nextafter(sigma * (1 + 1e-14), inf),
            steps=3 * warm,
            law="gaussian",
        )

    @cached_property
    def last(self) -> float:
        """The noise of the last release, whose sensitivity is √(1 + ¾η²) times that of a step: worth as much as all steps."""
        share = self.steps if self.law == "laplace" else sqrt(self.steps)
        return float(round_up(LENGTHENED * self.scale / share, 1e-15))

    @cached_property
    def profile(self) -> Guarantee:
        """All steps together, and the last release, which doubles ε, or μ²."""
        if self.law == "laplace":
            return PureDP(
                round_up(2 * self.steps * self.sensitivity / self.scale, 1e-15)
            )
        return gaussian_profile(
            0.0, 1, self.scale, sqrt(2 * self.steps) * self.sensitivity
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "scale": self.scale,
            "steps": self.steps,
            "law": self.law,
            "norm": "euclidean",
            "unit": DEVIATION,
        }

    def predicted_error(self) -> float:
        """Of two estimates, weighted by their precision."""
        return 1 / sqrt(sum(1 / each for each in self._variances))

    @property
    def _variances(self) -> tuple[float, float]:
        """Of the average and of the last step: a coordinate of Laplace noise in D dimensions has (D + 1)s²."""
        size, more = self.near.size, self.near.released
        each = (size + 1, more + 1) if self.law == "laplace" else (1, 1)
        return size * each[0] * self.scale**2 / (self.steps * 2 / 3), size * each[
            1
        ] * self.last**2

    near = property(
        lambda self: Neighborhood(self.manifold, self.domain, self.last)
    )  # of the last release

    def draw(self, data: Data, source: Source) -> Draw:
        draws, exact = self.exact_noise(source)

        def noisy(value: np.ndarray, scale: float) -> np.ndarray:
            return np.asarray(exact(value.reshape(1, -1), np.array([scale]))[0])

        pair = self._descend(
            lambda p, V: noisy(self._direction(data, p, V), self.scale)
        )
        return Draw.of(
            self._improved(pair, noisy(self.last_value(data, *pair), self.last)), draws
        )

    def _direction(self, data: Data, p: np.ndarray, V: np.ndarray) -> np.ndarray:
        x, Y, codes = data
        return clipped_direction(
            self.manifold, x / DEVIATION, DEVIATION, Y, self.domain.clip, p, V, codes
        )

    def last_value(self, data: Data, p: np.ndarray, V: np.ndarray) -> np.ndarray:
        """What is released at the end, before its noise. NOT private."""
        t, near = data[0] / DEVIATION, self.near
        rows = near.rows(t, contributions(self.manifold, t, DEVIATION, data[1], p, V))
        return np.concatenate(
            [
                self._direction(data, p, V).ravel(),
                mean_over_persons(rows, near.longest, data[2]),
            ]
        )

    def value_of(self, certificate: Certificate) -> Pair:
        """The same descent along the released directions, and the same last step."""
        return self.finish(
            self._improved(*self._replayed(certificate.release["integers"]))
        )

    def reading(self, integers: Any) -> Reading:
        """The last release, whose noise is fresh given the pair at which it was made."""
        (p, V), last = self._replayed(integers)
        law, cell = self.law_of(last.size, self.last), 2.0 ** -grid_of(self.last)
        return Reading("line", law, last, np.stack([p, *V]), cell=cell)

    def _replayed(self, integers: Any) -> tuple[Pair, np.ndarray]:
        """(the pair that the steps lead to, what was released there)."""
        next_draw = replay(integers)
        if len(integers) != self.steps + 1:
            raise ParameterError("the released integers are not those of so many steps")
        pair = self._descend(
            lambda p, V: next_draw(np.empty(self.near.size), [self.scale])
        )
        return pair, next_draw(np.empty(self.near.released), [self.last])

    def _improved(self, pair: Pair, last: np.ndarray) -> Pair:
        """A Newton step, shortened by how well the pair is known without it, and where noise hides mean aaᵀ."""
        direction, normal, _ = self.near.parts(last)
        values, vectors = np.linalg.eigh(normal)
        hidden = (
            3
            * self.last
            * self.near.units[0]
            * sqrt(self.near.released if self.law == "laplace" else 1)
        )
        one, other = self._variances
        z = (
            one
            / (one + other)
            * (vectors / np.maximum(values, max(_LEAST, hidden)))
            @ vectors.T
            @ direction
        )
        return self._taken(*pair, z[0], z[1:] / DEVIATION)

    def _descend(self, noisy: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Pair:
        """In (p, v·unit), the unit a spread-out predictor's standard deviation, the energy's curvature is about the same in
        all coordinates, so noise of one size serves them all; v steps half as far, lest the two overshoot together, and
        several predictors share that."""
        M, domain, rate = self.manifold, self.domain, _rate(self.manifold, self.domain)
        p, V, path = (
            self.statistic.ball.center,
            np.zeros((domain.predictors, *M.point_shape)),
            [],
        )
        for step in range(self.steps):
            move = noisy(p, V).reshape(1 + domain.predictors, M.dim)
            p, V = self._taken(
                p,
                V,
                rate * move[0],
                rate / (2 * domain.predictors) * move[1:] / DEVIATION,
            )
            if step >= self.steps // 3:
                path.append((p, V))
        points, velocities = (np.stack(part) for part in zip(*path, strict=True))
        middle = np.asarray(M.exp(p, np.mean(np.asarray(M.log(p, points)), axis=0)))
        carried = np.asarray(M.transport(points[:, None], middle, velocities))
        return into_domain(
            M, self.statistic.ball, domain, middle, np.mean(carried, axis=0)
        )

    def _taken(
        self, p: np.ndarray, V: np.ndarray, foot: np.ndarray, shoot: np.ndarray
    ) -> Pair:
        """The pair after a step; a step that leaves the doubles is not taken."""
        M, moved = (
            self.manifold,
            V + np.asarray(self.manifold.from_coordinates(p, shoot)),
        )
        length = float(
            np.linalg.norm(foot)
        )  # no point of the domain is farther than 2R, and exp may overflow
        move = foot * min(1.0, 2 * self.domain.radius / length if length > 0 else 1.0)
        with np.errstate(
            all="ignore"
        ):  # released numbers only, but a warning helps nobody
            try:
                q = np.asarray(M.exp(p, M.from_coordinates(p, move)))
                found = into_domain(
                    M,
                    self.statistic.ball,
                    self.domain,
                    q,
                    np.asarray(M.transport(p, q, moved)),
                )
            except (
                np.linalg.LinAlgError
            ):  # of released numbers; some decompositions raise where others give NaN
                return p, V
        return found if all(np.all(np.isfinite(part)) for part in found) else (p, V)


def _rate(manifold: Manifold, domain: Domain) -> float:
    """One over a bound of the curvature of E: 1 where curvature is ≥ 0."""
    c, _ = spread(manifold, domain.predictors * domain.speed * HALF)
    s = sqrt(max(0.0, -manifold.curvature_bounds[0])) * domain.clip
    return 1 / (c * c * (s / tanh(s) if s > 1e-6 else 1.0))
