"""Private principal directions: a point of the sphere (one component) or of the Grassmann manifold (a subspace)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError
from curvedp.estimators.base import PendingRelease, PrivateTransformer
from curvedp.ledger import Ledger
from curvedp.mechanisms.isotropic.gaussian import GaussianMechanism
from curvedp.mechanisms.isotropic.laplace import LaplaceMechanism
from curvedp.mechanisms.noisy_sum import SumMechanism
from curvedp.mechanisms.vector import needs_bounded_loss
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.base import Records, is_chunked, open_records
from curvedp.records.chunked import map_records
from curvedp.records.persons import encode_persons, person_rows
from curvedp.statistics.noisy_sums import GramSum
from curvedp.statistics.second_moment import (
    SecondMoment,
    clip_rows,
    vector_to_symmetric,
)

_TITLE = "components"
_STEPS = 60  # of descent
_ONE_SHOT_FEATURES = 2000  # two million noisy entries: a minute of exact draws


@dataclass(eq=False, repr=False)
class PrivatePCA(PrivateTransformer):
    """The leading eigenvectors of the second moment (1/n)Σ xᵢxᵢᵀ, under a privacy guarantee.

    The data are not centered (the mean is private too); center by a public or separately released mean first.

    Parameters
    ----------
    n_components : int
        How many directions.
    radius : float
        A public bound on the length of a record: longer ones are scaled onto it, those that are not finite become 0.
    method : {"auto", "one-shot", "dp-rgd"}
        "one-shot" adds noise once to the second moment, in orthonormal coordinates of the symmetric matrices, where
        ‖xxᵀ - x'x'ᵀ‖ <= √2·r²; the eigenvectors are post-processing. The noise is Gaussian, or for pure ε of
        density ∝ exp(−‖·‖/b), which has half the deviation of Laplace noise for each entry. "dp-rgd" descends on the sphere
        or the Grassmann manifold with noisy gradients (extra: jax; drawn in floats, which its certificate says; not for pure
        ε). "auto" takes the better by prediction: to first order the direction is off by the noise across it over the
        spectral gap, r²√d/(nμ) for one shot and 2r²√d/(nμ) for descent, so one shot, as long as its d(d+1)/2 noisy entries
        are affordable.
    guarantee, ledger, label, source
        As in `PrivateFrechetMean`.
    features : int, optional
        How many numbers a record has. An array or a frame says it by its shape; for a list
        of rows it must be given, because the length of a row is data. A row of another
        length counts as 0.

    Attributes
    ----------
    components_, certificate_ : ndarray and Certificate
        (n_components, features), orthonormal rows, and why they may be published.
    method_ : str
        Which was taken.

    Notes
    -----
    X may be a dask array, which is streamed; its components do not depend on the chunks.

    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency with n public, for any data; for add-remove adjacency with n private.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 4)) * [3.0, 1, 1, 1]
    >>> pca = PrivatePCA(n_components=1, radius=5.0, guarantee=GDP(1.0)).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.99)
    True
    """

    _adjacencies = ("replace-one", "add-remove")
    _name = "principal components"
    _column = "pca"
    _components = _n_features_out = property(lambda self: len(self.components_))
    n_features_in_ = property(lambda self: self.components_.shape[1])

    n_components: int = 1
    radius: float | None = None
    method: Literal["auto", "one-shot", "dp-rgd"] = "auto"
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    features: int | None = None

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the leading subspace of X, shape (n, features). `y` is ignored.

        With `groups`, n ids that say whose record each is, a person is the unit of privacy, however many records they have: a
        person counts for the mean of xxᵀ over their own, and n is the number of persons. For "one-shot".
        """
        self._validate_params()
        if self.radius is None:
            raise ParameterError(
                "is missing: a public bound on the length of a record, not read off "
                "the data",
                parameter="radius",
            )
        radius = _validate.length("radius", self.radius)
        _validate.choice("method", self.method, ("auto", "one-shot", "dp-rgd"))
        least = 0 if self._n_is_private else 2
        features = _width(X, self.features, least=least)
        records = open_records(X, (features,), min_records=least)
        count = _validate.integer("n_components", self.n_components, 1)
        if count > features:
            raise ParameterError(
                f"is more than the {features} features of X",
                parameter="n_components",
                value=count,
            )
        few = features <= _ONE_SHOT_FEATURES or is_chunked(
            X
        )  # descents want records in memory
        one_shot = self.method == "one-shot" or (self.method == "auto" and few)
        if not one_shot and (self._n_is_private or groups is not None):
            raise ParameterError(
                "is for replacing one record; one-shot knows persons and private n",
                parameter="method",
                value="dp-rgd",
            )
        privacy_unit = ProtectedUnit.RECORD
        if groups is not None:
            privacy_unit = ProtectedUnit.PERSON
        with quiet_about_records():
            if one_shot:
                pending = self._pending_moment(records, radius, features, groups)
            else:
                pending = self._pending_descent(records, radius, features, count)
        n_is_private = self._n_is_private
        (release,) = self._pay_and_release([pending], privacy_unit)
        self.method_ = "one-shot" if one_shot else "dp-rgd"
        if one_shot:
            moment = (
                release.value
                if n_is_private
                else vector_to_symmetric(release.value, features)
            )
            self.components_ = np.ascontiguousarray(
                np.linalg.eigh(moment)[1][:, ::-1][:, :count].T
            )  # as pickles are
        else:
            self.components_ = np.atleast_2d(release.value.T)
        self.certificate_ = release.certificate
        return self._warn_of_oddities()

    def _pending_moment(
        self, records: Records, radius: float, features: int, groups: Any
    ) -> PendingRelease:
        """Return one noisy second moment of records or people; a noisy sum if n is private."""
        choice = Choice(ChoiceRule.ONLY_ONE)
        if self._n_is_private:
            if groups is not None:
                raise ParameterError(
                    "is for the adjacency replace-one here", parameter="groups"
                )
            total = GramSum(features, radius)
            mechanism = SumMechanism.calibrate(total, self.guarantee)
            return PendingRelease(mechanism, records, choice, _TITLE)
        n = records.n
        if groups is not None:
            codes = encode_persons(groups, n)
            rows, n = (
                person_rows(clip_rows(records.array(), radius), codes),
                int(codes.max()) + 1,
            )
            records = open_records(rows, (features,))
        statistic = SecondMoment(features, radius, n)
        kind = (
            LaplaceMechanism
            if needs_bounded_loss(self.guarantee)
            else GaussianMechanism
        )
        return PendingRelease(
            kind.calibrate(statistic, self.guarantee),
            statistic.compute(records),
            choice,
            _TITLE,
        )

    def _pending_descent(
        self, records: Records, radius: float, features: int, count: int
    ) -> PendingRelease:
        """Return a private descent to the leading subspace."""
        from curvedp.optim import LeadingEigenvectorProblem, SubspaceProblem, dp_rgd
        from curvedp.optim.plan import full_descent_mechanism

        problem = (
            LeadingEigenvectorProblem(features)
            if count == 1
            else SubspaceProblem(features, count)
        )
        # A record's gradient 2(I-wwᵀ)zzᵀw has length at most 2·sin·cos·r² <= r²: this clip cuts nothing off.
        clip, public = radius**2, np.random.default_rng(0)
        start = problem.manifold.project(
            public.standard_normal(problem.manifold.point_shape)
        )
        rows = clip_rows(records.array(), radius)  # refuses a dask array
        mechanism = full_descent_mechanism(
            problem, records.n, _STEPS, clip, self.guarantee
        )

        def run(source: Source) -> np.ndarray:
            rng = None if self.source is None else source
            rate = 0.5 / radius**2
            return np.asarray(
                dp_rgd(
                    problem,
                    rows,
                    start,
                    _STEPS,
                    clip,
                    rate,
                    noise=mechanism.noise,
                    rng=rng,
                ).point
            )

        return PendingRelease(mechanism, run, Choice(ChoiceRule.ONLY_ONE), _TITLE)

    @property
    def releases(self) -> list[ReleasedValue]:
        """The directions, which are what is left of the released matrix."""
        (published,) = super().releases
        return [published._replace(value=self.components_)]

    def transform(self, X: Any) -> Any:
        """Coordinates of the records in the private subspace; of a dask array a dask array."""
        check_is_fitted(self)
        if not is_chunked(X) and not isinstance(X, list | tuple):
            width = _width(X)
            if width != self.n_features_in_:
                expected = f"is expecting {self.n_features_in_} features as input"
                raise ParameterError(
                    f"X has {width} features, but PrivatePCA {expected}"
                )
        coordinates = partial(_coordinates, self.components_)
        return map_records(
            coordinates, X, (self.n_features_in_,), (len(self.components_),)
        )


def _width(X: Any, features: int | None = None, least: int = 1) -> int:
    """How many features X has, by its shape or by what the caller says.

    Refuses by shape and type, in scikit-learn's words.
    """
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ParameterError("Complex data not supported: X must be real numbers")
    if features is not None:
        features = _validate.integer("features", features, 1)
        if isinstance(X, list | tuple):
            return features
    shape = _validate.public_shape("X", X, "say features=")
    if len(shape) != 2:
        raise ParameterError(
            f"Expected 2D array, X has {len(shape)} axes; Reshape your data to (n, features)"
        )
    if shape[1] < 1:
        raise ParameterError(
            f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )
    if shape[0] < least:
        raise ParameterError(f"X has {shape[0]} sample(s); at least {least} are needed")
    if features is not None and features != shape[1]:
        raise ParameterError(
            f"X has {shape[1]} features; features={features} says other"
        )
    return int(shape[1])


def _coordinates(components: np.ndarray, records: np.ndarray) -> np.ndarray:
    return np.asarray(records @ components.T)
