"""Helpers that several tests share: test spaces, hostile records, oracles and statistical tests.

Nothing here is collected by pytest. A helper that only one test file uses stays in that file.
"""
