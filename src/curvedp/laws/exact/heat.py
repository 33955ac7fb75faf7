"""The heat kernel on spheres and hyperbolic spaces, drawn exactly without being computed (proof: docs/laws.md).

Against the distance R of flat Brownian motion, that of Brownian motion on curvature κ = ±1 has the density

    A·(sn R_t/R_t)^{(d−1)/2}·exp(−c∫₀ᵗ g(R_s) ds),   c = (d−1)(d−3)/8,   g = 1/sn² − 1/R²,   log A = κ(d−1)²t/8.

So R_t is drawn from (r·sn r)^{(d−1)/2}·e^{−r²/2t}, which is log-concave, and kept if the flat bridge to it survives being
killed at the rate c·g less its minimum. A longer time is cut into 4^j equal ones, whose scales are floats too.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from flint import arb

from curvedp.entropy.balls import arb_array, decide
from curvedp.entropy.bits import LazyNormals, LazyUniforms
from curvedp.entropy.csprng import Source
from curvedp.errors import ParameterError
from curvedp.laws.exact.radial import LazyRadius, RadialBall, draw_radius
from curvedp.laws.radial import Rays

_MOST_HOPS = 1024
_REST = 80.0  # −log of a sphere's total variation for each hop, over 6

Points = list[tuple[LazyUniforms, LazyNormals]]


@dataclass(frozen=True)
class HeatHop:
    """Brownian motion over one of `count` equal times scale²."""

    rays: Rays
    scale: float
    count: int

    @property
    def tau(self) -> float:
        """Total variation of all hops together, for the potential held beyond R = 2."""
        return 6 * self.count * math.exp(-_REST) if self._sign > 0 else 0.0

    @property
    def _sign(self) -> int:
        return 1 if self.rays.end < math.inf else -1

    @property
    def _weight(self) -> float:
        """c."""
        return (self.rays.dim - 1) * (self.rays.dim - 3) / 8

    @property
    def feasible(self) -> bool:
        """Whether at most one point is expected below the rate, and on a sphere 4/t is large enough."""
        d, t = self.rays.dim, self.scale**2
        if abs(self._weight) * t / 3 > (
            1 if self._sign < 0 else 0.5
        ):  # g spans 1/3, or less than 2/3
            return False
        x = _REST + (d - 1) ** 2 * t / 8 + t / 8
        return self._sign < 0 or t * (d + 2 * math.sqrt(d * x) + 2 * x) <= 4

    @property
    def _radius(self) -> RadialBall:
        half = (self.rays.dim - 1) / 2
        return RadialBall(
            "gaussian",
            Rays(((0.0, half), (float(self._sign), half)), self.rays.end),
            self.scale,
        )

    def _g(self, r: arb) -> arb:
        r = r if self._sign < 0 else r.min(arb(2))
        sn = r.sinh() if self._sign < 0 else r.sin()
        return 1 / (sn * sn) - 1 / (r * r)

    def _rates(self, r: arb) -> tuple[arb, arb]:
        """(of killing at the distance r, the largest): c·g less its minimum."""
        ends = (
            (arb(-1) / 3, arb(0)) if self._sign < 0 else (arb(1) / 3, self._g(arb(2)))
        )
        least = ends[0] if self._weight > 0 else ends[1]
        return self._weight * (self._g(r) - least), abs(self._weight) * (
            ends[1] - ends[0]
        )

    def draw(self, source: Source) -> LazyRadius:
        """How far one hop goes."""
        while True:
            radius, points = draw_radius(self._radius, source), Points()
            fate: str = "on" if self._weight else "kept"
            while fate == "on":
                points.append(
                    (LazyUniforms(source, 2), LazyNormals(source, self.rays.dim))
                )
                fate = decide(lambda bits, r=radius, p=points: self._fate(r, p, bits))  # type: ignore[misc]  # mypy infers no lambda with a default
            if fate == "kept":
                return radius

    def _fate(
        self, radius: LazyRadius, points: Points, bits: int
    ) -> Literal["on", "kept", "killed"] | None:
        """What the last of the points so far says; time and place in units of t and √t."""
        end = radius.ball(bits) / self.scale
        place, left = arb_array([0.0] * self.rays.dim), arb(1)
        place[0], most = end, self._rates(end)[1]
        pace = most * arb(self.scale) ** 2
        for uniforms, normals in points:
            wait, mark = uniforms.balls(bits, (0, 1))
            now = left + wait.log() / pace
            if not now > 0:
                return "kept" if now < 0 else None
            share = now / left
            place = place * share + normals.balls(bits) * (share * (left - now)).sqrt()
            left = now
        room = mark * most - self._rates(place.dot(place).sqrt() * self.scale)[0]
        return "on" if room > 0 else "killed" if room < 0 else None


@lru_cache(maxsize=256)
def heat_hop(rays: Rays, scale: float) -> HeatHop:
    """The longest time in whose multiples this one is drawn; `ParameterError` if that takes more than 1024 hops."""
    count = 1
    while not HeatHop(rays, scale, count).feasible:
        scale, count = scale / 2, 4 * count
        if count > _MOST_HOPS:
            raise ParameterError(
                f"this scale takes over {_MOST_HOPS} hops in dimension {rays.dim}; use a smaller one"
            )
    return HeatHop(rays, scale, count)
