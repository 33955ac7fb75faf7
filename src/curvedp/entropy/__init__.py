"""Where every random bit comes from, and how a release is drawn from it without leaking through its last bits."""

from curvedp.entropy.csprng import GeneratorSource, SecureSource, Source
from curvedp.entropy.exact import ExactDraw, exact_gaussian, exact_laplace, exact_log_gaussian

__all__ = [
    "ExactDraw",
    "GeneratorSource",
    "SecureSource",
    "Source",
    "exact_gaussian",
    "exact_laplace",
    "exact_log_gaussian",
]
