"""What the snippets of the pages find."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs import stand_ins

import tensorsmith as ts
from tensorsmith.tuning.finals import final


@contextlib.contextmanager
def short_finals() -> Iterator[None]:
    """A search of four trials needs no final of two seconds; the number of its rounds is of no interest here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(final, "_SECONDS", 0.2)
        patch.setattr(final, "_CHECK_ROUNDS", 2)
        yield


@pytest.fixture(autouse=True)
def for_snippets_alone() -> Iterator[None]:
    """Other tests share the process: what a page says about logging, or sets besides, is gone with its test."""
    loggers = [logging.getLogger(), logging.getLogger("tensorsmith")]
    before = [(logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    environment, path = dict(os.environ), sys.path[:]
    with short_finals():
        yield
    for logger, (level, handlers, propagate) in zip(loggers, before):
        logger.setLevel(level)
        logger.handlers[:] = handlers
        logger.propagate = propagate
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record file of the model that pages call model.onnx."""
    folder = tmp_path_factory.mktemp("records")
    stand_ins.use_model(folder, {}, "closed")
    with short_finals():
        ts.tune(ts.load(folder / "model.onnx"), trials=stand_ins.TRIALS, database=folder / "tune.db", on_progress=lambda p: None)
    return folder / "tune.db"
