"""Harmonic moments of the noise of a report: by how much it shrinks each frequency.

Isotropic noise about x multiplies every harmonic of degree l by one public number
(Funk and Hecke): E Y_l(report) = a_l·Y_l(x). Dividing by a_l takes the bias out.
Theorem N4 (docs/theory/local.md) has the proof.
"""

import math

import numpy as np
from scipy.special import eval_legendre

from curvedp.errors import ParameterError
from curvedp.geometry import Sphere, Torus
from curvedp.local.bounded import BoundedNoise
from curvedp.local.mechanism import LocalMechanism
from curvedp.local.metric import MetricLaplace
from curvedp.local.torus import TorusLaplace

# Nodes of Gauss and Legendre's rule on each of so many panels of radii.
_NODES = 48
_PANELS = 24

# Radii beyond this many scales have no weight in doubles: a Laplace law needs 45, plus
# what the volume of high dimension adds.
_MAX_SCALES = 45.0


class RadialLaw:
    """Nodes and weights of the distance from record to report on a sphere.

    Parameters
    ----------
    mechanism : LocalMechanism
        Noise about a record of a sphere, or of the Earth.

    Attributes
    ----------
    radii, weights : arrays
        A quadrature rule; the weights add up to 1.
    """

    def __init__(self, mechanism: LocalMechanism) -> None:
        manifold = mechanism.space.manifold
        if not isinstance(manifold, Sphere):
            raise ParameterError(f"{manifold!r} is not a sphere")
        scale, is_gaussian = _noise(mechanism)
        reach = min(math.pi, (_MAX_SCALES + manifold.dim) * scale)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        edges = np.linspace(0.0, reach, _PANELS + 1)
        half = np.diff(edges)[:, None] / 2
        self.radii = ((edges[:-1, None] + half) + half * nodes).ravel()
        q = self.radii / scale
        log_weight = -q * q / 2 if is_gaussian else -q
        log_density = log_weight + (manifold.dim - 1) * np.log(np.sin(self.radii))
        mass = (half * weights).ravel() * np.exp(log_density - log_density.max())
        self.weights = mass / mass.sum()

    @property
    def mean_cosine(self) -> float:
        """E cos r: the mean of a report is this multiple of the record."""
        versine = 2 * np.sin(self.radii / 2) ** 2
        return float(1 - versine @ self.weights)

    @property
    def mean_squared_sine(self) -> float:
        """E sin² r: the variance of a report across the record, in all directions."""
        return float(np.sin(self.radii) ** 2 @ self.weights)

    def legendre(self, degree: int) -> np.ndarray:
        """Return a_l = E P_l(cos r) for l = 0, …, degree; on the two-sphere.

        Parameters
        ----------
        degree : int
            The largest l.
        """
        cosines = np.cos(self.radii)
        return np.array(
            [
                float(eval_legendre(order, cosines) @ self.weights)
                for order in range(degree + 1)
            ]
        )


def _noise(mechanism: LocalMechanism) -> tuple[float, bool]:
    """Return the scale of isotropic noise, and whether it is Gaussian.

    Parameters
    ----------
    mechanism : LocalMechanism
        What draws the reports.
    """
    if isinstance(mechanism, MetricLaplace):
        return mechanism.scale, False
    if isinstance(mechanism, BoundedNoise):
        return mechanism.scale, mechanism.kind == "gaussian"
    raise ParameterError(
        f"{mechanism!r} has an estimator of its own: its estimate_mean"
    )


def torus_moments(mechanism: LocalMechanism, frequencies: np.ndarray) -> np.ndarray:
    """Return E cos⟨k, noise⟩ on a torus, for vectors k of whole numbers.

    Parameters
    ----------
    mechanism : LocalMechanism
        Noise about a record of a torus.
    frequencies : array, shape (m, dim)
        The k.
    """
    manifold = mechanism.space.manifold
    if not (isinstance(manifold, Torus) and isinstance(mechanism, MetricLaplace)):
        raise ParameterError(f"{mechanism!r} is not MetricLaplace on a torus")
    return TorusLaplace(manifold.dim, mechanism.scale).characteristic(frequencies)
