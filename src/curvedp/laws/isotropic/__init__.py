"""Isotropic laws on two-point homogeneous spaces: a radius and a uniform direction."""
