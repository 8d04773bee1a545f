"""The table of what calls cost: who is in it, and that everyone computes the same; nothing is measured."""

import numpy as np
import pytest

import call_overhead
from contest import Settings, WrongAnswer
from tensorsmith.measure.referee import Comparison, Timing


@pytest.fixture(autouse=True)
def no_clock(monkeypatch):
    monkeypatch.setattr(call_overhead, "compare", lambda calls, **_: Comparison({name: Timing(2e-6, (2e-6,), 1) for name in calls}))


def test_every_way_of_calling_ours_is_a_row_in_seconds_and_microseconds():
    rows = call_overhead.call_overhead(Settings(1))
    ours = {"kernel, out given", "kernel", "network, out given", "network", "network, inputs by name"}
    assert {f"call: {name}" for name in ours} < set(rows)
    assert all(row == {"total": 2e-6, "median": 2e-6, "in µs": "2.00"} for row in rows.values())


def test_who_computes_something_else_is_named(monkeypatch):
    monkeypatch.setattr(call_overhead, "_numpy", lambda a, b: {"numpy.add": lambda: np.subtract(a, b)})
    with pytest.raises(WrongAnswer, match=r"numpy\.add does not add"):
        call_overhead.call_overhead(Settings(1))
