"""Noise laws with exact samplers, and distribution functions that share no code with them."""

from curvedp.laws.gaussian import RiemannianGaussian
from curvedp.laws.laplace import RiemannianLaplace

__all__ = ["RiemannianGaussian", "RiemannianLaplace"]
