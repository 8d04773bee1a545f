"""The suite for rules: ours pass it, and each promise is noticed when it is broken."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from tensorsmith.backends.cpu.rules import ANSOR, DEFAULT
from tensorsmith.lang.define import compute, placeholder, workload
from tensorsmith.lang.expr import Binary, Const
from tensorsmith.lang.inline import inline
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.ops.conv import conv2d
from tensorsmith.ops.transposed import transposed_conv2d
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.space.rules.base import Rule, Verdict, simple_nest
from tensorsmith.space.rules.place import LeavePlaceOpen
from tensorsmith.testing import BrokenPromise, check_rule
from tensorsmith.testing.promise import matmul


def winograd() -> Workload:
    x, weight = placeholder((1, 16, 12, 16), name="x"), placeholder((3, 3, 16, 4), name="weight", constant=True)
    return workload([x, weight, conv2d(x, weight, 1, 1)])


def workloads(*names: str) -> list[Workload]:
    return [catalogue.get(f"{name}-small").workload() for name in names]


#: where each of ours applies; elsewhere a matmul will do
WHERE = {"alias": "GRP", "rfactor": "sum", "place": "softmax", "skip": "add"}


@pytest.mark.parametrize(
    ("rules", "rule"),
    [(rules, r) for rules, given in (("default", DEFAULT), ("ansor", ANSOR)) for r in given],
    ids=lambda x: getattr(x, "name", x),
)
def test_ours(rules: str, rule: Rule) -> None:
    """Convolutions by Winograd's method choose between expressions by an index, which is what `constant` is for."""
    given = workloads(WHERE.get(rule.name, "matmul"))
    if rule.name == "constant":
        given = [formulations(winograd())[1].workload]
    elif rule.name == "inline":
        a = placeholder((7, 9), name="a")
        b = compute((7, 9), lambda i, j: a[i, j] + 1.0, name="b")
        given = [workload([a, compute((7, 9), lambda i, j: b[i, j] * 2.0, name="c")])]
    elif rule.name == "fusion":
        given = [matmul(5, 9, 4)]
    elif rule.name == "reshape":
        x, weight = placeholder((1, 6, 6, 8), name="x"), placeholder((2, 2, 8, 16), name="weight", constant=True)
        up = transposed_conv2d(x, weight, 2, 0)
        whole = workload([x, weight, compute(up.shape, lambda n, h, w, c: up[n, h, w, c] * 2.0, name="twice")])
        given = [inline(whole, whole.stages[-2].name)]
    check_rule(rule, given, rules=rules)


class Base:
    """A stage that is computed with simple loops: keeps all promises."""

    name = "simple"

    def condition(self, state: Any, index: int, target: Any) -> Any:
        return Verdict.APPLY_AND_SKIP_REST

    def apply(self, state: Any, index: int, target: Any) -> Any:
        return [(state.with_nest(simple_nest(state.stage(index))), index - 1)]


class NoVerdict(Base):
    def condition(self, state: Any, index: int, target: Any) -> Any:
        return True


class Fickle(Base):
    def __init__(self) -> None:
        self.answers = itertools.cycle([Verdict.APPLY_AND_SKIP_REST, Verdict.SKIP])

    def condition(self, state: Any, index: int, target: Any) -> Any:
        return next(self.answers)


class Dies(Base):
    def condition(self, state: Any, index: int, target: Any) -> Any:
        return state.stage(index).reduce_axes[5]


class GivesNothing(Base):
    def apply(self, state: Any, index: int, target: Any) -> Any:
        return []


class GivesNoStates(Base):
    def apply(self, state: Any, index: int, target: Any) -> Any:
        return [state]


class NeverEnds(Base):
    def apply(self, state: Any, index: int, target: Any) -> Any:
        return [(state, index)]


class IllegalNest(Base):
    def apply(self, state: Any, index: int, target: Any) -> Any:
        nest = simple_nest(state.stage(index))
        return [(state.with_nest(replace(nest, at="nobody:1")), index - 1)]


class NeverApplies(Base):
    def condition(self, state: Any, index: int, target: Any) -> Any:
        return Verdict.SKIP


class ComputesSomethingElse(Base):
    """Every stage twice as large, by a workload that was tampered with."""

    def apply(self, state: Any, index: int, target: Any) -> Any:
        stage = state.stage(index)
        doubled = replace(stage, body=Binary("mul", stage.body, Const(2.0, "f32")))
        stages = tuple(doubled if s.name == stage.name else s for s in state.workload.stages)
        other = replace(state.workload, stages=stages)
        return [(replace(state, workload=other, before=None).with_nest(simple_nest(doubled)), index - 1)]


class OfAnother(Base):
    """The same results, of a workload that has another name for an input."""

    def apply(self, state: Any, index: int, target: Any) -> Any:
        stage = state.stage(index)
        same = replace(stage, body=Binary("mul", stage.body, Const(1.0, "f32")))
        stages = tuple(same if s.name == stage.name else s for s in state.workload.stages)
        other = replace(state.workload, stages=stages)
        return [(replace(state, workload=other, before=None).with_nest(simple_nest(same)), index - 1)]


class OtherEachTime(Base):
    def __init__(self) -> None:
        self.count = 0

    def apply(self, state: Any, index: int, target: Any) -> Any:
        self.count += 1
        found = super().apply(state, index, target)
        return found if self.count < 3 else found * 2


@pytest.mark.parametrize(
    ("rule", "promise"),
    [
        (NoVerdict, "condition gives a Verdict: it gave True"),
        (Fickle, "condition gives the same verdict each time: APPLY_AND_SKIP_REST, then SKIP"),
        (Dies, "condition looks at a stage: it raised IndexError"),
        (GivesNothing, "apply gives a state at least: it gave none"),
        (GivesNoStates, "apply gives states, each with the index of the stage to go on with: it gave"),
        (NeverEnds, "the sketches of result are legal, and come to an end: it raised"),
        (IllegalNest, "the sketches of result are legal, and come to an end: it raised .*nobody"),
        (NeverApplies, "a rule applies to something: its condition gave SKIP"),
        (ComputesSomethingElse, "the sketches with simple compute what is defined: result: .* elements are wrong"),
        (OfAnother, "the sketches are of the workload that is derived: one is of"),
        (OtherEachTime, "the same sketches are derived each time: those of result differ"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_every_promise_is_checked(rule: type, promise: str) -> None:
    with pytest.raises(BrokenPromise, match=promise):
        check_rule(rule(), [matmul(5, 9, 4)])


def test_what_is_no_rule() -> None:
    with pytest.raises(BrokenPromise, match=r"a rule has a name, a condition and an application: it raised UserError.*is a class"):
        check_rule(LeavePlaceOpen)


def test_the_simple_one_keeps_all_promises() -> None:
    check_rule(Base(), [matmul(5, 9, 4), *workloads("add", "softmax")])
