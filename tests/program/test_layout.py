"""Memory of our own has gaps where neighbours would share a set of the cache; nothing that is read there may move."""

from __future__ import annotations

import numpy as np
import pytest

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu import memory
from tensorsmith.build import build
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.define import compute, placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue
from tensorsmith.program.ir import ProgramBuffer
from tensorsmith.program.layout import Spacing, layout, layouts
from tensorsmith.program.lower import lower
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate, Sketch
from tensorsmith.targets.target import native

PAGES = Spacing(distance=4096, gap=64)


def two_steps(shape, second):
    """A tensor in memory of our own, read by `second`."""
    x = placeholder(shape, name="x")
    y = compute(shape, lambda *i: x[i] + 1.0, name="y")
    w = workload([x, second(y)])
    nests = [Nest(s.name, f"{' '.join(f'{a.name}.0' for a in s.axes)} | {s.axes[-1].name}.1") for s in w.stages]
    sketch = Sketch(w, tuple(nests)).check()
    return Candidate(sketch, {h: 8 if h.endswith(".1") else 0 for h in sketch.holes})


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((3, 32, 32), (1024 + 16, 32, 1)),  # planes of a page
        ((3, 32, 31), (992, 31, 1)),
        ((2, 3, 1024), (3 * (1024 + 16), 1024 + 16, 1)),
        ((2, 4, 1024), (4 * (1024 + 16), 1024 + 16, 1)),
        ((1, 32, 32), (1024, 32, 1)),  # has no neighbour
    ],
)
def test_neighbours_are_kept_off_one_set(shape, strides):
    candidate = two_steps(shape, lambda y: compute(shape, lambda a, b, c: y[a, b, c] * 2.0, name="z"))
    found = layouts(lower(candidate), PAGES)
    assert found["y"].strides == strides
    assert found["y"].bytes == 4 * shape[0] * strides[0]
    dense = (shape[1] * shape[2], shape[2], 1)
    assert found["x"].strides == found["z"].strides == dense
    x = np.random.default_rng(0).random(shape, np.float32)
    assert np.array_equal(build(candidate)(x), (x + 1) * 2)


def test_what_is_read_in_another_shape_is_dense():
    candidate = two_steps(
        (4, 1024), lambda y: compute((64, 64), lambda a, b: y[(a * 64 + b) // 1024, (a * 64 + b) % 1024], name="z")
    )
    assert layouts(lower(candidate), PAGES)["y"].strides == (1024, 1)
    x = np.random.default_rng(0).random((4, 1024), np.float32)
    assert np.array_equal(build(candidate)(x), (x + 1).reshape(64, 64))


@pytest.mark.parametrize("name", ["C2D-small", "GMM-small", "TBS-small", "NRM-small", "T2D-small"])
def test_gaps_everywhere(name, monkeypatch):
    """With a gap between all neighbours, random programs give the same numbers."""
    monkeypatch.setattr(memory, "_SET_DISTANCE", 4)
    w = catalogue.small()[name].workload()
    inputs = random_inputs(w)
    want = evaluate(w, inputs, precise=True)
    space = space_of(w, native())
    for number, population in enumerate(sample(space, 3 * len(space.plans), np.random.default_rng(1))):
        for row in population.matrix:
            found = build(space.plans[number].candidate(row))(**inputs)
            for output, value in zip(w.outputs, found if isinstance(found, tuple) else (found,)):
                assert difference(w, output, value, want[output]) is None


def test_a_population_is_its_rows():
    rng = np.random.default_rng(0)
    shapes = rng.choice([1, 2, 3, 16, 32, 64, 256, 1024], (3, 200))
    together = layout(ProgramBuffer("x", "f32", tuple(shapes), "local", ()), PAGES)
    gaps = 0
    for n in range(200):
        alone = layout(ProgramBuffer("x", "f32", tuple(shapes[:, n].tolist()), "local", ()), PAGES)
        assert [int(np.broadcast_to(s, 200)[n]) for s in together.strides] == list(alone.strides)
        assert int(together.bytes[n]) == alone.bytes
        gaps += alone.elements > shapes[:, n].prod()
    assert 20 < gaps < 180
