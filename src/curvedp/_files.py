"""Files that are written completely or not at all."""

import os
import secrets
from functools import partial
from pathlib import Path


def write_atomically(
    path: str | Path, content: str | bytes, *, mode: int = 0o666
) -> None:
    """Write a file so that a reader sees either the old content or all of the new one.

    The content is written to another file in the same folder, which is then renamed. A
    crash leaves the old file.

    Parameters
    ----------
    path : str or Path
        The file to write or replace.
    content : str or bytes
        The new content; a text is encoded in UTF-8.
    mode : int
        The permissions of the new file, before the umask is applied. The file has them
        from the first moment on.
    """
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        with open(unfinished, "xb", opener=partial(os.open, mode=mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
