"""`curvedp key | sign | statement`: who stands behind a certificate, as Ed25519 signatures beside it, and what it tells.

Signed is the whole certificate in one spelling (RFC 8785): released integers or their SHA-256, every public number, and the
ledger's entry with its hash, which is the head of the chain at that time.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from curvedp._console import command, console, inert
from curvedp._files import write_atomically
from curvedp._progress import waiting
from curvedp.cli_verify import SECONDS, checks_of, confirmed, limited
from curvedp.errors import ParameterError, VerificationFailed

SCHEMA = "curvedp-signature/1"
_MOST_BYTES = 1 << 20


@command
def key(
    path: Annotated[
        Path, typer.Argument(help="for the private key; one that exists is not touched")
    ],
) -> None:
    """A new key: the private half into a file that only you may read, the public half into the same with .pub and here."""
    from curvedp.signing import key_of, new_identity, write_key

    public, identity = path.with_name(path.name + ".pub"), new_identity()
    if public.exists():
        raise ParameterError(f"{public} exists; a key is never overwritten")
    write_key(path, identity)
    write_atomically(public, key_of(identity) + "\n")
    console.print(f"public key {key_of(identity)}", soft_wrap=True)


@command
def sign(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    key: Annotated[Path, typer.Option(help="private key, as `curvedp key` writes it")],
    seconds: Annotated[
        float, typer.Option(help="how long verification may take")
    ] = SECONDS,
) -> None:
    """Verify a certificate and sign it: the signature goes into certificate.json.sig. Exit 1 if a claim is not confirmed."""
    from curvedp.signing import key_of, read_key

    identity = read_key(key)
    with waiting("recomputing every claim"):
        held, checks = limited(lambda: checks_of(certificate), seconds)
    confirmed(checks, "not signed: ")
    others = signatures_of(certificate) if _beside(certificate).exists() else {}
    kept = {
        name: sign for name, sign in others.items() if held.is_signed(name, sign)
    }  # not those of an earlier one
    signed = {**kept, key_of(identity): held.signature(identity)}
    write_atomically(
        _beside(certificate),
        json.dumps({"schema": SCHEMA, "signatures": signed}, indent=2) + "\n",
    )
    console.print(
        f"signed by {key_of(identity)}: {inert(_beside(certificate))}", soft_wrap=True
    )


def check_signature(certificate: Any, path: Path, key: str) -> Any:
    """Whether the certificate of a file was signed, as it stands, by the holder of a public key (text or file)."""
    from curvedp.mechanisms.certificate import Check
    from curvedp.signing import public_key

    try:
        with Path(key).open("rb") as file:
            key = file.read(200).decode("ascii").strip()
    except (OSError, ValueError):
        pass  # no file: the key itself
    text = public_key(key).public_bytes_raw().hex()  # always in lower case
    held = certificate.is_signed(text, signatures_of(path).get(text))
    return Check(
        f"signature of {text[:16]}…", held, "Ed25519 over the certificate as it stands"
    )


def signatures_of(path: Path) -> dict[str, Any]:
    """By public key, what stands beside the certificate; `VerificationFailed` where that is no file of signatures."""
    try:
        with _beside(path).open("rb") as file:
            record = json.loads(file.read(_MOST_BYTES))
        if record["schema"] != SCHEMA or not isinstance(record["signatures"], dict):
            raise ValueError
    except FileNotFoundError:
        raise VerificationFailed(
            f"there is no signature: {_beside(path)} does not exist"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise VerificationFailed(f"{_beside(path)} holds no signatures") from None
    return dict(record["signatures"])


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".sig")


@command
def statement(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    study: Annotated[
        Path,
        typer.Option(
            help="the curator's answers; written as a form where it does not exist"
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="folder for registry.yaml, label.html and worksheet.html"),
    ],
    seconds: Annotated[
        float, typer.Option(help="how long verification may take")
    ] = SECONDS,
) -> None:
    """What the public is told of a release: registry entry, privacy label, SP 800-226 worksheet, from a certificate that is
    verified first. Exit 1 if a claim is not confirmed."""
    from curvedp import statement as words

    if not study.exists():
        write_atomically(study, words.template())
        raise ParameterError(
            f"{study} was written: answer its questions, then run this again"
        )
    said = words.read_study(study)
    with waiting("recomputing every claim"):
        held, checks = limited(lambda: checks_of(certificate), seconds)
    open_ = tuple(
        f"{c.claim}: {c.detail}"
        for c in confirmed(checks, "no statement: ")
        if c.holds is None
    )
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "registry.yaml", words.yaml(words.registry(held, said)))
    write_atomically(out / "label.html", words.label(held, said, open_))
    write_atomically(out / "worksheet.html", words.worksheet(held, said, open_))
    console.print(
        f"registry.yaml, label.html and worksheet.html are in {inert(out)}",
        soft_wrap=True,
    )
