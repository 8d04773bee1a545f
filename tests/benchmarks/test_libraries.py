"""Networks as C libraries beside the executable: what is compared, and that a difference is seen."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.backends.cpu.export.test_export import network

import libraries

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def test_a_network_in_this_process() -> None:
    exe = network()
    found = libraries.measure(exe, exe.random_inputs(), seconds=0.0)
    assert found.equal and not found.needs_others and found.rounds >= 4 and found.library_bytes > 0
    assert 0.0 < found.lower <= found.upper


def test_what_the_library_does_not_write_is_seen(tmp_path: Path) -> None:
    exe = network()
    inputs = exe.random_inputs()
    library = libraries.Library(exe, inputs, tmp_path)
    want = exe(*inputs)
    assert not any(np.array_equal(a, b) for a, b in zip(library.outputs, want, strict=True))
    library.repeat(2)
    assert all(np.array_equal(a, b) for a, b in zip(library.outputs, want, strict=True))
    library.close()
