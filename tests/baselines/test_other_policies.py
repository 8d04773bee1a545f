"""What is particular to the policies after FlexTensor, Halide, and the paper's ablations; all on made-up costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backends.cpu.machines import target

from tensorsmith.backends import backend_of, space_of
from tensorsmith.baselines import beam, flextensor
from tensorsmith.baselines.flextensor import FlexTensorPolicy, Learner, _Step, general_template, neighbours
from tensorsmith.baselines.halide import policy as halide
from tensorsmith.baselines.halide.policy import Decision, HalidePolicy, outline
from tensorsmith.lang.define import placeholder, workload
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.learn.models.registry import as_model
from tensorsmith.ops import catalogue, elementwise, linalg
from tensorsmith.program.interpret import interpret
from tensorsmith.program.lower import lower
from tensorsmith.search.policies import ansor
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.population import Space
from tensorsmith.space.rules.root import AtTheRoot
from tensorsmith.space.sketch.sketch import Candidate

TARGET = target()


def space(name: str) -> Space:
    return space_of(catalogue.get(name).workload(), TARGET, (AtTheRoot(),))


def product(n: int = 64) -> Space:
    a, b = placeholder((n, n), name="a"), placeholder((n, n), name="b")
    return space_of(workload([a, b, elementwise.relu(linalg.matmul(a, b))]), TARGET, (AtTheRoot(),))


def agrees(candidate: Candidate) -> bool:
    """Whether a candidate computes what its workload says, by the interpreter."""
    w, rng = candidate.sketch.workload, np.random.default_rng(1)
    inputs = {b.name: rng.random(b.shape, np.float32) for b in w.inputs}
    got, want = interpret(lower(candidate), inputs), evaluate(w, inputs)
    return all(np.allclose(got[n], want[n], rtol=1e-4, atol=1e-4) for n in w.outputs)


# -- FlexTensor ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dense-small", "GMM-small"])
def test_the_general_schedule_computes_what_it_should(name: str) -> None:
    template, rng = general_template(space(name)), np.random.default_rng(3)
    points = [p for p in (template.random(rng) for _ in range(20)) if template.valid([p])[0]]
    assert all(agrees(template.candidate(p)) for p in points[:3])
    for point in points:
        assert template.find(template.candidate(point)) is not None


def flextensor_cost(policy: FlexTensorPolicy, candidate: Candidate) -> float:
    """Steps from the best point, one factor at a time."""
    point = policy.where[policy.ledger.program(candidate)]
    values = policy.template.values(point)
    best = {"split_i": (2, 2, 4, 4), "split_j": (1, 1, 2, 32), "split_k": (2, 2, 4, 4)}
    return 1e-3 * (1 + sum(abs(np.log2(a / b)) for knob, want in best.items() for a, b in zip(values[knob], want)))


@pytest.mark.parametrize("method", ["p", "q"])
def test_walks_go_downhill(method: str) -> None:
    settings = flextensor.Settings(method=method, warm_up=16, parallel=2, trials=20, epochs=4)
    policy = FlexTensorPolicy(product(), seed=1, settings=settings)
    first: float | None = None
    for _ in range(12):
        asked = policy.ask(16)
        policy.tell([Trial(c, Status.OK, flextensor_cost(policy, c)) for c in asked])
        first = first or policy.best_seconds
    assert first is not None and policy.best_seconds is not None and policy.best_seconds < 0.8 * first
    assert policy.trial > 3


def test_all_neighbours_of_a_point_are_asked_for() -> None:
    policy = FlexTensorPolicy(product(), seed=0, settings=flextensor.Settings(method="p", warm_up=1, parallel=1))
    (start,) = policy.ask(1)
    policy.tell([Trial(start, Status.OK, 1e-3)])
    point = policy.where[policy.ledger.program(start)]
    around = {p for knob in range(len(policy.template.knobs)) for p in neighbours(policy.template, point, knob) if p is not None}
    policy._step()
    assert {p for p, _ in policy.queue} >= around and len(policy.queue) <= len(around) + 1


def test_a_best_point_whose_neighbours_bring_nothing_is_retired_for_a_while() -> None:
    policy = FlexTensorPolicy(product(), seed=0, settings=flextensor.Settings(method="p", warm_up=1, parallel=1, trials=60))
    (start,) = policy.ask(1)
    policy.tell([Trial(start, Status.OK, 1e-3)])
    point = policy.where[policy.ledger.program(start)]
    policy.tell([Trial(c, Status.OK, 2e-3) for c in policy.ask(60)])  # all that is around it is slower
    places = []
    for _ in range(4):
        policy.queue.clear()
        policy._step()
        places.append("heap" if point in policy.heap else "retired" if point in policy.retired else "lost")
    assert set(places) == {"heap", "retired"}  # it comes back after a twentieth of the trials, every third one


def test_a_network_learns_which_direction_pays() -> None:
    """One direction always gains a millisecond, the others nothing."""
    template = general_template(product())
    settings = replace(flextensor.SETTINGS, rate=1.0, memory=300)  # the source's rate needs thousands of steps
    learner = Learner(0, template, settings, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for _ in range(60):
        start = template.random(rng)
        for direction, goal in enumerate(neighbours(template, start, 0)):
            if goal is not None:
                learner.note(_Step(0, direction, start, 2e-3), goal, 1e-3 if direction == 3 else 2e-3)
    assert len(learner.memory) == 300
    learner.train(rng)
    starts = [p for p in (template.random(rng) for _ in range(60)) if neighbours(template, p, 0)[3] is not None]
    right = [learner.direction(p, range(12), 0.0, rng) == 3 for p in starts]
    assert np.mean(right) > 0.6


# -- Halide --------------------------------------------------------------------------------------------------------------------

NARROW = replace(halide.SETTINGS, beam=4, passes=2, batch=4)


def halide_policy(name: str, settings: halide.Settings = NARROW, model: str = "prior") -> HalidePolicy:
    return HalidePolicy(space(name), seed=0, model=as_model(model, backend_of(TARGET).schema), settings=settings)


@pytest.mark.parametrize("name", ["dense-small", "softmax-small", "matmul-small"])
def test_schedules_compute_what_they_should(name: str) -> None:
    found = halide_policy(name, replace(NARROW, learns=False)).ask(6)
    assert found and all(agrees(c) for c in found)


def test_outputs_are_decided_first_and_each_stage_twice() -> None:
    policy = halide_policy("softmax-small")
    assert policy.order[0] in policy.workload.outputs
    (end, *_) = policy._passes(2, 1.0, lambda: False)
    assert [stage for stage, _ in end] == [s for s in policy.order if s in dict(end)]
    root = [d for _, d in end if d.place == "root" and policy.schedules.lanes(policy.workload.stages[-1])[0]]
    assert any(d.tasks for d in root)


def test_the_beam_finds_what_is_cheaper_than_greedy() -> None:
    policy = halide_policy("ConvLayer-small")
    wide, narrow = (policy._passes(width, 1.0, lambda: False)[0] for width in (8, 1))
    assert policy.costs[wide] <= policy.costs[narrow]


def test_dropout_gives_other_schedules() -> None:
    policy = halide_policy("ConvLayer-small", replace(NARROW, dropout=1e-4))
    ends = {policy._passes(1, policy.settings.dropout, lambda: False)[0] for _ in range(6)}
    assert len(ends) > 3 and len({policy._passes(1, 1.0, lambda: False)[0] for _ in range(3)}) == 1


def test_the_model_learns_only_in_the_loop() -> None:
    for learns in (True, False):
        policy = halide_policy("dense-small", replace(NARROW, learns=learns), "trees")
        for _ in range(3):
            policy.tell([Trial(c, Status.OK, 1e-5 * (1 + n)) for n, c in enumerate(policy.ask(8))])
        policy.ask(1)
        assert policy.model.ready() == learns


def test_outlines_from_coarse_to_fine() -> None:
    one = (("C", Decision("root", inner=(1, 2), tasks=(4, 1))),)
    other = (("C", Decision("root", inner=(1, 4), tasks=(2, 1))),)
    another = (("C", Decision("root", inner=(2, 1), tasks=(2, 1))),)
    assert outline(one, 0) == outline(another, 0) and outline(one, 1) == outline(other, 1) != outline(another, 1)
    assert outline(one, 2) != outline(other, 2)


@pytest.mark.parametrize(("behind", "first"), [(3.0, "inside"), (4.0, "root")])
def test_a_structure_that_no_good_schedule_had_before_is_penalised(behind: float, first: str) -> None:
    """In a later pass it counts as one that was seen ten times already: log2(11), 3.46, is added to its cost."""
    policy = halide_policy("dense-small", replace(NARROW, unblessed=10))
    new, good = ((policy.order[0], Decision(place, inner=(1, 2), tasks=(1, 1))) for place in ("root", "inside"))
    costs, blessed = {(new,): 0.0, (good,): behind}, {outline((good,), 0)}
    assert policy._popped(costs, 1, 1, 1.0, blessed)[0][0][1].place == first
    assert policy._popped(costs, 0, 1, 1.0, blessed)[0][0][1].place == "root"  # nothing is known in the first pass


# -- ablations -----------------------------------------------------------------------------------------------------------------


class Even:
    """A model that likes large register tiles; it counts what it was asked about."""

    kind = "even"

    def __init__(self) -> None:
        self.asked = 0

    def predict(self, rows: Any, base: Any) -> Any:
        self.asked += rows.candidates
        return rows.total(rows.values[:, rows.schema.index["tile_values"]])

    def update(self, samples: object) -> None: ...

    def ready(self) -> bool:
        return True


def tile(candidate: Candidate) -> float:
    rows = backend_of(TARGET).extract_rows([(candidate.sketch, candidate.decisions)], TARGET)
    return float(rows.total(rows.values[:, rows.schema.index["tile_values"]])[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda where, model: beam.BeamPolicy(where, model=model, settings=replace(beam.SETTINGS, width=8, children=4)),
        lambda where, model: ansor.AnsorPolicy(where, model=model, settings=replace(ansor.SETTINGS, population=128, round=16)),
    ],
    ids=["beam", "ansor"],
)
def test_what_the_model_likes_is_asked_for(make: Callable[[Space, Any], Any]) -> None:
    where = space_of(product().workload, TARGET, "ansor")
    likes, ignores = Even(), as_model("random", backend_of(TARGET).schema)
    liked, any_ = (np.mean([tile(c) for c in make(where, model).ask(12)]) for model in (likes, ignores))
    assert likes.asked > 100 and liked > any_ + 2


def test_a_beam_scores_incomplete_programs() -> None:
    """Before the last decision, what is undecided is as if it were not there: one thread, no steps in a row."""
    where = space_of(product().workload, TARGET, "ansor")
    plan = where.plans[0]
    order = beam.decisions(plan)
    assert sorted(n for columns in order for n in columns.tolist()) == list(range(len(plan.columns)))
    assert [plan.columns[c[0]].kind for c in order][-1] in ("parallel", "unroll")
