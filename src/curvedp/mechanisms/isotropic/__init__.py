"""Mechanisms whose noise density depends only on the distance from the value.
`gaussian` and `laplace` have the Riemannian laws on the manifold itself; `tangent` adds
Euclidean noise in the normal chart at a public base point, which works on every
manifold.
"""
