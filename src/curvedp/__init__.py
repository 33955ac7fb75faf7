"""Differential privacy on curved spaces."""

__version__ = "0.1.0"
