"""The studio's web server: on 127.0.0.1 only, and nothing is loaded from elsewhere.

`serve` starts it, `application` lists what it answers, and `curvedp.studio.access`
decides who is answered. What the answers say comes from `curvedp.studio.desk`.
"""

import secrets
import socket
import webbrowser
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from curvedp.errors import CurvedpError, ParameterError
from curvedp.studio.access import Guard, LinkFile
from curvedp.studio.wording import describe

if TYPE_CHECKING:
    from curvedp.studio.desk import Desk

_PAGE = Path(__file__).with_name("page.html")
_CLOSED = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Reports are shown as a document of the page's making, which inherits this policy.
# Their pictures have style attributes and, embedded, images; no script of theirs can
# run.
_PAGE_POLICY = (
    _CLOSED + "; script-src 'nonce-{0}'; style-src 'nonce-{0}'; "
    "style-src-attr 'unsafe-inline'; connect-src 'self'; img-src data:"
)
_HEADERS = {
    "Content-Security-Policy": _CLOSED,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# What the page asks for by name, as JSON in and JSON out.
_ANSWERS: dict[str, Callable[["Desk", Any], dict[str, Any]]] = {
    "state": lambda desk, request: desk.state(),
    "start_ledger": lambda desk, request: desk.start_ledger(request),
    "check": lambda desk, request: desk.check(request),
    "plan": lambda desk, request: desk.plan(request),
    "release": lambda desk, request: desk.release(request),
    "save": lambda desk, request: desk.save(request),
    "sign": lambda desk, request: desk.sign(request),
}


def guarded_application(desk: Callable[[], "Desk"], port: int) -> tuple[Any, Guard]:
    """Return the application behind its guard, with safe headers; and the guard."""
    guard = Guard(application(desk), port)
    return _with_headers(guard), guard


def _with_headers(app: Any) -> Any:
    """Add to every answer the headers that it does not set itself."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_with_headers)

    return answer


def application(desk: Callable[[], "Desk"]) -> Starlette:
    """Return the page and what it asks for; to be put behind a `Guard`.

    The desk is made when it is first needed, which showing the page does not.
    """
    return Starlette(
        routes=[
            Route("/", _page),
            Route("/file", partial(_upload, desk), methods=["POST"]),
            Route("/release/{number:int}/{name}", partial(_download, desk)),
            *(
                Route(f"/{name}", partial(_answer, desk, answer), methods=["POST"])
                for name, answer in _ANSWERS.items()
            ),
        ]
    )


async def _page(request: Request) -> Response:
    """Return the page, the same for everybody but for a number that is used once."""
    nonce = secrets.token_urlsafe(16)
    text = _PAGE.read_text(encoding="utf-8").replace("$nonce", nonce)
    policy = _PAGE_POLICY.format(nonce)
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


async def _answer(
    open_desk: Callable[[], "Desk"],
    answer: Callable[["Desk", Any], dict[str, Any]],
    request: Request,
) -> Response:
    """Answer what the page asks for: JSON in, JSON out. A user's mistake is one line."""
    try:
        asked = await request.json()
        desk = await run_in_threadpool(open_desk)
        return JSONResponse(await run_in_threadpool(answer, desk, asked))
    except (CurvedpError, OSError) as error:
        return _refusal(describe(error))
    except (ValueError, KeyError, TypeError, RecursionError):
        return _refusal(
            "the page sent something that it should not have: load it again"
        )


async def _upload(desk: Callable[[], "Desk"], request: Request) -> Response:
    """Take a file from the browser."""
    table = await run_in_threadpool(desk)
    try:
        target = table.place_for(request.query_params.get("name", ""))
        if await _saved(request, target, table.most):
            table.data = target
            return JSONResponse(table.state())
    except (CurvedpError, OSError) as error:
        return _refusal(describe(error))
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
    """Return a file of a release, from the disk or, if it is not there yet, from memory."""
    table = await run_in_threadpool(desk)
    number, name = request.path_params["number"], request.path_params["name"]
    content = await run_in_threadpool(table.file_content, number, name)
    if content is None:
        return Response(status_code=404)
    return Response(content, media_type="application/octet-stream")


def _refusal(text: str, status: int = 400) -> Response:
    return JSONResponse({"error": text}, status_code=status)


def opened(
    folder: Path,
    data: Path | None = None,
    key: Path | None = None,
    ledger_key: Path | None = None,
) -> Callable[[], "Desk"]:
    """Return a function that makes the desk when it is first called.

    What the desk imports takes longer than showing the page.
    """
    lock = Lock()

    @cache
    def made() -> "Desk":
        from curvedp.studio.desk import Desk

        return Desk(folder, data, key, ledger_key)

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
    ledger_key: Path | None = None,
    say: Callable[[str], None],
) -> None:
    """Serve the page until it is stopped.

    Parameters
    ----------
    folder : Path
        Where the ledger and the releases go.
    data : Path, optional
        A file with records, which is read where it lies.
    port : int
        The port to listen on; 0 for any that is free.
    browser : bool
        Whether to open a browser. The link is printed only where none was opened.
    key : Path, optional
        The private key to sign releases with.
    ledger_key : Path, optional
        The key of the ledger, where that has one.
    say : callable
        Prints a line for the user.

    Raises
    ------
    ParameterError
        The port is taken, a file does not exist, or the folder is a file or one that
        others may write.
    """
    if data is not None and not data.exists():
        raise ParameterError(f"{data} does not exist")
    if folder.exists() and not folder.is_dir():
        raise ParameterError(
            f"{folder} is a file; --folder is where the ledger and what is released go"
        )
    if key is not None and not key.is_file():
        raise ParameterError(f"there is no key at {key}: `curvedp key {key}` makes one")

    if ledger_key is not None and not ledger_key.is_file():
        raise ParameterError(
            f"there is no key at {ledger_key}: `curvedp ledger key {ledger_key}` makes one"
        )

    door = _listening(port)
    desk = opened(folder, data, key, ledger_key)
    app, guard = guarded_application(desk, door.getsockname()[1])
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
    )
    link_file = None
    if browser:
        link_file = LinkFile(folder)
        link_file.write(guard.link)
        guard.on_token_used = link_file.write
        # Some browsers keep whoever opens them waiting.
        Thread(target=_open_browser, args=(link_file, guard, say), daemon=True).start()
    else:
        _print_link(guard.link, say)
    Thread(target=desk, daemon=True).start()
    try:
        uvicorn.Server(config).run(sockets=[door])
    except KeyboardInterrupt:
        pass
    finally:
        if link_file is not None:
            link_file.delete()
        for line in desk().close():
            say(line)


def _open_browser(
    link_file: LinkFile, guard: Guard, say: Callable[[str], None]
) -> None:
    """Open a browser; where there is none, print the link."""
    if not webbrowser.open(link_file.path.absolute().as_uri()):
        say("no browser could be opened: open this link yourself")
        _print_link(guard.link, say)
        return
    say("curvedp studio: it opens in your browser; Ctrl-C ends it")
    say(f"if it does not, or you closed the tab: open {link_file.path.absolute()}")


def _print_link(link: str, say: Callable[[str], None]) -> None:
    say(f"curvedp studio: {link}")
    say("the link works once, on this machine; Ctrl-C ends the studio")


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
