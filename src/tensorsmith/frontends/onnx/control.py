"""If: a branch that is known to be taken is built alone; else both are, and their results chosen from."""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.table import OnnxNode, Subgraph, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value


@onnx_operator("If")
def if_(node: OnnxNode, b: Builder) -> list[Value]:
    """Nothing in a branch has side effects, so computing both is right; their results must agree in shape and type then."""
    condition = node.required(0)
    if condition.elements != 1 or condition.dtype != "bool":
        raise UserError(f"{node}: the condition is {condition}; it must be one bool")
    branches = {taken: node.needed("then_branch" if taken else "else_branch") for taken in (True, False)}
    if not all(isinstance(branch, Subgraph) for branch in branches.values()):
        raise UserError(f"{node}: the branches must be graphs")
    known = b.known(condition)
    if known is not None:
        return list(branches[bool(known.reshape(()))].build())
    then, otherwise = branches[True].build(), branches[False].build()
    if [(v.shape, v.dtype) for v in then] != [(v.shape, v.dtype) for v in otherwise]:
        left, right = ", ".join(map(str, then)), ", ".join(map(str, otherwise))
        node.known(condition, f"the condition of branches with different results, {left} and {right},")
    flag = b.add("reshape", [condition], shape=())
    return [b.add("where", [flag, x, y]) for x, y in zip(then, otherwise)]
