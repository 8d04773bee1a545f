"""Weights in fewer bits are unpacked in registers: what the innermost loop of a product with a vector does for each of them."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.model import Model


def innermost(target: str, weights: str | None, rows: int = 1) -> Counter[str]:
    """How often each instruction is in the loop with most multiply-adds."""
    b = Builder("product")
    w = b.constant(np.random.default_rng(0).uniform(-1, 1, (512, 768)).astype(np.float32), "w")
    b.output("y", b.add("matmul", [b.input("x", (rows, 512), "f32"), w]))
    assembly = ts.compile(Model.from_graph(b.graph()), weights=weights, target=target).assembly
    loops = [block for block in re.split(r"\n(?=\.LBB)", assembly) if re.search(r"\bj\w+\s+\.LBB", block)]
    body = max(loops, key=lambda block: block.count("vfmadd"))
    lines = body[: re.search(r"\bj\w+\s+\.LBB\w+", body).end()]
    assert "(%rsp" not in lines, "a register was spilled"
    return Counter(re.findall(r"^\t(\w+)", lines, re.MULTILINE))


def multiply_adds(found: Counter[str]) -> int:
    return sum(count for name, count in found.items() if name.startswith("vfmadd"))


UNPACKED = {
    "bf16": ("vpmovzxwd", "vpslld"),  # a load that widens, and a shift
    "f16": ("vcvtph2ps",),  # a load that converts
    "int8": ("vpmovsxbd", "vcvtdq2ps"),  # a load that widens, and a conversion
}


@pytest.mark.parametrize("target", ["znver4", "skylake-avx512", "znver3", "x86-64-v3"])
@pytest.mark.parametrize("weights", UNPACKED)
def test_one_load_and_one_more_instruction_for_each_multiply_add(weights: str, target: str) -> None:
    found = innermost(target, weights)
    count = multiply_adds(found)
    assert count >= 8
    assert [found[name] for name in UNPACKED[weights]] == [count] * len(UNPACKED[weights])
    others = sum(found.values()) - count * (1 + len(UNPACKED[weights]))
    assert others <= count, found  # numbers of the vector, addresses, the loop itself


@pytest.mark.parametrize("weights", UNPACKED)
def test_rows_share_what_was_unpacked(weights: str) -> None:
    found = innermost("znver4", weights, rows=4)
    assert multiply_adds(found) == 4 * found[UNPACKED[weights][0]]


def test_f32_weights_are_operands_of_the_multiply_adds() -> None:
    found = innermost("znver4", None)
    assert not any(name in found for names in UNPACKED.values() for name in names)
