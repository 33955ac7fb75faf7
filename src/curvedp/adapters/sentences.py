"""Embeddings of texts by a sentence encoder that the user has installed.
Nothing is downloaded: the encoder must lie on this machine.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from curvedp._silence import quiet_about_records
from curvedp.errors import MissingExtra, ParameterError

# A longer text is cut off before it is embedded. One record must not take hours, or all
# of the memory.
_LONGEST_TEXT = 20_000

# Each text is embedded by itself. In a batch texts are padded to the longest one, so
# that one text would change the last digits of the embeddings of others.
_BATCH_SIZE = 1


def embed_texts(texts: Iterable[Any], encoder: str | Path) -> np.ndarray:
    """Embed texts with a local sentence encoder.

    Parameters
    ----------
    texts : iterable
        The texts. Anything else is embedded as the empty text, so that no record
        decides whether the data are read.
    encoder : str or path
        The folder of a model of sentence-transformers, or the name of one that is on
        this machine already.

    Returns
    -------
    array of float32, shape (n, size)
        Unit vectors: records of `Sphere(size - 1)`.

    Raises
    ------
    MissingExtra
        If sentence-transformers is not installed.
    ParameterError
        If there is no such encoder on this machine.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtra(
            "embedding texts needs: pip install sentence-transformers"
        ) from error
    try:
        model = SentenceTransformer(str(encoder), local_files_only=True)
    except (OSError, ValueError):
        raise ParameterError(
            "is not on this machine; nothing is downloaded",
            parameter="encoder",
            value=str(encoder),
        ) from None
    cleaned = [_clean(text) for text in texts]
    with quiet_about_records():
        vectors = model.encode(
            cleaned,
            batch_size=_BATCH_SIZE,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
    return np.asarray(vectors, dtype=np.float32)


def _clean(text: Any) -> str:
    """Return a text that every encoder takes: not too long, and of whole letters.

    Parameters
    ----------
    text : object
        A cell; anything but a text becomes the empty text.

    Returns
    -------
    str
        The first 20000 characters.
    """
    if not isinstance(text, str):
        return ""
    # Half of a letter (a lone surrogate) cannot be encoded, and would raise.
    return text[:_LONGEST_TEXT].encode("utf-8", errors="replace").decode()
