"""The studio's web server: on 127.0.0.1 only, and nothing is loaded from elsewhere.
`serve` starts it, `application` lists what it answers, and `curvedp.studio.access`
decides who is answered. What the answers say comes from `curvedp.studio.desk`.
"""

import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence
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
from curvedp.studio.places import expect_reports
from curvedp.studio.wording import error_text

if TYPE_CHECKING:
    from curvedp.studio.desk import Desk

_PAGE = Path(__file__).with_name("page.html")
# The content security policy of every answer but the page: nothing is loaded or run.
_STRICT_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Reports are shown as a document of the page's making, which inherits this policy.
# Their pictures have style attributes and, embedded, images; no script of theirs can
# run.
_PAGE_POLICY = (
    _STRICT_POLICY + "; script-src 'nonce-{0}'; style-src 'nonce-{0}'; "
    "style-src-attr 'unsafe-inline'; connect-src 'self'; img-src data:"
)
_HEADERS = {
    "Content-Security-Policy": _STRICT_POLICY,
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
    "compare": lambda desk, request: desk.compare(request),
    "expect_reports": lambda desk, request: expect_reports(request),
    "perturb": lambda desk, request: desk.perturb(request),
}


def guarded_application(
    open_desk: Callable[[], "Desk"], port: int
) -> tuple[Any, Guard]:
    """Return the application behind its guard, with safe headers, and the guard.

    Parameters
    ----------
    open_desk : callable
        Returns the session's `Desk`, which it makes when it is first called.
    port : int
        The port that the studio listens on.

    Returns
    -------
    app, guard : ASGI application, Guard
        The guarded application, and the guard, which knows the link.
    """
    guard = Guard(application(open_desk), port)
    return _with_headers(guard), guard


def _with_headers(app: Any) -> Any:
    """Return an application that adds safe headers to every answer of another one.

    A header that an answer sets itself is left as it is.

    Parameters
    ----------
    app : ASGI application
        The application that answers.

    Returns
    -------
    ASGI application
        What `uvicorn` runs.
    """

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        """Answer one request (the ASGI interface).

        Parameters
        ----------
        scope, receive, send : dict and callables
            The arguments of every ASGI application.
        """

        async def send_with_headers(message: Any) -> None:
            """Send one message of the answer; the first one carries the headers.

            Parameters
            ----------
            message : dict
                One message by ASGI.
            """
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_with_headers)

    return answer


def application(open_desk: Callable[[], "Desk"]) -> Starlette:
    """Return the application: the page, and the answers to its requests.

    It checks no secret: `guarded_application` puts it behind a `Guard`.

    Parameters
    ----------
    open_desk : callable
        Returns the session's `Desk`. Showing the page does not call it.

    Returns
    -------
    Starlette
        The application, an ASGI one.
    """
    return Starlette(
        routes=[
            Route("/", _serve_page),
            Route("/file", partial(_upload, open_desk), methods=["POST"]),
            Route("/release/{number:int}/{name}", partial(_download, open_desk)),
            *(
                Route(f"/{name}", partial(_answer, open_desk, answer), methods=["POST"])
                for name, answer in _ANSWERS.items()
            ),
        ]
    )


async def _serve_page(request: Request) -> Response:
    """Return the page, the same for everyone but for a number that is used once.

    Parameters
    ----------
    request : Request
        The request of the browser, of which nothing is read.

    Returns
    -------
    Response
        The page, whose policy allows only scripts and styles with that number.
    """
    nonce = secrets.token_urlsafe(16)
    text = _PAGE.read_text(encoding="utf-8").replace("$nonce", nonce)
    policy = _PAGE_POLICY.format(nonce)
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


async def _answer(
    open_desk: Callable[[], "Desk"],
    answer: Callable[["Desk", Any], dict[str, Any]],
    request: Request,
) -> Response:
    """Answer a question of the page: JSON in, JSON out. A user's mistake is one line.

    Parameters
    ----------
    open_desk : callable
        Returns the session's `Desk`.
    answer : callable
        Takes the desk and what the page sent, and returns JSON values.
    request : Request
        The request of the page.

    Returns
    -------
    Response
        The values, or {"error": text} with status 400.
    """
    try:
        page_values = await request.json()
        desk = await run_in_threadpool(open_desk)
        return JSONResponse(await run_in_threadpool(answer, desk, page_values))
    except (CurvedpError, OSError) as error:
        return _error_response(error_text(error))
    except (ValueError, KeyError, TypeError, RecursionError):
        return _error_response(
            "the page sent something that it should not have: load it again"
        )


async def _upload(open_desk: Callable[[], "Desk"], request: Request) -> Response:
    """Store a file that the browser sends, and make it the file of the session.

    With "further=yes" in its address it stands beside the files before it: a comparison
    takes each file as a group.

    Parameters
    ----------
    open_desk : callable
        Returns the session's `Desk`.
    request : Request
        The request of the browser, with the file as its body.

    Returns
    -------
    Response
        The new state of the page, or an error.
    """
    desk = await run_in_threadpool(open_desk)
    try:
        target = desk.upload_path(request.query_params.get("name", ""))
        if await _store_upload(request, target, desk.max_upload_bytes):
            is_further = request.query_params.get("further") == "yes"
            desk.add_file(target, is_further=is_further)
            return JSONResponse(desk.state())
    except (CurvedpError, OSError) as error:
        return _error_response(error_text(error))
    return _error_response(
        f"{target.name} has more than {desk.max_upload_bytes // 2**20} MB: start "
        f"`curvedp studio {target.name}`, which reads it where it lies",
        status=413,
    )


async def _store_upload(request: Request, target: Path, max_bytes: int) -> bool:
    """Write the body of a request to a file, unless it is too large.

    Parameters
    ----------
    request : Request
        The request of the browser.
    target : Path
        Where the file is stored.
    max_bytes : int
        The largest size that is accepted.

    Returns
    -------
    bool
        Whether the file was written. A body that states a size above `max_bytes` is not
        read at all.
    """
    if int(request.headers.get("content-length", "0")) > max_bytes:
        return False
    size = 0
    partial_file = target.with_name(f"{target.name}.part")
    with partial_file.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_bytes:
                partial_file.unlink()
                return False
            file.write(chunk)
    partial_file.replace(target)
    return True


async def _download(open_desk: Callable[[], "Desk"], request: Request) -> Response:
    """Return a file of a release, from the disk or, if it is not there, from memory.

    Parameters
    ----------
    open_desk : callable
        Returns the session's `Desk`.
    request : Request
        The request, whose path names the release and the file.

    Returns
    -------
    Response
        The content of the file, or 404.
    """
    desk = await run_in_threadpool(open_desk)
    number = request.path_params["number"]
    name = request.path_params["name"]
    content = await run_in_threadpool(desk.file_content, number, name)
    if content is None:
        return Response(status_code=404)
    return Response(content, media_type="application/octet-stream")


def _error_response(text: str, status: int = 400) -> Response:
    """Return an answer that the page shows as an error, with an HTTP status.

    Parameters
    ----------
    text : str
        The message for the user.
    status : int
        The HTTP status.
    """
    return JSONResponse({"error": text}, status_code=status)


def desk_opener(
    folder: Path,
    data: Path | None = None,
    key: Path | None = None,
    ledger_key: Path | None = None,
    further_files: Sequence[Path] = (),
) -> Callable[[], "Desk"]:
    """Return a function that makes the session's `Desk` when it is first called.

    The modules that a desk imports take longer to load than the page takes to show.

    Parameters
    ----------
    folder : Path
        Where the ledger and the files of releases are.
    data : Path, optional
        The file with the records.
    key : Path, optional
        The private key that signs releases.
    ledger_key : Path, optional
        The key of the ledger, if it has one.
    further_files : sequence of Path
        Files beside `data`, for a comparison in which each file is a group.

    Returns
    -------
    callable
        A function without arguments, which any thread may call.
    """
    lock = Lock()

    @cache
    def make_desk() -> "Desk":
        """Make the desk; later calls return the same one."""
        from curvedp.studio.desk import Desk

        return Desk(folder, data, key, ledger_key, further_files)

    def open_desk() -> "Desk":
        """Return the desk of the session, which only one thread at a time can make."""
        # Requests arrive in several threads, and only one may make the desk.
        with lock:
            return make_desk()

    return open_desk


def serve(
    folder: Path,
    data: Path | None = None,
    *,
    port: int = 0,
    browser: bool = True,
    key: Path | None = None,
    ledger_key: Path | None = None,
    further_files: Sequence[Path] = (),
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
    further_files : sequence of Path
        Files beside `data`, for a comparison in which each file is a group.
    say : callable
        Prints a line for the user.

    Raises
    ------
    ParameterError
        The port is taken, a file does not exist, or the folder is a file or one that
        others may write.
    """
    for path in (data, *further_files):
        if path is not None and not path.exists():
            raise ParameterError(f"{path} does not exist")
    _check_paths(folder, key, ledger_key)
    listening_socket = _open_socket(port)
    open_desk = desk_opener(folder, data, key, ledger_key, further_files)
    app, guard = guarded_application(open_desk, listening_socket.getsockname()[1])
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
    )

    # Lead the user to the page: by a browser, or by the link itself.
    link_file = None
    if browser:
        link_file = LinkFile(folder)
        link_file.write(guard.link)
        guard.on_token_used = link_file.write
        # Some browsers keep whoever opens them waiting.
        Thread(target=_open_browser, args=(link_file, guard, say), daemon=True).start()
    else:
        _print_link(guard.link, say)

    # The modules are loaded while the browser shows the page.
    Thread(target=open_desk, daemon=True).start()
    try:
        uvicorn.Server(config).run(sockets=[listening_socket])
    except KeyboardInterrupt:
        pass
    finally:
        if link_file is not None:
            link_file.delete()
        for line in open_desk().close():
            say(line)


def _check_paths(folder: Path, key: Path | None, ledger_key: Path | None) -> None:
    """Refuse paths with which the studio could not work.

    Parameters
    ----------
    folder : Path
        Where the ledger and the releases go; it need not exist.
    key : Path or None
        The private key to sign releases with.
    ledger_key : Path or None
        The key of the ledger.

    Raises
    ------
    ParameterError
        If a key does not exist, or the folder is a file.
    """
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


def _open_browser(
    link_file: LinkFile, guard: Guard, say: Callable[[str], None]
) -> None:
    """Open a browser; where there is none, print the link.

    Parameters
    ----------
    link_file : LinkFile
        The file that leads to the studio.
    guard : Guard
        It knows the link itself.
    say : callable
        Prints a line for the user.
    """
    if not webbrowser.open(link_file.path.absolute().as_uri()):
        say("no browser could be opened: open this link yourself")
        _print_link(guard.link, say)
        return
    say("curvedp studio: it opens in your browser; Ctrl-C ends it")
    say(f"if it does not, or you closed the tab: open {link_file.path.absolute()}")


def _print_link(link: str, say: Callable[[str], None]) -> None:
    """Print the link to the studio for a user who opens it by hand.

    Parameters
    ----------
    link : str
        The address that opens the studio once.
    say : callable
        Prints a line for the user.
    """
    say(f"curvedp studio: {link}")
    say("the link works once, on this machine; Ctrl-C ends the studio")


def _open_socket(port: int) -> socket.socket:
    """Return a socket that listens on this machine's port, or on any free one for 0.

    Parameters
    ----------
    port : int
        The port, or 0 for any that is free.

    Returns
    -------
    socket
        A listening socket, which the server takes over.

    Raises
    ------
    ParameterError
        If the port is taken or not allowed.
    """
    listening_socket = socket.socket()
    try:
        listening_socket.bind(("127.0.0.1", port))
        listening_socket.listen()
    except (OSError, OverflowError):
        listening_socket.close()
        raise ParameterError(
            f"port {port} is taken or not allowed: choose another, or leave --port out"
        ) from None
    return listening_socket
