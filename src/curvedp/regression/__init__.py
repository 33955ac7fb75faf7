"""Geodesic regression: Jacobi fields in closed form, and the sensitivities that make a private one possible."""
