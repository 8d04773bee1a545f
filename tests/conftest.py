"""Settings of all tests: no verdict of theirs depends on the clock, for the machine may be busy with something else, nor on how
the tests were started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests import not_run

settings.register_profile("clockless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("clockless")
os.environ.pop("COLUMNS", None)  # pytest-xdist gives its workers one, and tables would fold to it


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt`, here and in the processes that tests start, also where it was ignored on entry: under
    `nohup`, or in a script's background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test says anything about who else uses the machine, or measures on it: the other tests do."""
    from tensorsmith.targets import neighbours

    monkeypatch.setattr(neighbours, "read", lambda: neighbours.Reading(0.0, 1))
    monkeypatch.setattr(neighbours, "measuring", list)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(not_run.Hooks(config))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests all need peers imports them at once, so it is not even read where `-m` chooses none of its tests."""
    if collection_path.suffix != ".py" or not config.option.markexpr:
        return None
    text = collection_path.read_text()
    if "\npytestmark = pytest.mark.peers\n" not in text or not_run.chooses(config.option.markexpr, text):
        return None
    not_run.unread(collection_path, config)
    return True
