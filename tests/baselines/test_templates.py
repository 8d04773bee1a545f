"""AutoTVM's templates: sizes of their spaces, points and programs, and tuners that visit all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import space_of
from tensorsmith.baselines.autotvm.templates import templates_of
from tensorsmith.baselines.knobs import Template, factorings, splits
from tensorsmith.baselines.tuners import GaTuner, Genetic, IndexTuner
from tensorsmith.lang.define import Tensor, placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue, linalg
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.space.rules.root import AtTheRoot


def templates(tensors: list[Tensor]) -> dict[str, Template]:
    return {t.name: t for t in templates_of(space_of(workload(tensors), target(), (AtTheRoot(),)))}


def case(name: str) -> dict[str, Template]:
    return templates(catalogue.get(name).tensors())


def dense(rows: int, columns: int, depth: int) -> dict[str, Template]:
    x, weight = placeholder((rows, depth), name="x"), placeholder((depth, columns), name="weight", constant=True)
    return templates([x, weight, linalg.matmul(x, weight)])


def conv(image: int, channels_in: int, channels_out: int, kernel: int, stride: int, padding: int) -> Template:
    shape = (1, image, image, channels_in, channels_out, kernel, stride, padding)
    (found,) = templates(catalogue._conv2d(*shape)).values()
    return found


# -- spec: baselines.md, section 8, item 1 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "knobs", "size"),
    [
        ((224, 3, 64, 7, 2, 3), (2, 7, 11, 2), 308),
        ((56, 64, 64, 3, 1, 1), (7, 7, 10, 2), 980),
        ((28, 128, 128, 3, 1, 1), (8, 8, 8, 2), 1024),
        ((14, 256, 256, 3, 1, 1), (9, 9, 6, 2), 972),
        ((7, 512, 512, 3, 1, 1), (10, 10, 4, 2), 800),
    ],
)
def test_convolutions_have_as_many_points_as_in_tvm(shape: tuple[int, ...], knobs: tuple[int, ...], size: int) -> None:
    found = conv(*shape)
    assert found.name == "conv" and tuple(map(len, found.knobs)) == knobs and found.size == size


@pytest.mark.parametrize(("shape", "pack"), [((512, 512, 512), 151_250), ((1, 1000, 2048), 1200), ((128, 768, 768), 437_400)])
def test_matrix_products_have_as_many_points_as_in_tvm(shape: tuple[int, int, int], pack: int) -> None:
    assert dense(*shape)["dense_pack"].size == pack


def test_products_with_lanes_along_the_reduction() -> None:
    assert dense(512, 512, 512)["dense_nopack"].size == 1000
    a, b = placeholder((12, 128, 64), name="a"), placeholder((12, 64, 128), name="b")
    assert {n: t.size for n, t in templates([a, b, linalg.batch_matmul(a, b)]).items()} == {"batch_matmul": 448}


def test_what_each_operator_is_tuned_by() -> None:
    names = {
        n: "+".join(case(f"{n}-small")) for n in ("C2D", "C2D-1x1", "C3D", "DEP", "GRP", "DIL", "C1D", "CAP", "NRM", "ConvLayer")
    }
    assert names == {
        "C2D": "conv", "C2D-1x1": "conv_1x1", "C3D": "conv", "DEP": "depthwise", "GRP": "two_level", "DIL": "two_level",
        "C1D": "two_level", "CAP": "two_level", "NRM": "fixed", "ConvLayer": "conv",
    }  # fmt: skip
    assert case("NRM-small")["fixed"].size == 1


# -- knobs -------------------------------------------------------------------------------------------------------------------


def test_splits() -> None:
    assert splits(6, 2) == ((-1, 1), (-1, 2), (-1, 3), (-1, 6))
    assert splits(6, 2, "power2") == ((-1, 1), (-1, 2), (-1, 4))
    assert splits(6, 2, "verbose", most=4) == ((-1, 1), (-1, 2), (-1, 3), (-1, 4))
    assert len(factorings(512, 4)) == 220 and all(math.prod(f) == 512 for f in factorings(512, 4))


def test_points_are_numbered_and_the_first_knob_counts_fastest() -> None:
    found = case("C2D-small")["conv"]
    assert [found.point(n) for n in (0, 1, 2)] == [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0)]
    assert [found.number(found.point(n)) for n in range(found.size)] == list(range(found.size))


def test_a_walk_goes_somewhere_else() -> None:
    found, rng = case("C2D-small")["conv"], np.random.default_rng(0)
    for point in found.points():
        assert found.walk(point, rng) != point


@pytest.mark.parametrize("name", ["C2D-1x1", "DEP", "dense", "GMM"])
def test_points_compute_what_they_should(name: str) -> None:
    """Some points of each template, run by the interpreter, against the definition."""
    for found in case(f"{name}-small").values():
        w, rng = found.space.workload, np.random.default_rng(1)
        inputs = {b.name: rng.random(b.shape, np.float32) for b in w.inputs}
        want = evaluate(w, inputs)
        for number in (found.size // 3, found.size - 1):
            got = interpret(lower(found.candidate(found.point(number))), inputs)
            for output in w.outputs:
                np.testing.assert_allclose(got[output], want[output], rtol=1e-4, atol=1e-4)


def test_a_candidate_finds_its_point_again() -> None:
    found = case("ConvLayer-small")["conv"]
    for number in range(0, found.size, 7):
        candidate = found.candidate(found.point(number))
        again = found.find(candidate)
        assert again is not None and found.candidate(again).decisions == candidate.decisions


def test_what_is_too_large_is_no_point() -> None:
    found = dense(512, 512, 512)["dense_pack"]
    wide, high = (found.knobs[n].values.index((-1, 1, 512)) for n in (1, 0))
    assert found.valid([(0, 0, 0, 0), (high, wide, 0, 0)]).tolist() == [True, False]


# -- tuners --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["grid", "random", "ga"])
def test_tuners_visit_every_point_once(kind: str) -> None:
    found = case("C2D-small")["conv"]
    rng = np.random.default_rng(0)
    tuner = GaTuner(found, rng, Genetic(population=10)) if kind == "ga" else IndexTuner(found, rng, in_order=kind == "grid")
    visited = []
    while (point := tuner.propose(lambda: False)) is not None:
        visited.append(point)
        tuner.observe(point, 1.0 + sum(point))
    assert len(visited) == len(set(visited)) == found.size
    assert (visited == sorted(visited, key=found.number)) == (kind == "grid")


def test_genes_of_fast_points_are_handed_on() -> None:
    """The sum of the knobs is the time: later generations have smaller ones."""
    tuner, means = GaTuner(dense(64, 64, 64)["dense_pack"], np.random.default_rng(0), Genetic(population=50)), []
    for _ in range(4):
        generation = [tuner.propose(lambda: False) for _ in range(50)]
        for point in generation:
            assert point is not None
            tuner.observe(point, 1e-3 * (1 + sum(point)))
        means.append(np.mean([sum(p) for p in generation if p is not None]))
    assert means[3] < means[1] < means[0]
