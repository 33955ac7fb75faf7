"""Where every random bit comes from, and how a release is drawn from it without leaking through its last bits."""

from curvedp.entropy.csprng import GeneratorSource, SecureSource, Source

__all__ = ["GeneratorSource", "SecureSource", "Source"]
