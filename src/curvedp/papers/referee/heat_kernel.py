"""A study: the heat kernel as noise has no advantage over the Riemannian Gaussian.

The heat kernel p_t(x, ·) is the law at time t of Brownian motion (generator ½Δ) that
starts at the statistic x. Where Ric ≥ ρ it is μ-GDP with

    μ = Δ·√(ρ/(e^{ρt} − 1))

for statistics at most Δ apart (docs/theory/laws.md, "The heat kernel"). This file
compares it with the Riemannian Gaussian on S² at the same μ; the root mean square
errors agree to 0.3 %. `python -m curvedp.papers.referee.heat_kernel` prints the table.
"""

import math

import numpy as np
from numpy.polynomial.legendre import leggauss, legval
from scipy.optimize import brentq

from curvedp.geometry import Sphere
from curvedp.laws import RiemannianGaussian

# Terms of the series of the kernel, and points of the quadrature over distances.
N_HARMONICS = 200
N_NODES = 400


def sphere_heat_kernel(distance: np.ndarray, time: float) -> np.ndarray:
    """Return the density on S² of Brownian motion at a time, at a distance from its start.

    p_t(r) = Σ_n (2n + 1)/(4π)·e^{−n(n+1)t/2}·P_n(cos r), P_n the Legendre polynomials.

    Parameters
    ----------
    distance : array
        Angles r from the start.
    time : float
        t > 0; the generator is ½Δ.
    """
    n = np.arange(N_HARMONICS)
    coefficients = (2 * n + 1) / (4 * math.pi) * np.exp(-n * (n + 1) * time / 2)
    return np.asarray(legval(np.cos(distance), coefficients))


def root_mean_square_distance(time: float) -> float:
    """Return √E d(x, y)² for y drawn from the heat kernel of S² about x.

    Parameters
    ----------
    time : float
        t > 0.
    """
    nodes, weights = leggauss(N_NODES)
    r = math.pi * (nodes + 1) / 2
    mass = weights * math.pi / 2 * sphere_heat_kernel(r, time) * 2 * math.pi * np.sin(r)
    return math.sqrt(float(np.sum(mass * r**2)))


def total_variation(time: float, shift: float) -> float:
    """Return the total variation distance of the heat kernels of two points of S².

    The nearer point has the larger density, so it is P(d(x, y) < d(x′, y)) − ½ twice
    over: an integral over the half sphere about x.

    Parameters
    ----------
    time : float
        t > 0.
    shift : float
        The distance of the two points x and x′.
    """
    nodes, weights = leggauss(N_NODES)
    r = math.pi * (nodes + 1) / 2
    # y = (cos r, sin r·cos a, sin r·sin a) is nearer to x than to x′, which lies at an
    # angle `shift`, where cos r > cos r·cos(shift) + sin r·cos a·sin(shift).
    threshold = np.tan(shift / 2) / np.tan(r)
    half_width = np.arccos(np.clip(threshold, -1.0, 1.0))
    nearer = 1 - half_width / math.pi
    mass = weights * math.pi / 2 * sphere_heat_kernel(r, time) * 2 * math.pi * np.sin(r)
    return float(np.sum(mass * (2 * nearer - 1)))


def gaussian_with_total_variation(target: float, shift: float) -> RiemannianGaussian:
    """Return the Riemannian Gaussian on S² of a given total variation distance.

    Parameters
    ----------
    target : float
        The total variation distance δ(0) of the laws about two points.
    shift : float
        The distance of the two points.
    """

    def excess(log_scale: float) -> float:
        """Return δ(0) at a scale, less the target."""
        law = RiemannianGaussian(Sphere(2), math.exp(log_scale))
        return float(law.profile(shift).delta(0.0)) - target

    log_scale = brentq(excess, math.log(0.05), math.log(3.0), xtol=1e-12)
    return RiemannianGaussian(Sphere(2), math.exp(log_scale))


def compare(time: float, shift: float) -> tuple[float, float]:
    """Return the root mean square errors of heat kernel and Gaussian at equal δ(0).

    Parameters
    ----------
    time : float
        The time t of the heat kernel.
    shift : float
        The distance of the two statistics that are told apart.
    """
    gaussian = gaussian_with_total_variation(total_variation(time, shift), shift)
    return root_mean_square_distance(time), math.sqrt(gaussian.mean_square_radius)


def main() -> None:
    """Print the comparison at two times and two shifts."""
    print("√time  shift  heat kernel  Gaussian  (root mean square error on S²)")
    for scale, shift in ((0.45, 0.2), (0.45, 1.0), (0.8, 0.2), (0.8, 1.0)):
        heat, gaussian = compare(scale**2, shift)
        print(f"{scale:5.2f}  {shift:5.2f}  {heat:11.4f}  {gaussian:8.4f}")


if __name__ == "__main__":
    main()
