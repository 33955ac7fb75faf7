"""The sequential sampler of *Differentially private geodesic regression*, for
comparison only. NOT PRIVATE. A random walk draws the footpoint p of a geodesic with the
fitted velocity held fixed; another one draws the velocity v at that footpoint.

Each walk has its own ε, which is 1 in the paper. Appendix A of the paper gives two
densities for the same walk, joined by "=" (docs/errata.md, E26): one with the norm of
the gradient over Δ/ε, and one with the energy, exp{−‖Σd²‖/(2τ‖J‖)}. They are
`law="gradient"` and `law="displayed"`. Neither is private, for these reasons:

- τ is the largest residual of the data (E21), the norms of the Jacobi fields are cos 1
  and sin 1 (E20), and the scale is Δ/ε (E23).
- The density of the footpoint also depends on the data through the fitted velocity,
  which is not charged (E22).
- The bound is taken at the optimum only, and residuals elsewhere are not clipped (E24).
- A Markov chain that is stopped after any number of steps does not follow its law.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.geometry import Euclidean, Sphere
from curvedp.geometry.manifold import Manifold
from curvedp.regression import GeodesicFit, fit_geodesic
from curvedp.regression.gradient import descent_direction_function

__all__ = [
    "NO_CLIP",
    "Samples",
    "angles",
    "errors",
    "imposed",
    "jacobi_norms",
    "sequential_sampler",
    "sphere_data",
]

# A clipping norm that no residual reaches.
NO_CLIP = 1e9
# Steps before the first sample, which the paper does not give.
BURN_IN = 400
# The variance of the noise in the surrounding space, §4.1.
VARIANCE = 0.001

# A function of rows of footpoints or velocities: for each row the number whose negative,
# over the scale, is the logarithm of the density.
Potential = Callable[[np.ndarray], np.ndarray]


class Samples(NamedTuple):
    """The draws of the sampler: geodesics as pairs of footpoint and velocity. NOT PRIVATE.

    Attributes
    ----------
    fit : GeodesicFit
        The geodesic by least squares, where the walks start.
    footpoints : array of shape (m, *point_shape)
        m footpoints.
    velocities : array of shape (m, k, *point_shape)
        k velocities at each footpoint, tangent there.
    """

    fit: GeodesicFit
    footpoints: np.ndarray
    velocities: np.ndarray


def sphere_data(
    n: int, speed: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the data of §4.1: points near a geodesic of S² through the origin.

    The predictor is uniform on [0, 1]. Gaussian noise of variance 0.001 is added in ℝ³,
    and the points are projected to the sphere.

    Parameters
    ----------
    n : int
        The number of points.
    speed : float
        The speed of the geodesic, which the paper does not give, in radians over the
        range of the predictor.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    x, Y : array of shape (n,), array of shape (n, 3)
        Predictors, and unit vectors.

    Examples
    --------
    >>> x, Y = sphere_data(20, 0.4, np.random.default_rng(0))
    >>> x.shape, Y.shape
    ((20,), (20, 3))
    """
    manifold = Sphere(2)
    origin = manifold.origin
    direction = rng.standard_normal(2)
    coordinates = speed * direction / np.linalg.norm(direction)
    velocity = np.asarray(manifold.from_coordinates(origin, coordinates))
    x = rng.random(n)
    on_geodesic = np.asarray(manifold.exp(origin, (x - 0.5)[:, None] * velocity))
    noise = np.sqrt(VARIANCE) * rng.standard_normal((n, 3))
    return x, np.asarray(manifold.project(on_geodesic + noise))


def jacobi_norms(manifold: Sphere | Euclidean) -> tuple[float, float]:
    """Return the bounds on the Jacobi fields that the paper prints (Appendix A, §4.2).

    ‖J_p(1)‖ and ‖J_v(1)‖ say how much a step of the footpoint, or of the velocity, moves
    the end of the geodesic. On the sphere cos 1 and sin 1 are printed; true is 1 for
    both (docs/errata.md, E20).

    Parameters
    ----------
    manifold : Sphere or Euclidean
        The manifold of the responses.

    Returns
    -------
    foot, velocity : float
        The two printed bounds.

    Examples
    --------
    >>> jacobi_norms(Euclidean(2))
    (1.0, 1.0)
    """
    if isinstance(manifold, Sphere):
        return float(np.cos(1)), float(np.sin(1))
    return 1.0, 1.0


def sequential_sampler(
    manifold: Sphere | Euclidean,
    x: np.ndarray,
    Y: np.ndarray,
    rng: np.random.Generator,
    m: int,
    velocities: int | None = None,
    thin: int = 10,
    law: str = "gradient",
    eps: tuple[float, float] = (1.0, 1.0),
) -> Samples:
    """Draw footpoints, and velocities at each of them, by the paper's walks. NOT PRIVATE.

    Each has a budget of its own, of which the paper claims pure ε-DP. For a private fit
    `curvedp.PrivateGeodesicRegression` draws both at once, for one budget.

    Parameters
    ----------
    manifold : Sphere or Euclidean
        The manifold of the responses.
    x, Y : array of shape (n,), array of shape (n, *point_shape)
        Predictors in [0, 1], and responses.
    rng : numpy.random.Generator
        The source of randomness.
    m : int
        The number of footpoints.
    velocities : int, optional
        The number of velocities at each footpoint; m if omitted.
    thin : int
        The number of steps of a walk for each sample.
    law : {"gradient", "displayed"}
        The reading of Appendix A: the density with the norm of the gradient, or with the
        energy.
    eps : (float, float)
        The ε > 0 of the footpoint and of the velocity.

    Returns
    -------
    Samples
        The fit and the draws.

    Raises
    ------
    ParameterError
        If an ε is not finite and > 0, or the law has another name.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, Y = sphere_data(20, 0.4, rng)
    >>> samples = sequential_sampler(Sphere(2), x, Y, rng, 3)
    >>> samples.footpoints.shape, samples.velocities.shape
    ((3, 3), (3, 3, 3))
    """
    _validate.choice("law", law, ("gradient", "displayed"))
    eps_foot = _validate.positive("eps[0]", eps[0])
    eps_velocity = _validate.positive("eps[1]", eps[1])
    n_velocities = m if velocities is None else velocities
    fit = fit_geodesic(manifold, x, Y)
    foot_potential, velocity_potential = _potentials(manifold, x, Y, fit, law)

    # The scales of both densities, as the paper has them.
    tau = float(fit.residuals(x, Y).max())
    norms = jacobi_norms(manifold)
    scales, reaches = _scales(len(x), tau, norms, law, (eps_foot, eps_velocity))

    # First the footpoints, then the velocities at each of them.
    footpoints = _draw_footpoints(
        manifold, fit, foot_potential, scales[0], reaches[0], m, thin, rng
    )
    drawn_velocities = _draw_velocities(
        manifold,
        fit,
        footpoints,
        velocity_potential,
        scales[1],
        reaches[1],
        n_velocities,
        thin,
        rng,
    )
    return Samples(fit, footpoints, drawn_velocities.swapaxes(0, 1))


def _draw_footpoints(
    manifold: Sphere | Euclidean,
    fit: GeodesicFit,
    potential: Potential,
    scale: float,
    reach: float,
    count: int,
    thin: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw footpoints by a random walk that starts at the fitted one.

    Parameters
    ----------
    manifold : Sphere or Euclidean
        The manifold of the responses.
    fit : GeodesicFit
        The least-squares geodesic.
    potential : callable
        The potential of footpoints.
    scale, reach, count, thin, rng
        As in `_random_walk`.

    Returns
    -------
    array of shape (count, *point_shape)
        The footpoints.
    """

    def move(p: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the points that geodesics from p with coordinates z lead to."""
        return np.asarray(manifold.exp(p, manifold.from_coordinates(p, z)))

    start = fit.footpoint[None]
    return _random_walk(
        start, potential, scale, reach, count, thin, rng, move, manifold.dim
    )[:, 0]


def _draw_velocities(
    manifold: Sphere | Euclidean,
    fit: GeodesicFit,
    footpoints: np.ndarray,
    potential: Callable[[np.ndarray, np.ndarray], np.ndarray],
    scale: float,
    reach: float,
    count: int,
    thin: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw velocities at each footpoint by random walks that start at the fitted one.

    Parameters
    ----------
    manifold : Sphere or Euclidean
        The manifold of the responses.
    fit : GeodesicFit
        The least-squares geodesic.
    footpoints : array of shape (m, *point_shape)
        The footpoints, one for each walk.
    potential : callable
        The potential of velocities at footpoints.
    scale, reach, count, thin, rng
        As in `_random_walk`.

    Returns
    -------
    array of shape (count, m, *point_shape)
        The velocities.
    """

    def move(v: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return velocities with tangent vectors of coordinates z added."""
        return np.asarray(v + np.asarray(manifold.from_coordinates(footpoints, z)))

    def potential_at_footpoints(v: np.ndarray) -> np.ndarray:
        """Return the potential of one velocity at each footpoint."""
        return potential(footpoints, v)

    start = np.asarray(manifold.transport(fit.footpoint, footpoints, fit.velocity))
    return _random_walk(
        start,
        potential_at_footpoints,
        scale,
        reach,
        count,
        thin,
        rng,
        move,
        manifold.dim,
    )


def _scales(
    n: int,
    tau: float,
    norms: tuple[float, float],
    law: str,
    eps: tuple[float, float],
) -> tuple[list[float], list[float]]:
    """Return the scales of both densities, and lengths of a step that suit them.

    The density is ∝ exp(−potential/scale). For the norm of the gradient the printed
    scale is Δ/ε with the sensitivity Δ = 2τ‖J‖/n. For the energy it is 2τ‖J‖, without
    ε; here it is divided by ε, which changes nothing at the paper's ε = 1. Steps should
    be about as long as the density is wide. Near the fit (p̂, v̂) the norm of the
    gradient grows like |p − p̂| and like |v − v̂|/3, and the energy like n|p − p̂|² and
    like n|v − v̂|²/3.

    Parameters
    ----------
    n : int
        The number of records.
    tau : float
        τ, the largest residual of the fit.
    norms : (float, float)
        ‖J_p(1)‖ and ‖J_v(1)‖.
    law : {"gradient", "displayed"}
        The reading of Appendix A.
    eps : (float, float)
        ε of the footpoint and of the velocity.

    Returns
    -------
    scales, reaches : list of float
        For the footpoint and the velocity: the scale, and the longest proposal.
    """
    scales = [2 * tau * norm / e for norm, e in zip(norms, eps, strict=True)]
    if law == "gradient":
        scales = [scale / n for scale in scales]
        return scales, [2 * scales[0], 6 * scales[1]]
    # 2.4 standard deviations of the normal law that the energy gives.
    foot_reach = 2.4 * np.sqrt(scales[0] / (2 * n))
    velocity_reach = 2.4 * np.sqrt(3 * scales[1] / (2 * n))
    return scales, [foot_reach, velocity_reach]


def _potentials(
    manifold: Sphere | Euclidean,
    x: np.ndarray,
    Y: np.ndarray,
    fit: GeodesicFit,
    law: str,
) -> tuple[Potential, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """Return the potentials of a footpoint, and of a velocity at a footpoint.

    A potential is the norm of the mean gradient of ½d² by p or by v ("gradient"), or the
    energy Σd² ("displayed"). For the footpoint the fitted velocity is carried along.

    Parameters
    ----------
    manifold : Sphere or Euclidean
        The manifold of the responses.
    x, Y : array of shape (n,), array of shape (n, *point_shape)
        The data.
    fit : GeodesicFit
        The least-squares geodesic.
    law : {"gradient", "displayed"}
        The reading of Appendix A.

    Returns
    -------
    of_footpoint, of_velocity : functions
        Of rows of footpoints; and of rows of footpoints and velocities.
    """
    gradients = descent_direction_function(manifold, x, Y, NO_CLIP, 1.0)

    def energy(p: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return Σd² of each geodesic to the responses."""
        predictions = manifold.exp(p[:, None], x[:, None] * v[:, None])
        distances = np.asarray(manifold.dist(predictions, Y))
        return np.asarray(np.sum(distances**2, axis=1))

    def potential(p: np.ndarray, v: np.ndarray, which: int) -> np.ndarray:
        """Return the potential by p (which = 0) or by v (which = 1)."""
        if law == "displayed":
            return energy(p, v)
        return np.asarray(np.linalg.norm(gradients(p, v)[which], axis=1))

    def of_footpoint(p: np.ndarray) -> np.ndarray:
        """Return the potential of footpoints, with the fitted velocity carried there."""
        carried = np.asarray(manifold.transport(fit.footpoint, p, fit.velocity))
        return potential(p, carried, 0)

    def of_velocity(p: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the potential of velocities at footpoints."""
        return potential(p, v, 1)

    return of_footpoint, of_velocity


def imposed(
    manifold: Sphere,
    fit: GeodesicFit,
    rng: np.random.Generator,
    m: int,
    distance: float,
    degrees: float,
) -> Samples:
    """Draw geodesics about a fit with isotropic normal noise of stated sizes.

    The paper prints how far its private geodesics are from the fit. Noise of just these
    sizes, without its sampler, shows what error they would have.

    Parameters
    ----------
    manifold : Sphere
        The sphere of dimension 2.
    fit : GeodesicFit
        The geodesic to which noise is added.
    rng : numpy.random.Generator
        The source of randomness.
    m : int
        The number of footpoints, and of velocities at each.
    distance : float
        The mean distance of the footpoints from the fitted one.
    degrees : float
        The standard deviation of the angles between the velocities and the fitted one.

    Returns
    -------
    Samples
        The fit and the draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> fit = fit_geodesic(Sphere(2), *sphere_data(20, 0.4, rng))
    >>> imposed(Sphere(2), fit, rng, 5, 0.01, 5.47).velocities.shape
    (5, 5, 3)
    """
    # The length of a normal vector of ℝ² has the mean √(π/2).
    z = rng.standard_normal((m, 2)) * distance / np.sqrt(np.pi / 2)
    steps = manifold.from_coordinates(fit.footpoint, z)
    footpoints = np.asarray(manifold.exp(fit.footpoint, steps))
    carried = np.asarray(manifold.transport(fit.footpoint, footpoints, fit.velocity))
    speed = np.linalg.norm(fit.velocity)
    noise = np.radians(degrees) * speed * rng.standard_normal((m, m, 2))
    turned = np.asarray(manifold.from_coordinates(footpoints[:, None], noise))
    return Samples(fit, footpoints, carried[:, None] + turned)


def _random_walk(
    state: np.ndarray,
    potential: Potential,
    scale: float,
    reach: float,
    count: int,
    thin: int,
    rng: np.random.Generator,
    move: Callable[[np.ndarray, np.ndarray], np.ndarray],
    dim: int,
) -> np.ndarray:
    """Draw from densities ∝ exp(−potential/scale) by Metropolis–Hastings walks.

    Several walks are run at the same time, one for each row of the state. NOT PRIVATE.

    Parameters
    ----------
    state : array of shape (walks, *point_shape)
        The start of each walk.
    potential : callable
        Returns the potential of each state.
    scale : float
        The scale of the density.
    reach : float
        Proposals are uniform in a ball of this radius.
    count : int
        The number of samples of each walk.
    thin : int
        The number of steps for each sample.
    rng : numpy.random.Generator
        The source of randomness.
    move : callable
        Returns the states that steps with given coordinates lead to.
    dim : int
        The number of coordinates of a step.

    Returns
    -------
    array of shape (count, walks, *point_shape)
        The samples.
    """
    value = potential(state)
    samples = []
    for step in range(BURN_IN + count * thin):
        # Uniform in a ball: a normal direction, and a length like U^{1/dim}.
        z = rng.standard_normal((len(state), dim))
        lengths = reach * rng.random(len(state)) ** (1 / dim)
        z *= (lengths / np.linalg.norm(z, axis=1))[:, None]
        proposal = move(state, z)
        proposed_value = potential(proposal)

        # Accept by the ratio of the densities.
        log_ratio = (value - proposed_value) / scale
        is_accepted = np.log(rng.random(len(state))) < log_ratio
        state = np.where(is_accepted[:, None], proposal, state)
        value = np.where(is_accepted, proposed_value, value)
        if step >= BURN_IN and (step - BURN_IN) % thin == thin - 1:
            samples.append(state)
    return np.stack(samples)


def errors(
    manifold: Manifold, samples: Samples, x: np.ndarray, Y: np.ndarray
) -> np.ndarray:
    """Return the mean distance of the data from each drawn geodesic.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    samples : Samples
        m footpoints with k velocities each.
    x, Y : array of shape (n,), array of shape (n, *point_shape)
        The data.

    Returns
    -------
    array of shape (m, k)
        The mean absolute error of each pair of footpoint and velocity.
    """
    p = samples.footpoints[:, None, None]
    steps = x[:, None] * samples.velocities[:, :, None]
    distances = np.asarray(manifold.dist(manifold.exp(p, steps), Y))
    return np.asarray(distances.mean(axis=-1))


def angles(
    manifold: Manifold, fit: GeodesicFit, p: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """Return signed angles in degrees from the fitted velocity, carried to p, to each v.

    Parameters
    ----------
    manifold : Manifold
        A manifold of dimension 2.
    fit : GeodesicFit
        The geodesic whose velocity is the reference.
    p : array of shape point_shape
        A footpoint.
    v : array of shape (..., *point_shape)
        Velocities at p.

    Returns
    -------
    array of shape (...,)
        Angles in (−180, 180].
    """
    carried = manifold.transport(fit.footpoint, p, fit.velocity)
    reference = np.asarray(manifold.to_coordinates(p, carried))
    z = np.asarray(manifold.to_coordinates(p, v))
    cross = reference[0] * z[..., 1] - reference[1] * z[..., 0]
    return np.asarray(np.degrees(np.arctan2(cross, z @ reference)))
