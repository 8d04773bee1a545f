"""What a node does for a tuner that it does not know: it measures, and imports nothing that its own user did not allow."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.measure.fleet.other_machine import elsewhere
from tests.measure.small import FAULTS, LIMITS, candidates, fault, matmul

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.measure.fleet import forms
from tensorsmith.measure.fleet.imports import IMPORTS, check_hook, check_import
from tensorsmith.measure.fleet.station import Station
from tensorsmith.measure.measurer import Measurer
from tensorsmith.measure.places import as_place
from tensorsmith.targets.target import native


@pytest.fixture
def station() -> Iterator[Station]:
    made = Station()
    yield made
    made.close()


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that a module writes when it is imported; the module is `canary_of_tests`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "canary_of_tests.py").write_text(f"open({str(tmp_path / 'sang')!r}, 'w').close()\n")
    yield tmp_path / "sang"
    sys.modules.pop("canary_of_tests", None)


def hello(**fields: Any) -> dict[str, Any]:
    asked = {"do": "hello", "version": ts.__version__, "target": native().to_json(), "limits": dataclasses.asdict(LIMITS)}
    return asked | {"backend": ""} | fields


def test_a_module_that_a_message_names_is_not_imported(station: Station, canary: Path) -> None:
    answer = station.obey(hello(backend="canary_of_tests"))
    assert answer["did"] == "cannot" and not canary.exists()
    assert answer["why"] == (
        "this node does not import 'canary_of_tests' for a tuner; if that is yours, allow it in the environment of the node: "
        "TENSORSMITH_NODE_IMPORTS=canary_of_tests"
    )


def test_what_the_user_of_the_node_allowed_is_imported(station: Station, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IMPORTS, "others, canary_of_tests")
    assert station.obey(hello(backend="canary_of_tests"))["did"] == "hello" and canary.exists()


@pytest.mark.parametrize("backend", [3, ["os"], {"os": 1}, "tensorsmith.cli", "os", "../canary", "canary_of_tests.x"])
def test_what_is_no_module_of_a_kind_of_machine(station: Station, backend: object) -> None:
    assert station.obey(hello(backend=backend))["did"] == "cannot"


def test_a_setup_names_no_module_either(station: Station, canary: Path) -> None:
    """The workers of a node would import it."""
    assert station.obey(hello())["did"] == "hello"
    measurer = Measurer(matmul())
    setup = measurer._setup() | {"outputs": forms.arrays_to_form(measurer._subject.reference)}
    for field, value in (("backend", "canary_of_tests"), ("hook", fault("wrong_number")), ("hook", "x"), ("hook", 3)):
        answer = station.obey(setup | {field: value})
        assert answer["did"] == "cannot" and ("does not import" in answer["why"] or "a module is named by a text" in answer["why"])
    assert not canary.exists()
    assert station.obey(setup)["did"] == "setup"


def test_kinds_that_the_process_knows_need_no_leave() -> None:
    import tests.backends.interpreter as kind

    check_import(kind.BACKEND.module, {})
    check_import("", {})
    check_import(None, {})
    check_hook(f"{FAULTS}:wrong_number", {IMPORTS: str(FAULTS)})
    with pytest.raises(UserError, match="does not import"):
        check_hook(f"{FAULTS}:wrong_number", {IMPORTS: "faults"})


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("tensorsmith.plugins:load", {"most": 1}),
        ("tensorsmith.measure.fleet.station:importlib", {}),
        ("os:abort", {}),
        (["tensorsmith.measure.contest:evenly"], {"most": 1}),
        ("tensorsmith.measure.contest:evenly", {"most": "1"}),
        ("tensorsmith.measure.contest:evenly", {"most": 1, "rounds": 2}),
    ],
)
def test_who_has_a_turn_is_said_by_one_of_two_functions(place: object, options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        forms.turns_of_form({"next_round": place, "options": options, "conditions": [], "seconds": 1.0, "least": 1})


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": None},
        {"do": "open"},
        {"do": "_init__"},
        {"do": "job"},
        {"do": "calibrating"},
        {"do": ["hello"]},
        {"do": "setup"},
        {"do": "measure", "jobs": [{"bench": 7}]},
        {"do": "measure", "jobs": 3},
        {"do": "forget"},
        {"do": "compare", "jobs": [], "turns": {}},
        {"do": "hello", "target": 3, "version": ts.__version__, "limits": {}},
        {"do": "hello", "target": native().to_json(), "version": ts.__version__, "limits": {"rounds": 3, "x": 1}},
    ],
    ids=str,
)
def test_what_cannot_be_obeyed_is_answered_in_one_line(station: Station, message: dict[str, Any]) -> None:
    answer = station.obey(message)
    assert answer["did"] == "cannot" and answer["why"] and "\n" not in answer["why"]


def test_a_tuner_is_told_why_its_plug_in_is_refused(tmp_path: Path) -> None:
    runner = as_place(elsewhere(tmp_path)).make(native(), lambda text: None)
    with Measurer(matmul(), runner=runner, hook=fault("wrong_number")) as m, pytest.raises(UserError, match=f"{IMPORTS}={FAULTS}"):
        m.measure(candidates(matmul(), 1))
    runner.close()
