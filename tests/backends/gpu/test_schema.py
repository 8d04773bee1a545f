"""The schema of GPU features is documentation that programs rely on: names, order and version, and its page."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from tensorsmith.backends.gpu.features.schema import SCHEMA
from tensorsmith.backends.gpu.rates import DEFAULT

DOCS = Path(__file__).parents[3] / "docs"


def test_columns_do_not_move_within_a_version() -> None:
    # a change here means another version: models of the old one would read the wrong columns
    digest = hashlib.sha256("\n".join(f"{f.name} {f.unit}" for f in SCHEMA.features).encode()).hexdigest()[:16]
    rates = hashlib.sha256(repr(DEFAULT).encode()).hexdigest()[:16]  # the group `estimate` depends on these
    assert (SCHEMA.version, digest, rates) == (3, "1c1cf1c2f148998b", "0f190820060229df")


def test_the_page_has_the_table_of_now() -> None:
    spec = importlib.util.spec_from_file_location("gpu_features", DOCS / "make" / "gpu_features.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (DOCS / "gpu-model.md").read_text()
    assert module.with_table(text) == text and text.count("| `") >= len(SCHEMA)
