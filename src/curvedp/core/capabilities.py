"""Optional abilities of mechanisms and statistics, as classes with abstract methods.
A caller tests `isinstance(mechanism, PredictsError)` and never looks for attributes by
name. A mechanism with an ability derives from its class, so that the type checker can
compare the signatures.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from curvedp.core.statistic import Statistic

if TYPE_CHECKING:
    from curvedp.core.certificate import Certificate, Check
    from curvedp.core.codes import PostProcessing
    from curvedp.core.mechanism import Mechanism


class PredictsError(ABC):
    """A mechanism that predicts the error of its release before it is made."""

    @abstractmethod
    def predict_error(self) -> float:
        """Return the root mean square error of a release, from public numbers alone."""


class SimulatesRelease(ABC):
    """A mechanism whose releases can be simulated in floats, for predicted errors."""

    max_simulated_draws: int = 2048

    @abstractmethod
    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: Any
    ) -> np.ndarray:
        """Draw releases in floats, to predict errors fast. They are NOT private.

        Predicted errors of mechanisms without a formula are averages over such draws,
        which skip exact sampling and are therefore some hundred times faster.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        data : array
            The value of the statistic; or, for a mechanism that reads records, public
            records to release a statistic of.
        size : int or tuple of int
            The number of releases, or the leading shape of the result.

        Returns
        -------
        array of shape (*size, *point_shape)
            The released points after post-processing, in the canonical frame of the
            statistic.
        """


class NoisyMeanSquare(NamedTuple):
    """The mean squared length of the records' logarithms, with Gaussian noise.

    Attributes
    ----------
    value : float
        The noisy mean square, which may be negative.
    noise_std : float
        The standard deviation of the noise.
    """

    value: float
    noise_std: float


class NoisyMeanHessian(NamedTuple):
    """The mean Hessian of half the squared distance to the records, with Gaussian noise.

    In hyperbolic space it is (1 + T)·1 − A. Here A is the mean of t·uuᵀ over the
    records, u is the direction to a record, t its Hessian excess s·coth(s) − 1 at
    distance s in radii of curvature, and T = tr A is the mean of t.

    Attributes
    ----------
    matrix : array of shape (dim, dim)
        The noisy mean Hessian, in orthonormal coordinates at the base of the draw.
    matrix_std : float
        The standard deviation of the noise of the part of A without trace, in each
        orthonormal coordinate of the symmetric matrices.
    mean_excess : float
        T with noise; it determines the trace of `matrix`.
    mean_excess_std : float
        The standard deviation of the noise of `mean_excess`.
    """

    matrix: np.ndarray
    matrix_std: float
    mean_excess: float
    mean_excess_std: float


class NoisyDraw(NamedTuple):
    """A noisy quantity before shrinkage and projection, with its noise distribution.

    Confidence regions are computed from it (docs/theory/inference.md). `kind` names the
    quantity to which the noise was added:

    - "point": the statistic itself;
    - "chart": the coordinates of the statistic in the normal chart at `base`, clipped
      to the length `max_length`;
    - "gradient": the mean logarithm of the records at `base`, whose length is at most
      `max_length`;
    - "counts": how many records are farther from `base` than each of `radii`;
    - "line": the linearization of a geodesic at the pair (p, V), which is stacked in
      `base`.

    Attributes
    ----------
    kind : {"point", "chart", "gradient", "counts", "line"}
        The quantity.
    law : object
        The noise distribution, with `scale` and `radial_cdf`.
    value : array
        The quantity plus noise, as it was drawn.
    grid_width : float
        The width of the grid to which `value` was rounded.
    base : array, optional
        The public base point of the chart, or the pair of a "line".
    max_length : float
        A public bound on the length of the quantity; inf if there is none.
    radii : array, optional
        The radii of "counts".
    frame : Statistic, optional
        The statistic in whose canonical frame the draw is; None if it is that of the
        mechanism.
    mean_square : NoisyMeanSquare, optional
        For a "gradient": the noisy mean squared length of the same logarithms, if it
        was released too.
    mean_hessian : NoisyMeanHessian, optional
        For a "gradient" in hyperbolic space: the noisy mean Hessian at `base`, if it
        was released too.
    """

    kind: Literal["point", "chart", "gradient", "counts", "line"]
    law: Any
    value: np.ndarray
    grid_width: float
    base: np.ndarray | None = None
    max_length: float = float("inf")
    radii: np.ndarray | None = None
    frame: Statistic | None = None
    mean_square: NoisyMeanSquare | None = None
    mean_hessian: NoisyMeanHessian | None = None


class LeadsToRegion(ABC):
    """A mechanism whose draws determine a confidence region."""

    @abstractmethod
    def recorded_draw(self, integers: Any) -> NoisyDraw:
        """Return the recorded draw of a certificate, with its noise distribution.

        Nothing is drawn here: the noisy integers determine the result.

        Parameters
        ----------
        integers : list of lists of int
            The grid integers that the certificate lists, one list for each draw.

        Returns
        -------
        NoisyDraw
            The noisy quantity, the distribution of its noise, and the public point
            about which it was drawn: what a confidence region is computed from.

        Raises
        ------
        ParameterError
            If the integers are not those of a draw of this mechanism.
        """


class BoundsSamplingError(ABC):
    """A statistic with a bound on its distance from the statistic of the population.

    The records are assumed to be independent draws from a population. A statistic
    without this ability has no confidence region for its population.
    """

    @abstractmethod
    def sampling_error(self, failure_probability: float) -> float:
        """Bound the distance of the records' statistic from the population's statistic.

        For means, variances and second moments the bound is a distance. For medians and
        geodesics it is the length of the mean direction of the records at the
        population's own median or geodesic, where its expectation is 0. See
        docs/theory/inference.md, "Regions of the population".

        Parameters
        ----------
        failure_probability : float
            The probability that the bound may fail.

        Returns
        -------
        float
            The bound, in the units of the manifold's distance. It holds with
            probability at least 1 − `failure_probability` over the draw of the records.

        Raises
        ------
        ParameterError
            If the ball is too wide for a theorem.
        """


class HasFinalMechanism(ABC):
    """A mechanism in stages whose last stage is a release by another mechanism.

    An example is the search for a ball that holds most records, followed by the release
    of a mean in it.
    """

    @abstractmethod
    def final_mechanism(self, certificate: "Certificate") -> "Mechanism":
        """Return the mechanism that made the last draw.

        Parameters
        ----------
        certificate : Certificate
            The certificate of the release. Its released integers determine the result.

        Returns
        -------
        Mechanism
            The mechanism as it was calibrated to the budget that the earlier stages
            left.
        """


class ChecksItself(ABC):
    """A mechanism whose certificates make further claims, which `verify` recomputes."""

    @abstractmethod
    def further_checks(self, certificate: "Certificate") -> list["Check"]:
        """Return one check for each claim that only this mechanism makes.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release by this mechanism.

        Returns
        -------
        list of Check
            Each says what is claimed, whether it holds, and the recomputed number.
        """


class NeedsManyRecords(ABC):
    """A mechanism whose releases are useless if there are few records."""

    @property
    @abstractmethod
    def has_enough_records(self) -> bool:
        """Whether the number of records and the budget suffice, by public numbers."""


class SometimesExcluded(ABC):
    """A mechanism that `mechanism="auto"` does not consider for some statistics."""

    @classmethod
    @abstractmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why `mechanism="auto"` does not consider this mechanism, or None.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.

        Returns
        -------
        str or None
            A sentence for the user; None if the mechanism is a candidate.
        """


class RefusesRelease(ABC):
    """A mechanism that refuses to release with some public parameters."""

    @abstractmethod
    def check_releasable(self) -> None:
        """Raise `ParameterError` if a release could not keep its promise.

        Called before the ledger is charged. It reads public numbers alone.

        Raises
        ------
        ParameterError
            If the public numbers of the mechanism rule out a release.
        """


class PostProcessesItself(ABC):
    """A mechanism that post-processes its draws in another way than its statistic."""

    @property
    @abstractmethod
    def post_processing(self) -> "tuple[PostProcessing, ...]":
        """What `post_process` does to a draw, as codes for the certificate."""


class HasNoiseLength(ABC):
    """A mechanism that knows the root mean square length of its noise."""

    @property
    @abstractmethod
    def noise_length(self) -> float:
        """The root mean square length of the noise √E‖noise‖², from public numbers."""
