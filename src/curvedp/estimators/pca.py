"""Private principal directions: a point of the sphere (one component) or of the Grassmann manifold (a subspace)."""

from functools import partial
from math import sqrt
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from curvedp import _validate
from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.estimators._mean import charge
from curvedp.estimators._streamed import on_host
from curvedp.geometry import Euclidean
from curvedp.geometry.names import manifold_name
from curvedp.geometry.numerics.fixed_point import gram_mean, gram_radius, gram_sums
from curvedp.ledger import Ledger
from curvedp.mechanisms import GaussianMechanism
from curvedp.mechanisms.base import check_guarantee
from curvedp.mechanisms.certificate import Certificate, Claims
from curvedp.privacy import GDP, Guarantee
from curvedp.records import ChunkedRecords, by_chunks, is_chunked

__all__ = ["PrivatePCA"]

_STEPS = 60  # of descent
_ONE_SHOT_FEATURES = 2000  # two million noisy entries: a minute of exact draws


class PrivatePCA(TransformerMixin, BaseEstimator):
    """The leading eigenvectors of the second moment (1/n)Σ xᵢxᵢᵀ, under a privacy guarantee.

    `radius` is a public bound on the length of a record: longer ones are scaled onto it, non-finite ones become 0. The data
    are not centred (the mean is private too); centre by a public or separately released mean first.

    `method="one-shot"` adds Gaussian noise once to the second moment, in orthonormal coordinates of the symmetric
    matrices, where ‖xxᵀ - x'x'ᵀ‖ <= √2·r², so that the moment moves by at most √2·r²/n; the eigenvectors are
    post-processing. `method="dp-rgd"` descends on the sphere or the Grassmann manifold with noisy gradients (extra: jax;
    float path, which its certificate says). "auto" takes the better by prediction: to first order the direction is off by
    the noise across it over the spectral gap, which is r²√d/(nμ) for one shot and 2r²√d/(nμ) for descent, so one shot,
    as long as its d(d+1)/2 noisy entries are affordable.

    X may be a dask array, which is streamed; its components do not depend on the chunks.

    After `fit`: `components_` (n_components, features), orthonormal rows; `method_` which was taken; `certificate_`.

    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency with n public, for any data.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 4)) * [3.0, 1, 1, 1]
    >>> pca = PrivatePCA(n_components=1, radius=5.0, guarantee=GDP(1.0)).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.99)
    True
    """

    def __init__(
        self,
        n_components: int = 1,
        radius: float | None = None,
        method: Literal["auto", "one-shot", "dp-rgd"] = "auto",
        guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value, safe as a default
        ledger: Ledger | None = None,
        label: str = "principal components",
        source: Source | None = None,
    ) -> None:
        self.n_components = n_components
        self.radius = radius
        self.method = method
        self.guarantee = guarantee
        self.ledger = ledger
        self.label = label
        self.source = source

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the leading subspace of X, shape (n, features). `y` is ignored."""
        if self.radius is None:
            raise ParameterError("radius= is missing: a public bound on the length of a record, not read off the data")
        radius = _validate.length("radius", self.radius)
        check_guarantee(self.guarantee)
        records = self._records(X)
        features = records.shape[1]
        count = _validate.integer("n_components", self.n_components, 1)
        if count > features:
            raise ParameterError(f"n_components={count} is more than the {features} features of X")
        _validate.choice("method", self.method, ("auto", "one-shot", "dp-rgd"))
        one_shot = self.method == "one-shot" or (self.method == "auto" and features <= _ONE_SHOT_FEATURES)
        self.method_ = "one-shot" if one_shot else "dp-rgd"
        fit = self._one_shot if one_shot else self._descend
        fit(records, radius, count)
        return self

    def _records(self, X: Any) -> Any:
        """NumPy or chunked. Shapes and types only: a value that is not finite is data, and is mapped later."""
        if not is_chunked(X):
            return self._numbers(X, ensure_min_samples=2)
        if X.ndim != 2 or not X.shape[1] >= 1:
            raise ParameterError(f"X has shape {X.shape}; it must be (n, features)")
        records = ChunkedRecords(X, (int(X.shape[1]),))
        if len(records) < 2:
            raise ParameterError(f"X has {len(records)} records; at least 2 are needed")
        self.n_features_in_ = int(X.shape[1])
        return records

    def _one_shot(self, records: Any, radius: float, count: int) -> None:
        n, features = records.shape
        space = Euclidean(features * (features + 1) // 2)
        # The sum is exact; what is charged is the rounding of the records' entries, and of the mean's own, at both ends.
        rounding = 2 * np.finfo(float).eps * radius**2 * features
        moved = sqrt(2) * gram_radius(radius, features) ** 2 / n + rounding
        mechanism = GaussianMechanism.calibrated(space, moved, self.guarantee)
        sums = partial(_gram, radius)
        total = records.sums(sums) if isinstance(records, ChunkedRecords) else sums(records)
        moment = gram_mean(total.reshape(6, features, features), n, radius)
        if self.ledger is not None:
            charge(self.ledger, self.guarantee, mechanism, self.label)
        statistic = {"name": "second moment", "n": n, "features": features, "radius": radius}
        release = mechanism.release(_pack(moment), source=self.source, guarantee=self.guarantee, statistic=statistic)
        vectors = np.linalg.eigh(_unpack(release.value, features))[1]
        self.components_ = vectors[:, ::-1][:, :count].T
        self.certificate_ = release.certificate

    def _descend(self, records: Any, radius: float, count: int) -> None:
        from curvedp.optim import LeadingEigenvectorProblem, SubspaceProblem, dp_rgd
        from curvedp.optim.accounting import rgd_noise

        n, features = records.shape
        problem = LeadingEigenvectorProblem(features) if count == 1 else SubspaceProblem(features, count)
        # A record's gradient 2(I-wwᵀ)zzᵀw has length at most 2·sin·cos·r² <= r²: this clip cuts nothing off.
        clip, public = radius**2, np.random.default_rng(0)
        start = problem.manifold.project(public.standard_normal(problem.manifold.point_shape))
        noise = rgd_noise(n, _STEPS, clip, self.guarantee)  # refuses before anything is spent
        mechanism = GaussianMechanism(Euclidean(problem.manifold.dim), sqrt(_STEPS) * 2 * clip / n, noise)
        chunked, clipped = isinstance(records, ChunkedRecords), partial(_clip_rows, radius=radius)
        if self.ledger is not None and not chunked:
            charge(self.ledger, self.guarantee, mechanism, self.label)
        rows = records.map(clipped) if chunked else clipped(records)
        result = dp_rgd(problem, rows, start, _STEPS, clip, 0.5 / radius**2, guarantee=self.guarantee, rng=self.source)
        if self.ledger is not None and chunked:  # a cluster can fail between steps; nothing has left before this
            charge(self.ledger, self.guarantee, mechanism, self.label)
        self.components_ = np.atleast_2d(result.point.T)
        self.certificate_ = Certificate(
            mechanism="dp-rgd",
            manifold=manifold_name(problem.manifold),
            parameters={"steps": _STEPS, "clip": clip, "noise": result.noise},
            sensitivity=2 * clip / n,
            claims=Claims.of(mechanism.profile, 0.0),
            guarantee=self.guarantee,
            numerics={"path": "float64: not exact-then-round, do not publish more digits than the noise covers"},
            entropy={"source": "simulated" if self.source else SecureSource.name, "cryptographic": self.source is None},
            statistic={"name": "leading subspace", "n": n, "features": features, "radius": radius},
        )

    def transform(self, X: Any) -> Any:
        """Coordinates of the records in the private subspace; of a dask array a dask array."""
        check_is_fitted(self)
        coordinates = partial(_coordinates, self.components_)
        if is_chunked(X):
            return by_chunks(coordinates, X, (self.n_features_in_,), (len(self.components_),), np.dtype(np.float64))
        return coordinates(self._numbers(X, reset=False))

    def _numbers(self, X: Any, **options: Any) -> Any:
        try:
            return validate_data(self, on_host("X", X), dtype=np.float64, ensure_all_finite=False, **options)
        except ValueError as error:
            if str(error).startswith("could not convert"):  # goes on to quote the record
                raise ParameterError("X must be an array of numbers") from None
            raise


def _coordinates(components: np.ndarray, records: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):  # a record that is not finite is no reason for a warning
        return np.asarray(records @ components.T)


def _gram(radius: float, rows: np.ndarray) -> np.ndarray:
    rows = np.asarray(rows, dtype=np.float64)
    return gram_sums(_clip_rows(rows, radius), radius).ravel()


def _clip_rows(records: np.ndarray, radius: float) -> np.ndarray:
    records = np.ascontiguousarray(records)  # the float sums of a row's length depend on its layout
    rows = np.where(np.isfinite(records).all(axis=1, keepdims=True), records, 0.0)
    # Scale by the largest entry first: the square of a huge row would overflow, and a row is data, not an error.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    unit = rows / np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # a length may overflow, and then exceeds any radius
        length = largest * np.linalg.norm(unit, axis=1, keepdims=True)
        clipped: np.ndarray = np.where(
            length <= radius, rows, unit / np.linalg.norm(unit, axis=1, keepdims=True) * radius
        )
    return clipped


def _pack(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal coordinates of a symmetric matrix: the diagonal and √2 times what is above it."""
    upper = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), sqrt(2) * matrix[upper]])


def _unpack(coordinates: np.ndarray, size: int) -> np.ndarray:
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = coordinates[size:] / sqrt(2)
    symmetric: np.ndarray = matrix + matrix.T + np.diag(coordinates[:size])
    return symmetric
