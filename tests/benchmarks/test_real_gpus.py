"""The GPU prior on short pieces of logs of real GPUs: reading them, and the figures of the benchmark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import real_gpus
import real_gpus_data
from tensorsmith.errors import UserError

LOGS = Path(__file__).parents[1] / "records" / "ansor" / "logs"
SAMPLES = Path(__file__).parent / "data" / "real-gpus"


@pytest.fixture(scope="module")
def given() -> real_gpus_data.Found:
    return real_gpus_data.read(SAMPLES)


def test_searches_by_source(given: real_gpus_data.Found) -> None:
    """The index says how many records of a task each source log has, in order; failures count as places, not as programs."""
    index = json.loads((SAMPLES / "index.json").read_text())
    for s in given.searches:
        (entry,) = (e for e in index[f"{s.device}.{s.kind}.jsonl.xz"] if json.loads(e["key"]) == json.loads(s.task))
        assert 0 < len(s.seconds) <= entry["sources"][s.source] and s.order.max() < entry["sources"][s.source]
        assert len(s.rows) == len(s.expected) == len(s.seconds) and (s.expected > 0).all() and (np.diff(s.order) > 0).all()
    assert {(s.device, s.kind) for s in given.searches} == {("v100", "matmul"), ("k80", "conv2d"), ("a100", "pooling")}
    assert given.left_out["v100.matmul: failed, run failed"] > 0


def test_the_prior_knows_bad_programs_of_real_gpus(given: real_gpus_data.Found) -> None:
    found = real_gpus.compared(given.searches, lambda s: s.expected, 64)
    by_device = {name.split()[0]: row for name, row in found["early"].items()}
    assert by_device["v100"]["spearman"] > 0.85 and by_device["k80"]["spearman"] > 0.82 and by_device["a100"]["spearman"] > 0.97
    assert all(row["top5"] > 0.95 for row in by_device.values())
    assert by_device["v100"]["random5"] < 0.8  # what was not chosen is slow: the figures say something


def test_trees_on_a_device_that_they_have_not_seen(given: real_gpus_data.Found) -> None:
    settings = real_gpus.EnsembleSettings(members=2, trees=real_gpus.SETTINGS.trees)
    found = real_gpus.left_out(given.searches, "device", 64, settings)
    assert found["early"].keys() == real_gpus.compared(given.searches, lambda s: s.expected, 64)["early"].keys()
    assert all(np.isfinite(list(row.values())).all() for row in found["early"].values())


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--logs", str(SAMPLES), "--only", "k80", "--json", str(tmp_path / "found.json")]
    assert real_gpus.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "k80 conv2d" in shown and "v100" not in shown
    assert len(json.loads((tmp_path / "found.json").read_text())["prior"]["early"]) == 1


def test_folders_without_logs_or_of_unknown_devices(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no file"):
        real_gpus_data.read(tmp_path)
    shutil.copy(LOGS / "v100.matmul.jsonl", tmp_path / "abacus.matmul.jsonl")
    found = real_gpus_data.read(tmp_path)
    assert not found.searches and found.left_out == {"abacus.matmul: no GPU of that name": 1}


def test_slow_of_the_fast() -> None:
    seconds = np.arange(1.0, 101.0)
    assert real_gpus.slow_of_the_fast(seconds, seconds) == 0.0 and real_gpus.slow_of_the_fast(seconds, -seconds) == 1.0
