"""Noise about a point whose density depends on the distance alone.

`gaussian` and `laplace` have the Riemannian laws on the manifold itself; `tangent` adds
Euclidean noise in the normal chart at a public base point, which works on every
manifold.
"""
