"""Proved lower and upper bounds on δ(ε) and on μ of Gaussian DP, in ball arithmetic."""
