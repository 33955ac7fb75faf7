"""Stable forms and small systems that the spaces share."""
