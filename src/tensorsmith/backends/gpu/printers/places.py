"""Where elements are, in LLVM's text: pointers that several elements share, each at a constant distance."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tensorsmith.backends.cpu.codegen.irtext import Value, storage_type
from tensorsmith.backends.gpu.launch import ARGUMENT_ALIGNMENT
from tensorsmith.backends.gpu.printers.names import array_name, entry
from tensorsmith.backends.gpu.printers.numbers import Numbers
from tensorsmith.backends.gpu.simt.ir import GLOBAL, SHARED, Array, Kernel
from tensorsmith.lang.affine import Affine, affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Const, Expr, Var

_SPACES = {GLOBAL: 1, SHARED: 3}


def array_type(a: Array) -> str:
    """The type of all elements of an array."""
    return f"[{max(1, a.elements)} x {storage_type(a.dtype)}]"


def pointers(kernel: Kernel) -> dict[str, str]:
    """What the first element of each array is called."""
    return {
        a.name: f"@{entry(kernel.name)}.{array_name(a.name)}" if a.scope == SHARED else f"%{array_name(a.name)}"
        for a in kernel.arrays
    }


class Places:
    """Of one kernel; `private_space` is the address space of a thread's own memory."""

    def __init__(self, names: Mapping[str, str], numbers: Numbers, private_space: int) -> None:
        self.names, self.numbers, self.private_space = names, numbers, private_space
        self.forms: dict[Expr, Affine | None] = {}  # of indices

    def place(self, array: Array, index: Expr) -> str:
        """`ptr addrspace(3) %x`: where an element is."""
        return self.aligned(array, index)[0]

    def aligned(self, array: Array, index: Expr) -> tuple[str, int]:
        """The same, and bytes at whose multiple it is. Neighbours are at constant distances from one pointer, so that LLVM sees
        them as such and loads several at once."""
        base, distance, multiple = self._split(index)
        number = self.numbers.count(base)
        space = _SPACES.get(array.scope, self.private_space)
        pointer, kind = f"ptr addrspace({space})" if space else "ptr", storage_type(array.dtype)
        if isinstance(number, int):
            number, distance = 0, distance + number
        at = self.names[array.name]
        for step in (number, distance):
            if isinstance(step, Value) or step:
                text = str(step) if isinstance(step, int) else step.text
                at = self.numbers.once(
                    ("place", kind, at, text), f"getelementptr inbounds {kind}, {pointer} {at}, i32 {text}", "ptr"
                ).text
        size = dtype(array.dtype).bytes
        return f"{pointer} {at}", math.gcd(ARGUMENT_ALIGNMENT, size * math.gcd(multiple, distance))

    def _split(self, index: Expr) -> tuple[Expr, int, int]:
        """An index as what is left of it when loops that are laid out are where they are, a constant behind that, and a number that
        what is left is a multiple of."""
        if index not in self.forms:
            form = affine(index) if self.numbers.counts(index) else None
            upwards = form is not None and form.offset >= 0 and all(c >= 0 for c in form.terms.values())
            self.forms[index] = form if upwards else None  # else what is left might lie outside of the array
        form = self.forms[index]
        if form is None:
            return index, 0, 1
        left: Expr | None = None
        distance, multiple = int(form.offset), 0
        for name, coefficient in sorted(form.terms.items()):
            value = self.numbers.variables[name]
            if isinstance(value, int):
                distance += coefficient * value
                continue
            multiple = math.gcd(multiple, coefficient)
            term: Expr = Var(name) if coefficient == 1 else Binary("mul", Var(name), Const(coefficient, "i64"))
            left = term if left is None else Binary("add", left, term)
        return Const(0, "i64") if left is None else left, distance, multiple
