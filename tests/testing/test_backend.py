"""Our own backends keep what backends promise, and whoever breaks a promise is told which."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.backends.interpreter import BACKEND, InterpreterTarget, generate

import tensorsmith as ts
from tensorsmith.backends import backend, backend_of
from tensorsmith.runtime import device
from tensorsmith.targets import target as kinds
from tensorsmith.testing import check_backend


def test_cpus():
    check_backend(backend_of(ts.Target.native()))


def test_cpus_that_are_elsewhere():
    check_backend(backend_of(ts.Target.native()), [ts.Target.named("neoverse-n1")])


def test_the_interpreter():
    check_backend(BACKEND, [InterpreterTarget(), InterpreterTarget(here=False)])


@pytest.fixture
def replaced(monkeypatch):
    """The interpreter's backend with other parts, in the place of the real one."""

    def replace(**parts: Any) -> Any:
        made = dataclasses.replace(BACKEND, **parts)
        monkeypatch.setitem(backend._known, "interpreter", made)
        monkeypatch.setitem(device._known, "interpreter", made.device)
        monkeypatch.setitem(kinds._known, "interpreter", made.target)
        return made

    return replace


class Forgetful(InterpreterTarget):
    """Leaves a fact out of its JSON form."""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_json().items() if name != "cores"}

    @classmethod
    def detect(cls) -> InterpreterTarget:
        return cls(cores=3)


class Strict(InterpreterTarget):
    """Refuses a form with a fact that it does not know."""

    @classmethod
    def _of_facts(cls, form: dict[str, Any]) -> Any:
        return cls(**{name: value for name, value in form.items() if name not in ("kind", "version")})


class Loader:
    """Loads code that does nothing."""

    def __init__(self, code: Any) -> None:
        self.code, self._function = code, BACKEND.device.link(code)
        self._function._run = lambda *given: None
        self._function._entry = type(self._function._entry)(self._function._run)
        self.address = self._function.address


def doubled(program: Any, target: Any) -> Any:
    made = generate(program, target)
    return dataclasses.replace(made, code=dataclasses.replace(made.code, symbols=frozenset({"one", "two"})))


def silent(program: Any, target: Any) -> Any:
    made = generate(program, target)
    return dataclasses.replace(made, code=dataclasses.replace(made.code, texts={"loops": lambda: ""}))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"kind": "another"}, "differ in kind"),
        ({"rule_sets": {}}, 'no rules "default"'),
        ({"target": Forgetful}, "cannot be told by its facts|comes back from JSON as another"),
        ({"target": Strict}, "unexpected keyword argument|a fact it does not know is in the way"),
        ({"generate": doubled}, "has 2 functions to call"),
        ({"generate": silent}, "an empty text 'loops'"),
        ({"device": dataclasses.replace(BACKEND.device, link=Loader)}, "is wrong"),
        ({"device": dataclasses.replace(BACKEND.device, why_not=lambda target: "cannot")}, "does not name interpreter"),
    ],
)
def test_broken_promises_are_named(replaced, parts, message):
    made = replaced(**parts)
    with pytest.raises((AssertionError, TypeError), match=message):
        check_backend(made)


def test_it_must_be_registered(replaced):
    other = replaced(rule_sets=dict(BACKEND.rule_sets))
    assert other is not BACKEND
    with pytest.raises(AssertionError, match="belongs to another backend"):
        check_backend(BACKEND)
