"""Where in a buffer a block's loads and its store go: a linear form of loop variables for each dimension of the buffer.

An attached buffer holds a region only: positions count from where that starts. One laid out in loop order has a dimension for
each loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorsmith.lang.affine import Affine, affine
from tensorsmith.lang.expr import Load
from tensorsmith.lang.flat import flat_offset
from tensorsmith.program.ir import AxisBinding, Block, ProgramBuffer
from tensorsmith.program.linear import Linear, Num


def over_loops(form: Affine, axes: Mapping[str, AxisBinding]) -> Linear:
    """An affine form of a stage's axes as a linear form of loop variables."""
    total = Linear({}, form.offset)
    for name, coefficient in form.terms.items():
        total = total + axes[name].value.scaled(coefficient)
    return total


def stored_at(block: Block, buffer: ProgramBuffer) -> list[Linear]:
    """Where a block stores its results."""
    if buffer.packed is not None:
        return [Linear({name: 1}) for name in buffer.packed.writers]
    return [block.axes[a.name].value - start for a, start in zip(block.stage.axes, buffer.origin)]


def read_at(load: Load, block: Block, buffer: ProgramBuffer) -> list[Linear | None]:
    """Where a load reads; None for a dimension in which that is not linear."""
    if buffer.packed is not None:
        return [Linear({v.name: 1}) for v in buffer.packed.loops]
    forms = [affine(index) for index in load.indices]
    return [None if f is None else over_loops(f, block.axes) - start for f, start in zip(forms, buffer.origin)]


def reshaped_at(load: Load, block: Block, shape: tuple[int, ...]) -> Linear | None:
    """Where a read through a reshape (quotients and remainders of one number) goes in a whole dense tensor of that shape, counted
    in elements; None where that is not linear, or may lie outside, so that each index has to be seen to."""
    flat = flat_offset(load.indices, shape)
    if flat is None or not is_inside(load, block, shape):
        return None
    return over_loops(Affine({n: c for n, c in flat.items() if n}, flat[""]), block.axes)


def is_inside(load: Load, block: Block, shape: tuple[int, ...]) -> bool:
    """Whether a load reads an element of the tensor at every point of its block, whatever the conditions around it."""
    bounds = block.stage.bounds()
    ranges = [bounds.range(index) for index in load.indices]
    return all(r is not None and r[0] >= 0 and r[1] < extent for r, extent in zip(ranges, shape))


def in_elements(forms: Iterable[Linear], strides: Iterable[Num]) -> Linear:
    """Positions along each dimension as one, counted in elements from the start of the buffer."""
    total = Linear()
    for form, stride in zip(forms, strides):
        total = total + form.scaled(stride)
    return total
