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


class RadialDistribution:
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
        """Compute nodes and weights of the distance from the mechanism's noise."""
        manifold = mechanism.space.manifold
        if not isinstance(manifold, Sphere):
            raise ParameterError(f"{manifold!r} is not a sphere")
        scale, is_gaussian = _noise_scale_and_kind(mechanism)

        # Gauss and Legendre's rule on equal panels from 0 to the largest radius.
        reach = min(math.pi, (_MAX_SCALES + manifold.dim) * scale)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        edges = np.linspace(0.0, reach, _PANELS + 1)
        half_widths = np.diff(edges)[:, np.newaxis] / 2
        self.radii = (
            (edges[:-1, np.newaxis] + half_widths) + half_widths * nodes
        ).ravel()

        # The density of the radius r is e^{−r²/(2·scale²)} or e^{−r/scale}, times the
        # volume sin(r)^{dim − 1} of the sphere of radius r about the record.
        radii_in_scales = self.radii / scale
        if is_gaussian:
            log_decay = -radii_in_scales * radii_in_scales / 2
        else:
            log_decay = -radii_in_scales
        log_density = log_decay + (manifold.dim - 1) * np.log(np.sin(self.radii))
        mass = (half_widths * weights).ravel() * np.exp(log_density - log_density.max())
        self.weights = mass / mass.sum()

    @property
    def mean_cosine(self) -> float:
        """E cos r, with r the distance from record to report.

        The mean of a report, as a vector, is this multiple of its record. Dividing by it
        takes the bias out of a mean of reports.
        """
        # 1 − cos r, without loss of digits for small r.
        versine = 2 * np.sin(self.radii / 2) ** 2
        return float(1 - versine @ self.weights)

    @property
    def mean_squared_sine(self) -> float:
        """E sin² r: the total variance of a report in the directions across its record.

        r is the distance from record to report. A planner divides it by the number of
        reports to predict the error of their mean.
        """
        return float(np.sin(self.radii) ** 2 @ self.weights)

    def legendre(self, degree: int) -> np.ndarray:
        """Return the factors by which noise multiplies spherical harmonics.

        Isotropic noise multiplies each coefficient of degree l in the expansion of a
        density by a_l = E P_l(cos r), where r is the distance from record to report and
        P_l the Legendre polynomial. A density estimate divides by a_l to be unbiased.

        Parameters
        ----------
        degree : int
            The largest degree l.

        Returns
        -------
        array, shape (degree + 1,)
            a_l for l = 0, …, degree; a_0 is 1.
        """
        cosines = np.cos(self.radii)
        return np.array(
            [
                float(eval_legendre(order, cosines) @ self.weights)
                for order in range(degree + 1)
            ]
        )


def _noise_scale_and_kind(mechanism: LocalMechanism) -> tuple[float, bool]:
    """Return the scale of a mechanism's isotropic noise, and whether it is Gaussian.

    Parameters
    ----------
    mechanism : LocalMechanism
        The mechanism of the reports: Gaussian or Laplace noise about each record.

    Returns
    -------
    scale, is_gaussian : float, bool
        The scale in the manifold's unit of distance, and whether the noise is Gaussian
        or Laplace noise.
    """
    if isinstance(mechanism, MetricLaplace):
        return mechanism.scale, False
    if isinstance(mechanism, BoundedNoise):
        return mechanism.scale, mechanism.kind == "gaussian"
    raise ParameterError(
        f"{mechanism!r} has an estimator of its own: its estimate_mean"
    )


def torus_moments(mechanism: LocalMechanism, frequencies: np.ndarray) -> np.ndarray:
    """Return the factors by which Laplace noise multiplies Fourier coefficients.

    The density of the reports is the density of the records, convolved with the noise.
    So its Fourier coefficient at a vector k of integers is that of the records times
    E cos⟨k, noise⟩. A density estimate divides by these factors.

    Parameters
    ----------
    mechanism : LocalMechanism
        Laplace noise on a torus.
    frequencies : array, shape (m, dim)
        The vectors k, one in each row.

    Returns
    -------
    array, shape (m,)
        The factor of each frequency, in (0, 1].
    """
    manifold = mechanism.space.manifold
    if not (isinstance(manifold, Torus) and isinstance(mechanism, MetricLaplace)):
        raise ParameterError(f"{mechanism!r} is not MetricLaplace on a torus")
    return TorusLaplace(manifold.dim, mechanism.scale).characteristic(frequencies)
