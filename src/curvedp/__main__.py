"""`curvedp` and `python -m curvedp`: the command line, or one line that says what it needs."""

import os
import sys


def main() -> None:
    """Run the command line; without the extra `cli`, say how to get it. `--version` needs nothing."""
    if sys.argv[1:] == ["--version"]:
        from curvedp import __version__

        return print(f"curvedp {__version__}")
    # Processes that a command starts import nothing from the working folder: the records
    # may lie there beside somebody else's code.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        from curvedp.cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'curvedp[cli]'")
    app()


if __name__ == "__main__":
    main()
