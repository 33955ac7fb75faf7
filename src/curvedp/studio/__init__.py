"""`curvedp studio`: a page of this machine's own on which a release is planned, paid for and made (extra: studio)."""

from curvedp import errors

try:
    import starlette  # noqa: F401 - whether it is there
    import uvicorn  # noqa: F401 - both are checked here so that the error names the extra
except ImportError as error:
    raise errors.MissingExtra(
        f"curvedp.studio needs {error.name}: pip install 'curvedp[studio,report]'"
    ) from error
