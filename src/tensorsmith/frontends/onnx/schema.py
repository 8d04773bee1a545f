"""What ONNX itself says of its operators."""

from __future__ import annotations

import functools
from typing import Any

import onnx
from onnx import AttributeProto


@functools.cache
def find_schema(domain: str, kind: str, version: int) -> Any:
    """The `OpSchema` of an operator at a version of its operator set; None where ONNX does not know it."""
    try:
        return onnx.defs.get_schema(kind, version, domain)
    except onnx.defs.SchemaError:
        return None


@functools.cache
def newest_schema(domain: str, kind: str) -> Any:
    """The newest `OpSchema` of an operator: some files use one that is newer than the operator set they name."""
    try:
        return onnx.defs.get_schema(kind, domain)
    except onnx.defs.SchemaError:
        return None


def default(attribute: Any) -> Any:
    """The default of an attribute of a schema, as a file would give it; None where there is none."""
    given = attribute.default_value
    if given.type == AttributeProto.UNDEFINED:
        return None
    value = onnx.helper.get_attribute_value(given)
    return value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value
