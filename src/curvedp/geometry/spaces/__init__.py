"""The manifolds that the library offers, one file for each kind of space."""
