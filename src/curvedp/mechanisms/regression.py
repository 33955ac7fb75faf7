"""Private geodesic regression: two mechanisms for one statistic, both of which read the records.

Both releases act on the middle of the geodesic, (p, v) = (γ(½), γ'(½)): predictors in [0, 1] are centered at ½, which makes
p and v nearly independent and halves the lever of v. Moving the released pair to γ(0) is post-processing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import Euclidean, Lorentz, Sphere, project_to_ball
from curvedp.geometry.ball import carry_records
from curvedp.geometry.capabilities import canonical_center, move_from_origin
from curvedp.geometry.manifold import Manifold
from curvedp.laws.cells import LocalConstants
from curvedp.laws.domains import TangentBundleBall
from curvedp.mechanisms.base import Draw, Mechanism, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import grid_of
from curvedp.mechanisms.kng import KNormMechanism, check_width, kng_draw
from curvedp.mechanisms.statistic import Ball, Count, Length, Statistic, assign
from curvedp.records.tables import entries
from curvedp.regression import bounds
from curvedp.regression.bounds import DEVIATION, HALF, Domain
from curvedp.regression.gradient import clipped_gradient, prediction_distances
from curvedp.regression.jacobi import check_symmetric

_MARGIN = 0.95  # of the injectivity radius: predictions and records stay clear of each other's cut locus
_WIDE = 1.5  # radii of curvature: beyond, volume grows exponentially
_MOST_BUNDLE_DIMENSIONS = 4
_FARTHEST = (
    100.0  # radii of curvature: distances grow like logarithms of coordinates there
)
_WIDEST_BUNDLE = 5.0  # radii of curvature: beyond, the cells of a draw are too many, and most of the volume is far away

Pair = tuple[np.ndarray, np.ndarray]  # (foot point, velocities)
Data = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # (predictors, responses, whose record each is)


def public_domain(
    manifold: Manifold,
    radius: float,
    speed: float,
    clip: float,
    n: int,
    predictors: int = 1,
) -> Domain:
    """Where the middle of the geodesic may be, and the ball that holds the responses, all inside the cut locus.

    With one predictor the middle is allowed within radius + speed/2, where the space has room for it, so that every
    geodesic that starts in the ball is in the domain as well as every one whose middle is. Sensitivities do not depend on
    the radius; in negative curvature volume does, so the ball grows only while it is small against the curvature.
    """
    check_symmetric(manifold)
    arm = predictors * speed * HALF  # from the middle to the farthest prediction
    room = _MARGIN * manifold.injectivity_radius - arm
    if not room >= 2 * radius:
        arms = "speed/2" if predictors == 1 else f"{predictors}·speed/2"
        raise ParameterError(
            f"and speed {speed!r} are too large on {manifold!r}: 2·radius + {arms} "
            f"must be at most {_MARGIN * manifold.injectivity_radius:.6g}, or "
            "residuals would cross the cut locus",
            parameter="radius",
            value=radius,
        )
    low = manifold.curvature_bounds[0]
    if not sqrt(max(0.0, -low)) * (radius + arm + clip) <= _FARTHEST:
        raise ParameterError(
            f", speed {speed!r} and clip {clip!r} reach too far on {manifold!r}: "
            f"their sum must be at most {_FARTHEST / sqrt(-low):g}",
            parameter="radius",
            value=radius,
        )
    wide = _WIDE / sqrt(-low) if low < 0 else inf
    middle = (
        min(max(radius, min(radius + arm, wide)), room / 2)
        if predictors == 1
        else radius
    )
    return Domain(
        middle, speed, clip, n, min(middle + arm + clip, room - middle), predictors
    )


@dataclass(frozen=True, eq=False)
class GeodesicLine(Statistic):
    """The geodesic x ↦ Exp(p, x·v) that fits n responses, in public terms."""

    manifold: Manifold
    center: Any  # of the ball that holds the middle of the geodesic
    radius: float
    speed: Length  # bounds its length over the range of a predictor
    clip: Length  # bounds what one residual counts for
    n: Count
    x_range: Any  # of each predictor, in pairs

    name: ClassVar[str] = "geodesic regression"
    unit: ClassVar[str] = "one record, predictor and response, replaced by any other"
    valued: ClassVar[bool] = False

    @property
    def public_n(self) -> int:
        return self.n

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = _validate.array("x_range", self.x_range)
        if ends.ndim != 2 or ends.shape[1] != 2 or not len(ends):
            raise ParameterError(
                "x_range must be pairs of numbers (low, high), one for each predictor"
            )
        low, high = ends.T
        if not (
            np.all(np.isfinite(ends))
            and np.all(low < high)
            and np.all(np.isfinite(high - low))
        ):
            raise ParameterError(
                "must be finite with low < high",
                parameter="x_range",
                value=ends.tolist(),
            )
        assign(self, x_range=ends, n=_validate.integer("n", self.n, 1 + len(ends)))
        _ = self.domain  # refuses what reaches beyond the cut locus

    # of the middle of the geodesic, at home
    ball = cached_property(
        lambda self: Ball(
            np.asarray(canonical_center(self.manifold, self.center)), self.radius
        )
    )
    landing = property(lambda self: Ball(self.center, self.radius))

    @cached_property
    def domain(self) -> Domain:
        """All public numbers of the regression."""
        return public_domain(
            self.manifold, self.radius, self.speed, self.clip, self.n, len(self.x_range)
        )

    # of the mean clipped direction
    sensitivity = property(
        lambda self: rounded(bounds.joint_sensitivity(self.domain), self.n)
    )

    def accepted(self, data: Any) -> Data:
        """Predictors (n, k) centered in [-½, ½] and responses in their ball, at home, and whose record each is, from 0 on
        (each its own unless told); only shapes and types are refused."""
        x, Y = (
            entries("x", data[0], (len(self.x_range),)),
            entries("Y", data[1], self.manifold.point_shape),
        )
        x = x.reshape(len(x), -1) if x.ndim == 1 else x
        codes = np.asarray(data[2]) if len(data) > 2 else np.arange(len(x))
        shapes = (
            (len(codes), len(self.x_range)),
            (len(codes), *self.manifold.point_shape),
        )
        if (x.shape, Y.shape) != shapes or len(np.unique(codes)) != self.n:
            raise ParameterError(
                f"x has shape {x.shape} and Y {Y.shape}; the statistic is of {self.n} records"
            )
        low, high = self.x_range.T
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            x = np.where(np.isfinite(x), (x - low) / (high - low), HALF)
            x = np.clip(x, 0.0, 1.0) - HALF
        carried = carry_records(self.manifold, self.center, Y)
        Y = np.asarray(
            project_to_ball(
                self.manifold, self.ball.center, self.domain.data_radius, carried
            )
        )
        return x, Y, codes

    def placed_pair(self, p: np.ndarray, V: np.ndarray) -> Pair:
        """A pair at home in the frame of the records: an isometry carries geodesics to geodesics."""
        M = self.manifold
        if np.array_equal(self.ball.center, self.center):
            return p, V
        foot = np.asarray(move_from_origin(M, self.center, p))
        return foot, np.asarray(
            M.log(foot, move_from_origin(M, self.center, np.asarray(M.exp(p, V))))
        )


class LineMechanism(Mechanism):
    """What both have in common: the records they take and the pair they give."""

    reads: ClassVar[Literal["value", "records"]] = "records"
    of: ClassVar[Any] = GeodesicLine

    domain = property(
        lambda self: self.statistic.domain
    )  # all public numbers of the regression

    def finish(self, value: Pair) -> Pair:
        """The pair put back into the public domain, in the frame of the records."""
        line: GeodesicLine = self.statistic
        return line.placed_pair(
            *into_domain(self.manifold, line.ball, self.domain, *value)
        )

    afterwards = ("projection onto the public domain",)


@dataclass(frozen=True, eq=False, init=False)
class KNGRegressionMechanism(KNormMechanism, LineMechanism):
    """One exact draw of exp(−‖∇E(p, v; D)‖/s) on a ball of the tangent bundle: pure ε, one predictor, dimension 1 or 2."""

    name: ClassVar[str] = "k-norm-gradient-regression"
    option: ClassVar[str | None] = "kng"

    def __post_init__(self) -> None:
        super().__post_init__()
        manifold, domain, low = (
            self.manifold,
            self.domain,
            self.manifold.curvature_bounds[0],
        )
        if domain.predictors > 1:
            one = f"one predictor, not {domain.predictors}"
            raise UnattainableGuarantee(
                f"exact K-norm sampling takes {one}; use the method dp-rgd"
            )
        if 2 * manifold.dim > _MOST_BUNDLE_DIMENSIONS:
            raise UnattainableGuarantee(
                f"exact K-norm sampling on the tangent bundle of {manifold!r} needs dimension {2 * manifold.dim}, at most "
                f"{_MOST_BUNDLE_DIMENSIONS} is possible; use the method dp-rgd"
            )
        if (
            sqrt(max(0.0, -low)) * (domain.radius + domain.speed * HALF)
            > _WIDEST_BUNDLE
        ):
            raise UnattainableGuarantee(
                f"radius {domain.radius:g} and speed {domain.speed:g} are too large "
                "for exact K-norm sampling in curvature "
                f"{low:g}, where volume grows exponentially: radius + speed/2 must be at most "
                f"{_WIDEST_BUNDLE / sqrt(-low):g}; use a smaller domain, or the "
                "method dp-rgd"
            )
        bundle = TangentBundleBall(
            manifold, self.statistic.ball.center, domain.radius, domain.speed
        )
        check_width(bundle, self.scale)

    @cached_property
    def sensitivity(self) -> float:
        """Of the gradient in the norm of the endpoints."""
        return rounded(
            bounds.endpoint_sensitivity(self.manifold, self.domain), self.domain.n
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {**super().parameters, "norm": "endpoint", "unit": DEVIATION}

    def predicted_error(self) -> float:
        """Root mean square noise on (∇_p, ∇_v/unit): E r² = D(D+1)s² in D dimensions."""
        size = 2 * self.manifold.dim
        return sqrt(size * (size + 1)) * float(self.scale)

    def accepted(self, data: Any) -> Any:
        """One record a person only: its norm bounds records, not their means."""
        if len(data) > 2 and len(np.unique(data[2])) != len(data[0]):
            raise ParameterError(
                "exact K-norm sampling takes one record a person; use the method dp-rgd"
            )
        return super().accepted(data)

    def draw(self, data: Data, source: Source) -> Draw:
        (bundle, scale, norm, constants, _) = self.problem(*data[:2])
        pair, integers = kng_draw(bundle, scale, norm, constants, source)
        return Draw(self._from_model(*pair), [integers], None)

    def problem(self, x: np.ndarray, Y: np.ndarray) -> "KNormProblem":
        """What the draw is made of, in the model of the same curvature: a ball of a space of constant curvature κ is, with
        lengths times √|κ|, a ball of the unit sphere, the hyperboloid or ℝ^d about its origin, and gradients scale like
        lengths."""
        M, c, (model, unit) = self.manifold, self.statistic.ball.center, self._model
        o = model.origin
        mapped = model.exp(
            o,
            model.from_coordinates(
                o, unit * np.asarray(M.to_coordinates(c, M.log(c, Y)))
            ),
        )
        d, x = self.domain, x[:, 0]
        scaled = Domain(
            d.radius * unit, d.speed * unit, d.clip * unit, d.n, d.data_radius * unit
        )
        clips = bounds.endpoint_clips(scaled.clip, x)
        gradient = clipped_gradient(
            model, x, np.asarray(mapped), clips, scaled.data_radius
        )

        def norm(p: np.ndarray, v: np.ndarray) -> np.ndarray:
            return bounds.endpoint_norm(*gradient(p, v))

        slopes = bounds.gradient_slopes(
            model, scaled, x, np.asarray(model.dist(o, mapped))
        )

        def constants(
            p: np.ndarray, v: np.ndarray, moved: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            return slopes.near(
                prediction_distances(model, x, np.asarray(mapped), p, v), moved
            )

        bundle = TangentBundleBall(model, o, scaled.radius, scaled.speed)
        return KNormProblem(bundle, self.scale * unit, norm, constants, unit)

    @property
    def grid(self) -> int:
        return grid_of(self.scale * self._model[1])

    def value_of(self, certificate: Certificate) -> Pair:
        (model, unit), d = self._model, self.domain
        bundle = TangentBundleBall(model, model.origin, d.radius * unit, d.speed * unit)
        drawn = replay(certificate.release["integers"])(
            np.empty((1, 2, self.manifold.dim)), [self.scale * unit]
        )
        return self.finish(
            self._from_model(*(np.asarray(part[0]) for part in bundle.points(drawn)))
        )

    @property
    def _model(self) -> tuple[Manifold, float]:
        """The space of curvature −1, 0 or 1 that this one is, in the unit √|κ|; and the unit."""
        curvature = self.manifold.constant_curvature
        assert curvature is not None  # or `__post_init__` refuses it
        kind = Sphere if curvature > 0 else Lorentz if curvature < 0 else Euclidean
        return kind(self.manifold.dim), sqrt(abs(curvature)) if curvature else 1.0

    def _from_model(self, p: np.ndarray, v: np.ndarray) -> Pair:
        M, c, (model, unit) = self.manifold, self.statistic.ball.center, self._model
        o = model.origin
        z, w = (
            np.asarray(model.to_coordinates(o, u)) / unit
            for u in (model.log(o, p), model.transport(p, o, v))
        )
        foot = np.asarray(M.exp(c, M.from_coordinates(c, z)))
        return foot, np.asarray(M.transport(c, foot, M.from_coordinates(c, w)))[None]


class KNormProblem(NamedTuple):
    """What one K-norm draw is made of: exp(−norm/scale) on the bundle, norm Lipschitz in each part."""

    bundle: TangentBundleBall
    scale: float
    norm: Callable[[np.ndarray, np.ndarray], np.ndarray]
    constants: LocalConstants
    unit: float  # √|κ|


def rounded(sensitivity: float, n: int) -> float:
    """Enlarged by round-off: 1e-9 for one record's share, and n units in the last place for each of the two sums."""
    return nextafter(sensitivity * (1 + 1e-9 + n * (n + 100) * 2.0**-52), inf)


def into_domain(
    M: Manifold, ball: Ball, domain: Domain, p: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A released pair put back into the public domain, V stacked by predictor: post-processing."""
    inside = np.asarray(project_to_ball(M, ball.center, domain.radius, p[None])[0])
    V = np.asarray(M.transport(p, inside, V)) if np.any(inside != p) else V
    length = np.asarray(M.norm(inside, V))
    share = np.minimum(1.0, domain.speed / np.where(length > 0, length, 1.0))
    return inside, V * share.reshape(-1, *[1] * len(M.point_shape))
