"""What messages tell their reader to give and to do, in the words of the command line: options and commands."""

from __future__ import annotations

import re
import shlex

from tensorsmith.errors import Action, Parameter, UserError

#: options that are called otherwise than the argument; a parameter without an option is given in Python alone
_OPTIONS = {"shapes": "--shape", "seconds": "--time", "database": "--db", "fallback": "--policy-only", "load.seed": "--draw-seed"}
_QUOTED = re.compile(r'"([^"]*)"')  # the names in a list of them
_PYTHON_ALONE = ("constants",)


def told(problem: BaseException) -> str:
    """What is wrong, to someone at a command line."""
    return problem.told(words) if isinstance(problem, UserError) else str(problem)


def words(said: Parameter | Action) -> str:
    """`--shape batch=N` of a parameter, `tensorsmith tune` of an action."""
    if isinstance(said, Action):
        return f"`tensorsmith {said.name.format(*map(shlex.quote, said.arguments))}`"
    if said.name in _PYTHON_ALONE:
        return f"{said} in Python"
    option = _OPTIONS.get(f"{said.of}.{said.name}" if said.of else said.name, f"--{said.name.replace('_', '-')}")
    if said.name == "outputs" and said.value:
        return f"{option} {shlex.quote(','.join(_QUOTED.findall(said.value)))}"
    if said.entries:
        return " ".join(f"{option} {shlex.quote(key)}={_value(value)}" for key, value in said.entries)
    return f"{option} {_value(said.value)}" if said.value else option


def _value(text: str) -> str:
    """A shape or sizes without blanks and brackets, `(N, 4)` as `N,4`; the comma at the end of a shape of one size stays. What may
    be any size, `None`, is `?`."""
    return re.sub(r"\bNone\b", "?", re.sub(r"[()\[\]\s]", "", text))
