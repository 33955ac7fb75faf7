"""The command line.

`commands` defines `app` and its commands; those that take more than a screen have
modules of their own (`release`, `verify`, `sign`, `ledger`, `region`). `options` and
`console` are what they share.
"""

from curvedp.cli.commands import app

__all__ = ["app"]
