"""Kernels in C: OpenCL C, CUDA C and their like, by the table of `dialects`."""

from __future__ import annotations

from collections.abc import Sequence

from tensorsmith.backends.gpu.printers.dialects import Dialect
from tensorsmith.backends.gpu.printers.expressions import HELPERS, Expressions
from tensorsmith.backends.gpu.printers.names import array_name, entry, variable_name
from tensorsmith.backends.gpu.simt.ir import (
    BLOCK,
    PRIVATE,
    SHARED,
    THREAD,
    Array,
    Barrier,
    For,
    If,
    Kernel,
    Let,
    Meet,
    Move,
    Multiply,
    Statement,
    Store,
    Wait,
)  # fmt: skip
from tensorsmith.errors import UserError
from tensorsmith.lang.affine import affine
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Const, Expr, Load, Var, shared


def source(kernels: Sequence[Kernel], dialect: Dialect) -> str:
    """The text of kernels, with what they need in front of them."""
    helpers: set[tuple[str, str]] = set()
    used = {a.dtype for k in kernels for a in k.arrays}
    for kind in sorted(used - dialect.types.keys()):
        raise UserError(f"{kernels[0].name} computes in {kind}, which {dialect.name!r} does not have")
    texts = [_Kernel(k, dialect, helpers).text() for k in kernels]
    head = [line for kind, line in dialect.extensions.items() if kind in used]
    for helper, kind in sorted(helpers):
        suffix = dialect.suffix if kind == "f32" else ""
        text = HELPERS[helper].format(t=dialect.types[kind], k=kind, f=suffix)
        head.append(f"{dialect.helper} {text}")
    return dialect.head + "\n".join([*head, "", *texts]) + "\n"


def no_matrix(kernel: Kernel, text: str) -> UserError:
    """Said where a text is asked for that has no word for matrix instructions."""
    return UserError(f"{kernel.name} is computed by matrix instructions of NVIDIA's GPUs: there is no such kernel in {text!r}")


class _Kernel:
    def __init__(self, kernel: Kernel, dialect: Dialect, helpers: set[tuple[str, str]]) -> None:
        self.kernel, self.dialect = kernel, dialect
        self.arrays = {a.name: a for a in kernel.arrays}
        self.expressions = Expressions(dialect, self.arrays, kernel.counts)
        self.expressions.helpers = helpers
        self.names = 0

    def text(self) -> str:
        d = self.dialect
        parameters = ", ".join(self._fill(d.parameter, a, n) for n, a in enumerate(self.kernel.arguments)) + d.numbers
        lines = [d.kernel.format(name=entry(self.kernel.name), threads=self.kernel.block, parameters=parameters), "{"]
        if d.pointer:
            lines += [f"  {self._fill(d.pointer, a)}" for a in self.kernel.arguments]
        for a in self.kernel.arrays:
            if a.scope == SHARED:
                lines.append("  " + d.shared.format(type=d.types[a.dtype], name=array_name(a.name), elements=max(1, a.elements)))
            elif a.scope == PRIVATE:
                lines.append(f"  {self.expressions.type(a.dtype)} {array_name(a.name)}[{max(1, a.elements)}];")
        lines += [
            f"  const int {variable_name(BLOCK.name)} = {d.block};",
            f"  const int {variable_name(THREAD.name)} = {d.thread};",
        ]
        return "\n".join([*lines, *self._body(self.kernel.body, 1), "}"])

    def _fill(self, template: str, a: Array, number: int = 0) -> str:
        const = "" if a.written else "const "
        return template.format(const=const, type=self.dialect.types[a.dtype], name=array_name(a.name), number=number)

    def _body(self, body: Sequence[Statement], indent: int) -> list[str]:
        pad, lines = "  " * indent, []
        for s in body:
            if isinstance(s, Let):
                lines.append(f"{pad}const int {variable_name(s.name)} = {self.expressions.index(s.value)};")
            elif isinstance(s, For):
                lines += self._for(s, indent)
            elif isinstance(s, If):
                lines += [f"{pad}if ({self.expressions.value(s.condition)}) {{", *self._body(s.body, indent + 1), f"{pad}}}"]
            elif isinstance(s, Barrier):
                lines.append(f"{pad}{self.dialect.barrier}")
            elif isinstance(s, Move):
                lines.append(pad + self._move(s))
            elif isinstance(s, (Wait, Meet)):
                word = self.dialect.wait if isinstance(s, Wait) else self.dialect.meet
                lines += [pad + word] if word else []
            elif isinstance(s, Multiply):
                lines.append(pad + self._multiply(s))
            else:
                lines += [pad + line for line in self._store(s)]
        return lines

    def _for(self, s: For, indent: int) -> list[str]:
        pad, name = "  " * indent, variable_name(s.name)
        lines = [f"{pad}#pragma unroll {min(s.in_a_row, s.count) if s.in_a_row > 1 else 1}"]
        head = f"{pad}for (int {name} = 0; {name} < {s.count}; ++{name}) {{"
        return [*lines, head, *self._body(s.body, indent + 1), f"{pad}}}"]

    def _move(self, s: Move) -> str:
        to, source = self.arrays[s.array], self.arrays[s.source]
        size = s.width * dtype(to.dtype).bytes
        template = self.dialect.move_apart if s.apart and self.dialect.move_apart else self.dialect.move
        if s.width == 1 and template == self.dialect.move:
            return " ".join(self._store(Store(s.array, s.index, Load(s.source, (s.start,), source.dtype))))
        return template.format(
            to=array_name(to.name),
            from_=array_name(source.name),
            index=self.expressions.index(s.index),
            start=self.expressions.index(s.start),
            width=s.width,
            bytes=size,
            vector=self.dialect.vectors.get(size, ""),
            to_space=self.dialect.spaces.get(to.scope, ""),
            from_space=self.dialect.spaces.get(source.scope, ""),
        )

    def _multiply(self, s: Multiply) -> str:
        if not self.dialect.multiply:
            raise no_matrix(self.kernel, self.dialect.name)
        sums = ", ".join(f'"+f"({array_name(s.array)}[{self.expressions.index(e)}])' for e in s.sums)
        left, right = (", ".join(f'"r"({self._pair(*x[n : n + 2])})' for n in range(0, len(x), 2)) for x in (s.left, s.right))
        return self.dialect.multiply.format(sums=sums, left=left, right=right)

    def _pair(self, first: Load, second: Load) -> str:
        """Two f16 in one register; with one load where the first is at an even place and the other behind it."""
        neighbours, any_ = self.dialect.pair
        places = [affine(x.indices[0]) for x in (first, second)]
        indices = [self.expressions.index(x.indices[0]) for x in (first, second)]
        name = array_name(first.tensor)
        one, two = places
        if one is not None and two is not None and one.terms == two.terms and two.offset == one.offset + 1:
            if one.offset % 2 == 0 and all(c % 2 == 0 for c in one.terms.values()):
                return neighbours.format(pointer=name, index=indices[0])
        return any_.format(first=f"{name}[{indices[0]}]", second=f"{name}[{indices[1]}]")

    def _store(self, s: Store) -> list[str]:
        """A statement; values that it uses more than once are computed first, each once."""
        expressions = self.expressions
        again = [e for e in shared(s.value) if not _is_cheap(e) and not expressions.counts(e)]
        lines = []
        for e in again:
            text = expressions.value(e)
            self.names += 1
            expressions.named[e] = f"t{self.names}"
            kind = "int" if e.dtype == "bool" else expressions.type(e.dtype)
            lines.append(f"const {kind} t{self.names} = {text};")
        lines.append(expressions.store(self.arrays[s.array], expressions.index(s.index), expressions.value(s.value)))
        for e in again:
            del expressions.named[e]
        return ["{ " + " ".join(lines) + " }"] if again else lines


def _is_cheap(e: Expr) -> bool:
    return isinstance(e, (Const, Var))
