"""Gaussian or Laplace noise about vectors, and the base class of mechanisms that add
it. The *scale* of Gaussian noise is the standard deviation of an entry; that of Laplace
noise is the b of the density ∝ exp(−|y|/b). *Simulated* noise is drawn in floats, to
predict errors; it protects nothing.

The Gaussian serves most guarantees. Pure ε needs the Laplace distribution of the
Euclidean norm, with density ∝ exp(−|y|/b): a vector that moves by Δ moves the exponent
by at most Δ/b everywhere, so ε = Δ/b in every dimension (the K-norm mechanism, Hardt &
Talwar 2010).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.chart import grid_of
from curvedp.core.fields import Length
from curvedp.core.mechanism import Mechanism, check_guarantee
from curvedp.errors import UnattainableGuarantee
from curvedp.geometry import Euclidean
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import ExactDraw, exact_gaussian, exact_laplace
from curvedp.numerics.directed_rounding import round_down, round_up
from curvedp.privacy import (
    Guarantee,
    PrivacyCurve,
    PureDP,
    gaussian_profile,
    smallest_scale,
)
from curvedp.privacy.profiles.ricci_bound import PureProfile
from curvedp.randomness import Source

NoiseKind = Literal["gaussian", "laplace"]
NOISE_KINDS: tuple[NoiseKind, ...] = ("gaussian", "laplace")

# (values, shape (rows, size); the noise scale of each row) -> noisy values
AddNoise = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Relative margin of a Laplace scale against the rounding of one division.
_ROUNDING = 1e-15


class NoiseLevel(NamedTuple):
    """A kind of noise and its scale: σ of a Gaussian, or b of the density ∝ exp(−|y|/b)."""

    kind: NoiseKind
    scale: float


def smallest_noise(guarantee: Guarantee, sensitivity: float = 1.0) -> NoiseLevel:
    """Return the least noise for a vector with which its release meets a guarantee.

    It is Laplace noise if the guarantee needs a bounded privacy loss, and otherwise
    Gaussian noise.

    Parameters
    ----------
    guarantee : Guarantee
        The privacy guarantee that the release must satisfy.
    sensitivity : float
        How far the vector can move, in Euclidean length, if a record is replaced.

    Returns
    -------
    NoiseLevel
        The kind of noise and its scale: σ of a Gaussian, or b of the Laplace density
        ∝ exp(−|y|/b).
    """
    check_guarantee(guarantee)
    if not needs_bounded_loss(guarantee):
        return NoiseLevel("gaussian", smallest_gaussian_scale(guarantee, sensitivity))
    epsilon = largest_pure_epsilon(guarantee)
    return NoiseLevel("laplace", round_up(sensitivity / epsilon, _ROUNDING))


def smallest_gaussian_scale(guarantee: Guarantee, sensitivity: float = 1.0) -> float:
    """Return the least σ of Gaussian noise that meets a guarantee: Δ/μ for μ-GDP.

    Mechanisms are calibrated with it.

    Parameters
    ----------
    guarantee : Guarantee
        The privacy guarantee that the release must satisfy.
    sensitivity : float
        How far the vector can move, in Euclidean length, if a record is replaced.

    Returns
    -------
    float
        The standard deviation of the noise in each coordinate.

    Raises
    ------
    UnattainableGuarantee
        If the guarantee needs a bounded privacy loss, as pure ε does.
    """
    check_guarantee(guarantee)
    if needs_bounded_loss(guarantee):
        raise UnattainableGuarantee(
            f"{guarantee} is not met by Gaussian noise, and this release has no other: "
            "use GDP, zCDP, or ApproxDP with a small δ"
        )

    def profile_at(scale: float) -> Any:
        """Return the privacy profile of Gaussian noise of a scale."""
        return gaussian_profile(0.0, 1, scale, sensitivity)

    return float(smallest_scale(profile_at, guarantee, sensitivity))


def needs_bounded_loss(guarantee: Guarantee) -> bool:
    """Return whether only noise with a bounded privacy loss meets a guarantee.

    Then Laplace noise is needed: the privacy loss of Gaussian noise is unbounded.

    Parameters
    ----------
    guarantee : Guarantee
        The privacy guarantee, such as pure ε, which needs a bounded loss.
    """
    return guarantee.requires_bounded_loss


def largest_pure_epsilon(guarantee: Guarantee) -> float:
    """Return the largest pure ε that implies a guarantee which needs a bounded loss.

    Parameters
    ----------
    guarantee : Guarantee
        The privacy guarantee that the release must satisfy.

    Returns
    -------
    float
        The ε, rounded down.
    """
    if isinstance(guarantee, PureDP):
        return guarantee.eps

    def profile_at(scale: float) -> Any:
        """Return the profile of pure ε with ε = 1/scale: Laplace noise of that scale."""
        return PureProfile(round_up(1 / scale))

    return float(round_down(1 / smallest_scale(profile_at, guarantee, 1.0), _ROUNDING))


def std_per_scale(kind: NoiseKind, size: int) -> float:
    """Return the standard deviation of one coordinate of noise in `size` dimensions.

    It is in units of the scale: 1 for a Gaussian. For the density ∝ exp(−|y|/b) in d
    dimensions the length |y| has the distribution b·Gamma(d), and all directions are
    equally likely, so a coordinate has the variance E|y|²/d = (d + 1)·b².

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The kind of noise.
    size : int
        The dimension d of the vector.
    """
    if kind == "laplace" and size > 0:
        return sqrt(size + 1)
    return 1.0


def simulate_noise(
    rng: np.random.Generator, kind: NoiseKind, shape: tuple[int, int]
) -> np.ndarray:
    """Draw vectors of noise of scale 1 in floats, to predict errors. NOT private.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator of the noise.
    kind : {"gaussian", "laplace"}
        The kind of noise.
    shape : pair of int
        The number of vectors, and their length.

    Returns
    -------
    array of that shape
        One vector in each row.
    """
    normals = rng.standard_normal(shape)
    if kind == "gaussian":
        return normals
    # The density ∝ exp(−|y|) has a uniform direction and a Gamma distributed length.
    n_vectors, size = shape
    directions = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    lengths = rng.gamma(size, size=(n_vectors, 1))
    return np.asarray(directions * lengths)


class ExactNoise:
    """Adds exact noise to vectors, rounded to the public grid, and records what it drew.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The kind of noise.
    source : Source
        Where random bits come from.

    Attributes
    ----------
    draws : list of ExactDraw
        One for each call.
    """

    def __init__(self, kind: NoiseKind, source: Source) -> None:
        """Choose the sampler, and start with an empty list of draws.

        Parameters
        ----------
        kind : {"gaussian", "laplace"}
            The kind of noise.
        source : Source
            Where random bits come from.
        """
        self._draw_row = exact_laplace if kind == "laplace" else exact_gaussian
        self._source = source
        self.draws: list[ExactDraw] = []

    def __call__(self, values: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return vectors with exact noise, and record the draw.

        Parameters
        ----------
        values : array of shape (rows, size)
            One vector in each row.
        scales : array of shape (rows,)
            The noise scale of each row.

        Returns
        -------
        array of shape (rows, size)
            The noisy vectors, on the public grid of each scale.
        """
        space = Euclidean(values.shape[1])
        row_draws: list[ExactDraw] = []
        for row, scale in zip(values, scales.tolist(), strict=True):
            grid = grid_of(scale)
            row_draw = self._draw_row(space, scale, row, source=self._source, grid=grid)
            row_draws.append(ExactDraw(row_draw.integers, grid, row_draw.tau, space))

        # One record for all rows: their integers, and the sum of their slacks.
        integers = np.concatenate([draw.integers for draw in row_draws])
        slack = sum(draw.tau for draw in row_draws)
        grid_of_draw = row_draws[0].grid
        joint_draw = ExactDraw(integers, grid_of_draw, slack, Euclidean(values.size))
        self.draws.append(joint_draw)
        noisy_rows = [draw.value for draw in row_draws]
        return np.concatenate(noisy_rows).reshape(values.shape)

    @property
    def integers(self) -> list[np.ndarray]:
        """The grid integers of all draws, in order."""
        return [draw.integers for draw in self.draws]

    @property
    def slack(self) -> float:
        """A bound on the total variation between all draws and ideal noise."""
        return sum(draw.tau for draw in self.draws)


def _check_noise_kind(name: str, kind: Any) -> NoiseKind:
    """Return "gaussian" or "laplace", or raise `ParameterError`.

    Parameters
    ----------
    name : str
        The name of the field, for the message.
    kind : Any
        Its value.
    """
    _validate.choice(name, kind, NOISE_KINDS)
    return "laplace" if kind == "laplace" else "gaussian"


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorMechanism(Mechanism):
    """A mechanism that adds Gaussian or Laplace noise to vectors that depend on the records.

    Attributes
    ----------
    scale : float
        The noise scale for each unit that all vectors together can move by.
    noise_kind : {"gaussian", "laplace"}
        The kind of noise.
    """

    scale: Length
    noise_kind: Annotated[NoiseKind, _check_noise_kind] = "gaussian"

    @property
    def manifold(self) -> Manifold:
        """Where the released value lives."""
        return self.statistic.value_space

    @property
    def total_sensitivity(self) -> float:
        """How far all vectors that get noise can move together, taken as one vector."""
        return self.sensitivity

    @cached_property
    def privacy_profile(self) -> PrivacyCurve:
        """The profile of one Gaussian release, or pure ε."""
        if self.noise_kind == "laplace":
            return PureDP(round_up(self.total_sensitivity / self.scale))
        return gaussian_profile(0.0, 1, self.scale, self.total_sensitivity)

    def simulated_noise(self, rng: np.random.Generator) -> AddNoise:
        """Return a function that adds noise which is drawn in floats, to predict errors.

        Such noise must not protect a release: its low bits can reveal the values.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.

        Returns
        -------
        function of (values, scales)
            Adds noise to the rows of `values`, with one scale for each row.
        """

        def add_noise(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            """Return the rows with independent noise of their scales."""
            noise = simulate_noise(rng, self.noise_kind, values.shape)
            return np.asarray(values + scales[:, None] * noise)

        return add_noise

    def noise_law(
        self, size: int, scale: float
    ) -> RiemannianGaussian | RiemannianLaplace:
        """Return the distribution of the noise of a vector.

        Parameters
        ----------
        size : int
            The number of entries of the vector.
        scale : float
            σ of the Gaussian distribution, or b of the Laplace density ∝ exp(−|y|/b).
        """
        if self.noise_kind == "laplace":
            return RiemannianLaplace(Euclidean(size), scale)
        return RiemannianGaussian(Euclidean(size), scale)
