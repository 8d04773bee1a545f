"""Loop programs as readable text."""

from __future__ import annotations

from tensorsmith.lang.text import show as show_expr
from tensorsmith.program.ir import Block, Loop, LoopVar, Node, Program


def show(program: Program) -> str:
    """The program as nested loops, one line each."""
    lines = []
    for b in program.buffers.values():
        shape = ", ".join(map(str, b.packed.shape if b.packed else b.shape))
        order = f" in the order of {' '.join(v.name for v in b.packed.loops)}" if b.packed else ""
        lines.append(f"{b.kind} {b.name}: {b.dtype}[{shape}]{order}")
    for node in program.body:
        lines.extend(_node(node, 0))
    return "\n".join(lines)


def _node(node: Node, indent: int) -> list[str]:
    pad = "  " * indent
    if isinstance(node, Loop):
        kind = node.var.bound or ("parallel" if node.parallel else "unroll" if node.unrolled else "for")
        lines = [f"{pad}{kind} {_loop(node.var)}:"]
        for inner in node.body:
            lines.extend(_node(inner, indent + 1))
        return lines
    return _block(node, indent)


def _block(block: Block, indent: int) -> list[str]:
    pad = "  " * indent
    lines: list[str] = []
    for inner in block.before:
        lines.extend(_node(inner, indent))
    loops = [f"{'vector' if v.name == block.vector else 'unroll'} {_loop(v)}" for v in block.tile]
    reductions = [f"{_reduction(block, v)} {_loop(v)}" for v in block.reduce]
    if reductions and not _is_one(block.unroll):
        reductions[-1 if block.group is None or len(reductions) == 1 else -2] += f" by {block.unroll}"
    head = ", ".join(reductions + loops)
    axes = ", ".join(f"{a.name}={block.axes[a.name].value}" for a in block.stage.axes)
    if head:
        lines.append(f"{pad}tile {head}:")
        pad += "  "
    body = show_expr(block.stage.body)
    sign = {None: "=", "sum": "+=", "prod": "*=", "max": "max=", "min": "min="}[block.stage.reduction]
    lines.append(f"{pad}{block.stage.name}[{axes}] {sign} {body}")
    return lines


def _reduction(block: Block, var: LoopVar) -> str:
    """What is done to a reduction loop of a tile."""
    if var.name in (block.vector, block.group):
        return "vector" if var.name == block.vector else "group"
    return "unroll" if var.name in block.laid_out else var.bound or "reduce"


def _loop(var: LoopVar) -> str:
    return f"{var.name} < {var.count}"


def _is_one(value: object) -> bool:
    return isinstance(value, int) and value == 1
