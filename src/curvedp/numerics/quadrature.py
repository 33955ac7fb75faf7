"""Quadrature rules, for integrands that behave like a root or a power at the ends of
their interval. A rule is a list of nodes and weights. The integral is about the sum of
the weights times the integrand at the nodes.
"""

import math
from functools import lru_cache

import numpy as np

from curvedp.numerics.directed_rounding import Array


@lru_cache(maxsize=16)
def endpoint_quadrature(order: int) -> tuple[Array, Array]:
    """Return the nodes on (0, 2) and the weights of a rule that is dense at both ends.

    The substitution x = 1 − cos θ turns half-integer powers at x = 0 and x = 2, such as
    √x, into analytic functions of θ in (0, π), which Gauss–Legendre integrates fast.

    Parameters
    ----------
    order : int
        The number of nodes, even.

    Returns
    -------
    nodes, weights : array, shape (order,)
        The rule, with increasing nodes.
    """
    # flint takes 0.2 s to load, which users of flat Gaussians never need.
    from flint import arb

    from curvedp.numerics.enclosures import precision

    # The Gauss–Legendre rule on (−1, 1), from its positive nodes.
    with precision(64):
        positive_half = [
            arb.legendre_p_root(order, index, weight=True)
            for index in range(order // 2)
        ]
    positive_nodes = np.array([float(node) for node, _ in positive_half])
    positive_weights = np.array([float(weight) for _, weight in positive_half])
    legendre_nodes = np.concatenate([-positive_nodes, positive_nodes[::-1]])
    legendre_weights = np.concatenate([positive_weights, positive_weights[::-1]])

    # The same rule for θ in (0, π), and then for x.
    theta = math.pi / 2 * (legendre_nodes + 1)
    nodes = 2 * np.sin(theta / 2) ** 2
    weights = legendre_weights * math.pi / 2 * np.sin(theta)
    return nodes, weights
