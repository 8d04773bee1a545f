"""A disk that is soon full."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def tiny_disk(kilobytes: int) -> Iterator[Path]:
    """A file system of that size; skips the test where we may not mount one."""
    folder = Path(tempfile.mkdtemp())
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder]
    mounted = shutil.which("mount") and not subprocess.run(command, capture_output=True).returncode
    try:
        if not mounted:
            pytest.skip("cannot mount a tmpfs here")
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)
        folder.rmdir()
