"""Draft an entry for the OpenDP registry of deployments, from the certificates of a study
and the answers of its *curator*, who publishes it; and write it as YAML.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from curvedp.core.certificate import Certificate
from curvedp.core.wording import protected_unit_sentence, trust_sentence
from curvedp.statement.promise import Certificates, as_list
from curvedp.statement.words import (
    describe_certificates,
    join_sentences,
)

__all__ = ["registry", "yaml"]


def registry(certificates: Certificates, study: Mapping[str, Any]) -> dict[str, Any]:
    """Return a draft entry for the OpenDP registry of deployments (its tier 3).

    Parameters
    ----------
    certificates : Certificate or sequence of Certificate
        One release, or all releases of a study.
    study : mapping
        The curator's answers, as `read_study` returns them.

    Returns
    -------
    dict
        The entry by the schema of the registry; `yaml` writes it.
    """
    listed = as_list(certificates)
    words = describe_certificates(listed)
    return {
        "url_slug": study["slug"],
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic_section(study),
            "dp_variant": {
                "variant_name": words.variant,
                "data_domain": study["data"],
                "unprotected_quantities": (
                    f"{words.unprotected} Curator: {study['unprotected']}"
                ),
            },
            "privacy_loss": {
                "privacy_unit": join_sentences(listed, protected_unit_sentence),
                "privacy_unit_details": words.unit,
                "privacy_parameters": words.parameters,
                "privacy_parameters_details": words.guarantee,
            },
            "deployment_model": {
                "model_name": words.trust_model,
                "model_name_details": join_sentences(listed, trust_sentence),
                **_releases_section(study),
            },
            "accounting": {
                "post_processing": words.post_processing,
                "composition": words.payment,
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": study["preprocessing"],
                "mechanisms": (
                    f"{words.mechanism}. Curator, on security: {study['security']}"
                ),
                "justification": study["justification"],
            },
            "administrative": {
                "sources": study["links"],
                "notes": _registry_notes(listed),
                "registry_authors": study["authors"],
            },
        },
    }


def _basic_section(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a registry entry on what is published, and by whom.

    Parameters
    ----------
    study : mapping
        The curator's answers.
    """
    return {
        "name": study["name"],
        "data_curators": study["curators"],
        "intended_use": study["intended_use"],
        "data_product_type": "Summary statistics",
        "data_product_region": study["region"],
        "description": study["description"],
        "publication_date": study["publication_date"],
        "data_product_sector": study["sector"],
    }


def _releases_section(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a registry entry on who releases what, and how often.

    Parameters
    ----------
    study : mapping
        The curator's answers.
    """
    return {
        "actors": study["actors"],
        "release_type": study["releases"],
        "release_type_details": study["plans"],
        "data_source_type": study["source"],
        "access_type": "Non-interactive",
    }


def _registry_notes(certificates: Sequence[Certificate]) -> str:
    """Return a note for the registry's reviewers: who vouches for which part.

    Parameters
    ----------
    certificates : sequence of Certificate
        The certificates of the releases.

    Returns
    -------
    str
        A sentence that names the certificates by their hashes.
    """
    hashes = ", ".join(certificate.provenance.sha256 for certificate in certificates)
    noun = "certificate" if len(certificates) == 1 else "certificates"
    return (
        "privacy_loss and the sensitivity in implementation.mechanisms are recomputed "
        f"from the {noun} with SHA-256 {hashes} (curvedp verify); "
        "variant_name, model_name, accounting and the rest of "
        "mechanisms are recorded in it by the software; "
        "everything else is stated by the curator."
    )


def yaml(value: Any, indent: str = "") -> str:
    r"""Write nested values as YAML, with one line for each text or number.

    For {"name": "x", "links": ["y"]} it returns 'name: "x"\nlinks:\n  - "y"\n'.

    Parameters
    ----------
    value : mapping, list of texts, text or number
        Mappings may be nested. Each text and number is written as JSON, which is YAML.
    indent : str
        The spaces before each line.

    Returns
    -------
    str
        The text, which ends with a line end.
    """
    if isinstance(value, Mapping):
        text = ""
        for name, item in value.items():
            separator = "\n" if isinstance(item, Mapping | list) else " "
            text += f"{indent}{name}:{separator}{yaml(item, indent + '  ')}"
        return text
    if isinstance(value, list):
        return "".join(f"{indent}- {yaml(item)}" for item in value)
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "." not in text:
        # YAML 1.1 reads 1e-06 as a text, and 1.0e-06 as a number.
        text = text.replace("e", ".0e")
    return text + "\n"
