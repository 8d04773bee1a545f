"""The schema is documentation that programs rely on: names, order and version."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tensorsmith.backends.cpu.features.schema import SCHEMA, SLOT_NAMES, SLOTS


def test_names_are_unique_and_indexed() -> None:
    assert len(set(SCHEMA.names)) == len(SCHEMA) == 248
    assert all(SCHEMA.index[name] == n for n, name in enumerate(SCHEMA.names))


def test_every_feature_is_defined() -> None:
    for f in SCHEMA.features:
        assert f.unit and f.group and len(f.definition) > 4, f
        assert f.definition.endswith("."), f


def test_columns_do_not_move_within_a_version() -> None:
    # a change here means another version: models of the old one would read the wrong columns
    digest = hashlib.sha256("\n".join(f"{f.name} {f.unit}" for f in SCHEMA.features).encode()).hexdigest()[:16]
    assert (SCHEMA.version, digest) == (2, "90555342ca18e493")


def test_slots_have_the_same_columns() -> None:
    for slot in SLOTS:
        first = SCHEMA.index[f"{slot}_{SLOT_NAMES[0]}"]
        assert SCHEMA.names[first : first + len(SLOT_NAMES)] == tuple(f"{slot}_{name}" for name in SLOT_NAMES)


def test_markdown_lists_every_feature_once() -> None:
    rows = [line for line in SCHEMA.markdown().splitlines() if line.startswith("| ")]
    assert len(rows) == len(SCHEMA) + 2
    assert all(f"`{name}`" in row for name, row in zip(SCHEMA.names, rows[2:]))
    assert all(row.count(" | ") == 4 for row in rows)


def test_the_documentation_has_this_version() -> None:
    text = (Path(__file__).parents[4] / "docs" / "features.md").read_text()
    assert SCHEMA.markdown() in text
