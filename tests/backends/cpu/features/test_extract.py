"""Features of a batch are those of each candidate lowered alone."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
from tests.backends.cpu.machines import target
from tests.property.schedules import random_candidate, random_decisions

from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.extract import extract, extract_decisions
from tensorsmith.backends.cpu.features.schema import SCHEMA
from tensorsmith.backends.cpu.prior import estimate_seconds
from tensorsmith.learn.features.rows import FeatureMatrix
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower_decisions
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.rewrite import CacheRead, Inline, Rewrite
from tensorsmith.space.sketch.sketch import Sketch

TARGET = target(vector_bytes=32, registers=16)


def sketch(case: str, *nests: Nest, rewrites: tuple[Rewrite, ...] = ()) -> Sketch:
    return Sketch(catalogue.get(case).workload(), nests, rewrites).check()


LAYER = tuple(Inline(stage) for stage in ("layer_conv_pad", "layer_bias", "layer_bn_scale", "layer_bn"))

STRUCTURES = {
    "matmul, Ansor's levels": sketch(
        "GMM-small", Nest("matmul", "b.0 i.0 j.0 b.1 i.1 j.1 k.0 b.2 i.2 j.2 | k.1 i.3 j.3", vector="j.3")
    ),
    "matmul, reduction in lanes": sketch("matmul-small", Nest("matmul", "i.0 j.0 i.1 | j.1 k.0 k.1", vector="k.1")),
    "matmul, copied operand": sketch(
        "matmul-small",
        Nest("b.pack", "j.0 k.0 | j.1", vector="j.1", follows="matmul"),
        Nest("matmul", "j.0 i.0 | k.0 i.1 j.1", vector="j.1"),
        rewrites=(CacheRead("matmul", "b"),),
    ),
    "layer, on the tile": sketch(
        "ConvLayer-small",
        Nest("layer_conv", "| n.0 h.0 kh.0 kw.0 ci.0 w.0 co.0", vector="co.0", at="layer:4", packed=("weight",)),
        Nest("layer", "i0.0 i1.0 i2.0 i3.0 | i2.1 i3.1", vector="i3.1"),
        rewrites=LAYER,
    ),
    "layer, attached outside": sketch(
        "ConvLayer-small",
        Nest("layer_conv", "n.0 h.0 w.0 co.0 kh.0! ci.0 | kw.0 ci.1 w.1 co.1", vector="co.1", at="layer:3"),
        Nest("layer", "i0.0 i1.0 i3.0 i2.0 | i2.1 i3.1", vector="i3.1"),
        rewrites=LAYER,
    ),
    "layer, padded first": sketch(
        "ConvLayer-small",
        Nest("layer_conv_pad", "n.0 h.0 w.0 c.0 | c.1", vector="c.1", at="layer:2"),
        Nest("layer_conv", "| n.0 h.0 kh.0 kw.0 ci.0 w.0 co.0", vector="co.0", at="layer:4"),
        Nest("layer", "i0.0 i1.0 i2.0 i3.0 | i2.1 i3.1", vector="i3.1"),
        rewrites=LAYER[1:],
    ),
    "depthwise": sketch(
        "DEP-small",
        Nest("depthwise", "n.0 h.0 c.0 w.0 h.1 | kh.0 kw.0 w.1 c.1", vector="c.1", packed=("weight",)),
        rewrites=(Inline("depthwise_pad"),),
    ),
    "depthwise, padded first": sketch(
        "DEP-small",
        Nest("depthwise_pad", "n.0 h.0 w.0 | w.1 c.0", vector="c.0"),
        Nest("depthwise", "n.0 h.0 w.0 c.0 | kh.0 kw.0! w.1 c.1", vector="c.1"),
    ),
    "softmax, row by row": sketch(
        "softmax-small",
        Nest("softmax_max", "i0.0 | k.0 k.1", vector="k.1", at="softmax:2"),
        Nest("softmax_exp", "i0.0 i1.0 | i1.1", vector="i1.1", at="softmax:2"),
        Nest("softmax_sum", "i0.0 | k.0 k.1", vector="k.1", at="softmax:2"),
        Nest("softmax", "i0.0 i0.1 i1.0 | i1.1", vector="i1.1"),
    ),
    "softmax, stage by stage": sketch(
        "softmax-small",
        Nest("softmax_max", "i0.0 | k.0 i0.1", vector="i0.1"),
        Nest("softmax_exp", "i0.0 i1.0 | i1.1", vector="i1.1"),
        Nest("softmax_sum", "i0.0 k.0 | k.1"),
        Nest("softmax", "i0.0 i1.0 | i1.1", vector="i1.1"),
    ),
}


def random_batch(given: Sketch, rng: Random, size: int) -> tuple[list[dict[str, int]], dict[str, np.ndarray]]:
    rows = [random_decisions(given, rng) for _ in range(size)]
    return rows, {h: np.array([r[h] for r in rows]) for h in given.holes}


def assert_same(one: FeatureMatrix, many: FeatureMatrix, row: int, decisions: Mapping[str, int]) -> None:
    assert one.stages == many.stages and one.schema is many.schema
    wrong = np.argwhere(~np.isclose(one.values[0], many.values[row], rtol=1e-5, atol=1e-5))
    shown = [(many.stages[b], SCHEMA.names[f], float(one.values[0, b, f]), float(many.values[row, b, f])) for b, f in wrong[:5]]
    assert not shown, f"(block, feature, alone, in the batch): {shown} for {decisions}"


def assert_sane(matrix: FeatureMatrix) -> None:
    assert matrix.values.dtype == np.float32 and np.isfinite(matrix.values).all() and matrix.values.min() >= 0
    plain = [n for n, f in enumerate(SCHEMA.features) if not f.scaled]
    assert matrix.values[:, :, plain].max() <= 1 + 1e-6


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_batch_is_its_candidates(name: str) -> None:
    given = STRUCTURES[name]
    rows, batch = random_batch(given, Random(name), 24)
    many = extract_decisions(given, batch, TARGET)
    assert many.values.shape == (24, len(many.stages), len(SCHEMA))
    assert_sane(many)
    seconds = estimate_seconds(many, TARGET)
    assert seconds.shape == (24,) and np.isfinite(seconds).all() and (seconds > 0).all()
    for n, row in enumerate(rows):
        one = extract(lower_decisions(given, row), TARGET)
        assert_same(one, many, n, row)
        assert estimate_seconds(one, TARGET)[0] == pytest.approx(seconds[n], rel=1e-3)


@pytest.mark.parametrize("case", sorted(catalogue.small()))
def test_random_structures(case: str) -> None:
    for seed in range(3):
        rng = Random(f"{case} {seed}")
        given = random_candidate(catalogue.get(case).workload(), rng).sketch
        rows, batch = random_batch(given, rng, 4)
        many = extract_decisions(given, batch, TARGET)
        assert_sane(many)
        for n, row in enumerate(rows):
            assert_same(extract(lower_decisions(given, row), TARGET), many, n, row)


def test_the_parallel_degree_is_each_candidates_own() -> None:
    given = STRUCTURES["matmul, copied operand"]
    decisions = {h: np.full(3, 2) for h in given.holes} | {"matmul.parallel": np.arange(3)}
    steps = extract_decisions(given, decisions, TARGET).raw("parallel_steps")[:, 1]
    assert steps == pytest.approx([1, 7, 7 * 9])  # j: 13 in twos; i: 17 in twos


def test_a_number_of_candidates_that_no_array_tells() -> None:
    w = catalogue.get("GMM-1-b1").workload()
    c = default_candidate(w, TARGET)
    program = lower_decisions(c.sketch, c.decisions)
    three = extract(program, TARGET, 3)
    assert three.values.shape[0] == 3
    for n in range(3):
        assert_same(extract(program, TARGET), three, n, c.decisions)


@pytest.mark.parametrize("case", ["C2D-3-b1", "C3D-2-b1", "T2D-1-b1", "NRM-1-b1", "TBS-1-b1", "CAP-1-b1"])
def test_default_candidates_of_real_sizes(case: str) -> None:
    c = default_candidate(catalogue.get(case).workload(), TARGET)
    assert_sane(extract(lower_decisions(c.sketch, c.decisions), TARGET))
