"""Constants and golden numbers of the systems that policies are made after (spec: ansor.md, baselines.md)."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import space_of
from tensorsmith.baselines import flextensor, metaschedule
from tensorsmith.baselines.autotvm import policy as autotvm
from tensorsmith.baselines.autotvm.template_model import discount
from tensorsmith.baselines.flextensor import directions, general_template, moved, neighbours
from tensorsmith.baselines.halide import policy as halide
from tensorsmith.baselines.halide.policy import survives
from tensorsmith.baselines.halide.tilings import tilings
from tensorsmith.baselines.knobs import Knob, factorings
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.learn.models.ansor import TREES
from tensorsmith.ops import catalogue, linalg
from tensorsmith.program.unrolling import PRAGMA, steps_under_pragma
from tensorsmith.search.annotation import Chances, _is_last, annotate, draw_tiles, mutate, programs
from tensorsmith.search.policies import ansor
from tensorsmith.space.holes.unroll import reduction_steps
from tensorsmith.space.population.population import Space
from tensorsmith.space.rules.root import AtTheRoot


def matmul(n: int) -> Space:
    a, b = placeholder((n, n), name="a"), placeholder((n, n), name="b")
    return space_of(workload([a, b, linalg.matmul(a, b)]), target(), "ansor")


@pytest.mark.parametrize(
    "record",
    [
        ansor.SETTINGS, ansor.LIMITED, TREES, autotvm.SETTINGS, autotvm.SETTINGS.by_model, autotvm.SETTINGS.genetic,
        flextensor.SETTINGS, halide.SETTINGS, metaschedule.SETTINGS,
    ],
    ids=lambda r: f"{type(r).__module__}.{type(r).__name__}",
)  # fmt: skip
def test_constants_cannot_be_changed(record: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, dataclasses.fields(record)[0].name, None)  # type: ignore[arg-type]


# -- Ansor ---------------------------------------------------------------------------------------------------------------------


def test_ansor_has_the_constants_of_its_page() -> None:
    """ansor.md, section 13"""
    s, c, t = ansor.SETTINGS, ansor.SETTINGS.chances, TREES
    assert (s.population, int(s.measured * s.population), s.generations, s.blind, s.mutation) == (2048, 409, 4, 2, 0.85)
    assert (c.size, c.unroll, c.location, c.parallel, c.innermost) == (0.90, 0.04, 0.05, 0.01, 64)
    assert (s.round, int(s.random * s.round), s.drawn, s.kept * s.round) == (64, 3, 3, 128)
    assert (t.depth, t.gain, t.rate, t.trees, t.patience, t.warm, t.seed) == (10, 0.001, 0.2, 10_000, 50, 100, 43)
    assert ansor.LIMITED.chances.innermost == 16 and not ansor.LIMITED.chances.move_stages


def test_annotations_are_exact_divisors_with_small_innermost_tiles() -> None:
    plan = matmul(512).plans[-1]
    rows = annotate(plan, 200, np.random.default_rng(0), dataclasses.replace(ansor.SETTINGS.chances, innermost=16))
    sizes = [n for n, c in enumerate(plan.columns) if c.loop is not None]
    assert len(np.unique(rows, axis=0)) > 150
    last = [n for n in sizes if _is_last(plan, n)]
    assert rows[:, last].max() <= 16
    for axis in np.unique(plan.axes[sizes]):
        product = rows[:, [n for n in sizes if plan.axes[n] == axis]].prod(axis=1)
        assert all(512 % int(p) == 0 for p in product)


def test_mutations_keep_their_shares() -> None:
    """A tile changes nine times in ten where there are tiles, steps in a row and threads; products of tiles stay what they were."""
    plan, rng = matmul(512).plans[-1], np.random.default_rng(0)
    rows = annotate(plan, 1500, rng, ansor.SETTINGS.chances)
    new, changed = mutate(plan, rows, rng, ansor.SETTINGS.chances)
    assert changed.mean() > 0.5 and (new[~changed] == rows[~changed]).all()
    narrow = dataclasses.replace(ansor.SETTINGS.chances, innermost=16)
    few = annotate(plan, 300, rng, narrow)
    assert mutate(plan, few, rng, narrow)[0][:, [n for n in range(plan.numbers) if _is_last(plan, n)]].max() <= 16
    kinds = Counter(plan.columns[n].kind for a, b in zip(rows[changed], new[changed]) for n in np.flatnonzero(a != b)[:1])
    assert kinds["size"] / changed.sum() > 0.85 and kinds["unroll"] > 0


def test_the_pragma_is_drawn_and_mutated_as_in_the_source() -> None:
    """ansor.md, sections 0, 4.4 and 5.5: a value of 0, 16, 64 or 512, which unrolls loops of the reduction as TVM would."""
    assert PRAGMA == (0, 16, 64, 512) == ansor.SETTINGS.chances.pragma == metaschedule.SETTINGS.evolution.chances.pragma
    plan, rng = matmul(512).plans[-1], np.random.default_rng(0)
    (column,) = [n for n, c in enumerate(plan.columns) if c.kind == "unroll"]

    def allowed(rows: np.ndarray) -> np.ndarray:
        loops, stores = reduction_steps(plan, plan.columns[column].stage, plan.geometry.measure(rows))
        return np.minimum(np.stack([np.asarray(steps_under_pragma(loops, stores, p)) for p in PRAGMA]), plan.high[column])

    rows = annotate(plan, 600, rng, ansor.SETTINGS.chances)
    own = allowed(rows)
    assert (own == rows[:, column]).any(axis=0).all()
    other = own[1:] != own[:-1]  # where the values are different programs, each is drawn
    assert all(((rows[:, column] == steps) & differs).any() for steps, differs in zip(own[1:], other))
    only = dataclasses.replace(ansor.SETTINGS.chances, size=0.0, location=0.0, parallel=0.0)
    new, changed = mutate(plan, rows, rng, only)
    assert changed.any() and (new[:, [n for n in range(len(plan.columns)) if n != column]] == np.delete(rows, column, 1)).all()
    assert (own == new[:, column]).any(axis=0).all()
    kept = (own[0] == own[-1]).mean()  # rows that no value changes
    assert (~changed).mean() == pytest.approx(kept + (1 - kept) / 2, abs=0.25)


def test_the_limited_space_is_small() -> None:
    case = catalogue.get("C2D-4-b16").workload()
    limited, whole = (space_of(case, target(), p.rules) for p in (ansor.LIMITED_SPACE, ansor.PRESET))
    few, many = (
        sum(programs(plan, s.chances) for plan in space.plans) for space, s in ((limited, ansor.LIMITED), (whole, ansor.SETTINGS))
    )
    assert len(limited.plans) == 1 and few * 1000 < many


def test_rounds_are_of_64_and_the_model_learns_in_between() -> None:
    policy = ansor.AnsorPolicy(matmul(64), seed=0, settings=dataclasses.replace(ansor.SETTINGS, population=256, generations=1))
    assert len(policy.ask(16)) == 16 and len(policy.planned) == 48
    policy.ask(48)
    assert policy.planned == []


# -- MetaSchedule (section 8, items 9 and 10) ----------------------------------------------------------------------------------


def test_metaschedule_draws_tiles_prime_by_prime() -> None:
    chances = metaschedule.SETTINGS.evolution.chances
    drawn = draw_tiles(12, 2, 6000, np.random.default_rng(0), chances)
    counts = Counter(map(tuple, drawn.tolist()))
    assert set(counts) == {(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)}
    assert all(850 < n < 1150 for n in counts.values())
    assert draw_tiles(1 << 10, 2, 500, np.random.default_rng(0), chances)[:, 1].max() <= 64


def test_metaschedule_has_three_design_spaces_of_a_matrix_product() -> None:
    space, chances = matmul(512), metaschedule.SETTINGS.evolution.chances
    plain = min(programs(plan, chances) for plan in space.plans)
    assert len(space.plans) == 3 and plain == 210 * 210 * 7 * 4 and 3 * plain == 3_704_400
    assert (chances.size, chances.location, chances.unroll, chances.parallel) == (0.90, 0.05, 0.03, 0.02)


# -- AutoTVM -------------------------------------------------------------------------------------------------------------------


def test_autotvm_has_the_constants_of_its_source() -> None:
    """baselines.md, sections 1.5 and 1.6"""
    m, a, g = autotvm.SETTINGS.by_model, autotvm.SETTINGS.by_model.annealing, autotvm.SETTINGS.genetic
    assert (m.plan, int(m.random * m.plan)) == (64, 3)
    assert (a.chains, a.steps, a.hot, a.cold, a.patience) == (128, 500, 1.0, 0.0, 50)
    assert (g.population, g.elites, g.mutation) == (100, 3, 0.1)
    t = autotvm.TREES
    assert (t.depth, t.rate, t.gain, t.l2, t.trees, t.patience, t.best) == (3, 0.3, 1e-4, 1.0, 8000, 20, 64)


def test_what_other_workloads_taught_fades() -> None:
    """section 8, item 4"""
    assert discount(0) == 1.0 and discount(64) == 0.5
    assert discount(276) == pytest.approx(0.0503, abs=1e-4) and discount(277) == 0.0


# -- FlexTensor (section 8, item 12) -------------------------------------------------------------------------------------------


def test_flextensor_splits_in_four_and_moves_factors() -> None:
    knob = Knob("split_i", factorings(512, 4))
    assert len(knob) == 220 and len(directions(knob)) == 12
    assert moved((8, 4, 4, 4), 0, 1) == (16, 2, 4, 4) and moved((8, 1, 4, 16), 0, 1) is None


def test_flextensor_of_a_matrix_product() -> None:
    a, b = placeholder((512, 512), name="a"), placeholder((512, 512), name="b")
    template = general_template(space_of(workload([a, b, linalg.matmul(a, b)]), target(), (AtTheRoot(),)))
    assert template.size == 220**3
    start = tuple(k.values.index((8, 4, 4, 4)) for k in template.knobs)
    around = [p for knob in range(3) for p in neighbours(template, start, knob)]
    assert len(around) == 36 and len(set(around)) == 36 and None not in around


# -- Halide (section 8, items 6 and 7) -----------------------------------------------------------------------------------------


def test_halide_tilings() -> None:
    assert [t[0] for t in tilings([8])] == [4, 2, 3]
    assert [t[0] for t in tilings([56])] == [28, 14, 7, 4, 2, 19]
    assert tilings([4, 4]) == [(4, 2), (4, 1), (2, 4), (2, 2), (2, 1), (1, 4), (1, 2)]
    assert len(tilings([32, 512])) == 75 and len(tilings([32, 512], splits=False)) == 2
    assert len(tilings([4, 56, 56])) == 190


def test_halide_dropout() -> None:
    assert survives(0.01, 2) == pytest.approx(0.316, abs=1e-3)
    assert survives(1.0, 7) == 1.0


def test_chances_that_nothing_moves() -> None:
    """Where stages are not moved, a sketch has one structure."""
    plan = space_of(catalogue.get("softmax-small").workload(), target(), "ansor").plans[-1]
    rows = annotate(plan, 50, np.random.default_rng(0), Chances(0.9, 0.04, 0.0, 0.06, move_stages=False))
    assert len(np.unique(plan.structures(rows))) == 1
