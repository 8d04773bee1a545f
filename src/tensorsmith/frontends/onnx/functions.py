"""Operators that are defined by others: functions of the model, and those of ONNX's own operators that it defines by a body."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto

from tensorsmith.elements import TABLE
from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.schema import find_schema
from tensorsmith.frontends.onnx.table import STANDARD_DOMAINS


def has_body(node: NodeProto, version: int) -> bool:
    """Whether ONNX defines the operator by others."""
    schema = find_schema(_domain(node), node.op_type, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def body(node: NodeProto, version: int, inputs: Sequence[tuple[str, tuple[int, ...]] | None]) -> FunctionProto:
    """ONNX's definition of an operator; it may depend on the types of the inputs."""
    schema = find_schema(_domain(node), node.op_type, version)
    assert schema is not None
    check_attributes(node, schema.attributes)
    if schema.has_function:
        function = FunctionProto()
        function.CopyFrom(schema.function_body)
    else:
        types = [_type(v).SerializeToString() for v in inputs]
        text = schema.get_context_dependent_function(node.SerializeToString(), types)
        function = FunctionProto.FromString(text)
    if not function.node:
        raise UserError(f"{node.op_type} {node.name}: ONNX gives no definition for these inputs and attributes")
    if not function.opset_import:
        function.opset_import.add(domain="", version=version)
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type != AttributeProto.UNDEFINED and all(a.name != name for a in function.attribute_proto):
            function.attribute_proto.add().CopyFrom(attribute.default_value)
    return function


def check_attributes(node: NodeProto, known: Collection[str]) -> None:
    """Raises a `UserError` where a call of a function gives an attribute that the function does not have."""
    for attribute in node.attribute:
        if attribute.name not in known:
            raise UserError(f"{node.op_type} {node.name}: {node.op_type} has no attribute {attribute.name!r}")


def _domain(node: NodeProto) -> str:
    return "" if node.domain in STANDARD_DOMAINS else node.domain


def _type(value: tuple[str, tuple[int, ...]] | None) -> TypeProto:
    if value is None:
        return TypeProto()
    name, shape = value
    return onnx.helper.make_tensor_type_proto(getattr(onnx.TensorProto, TABLE[name].onnx), shape)


def bound(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """The node with references to attributes of the function's call replaced by those; what the call leaves out is left out."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    new = NodeProto()
    new.CopyFrom(node)
    del new.attribute[:]
    for a in node.attribute:
        source = attributes.get(a.ref_attr_name) if a.ref_attr_name else a
        if source is not None:
            added = new.attribute.add()
            added.CopyFrom(source)
            added.name = a.name
    return new


def without_inputs(node: NodeProto, left_out: set[str]) -> NodeProto:
    """The node of a function with the inputs that the call leaves out left out too."""
    if not left_out & set(node.input):
        return node
    new = NodeProto()
    new.CopyFrom(node)
    new.input[:] = ["" if name in left_out else name for name in node.input]
    return new
