"""Gaussian and Laplace laws of the affine-invariant metric on SPD and HPD matrices."""
