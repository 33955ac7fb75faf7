"""Classes of large covariance matrices: reduce privately first, then learn few numbers. Labels are private.

Records A = x/tr x are reduced BEFORE any logarithm, to k components that are themselves released, and a linear classifier of
features in k dimensions follows, all of it one release in stages. docs/high-dimension.md says what each stage releases, how
far it moves and why, for records and for persons. Shares, steps and rate are those of a measured prototype.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from math import ceil, log2, sqrt
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.spd_common import SPD, pack, unpack
from curvedp.mechanisms.measured import mean_moved
from curvedp.mechanisms.noise import Noise
from curvedp.mechanisms.second_moment import clipped_rows
from curvedp.mechanisms.stages import QUERIES, Search, StagedMechanism, Stages
from curvedp.mechanisms.statistic import Length, Several, Statistic, assign
from curvedp.numerics.eigen import eigh
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.privacy import Guarantee

FEATURES = ("power", "log")
_NORM, _MOMENT, _RADIUS, _COUNTS = 0.04, 0.30, 0.06, 0.03  # shares of μ²
_STEPS, _RATE, _INTERCEPT = (
    10,
    8.0,
    0.3,
)  # of the softmax; the constant feature beside those of length at most 1
_KEPT = (6, 8, 12)  # components, where nobody has chosen
_SIMULATED, _NEW, _RUNS = (
    1000,
    200,
    4,
)  # records of a simulated study at most, new ones that it is tried on, releases
_FLOOR = 1e-12  # of eigenvalues of a matrix of trace 1, before their logarithm


@dataclass(frozen=True, eq=False)
class ReducedClasses(Statistic):
    """A linear classifier of n labeled covariance matrices after their reduction to a few components."""

    manifold: Manifold  # positive definite matrices; their metric is not used
    components: int
    features: Annotated[str, partial(_validate.choice, options=FEATURES)]
    radius: Length  # a public bound on the features' length
    classes: Several
    n: Several

    name: ClassVar[str] = "linear classifier of reduced matrices"
    unit: ClassVar[str] = (
        "one record with its label, replaced by any other; the set of classes is public"
    )
    units: ClassVar[tuple[str, ...]] = (
        "one person with all their records and labels, replaced by any other; the set of classes and the number of persons "
        "are public",
    )
    valued: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(check_manifold(self.manifold), SPD):
            spaces = "covariance matrices, that is SPD spaces"
            raise ParameterError(
                f"reduce= is for {spaces}, and not for {self.manifold!r}"
            )
        kept = _validate.integer("reduce", self.components, 1)
        if kept > self.manifold.point_shape[0]:
            raise ParameterError(
                f"is more than the {self.manifold.point_shape[0]} channels",
                parameter="reduce",
                value=kept,
            )
        assign(self, components=kept)
        super().__post_init__()

    @property
    def public_n(self) -> int:
        return self.n

    # of a mean of vectors of unit length: every stage scales it by its own bound
    sensitivity = property(lambda self: 2 / self.n)
    size = property(
        lambda self: self.components * (self.components + 1) // 2
    )  # of the features


def longest_features(features: Any, components: Any) -> float:
    """A bound that cuts off nothing: |f| <= ‖g(UᵀAU)‖ + ‖g(diag w)‖ for matrices of trace 1, unless w is all noise."""
    root = sqrt(_validate.integer("reduce", components, 1))
    return (
        3.0
        if _validate.choice("features", features, FEATURES) == "power"
        else 60 * root
    )


class Labeled(NamedTuple):
    """Normalized records, their classes, and whose they are (None: each its own)."""

    matrices: np.ndarray
    codes: np.ndarray
    persons: np.ndarray | None = None


class Reduced(NamedTuple):
    """The released reduction: k directions, in rows, and their scales."""

    directions: np.ndarray
    scales: np.ndarray
    features: str

    def __call__(self, matrices: np.ndarray) -> np.ndarray:
        """Features of matrices of trace 1, shape (n, k(k+1)/2); each depends on its own matrix alone."""
        small = self.directions @ matrices @ self.directions.T
        w, V = eigh((small + small.mT) / 2)
        g = np.sqrt if self.features == "power" else np.log
        mapped = (V * g(np.maximum(w, _FLOOR))[..., None, :]) @ V.mT
        return np.asarray(
            pack((mapped + mapped.mT) / 2) - pack(np.diag(g(self.scales)))
        )


class LinearClassifier(NamedTuple):
    """What is released: scores are `features · weights + bias`, of features cut to `radius`."""

    reduced: Reduced
    radius: float
    weights: np.ndarray
    bias: np.ndarray

    def features(self, records: np.ndarray) -> np.ndarray:
        """Of records in any unit, cut to the radius."""
        with np.errstate(
            all="ignore"
        ):  # a record that is no matrix is no reason for a warning
            return clipped_rows(self.reduced(normalized(records)), self.radius)

    def scores(self, records: np.ndarray) -> np.ndarray:
        """(n, classes): the larger the likelier."""
        return np.asarray(self.features(records) @ self.weights.T + self.bias)


def normalized(records: np.ndarray) -> np.ndarray:
    """Positive semi-definite matrices of trace 1, whatever the records are: anything else becomes I/m."""
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        largest = np.abs(records).max(axis=(-2, -1), keepdims=True)
        unit = records / np.where(largest > 0, largest, 1.0)
        w, V = eigh((unit + unit.mT) / 2)
        w = np.maximum(w, 0.0)
        total = w.sum(axis=-1, keepdims=True)
        found = (V * (w / total)[..., None, :]) @ V.mT
        fine = np.isfinite(found).all(axis=(-2, -1), keepdims=True)
        return np.asarray(
            np.where(
                fine,
                (found + found.mT) / 2,
                np.eye(records.shape[-1]) / records.shape[-1],
            )
        )


class _Numbers(NamedTuple):
    """What the walk reads of n records; without them numbers of the right shape, for reading it back from its integers."""

    n: int
    data: Labeled | None = None

    def mean(
        self, terms: Callable[..., np.ndarray], bound: float, size: int
    ) -> tuple[np.ndarray, float]:
        """(mean of rows of length at most `bound`, how far it moves); `terms` makes the rows of matrices and codes."""
        grid, found = FixedPoint(2 * bound), np.zeros(size)
        if self.data is not None:
            with np.errstate(all="ignore"):  # a data-dependent warning is a release
                rows = _averaged(
                    terms(self.data.matrices, self.data.codes), self.data.persons
                )
            found = grid.mean(grid.sums(rows), self.n)
        return found, mean_moved(bound, grid, size, self.n)

    def beyond(
        self, lengths: Callable[[np.ndarray], np.ndarray], radii: np.ndarray
    ) -> np.ndarray:
        """How many have a length above each of the decreasing radii."""
        if self.data is None:
            return np.zeros(len(radii))
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            found = np.sort(
                _averaged(lengths(self.data.matrices)[:, None], self.data.persons)[:, 0]
            )
        return np.asarray(
            len(found) - np.searchsorted(found, radii, side="right"), dtype=np.float64
        )


def _averaged(rows: np.ndarray, persons: np.ndarray | None) -> np.ndarray:
    """One row a person: the average of their own, in the order they have."""
    if persons is None:
        return rows
    order = np.argsort(persons, kind="stable")
    starts = np.flatnonzero(np.diff(persons[order], prepend=-1))
    return np.asarray(
        np.add.reduceat(rows[order], starts) / np.diff([*starts, len(rows)])[:, None]
    )


class _ReducedMechanism(StagedMechanism):
    """Reduction, then what a subclass learns of the features. The guarantee is μ-GDP, μ = 1/`scale`, for replacing a record
    together with its label, for ANY records."""

    of: ClassVar[Any] = ReducedClasses
    afterwards = ("leading eigenvectors of the noisy moment",)

    # whether there are enough records for the classifier to be of use, by the measured prototype: nμ >= 100
    enough = property(lambda self: bool(self.statistic.n / self.scale >= 100))

    def accepted(self, data: Any) -> Labeled:
        """(records, codes of classes) or with codes of persons as a third; only shapes and types can be refused."""
        records, codes, *persons = data
        return Labeled(
            normalized(np.asarray(records, dtype=np.float64)),
            np.asarray(codes),
            *persons,
        )

    def numbers(self, data: Labeled | None = None) -> _Numbers:
        return _Numbers(self.statistic.n, data)

    def walk(self, measured: Any, noisy: Noise) -> tuple[LinearClassifier, Stages]:
        stages, about = Stages(self.scale, noisy), self.statistic
        long = self._quantile(
            stages, measured, lambda A: np.linalg.norm(A, axis=(-2, -1)), 1.0, _NORM
        )
        m = about.manifold.point_shape[0]
        mean, moved = measured.mean(
            lambda A, _: clipped_rows(np.asarray(pack(A)), long), long, m * (m + 1) // 2
        )
        moment, noise = stages.ask("moment", _MOMENT, moved / sqrt(2), mean)
        w, V = np.linalg.eigh(np.asarray(unpack(moment, m)))
        kept = slice(None, -about.components - 1, -1)
        reduced = Reduced(V[:, kept].T, np.maximum(w[kept], noise), about.features)
        r = self._quantile(
            stages,
            measured,
            lambda A: np.linalg.norm(reduced(A), axis=-1),
            about.radius,
            _RADIUS,
        )
        weights, bias = self._learned(stages, measured, reduced, r)
        return LinearClassifier(reduced, r, weights, bias), stages

    def _quantile(
        self, stages: Stages, measured: _Numbers, lengths: Any, top: float, share: float
    ) -> float:
        """A length that few records have more than: twice the noise of their count."""
        outside = min(measured.n / 2, 2 * self.scale * sqrt(QUERIES / share))
        return Search().quantile(
            stages, lambda radii: measured.beyond(lengths, radii), top, outside, share
        )

    @abstractmethod
    def _learned(
        self, stages: Stages, measured: _Numbers, reduced: Reduced, r: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(weights, bias) of a linear classifier of the features, with all that is left."""

    def predicted_error(self) -> float:
        """The share of new records that are misclassified, on average over simulated releases for public records."""
        about, kept = (
            self.statistic,
            min(self.statistic.n, _SIMULATED),
        )  # what is learned depends on nμ
        small = type(self)(
            statistic=replace(about, n=kept), scale=self.scale * kept / about.n
        )
        A, y = _trials(about.manifold.point_shape[0], about.classes, kept + _NEW)
        rng, wrong, read = (
            np.random.default_rng(20231116),
            [],
            _Numbers(kept, Labeled(A[:kept], y[:kept])),
        )
        for _ in range(_RUNS):
            found = small.walk(read, small.simulated_noise(rng))[0]
            scores = (
                clipped_rows(found.reduced(A[kept:]), found.radius) @ found.weights.T
                + found.bias
            )
            wrong.append(np.mean(np.argmax(scores, axis=1) != y[kept:]))
        return float(np.mean(wrong))


class ReducedMeans(_ReducedMechanism):
    """The nearest class mean of the features: |f − m|² is linear in f up to |f|², the same for all classes."""

    name: ClassVar[str] = "reduced-means"

    def _learned(
        self, stages: Stages, measured: _Numbers, reduced: Reduced, r: float
    ) -> tuple[np.ndarray, np.ndarray]:
        K, d = self.statistic.classes, self.statistic.size
        shares, moved = measured.mean(lambda _, codes: np.eye(K)[codes], 1.0, K)
        counted, _ = stages.ask("counts", _COUNTS, moved / sqrt(2), shares)
        counted = np.maximum(
            counted, 1 / (4 * K)
        )  # of a class that the noise has nearly removed

        def by_class(A: np.ndarray, codes: np.ndarray) -> np.ndarray:
            rows = clipped_rows(reduced(A), r)
            return np.asarray(
                (np.eye(K)[codes][:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            )

        unit = (
            2.0 ** ceil(log2(r))
        )  # a public power of two, so that the grid is fine whatever the features' length
        sums, moved = measured.mean(by_class, r, K * d)
        noisy, noise = stages.ask("sums", 1.0, moved / unit, sums / unit)
        means = unit * noisy.reshape(K, d) / counted[:, None]
        lengths = (means**2).sum(axis=1) - d * (
            unit * noise / counted
        ) ** 2  # the noise's own share of |m|² is known
        return 2 * means, -lengths


class ReducedSoftmax(_ReducedMechanism):
    """Multinomial logistic regression on the features by a few full noisy gradient steps."""

    name: ClassVar[str] = "reduced-softmax"

    def _learned(
        self, stages: Stages, measured: _Numbers, reduced: Reduced, r: float
    ) -> tuple[np.ndarray, np.ndarray]:
        K, d = self.statistic.classes, self.statistic.size
        W, share = np.zeros((K, d + 1)), stages.left / _STEPS
        for step in range(_STEPS):
            gradient, moved = measured.mean(_gradients(reduced, r, W), 1.0, W.size)
            noisy, _ = stages.ask(
                "gradient",
                stages.left if step == _STEPS - 1 else share,
                moved,
                gradient,
            )
            W = W - _RATE * noisy.reshape(W.shape)
        return W[:, :-1] / r, _INTERCEPT * W[:, -1]


def classifiers(
    manifold: Manifold, n: int, classes: int, guarantee: Guarantee
) -> dict[str, _ReducedMechanism]:
    """Those that `plan` compares, by the call that makes them."""
    calls, found = {"PrivateMDM": ReducedMeans, "PrivateSoftmax": ReducedSoftmax}, {}
    for call, features, most in product(calls, FEATURES, _KEPT):
        k = min(most, manifold.point_shape[0])
        statistic = ReducedClasses(
            manifold, k, features, longest_features(features, k), classes, n
        )
        found[f"{call}(reduce={k}, features={features!r})"] = calls[call].for_statistic(
            statistic, guarantee
        )
    return found


@lru_cache(maxsize=2)
def _trials(channels: int, classes: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Public records of trace 1 and their classes: 200 samples of a background whose components fall by a fifth each and vary
    between records, and of a source by class, twice as strong, in the span of the six leading ones."""
    rng, leading = np.random.default_rng(7), min(channels, max(6, classes))
    mixing = np.linalg.qr(rng.normal(size=(channels, channels)))[0] * 0.8 ** np.arange(
        channels
    )
    sources = mixing[:, :leading] @ np.linalg.qr(rng.normal(size=(leading, leading)))[0]
    y = rng.integers(classes, size=n)
    strength = (
        2 * np.exp(0.25 * rng.normal(size=(n, 1, 1))) * rng.normal(size=(n, 1, 200))
    )
    background = np.exp(0.5 * rng.normal(size=(n, channels, 1))) * rng.normal(
        size=(n, channels, 200)
    )
    signals = mixing @ background + sources.T[y % leading][:, :, None] * strength
    return normalized(signals @ signals.mT), y


def _gradients(reduced: Reduced, r: float, W: np.ndarray) -> Callable[..., np.ndarray]:
    """The softmax loss's gradients in W, one row a record, none longer than 1."""

    def terms(A: np.ndarray, codes: np.ndarray) -> np.ndarray:
        rows = clipped_rows(reduced(A), r) / r
        rows = np.concatenate([rows, np.full((len(rows), 1), _INTERCEPT)], axis=1)
        scores = rows @ W.T
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        residual = shares / shares.sum(axis=1, keepdims=True) - np.eye(len(W))[codes]
        return clipped_rows(
            (residual[:, :, None] * rows[:, None, :]).reshape(len(rows), -1), 1.0
        )

    return terms
