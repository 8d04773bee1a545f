"""AutoTVM's network on the tree of loops: what it sees, what it learns, and what is said where PyTorch is not there."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.backends.cpu.features.test_extract import STRUCTURES, random_batch
from tests.backends.cpu.machines import target

from tensorsmith.backends import backend_of, space_of
from tensorsmith.baselines.autotvm.treegru import TreeGruModel, TreeGruSettings
from tensorsmith.errors import UserError
from tensorsmith.lang.define import compute, maximum, placeholder, reduce_axis, workload
from tensorsmith.lang.define import sum as total
from tensorsmith.learn.features.loops import SCHEMA, extract_rows
from tensorsmith.learn.features.rows import Batch
from tensorsmith.learn.models.accuracy import pairwise_accuracy
from tensorsmith.learn.models.model import Samples
from tensorsmith.learn.models.registry import as_model, load_model
from tensorsmith.ops import catalogue
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Sketch
from tensorsmith.testing import check_cost_model

TARGET = target(vector_bytes=32, registers=16)
SMALL = TreeGruSettings(embedding=24, hidden=24, slots=4, epochs=10, rate=3e-3)  # the same network, which learns in seconds


def test_the_sizes_are_the_papers() -> None:
    """baselines.md, sections 1.1 and 1.5"""
    assert (TreeGruSettings().embedding, TreeGruSettings().hidden, TreeGruSettings().slots) == (128, 128, 32)


# -- what it sees --------------------------------------------------------------------------------------------------------------


def test_the_tree_of_loops() -> None:
    """C is computed in the loops i.0 and j.0 of D, whose own loops i.1 and j.1 are beside those of C."""
    a, b = placeholder((64, 64), name="A"), placeholder((64, 64), name="B")
    k = reduce_axis(64, name="k")
    c = compute((64, 64), lambda i, j: total(a[i, k] * b[k, j], axis=k), name="C")
    d = compute((64, 64), lambda i, j: maximum(c[i, j], 0.0), name="D")
    nests = (Nest("C", "| k.0 i.0 j.0", vector="j.0", at="D:2"), Nest("D", "i.0 j.0 | i.1 j.1", vector="j.1"))
    sketch = Sketch(workload([a, b, d]), nests).check()
    given = dict.fromkeys(sketch.holes, 1) | {"D.i.1": 4, "D.j.1": 16, "D.parallel": 1}
    (found,) = extract_rows([(sketch, given)]).matrices()
    rows = {name: n for n, name in enumerate(found.stages)}
    parents = {name: int(np.rint(found.raw("parent")[0, n])) for name, n in rows.items()}
    named = {name: (list(rows)[p - 1] if p else None) for name, p in parents.items()}
    inner = {"C.k.0": "D.j.0", "C.i.0": "C.k.0", "C.j.0": "C.i.0", "D.i.1": "D.j.0", "D.j.1": "D.i.1"}
    assert named == {"D.i.0": None, "D.j.0": "D.i.0", **inner}

    def of(loop: str, *names: str) -> list[float]:
        return [float(found.raw(name)[0, rows[loop]]) for name in names]

    assert of("C.k.0", "length", "nest_level", "topdown", "bottomup") == pytest.approx([64, 3, 16 * 4 * 64, 64 * 64], rel=1e-4)
    assert of("D.i.0", "is_parallel", "is_serial", "bottomup") == pytest.approx([1, 0, 64**3], rel=1e-4)
    assert of("C.j.0", "is_vectorized", "float_addsub", "float_mul", "accesses") == pytest.approx([1, 1, 1, 3])
    assert of("D.j.0", "accesses", "float_mul") == pytest.approx([5, 0])
    # in the innermost loop C and B move by 1 and touch 16 elements, and A stays
    expected = [2 * np.log2(2), 2 * np.log2(17) + 1, 2 * np.log2(2) + np.log2(17)]
    assert of("C.j.0", "sum_stride", "sum_count", "sum_reuse") == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_batch_is_its_candidates(name: str) -> None:
    given = STRUCTURES[name]
    rows, columns = random_batch(given, Random(name), 8)
    (many,) = extract_rows([(given, columns)]).matrices()
    parents = np.rint(many.raw("parent"))
    assert (parents <= np.arange(parents.shape[1])).all() and (parents[:, 0] == 0).all()
    for n, row in enumerate(rows):
        (one,) = extract_rows([(given, row)]).matrices()
        np.testing.assert_allclose(one.values[0], many.values[n], rtol=1e-5, atol=1e-5, err_msg=str(row))


# -- what it learns ------------------------------------------------------------------------------------------------------------


def programs(case: str, count: int) -> tuple[list[Batch], np.ndarray]:
    """Candidates, and the speeds that the analytic prior gives them: a machine that nobody has to measure."""
    space = space_of(catalogue.get(case).workload(), TARGET)
    found = sample(space, count, np.random.default_rng(0))
    batches: list[Batch] = [(g.sketch, g.decisions) for p in found for g in space.plans[p.plan].groups(p.matrix)]
    backend = backend_of(TARGET)
    speed = np.exp2(backend.prior_scores(backend.extract_rows(batches, TARGET), TARGET))
    return batches, speed / speed.max()


@pytest.mark.peers
def test_it_learns_an_order_of_programs_that_it_has_not_seen(tmp_path: Path) -> None:
    batches, speed = programs("GMM-small", 240)
    rows = [one for matrix in extract_rows(batches).matrices() for one in matrix.values]
    seen = np.random.default_rng(1).random(len(rows)) < 0.6
    samples = Samples()
    for one, relative, told in zip(rows, speed.tolist(), seen.tolist()):
        if told:
            samples.add(one, relative, "w")
    model = TreeGruModel(replace(SMALL, epochs=80)).fork(seed=1)
    model.update(samples)
    scores = model.predict(extract_rows(batches), np.zeros(len(rows)))
    assert pairwise_accuracy(scores[~seen], speed[~seen]) > 0.75
    model.save(tmp_path / "model", SCHEMA)
    again = load_model(tmp_path / "model", backend_of(TARGET).schema)
    np.testing.assert_allclose(again.predict(extract_rows(batches), np.zeros(len(rows))), scores)
    (tmp_path / "model").write_text((tmp_path / "model").read_text()[:-40])
    with pytest.raises(UserError, match="is damaged"):
        load_model(tmp_path / "model", backend_of(TARGET).schema)


@pytest.mark.peers
def test_a_loop_is_told_by_the_loops_in_it() -> None:
    """The same loops in another tree are another program."""
    batches, speed = programs("GMM-small", 60)
    rows = extract_rows(batches)
    samples = Samples()
    for one, relative in zip([one for m in rows.matrices() for one in m.values], speed.tolist()):
        samples.add(one, relative, "w")
    model = TreeGruModel(SMALL).fork(seed=1)
    model.update(samples)
    values = rows.values.copy()
    values[:, SCHEMA.index["parent"]] = 0.0
    base = np.zeros(rows.candidates)
    apart = model.predict(rows, base) - model.predict(replace(rows, values=values), base)
    middle = (rows.values.mean(axis=0) - values.mean(axis=0))[SCHEMA.index["parent"]]
    assert middle > 0 and np.abs(apart).min() > 1e-6


@pytest.mark.peers
def test_it_keeps_the_promises_of_a_model() -> None:
    check_cost_model(partial(TreeGruModel, SMALL), target=TARGET)


def test_without_pytorch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match=r"the cost model 'treegru' needs PyTorch: pip install '.\[torch\]'"):
        as_model("treegru", SCHEMA)
