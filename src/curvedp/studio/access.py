"""Who may use the studio: the one browser tab that was given a secret.
The studio listens on 127.0.0.1, which every user and program of the machine can reach,
so each request must show a secret. Three places where secrets leak are avoided:

- *The process list*, which every user can read. The browser is started with the name of
  a file that only the user may read (`LinkFile`); the link with its token is in the
  file.
- *Cookies*, which a browser sends to every port of 127.0.0.1. The page keeps the secret
  in its `sessionStorage`, which belongs to one host, port and tab, and sends it as a
  header.
- *The browser's history*, which keeps the link. Its token works once: the page
  exchanges it for the secret at `/enter`.

The page itself (`/`) is the same for everyone and holds nothing of the user's.
"""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response

from curvedp.errors import ParameterError
from curvedp.ledger.store import check_place

SECRET_HEADER = "X-Curvedp-Secret"
TOKEN_HEADER = "X-Curvedp-Token"

PUBLIC_PATH = "/"
ENTRANCE_PATH = "/enter"

_LINK_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>curvedp studio</title>
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
</head><body><p>Opening the studio. <a href="{link}">Go there</a></p></body></html>
"""


class Guard:
    """Let a request through to the application if it shows the secret.

    Without the secret the answer is an empty 403, except for the page itself and for
    the exchange of a token. A request for another host name than this machine's is
    refused with 400, so that no site can reach the studio under its own name (DNS
    rebinding).

    Parameters
    ----------
    app : ASGI application
        The application that is guarded.
    port : int
        The port that the studio listens on.
    on_token_used : callable, optional
        Called with a new link after a token was exchanged. Without it there is no
        second link.
    """

    def __init__(
        self,
        app: Any,
        port: int,
        on_token_used: Callable[[str], None] | None = None,
    ) -> None:
        """Make the secret of this session, and the token of the first link.

        Parameters
        ----------
        app : ASGI application
            The application that is guarded.
        port : int
            The port that the studio listens on; requests for other hosts are refused.
        on_token_used : callable, optional
            Called with a new link after a token was exchanged.
        """
        self._app = app
        self._port = port
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._secret = secrets.token_urlsafe(32)
        self._token: str | None = secrets.token_urlsafe(32)
        self.on_token_used = on_token_used

    @property
    def link(self) -> str:
        """The address that opens the studio once.

        The token stands after #, which browsers do not send to servers.
        """
        return link_for(self._port, self._token or "")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass one request to the application, or refuse it (the ASGI interface).

        Parameters
        ----------
        scope : dict
            The description of the request by ASGI: its method, path and headers.
        receive, send : callables
            The channels of ASGI for the body and for the answer.
        """
        if scope["type"] == "http":
            handler = self._choose_handler(scope)
            await handler(scope, receive, send)

    def _choose_handler(self, scope: Any) -> Any:
        """Return the application or a response, either of which can answer a request.

        A response refuses the request, or exchanges a token for the secret.

        Parameters
        ----------
        scope : dict
            The description of the request by ASGI.

        Returns
        -------
        ASGI application
            The guarded application, or a finished response.
        """
        headers = Headers(scope=scope)
        method, path = scope["method"], scope["path"]
        if headers.get("host") not in self._hosts:
            return Response(status_code=400)
        if path == PUBLIC_PATH and method in ("GET", "HEAD"):
            return self._app
        if path == ENTRANCE_PATH and method == "POST":
            return self._exchange_token(headers.get(TOKEN_HEADER, ""))
        if _equal_in_constant_time(headers.get(SECRET_HEADER, ""), self._secret):
            return self._app
        return Response(status_code=403)

    def _exchange_token(self, token: str) -> Response:
        """Return the secret of the session in exchange for the token, which works once.

        Parameters
        ----------
        token : str
            The token of the link that the page sent.

        Returns
        -------
        Response
            The secret as JSON, or 403 for any other token.
        """
        if self._token is None or not _equal_in_constant_time(token, self._token):
            return Response(status_code=403)
        self._token = None
        if self.on_token_used is not None:
            self._token = secrets.token_urlsafe(32)
            self.on_token_used(self.link)
        return JSONResponse({"secret": self._secret})


def link_for(port: int, token: str) -> str:
    """Return the address of the page with a token.

    Parameters
    ----------
    port : int
        The port that the studio listens on.
    token : str
        The token, which works once.
    """
    return f"http://127.0.0.1:{port}/#{token}"


def _equal_in_constant_time(text: str, expected: str) -> bool:
    """Return whether two secrets are equal, in a time that reveals nothing about them.

    An ordinary comparison stops at the first difference; its time would tell how many
    characters of a guess are right.

    Parameters
    ----------
    text : str
        The text that a request shows.
    expected : str
        The secret.
    """
    return secrets.compare_digest(text.encode(), expected.encode())


class LinkFile:
    """A page that only the user may read, and that leads to the studio.

    It lies in the studio's folder and not among the temporary files, where browsers
    that are installed as snaps cannot read. While the studio runs, it holds a link that
    works: a tab that was closed is opened again by opening the file again.

    Raises
    ------
    ParameterError
        For a folder that others may write: they could put another page in the place of
        this one before the browser reads it, which looks like the studio and takes the
        file that is dropped on it. No ledger would be made there either.
    """

    def __init__(self, folder: Path) -> None:
        """Choose a name for the file, and make the folder if it does not exist.

        Parameters
        ----------
        folder : Path
            The studio's folder.
        """
        self.path = folder / f"open-studio-{secrets.token_hex(6)}.html"
        self._folder_is_new = not folder.exists()
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            check_place(self.path.absolute())
        except ParameterError:
            self.delete()
            raise

    def write(self, link: str) -> None:
        """Replace the link in the file, by a new file of mode 0600.

        Parameters
        ----------
        link : str
            The address that opens the studio once.
        """
        new_file = self.path.with_suffix(".part")
        # O_EXCL refuses a file or link that somebody else put there.
        descriptor = os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_LINK_PAGE.format(link=link))
        new_file.replace(self.path)

    def delete(self) -> None:
        """Delete the file, and the folder if it was made for it and is still empty."""
        self.path.unlink(missing_ok=True)
        if self._folder_is_new:
            with suppress(OSError):  # It holds a ledger or releases by now.
                self.path.parent.rmdir()
