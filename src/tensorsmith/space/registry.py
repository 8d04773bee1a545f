"""The sets of rules by name, rules of the user's own, and the sketches they give.

sketches([A, B, D])                     by our rules
sketches([A, B, D], rules="ansor")      by Ansor's
with rules_added(MyRule()): ...         by ours, with a rule asked before them
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.define import workload as workload_of
from tensorsmith.lang.workload import Workload
from tensorsmith.space.derive import ANSOR, DEFAULT, derive
from tensorsmith.space.rules.base import Rule
from tensorsmith.space.sketch.sketch import Sketch
from tensorsmith.targets.target import Target, given_or_native

_SETS: dict[str, tuple[Rule, ...]] = {"default": DEFAULT, "ansor": ANSOR}

_added: list[tuple[Rule, str]] = []  # rules with their positions, in the order in which they are asked


def sketches(
    computation: Workload | Sequence[Tensor], rules: str | Sequence[Rule] = "default", target: Target | None = None
) -> list[Sketch]:
    """All sketches of a computation, `[A, B, D]` or a workload, in the order in which the rules give them.

    `rules` names a set, to which registered rules are added, or is a list of rules that is taken as it stands.
    """
    workload = computation if isinstance(computation, Workload) else workload_of(computation)
    return derive(workload, given_or_native(target), rules_of(rules))


def rules_of(rules: str | Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules of a named set, with those that are registered, or a list as it stands."""
    return rule_set(rules) if isinstance(rules, str) else _listed(rules)


def _listed(rules: object) -> tuple[Rule, ...]:
    """Rules of the caller's own."""
    if not isinstance(rules, Iterable):
        raise UserError(f"rules is {rules!r}; give the name of a set ({', '.join(_SETS)}) or a list of rules")
    found = tuple(rules)
    for rule in found:
        _check_form(rule)
    return found


def rule_set(name: str) -> tuple[Rule, ...]:
    """The rules of a set, "default" or "ansor", in the order in which they are asked; registered ones in their positions."""
    if name not in _SETS:
        raise UserError(f"there is no rule set {name!r}; known are {', '.join(_SETS)}")
    rules: list[Rule] = [rule for rule, position in _added if position == "first"]
    for built_in in _SETS[name]:
        rules += [rule for rule, position in _added if position == built_in.name]
        rules.append(built_in)
    return tuple(rules)


def register_rule(rule: Rule, position: str = "first") -> None:
    """Adds a rule to every set: asked before all built-in rules, or before the one that `position` names (in sets that have it).

    Among registered rules of one position, the earlier is asked first. To take a rule back, use `rules_added` instead.
    """
    _check(rule, position)
    _added.append((rule, position))


def registered() -> tuple[Rule, ...]:
    """The rules added so far."""
    return tuple(rule for rule, _ in _added)


@contextmanager
def rules_added(*rules: Rule, position: str = "first") -> Iterator[None]:
    """Registers rules for the length of a `with` block."""
    before = list(_added)
    try:
        for rule in rules:
            register_rule(rule, position)
        yield
    finally:
        _added[:] = before


def _check_form(rule: object) -> None:
    lacking = [word for word in ("name", "condition", "apply") if not hasattr(rule, word)]
    if lacking or isinstance(rule, type):
        what = "is a class, not an instance" if isinstance(rule, type) else f"has no {', no '.join(lacking)}"
        raise UserError(f"{rule!r} {what}; a rule has a name, condition(state, index, target) and apply(state, index, target)")


def _check(rule: Rule, position: str) -> None:
    _check_form(rule)
    names = list(dict.fromkeys(r.name for rules in _SETS.values() for r in rules))
    if rule.name in names or rule.name in {r.name for r in registered()}:
        raise UserError(f"there is a rule called {rule.name!r} already; give this one another name")
    if position != "first" and position not in names:
        raise UserError(f'a rule goes "first" or before one of {", ".join(names)}; got {position!r}')
