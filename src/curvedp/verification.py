"""Verify and sign certificates, the files that state the privacy of releases.
The command line and the studio call these functions. A certificate may come from a
stranger, so it is checked in a separate process with limited time and memory
(`curvedp.verify_worker`). A file is read only once, and all later steps use the same
text, so that nobody can swap the file in between.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from curvedp import errors
from curvedp._files import write_atomically
from curvedp.errors import ParameterError, VerificationFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from curvedp.core.certificate import Certificate

SIGNATURE_SCHEMA = "curvedp-signature/1"

# How many seconds of CPU time the verification of a certificate may take by default.
# With the start of the worker process, a user waits for about ten seconds.
DEFAULT_SECONDS = 7.0

# On a busy machine a process may wait for the CPU. The worker is stopped after this
# many seconds of waiting for each second of CPU time that it is allowed ...
_WAIT_PER_SECOND = 10

# ... plus this many seconds for its start.
_START_SECONDS = 60

# The largest certificate, in bytes; `Certificate.from_json` has the same limit.
_MAX_CERTIFICATE_BYTES = 1 << 25

# The largest file of signatures, in bytes.
_MAX_SIGNATURE_BYTES = 1 << 20

# How many bytes of a file with a public key are read; a key has 64.
_MAX_PUBLIC_KEY_BYTES = 200

# The longest time that can be asked for, in seconds.
_MAX_SECONDS = 1e6


class ClaimCheck(NamedTuple):
    """The result of checking one claim of a certificate.

    Attributes
    ----------
    claim : str
        The claim, in words.
    holds : bool or None
        True if it was confirmed, False if it was refuted, None if nobody can confirm it
        from the certificate alone.
    detail : str
        The numbers behind the result.
    """

    claim: str
    holds: bool | None
    detail: str


@dataclass(frozen=True)
class Verification:
    """The result of verifying one certificate.

    Attributes
    ----------
    text : str
        The text of the certificate that was verified.
    checks : list of ClaimCheck
        The result for each claim.
    notes : list of str
        Remarks for the reader that are neither confirmations nor refutations.
    """

    text: str
    checks: list[ClaimCheck]
    notes: list[str]

    def certificate(self, refusal: str = "") -> "Certificate":
        """Return the certificate if no claim was refuted.

        Parameters
        ----------
        refusal : str
            How the error message begins, such as "not signed: ".

        Returns
        -------
        Certificate
            The verified certificate, parsed from the same text.

        Raises
        ------
        VerificationFailed
            If a claim was refuted.
        """
        from curvedp.core.certificate import Certificate

        raise_if_refuted(self.checks, refusal)
        return Certificate.from_json(self.text)


def verify_file(
    path: Path, *, public_key: str | None = None, seconds: float = DEFAULT_SECONDS
) -> Verification:
    """Recompute every claim of the certificate in a file.

    Parameters
    ----------
    path : Path
        The certificate.
    public_key : str, optional
        The Ed25519 key of somebody who must have signed the certificate: 64 hexadecimal
        digits, or the name of a file that contains them.
    seconds : float
        The CPU time that the verification may take, in seconds.

    Returns
    -------
    Verification
        The result for each claim. Refuted claims do not raise here.

    Raises
    ------
    ParameterError
        If the file is not a certificate, or if its verification takes more time or
        memory than allowed.
    VerificationFailed
        If `public_key` is given and the certificate has no signatures.
    """
    text = read_certificate_text(path)
    request: dict[str, Any] = {"certificate": text}
    if public_key is not None:
        key = _parse_public_key(public_key)
        request["public_key"] = key
        request["signature"] = read_signatures(path).get(key)
    reply = run_in_worker("verify", request, seconds)
    checks = [ClaimCheck(*check) for check in reply["checks"]]
    return Verification(text, checks, reply["notes"])


def sign_file(
    path: Path, identity: "Ed25519PrivateKey", seconds: float = DEFAULT_SECONDS
) -> Path:
    """Verify the certificate in a file, then sign it.

    The signature covers the whole certificate in its canonical JSON form (RFC 8785):
    the released integers or their SHA-256, every public number, and the ledger entry
    with its hash. The signature is added to the file of signatures beside the
    certificate. Signatures by other people are kept if they are still valid.

    Parameters
    ----------
    path : Path
        The certificate.
    identity : Ed25519PrivateKey
        The key to sign with.
    seconds : float
        The CPU time that the verification may take, in seconds.

    Returns
    -------
    Path
        The file of signatures.

    Raises
    ------
    VerificationFailed
        If a claim is refuted. Nothing is signed then.
    """
    from curvedp.core.certificate import is_certificate_signed, sign_certificate
    from curvedp.signing import key_of

    certificate = verify_file(path, seconds=seconds).certificate("not signed: ")
    target = signature_path(path)
    others = read_signatures(path) if target.exists() else {}
    signatures = {
        key: signature
        for key, signature in others.items()
        if is_certificate_signed(certificate, key, signature)
    }
    signatures[key_of(identity)] = sign_certificate(certificate, identity)
    record = {"schema": SIGNATURE_SCHEMA, "signatures": signatures}
    write_atomically(target, json.dumps(record, indent=2) + "\n")
    return target


def raise_if_refuted(checks: Iterable[ClaimCheck], refusal: str = "") -> None:
    """Raise `VerificationFailed` if a claim was refuted; the message lists all of them.

    Claims that nobody can confirm do not raise.

    Parameters
    ----------
    checks : iterable of ClaimCheck
        The result for each claim.
    refusal : str
        How the message begins, such as "not signed: ".
    """
    refuted = [check.claim for check in checks if check.holds is False]
    if refuted:
        raise VerificationFailed(refusal + ", ".join(refuted))


def read_certificate_text(path: Path) -> str:
    """Return the text of a certificate's file, without parsing it.

    At most one byte more than the size limit is read, so that the parser can refuse a
    file that is too long.

    Parameters
    ----------
    path : Path
        The certificate.

    Returns
    -------
    str
        The text, whatever it says.

    Raises
    ------
    ParameterError
        If the file cannot be read or is not UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            return file.read(_MAX_CERTIFICATE_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError:
        raise ParameterError(f"{path} is not a certificate: it is not text") from None
    except OSError as error:
        raise ParameterError(
            f"cannot read the certificate {path}: {error.strerror}"
        ) from None


def read_signatures(path: Path) -> dict[str, Any]:
    """Read the file of signatures beside a certificate.

    Parameters
    ----------
    path : Path
        The certificate, beside which the file of signatures is.

    Returns
    -------
    dict
        The signatures, by the public key of the signer.

    Raises
    ------
    VerificationFailed
        If there is no file of signatures, or if it has another format.
    """
    source = signature_path(path)
    try:
        with source.open("rb") as file:
            record = json.loads(file.read(_MAX_SIGNATURE_BYTES))
        schema, signatures = record["schema"], record["signatures"]
        if schema != SIGNATURE_SCHEMA or not isinstance(signatures, dict):
            raise ValueError
    except FileNotFoundError:
        raise VerificationFailed(
            f"there is no signature: {source} does not exist"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise VerificationFailed(f"{source} is not a file of signatures") from None
    return signatures


def signature_path(path: Path) -> Path:
    """Return the path of a certificate's signatures: its own path with .sig added.

    Parameters
    ----------
    path : Path
        The certificate, such as certificate.json.
    """
    return path.with_name(path.name + ".sig")


def _parse_public_key(key_or_path: str) -> str:
    """Return a public key as 64 lower-case hexadecimal digits.

    Parameters
    ----------
    key_or_path : str
        The key itself, or the name of a file that contains it. 64 hexadecimal digits
        are always taken as the key: a file with that name, planted in the working
        folder, must not decide whom we trust.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    ParameterError
        If neither the text nor the file is a public key.
    """
    from curvedp.core.certificate_form import is_64_hex_digits
    from curvedp.signing import public_key

    key = key_or_path.strip()
    if not is_64_hex_digits(key.lower()):
        try:
            with Path(key_or_path).open("rb") as file:
                key = file.read(_MAX_PUBLIC_KEY_BYTES).decode("ascii").strip()
        except (OSError, ValueError):
            pass  # There is no such file, so `public_key` reports what is wrong.
    return public_key(key).public_bytes_raw().hex()


def run_in_worker(
    operation: str,
    request: dict[str, Any],
    seconds: float,
    module: str = "curvedp.verify_worker",
) -> Any:
    """Run an operation in a separate process with limited time and memory.

    The process is started with `python -P`, so that it imports no module from the
    working folder. Requests and replies are JSON.

    Parameters
    ----------
    operation : str
        The name of the operation, such as "verify".
    request : dict
        The arguments of the operation, as JSON values.
    seconds : float
        The CPU time that the process may use, in seconds.
    module : str
        The module that the process runs.

    Returns
    -------
    JSON value
        The result of the operation.

    Raises
    ------
    ParameterError
        If the process needs more CPU time than `seconds`, or more than 2 GB of memory.
    CurvedpError, OSError
        If the operation itself raised one of these in the worker.
    """
    if not 0 < seconds < _MAX_SECONDS:
        raise ParameterError(
            "must be finite and > 0", parameter="seconds", value=seconds
        )
    request = {**request, "operation": operation, "seconds": seconds}
    try:
        process = subprocess.run(
            [sys.executable, "-P", "-m", module],
            input=json.dumps(request),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            timeout=_START_SECONDS + _WAIT_PER_SECOND * seconds,
            env=_worker_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _time_limit_error(seconds) from None

    was_killed = process.returncode < 0
    if was_killed and signal.Signals(-process.returncode).name == "SIGXCPU":
        raise _time_limit_error(seconds)
    try:
        reply = json.loads(process.stdout)
    except ValueError:
        # The process died before it could reply. It catches all exceptions, so the
        # operating system must have stopped it for its memory.
        reply = {"error": {"kind": "MemoryError"}}
    if "error" in reply:
        raise _to_exception(**reply["error"])
    return reply["result"]


def _worker_environment() -> dict[str, str]:
    """Return the environment variables for a worker process.

    With them the worker imports the same copy of curvedp as this process, and writes
    UTF-8.

    Returns
    -------
    dict
        This process's environment with two changes.
    """
    package_folder = str(Path(__file__).resolve().parents[1])
    search_path = [package_folder]
    if os.environ.get("PYTHONPATH"):
        search_path.append(os.environ["PYTHONPATH"])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(search_path),
        "PYTHONIOENCODING": "utf-8",
    }


def _time_limit_error(seconds: float) -> ParameterError:
    """Return the exception for a verification that took too much CPU time.

    Parameters
    ----------
    seconds : float
        The CPU time that was allowed.
    """
    return ParameterError(
        f"the certificate was not recomputed within {seconds:g} s; "
        "--seconds gives it longer"
    )


def _to_exception(kind: str, message: str = "") -> Exception:
    """Return the exception that a worker process reported by its name.

    The caller raises it again in this process.

    Parameters
    ----------
    kind : str
        The name of the exception's class.
    message : str
        Its message.

    Returns
    -------
    Exception
        An exception of the same class, if it is one of curvedp's.
    """
    if kind == "MemoryError":
        text = "the certificate cannot be recomputed within 2 GB of memory"
        return ParameterError(text)
    if kind == "OSError":
        return OSError(message)
    if kind in errors.__all__:
        exception_type: type[Exception] = vars(errors)[kind]
        return exception_type(message)
    return ParameterError(message)
