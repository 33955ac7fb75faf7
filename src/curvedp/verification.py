"""Certificates in files: verified in a limited process, and signed.

The command line and the studio call these functions. A certificate's file is read once;
its text goes to a process of its own (`curvedp.verify_worker`), and whatever happens
next happens to the same text, so that nobody can put another file in its place.
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

# Seconds of computing that a certificate may take; ten with the start of the program.
DEFAULT_SECONDS = 7.0

# Seconds until the worker is ended, for each second of computing, on a busy machine;
# and seconds for its start.
_WAIT_PER_SECOND = 10
_START_SECONDS = 60

# Bytes of a certificate's file, as `Certificate.from_json` allows, and of a
# signature's.
_MAX_CERTIFICATE_BYTES = 1 << 25
_MAX_SIGNATURE_BYTES = 1 << 20


class ClaimCheck(NamedTuple):
    """One claim of a certificate: confirmed, refuted, or (None) of a kind that nobody can
    confirm from the certificate."""

    claim: str
    holds: bool | None
    detail: str


@dataclass(frozen=True)
class Verification:
    """What a limited process found out about one certificate."""

    text: str
    checks: list[ClaimCheck]
    notes: list[str]

    def certificate(self, refusal: str = "") -> "Certificate":
        """Return the certificate; `VerificationFailed` where a claim was refuted.

        Parameters
        ----------
        refusal : str
            Words before the claims that failed, such as "not signed: ".
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
        The public key in hexadecimal digits, or the name of its file, of somebody who
        must have signed the certificate.
    seconds : float
        How long the computation may take.

    Raises
    ------
    ParameterError
        It is no certificate, or recomputing it takes more time or memory than allowed.
    VerificationFailed
        A signature is asked for and there is none.
    """
    text = read_certificate_text(path)
    question: dict[str, Any] = {"certificate": text}
    if public_key is not None:
        key = _public_key_digits(public_key)
        question["public_key"] = key
        question["signature"] = read_signatures(path).get(key)
    found = ask_worker("verify", question, seconds)
    checks = [ClaimCheck(*check) for check in found["checks"]]
    return Verification(text, checks, found["notes"])


def sign_file(
    path: Path, identity: "Ed25519PrivateKey", seconds: float = DEFAULT_SECONDS
) -> Path:
    """Verify the certificate in a file and sign it; return the file of the signatures.

    Signed is the whole certificate in one spelling (RFC 8785): the released integers or
    their SHA-256, every public number, and the ledger's entry with its hash. Signatures
    of others that still hold are kept; those of an earlier certificate are not.

    Raises
    ------
    VerificationFailed
        A claim is refuted. Nothing was signed.
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
    """Raise `VerificationFailed` with the claims that were refuted, if any were."""
    refuted = [check.claim for check in checks if check.holds is False]
    if refuted:
        raise VerificationFailed(refusal + ", ".join(refuted))


def read_certificate_text(path: Path) -> str:
    """Read the text of a certificate, which is not looked at yet."""
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
    """Return the signatures beside a certificate, by public key.

    Raises
    ------
    VerificationFailed
        There is no file of signatures, or what is in it is something else.
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
        raise VerificationFailed(f"{source} holds no signatures") from None
    return signatures


def signature_path(path: Path) -> Path:
    """Return where the signatures of a certificate lie: beside it, with .sig."""
    return path.with_name(path.name + ".sig")


def _public_key_digits(key: str) -> str:
    """Return a public key, given as text or as a file's name, in lower-case digits.

    64 hexadecimal digits are the key itself, never a file's name: a file of that name
    in a stranger's folder must not decide whom we trust.
    """
    from curvedp.core.certificate_form import is_lower_hex
    from curvedp.signing import public_key

    if is_lower_hex(key.strip().lower()):
        return public_key(key.strip()).public_bytes_raw().hex()
    try:
        with Path(key).open("rb") as file:
            key = file.read(200).decode("ascii").strip()
    except (OSError, ValueError):
        pass  # It is no file: it is the key itself.
    return public_key(key).public_bytes_raw().hex()


def ask_worker(
    operation: str,
    question: dict[str, Any],
    seconds: float,
    module: str = "curvedp.verify_worker",
) -> Any:
    """Answer a question in a process of its own that is limited in time and memory.

    The process is started with `-P`, so that no module of the working folder is
    imported.

    Raises
    ------
    ParameterError
        The process took more computing time than `seconds`, or more than 2 GB.
    CurvedpError, OSError
        What the worker itself refused.
    """
    if not 0 < seconds < 1e6:
        raise ParameterError(f"--seconds {seconds} must be finite and > 0")
    question = {**question, "operation": operation, "seconds": seconds}
    try:
        process = subprocess.run(
            [sys.executable, "-P", "-m", module],
            input=json.dumps(question),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            timeout=_START_SECONDS + _WAIT_PER_SECOND * seconds,
            env=_worker_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_slow(seconds) from None
    ended_by_signal = process.returncode < 0
    if ended_by_signal and signal.Signals(-process.returncode).name == "SIGXCPU":
        raise _too_slow(seconds)
    try:
        reply = json.loads(process.stdout)
    except ValueError:  # It was ended before it had answered.
        reply = {"error": {"kind": "MemoryError"}}
    if "error" in reply:
        raise _to_exception(**reply["error"])
    return reply["result"]


def _worker_environment() -> dict[str, str]:
    """Return the environment, in which the worker finds the same curvedp first."""
    package_folder = str(Path(__file__).resolve().parents[1])
    search_path = [package_folder]
    if os.environ.get("PYTHONPATH"):
        search_path.append(os.environ["PYTHONPATH"])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(search_path),
        "PYTHONIOENCODING": "utf-8",
    }


def _too_slow(seconds: float) -> ParameterError:
    return ParameterError(
        f"the certificate was not recomputed within {seconds:g} s; "
        "--seconds gives it longer"
    )


def _to_exception(kind: str, message: str = "") -> Exception:
    """Return the exception that a worker named."""
    if kind == "MemoryError":
        text = "the certificate cannot be recomputed within 2 GB of memory"
        return ParameterError(text)
    if kind == "OSError":
        return OSError(message)
    if kind in errors.__all__:
        known: type[Exception] = vars(errors)[kind]
        return known(message)
    return ParameterError(message)
