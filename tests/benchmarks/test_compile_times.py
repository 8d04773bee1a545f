"""The benchmark of compile times: phases are counted once, and what is shown is what was measured."""

from __future__ import annotations

import importlib
import io
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

import compile_times
import tensorsmith as ts
from zoo import made


def test_a_phase_inside_another_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 3.0, 3.5, 4.5, 10.0])  # tasks begin, fuse begins and ends, so does lower, tasks end
    monkeypatch.setattr(compile_times.time, "thread_time", lambda: next(now))
    phases = compile_times.Phases()
    fuse, lower = phases.watched("fuse", lambda n: n + 1), phases.watched("lower", lambda: None)
    with phases.during("tasks"):
        assert fuse(2) == 3
        lower()
    spent = {name: seconds for name, seconds in phases.seconds.items() if seconds}
    assert spent == {"tasks": 7.0, "fuse": 2.0, "lower": 1.0}


def test_the_table_shows_what_was_before() -> None:
    row = {"cpu": 1.5, "wall": 2.5, "phases": dict.fromkeys(compile_times.PHASES, 0.25), "nodes": 9, "kernels": 3, "calls": 8}
    out = io.StringIO()
    rows = {"a": row, "b": row, "c": {"error": "no such thing"}}
    Console(file=out, width=250).print(compile_times.table(rows, {"a": {**row, "cpu": 39.0, "kernels": 503}}))
    a, b, c = (next(line for line in out.getvalue().splitlines() if f"│ {name} " in line) for name in "abc")
    assert a.replace("│", "").split()[4:8] == ["503", "39.00", "1.50", "2.50"]
    assert "39.00" not in b and "1.50" in b and "no such thing" in c


def test_recurrences_of_every_form_compute_what_they_mean() -> None:
    """Small ones of each kind, compiled: few kernels, and the answer of the reference evaluator."""
    models = {
        "layers": made.recurrent("LSTM", 10, 8, 4, layers=2, both_ways=True),
        "lengths": made.recurrent("GRU", 10, 8, 4, batch=2, lengths=True),
        "scan": made.scan(10, 8, 4, batch=2, axis=1),
        "loop": made.loop(20, 8, 4),
    }
    for name, proto in models.items():
        model = ts.load(proto)
        random = np.random.default_rng(1)
        given = {v.name: random.standard_normal(v.shape, np.float32) for v in model.inputs if v.dtype == "f32"}
        given |= {v.name: random.integers(1, 10, v.shape).astype(np.int32) for v in model.inputs if v.dtype == "i32"}
        executable = ts.compile(model)
        assert len(executable.network.kernels) <= 14 < len(executable.network.steps), name
        (want,) = model.evaluate(given).values()
        np.testing.assert_allclose(executable(**given), want, rtol=1e-4, atol=1e-5, err_msg=name)


def test_no_two_convolutions_are_alike() -> None:
    weights = [tuple(t.dims) for t in made.convolutions().graph.initializer if len(t.dims) == 4]
    assert len(weights) == 100
    assert all(a[0] == b[1] for a, b in pairwise(weights))


def test_the_functions_that_are_watched_are_there() -> None:
    for module, name in (place for places in compile_times._FUNCTIONS.values() for place in places):
        assert callable(getattr(importlib.import_module(module), name))
