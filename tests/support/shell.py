"""The command line, as tests call it."""

from typer.testing import CliRunner

from curvedp.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])
