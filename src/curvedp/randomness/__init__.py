"""Where every random bit comes from, and real numbers of which any bit can be drawn."""

from curvedp.randomness.csprng import GeneratorSource, SecureSource, Source

__all__ = ["GeneratorSource", "SecureSource", "Source"]
