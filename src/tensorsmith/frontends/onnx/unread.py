"""What a file says and a handler does not read is refused: ignoring it would give wrong numbers without a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.schema import default, find_schema, newest_schema
from tensorsmith.frontends.onnx.table import OnnxNode

_TRAINING = "only training uses it"
_EIGHT_BIT_FLOATS = "it is about results in 8-bit floats, which are refused themselves"
_AGE = "files of that age that leave it out, or give 0, mean inference too"
_OUTPUTS = "the outputs that the node lists say it as well"

#: attributes that change no result of ours, of one operator or of any ("*"), with the reason
MEANINGLESS: dict[tuple[str, str], str] = {
    ("*", "consumed_inputs"): "a hint for the allocation of memory",
    ("BatchNormalization", "momentum"): _TRAINING,
    ("BatchNormalization", "is_test"): _AGE,
    ("Dropout", "is_test"): _AGE,
    ("Dropout", "ratio"): _TRAINING,
    ("Dropout", "seed"): _TRAINING,
    ("RNN", "output_sequence"): _OUTPUTS,
    ("GRU", "output_sequence"): _OUTPUTS,
    ("LSTM", "output_sequence"): _OUTPUTS,
    ("TopK", "sorted"): "0 allows any order, so the sorted one too",
    ("Cast", "saturate"): _EIGHT_BIT_FLOATS,
    ("Cast", "round_mode"): _EIGHT_BIT_FLOATS,
    ("CastLike", "saturate"): _EIGHT_BIT_FLOATS,
    ("CastLike", "round_mode"): _EIGHT_BIT_FLOATS,
    ("QuantizeLinear", "saturate"): _EIGHT_BIT_FLOATS,
}


def refuse_unread(node: OnnxNode, domain: str) -> None:
    """Raises a `UserError` where the node's handler has left something that the file gives unread."""
    attributes, inputs = node.unread()
    schema = find_schema(domain, node.kind, node.version) or newest_schema(domain, node.kind)
    known = {} if schema is None else schema.attributes
    for name, value in attributes.items():
        if _meaningless(node.kind, name) or (name in known and _same(value, default(known[name]))):
            continue
        if schema is not None and name not in known:
            raise UserError(
                f"{node}: {node.kind} of version {node.version} has no attribute {name!r}; the file gives {_text(value)}"
            )
        raise UserError(f"{node}: the attribute {name!r} is not supported with the value {_text(value)}")
    if inputs:
        raise UserError(f"{node}: input {inputs[0]} is not supported")


def _meaningless(kind: str, name: str) -> bool:
    return (kind, name) in MEANINGLESS or ("*", name) in MEANINGLESS


def _same(value: Any, usual: Any) -> bool:
    if isinstance(value, float) and isinstance(usual, float):  # the file has 32 bits
        return bool(np.float32(value) == np.float32(usual))
    return type(value) is type(usual) and bool(value == usual)


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
