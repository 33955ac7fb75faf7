"""Privacy loss distributions on a grid, and their composition by Fourier transforms.

`discretize` turns a profile into a discrete distribution that dominates it, `convolve`
convolves many of them with a bound on all rounding errors, and `composed` chooses grids
and tilts so that δ(ε) of the composition is sharp at every ε.
"""
