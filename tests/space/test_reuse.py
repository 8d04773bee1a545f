"""Sketches, populations, their features and a search, of definitions that use values again and again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.lang.reuse import KINDS, N, doubled, silu
from tests.property.agreement import disagreements

import tensorsmith
from tensorsmith.backends import sketches, space_of
from tensorsmith.backends.cpu.features.batch import extract_groups
from tensorsmith.errors import Refusal
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import assert_close, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.expr import walk
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.text import show
from tensorsmith.targets.target import native

LONG = 24


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("rules", ["default", "ansor"])
def test_sketches(kind, rules):
    found = sketches(kind(LONG), rules)
    assert 1 <= len(found) <= 64
    for sketch in found:
        for taken in (0, -1):
            options = {c.hole: range(len(c.options))[taken] for c in sketch.choices}
            assert all(len(list(walk(s.body))) <= 256 for s in sketch.resolve(options).rewritten.stages)
            assert len(show(sketch, options)) < 100_000


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_a_population_and_its_features(kind):
    space = space_of(kind(LONG), native())
    found = sample(space, 16, np.random.default_rng(0))
    groups = [(g.sketch, g.decisions) for p in found for g in space.plans[p.plan].groups(p.matrix)]
    assert all(np.isfinite(m.values).all() for m in extract_groups(groups, native()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_candidates_compute_the_definition(kind):
    w = kind(6)
    space = space_of(w, native())
    found = sample(space, 4, np.random.default_rng(1))
    built = 0
    for candidate in space.candidates(found):
        try:
            assert disagreements(w, candidate) == []
            built += 1
        except Refusal:
            continue
    assert built


def test_stages_that_no_longer_fit_stay():
    """Each may be inlined by itself; all together would be too large a body, so some are computed at the root."""
    a = value = ts.placeholder((N + 200,), name="A")
    for k in range(200):
        value = ts.compute((N + 199 - k,), lambda i, p=value: p[i + 1] * ts.sigmoid(p[i + 1]), name=f"T{k}")
    (sketch,) = sketches([a, value])
    inline = {c.hole: c.options.index("inline") for c in sketch.choices if "inline" in c.options}
    assert len(inline) > 150
    resolved = sketch.resolve({c.hole: inline.get(c.hole, 0) for c in sketch.choices})
    assert 1 < len(resolved.nests) < 10
    assert {n.stage for n in resolved.nests} == {s.name for s in resolved.rewritten.stages}


@pytest.mark.parametrize("kind", [doubled, silu])
def test_tuning(kind, tmp_path: Path):
    w = kind(16)
    executable = tensorsmith.tune(w, trials=3, database=tmp_path / "tune.db", on_progress=lambda p: None)
    given = random_inputs(w)
    assert given["A"].shape == (N + 16,)
    assert_close(w, w.outputs[0], executable(given["A"]), evaluate(w, given, precise=True)[w.outputs[0]])
