"""Every kernel of a network with its bound: which are shown, in which order, and what is said of them. Times are made up."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from rich.console import Console
from tests.graph.networks import Network

import bounds
import tensorsmith as ts
from bound import Level, Rates
from bounds import Kernel
from network_overhead import SIZE, chain
from tensorsmith.graph.model import Model
from tensorsmith.lang.flops import flops
from tensorsmith.measure.bench import array_bytes
from tensorsmith.runtime.profile import KernelTime

RATES = Rates(1e11, (Level("L2", 1e6, 2e11), Level("memory", math.inf, 2e10)), 1e-7)


def kernel(name: str, seconds: float, least: float, share: float) -> Kernel:
    return Kernel("net", name, 2, seconds, least, "FMA", share, "default")


def test_those_that_hold_most_of_the_time_count() -> None:
    found = [kernel("a", 60.0, 57.0, 0.6), kernel("b", 36.0, 18.0, 0.36), kernel("c", 4.0, 1.0, 0.04)]
    assert [k.name for k in bounds.costly(found)] == ["a", "b"]
    said = bounds.verdict("net", found)
    assert "2 kernels hold 95% of the time; 1 of them at 90%" in said and "0.76 of the time" in said
    assert bounds.verdict("net", []) == "net: no kernel is a task"


def test_the_worst_comes_first() -> None:
    console = Console(width=200, file=io.StringIO())
    console.print(bounds.table([kernel("near", 60.0, 57.0, 0.6), kernel("far", 40.0, 10.0, 0.4)]))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.index("far") < said.index("near") and "30.0%" in said


def test_every_task_of_a_network_has_a_bound() -> None:
    model = ts.load(chain(2))
    profile = ts.compile(model).profile(x=np.ones((1, SIZE), np.float32))
    found = bounds.kernels("chain", model, profile, RATES)
    assert {k.name for k in found} == {task.name for task in model.tasks()}
    assert all(k.bound > 0 and k.seconds > 0 for k in found)


def test_kernels_of_one_name_have_bounds_of_their_own() -> None:
    """Two convolutions that give the same, of images of other sizes."""
    n = Network()
    large, small = n.input(1, 8, 32, 32, name="large"), n.input(1, 8, 16, 16, name="small")
    model = Model(n.graph(n.conv(large, 8, 3, stride=2), n.conv(small, 8, 3)))
    first, second = (task for task in model.tasks() if task.name.startswith("conv"))
    assert first.name == second.name
    for task in (first, second):
        one = KernelTime(task.name, "", 1, 1.0, 0.5, flops(task.workload), "default", array_bytes(task.workload))
        assert bounds._task_of(one, [first, second]) is task


@pytest.mark.parametrize(
    ("words", "message"), [(["--models", "vgg"], "no network 'vgg'"), (["--db", "nowhere.db"], "no file nowhere.db")]
)
def test_refusals(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bounds.arguments(words)
    assert message in capsys.readouterr().err
