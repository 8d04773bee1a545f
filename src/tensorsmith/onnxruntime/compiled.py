"""Compiled parts inside of models: nodes of the operator EPContext, whose payload is an executable's file and the code of calls.

With the session option `ep.context_enable`, ONNX Runtime writes a model in which such nodes stand for what a provider has compiled.
A later session finds them there, and nothing is compiled for it, nor is the compiler needed.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from onnx import NodeProto

from tensorsmith.errors import UserError
from tensorsmith.onnxruntime import compute
from tensorsmith.onnxruntime.api import Api, pointers
from tensorsmith.runtime import file
from tensorsmith.runtime.executable import Executable, unpickled

OPERATOR, DOMAIN = "EPContext", "com.microsoft"
ENABLE = "ep.context_enable"  # the session option

_HEAD = struct.Struct("<8sQ")  # magic, bytes of the code of calls; it follows, and the executable's file
_MAGIC = b"TSMORT\x00\x01"
_CREATE_NODE = 6  # number in OrtModelEditorApi
_INT, _STRING = 1, 5  # of OrtOpAttrType


def payload(executable: compute.Built) -> bytes:
    """What a node has of an executable."""
    if not isinstance(executable, Executable):
        raise UserError(
            f"{executable.name} has open dimensions ({', '.join(executable.symbols)}), and a compiled model has fixed ones: give "
            "each a size by add_free_dimension_override_by_name of the session options"
        )
    code = compute.code().code.data
    return _HEAD.pack(_MAGIC, len(code)) + code + file.as_bytes(executable.network)


def executable_of(content: bytes) -> Executable:
    """The executable of a payload, in memory."""
    try:
        magic, size = _HEAD.unpack_from(content)
    except struct.error:
        magic, size = b"", 0
    if magic != _MAGIC or _HEAD.size + size > len(content):
        raise UserError("the compiled part of the model is damaged, or of another version of Tensorsmith; compile the model again")
    start = _HEAD.size + size
    made = unpickled(content[start:])
    compute.adopt(content[_HEAD.size : start], made.network.target)
    return made


def is_ours(node: NodeProto, provider: str) -> bool:
    """Whether a node is a compiled part of this provider."""
    return (node.op_type, node.domain) == (OPERATOR, DOMAIN) and _attribute(node, "source") == provider.encode()


def content(node: NodeProto) -> bytes:
    """The payload of such a node."""
    return _attribute(node, "ep_cache_context")


def _attribute(node: NodeProto, name: str) -> bytes:
    return next((bytes(a.s) for a in node.attribute if a.name == name), b"")


def create_node(api: Api, name: str, inputs: Sequence[str], outputs: Sequence[str], provider: str, data: bytes) -> int:
    """A node for ONNX Runtime to write, which then belongs to it."""
    texts = {"source": provider.encode(), "partition_name": name.encode(), "ep_cache_context": data}
    given: list[tuple[str, Any, int, int]] = [(key, text, len(text), _STRING) for key, text in texts.items()]
    given += [(key, ctypes.byref(ctypes.c_int64(1)), 1, _INT) for key in ("main_context", "embed_mode")]
    attributes = (ctypes.c_void_p * len(given))(*(api.pointer("CreateOpAttr", key.encode(), *rest) for key, *rest in given))
    texts_of = ctypes.c_char_p * len(inputs), ctypes.c_char_p * len(outputs)
    taken, made = texts_of[0](*(n.encode() for n in inputs)), texts_of[1](*(n.encode() for n in outputs))
    p, s, n = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    create = ctypes.CFUNCTYPE(p, s, s, s, p, n, p, n, p, n, p)(pointers(api.GetModelEditorApi())[_CREATE_NODE])
    node = ctypes.c_void_p()
    status = create(
        OPERATOR.encode(), DOMAIN.encode(), name.encode(), taken, len(inputs), made, len(outputs), attributes, len(given),
        ctypes.byref(node),
    )  # fmt: skip
    if status:
        raise UserError(f"the compiled part cannot be written: {api.taken(status)}")
    assert node.value is not None
    return node.value
