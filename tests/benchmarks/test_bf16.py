"""The benchmark of bf16: who is in it, and what a machine without the instruction is."""

from __future__ import annotations

import numpy as np
import pytest

import bf16
import tensorsmith as ts
from quantise import Layer
from tensorsmith.backends.cpu.instructions import bf16_dots, matrices
from tensorsmith.targets.target import native

SMALL = [Layer("product", 12, 7, 5), Layer("conv", 18, 9, 8, 3), Layer("strided", 8, 9, 5, 3, 2)]


@pytest.mark.parametrize("name", ["znver4", "sapphirerapids", "neoverse-v1", "neoverse-v2"])
def test_a_machine_without_the_instruction(name):
    machine = ts.Target.named(name)
    assert bf16_dots(machine) and not bf16_dots(bf16.without_instruction(machine))
    assert not [i for i in matrices(bf16.without_instruction(machine)) if i.sums == "f32"]


@pytest.mark.parametrize("layer", SMALL, ids=lambda layer: layer.name)
def test_everyone_takes_part(layer):
    """Each answer is checked on the way; Winograd's transforms are for windows of 3 and stride 1."""
    found = bf16.contestants(layer, native())
    assert list(found) == [bf16.BF16, bf16.WIDENED, bf16.F32, *([bf16.WINOGRAD] if layer.name == "conv" else [])]
    kinds = {name: made(x).dtype for name, (made, x) in found.items()}
    assert kinds[bf16.BF16] == kinds[bf16.WIDENED] != kinds[bf16.F32] == np.float32


def test_a_wrong_answer_ends_it(monkeypatch):
    monkeypatch.setattr(bf16, "evaluate", lambda given, arrays: {"y": np.zeros(given.buffers["y"].shape, bf16.KINDS["bf16"])})
    with pytest.raises(SystemExit, match=r"product, tensorsmith bf16: .* wrong"):
        bf16.contestants(SMALL[0], native())
