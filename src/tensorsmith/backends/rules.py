"""The sets of rules by name, rules of the user's own, and the sketches and spaces they give.

sketches([A, B, D])                     by our rules for this machine
sketches([A, B, D], rules="ansor")      by Ansor's
with rules_added(MyRule()): ...         by ours, with a rule asked before them
space_of(workload, target)              all candidates of a workload on a target
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tensorsmith.backends.backend import backend_named, backend_of, known
from tensorsmith.errors import UserError
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.define import workload as workload_of
from tensorsmith.lang.workload import Workload
from tensorsmith.plugins import load
from tensorsmith.space.derive import derive
from tensorsmith.space.population.population import Space
from tensorsmith.space.rules.base import Rule
from tensorsmith.space.sketch.sketch import Sketch
from tensorsmith.targets.target import Target, given_or_native

_added: list[tuple[Rule, str]] = []  # rules with their positions, in the order in which they are asked


def sketches(
    computation: Workload | Sequence[Tensor], rules: str | Sequence[Rule] = "default", target: Target | None = None
) -> list[Sketch]:
    """All sketches of a `computation`, `[A, B, D]` or a workload, in the order in which the rules give them.

    `rules` as in `rule_set`; the `target` is this machine where none is given.

        for sketch in ts.sketches([A, B, D], rules="ansor"):
            print(sketch.brief())
    """
    workload = computation if isinstance(computation, Workload) else workload_of(computation)
    where = given_or_native(target)
    return derive(workload, where, rule_set(rules, where))


def space_of(workload: Workload, target: Target, rules: str | Sequence[Rule] = "default") -> Space:
    """All candidates of a workload on a target; `rules` as in `rule_set`."""
    return Space(workload, target, rule_set(rules, target), backend_of(target).tactics(target))


def rule_set(rules: str | Sequence[Rule] = "default", target: Target | None = None) -> tuple[Rule, ...]:
    """Rules in the order in which they are asked.

    `rules` names a set of the target's backend, "default" or "ansor", to which registered rules are added in their positions; or it
    is a list of rules, or the place of one, as in "my_module:RULES" or "mine.py:RULES", that is taken as it stands.
    """
    sets = backend_of(given_or_native(target)).rule_sets
    if isinstance(rules, str) and ":" in rules:
        found_there = load("rules", rules)
        rules = found_there if isinstance(found_there, (list, tuple)) else [found_there]
    if not isinstance(rules, str):
        if not isinstance(rules, Iterable):
            raise UserError(f"rules is {rules!r}; give the name of a set ({', '.join(sets)}) or a list of rules")
        listed = tuple(rules)
        for rule in listed:
            _check_form(rule)
        return listed
    if rules not in sets:
        raise UserError(f"there is no rule set {rules!r}; known are {', '.join(sets)}")
    found: list[Rule] = [rule for rule, position in _added if position == "first"]
    for built_in in sets[rules]:
        found += [rule for rule, position in _added if position == built_in.name]
        found.append(built_in)
    return tuple(found)


def register_rule(rule: Rule, position: str = "first") -> None:
    """Adds a rule to every set: asked before all built-in rules, or before the one that `position` names (in sets that have it).

    Among registered rules of one position, the earlier is asked first. To take a rule back, use `rules_added` instead.

        register_rule(ShortWindow(), position="place")
    """
    _check(rule, position)
    _added.append((rule, position))


def registered() -> tuple[Rule, ...]:
    """The rules added so far."""
    return tuple(rule for rule, _ in _added)


@contextmanager
def rules_added(*rules: Rule, position: str = "first") -> Iterator[None]:
    """Registers rules for the length of a `with` block.

    As by `register_rule`, and gone afterwards:

        with rules_added(ShortWindow()):
            ts.tune([x, y])
    """
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
    sets = [rules for kind in known() for rules in backend_named(kind).rule_sets.values()]
    names = list(dict.fromkeys(r.name for rules in sets for r in rules))
    if rule.name in names or rule.name in {r.name for r in registered()}:
        raise UserError(f"there is a rule called {rule.name!r} already; give this one another name")
    if position != "first" and position not in names:
        raise UserError(f'a rule goes "first" or before one of {", ".join(names)}; got {position!r}')
