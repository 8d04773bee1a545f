"""Snippets and notebooks that need PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.docs import stand_ins
from tests.docs.blocks import blocks_of, pages
from tests.docs.notebooks import NEED_TORCH, execute
from tests.docs.running import Running

import tensorsmith as ts

pytestmark = pytest.mark.peers

PAGES = [page for page in pages() if any(b.needs_torch for b in blocks_of(page))]


@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of(page: str, tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU())
    names = {"ts": ts, "np": np, "torch": torch, "module": module, "x": torch.randn(2, 16)}
    Running(names).run([b for b in blocks_of(page) if b.needs_torch])


def test_there_are_some() -> None:
    assert {"README.md", "docs/first-module.md", "docs/modules.md"} <= set(PAGES)


@pytest.mark.parametrize("path", NEED_TORCH, ids=lambda p: p.stem)
def test_the_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    execute(path, stand_ins.tiny)
