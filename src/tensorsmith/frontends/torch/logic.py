"""ATen's comparisons, logic and bits."""

from __future__ import annotations

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import as_type
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value

#: operator of ours, whether the arguments change places, whether the result is turned over
_COMPARISONS = {
    "eq": ("equal", False, False), "ne": ("equal", False, True), "lt": ("less", False, False), "gt": ("less", True, False),
    "le": ("less_equal", False, False), "ge": ("less_equal", True, False),
}  # fmt: skip
_LOGIC = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
_BITS = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}  # of bools


def _comparison(name: str, operator: str, swapped: bool, turned: bool) -> None:
    @aten_operator(f"{name}.Tensor", f"{name}.Scalar")
    def handler(node: AtenNode, b: Builder) -> Value:
        dtype = node.common_type("self", "other")
        if dtype == "bool" and operator != "equal":
            dtype = "u8"
        left, right = node.operand("self", dtype), node.operand("other", dtype)
        found = b.add(operator, [right, left] if swapped else [left, right])
        return b.add("logical_not", [found]) if turned else found


def _logic(name: str, operator: str) -> None:
    @aten_operator(name)
    def handler(node: AtenNode, b: Builder) -> Value:
        return b.add(operator, [as_type(b, node.value(side), "bool") for side in ("self", "other")])


def _bits(name: str, of_bools: str) -> None:
    @aten_operator(f"{name}.Tensor", f"{name}.Scalar")
    def handler(node: AtenNode, b: Builder) -> Value:
        dtype = node.result[1]
        sides = [node.operand(side, dtype) for side in ("self", "other")]
        return b.add(of_bools if dtype == "bool" else name, sides)


for _name, (_operator, _swapped, _turned) in _COMPARISONS.items():
    _comparison(_name, _operator, _swapped, _turned)
for _name, _operator in _LOGIC.items():
    _logic(_name, _operator)
for _name, _operator in _BITS.items():
    _bits(_name, _operator)


@aten_operator("logical_not")
def logical_not(node: AtenNode, b: Builder) -> Value:
    return b.add("logical_not", [as_type(b, node.value("self"), "bool")])


@aten_operator("bitwise_not")
def bitwise_not(node: AtenNode, b: Builder) -> Value:
    x = node.value("self")
    return b.add("logical_not" if x.dtype == "bool" else "bitwise_not", [x])


def _shift(name: str, left: bool) -> None:
    @aten_operator(f"{name}.Tensor", f"{name}.Tensor_Scalar")
    def handler(node: AtenNode, b: Builder) -> Value:
        dtype = node.result[1]
        if dtype == "bool":
            raise UserError(f"{node}: bools cannot be shifted")
        return b.add("shift", [node.operand("self", dtype), node.operand("other", dtype)], left=left)


_shift("bitwise_left_shift", True)
_shift("bitwise_right_shift", False)
