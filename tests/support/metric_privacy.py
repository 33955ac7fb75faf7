"""Instruments for metric privacy: quadrature of report laws on whole spaces.

A report law maps a record x and points y to the log-density of a report at y. Nodes and
weights integrate over the space in coordinates that know nothing of x, so that a mass
that depends on x, or a density that falls too fast, shows in the log-ratios.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from curvedp.geometry import Manifold, Sphere

ReportLaw = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Nodes(NamedTuple):
    """A quadrature rule on a space: points of it, and their share of its volume."""

    points: np.ndarray
    weights: np.ndarray


def gauss(low: float, high: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss and Legendre's nodes and weights on an interval."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    half = (high - low) / 2
    return low + half * (nodes + 1), half * weights


def circle_nodes(n: int = 40_000) -> Nodes:
    """Return equally spaced points of the circle in the plane."""
    angles = 2 * np.pi * (np.arange(n) + 0.5) / n
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Nodes(points, np.full(n, 2 * np.pi / n))


def sphere_nodes(n: int = 240) -> Nodes:
    """Return a product rule of height and longitude on the two-sphere."""
    z, z_weights = gauss(-1.0, 1.0, n)
    longitude = 2 * np.pi * (np.arange(2 * n) + 0.5) / (2 * n)
    radius = np.sqrt(1 - z * z)[:, None]
    points = np.stack(
        [
            radius * np.cos(longitude),
            radius * np.sin(longitude),
            np.broadcast_to(z[:, None], (n, 2 * n)),
        ],
        axis=-1,
    ).reshape(-1, 3)
    return Nodes(points, np.repeat(z_weights * np.pi / n, 2 * n))


def rotation_nodes(n: int = 26) -> Nodes:
    """Return rotations by Hopf coordinates of their quaternions; volume of angles."""
    eta, eta_weights = gauss(0.0, np.pi / 2, n // 2)
    # A rotation has two quaternions; half a turn of one phase counts each once.
    first = np.pi * (np.arange(n) + 0.5) / n
    second = 2 * np.pi * (np.arange(2 * n) + 0.5) / (2 * n)
    a, b, c = (x.ravel() for x in np.meshgrid(eta, first, second, indexing="ij"))
    w, x = np.cos(a) * np.cos(b), np.cos(a) * np.sin(b)
    y, z = np.sin(a) * np.cos(c), np.sin(a) * np.sin(c)
    matrices = np.stack(
        [
            np.stack(
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
            ),
            np.stack(
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
            ),
            np.stack(
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
            ),
        ]
    ).transpose(2, 0, 1)
    # The rotation angle is twice the angle of quaternions, hence the factor 2³.
    density = 8 * np.sin(eta) * np.cos(eta) * eta_weights
    cell = (np.pi / n) ** 2
    return Nodes(matrices, np.repeat(density * cell, 2 * n * n))


def hyperbolic_nodes(reach: float = 8.0, n: int = 220) -> Nodes:
    """Return polar points about the origin of the hyperboloid in R³."""
    r, r_weights = gauss(0.0, reach, n)
    angle = 2 * np.pi * (np.arange(2 * n) + 0.5) / (2 * n)
    points = np.stack(
        [
            np.broadcast_to(np.cosh(r)[:, None], (n, 2 * n)),
            np.sinh(r)[:, None] * np.cos(angle),
            np.sinh(r)[:, None] * np.sin(angle),
        ],
        axis=-1,
    ).reshape(-1, 3)
    return Nodes(points, np.repeat(np.sinh(r) * r_weights * np.pi / n, 2 * n))


def torus_nodes(n: int = 360) -> Nodes:
    """Return a grid of pairs of angles."""
    axis = 2 * np.pi * (np.arange(n) + 0.5) / n - np.pi
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return Nodes(points, np.full(n * n, (2 * np.pi / n) ** 2))


def large_sphere_nodes(dim: int, n: int = 160) -> Nodes:
    """Return points (a, b, √(1 − a² − b²), 0, …) of S^d with the law of two coordinates.

    What depends on the distances to records in the plane of the first two coordinates
    is integrated by them: their density is ∝ (1 − a² − b²)^{(d−3)/2}.
    """
    r, r_weights = gauss(0.0, 1.0, n)
    angle = 2 * np.pi * (np.arange(2 * n) + 0.5) / (2 * n)
    points = np.zeros((n, 2 * n, dim + 1))
    points[..., 0] = r[:, None] * np.cos(angle)
    points[..., 1] = r[:, None] * np.sin(angle)
    points[..., 2] = np.sqrt(1 - r * r)[:, None]
    # The volume of the (d−2)-spheres over each pair of coordinates.
    fiber = 2 * math.pi ** ((dim - 1) / 2) / math.gamma((dim - 1) / 2)
    density = fiber * r * (1 - r * r) ** ((dim - 3) / 2) * r_weights
    weights = np.repeat(density * np.pi / n, 2 * n)
    return Nodes(points.reshape(-1, dim + 1), weights)


class Losses(NamedTuple):
    """The largest log-ratios over distance, of densities and of rounded reports."""

    points: float
    cells: float
    mass_error: float


def losses(
    law: ReportLaw,
    manifold: Manifold,
    nodes: Nodes,
    records: np.ndarray,
    *,
    grid: float = 4.0,
    unit_length: float = 1.0,
) -> Losses:
    """Return the largest |log-ratio|/distance over all pairs of records.

    `cells` is that of reports rounded to multiples of 1/grid in ambient coordinates.

    Parameters
    ----------
    law : callable
        The log-density of reports, per unit volume of the manifold.
    manifold : Manifold
        The space.
    nodes : Nodes
        A rule on it.
    records : array, shape (k, *point_shape)
        The records of which all pairs are compared.
    grid : float
        One over the side of a cell.
    unit_length : float
        By which distances are multiplied.
    """
    rounded = np.round(nodes.points.reshape(len(nodes.points), -1) * grid)
    cells = np.unique(rounded, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
    densities, in_cells, masses = [], [], []
    with np.errstate(divide="ignore"):
        for record in records:
            density = law(record, nodes.points)
            log_masses = density + np.log(nodes.weights)
            densities.append(density)
            in_cells.append(np.logaddexp.reduceat(log_masses[order], starts))
            masses.append(logsumexp(log_masses))

    worst_point = worst_cell = 0.0
    for i in range(len(records)):
        for j in range(i):
            distance = unit_length * float(manifold.dist(records[i], records[j]))
            # Masses of cells are compared relative to their sum, as they were computed.
            log_ratio = np.abs(densities[i] - densities[j])
            cell_ratio = np.abs(in_cells[i] - in_cells[j])
            worst_point = max(worst_point, float(np.nanmax(log_ratio)) / distance)
            worst_cell = max(worst_cell, float(np.nanmax(cell_ratio)) / distance)
    return Losses(worst_point, worst_cell, float(np.abs(masses).max()))


def records_about(manifold: Manifold, seed: int = 3, reach: float = 1.0) -> np.ndarray:
    """Return records near and far from each other, in the plane of two coordinates."""
    rng = np.random.default_rng(seed)
    steps = np.zeros((6, manifold.dim))
    used = 1 if isinstance(manifold, Sphere) and manifold.dim > 2 else manifold.dim
    steps[1:, :used] = reach * rng.uniform(-1, 1, (5, used))
    steps[5] = steps[4] * 1.05  # a close pair
    origin = manifold.origin
    velocities = manifold.from_coordinates(origin, steps)
    return np.asarray(manifold.exp(origin, velocities))
