"""Geodesic regression WITHOUT privacy: the least-squares geodesic of Fletcher (2011).
The model predicts responses by Exp(p, Σ_k x_k·v_k), with predictors x_k, a point p and
velocities v_k. The fit minimizes the mean squared distance of predictions and
responses, by the method of Levenberg and Marquardt. It is for public data, for
comparison with the private estimator, and for tests.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry import frechet_mean
from curvedp.geometry.manifold import Manifold, check_manifold, follow_geodesic
from curvedp.regression.gradient import residuals_at
from curvedp.regression.jacobi import check_symmetric, cos_and_sinc, jacobi_frame

# The fit ends when the gradient is at most `_GRADIENT_TOLERANCE` long, or after
# `_MAX_STEPS` steps.
_GRADIENT_TOLERANCE = 1e-10
_MAX_STEPS = 200

# The damping of Levenberg-Marquardt, relative to the mean diagonal entry of the normal
# matrix: the first value after a step that does not help, the value below which damping
# is switched off, the value at which the fit gives up, and the factor by which the
# damping changes.
_FIRST_DAMPING = 1e-4
_NEGLIGIBLE_DAMPING = 1e-6
_MAX_DAMPING = 1e8
_DAMPING_FACTOR = 10


@dataclass(frozen=True, eq=False)
class GeodesicFit:
    """A fitted model x ↦ Exp(p, Σ_k (x_k − at_k)·v_k).

    Attributes
    ----------
    manifold : Manifold
        The symmetric space of the responses.
    footpoint : array of shape point_shape
        p, the predicted point at x = at.
    velocity : array
        v: of shape point_shape for predictors of shape (n,), and (k, *point_shape) for
        predictors of shape (n, k).
    at : float or array of shape (k,)
        The predictor at which the prediction is the footpoint.
    gradient_norm : float
        The length of the gradient (∇_p E, ∇_v E) at the fit, in centered predictors,
        where E is the mean of half the squared residuals. It is at most 1e-10 if the
        fit has converged.
    steps : int
        The number of steps of the fit.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.regression import fit_geodesic
    >>> x = np.linspace(0, 1, 5)
    >>> line = fit_geodesic(Euclidean(1), x, 2 * x[:, None] + 1)
    >>> line.predict([0.5]).round(6).tolist()
    [[2.0]]
    """

    manifold: Manifold
    footpoint: np.ndarray
    velocity: np.ndarray
    at: np.ndarray | float
    gradient_norm: float
    steps: int

    def predict(self, x: Any) -> np.ndarray:
        """Return the points of the geodesic at these predictors.

        Parameters
        ----------
        x : array of shape (n,) or (n, k)
            Predictors, in the units of those that were fitted.

        Returns
        -------
        array of shape (n, *point_shape)
            One predicted point for each row of x.
        """
        # A single velocity gets an axis for the number of its predictor.
        velocities = self.velocity
        if velocities.ndim == len(self.manifold.point_shape):
            velocities = velocities[None]
        centered = np.asarray(x, dtype=np.float64) - self.at
        moves = _vectors_to_predictions(centered, velocities)
        return np.asarray(self.manifold.exp(self.footpoint, moves))

    def residuals(self, x: Any, Y: Any) -> np.ndarray:
        """Return the geodesic distances from the predictions at x to the responses Y.

        Parameters
        ----------
        x : array of shape (n,) or (n, k)
            Predictors, in the units of those that were fitted.
        Y : array of shape (n, *point_shape)
            The responses that belong to them.

        Returns
        -------
        array of shape (n,)
            The distances, not negative.
        """
        responses = np.asarray(Y, dtype=np.float64)
        return np.asarray(self.manifold.dist(self.predict(x), responses))

    def score(self, x: Any, Y: Any) -> float:
        """Return R² = 1 − mean squared residual / Fréchet variance (Fletcher 2011, §4).

        Parameters
        ----------
        x : array of shape (n,) or (n, k)
            Predictors, in the units of those that were fitted.
        Y : array of shape (n, *point_shape)
            The responses that belong to them. Their Fréchet variance is the mean
            squared distance from their Fréchet mean.

        Returns
        -------
        float
            At most 1, which means a perfect fit; 0 or less if the geodesic predicts no
            better than the Fréchet mean does.
        """
        responses = np.asarray(Y, dtype=np.float64)
        mean = frechet_mean(self.manifold, responses)
        variance = np.mean(np.asarray(self.manifold.dist(mean, responses)) ** 2)
        return float(1 - np.mean(self.residuals(x, responses) ** 2) / variance)


def fit_geodesic(manifold: Manifold, x: Any, Y: Any, *, at: Any = None) -> GeodesicFit:
    """Fit the least-squares geodesic of responses Y on predictors x, without privacy.

    During the fit, predictors are centered at their mean, which makes p and v nearly
    independent of each other.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    x : array of shape (n,) or (n, k)
        Predictors.
    Y : array of shape (n, *point_shape)
        Responses.
    at : float or array of shape (k,), optional
        The predictor at which the prediction is the returned footpoint. By default it
        is 0 for one predictor. For several predictors it is their mean; if another
        value is chosen, another model is fitted.

    Returns
    -------
    GeodesicFit
        The minimizer of the mean squared residual, or the last iterate if the fit has
        not converged; `gradient_norm` shows which.

    Raises
    ------
    ParameterError
        If the shapes do not fit, an entry is not finite, there are too few records, or
        the space is not symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> M, x = Sphere(2), np.linspace(0, 1, 20)
    >>> Y = M.exp(M.origin, x[:, None] * np.array([0.0, 0.8, 0.3]))
    >>> fit = fit_geodesic(M, x, Y)
    >>> bool(np.linalg.norm(fit.velocity - [0.0, 0.8, 0.3]) < 1e-9)
    True
    """
    x, Y = _convert_data(manifold, x, Y)
    if x.ndim == 1:
        return _fit_one_predictor(manifold, x[:, None], Y, 0.0 if at is None else at)

    center = x.mean(axis=0)
    if at is not None:
        center = np.broadcast_to(np.asarray(at, float), x.shape[1:])
    solution = _minimize(manifold, x - center, Y)
    return GeodesicFit(
        manifold=manifold,
        footpoint=solution.point,
        velocity=solution.velocities,
        at=center,
        gradient_norm=solution.gradient_norm,
        steps=solution.steps,
    )


def _fit_one_predictor(
    manifold: Manifold, x: np.ndarray, Y: np.ndarray, at: Any
) -> GeodesicFit:
    """Fit a geodesic at the mean predictor, then follow it to the footpoint.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    x : array of shape (n, 1)
        Predictors.
    Y : array of shape (n, *point_shape)
        Responses.
    at : float
        The predictor at which the prediction is the returned footpoint.

    Returns
    -------
    GeodesicFit
        The least-squares geodesic.
    """
    center = x.mean(axis=0)
    solution = _minimize(manifold, x - center, Y)
    target = float(at)
    footpoint, velocity = follow_geodesic(
        manifold, solution.point, solution.velocities[0], target - float(center[0])
    )
    return GeodesicFit(
        manifold=manifold,
        footpoint=np.asarray(footpoint),
        velocity=np.asarray(velocity),
        at=target,
        gradient_norm=solution.gradient_norm,
        steps=solution.steps,
    )


def _convert_data(manifold: Manifold, x: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Convert predictors and responses to arrays, and check that they can be fitted.

    Called by `fit_geodesic` on the arguments of the user.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    x : array-like of shape (n,) or (n, k)
        Predictors.
    Y : array-like of shape (n, *point_shape)
        Responses.

    Returns
    -------
    x, Y : arrays
        The same numbers as arrays of floats.

    Raises
    ------
    ParameterError
        If shapes do not fit, values are not finite, or there are too few records.
    """
    check_symmetric(check_manifold(manifold))
    x = _validate.array("x", x)
    Y = _validate.array("Y", Y)
    if Y.shape[1:] != manifold.point_shape or x.ndim not in (1, 2) or len(x) != len(Y):
        raise ParameterError(
            f"x of shape {x.shape} and Y of shape {Y.shape} do not fit {manifold!r}"
        )
    n_predictors = 1 if x.ndim == 1 else x.shape[1]
    if len(x) <= n_predictors:
        raise ParameterError(f"{len(x)} records do not determine a geodesic")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(Y))):
        raise ParameterError("x and Y must be finite")
    return x, Y


def _vectors_to_predictions(x: np.ndarray, velocities: np.ndarray) -> np.ndarray:
    """Return each record's tangent vector w = Σ_k x_k·v_k at p: its prediction is Exp(p, w).

    Parameters
    ----------
    x : array of shape (n,) or (n, k)
        Centered predictors.
    velocities : array of shape (k, *point_shape)
        v₁, …, v_k, tangent vectors at p.

    Returns
    -------
    array of shape (n, *point_shape)
        One tangent vector at p for each record.
    """
    return np.tensordot(x.reshape(-1, len(velocities)), velocities, axes=1)


class _Solution(NamedTuple):
    """A minimizer (p, v₁ … v_k) of the energy E, and how many steps it took.

    E is the mean of half the squared residuals, in centered predictors.
    """

    point: np.ndarray  # p, of shape point_shape
    velocities: np.ndarray  # v₁, …, v_k, of shape (k, *point_shape)
    gradient_norm: float  # the length of the gradient of E there
    steps: int  # the number of steps that were tried


class _QuadraticModel(NamedTuple):
    """The energy E near a pair (p, V), to second order, in coordinates at p.

    V = (v₁, …, v_k) are the velocities, and E is the mean of half the squared
    residuals. A step (z_p, z_v) of the pair changes E by about
    −negative_gradient·step + ½·step·normal_matrix·step.

    Attributes
    ----------
    energy : float
        E at the pair.
    negative_gradient : array of shape ((k + 1)·dim,)
        Minus the gradient of E, a direction of descent.
    normal_matrix : array of shape ((k + 1)·dim, (k + 1)·dim)
        The matrix of Gauss-Newton, in place of the Hessian of E.
    """

    energy: float
    negative_gradient: np.ndarray
    normal_matrix: np.ndarray


def _minimize(manifold: Manifold, x: np.ndarray, Y: np.ndarray) -> _Solution:
    """Minimize the mean squared residual by Levenberg-Marquardt on (p, v₁ … v_k).

    Each step solves the normal equations of the linearized problem. If a step does not
    help, a multiple of the identity is added to the matrix of these equations. This
    damping shortens the next step and turns it toward the gradient.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    x : array of shape (n, k)
        Centered predictors.
    Y : array of shape (n, *point_shape)
        Responses.

    Returns
    -------
    _Solution
        The pair (p, V) after the last step that was taken. The gradient of E there is
        at most 1e-10 long, unless the fit gave up before.
    """
    pair = _tangent_regression(manifold, x, Y)
    model = _quadratic_model(manifold, *pair, x, Y)
    damping = 0.0
    steps = 0
    gradient_norm = np.linalg.norm(model.negative_gradient)
    while gradient_norm > _GRADIENT_TOLERANCE and steps < _MAX_STEPS:
        steps += 1
        step = _damped_step(model, damping)
        trial = _move_pair(manifold, *pair, step.reshape(-1, manifold.dim))
        trial_model = _quadratic_model(manifold, *trial, x, Y)

        # A step helps if it passes one of two tests. Usually it lowers the energy. Near
        # the minimum energies are equal up to round-off; there a step helps if it makes
        # the gradient shorter.
        trial_gradient_norm = np.linalg.norm(trial_model.negative_gradient)
        has_lower_energy = trial_model.energy < model.energy
        has_shorter_gradient = trial_gradient_norm < gradient_norm

        if has_lower_energy or has_shorter_gradient:
            # Take the step, and damp the next one less.
            pair = trial
            model = trial_model
            gradient_norm = trial_gradient_norm
            is_large = damping > _NEGLIGIBLE_DAMPING
            damping = damping / _DAMPING_FACTOR if is_large else 0.0
        else:
            # Stay, and damp the next step more, or give up.
            damping = max(_DAMPING_FACTOR * damping, _FIRST_DAMPING)
            if damping > _MAX_DAMPING:
                break
    point, velocities = pair
    return _Solution(point, velocities, float(gradient_norm), steps)


def _tangent_regression(
    manifold: Manifold, x: np.ndarray, Y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pair (p, V) at which the fit starts.

    It comes from linear regression in the tangent space at the responses' Fréchet mean.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    x : array of shape (n, k)
        Centered predictors.
    Y : array of shape (n, *point_shape)
        Responses.

    Returns
    -------
    p, velocities : arrays of shape point_shape and (k, *point_shape)
        The middle of the geodesic, and its velocities there.
    """
    mean = np.asarray(frechet_mean(manifold, Y))
    logs = np.asarray(manifold.to_coordinates(mean, manifold.log(mean, Y)))
    design = np.column_stack([np.ones(len(x)), x])
    coefficients = np.linalg.lstsq(design, logs, rcond=None)[0]
    no_velocities = np.zeros((x.shape[1], *manifold.point_shape))
    return _move_pair(manifold, mean, no_velocities, coefficients)


def _damped_step(model: _QuadraticModel, damping: float) -> np.ndarray:
    """Return the step that solves the damped normal equations.

    Called by `_minimize`, which takes the step or tries a more damped one.

    Parameters
    ----------
    model : _QuadraticModel
        The energy near the present pair.
    damping : float
        The multiple of the identity that is added to the normal matrix, relative to the
        mean of its diagonal.

    Returns
    -------
    array of shape ((k + 1)·dim,)
        The step, in coordinates.
    """
    size = len(model.normal_matrix)
    mean_diagonal = np.eye(size) * np.trace(model.normal_matrix) / size
    damped_matrix = model.normal_matrix + damping * mean_diagonal
    solution = np.linalg.lstsq(damped_matrix, model.negative_gradient, rcond=None)
    return np.asarray(solution[0])


def _move_pair(
    manifold: Manifold, p: np.ndarray, velocities: np.ndarray, step: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pair (p, V) after a step of the fit.

    First the velocities are changed at p. Then p moves along a geodesic, and the
    velocities are transported in parallel along it.

    Called by `_minimize` for every trial step.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    p : array of shape point_shape
        The middle of the geodesic.
    velocities : array of shape (k, *point_shape)
        V = (v₁, …, v_k), tangent vectors at p.
    step : array of shape (k + 1, dim)
        The step in coordinates at p: the first row is that of p, row j that of v_j.

    Returns
    -------
    p, velocities : arrays
        The new pair, of the same shapes.
    """
    velocity_changes = np.asarray(manifold.from_coordinates(p, step[1:]))
    move = np.asarray(manifold.from_coordinates(p, step[0]))
    end = manifold.exp(p, move)
    transported = np.asarray(manifold.transport(p, end, velocities + velocity_changes))
    # The projection removes the rounding errors of exp.
    return np.asarray(manifold.project(end)), transported


def _quadratic_model(
    manifold: Manifold,
    p: np.ndarray,
    velocities: np.ndarray,
    x: np.ndarray,
    Y: np.ndarray,
) -> _QuadraticModel:
    """Return energy, negative gradient and Gauss-Newton matrix at (p, v₁ … v_k).

    The prediction of a record is Exp(p, w) with w = Σ_k x_k·v_k, a row of `moves`. Its
    derivatives are cos√R in p and x_k·sinc√R in v_k, where R is the curvature operator
    of w (`jacobi.py`). Gauss-Newton takes the derivative of a residual in its
    prediction to be minus the identity, which is true up to O(curvature·residual²). The
    gradient is exact.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    p : array of shape point_shape
        The middle of the geodesic.
    velocities : array of shape (k, *point_shape)
        v₁, …, v_k, tangent vectors at p.
    x : array of shape (n, k)
        Centered predictors.
    Y : array of shape (n, *point_shape)
        Responses.

    Returns
    -------
    _QuadraticModel
        The model of the mean of half the squared residuals.
    """
    if x.shape[1] == 1:
        return _quadratic_model_on_one_geodesic(manifold, p, velocities[0], x, Y)
    moves = _vectors_to_predictions(x, velocities)
    residuals = residuals_at(manifold, p, moves, Y)
    eigenvalues, frame = jacobi_frame(manifold, p, moves)
    cos, sinc = cos_and_sinc(eigenvalues)
    point_derivative = (frame * cos[:, None]) @ frame.mT
    velocity_derivative = (frame * sinc[:, None]) @ frame.mT

    # The Jacobian of all predictions: dim rows for each record, and a block of dim
    # columns for p and for each v_k.
    n, dim = residuals.shape
    blocks = [point_derivative]
    blocks += [column[:, None, None] * velocity_derivative for column in x.T]
    jacobian = np.stack(blocks, axis=2).reshape(n * dim, -1)
    return _QuadraticModel(
        float(np.sum(residuals * residuals) / (2 * n)),
        jacobian.T @ residuals.ravel() / n,
        jacobian.T @ jacobian / n,
    )


def _quadratic_model_on_one_geodesic(
    manifold: Manifold,
    p: np.ndarray,
    velocity: np.ndarray,
    x: np.ndarray,
    Y: np.ndarray,
) -> _QuadraticModel:
    """Return energy, negative gradient and Gauss-Newton matrix for one predictor.

    This is `_quadratic_model` for one predictor, but faster. The prediction of a record
    is Exp(p, xv). Its derivatives are cos√R in p and x·sinc√R in v, where R = x²R_v is
    the curvature operator of xv. So one eigenbasis of R_v, the Jacobi frame, can be
    used for all records.

    Parameters
    ----------
    manifold : Manifold
        A symmetric space.
    p : array of shape point_shape
        The middle of the geodesic.
    velocity : array of shape point_shape
        v, a tangent vector at p.
    x : array of shape (n, 1)
        Centered predictors.
    Y : array of shape (n, *point_shape)
        Responses.

    Returns
    -------
    _QuadraticModel
        The model of the mean of half the squared residuals.
    """
    moves = _vectors_to_predictions(x, velocity[None])
    residuals = residuals_at(manifold, p, moves, Y)

    # In the frame, the derivatives in p and in v are diagonal: one number for each
    # record and each vector of the frame.
    eigenvalues, frame = jacobi_frame(manifold, p, velocity)
    cos, sinc = cos_and_sinc(eigenvalues * x * x)
    factors = (cos, x * sinc)
    in_frame = residuals @ frame

    # Minus the gradient in p and in v, in coordinates at p.
    n, dim = residuals.shape
    negative_gradient = np.stack(
        [frame @ (factor * in_frame).mean(axis=0) for factor in factors]
    )

    # Blocks of the normal matrix: rows and columns belong to p (0) or to v (1).
    normal_matrix = np.empty((2, dim, 2, dim))
    for row, row_factor in enumerate(factors):
        for column, column_factor in enumerate(factors):
            mean_product = (row_factor * column_factor).mean(axis=0)
            normal_matrix[row, :, column, :] = (frame * mean_product) @ frame.T
    return _QuadraticModel(
        float(np.sum(residuals * residuals) / (2 * n)),
        negative_gradient.ravel(),
        normal_matrix.reshape(2 * dim, 2 * dim),
    )
