"""Prefetching: while a tile works on one panel of a packed operand, it fetches the next panel into the second cache.

    for j: for i: tile reduce k        w packed in the order of j k

A *panel* is what the reduction loops of one tile read of a packed operand: one piece of memory, and behind it lies the next panel.
The loops right around the tile that do not move the operand (`i` here) pass over the same panel again and again. Only the first
pass finds it far away, but then waits for nearly every line: the tile consumes what it reads faster than memory, or the last-level
cache, can give it. So every pass fetches its share of the next panel, evenly over its steps. All at once, at the start of a pass,
gained nothing when it was tried: the tile's own loads then queue behind the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tensorsmith.backends.cpu.codegen.addresses import Storage
from tensorsmith.backends.cpu.codegen.body import BodyEmitter
from tensorsmith.backends.cpu.codegen.irtext import Value
from tensorsmith.backends.cpu.codegen.points import LoopValues
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.lang.dtypes import dtype
from tensorsmith.program.ir import Block, LoopVar, ProgramBuffer
from tensorsmith.program.linear import Linear

_LEAST_PANEL = 2048  # bytes; shorter ones are fetched by the hardware
_SHARE_OF_CACHE = 0.75  # of the second cache, that a panel may take: a larger one would displace the panel in use
_DECLARATION = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
_READ, _DATA = 0, 1  # arguments of the intrinsic, and one more: how near
FIRST_CACHE, SECOND_CACHE = 3, 2


_STREAM_AHEAD = 8192  # bytes; measured on a Zen 5 core: 2048 gained a third as much, 16384 and 32768 no more
_PASSES_OF_A_STREAM = 2  # over an operand, up to which it comes from memory most of the time


@dataclass(frozen=True)
class Fetching:
    """How the next panel of an operand is fetched by the steps of a tile."""

    tensor: str
    panel: Linear  # where the current panel starts, in elements
    next_bytes: int  # from there to the next one
    place: Linear  # what a step of a pass fetches, in bytes from the start of a panel
    bytes_per_step: int

    def every(self, line_bytes: int) -> int:
        """Steps from one line to the next."""
        return max(1, line_bytes // self.bytes_per_step)


def fetching(
    block: Block,
    buffers: Mapping[str, ProgramBuffer],
    storage: Mapping[str, Storage],
    loops: Mapping[str, LoopVar],
    around: LoopValues,
    target: CpuTarget,
) -> list[Fetching]:
    """What the tile of a block should fetch; `around` are the loops around it, outermost first, all of them in `loops`."""
    if block.vector is not None and block.loop(block.vector).reduce:
        return []
    own = {v.name for v in block.tile + block.reduce}
    found = []
    for name in dict.fromkeys(x.tensor for x in block.stage.reads):
        packed, size = buffers[name].packed, dtype(buffers[name].dtype).bytes
        if packed is None:
            continue
        counts = [int(v.count) for v in packed.loops]
        outside = [v for v in packed.loops if v.name not in own]
        inside = packed.loops[len(outside) :]
        if any(v.name not in own for v in inside) or not any(v.reduce for v in inside):
            continue
        panel = math.prod(counts[len(outside) :])
        passes = _passes(around, {v.name for v in packed.loops} | own, loops)
        times = math.prod(int(v.count) for v in passes)
        fits = _LEAST_PANEL <= panel * size <= _SHARE_OF_CACHE * target.l2_bytes
        if times < 2 or math.prod(counts[: len(outside)]) < 2 or not fits:
            continue
        steps = [v for v in block.reduce if v.name not in (block.vector, block.group)]
        share = -(-panel * size // times)
        least = -(-share // max(1, math.prod(int(v.count) for v in steps)))
        per_step = 1 << (least - 1).bit_length()  # a power of two: the address costs a shift, or nothing
        place = _numbering(passes).scaled(share) + _numbering(steps).scaled(per_step)
        distances = storage[name].strides
        start = Linear({v.name: distance for v, distance in zip(outside, distances)})
        found.append(Fetching(name, start, distances[len(outside) - 1] * size, place, per_step))
    return found


def streamed(
    block: Block, buffers: Mapping[str, ProgramBuffer], loops: Mapping[str, LoopVar], around: LoopValues
) -> frozenset[str]:
    """Packed operands that a part of a sum reads in one stream: inside of reduction loops around its tile, in few passes.

    A tile with many sums in flight is so long that the machine does not see far ahead by itself.
    """
    found = set()
    for name in dict.fromkeys(x.tensor for x in block.stage.reads):
        packed = buffers[name].packed
        if packed is None or not any(v.reduce and v.stage != block.stage.name for v in packed.loops):
            continue
        moving = {v.name for v in packed.loops}
        others = [loops[n] for n in around if n not in moving and loops[n].stage != block.stage.name and not loops[n].reduce]
        if math.prod(int(v.count) for v in others) <= _PASSES_OF_A_STREAM:
            found.add(name)
    return frozenset(found)


def fetch_ahead(body: BodyEmitter, pointer: Value) -> None:
    """Has what comes later in a stream brought near."""
    fetch(body, body.f.op(f"getelementptr i8, {pointer}, i64 {_STREAM_AHEAD}", "ptr"), FIRST_CACHE)


def emit(body: BodyEmitter, what: Fetching, env: LoopValues) -> None:
    """Fetches the line of the next panel that belongs to a reduction step."""
    f = body.f
    running, constant, _ = body.linear(what.panel, env, None)
    pointer = body.pointer(what.tensor, running, constant)
    running, constant, _ = body.linear(what.place, env, None)
    if running is not None:
        pointer = body.moved(pointer, "i8", running)
    pointer = f.op(f"getelementptr i8, {pointer}, i64 {constant + what.next_bytes}", "ptr")
    fetch(body, pointer, SECOND_CACHE)


def fetch(body: BodyEmitter, pointer: Value, near: int) -> None:
    """Has the line at an address brought to that cache."""
    body.arith.declarations.add(_DECLARATION)
    body.f.line(f"call void @llvm.prefetch.p0({pointer}, i32 {_READ}, i32 {near}, i32 {_DATA})")


def _passes(around: LoopValues, moving: set[str], loops: Mapping[str, LoopVar]) -> list[LoopVar]:
    """The innermost of the loops around a tile, as far as none of them moves the operand.

    A reduction loop that is laid out is none: its steps use different bits of the same bytes, which come once.
    """
    found: list[LoopVar] = []
    for name in reversed(list(around)):
        if name in moving:
            break
        if not (loops[name].reduce and isinstance(around[name], int)):
            found.insert(0, loops[name])
    return found


def _numbering(loops: list[LoopVar]) -> Linear:
    """The number of a step of nested loops, counted through all of them."""
    total, distance = Linear(), 1
    for var in reversed(loops):
        total = total + Linear({var.name: distance})
        distance *= int(var.count)
    return total
