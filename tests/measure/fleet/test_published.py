"""The folder in which runs say how they are: in the temporary directory, where anyone may have been before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.measure.fleet.simulation import Simulation

from tensorsmith.measure.fleet import published
from tensorsmith.testing.simulated import Conditions


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(published, "folder", lambda: tmp_path / "fleet")
    return tmp_path / "fleet"


def form(process: int) -> str:
    return json.dumps({"runner": "x", "process": process, "written": 0, "open": 0, "queued": 0, "nodes": []})


def fill(folder: Path) -> Path:
    """A run that lives, and the file of one that is dead, which is removed where that is ours to do."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "1.json").write_text(form(os.getpid()))
    dead = folder / "2.json"
    dead.write_text(form(2**22 + 1))
    return dead


def write() -> None:
    published.Published("mine")(Simulation(Conditions(1)).runner)


def test_a_folder_of_ours(place: Path) -> None:
    dead = fill(place)
    write()
    assert {run.runner for run in published.published()} == {"x", "mine"} and not dead.exists()
    assert place.stat().st_mode & 0o777 == 0o700


def untouched(place: Path, dead: Path) -> None:
    """Nothing is read there, nothing is removed, nothing is written."""
    before = sorted(place.iterdir())
    write()
    assert published.published() == [] and dead.exists() and sorted(place.iterdir()) == before


def test_a_folder_of_another_user(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = fill(place)
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    untouched(place, dead)


def test_a_link_in_its_place(place: Path, tmp_path: Path) -> None:
    dead = fill(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    untouched(place, dead)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_in(place: Path, mode: int) -> None:
    dead = fill(place)
    place.chmod(mode)
    untouched(place, dead)


def test_a_file_in_its_place(place: Path) -> None:
    place.write_text(form(os.getpid()))
    write()
    assert published.published() == [] and place.is_file()


def test_a_link_inside_is_not_followed(place: Path, tmp_path: Path) -> None:
    place.mkdir(mode=0o700)
    (tmp_path / "secret.json").write_text(form(os.getpid()))
    (place / "1.json").symlink_to(tmp_path / "secret.json")
    (place / "2.json").mkdir()
    assert published.published() == []
