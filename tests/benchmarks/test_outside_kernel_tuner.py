"""Our search as a strategy of Kernel Tuner, in its simulation mode, on a small space."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest

import outside_kernel_tuner

X, Y = [1, 2, 4, 8, 16, 32, 64], [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.fixture
def caches(tmp_path: Path) -> Path:
    """One space, on one device: half a hundred points, of which some failed."""
    folder = tmp_path / "small"
    folder.mkdir()
    conditions = [{"Expression": "x * y <= 256", "Parameters": ["x", "y"]}]
    (folder / "T1.json").write_text(json.dumps({"ConfigurationSpace": {"Conditions": conditions}}))
    cache = {}
    for x, y in itertools.product(X, Y):
        if x * y <= 256:
            time = "RuntimeFailedConfig" if y == 7 else 1.0 + abs(X.index(x) - 3) + abs(y - 5)
            row = {"x": x, "y": y, "time": time, "times": [time] * 2 if y != 7 else time}
            times = dict.fromkeys(("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"), 1.0)
            cache[f"{x},{y}"] = {**row, **times, "timestamp": "2024-01-01 00:00:00.000000+00:00"}
    text = json.dumps({
        "device_name": "none", "kernel_name": "f", "problem_size": [64, 64], "tune_params_keys": ["x", "y"],
        "tune_params": {"x": X, "y": Y}, "objective": "time", "cache": cache,
    })  # fmt: skip
    (folder / "GPU.json.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "GPU_T4.json.gz").write_bytes(b"of another form: not read")
    return tmp_path


def test_a_space(caches: Path, tmp_path: Path) -> None:
    (space,) = outside_kernel_tuner.spaces(caches, tmp_path)
    assert space.name == "small/GPU" and space.best == 1.0 and space.parameters == {"x": X, "y": Y}
    assert space.conditions == ["x * y <= 256"] and json.loads(space.cache.read_text())["kernel_name"] == "f"
    assert not outside_kernel_tuner.spaces(caches, tmp_path, "large")


@pytest.mark.outside
@pytest.mark.filterwarnings("ignore")
def test_side_by_side(caches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    arguments = ["--caches", str(caches), "--evaluations", "30", "--repeats", "2", "--json", str(file)]
    assert outside_kernel_tuner.main([*arguments, "--strategies", "tensorsmith,random_sample,greedy_ils"]) == 0
    found = json.loads(file.read_text())["small/GPU"]
    assert set(found) == {"tensorsmith", "random_sample", "greedy_ils"} and all(0 < x <= 1 for row in found.values() for x in row)
    assert found["tensorsmith"] == [1.0, 1.0]
    assert "mean of all spaces" in capsys.readouterr().out
