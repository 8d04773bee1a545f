"""Networks in a process of their own: what they answer, how long they take, and what happens when they crash or hang."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.test_tune_network import MODEL

import tensorsmith as ts
from tensorsmith.measure import networks
from tensorsmith.measure.networks import run
from tensorsmith.search.trial import Status

NETWORK = ts.compile(MODEL)
FAULTS = """
import os, signal, time

def crash(point, number):
    if (point, number) == ("check", 1):
        os.kill(os.getpid(), signal.SIGSEGV)

def crash_when_timed(point, number):
    if (point, number) == ("time", 1):
        os.kill(os.getpid(), signal.SIGSEGV)

def hang(point, number):
    if number == 1:
        time.sleep(1000)

def error(point, number):
    raise ValueError("no such network")
"""


@pytest.fixture
def hook(tmp_path: Path):
    (tmp_path / "faults.py").write_text(FAULTS)
    return lambda name: f"{tmp_path / 'faults.py'}:{name}"


def test_answers_and_times() -> None:
    ran = run([NETWORK, ts.compile(MODEL)])
    assert ran.failure is None
    (wanted,) = MODEL.evaluate(NETWORK.random_inputs()).values()
    for answers, seconds in zip(ran.answers, ran.seconds):
        assert len(answers) == 2  # before the timing and after it
        for (answer,) in answers:
            np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-4)
        assert seconds.shape == (len(NETWORK.network.steps),) and (seconds > 0).all()


def test_answers_alone() -> None:
    ran = run([NETWORK], timed=False)
    assert [len(answers) for answers in ran.answers] == [1] and ran.seconds == []


@pytest.mark.parametrize("name", ["crash", "crash_when_timed"])
def test_a_crash_is_a_result(hook, name: str) -> None:
    failure = run([NETWORK, NETWORK], hook=hook(name)).failure
    assert failure is not None and (failure.network, failure.status) == (1, Status.CRASHED)
    assert failure.cause == "SIGSEGV while running in a network"


def test_so_is_an_error(hook) -> None:
    failure = run([NETWORK], hook=hook("error")).failure
    assert failure is not None and failure.cause == "exit status 1 while running in a network: ValueError: no such network"


def test_so_is_one_that_never_ends(hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_START", 0.0)
    monkeypatch.setattr(networks, "_EACH", 5.0)
    failure = run([NETWORK, NETWORK], hook=hook("hang")).failure
    assert failure is not None and (failure.network, failure.status) == (1, Status.TIMED_OUT)
