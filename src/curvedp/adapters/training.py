"""Clipping and noise around an optimizer of torch (needs torch).
Parameters may live on manifolds of geoopt: gradients are clipped and noised in the
manifolds' own metrics.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from curvedp import _validate
from curvedp._silence import numerical_silence, quiet_about_records
from curvedp.adapters.geoopt import from_geoopt
from curvedp.core.mechanism import check_guarantee
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Manifold
from curvedp.ledger import Ledger
from curvedp.privacy import Guarantee, PrivacyUnit
from curvedp.privacy.optimizer_accounting import rounded_clip, rsgd_noise
from curvedp.randomness import SecureSource, Source


@dataclass(eq=False)
class PrivateOptimizer:
    """An optimizer of torch that sees only noisy means of clipped Riemannian gradients.

    Whatever the wrapped optimizer does with them is post-processing.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        The optimizer that makes the steps, such as geoopt's `RiemannianSGD`, with
        one or several parameter groups.
    n : int
        The public number of records.
    steps : int
        The number of steps in all.
    batch_size : int
        The expected size of a batch; a coin decides for each record whether it is in
        the batch (see `sample`).
    clip : float
        The largest length of the gradient of one record, over all parameters together,
        in the manifolds' own metrics.
    guarantee : Guarantee
        The guarantee of all steps together, for replace-one adjacency.
    ledger : Ledger, optional
        The ledger that is charged for all steps at once.
    source : Source
        The source of batches and noise.

    Attributes
    ----------
    noise : float
        The standard deviation of the noise in each coordinate of a mean gradient.
    steps_left : int
        The number of steps that are paid for and not yet made.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Before anything is drawn.
    """

    optimizer: Any
    n: int
    steps: int
    batch_size: int
    clip: float
    guarantee: Guarantee
    ledger: Ledger | None = None
    source: Source = field(default_factory=SecureSource)

    def __post_init__(self) -> None:
        """Check all parameters, calibrate the noise, then charge the ledger.

        All steps are paid for at once, before the first batch is drawn.

        Raises
        ------
        ParameterError
            For a parameter out of its range, or a manifold that this library lacks.
        UnattainableGuarantee
            If no amount of Gaussian noise meets the guarantee.
        BudgetExceeded
            If the ledger has less left.
        """
        _validate.integer("n", self.n, 2)
        _validate.integer("steps", self.steps, 1)
        _validate.integer("batch_size", self.batch_size, 1)
        if self.batch_size > self.n:
            raise ParameterError(
                f"is more than the {self.n} records",
                parameter="batch_size",
                value=self.batch_size,
            )
        self._parameters = [
            _FramedParameter(parameter)
            for group in self.optimizer.param_groups
            for parameter in group["params"]
        ]
        self.noise = self._calibrate_noise()
        self.steps_left = self.steps

        # The size of the batch that `sample` drew for the next step; None before that.
        self._batch_count: int | None = None
        if self.ledger is not None:
            self.ledger.spend(
                self.guarantee,
                "training",
                unit=PrivacyUnit.RECORD,
                n=self.n,
                statistic="clipped gradients",
            )

    def _calibrate_noise(self) -> float:
        """Return the noise scale of a mean gradient that attains the guarantee.

        The clip is enlarged by the rounding errors of the coarsest floating-point type
        among the parameters. Batches amplify privacy, which the scale includes.

        Returns
        -------
        float
            The standard deviation of the noise in each coordinate of a mean gradient.
        """
        float_types = [parameter.float_type for parameter in self._parameters]
        coarsest_type = max(float_types, key=lambda kind: kind.eps).dtype
        dim = sum(parameter.space.dim for parameter in self._parameters)
        clip_with_rounding = rounded_clip(
            _validate.positive("clip", self.clip),
            dim,
            coarsest_type,
            self.n,
            self.batch_size,
        )
        check_guarantee(self.guarantee)
        return rsgd_noise(
            self.n,
            self.steps,
            self.batch_size,
            clip_with_rounding,
            self.guarantee,
            "poisson",
        )

    def sample(self) -> np.ndarray:
        """Draw the batch of the next step, a coin for each record.

        Returns
        -------
        array of int
            The indices of the records whose gradients `step` expects.
        """
        is_in_batch = self.source.uniform(self.n) < self.batch_size / self.n
        batch = np.flatnonzero(is_in_batch)
        self._batch_count = len(batch)
        return batch

    def step(self, gradients: list[Any]) -> None:
        """Make one step with the gradients of the sampled records.

        Parameters
        ----------
        gradients : list of tensors
            For each parameter the ordinary (Euclidean) gradients of the records that
            `sample` returned, of shape (records, *parameter.shape).

        Raises
        ------
        ParameterError
            If no batch was sampled, all steps are made, or the shapes do not fit.
        """
        if self._batch_count is None or not self.steps_left:
            raise ParameterError(
                "call sample before each step; only as many steps can be made as were "
                "paid for"
            )
        expected_shapes = [
            (self._batch_count, *parameter.tensor.shape)
            for parameter in self._parameters
        ]
        if [tuple(gradient.shape) for gradient in gradients] != expected_shapes:
            raise ParameterError(
                f"gradients must be of {self._batch_count} records, "
                "one array for each parameter"
            )

        with quiet_about_records():
            total = clipped_sum(self._parameters, gradients, self.clip)
        noise = self.noise * self.source.normal(total.shape)
        noisy_mean = total / self.batch_size + noise
        self.steps_left -= 1
        self._batch_count = None

        ends = np.cumsum([parameter.space.dim for parameter in self._parameters])[:-1]
        coordinates_by_parameter = np.split(noisy_mean, ends)
        for parameter, coordinates in zip(
            self._parameters, coordinates_by_parameter, strict=True
        ):
            parameter.set_gradient(coordinates)
        self.optimizer.step()


class GradientFrame(Protocol):
    """A parameter that knows its gradients in an orthonormal frame."""

    def coordinates(self, gradients: Any) -> np.ndarray:
        """Return gradients, one for each record, as rows of coordinates.

        Parameters
        ----------
        gradients : tensor of shape (records, *parameter.shape)
            Ordinary (Euclidean) gradients.
        """


class _FramedParameter:
    """A parameter of torch with an orthonormal frame of our manifold at its value.

    Attributes
    ----------
    tensor : torch.nn.Parameter
        The parameter.
    foreign_manifold : geoopt.Manifold or None
        The manifold of a geoopt parameter; None for an ordinary parameter.
    space : Manifold
        Our manifold with the same metric.
    """

    def __init__(self, tensor: Any) -> None:
        """Find our manifold with the metric of a parameter.

        Parameters
        ----------
        tensor : torch.nn.Parameter
            The parameter: an ordinary one, which is flat, or one of geoopt.

        Raises
        ------
        ParameterError
            If this library has no such manifold.
        """
        self.tensor = tensor
        self.foreign_manifold = _geoopt_manifold(tensor)
        is_flat = (
            self.foreign_manifold is None
            or type(self.foreign_manifold).__name__ == "Euclidean"
        )
        if is_flat:
            self.space: Manifold = Euclidean(tensor.numel())
        else:
            self.space = from_geoopt(self.foreign_manifold, tuple(tensor.shape))

    @property
    def float_type(self) -> "np.finfo[Any]":
        """The precision of the parameter's numbers."""
        return np.finfo(self.tensor.detach().cpu().numpy().dtype)

    @property
    def _point(self) -> np.ndarray:
        """The parameter's value as a point of our manifold, in double precision."""
        values = self.tensor.detach().cpu().double().numpy()
        return np.asarray(self.space.project(values.reshape(self.space.point_shape)))

    def coordinates(self, gradients: Any) -> np.ndarray:
        """Return the Riemannian gradients that belong to ordinary gradients.

        Parameters
        ----------
        gradients : tensor of shape (records, *tensor.shape)
            Ordinary gradients. Each row of the result depends on its own record alone.

        Returns
        -------
        array of shape (records, space.dim)
            Coordinates of the Riemannian gradients in the frame.
        """
        if self.foreign_manifold is not None:
            # Some manifolds of geoopt write into their argument, hence the copy.
            gradients = self.foreign_manifold.egrad2rgrad(
                self.tensor.detach(), gradients.clone()
            )
        vectors = gradients.detach().cpu().double().numpy()
        vectors = vectors.reshape(-1, *self.space.point_shape)
        return np.asarray(self.space.to_coordinates(self._point, vectors))

    def set_gradient(self, coordinates: np.ndarray) -> None:
        """Set the ordinary gradient whose Riemannian gradient has these coordinates.

        With v the Riemannian gradient it is the derivative of w ↦ ⟨v, w⟩ in the metric
        at the parameter, which automatic differentiation computes.

        Parameters
        ----------
        coordinates : array of shape (space.dim,)
            The noisy mean gradient of this parameter, in the frame.
        """
        import torch

        point = self.tensor.detach()
        tangent = np.asarray(self.space.from_coordinates(self._point, coordinates))
        gradient = torch.as_tensor(tangent).reshape(point.shape).to(point)
        if self.foreign_manifold is not None:
            w = torch.zeros_like(gradient, requires_grad=True)
            inner_product = self.foreign_manifold.inner(point, gradient, w).sum()
            (gradient,) = torch.autograd.grad(inner_product, w)
        self.tensor.grad = gradient


def _geoopt_manifold(tensor: Any) -> Any:
    """Return the manifold of a geoopt parameter, or None for an ordinary parameter.

    Parameters
    ----------
    tensor : torch.nn.Parameter
        The parameter; that of geoopt has an attribute `manifold`.
    """
    try:
        return tensor.manifold
    except AttributeError:
        return None


def clipped_sum(
    parameters: Sequence[GradientFrame], gradients: list[Any], clip: float
) -> np.ndarray:
    """Return the sum of the records' gradients, each clipped to length `clip`.

    Parameters
    ----------
    parameters : sequence of GradientFrame
        The parameters, which turn gradients into coordinates.
    gradients : list of tensors
        For each parameter the gradients of the records.
    clip : float
        The largest length of one record's gradient, over all parameters together.

    Returns
    -------
    array
        The sum in coordinates. A record whose gradient is not finite contributes 0.
    """
    coordinates_by_parameter = [
        parameter.coordinates(gradients_of_parameter)
        for parameter, gradients_of_parameter in zip(parameters, gradients, strict=True)
    ]
    rows = np.concatenate(coordinates_by_parameter, axis=1)
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    with numerical_silence():
        # A length that overflows is infinite, and its row is scaled to 0.
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        factors = np.minimum(1.0, clip / np.maximum(lengths, clip))
        return np.asarray((rows * factors).sum(axis=0))
