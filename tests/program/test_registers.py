"""Which values are handed over in registers; whether the code does so is counted in tests/property/test_features.py."""

from __future__ import annotations

import pytest

import tensorsmith as ts
from tensorsmith.lang.define import workload
from tensorsmith.lang.workload import Workload
from tensorsmith.program.ir import own_block
from tensorsmith.program.lower import lower
from tensorsmith.program.registers import stays_in_registers
from tensorsmith.space.sketch.sketch import Candidate, Nest, Sketch


def layer(reads: str) -> Workload:
    """A product, and what reads it on its tile."""
    a, b = ts.placeholder((8, 16), name="A"), ts.placeholder((16, 16), name="B")
    k = ts.reduce_axis(16, name="k")
    c = ts.compute((8, 16), lambda i, j: ts.sum(a[i, k] * b[k, j], axis=k), name="C")
    value = {
        "plain": lambda i, j: ts.maximum(c[i, j], 0.0),
        "twice": lambda i, j: c[i, j] * c[i, 15 - j],
        "turned": lambda i, j: ts.maximum(c[i, 15 - j], 0.0),
        "upside down": lambda i, j: ts.maximum(c[7 - i, j], 0.0),
        "cast": lambda i, j: ts.cast("f64", c[i, j]),
        "past": lambda i, j: ts.select(j < 15, c[i, j + 1], 0.0),
    }[reads]
    return workload([a, b, ts.compute((8, 16), value, name="D")])


def held(reads: str = "plain", lanes: tuple[str | None, str | None] = ("j.0", "j.1"), steps: str = "|") -> bool:
    inner = Nest("C", f"{'k.0 |' if steps == 'outside' else '| k.0'} i.0 j.0", vector=lanes[0], at="D:2")
    sketch = Sketch(layer(reads), (inner, Nest("D", "i.0 j.0 | i.1 j.1", vector=lanes[1]))).check()
    program = lower(Candidate(sketch, {h: {"D.i.1": 2, "D.j.1": 8}.get(h, 1) for h in sketch.holes}))
    reader = own_block(program.body[0])
    return stays_in_registers(program.workload, own_block(reader.before[0]), reader)


def test_what_a_tile_reads_in_its_lanes_stays() -> None:
    assert held()


def test_single_values_stay_too() -> None:
    assert held(lanes=(None, None))


@pytest.mark.parametrize("reads", ["twice", "turned", "upside down", "cast", "past"])
def test_other_reads_go_through_memory(reads: str) -> None:
    assert not held(reads)


@pytest.mark.parametrize("lanes", [("i.0", "j.1"), (None, "j.1"), ("j.0", None)])
def test_other_lanes_go_through_memory(lanes: tuple[str | None, str | None]) -> None:
    assert not held(lanes=lanes)


def test_what_is_added_to_goes_through_memory() -> None:
    assert not held(steps="outside")
