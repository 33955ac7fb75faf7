"""`curvedp` and `python -m curvedp`: the command line."""

import os
import sys


def main() -> None:
    """Run the command line; answer `--version` without importing it."""
    if sys.argv[1:] == ["--version"]:
        from curvedp import __version__

        print(f"curvedp {__version__}")
        return

    # Processes that a command starts import nothing from the working folder: the
    # records may lie there beside someone else's code.
    os.environ["PYTHONSAFEPATH"] = "1"
    from curvedp.cli import app

    app()


if __name__ == "__main__":
    main()
