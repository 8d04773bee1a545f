"""Derivation of sketches: the rules applied stage by stage, from the outputs back to the inputs."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.errors import InternalError, UserError
from tensorsmith.lang.workload import Workload
from tensorsmith.space.rules.base import Rule, State, Verdict
from tensorsmith.space.sketch.sketch import Sketch
from tensorsmith.targets.target import Target

_MAX_SKETCHES = 4096  # more is a rule that never ends
_MAX_VISITS = 16  # rules that may be applied to each stage in turn


def derive(workload: Workload, target: Target, rules: Sequence[Rule]) -> list[Sketch]:
    """All sketches of a workload, in the order in which the rules give them (breadth first)."""
    queue = [(State(workload), len(workload.stages) - 1)]
    found: list[Sketch] = []
    for _ in range(_MAX_VISITS * (len(workload.stages) + 1)):
        waiting = []
        for state, index in queue:
            if index < 0:
                found.append(state.sketch())
                continue
            waiting.extend(_step(state, index, target, rules))
        queue = waiting
        if not queue:
            return found
        if len(queue) + len(found) > _MAX_SKETCHES:
            raise UserError(f"the rules give more than {_MAX_SKETCHES} sketches; does one of them return the stage it was given?")
    raise UserError("the rules come to no end; does one of them give back the state and the stage that it was given?")


def _step(state: State, index: int, target: Target, rules: Sequence[Rule]) -> list[tuple[State, int]]:
    derived: list[tuple[State, int]] = []
    for rule in rules:
        verdict = rule.condition(state, index, target)
        if not isinstance(verdict, Verdict):
            raise UserError(f"rule {rule.name}: the condition gave {verdict!r} for stage {state.stage(index).name}; give a Verdict")
        if verdict is Verdict.SKIP:
            continue
        derived.extend(rule.apply(state, index, target))
        if verdict is Verdict.APPLY_AND_SKIP_REST:
            break
    if not derived:
        raise InternalError(f"no rule applies to stage {state.stage(index).name}")
    return derived
