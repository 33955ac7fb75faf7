"""Where every random bit comes from."""

from curvedp.entropy.csprng import GeneratorSource, SecureSource, Source

__all__ = ["GeneratorSource", "SecureSource", "Source"]
