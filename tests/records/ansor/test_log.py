"""Logs of TVM's auto_scheduler: every line counted, programs placed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorsmith.records import ansor

LOGS = Path(__file__).parent / "logs"


@pytest.mark.parametrize("path", sorted(LOGS.glob("[vk]*.jsonl")), ids=lambda p: p.stem)
def test_programs_of_gpus_are_candidates(path: Path) -> None:
    log = ansor.read(path)
    assert not log.faults
    assert all(r.group.placed is not None for r in log.records), log.counts()
    for record in log.records:
        assert record.reason is None and record.candidate is not None
        assert record.candidate.sketch.workload == record.workload
