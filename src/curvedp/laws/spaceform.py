"""Former names, for callers that have not been renamed yet."""

from curvedp.laws.isotropic.space import (
    constant_curvature_factors as space_form_factors,
)
from curvedp.laws.isotropic.space import two_point_homogeneous_space as rays_of

__all__ = ["rays_of", "space_form_factors"]
