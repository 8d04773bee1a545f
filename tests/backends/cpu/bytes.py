"""Sums of products of bytes, as definitions with their NumPy answers, and kernels of other machines that run here by meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import tensorsmith as ts
from tensorsmith.backends.cpu import backend
from tensorsmith.backends.cpu.codegen.generate import Generated, generate
from tensorsmith.backends.cpu.instructions import by_meaning
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.build import build
from tensorsmith.lang.define import workload
from tensorsmith.lang.small import kept_if_small
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import conv, quantised
from tensorsmith.ops.common import sum_of_products
from tensorsmith.program.ir import Program
from tensorsmith.runtime.executable import Executable
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

KINDS = {"i8": np.int8, "u8": np.uint8, "i16": np.int16}
PAIRS = [(a, b) for a in ("i8", "u8") for b in ("i8", "u8")]


def drawn(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Any bytes, or i16, those at both ends of their type often."""
    limits = np.iinfo(KINDS[kind])
    found = rng.integers(limits.min, limits.max + 1, shape)
    found = np.where(rng.random(shape) < 0.2, limits.min, found)
    return np.where(rng.random(shape) < 0.2, limits.max, found).astype(KINDS[kind])


def wrapped(sums: np.ndarray) -> np.ndarray:
    return sums.astype(np.int64).astype(np.int32)  # what does not fit loses its upper bits, as in the language


@dataclass(frozen=True)
class Case:
    """A workload, its inputs, and what NumPy makes of them."""

    workload: Workload
    arrays: dict[str, np.ndarray]
    wanted: np.ndarray


def matmul(
    rows: int,
    depth: int,
    columns: int,
    a: str,
    b: str,
    seed: int = 0,
    constant: bool = True,
    bytes_out: bool = False,
    small_weight: bool = False,
) -> Case:
    """A[i, k] * B[k, j] in i32; with `bytes_out` plus a bias, scaled, and rounded to bytes again. With a `small_weight` B is said
    to be small; what is not counts as zero."""
    rng = np.random.default_rng((seed, rows, depth, columns))
    left, right = ts.placeholder((rows, depth), a, name="A"), ts.placeholder((depth, columns), b, name="B", constant=constant)
    k = ts.reduce_axis(depth, "k")
    product = ts.compute((rows, columns), lambda i, j: sum_of_products(left[i, k], right[k, j], k, "i32", small_weight), name="C")
    arrays = {"A": drawn(a, (rows, depth), rng), "B": drawn(b, (depth, columns), rng)}
    factor = kept_if_small(arrays["B"]) if small_weight else arrays["B"]
    sums = wrapped(arrays["A"].astype(np.int64) @ factor.astype(np.int64))
    if not bytes_out:
        return Case(workload([left, right, product]), arrays, sums)
    scale = ts.placeholder((columns,), "f32", name="scale", constant=True)
    given = np.abs(rng.standard_normal(columns)).astype(np.float32) * np.float32(0.01)
    wanted = np.clip(np.rint(sums.astype(np.float32) * given), -128, 127).astype(np.int8)
    out = quantised.requantize(product, scale, dtype="i8", name="D")
    return Case(workload([left, right, scale, out]), arrays | {"scale": given}, wanted)


def words(rows: int, depth: int, columns: int) -> Workload:
    """A[i, k] * B[k, j] of i16 in i32."""
    left, right = ts.placeholder((rows, depth), "i16", name="A"), ts.placeholder((depth, columns), "i16", name="B", constant=True)
    k = ts.reduce_axis(depth, "k")
    product = ts.compute(
        (rows, columns), lambda i, j: ts.sum(ts.cast("i32", left[i, k]) * ts.cast("i32", right[k, j]), axis=k), name="C"
    )
    return workload([left, right, product])


def convolution(
    size: int,
    channels: int,
    outputs: int,
    kernel: int,
    a: str,
    b: str,
    seed: int = 0,
    stride: int = 1,
    fill: int = 0,
    small_weight: bool = False,
) -> Case:
    """A padded convolution, channels-last."""
    rng = np.random.default_rng((seed, size, channels, outputs, kernel))
    x = ts.placeholder((1, size, size, channels), a, name="X")
    w = ts.placeholder((kernel, kernel, channels, outputs), b, name="W", constant=True)
    pad = kernel // 2
    out = conv.conv(x, w, stride, pad, 1, 1, "C", fill, "i32", small_weight)
    arrays = {"X": drawn(a, x.shape, rng), "W": drawn(b, w.shape, rng)}
    padded = np.full((size + 2 * pad, size + 2 * pad, channels), fill, np.int64)
    padded[pad : pad + size, pad : pad + size] = arrays["X"][0]
    places = out.shape[1]
    sums = np.zeros((places, places, outputs), np.int64)
    for y in range(kernel):
        for z in range(kernel):
            seen = padded[y : y + stride * (places - 1) + 1 : stride, z : z + stride * (places - 1) + 1 : stride]
            factor = kept_if_small(arrays["W"]) if small_weight else arrays["W"]
            sums += seen @ factor[y, z].astype(np.int64)
    return Case(workload([x, w, out]), arrays, wrapped(sums)[None])


def built_by_meaning(candidate: Candidate, machine: CpuTarget, patch: pytest.MonkeyPatch) -> Executable:
    """A kernel for another machine, its special instructions replaced by what they mean, compiled for this one."""

    def there(program: Program, _: CpuTarget) -> Generated:
        made = generate(program, machine)
        return replace(made, ir=by_meaning(made.ir))

    patch.setattr(backend, "generate_ir", there)
    found = build(candidate, native())
    patch.undo()
    return found
