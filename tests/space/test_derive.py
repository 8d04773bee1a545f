"""Derived sketches: Ansor's counts, golden texts, and what every sketch of the catalogue must do.

Golden texts are in tests/golden/sketches. After an intended change of a rule, run this file with `TENSORSMITH_UPDATE_GOLDEN=1`
and read the diff.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tensorsmith.backends import sketches
from tensorsmith.backends.cpu.rules import ANSOR
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.build import build
from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue, elementwise, linalg, norm, pool, reduce
from tensorsmith.rewrites import winograd
from tensorsmith.space.derive import derive
from tensorsmith.space.rules.base import Verdict
from tensorsmith.space.sketch.rewrite import Inline, Rfactor
from tensorsmith.space.sketch.sketch import Candidate, Sketch

GOLDEN = Path(__file__).parent.parent / "golden" / "sketches"

#: a fixed machine, with the number of cores of Ansor's own tests
TARGET = CpuTarget("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16, 32 << 10, 8, 512 << 10, 8 << 20, 64, 4)


# -- workloads ---------------------------------------------------------------------------------------------------------


def matmul(n: int, m: int, k: int) -> Workload:
    a, b = ts.placeholder((n, k), name="A"), ts.placeholder((k, m), name="B")
    return ts.workload([a, b, linalg.matmul(a, b, name="C")])


def two_matmuls(n: int = 512) -> Workload:
    """A chain: D = A B, E = D C."""
    a, b, c = (ts.placeholder((n, n), name=name) for name in "ABC")
    return ts.workload([a, b, c, linalg.matmul(linalg.matmul(a, b, name="D"), c, name="E")])


def sum_of_matmuls(n: int = 13) -> Workload:
    """Two products of different lengths with one elementwise reader."""
    a, b = ts.placeholder((n, 17), name="A"), ts.placeholder((17, n), name="B")
    c, d = ts.placeholder((n, 5), name="C"), ts.placeholder((5, n), name="D", constant=True)
    left, right = linalg.matmul(a, b, name="left"), linalg.matmul(c, d, name="right")
    return ts.workload([a, b, c, d, ts.compute((n, n), lambda i, j: ts.maximum(left[i, j] + right[i, j], 0), name="both")])


def three_outputs() -> Workload:
    """A product that is an output, and is read by two others."""
    a, b = ts.placeholder((9, 11), name="A"), ts.placeholder((11, 13), name="B")
    c = linalg.matmul(a, b, name="C")
    d = ts.compute((9, 13), lambda i, j: ts.maximum(c[i, j], 0), name="D")
    return ts.workload([a, b, d, c, ts.compute((9, 13), lambda i, j: c[i, j] * 2, name="E")])


def conv_nchw(n=1, h=56, w=56, ci=512, co=512, kernel=3, stride=1, padding=1) -> Workload:
    """conv2d + bias + bn + relu with the channels first, stage by stage as in Ansor's test."""
    data = ts.placeholder((n, ci, h, w), name="data")
    weight = ts.placeholder((co, ci, kernel, kernel), name="kernel", constant=True)
    bias, scale, offset = (ts.placeholder((co, 1, 1), name=name, constant=True) for name in ("bias", "scale", "offset"))
    p = padding

    def padded(n, c, h_, w_):
        inside = (h_ >= p) & (h_ < h + p) & (w_ >= p) & (w_ < w + p)
        return ts.select(inside, data[n, c, h_ - p, w_ - p], 0)

    pad = ts.compute((n, ci, h + 2 * p, w + 2 * p), padded, name="pad")
    rc, ry, rx = ts.reduce_axis(ci, "rc"), ts.reduce_axis(kernel, "ry"), ts.reduce_axis(kernel, "rx")
    shape = (n, co, (h + 2 * p - kernel) // stride + 1, (w + 2 * p - kernel) // stride + 1)

    def product(n, f, y, x):
        return ts.sum(pad[n, rc, y * stride + ry, x * stride + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx])

    conv = ts.compute(shape, product, name="conv")
    bias_add = ts.compute(shape, lambda i, j, k, l: conv[i, j, k, l] + bias[j, 0, 0], name="bias_add")
    mul = ts.compute(shape, lambda i, j, k, l: bias_add[i, j, k, l] * scale[j, 0, 0], name="mul")
    add = ts.compute(shape, lambda i, j, k, l: mul[i, j, k, l] + offset[j, 0, 0], name="add")
    relu = ts.compute(shape, lambda i, j, k, l: ts.maximum(add[i, j, k, l], 0), name="relu")
    return ts.workload([data, weight, bias, scale, offset, relu])


def winograd_nhwc(n: int, h: int, w: int, ci: int, co: int, tile: int = 4) -> Workload:
    x = ts.placeholder((n, h, w, ci), name="x")
    u = ts.placeholder((tile + 2, tile + 2, ci, co), name="u", constant=True)
    return ts.workload([x, u, winograd.winograd_conv2d(x, u, 1, tile)])


def of_one(operator: Callable[..., ts.Tensor], *shape: int, **options: object) -> Workload:
    x = ts.placeholder(shape, name="x")
    return ts.workload([x, operator(x, **options)])


def total(n: int) -> Workload:
    a, k = ts.placeholder((n,), name="A"), ts.reduce_axis(n, "k")
    return ts.workload([a, ts.compute((), lambda: ts.sum(a[k], axis=k), name="B")])


#: section 12 of the facts on Ansor: workload and number of CPU sketches
ANSORS: dict[str, tuple[Workload, int]] = {
    "matmul-512": (matmul(512, 512, 512), 3),
    "matmul-8x8x512": (matmul(8, 8, 512), 5),
    "two_matmuls-512": (two_matmuls(), 9),
    "conv_bias_bn_relu": (conv_nchw(), 3),
    "max_pool-2x2": (of_one(pool.max_pool, 1, 56, 56, 512, kernel=2, stride=1, padding=1), 1),
    "min-10x1024": (of_one(reduce.min, 10, 1024, axes=-1), 3),
    "softmax-1x1024": (of_one(norm.softmax, 1, 1024), 9),
    "softmax-1x12x128x128": (of_one(norm.softmax, 1, 12, 128, 128), 9),
    "winograd-28x28": (winograd_nhwc(1, 28, 28, 128, 128), 3),
    "sum-128": (total(128), 3),
}

SMALL = {name: case.workload() for name, case in catalogue.small().items()}
SMALL |= {
    "winograd-small": winograd_nhwc(2, 7, 9, 5, 11, 2),
    "sum_of_matmuls-small": sum_of_matmuls(),
    "three_outputs-small": three_outputs(),
    "conv_nchw-small": conv_nchw(1, 7, 9, 5, 11),
    "outer-small": ts.workload(
        [
            a := ts.placeholder((13,), name="A"),
            b := ts.placeholder((17,), name="B"),
            ts.compute((13, 17), lambda i, j: a[i] * b[j], name="C"),
        ]
    ),
    "dot-small": matmul(1, 1, 33),
    "vector-small": matmul(1, 19, 33),
}


def structure(sketch: Sketch) -> list[str]:
    """The rewrites but for inlining, and for every attached stage where it is: what tells Ansor's variants apart."""
    inner = [r for r in sketch.rewrites if isinstance(r, Rfactor) and r.inner]
    made = [f"{r.name}({r.stage}{', inner' if r in inner else ''})" for r in sketch.rewrites if not isinstance(r, Inline)]
    levels = {}
    for nest in sketch.nests:
        if nest.at is not None:
            outer = sketch.nest(nest.at.stage).outer[: nest.at.depth]
            levels[nest.stage] = len({loop.part for loop in outer})
    return made + [f"{stage} at level {level}" for stage, level in levels.items()]


# -- Ansor's conformance numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANSORS)
def test_counts_are_ansors(name):
    workload, count = ANSORS[name]
    assert len(sketches(workload, "ansor", TARGET)) == count


@pytest.mark.parametrize(
    "name, variants",
    [
        (
            "matmul-512",
            [[], ["cache_write(C)", "C.cache at level 1"], ["cache_write(C)", "C.cache at level 2"]],
        ),
        (
            "matmul-8x8x512",
            [
                ["rfactor(C)"],
                ["rfactor(C, inner)"],
                [],
                ["cache_write(C)", "C.cache at level 1"],
                ["cache_write(C)", "C.cache at level 2"],
            ],
        ),
        ("conv_bias_bn_relu", [["conv at level 1"], ["conv at level 2"], []]),
        ("max_pool-2x2", [[]]),
        ("min-10x1024", [["rfactor(min)"], ["rfactor(min, inner)"], []]),
        ("sum-128", [["rfactor(B)"], ["rfactor(B, inner)"], []]),
        (
            "winograd-28x28",
            [
                [],
                ["cache_write(winograd_gemm)", "winograd_gemm.cache at level 1"],
                ["cache_write(winograd_gemm)", "winograd_gemm.cache at level 2"],
            ],
        ),
    ],
)
def test_variants_and_their_order_are_ansors(name, variants):
    assert [structure(s) for s in sketches(ANSORS[name][0], "ansor", TARGET)] == variants


def test_chained_matmuls_have_all_pairs_of_variants():
    found = [structure(s) for s in sketches(ANSORS["two_matmuls-512"][0], "ansor", TARGET)]
    per_stage = [[part for part in variant if f"{name}.cache" in part] for name in "DE" for variant in found]
    assert len({(str(d), str(e)) for d, e in zip(per_stage[:9], per_stage[9:])}) == 9


@pytest.mark.parametrize("name", ["softmax-1x1024", "softmax-1x12x128x128"])
def test_softmax_factors_both_reductions_or_neither(name):
    found = [tuple(structure(s)) for s in sketches(ANSORS[name][0], "ansor", TARGET)]
    options = [[], ["rfactor({})"], ["rfactor({}, inner)"]]
    expected = {
        tuple(x.format("softmax_sum") for x in s) + tuple(x.format("softmax_max") for x in m) for s in options for m in options
    }
    assert set(found) == expected and len(found) == 9
    assert found[0] == ("rfactor(softmax_sum)", "rfactor(softmax_max)") and found[-1] == ()


def test_tiles_have_ansors_levels():
    plain, level1, level2 = sketches(ANSORS["matmul-512"][0], "ansor", TARGET)
    assert str(plain.nest("C").loops) == "i.0 j.0 i.1 j.1 k.0 i.2 j.2 | k.1 i.3 j.3"
    assert str(level1.nest("C.cache").loops) == "i.0 j.0 k.0 i.1 j.1 | k.1 i.2 j.2"
    assert str(level2.nest("C.cache").loops) == "k.0 i.0 j.0 | k.1 i.1 j.1"


def test_the_number_of_cores_decides_on_rfactor():
    w = matmul(8, 8, 512)
    assert len(sketches(w, "ansor", dataclasses.replace(TARGET, cores=3))) == 3  # 64 results are more than 16 * 3
    assert len(sketches(of_one(reduce.min, 10, 4, axes=-1), "ansor", TARGET)) == 1  # four elements for four cores


def test_winograd_transforms_are_laid_out():
    (sketch, *_) = sketches(ANSORS["winograd-28x28"][0], "ansor", TARGET)
    assert str(sketch.nest("winograd_data").loops) == "p.0 ci.0 u.0! v.0! | r.0! s.0! ci.1"
    assert str(sketch.nest("winograd_inverse").loops) == "p.0 co.0 y.0! z.0! | r.0! s.0! co.1"
    assert not {"winograd_a", "winograd_b"} & {n.stage for n in sketch.nests}


def test_padding_has_ansors_places_and_ours():
    """Ansor computes a padding at the root or in its reader's loops; ours may also do it where it is read."""
    for w, stage in ((conv_nchw(), "pad"), (ANSORS["max_pool-2x2"][0], "max_pool_pad")):
        for rules, inline in (("ansor", False), ("default", True)):
            for sketch in sketches(w, rules, TARGET):
                (choice,) = [c for c in sketch.choices if c.hole == f"{stage}.at"]
                assert choice.options[0] == "root" and len(choice.options) > 3
                assert ("inline" in choice.options) == inline


# -- golden texts ------------------------------------------------------------------------------------------------------


def named_workloads() -> Iterator[tuple[str, Workload, str]]:
    for name, (workload, _) in ANSORS.items():
        yield f"ansor-{name}", workload, "ansor"
    cases = {**{n: c.workload() for n, c in catalogue.cases(1).items()}, **SMALL}
    for name, workload in cases.items():
        yield f"default-{name}", workload, "default"


WORKLOADS = {name: (workload, rules) for name, workload, rules in named_workloads()}
UPDATE = bool(os.environ.get("TENSORSMITH_UPDATE_GOLDEN"))
_NUMBER = re.compile(r"(?<![\w.:])\d+")  # but none that is part of a name: of a loop (h.1), of a place (conv2d:1)


def sketch_texts(name: str) -> str:
    workload, rules = WORKLOADS[name]
    return "\n\n".join(s.brief() for s in sketches(workload, rules, TARGET))


def golden_names() -> list[str]:
    return sorted(path.stem for path in GOLDEN.glob("*.txt"))


@pytest.mark.parametrize("name", golden_names())
def test_golden_texts(name):
    text = f"{WORKLOADS[name][0]}\n\n{sketch_texts(name)}\n"
    path = GOLDEN / f"{name}.txt"
    if UPDATE:
        path.write_text(text)
    assert path.read_text() == text


def test_workloads_whose_sketches_differ_by_more_than_numbers_have_a_golden_text_each():
    """Of those whose sketches are the same texts but for their numbers, the first one has a golden text."""
    first: dict[tuple[str, str], str] = {}
    for name, (_, rules) in WORKLOADS.items():
        first.setdefault((rules, _NUMBER.sub("#", sketch_texts(name))), name)
    wanted = set(first.values())
    if UPDATE:
        for name in set(golden_names()) - wanted:
            (GOLDEN / f"{name}.txt").unlink()
        for name in wanted - set(golden_names()):
            (GOLDEN / f"{name}.txt").write_text(f"{WORKLOADS[name][0]}\n\n{sketch_texts(name)}\n")
    assert set(golden_names()) == wanted


# -- every sketch of the catalogue -------------------------------------------------------------------------------------


def option_rows(sketch: Sketch, rng: Random) -> Iterator[dict[str, int]]:
    """Options so that every single one of every choice is taken at least once, in random company."""
    longest = max((len(c.options) for c in sketch.choices), default=1)
    orders = {c.hole: rng.sample(range(len(c.options)), len(c.options)) for c in sketch.choices}
    for n in range(longest):
        yield {hole: order[n] if n < len(order) else rng.choice(order) for hole, order in orders.items()}


@pytest.mark.parametrize("rules", ["default", "ansor"])
@pytest.mark.parametrize("name", [*catalogue.cases(1), *catalogue.cases(16), *SMALL])
def test_sketches_are_sound(name, rules):
    workload = SMALL[name] if name in SMALL else catalogue.get(name).workload()
    rng = Random(zlib.crc32(name.encode()))
    found = sketches(workload, rules, TARGET)
    assert found
    assert len({s.brief() for s in found}) == len(found)
    for sketch in found:
        sketch.check()
        for options in option_rows(sketch, rng):
            resolved = sketch.resolve(options).check()
            assert not resolved.choices
            assert Sketch.from_json(workload, json.loads(json.dumps(resolved.to_json()))) == resolved


@pytest.mark.parametrize("rules", ["default", "ansor"])
@pytest.mark.parametrize(
    "workload",
    [
        matmul(0, 4, 4),
        matmul(1, 1, 1),
        matmul(7, 9, 1),
        matmul(7, 1, 64),
        total(1),
        of_one(elementwise.negative),
        of_one(elementwise.negative, 1, 1),
        of_one(elementwise.negative, 0, 3),
    ],
    ids=["no_rows", "one", "no_reduction", "column", "one_element", "scalar", "ones", "empty"],
)
def test_shapes_at_the_edge(workload, rules):
    for sketch in sketches(workload, rules, TARGET):
        check_candidates("edge", rules, sketch, 1)


def test_derivation_is_deterministic():
    w = catalogue.get("TBS-1-b1").workload()
    assert sketches(w, target=TARGET) == sketches(w, target=TARGET)


def random_decisions(sketch: Sketch, rng: Random) -> dict[str, int]:
    """Values for every hole with register tiles that compile quickly."""
    decisions = {}
    inner = {f"{n.stage}.{loop}": n.vector == loop for n in sketch.nests for loop in n.tile}
    for hole in sketch.holes:
        if hole.endswith(".parallel"):
            decisions[hole] = rng.randint(0, 2)
        elif hole.endswith(".unroll"):
            decisions[hole] = rng.choice((1, 2))
        elif hole in inner:
            decisions[hole] = rng.choice((4, 8, 12)) if inner[hole] else rng.choice((1, 2, 3))
        else:
            decisions[hole] = rng.choice((1, 2, 3, 5))
    return decisions


def check_candidates(name: str, rules: str, sketch: Sketch, rows: int) -> None:
    """Machine code of random candidates of a sketch against the reference."""
    workload = sketch.workload
    inputs = random_inputs(workload, 5)
    want = evaluate(workload, inputs, precise=True)
    rng = Random(zlib.crc32(f"{name} {rules} {sketch}".encode()))
    for _ in range(rows):
        resolved = sketch.resolve({c.hole: rng.randrange(len(c.options)) for c in sketch.choices})
        candidate = Candidate(resolved, random_decisions(resolved, rng))
        results = build(candidate)(**inputs)
        for output, got in zip(workload.outputs, results if isinstance(results, tuple) else (results,)):
            problem = difference(workload, output, got, want[output])
            assert problem is None, f"{problem}\n\n{workload}\n\n{resolved}\n\n{candidate.decisions}"


@pytest.mark.parametrize("rules", ["default", "ansor"])
@pytest.mark.parametrize("name", SMALL)
def test_some_candidates_compute_what_is_defined(name, rules):
    found = sketches(SMALL[name], rules, TARGET)
    for sketch in Random(zlib.crc32(name.encode())).sample(found, min(len(found), 2 if rules == "default" else 1)):
        check_candidates(name, rules, sketch, 1)


@pytest.mark.long
@pytest.mark.parametrize("rules", ["default", "ansor"])
@pytest.mark.parametrize("name", SMALL)
def test_candidates_of_every_sketch_compute_what_is_defined(name, rules):
    for sketch in sketches(SMALL[name], rules, TARGET):
        check_candidates(name, rules, sketch, 4)


# -- rules that go wrong -----------------------------------------------------------------------------------------------


class Loose:
    name = "loose"

    def __init__(self, copies: int, verdict: object = Verdict.APPLY_AND_SKIP_REST) -> None:
        self.copies, self.verdict = copies, verdict

    def condition(self, state, index, target):
        return self.verdict

    def apply(self, state, index, target):
        return [(state, index)] * self.copies


def test_rules_without_an_end_are_refused():
    with pytest.raises(UserError, match="come to no end"):
        derive(matmul(4, 4, 4), TARGET, [Loose(1)])
    with pytest.raises(UserError, match="more than 4096 sketches"):
        derive(matmul(4, 4, 4), TARGET, [Loose(8)])


def test_a_condition_gives_a_verdict():
    with pytest.raises(UserError, match="rule loose: the condition gave True for stage C; give a Verdict"):
        derive(matmul(4, 4, 4), TARGET, [Loose(1, True), *ANSOR])
