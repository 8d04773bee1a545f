"""The schema is documentation that programs rely on: names, order and version."""

from __future__ import annotations

import hashlib

from tensorsmith.backends.cpu.features.schema import FEATURES, INDEX, NAMES, SCHEMA_VERSION, SLOT_NAMES, SLOTS, markdown


def test_names_are_unique_and_indexed() -> None:
    assert len(set(NAMES)) == len(FEATURES) == 248
    assert all(INDEX[name] == n for n, name in enumerate(NAMES))


def test_every_feature_is_defined() -> None:
    for f in FEATURES:
        assert f.unit and f.group and len(f.definition) > 4, f
        assert f.definition.endswith("."), f


def test_columns_do_not_move_within_a_version() -> None:
    # a change here means another SCHEMA_VERSION: models of the old one would read the wrong columns
    digest = hashlib.sha256("\n".join(f"{f.name} {f.unit}" for f in FEATURES).encode()).hexdigest()[:16]
    assert (SCHEMA_VERSION, digest) == (1, "90555342ca18e493")


def test_slots_have_the_same_columns() -> None:
    for slot in SLOTS:
        first = INDEX[f"{slot}_{SLOT_NAMES[0]}"]
        assert NAMES[first : first + len(SLOT_NAMES)] == tuple(f"{slot}_{name}" for name in SLOT_NAMES)


def test_markdown_lists_every_feature_once() -> None:
    rows = [line for line in markdown().splitlines() if line.startswith("| ")]
    assert len(rows) == len(FEATURES) + 2
    assert all(f"`{name}`" in row for name, row in zip(NAMES, rows[2:]))
    assert all(row.count(" | ") == 4 for row in rows)
