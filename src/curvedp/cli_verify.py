"""`curvedp verify`: a stranger's certificate, recomputed in a process of its own with little time and memory."""

import json as json_module
import os
import pickle
import select
import signal
import time
import warnings
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Annotated, Any

import typer

from curvedp._console import JsonOption, command, console, errors, inert, show
from curvedp._progress import waiting
from curvedp.errors import CurvedpError, ParameterError, VerificationFailed

_MEMORY = 2 << 30  # bytes, beyond what the process has at the start
SECONDS = 7.0  # of computing: ten with the start of the program
_WAIT = (
    10  # seconds for each second of computing, on a machine with a lot of other work
)


@command
def verify(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    key: Annotated[
        str | None,
        typer.Option(
            help="public key, or its file, of whom must have signed it (certificate.json.sig)"
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="how long it may take; large spaces may need more")
    ] = SECONDS,
    json: JsonOption = False,
) -> None:
    """Recompute every claim of a certificate by the certified path; exit 1 if one cannot be confirmed, 3 if all of them are
    but the release was drawn in float64, its sensitivity is the caller's word or its statistic does not say whom it protects,
    for which no certificate can vouch, and 2 if it is no certificate or takes more than its time or 2 GB."""
    with waiting("recomputing every claim"):
        checks, notes = limited(lambda: _recomputed(certificate, key), seconds)
    unknown = [check for check in checks if check.holds is None]
    if json:
        print(json_module.dumps([check._asdict() for check in checks]))
    else:
        shown = {
            True: "[green]yes[/]",
            False: "[bold red]NO[/]",
            None: "[bold yellow]not known[/]",
        }
        show(
            ("claim", "holds", "how"),
            ((inert(c.claim), shown[c.holds], inert(c.detail)) for c in checks),
        )
        if all(check.holds for check in checks):
            console.print(
                "[bold green]verified[/]: every claim was recomputed and holds"
            )
        for line in notes:
            console.print(
                f"[yellow]note[/]: {inert(line)}", soft_wrap=True, highlight=False
            )
    confirmed(checks)
    if unknown:
        text = f"{inert(unknown[0].claim)}; {inert(unknown[0].detail)}"
        which = unknown[0].claim.split()[0].rstrip(":")
        errors.print(
            f"[bold yellow]claims confirmed, {inert(which)} not[/]: {text}",
            soft_wrap=True,
        )
        raise typer.Exit(3)


def checks_of(path: Path) -> tuple[Any, list[Any]]:
    """The certificate in a file, and what is confirmed of it and what is not. It is read once: whoever goes on with it must
    not read another that was put in its place."""
    from curvedp.mechanisms import Mechanism
    from curvedp.mechanisms.certificate import Certificate
    from curvedp.mechanisms.verify import verify_certificate

    certificate = Certificate.load(path)
    if certificate.mechanism not in Mechanism.registry:
        from curvedp import inference  # noqa: F401 - knows the certificates of tests
        from curvedp.federated import release  # noqa: F401 - knows those of sums over sites
    return certificate, verify_certificate(certificate)


def _recomputed(path: Path, key: Any) -> tuple[list[Any], list[str]]:
    """Check every claim; of a release of which nothing is refuted, also return notes."""
    from curvedp.cli_sign import check_signature
    from curvedp.mechanisms.verify import remarks_on

    certificate, checks = checks_of(path)
    signed = [] if key is None else [check_signature(certificate, path, key)]
    checks = [*signed, *checks]
    if any(check.holds is False for check in checks):
        return checks, []
    return checks, [*remarks_on(certificate), *certificate.alarms]


def confirmed(checks: list[Any], before: str = "") -> list[Any]:
    """The checks, of which none has failed; `VerificationFailed` otherwise, with which after these words."""
    if failed := [check.claim for check in checks if check.holds is False]:
        raise VerificationFailed(before + ", ".join(failed))
    return checks


def limited(work: Callable[[], Any], seconds: float) -> Any:
    """work() in a child process; a `ParameterError` if it took more than so many seconds of computing or 2 GB. Its own errors
    are raised here.

    Computing is what is limited, as no certificate can make it wait: on a busy machine an honest one is confirmed too.
    """
    if not hasattr(os, "fork"):
        return work()
    if not 0 < seconds < 1e6:
        raise ParameterError(f"--seconds {seconds} must be finite and > 0")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of threads: the child starts none of the parent's
        child = os.fork()
    if child == 0:
        _child(work, seconds, reading, writing)
    os.close(writing)
    try:
        answer = _answer(reading, time.monotonic() + _WAIT * seconds)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if answer is None or (
        os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
    ):
        raise ParameterError(
            f"the certificate was not recomputed within {seconds:g} s; --seconds gives it longer"
        )
    if not answer:
        raise ParameterError(
            "the certificate cannot be recomputed within 2 GB of memory"
        )
    found = pickle.loads(answer)
    if isinstance(found, BaseException):
        raise found
    return found


def _child(work: Callable[[], Any], seconds: float, reading: int, writing: int) -> None:
    """Answer through the pipe, within the limits, and end without any of the parent's exits."""
    os.close(reading)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (ceil(seconds), ceil(seconds) + 1))
        pages = (
            int(Path("/proc/self/statm").read_text().split()[0])
            if Path("/proc/self/statm").exists()
            else 0
        )
        most, (_, hard) = (
            pages * resource.getpagesize() + _MEMORY,
            resource.getrlimit(resource.RLIMIT_AS),
        )
        resource.setrlimit(
            resource.RLIMIT_AS,
            (most if hard == resource.RLIM_INFINITY else min(most, hard), hard),
        )
        try:
            found: Any = work()
        except (CurvedpError, OSError) as error:
            found = type(error)(str(error))
        except MemoryError:
            raise
        except Exception as error:  # told as what it is, not as a lack of memory
            found = ParameterError(
                f"the certificate cannot be recomputed ({type(error).__name__})"
            )
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(found))
    except BaseException:
        os._exit(1)
    os._exit(0)


def _answer(reading: int, deadline: float) -> bytes | None:
    """All that the child writes; None where it has not ended in time."""
    parts: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            return None
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None
