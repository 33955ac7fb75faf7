"""Isotropic laws on two-point homogeneous spaces: one radius and one uniform direction."""
