"""The studio's web server: 127.0.0.1 only, for the one browser that has the token, and nothing comes from elsewhere."""

import secrets
import socket
import webbrowser
from collections.abc import Awaitable, Callable
from functools import cache, partial
from http.cookies import SimpleCookie
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from curvedp._words import on_page
from curvedp.errors import CurvedpError, ParameterError

if TYPE_CHECKING:
    from curvedp.studio.desk import Desk

_PAGE = Path(__file__).with_name("page.html")
_ICON = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="14" fill="#0b6e99"/></svg>'
_CLOSED = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_POLICY = (
    _CLOSED
    + "; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src 'self'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Everything else is behind this: the host is this machine's, and the browser is the one that had the token.

    The token works once and becomes a cookie that scripts cannot read and other sites cannot send. Without it the answer is
    403 and nothing else. A request that changes something needs a header that no other site can make a browser send.
    """

    def __init__(self, app: Any, port: int, token: str) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.name, self.secret = f"curvedp-studio-{port}", secrets.token_urlsafe(32)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        await self._answer(scope)(scope, receive, _with_headers(send))

    def _answer(self, scope: Any) -> Any:
        headers = Headers(scope=scope)
        if headers.get("host") not in self.hosts:
            return Response(status_code=400)
        cookie = SimpleCookie(headers.get("cookie", "")).get(self.name)
        if cookie is None or not secrets.compare_digest(
            cookie.value.encode(), self.secret.encode()
        ):
            return self._first(scope)
        if scope["method"] == "POST" and headers.get("x-curvedp") != "studio":
            return Response(status_code=403)
        return self.app

    def _first(self, scope: Any) -> Response:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if (
            scope["path"] != "/"
            or not self.token
            or not secrets.compare_digest(given.encode(), self.token.encode())
        ):
            return Response(status_code=403)
        self.token = ""  # it works once
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self.name, self.secret, httponly=True, samesite="strict")
        return answer


def _with_headers(send: Any) -> Callable[[Any], Awaitable[None]]:
    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in {**_HEADERS, "Content-Security-Policy": _CLOSED}.items():
                headers.setdefault(name, value)
        await send(message)

    return sent


def application(desk: Callable[[], "Desk"]) -> Starlette:
    """The page and what it asks for; to be put behind a `Guard`. Of the desk only `page` can do without."""
    posts = ("state", "start_ledger", "check", "plan", "release", "sign")
    return Starlette(
        routes=[
            Route("/", _page),
            Route("/icon.svg", lambda _: Response(_ICON, media_type="image/svg+xml")),
            Route("/file", partial(_upload, desk), methods=["POST"]),
            Route("/release/{number:int}/{name}", partial(_download, desk)),
            *(
                Route(f"/{name}", partial(_call, desk, name), methods=["POST"])
                for name in posts
            ),
        ]
    )


async def _page(request: Request) -> Response:
    nonce = secrets.token_urlsafe(16)
    text = _PAGE.read_text(encoding="utf-8").replace("$nonce", nonce)
    return HTMLResponse(
        text, headers={"Content-Security-Policy": _PAGE_POLICY.format(nonce)}
    )


async def _call(desk: Callable[[], "Desk"], name: str, request: Request) -> Response:
    """JSON in, JSON out; a user's mistake is one line."""
    try:
        given = await request.json()
        return JSONResponse(
            await run_in_threadpool(lambda: getattr(desk(), name)(given))
        )
    except (CurvedpError, OSError) as error:
        return _refusal(str(error))
    except (ValueError, KeyError, TypeError):
        return _refusal(
            "the page sent something that it should not have: load it again"
        )


async def _upload(desk: Callable[[], "Desk"], request: Request) -> Response:
    table = await run_in_threadpool(desk)
    try:
        target = table.place_for(request.query_params.get("name", ""))
        if await _saved(request, target, table.most):
            table.data = target
            return JSONResponse(table.state())
    except (CurvedpError, OSError) as error:
        return _refusal(str(error))
    most = f"{target.name} has more than {table.most // 2**20} MB"
    return _refusal(
        f"{most}: start `curvedp studio {target.name}`, which reads it where it lies",
        413,
    )


async def _saved(request: Request, target: Path, most: int) -> bool:
    """Whether the file was small enough; one that says so itself is not even read."""
    if int(request.headers.get("content-length", "0")) > most:
        return False
    size, part = 0, target.with_name(f"{target.name}.part")
    with part.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                part.unlink()
                return False
            file.write(chunk)
    part.replace(target)
    return True


async def _download(desk: Callable[[], "Desk"], request: Request) -> Response:
    table, number, name = (
        await run_in_threadpool(desk),
        request.path_params["number"],
        request.path_params["name"],
    )
    if name not in table.files(number):
        return Response(status_code=404)
    path = table.folder / f"release-{number}" / name
    if name == "report.html":  # a page of its own: no scripts, its own style
        return FileResponse(
            path,
            headers={
                "Content-Security-Policy": f"{_CLOSED}; style-src 'unsafe-inline'; sandbox"
            },
        )
    return FileResponse(path, filename=name)


def _refusal(text: str, status: int = 400) -> Response:
    return JSONResponse({"error": on_page(" ".join(text.split()))}, status_code=status)


def opened(
    folder: Path, data: Path | None = None, key: Path | None = None
) -> Callable[[], "Desk"]:
    """The desk, made when it is first asked for: what it imports takes longer than showing the page."""
    lock = Lock()

    @cache
    def made() -> "Desk":
        from curvedp.studio.desk import Desk

        return Desk(folder, data, key)

    def desk() -> "Desk":
        with lock:
            return made()

    return desk


def serve(
    folder: Path,
    data: Path | None = None,
    *,
    port: int = 0,
    browser: bool = True,
    key: Path | None = None,
    say: Callable[[str], None],
) -> None:
    """Serve the page until it is stopped: ledger and releases go to the folder, the records are read where they lie. A port
    that is taken, and a file that does not exist, are refused."""
    if data is not None and not data.exists():
        raise ParameterError(f"{data} does not exist")
    if folder.exists() and not folder.is_dir():
        raise ParameterError(
            f"{folder} is a file; --folder is where the ledger and what is released go"
        )
    if key is not None and not key.is_file():
        raise ParameterError(f"there is no key at {key}: `curvedp key {key}` makes one")
    door, desk, token = (
        _listening(port),
        opened(folder, data, key),
        secrets.token_urlsafe(32),
    )
    number = door.getsockname()[1]
    quiet: Any = {
        "log_level": "warning",
        "access_log": False,
        "lifespan": "off",
        "ws": "none",
        "server_header": False,
    }
    config = uvicorn.Config(Guard(application(desk), number, token), **quiet)
    address = f"http://127.0.0.1:{number}/?token={token}"
    say(f"curvedp studio: {address}")
    say("the link works once, on this machine; Ctrl-C ends the studio")
    Thread(target=desk, daemon=True).start()

    def show() -> None:
        if not webbrowser.open(address):
            say("no browser could be opened: open the link above yourself")

    if browser:  # some browsers keep whoever opens them waiting
        Thread(target=show, daemon=True).start()
    try:
        uvicorn.Server(config).run(sockets=[door])
    except KeyboardInterrupt:
        pass
    finally:
        desk().close()


def _listening(port: int) -> socket.socket:
    door = socket.socket()
    try:
        door.bind(("127.0.0.1", port))
        door.listen()
    except (OSError, OverflowError):
        door.close()
        raise ParameterError(
            f"port {port} is taken or not allowed: choose another, or leave --port out"
        ) from None
    return door
