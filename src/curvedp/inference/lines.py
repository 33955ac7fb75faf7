"""Where the geodesic through the records is, from the last release of a private descent (proofs: docs/inference.md).

That release is the mean clipped direction g at a pair (p, V), Ñ = mean aaᵀ and the mean remainder ẽ, with noise
(`Neighborhood`). The pair where the direction vanishes is within r = (q + χ|ẑ|)/(λ − χ) of ẑ = Ñ⁻¹g, λ the least eigenvalue
of Ñ, χ = ẽ and what noise may hide of e and N. That of the population is farther by |G|/(λ − χ) at most, for n large.
"""

from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import roots_jacobi

from curvedp import _validate
from curvedp.core.capabilities import NoisyDraw
from curvedp.errors import ParameterError
from curvedp.inference.shapes import Region, quantiles
from curvedp.regression.bounds import DEVIATION, HALF
from curvedp.regression.linearity import (
    Neighborhood,
    prediction_stretch,
    transport_factor,
)
from curvedp.statistics.geodesic import GeodesicLine

_HIDDEN = (
    0.1  # of 1 − level, twice: for the noise in mean aaᵀ, and in the mean remainder
)
_ABOUT = "the geodesic on which the mean clipped direction of the {} vanishes: least squares where none is clipped"
_ASYMPTOTIC = (
    "asymptotic (delta method, directions being at most the clip); of the noise: "
)


@dataclass(frozen=True, eq=False, kw_only=True)
class LineRegion(Region):
    """Where the geodesic through the records is: a `Region` of its foot point, with its velocity and a band about it.

    Attributes
    ----------
    velocity : ndarray
        In the middle of the region, at `center`, as `PrivateGeodesicRegression.velocity_` is.
    velocity_radius : float
        How far the velocity is from it, at most, carried there; for all predictors together.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import PrivateGeodesicRegression
    >>> from curvedp.geometry import Euclidean
    >>> x = np.linspace(0, 1, 500)
    >>> line = PrivateGeodesicRegression(Euclidean(3), radius=1.0, speed=2.0, clip=0.5, x_range=(0, 1))
    >>> line = line.fit(x, np.outer(x, np.ones(3)))
    >>> region = line.confidence_region()
    >>> len(region.band([0.2, 0.8]))
    2
    """

    velocity: np.ndarray
    velocity_radius: float
    band_of: "_Band"

    def band(self, x: Any) -> list[Region]:
        """The regions of the predictions at x, which hold all at once, and with foot point and velocity.

        Parameters
        ----------
        x : array of shape (m,) or (m, k)
            Predictors in their own units; outside their range the band widens.
        """
        low, high = self.band_of.line.x_range.T
        x = np.asarray(_validate.array("x", x), dtype=float)
        if x.ndim > 2 or (x.shape[-1:] != low.shape and len(low) > 1):
            raise ParameterError(
                f"x has shape {x.shape}; the model has {len(low)} predictor(s)"
            )
        with np.errstate(
            all="ignore"
        ):  # what is not finite has a region that holds nothing
            found = [
                self.band_of.at(each)
                for each in (x.reshape(-1, len(low)) - low) / (high - low) - HALF
            ]
        about = f"a prediction of {self.about}"
        return [
            Region(self.manifold, *each, self.level, self.of, about, self.theorem)
            for each in found
        ]


class _Band(NamedTuple):
    """Pairs within `spread` of one, in (p, unit·v), all within `reach` of where they were released."""

    line: GeodesicLine
    pair: tuple[np.ndarray, np.ndarray]
    spread: float
    reach: float

    def at(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """(middle, radius) at centered predictors; without a spread, of all geodesics of the public domain."""
        M, (p, V), d = self.line.manifold, self.pair, self.line.domain
        move, t = np.tensordot(x, V, axes=1), float(np.linalg.norm(x)) / DEVIATION
        point = np.asarray(M.exp(p, move))
        if not isfinite(self.spread):
            return point, d.radius + float(np.sum(np.abs(x))) * d.speed
        return point, prediction_stretch(
            M, float(M.norm(p, move)), t, self.reach
        ) * sqrt(1 + t * t) * self.spread


def line_region(
    statistic: GeodesicLine,
    reading: NoisyDraw,
    level: float,
    sampled: float | None = None,
) -> LineRegion:
    """The region of the geodesic through the records; the public domain where noise leaves no other. Of the population's,
    where `sampled` bounds the records' mean direction there: half of 1 − level is the noise's."""
    M, k, of = (
        statistic.manifold,
        len(statistic.x_range),
        "records" if sampled is None else "population",
    )
    near = Neighborhood(M, statistic.domain, reading.law.scale)
    band = _band(
        statistic,
        near,
        reading,
        (1 - level) / (1 if sampled is None else 2),
        sampled or 0.0,
    )
    (p, V), sure = band.pair, isfinite(band.spread)
    center, radius = band.at(np.full(k, -HALF if k == 1 else 0.0))
    velocity = np.asarray(M.transport(p, center, V[0] if k == 1 else V))
    wide = (
        transport_factor(M, float(np.linalg.norm(M.norm(p, V))), band.reach)
        * band.spread
        / DEVIATION
    )
    theorem = (
        "conservative: directions change nearly linearly (Jacobi fields)"
        if sure
        else "the public domain itself"
    )
    wide, theorem = (
        wide if sure else sqrt(k) * statistic.domain.speed,
        _ASYMPTOTIC * (sampled is not None) + theorem,
    )
    speeds: dict[str, Any] = {
        "velocity": velocity,
        "velocity_radius": wide,
        "band_of": band,
    }
    return LineRegion(
        M, center, radius, level, of, _ABOUT.format(of), theorem, **speeds
    )


def _band(
    statistic: GeodesicLine,
    near: Neighborhood,
    reading: NoisyDraw,
    miss: float,
    sampled: float,
) -> _Band:
    M = statistic.manifold
    assert reading.base is not None  # of lines
    p, V = reading.base[0], reading.base[1:]
    z, spread, slope = _solved(near, reading, miss)
    if not float(np.linalg.norm(z)) + spread <= near.reach:
        return _Band(
            statistic,
            statistic.pair_to_data_frame(statistic.ball.center, np.zeros_like(V)),
            inf,
            near.reach,
        )
    q = np.asarray(M.exp(p, M.from_coordinates(p, z[0])))
    moved = np.asarray(
        M.transport(p, q, V + np.asarray(M.from_coordinates(p, z[1:] / DEVIATION)))
    )
    further = sampled / slope
    return _Band(
        statistic,
        statistic.pair_to_data_frame(q, moved),
        spread + further,
        near.reach + further,
    )


def _solved(
    near: Neighborhood, reading: NoisyDraw, miss: float
) -> tuple[np.ndarray, float, float]:
    """(ẑ, r, λ − χ); r is inf where λ <= χ."""
    direction, normal, rest = near.unpack(reading.value)
    parts = (near.direction_size, near.release_size - near.direction_size - 1, 1)
    shares = (miss * (1 - 2 * _HIDDEN), miss * _HIDDEN, miss * _HIDDEN)
    readings = [
        reading._replace(
            law=_Part(reading.law, reading.value.size, size), value=np.empty(size)
        )
        for size in parts
    ]
    q, of_normal, of_rest = (
        quantiles(r, [1 - share])[0] for r, share in zip(readings, shares, strict=True)
    )
    chi = max(rest, 0.0) + near.units[0] * of_normal + near.units[1] * of_rest
    least = float(np.linalg.eigvalsh(normal)[0])
    if not least > chi:
        return np.zeros_like(direction), inf, 0.0
    z = np.linalg.solve(normal, direction)
    return z, (q + chi * float(np.linalg.norm(z))) / (least - chi), least - chi


class _Part:
    """The length of m of the coordinates of a vector whose law is the same in all directions: √B times its own length, B
    independent of it, from Beta(m/2, (D − m)/2)."""

    def __init__(self, law: Any, whole: int, part: int) -> None:
        self.law, self.scale = law, law.scale
        nodes, weights = roots_jacobi(40, (whole - part) / 2 - 1, part / 2 - 1)
        self.roots, self.weights = np.sqrt((1 + nodes) / 2), weights / np.sum(weights)

    def radial_cdf(self, radius: Any) -> np.ndarray:
        """P(length <= radius)."""
        return np.asarray(
            self.law.radial_cdf(np.asarray(radius)[..., None] / self.roots)
            @ self.weights
        )
