"""Noise laws on manifolds: samplers, densities and distribution functions.

The distribution functions share no code with the samplers, so that a comparison of the
two is a test of both.
"""

from curvedp.laws.gaussian import RiemannianGaussian
from curvedp.laws.laplace import RiemannianLaplace

__all__ = ["RiemannianGaussian", "RiemannianLaplace"]
