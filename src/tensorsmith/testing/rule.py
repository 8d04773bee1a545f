"""The promises of a derivation rule (`tensorsmith.space.rules.base`), each checked on its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tensorsmith.backends import rule_set, space_of
from tensorsmith.errors import Refusal
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.program.interpret import interpret
from tensorsmith.program.ir import Loop, Node
from tensorsmith.program.lower import lower
from tensorsmith.space.derive import derive
from tensorsmith.space.population.population import Space
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.rules.base import Derived, Rule, State, Verdict
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target, native
from tensorsmith.testing.promise import again, calling, demand, text

#: operators of every kind at tiny, odd sizes
_WORKLOADS = ("matmul", "C2D", "DEP", "ConvLayer", "softmax", "NRM", "add", "avg_pool", "sum")
_CANDIDATES = 8  # of each workload
_MOST_BLOCKS = 1_000  # that the interpreter runs: it takes a tenth of a millisecond for each


def check_rule(
    rule: Rule,
    workloads: Iterable[Workload] | None = None,
    *,
    rules: str | Sequence[Rule] = "default",
    target: Target | None = None,
) -> None:
    """Raises `BrokenPromise` if a rule breaks a promise when it is asked before the others, those of `rules`.

    Give `workloads` that the rule applies to, small ones: some of their candidates are run by the interpreter. Without any it is
    tried on an operator of every kind. The `target` is this machine, unless one is given.

        check_rule(ShortWindow(), [ts.workload([x, avg_pool(x, kernel=3)])])
    """
    target = target or native()
    given = [catalogue.get(f"{name}-small").workload() for name in _WORKLOADS] if workloads is None else list(workloads)
    watched = _Watched(calling("a rule has a name, a condition and an application", lambda: rule_set([rule], target)[0]))
    rest = [r for r in rule_set(rules, target) if r.name != rule.name]
    for workload in given:
        before = watched.applied
        _derives(workload, [watched, *rest], target)
        if watched.applied > before:
            _computes_what_is_defined(workload, space_of(workload, target, [watched, *rest]), rule.name)
    demand(
        watched.applied > 0,
        "a rule applies to something",
        "its condition gave SKIP for every stage of the workloads; give some that it is for: check_rule(rule, [workload])",
    )


class _Watched:
    """A rule whose answers are looked at."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.name = rule, rule.name
        self.applied = 0

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        found, second = (calling("condition looks at a stage", self.rule.condition, state, index, target) for _ in range(2))
        demand(isinstance(found, Verdict), "condition gives a Verdict", f"it gave {found!r}")
        demand(found is second, "condition gives the same verdict each time", f"{found.name}, then {second.name}")
        return found

    def apply(self, state: State, index: int, target: Target) -> Derived:
        self.applied += 1
        try:
            found = list(self.rule.apply(state, index, target))
        except Refusal as problem:
            demand(False, "apply gives states that are legal", str(problem))
        demand(bool(found), "apply gives a state at least", "it gave none, so that the workload may have no sketch")
        for one in found:
            right = isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], State) and isinstance(one[1], int)
            demand(right, "apply gives states, each with the index of the stage to go on with", f"it gave {one!r}")
        return found


def _derives(workload: Workload, rules: Sequence[Rule], target: Target) -> None:
    """Every derivation ends, and gives the same legal sketches each time."""
    what = ", ".join(workload.outputs)
    first, second = (
        calling(f"the sketches of {what} are legal, and come to an end", derive, workload, target, rules) for _ in range(2)
    )
    demand(bool(first), "a workload has sketches", f"{what} has none")
    same = [s.brief() for s in first] == [s.brief() for s in second]
    demand(same, "the same sketches are derived each time", f"those of {what} differ")


def _computes_what_is_defined(workload: Workload, space: Space, name: str) -> None:
    """Candidates of every sketch, run by the interpreter and compared with the definition."""
    what = ", ".join(workload.outputs)
    inputs = random_inputs(workload)
    want = evaluate(workload, inputs, precise=True)
    count = max(_CANDIDATES, 2 * len(space.plans))
    drawn = calling(
        f"the sketches of {what} can be sampled", lambda: list(space.candidates(sample(space, count, np.random.default_rng(0))))
    )
    ran = 0
    for candidate in drawn:
        try:
            program = lower(candidate)
        except Refusal:
            continue
        if _blocks(program.body) > _MOST_BLOCKS:
            continue
        ran += 1
        got = calling(f"a candidate of {what} can be run", interpret, program, inputs)
        for outside, inside in zip(workload.outputs, program.workload.outputs):
            wrong = difference(workload, outside, got[inside].reshape(want[outside].shape), want[outside])
            demand(wrong is None, f"the sketches with {name} compute what is defined", f"{wrong}\n{candidate.sketch.brief()}")
        _can_be_stored(workload, candidate)
    demand(ran > 0, f"some candidates of {what} can be built", f"all {len(drawn)} were refused, or are too large to run here")


def _can_be_stored(workload: Workload, candidate: Candidate) -> None:
    key = candidate.sketch.workload.key
    demand(key == workload.key, "the sketches are of the workload that is derived", f"one is of {key}")
    same = calling("a candidate can be stored and read again", lambda: text(again(candidate)) == text(candidate))
    demand(same, "a candidate can be stored and read again", f"it is another one then\n{candidate.sketch.brief()}")


def _blocks(nodes: Iterable[Node], times: int = 1) -> int:
    """How many blocks a program runs."""
    total = 0
    for node in nodes:
        if isinstance(node, Loop):
            total += _blocks(node.body, times * int(node.var.count))
        else:
            total += times + _blocks(node.before, times)
    return total
