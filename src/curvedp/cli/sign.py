"""`curvedp key | sign | statement`: who stands behind a certificate, and what it says.
A signature (Ed25519) is a file beside the certificate. It covers the whole certificate
in one spelling (RFC 8785): the released integers or their SHA-256, every public number,
and the ledger's entry with its hash.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from curvedp._files import write_atomically
from curvedp.cli.console import console, escape_markup, waiting
from curvedp.cli.options import command
from curvedp.cli.outputs import (
    check_targets,
)
from curvedp.errors import ParameterError
from curvedp.verification import (
    DEFAULT_SECONDS,
    read_signatures,
    sign_file,
    signature_path,
    verify_file,
)

if TYPE_CHECKING:
    from curvedp.core.certificate import Certificate

# What `curvedp statement` writes into its folder.
_STATEMENT_FILES = ("registry.yaml", "label.html", "worksheet.html")


@command
def key(
    path: Annotated[
        Path,
        typer.Argument(
            help="file for the private key; an existing file is never overwritten"
        ),
    ],
) -> None:
    """Create a signing key pair.

    Writes PATH, which only its owner may read, and PATH.pub, and prints the public key.
    """
    from curvedp.signing import key_of, new_identity, write_key

    public_path = path.with_name(path.name + ".pub")
    if public_path.exists():
        raise ParameterError(f"{public_path} exists; a key is never overwritten")
    identity = new_identity()
    public_key = key_of(identity)
    write_key(path, identity)
    write_atomically(public_path, public_key + "\n")
    console.print(f"public key {public_key}", soft_wrap=True)


@command
def sign(
    certificate: Annotated[Path, typer.Argument(help="certificate.json")],
    key: Annotated[Path, typer.Option(help="private key, as `curvedp key` writes it")],
    seconds: Annotated[
        float, typer.Option(help="how long verification may take")
    ] = DEFAULT_SECONDS,
) -> None:
    """Verify a certificate and sign it.

    The signature goes into certificate.json.sig. Exit 1 if a claim is not confirmed.
    """
    from curvedp.signing import key_of, read_key

    identity = read_key(key)
    check_targets([certificate, key], signature=signature_path(certificate))
    with waiting("recomputing every claim"):
        target = sign_file(certificate, identity, seconds)
    console.print(
        f"signed by {key_of(identity)}: {escape_markup(target)}", soft_wrap=True
    )


@command
def statement(
    certificates: Annotated[
        list[Path],
        typer.Argument(help="certificate.json, or all certificates of a study"),
    ],
    study: Annotated[
        Path,
        typer.Option(
            help="answers of the curator; created as a form if it does not exist"
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="folder for registry.yaml, label.html and worksheet.html"),
    ] = None,
    print_registry: Annotated[
        bool,
        typer.Option(
            "--registry",
            help="print the entry for the public registry of deployments (yaml)",
        ),
    ] = False,
    ledger: Annotated[
        Path | None, typer.Option(help="of the study: what it spent in all is stated")
    ] = None,
    ledger_key: Annotated[
        Path | None, typer.Option(help="file with the key of a keyed ledger")
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="how long verification may take")
    ] = DEFAULT_SECONDS,
) -> None:
    """Write a privacy label, an SP 800-226 worksheet and a registry entry.

    Every certificate is verified first. Exit 1 if a claim is not confirmed. Several
    certificates are stated together, with what their releases promise together. With
    --registry the entry is printed, so that --out is not needed.
    """
    from curvedp.release.pay import open_ledger
    from curvedp.statement.pages import label, worksheet
    from curvedp.statement.registry_entry import registry, yaml
    from curvedp.statement.study import read_study, template
    from curvedp.statement.words import ledger_sentence

    if out is None and not print_registry:
        raise ParameterError(
            "is missing: name a folder for the pages, or ask for the registry's entry "
            "alone (--registry)",
            parameter="out",
        )

    inputs: list[Path | None] = [*certificates, study, ledger, ledger_key]
    if out is not None and out.is_dir():
        for name in _STATEMENT_FILES:
            check_targets(inputs, out=out / name)
    if not study.exists():
        check_targets([*certificates, ledger, ledger_key], study=study)
        write_atomically(study, template())
        console.print(
            f"Created {escape_markup(study)}, a form in TOML. Fill it in and run the "
            "command again.",
            soft_wrap=True,
        )
        return
    answers = read_study(study)
    verified, notes = _verify_all(certificates, seconds)
    ledger_note = ""
    if ledger is not None:
        ledger_note = ledger_sentence(open_ledger(ledger, key=ledger_key), verified)

    registry_entry = yaml(registry(verified, answers))
    if print_registry:
        print(registry_entry, end="")
    if out is None:
        return

    signers = _common_signers(certificates, verified)
    contents = (
        registry_entry,
        label(verified, answers, notes, ledger_note, signers),
        worksheet(verified, answers, notes, ledger_note, signers),
    )
    out.mkdir(parents=True, exist_ok=True)
    for name, content in zip(_STATEMENT_FILES, contents, strict=True):
        write_atomically(out / name, content)
    if print_registry:
        return
    console.print(
        f"registry.yaml, label.html and worksheet.html are in {escape_markup(out)}",
        soft_wrap=True,
    )


def _common_signers(paths: list[Path], certificates: "list[Certificate]") -> list[str]:
    """Return the public keys whose signatures of all certificates are valid.

    Parameters
    ----------
    paths : list of Path
        The files of the certificates, beside which the signatures are.
    certificates : list of Certificate
        The certificate in each file.
    """
    from curvedp.core.certificate import is_certificate_signed

    common: set[str] | None = None
    for path, certificate in zip(paths, certificates, strict=True):
        signatures = {}
        if signature_path(path).exists():
            signatures = read_signatures(path)
        signers = {
            key
            for key, signature in signatures.items()
            if is_certificate_signed(certificate, key, signature)
        }
        common = signers if common is None else common & signers
    return sorted(common or ())


def _verify_all(
    paths: list[Path], seconds: float
) -> "tuple[list[Certificate], tuple[str, ...]]":
    """Verify certificates, and note the claims that nobody can confirm.

    Parameters
    ----------
    paths : list of Path
        The files of the certificates.
    seconds : float
        How long the verification of each may take.

    Returns
    -------
    certificates : list of Certificate
        The certificates, of which no claim was refuted.
    notes : tuple of str
        Each claim that is neither confirmed nor refuted, once.

    Raises
    ------
    VerificationFailed
        If a claim of a certificate is refuted.
    """
    certificates = []
    unconfirmed: list[str] = []
    for path in paths:
        with waiting("recomputing every claim"):
            verification = verify_file(path, seconds=seconds)
            certificates.append(verification.certificate("no statement: "))
        unconfirmed += [
            f"{check.claim}: {check.detail}"
            for check in verification.checks
            if check.holds is None
        ]
    return certificates, tuple(dict.fromkeys(unconfirmed))
