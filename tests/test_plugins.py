"""Plug-ins by name: built in, registered, or from a module or file of the user's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tensorsmith.errors import UserError
from tensorsmith.plugins import Registry, installed, load


@pytest.fixture
def registry() -> Registry[object]:
    return Registry("thing", {"path": "pathlib:Path"})


def test_built_in_and_registered(registry: Registry[object]) -> None:
    assert registry.get("path") is Path
    registry.add("mine", 5)
    assert registry.get("mine") == 5 and registry.names() == ("path", "mine")
    for taken in ("path", "mine"):
        with pytest.raises(UserError, match=f"there is a thing called '{taken}' already"):
            registry.add(taken, 6)
    for bad in ("", "a:b"):
        with pytest.raises(UserError, match=f"a thing cannot be called '{bad}'"):
            registry.add(bad, 6)


def test_installed_packages_bring_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By entry points, as `tensorsmith.baselines` does; what is built in stays what it is, and nothing is imported by listing."""
    (tmp_path / "theirs.py").write_text("ONE = 1\nPATH = 2\n")
    (tmp_path / "theirs-1.0.dist-info").mkdir()
    (tmp_path / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (tmp_path / "theirs-1.0.dist-info" / "entry_points.txt").write_text("[tests.things]\none = theirs:ONE\npath = theirs:PATH\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed.cache_clear()
    registry: Registry[object] = Registry("thing", {"path": "pathlib:Path"}, group="tests.things")
    assert registry.names() == ("path", "one") and "one" in registry and "theirs" not in sys.modules
    assert registry.get("one") == 1 and registry.get("path") is Path
    with pytest.raises(UserError, match="there is a thing called 'one' already"):
        registry.add("one", 3)


def test_unknown_names_list_the_known_ones(registry: Registry[object]) -> None:
    registry.add("mine", 5)
    with pytest.raises(
        UserError, match="there is no thing 'yours'; known are path, mine, and \"module:Name\" gives one of your own"
    ):
        registry.get("yours")


def test_modules_and_files(registry: Registry[object], tmp_path: Path) -> None:
    assert registry.get("pathlib:PurePath").__name__ == "PurePath"
    file = tmp_path / "own.py"
    file.write_text("from dataclasses import dataclass\n@dataclass\nclass Mine:\n    x: int = 0\nRUNS = []\n")
    mine = registry.get(f"{file}:Mine")
    assert mine(3).x == 3 and registry.get(f"{file}:Mine") is mine  # the file was run once


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "nowhere:Name",
            r"thing 'nowhere:Name': nowhere cannot be imported: ModuleNotFoundError.*; for a file here, write nowhere.py:Name",
        ),
        ("nowhere.py:Name", "thing 'nowhere.py:Name': nowhere.py cannot be imported: FileNotFoundError"),
        ("pathlib:Nothing", "pathlib has nothing called 'Nothing'"),
        ("BROKEN:Name", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_what_cannot_be_loaded(place: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(UserError, match=message):
        load("thing", place.replace("BROKEN", str(tmp_path / "broken.py")))
    assert not [name for name in set(sys.modules) - before if "broken" in name]
