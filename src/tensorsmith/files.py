"""Files that are there complete or not at all.

A file is written under another name in the same folder, and then takes its place. Others may be able to write to that folder:
nobody can foresee the name, and it is made anew, so that no link that lies there is followed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """What is written becomes the file `path`, with the rights of a new file, unless something goes wrong. Raises `OSError`."""
    temporary = path.with_name(f".{secrets.token_hex(16)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
