"""Where every random bit comes from, and real numbers known to as many bits as needed."""

from curvedp.randomness.csprng import GeneratorSource, SecureSource, Source

__all__ = ["GeneratorSource", "SecureSource", "Source"]
