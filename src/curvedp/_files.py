"""Files that are written whole or not at all."""

import os
import secrets
from pathlib import Path


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write beside the target and rename onto it: a reader never sees half a file, and a crash leaves the old one."""
    target = Path(path)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        with fresh.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
