"""Scaled dot-product attention, as products, a mask and a softmax."""

from __future__ import annotations

import math

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import as_type, reshaped, scalar
from tensorsmith.frontends.torch.table import AtenNode, aten_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value
from tensorsmith.ops.elementwise import broadcast_shape


@aten_operator("scaled_dot_product_attention")
def attention(node: AtenNode, b: Builder) -> Value:
    """Query (..., H, L, E), key (..., H, S, E) and value (..., H, S, F) give (..., H, L, F)."""
    query, key, value = (node.value(name) for name in ("query", "key", "value"))
    if node.number("dropout_p") != 0:
        raise UserError(f"{node}: dropout_p is {node.number('dropout_p')}: it drops elements at random, for training")
    if 0 in (*query.shape, *key.shape, *value.shape):
        raise UserError(f"{node}: {query}, {key} or {value} is empty")
    scale = node.number("scale") if node.given("scale") else 1 / math.sqrt(query.shape[-1])
    node.ignore("scale")
    *lead, queries, size = query.shape
    keys, shared = key.shape[-2], 1
    if node.plain("enable_gqa"):  # the heads of queries that share keys are rows of one product
        shared = lead[-1] // key.shape[-3]
        query = reshaped(b, query, (*lead[:-1], key.shape[-3], shared * queries, size))
    scores = b.add("matmul", [query, key], transpose_b=True)
    full = (*scores.shape[:-3], scores.shape[-3] * shared, queries, keys) if shared > 1 else scores.shape
    scores = reshaped(b, b.add("multiply", [scores, scalar(b, scale, scores)]), full)
    scores, may_be_empty = _masked(node, b, scores)
    shares = b.add("masked_softmax" if may_be_empty else "softmax", [scores], axis=len(full) - 1)
    if shared > 1:
        shares = reshaped(b, shares, (*full[:-3], full[-3] // shared, shared * queries, keys))
    return reshaped(b, b.add("matmul", [shares, value]), node.result[0])


def _masked(node: AtenNode, b: Builder, scores: Value) -> tuple[Value, bool]:
    """The scores with -inf at keys that are not seen, and whether a query may see none at all."""
    mask = node.optional("attn_mask")
    if node.plain("is_causal"):
        queries, keys = scores.shape[-2:]
        seen = b.constant(np.tri(queries, keys, dtype=bool), "seen")
        scores = b.add("where", [seen, scores, scalar(b, -math.inf, scores)])
    if mask is None:
        return scores, False
    known = b.known(mask)
    if known is not None and _does_nothing(known) and broadcast_shape(mask.shape, scores.shape) == scores.shape:
        return scores, False
    may_be_empty = known is None or _hides_all_keys(known)
    if mask.dtype == "bool":
        return b.add("where", [mask, scores, scalar(b, -math.inf, scores)]), may_be_empty
    return b.add("add", [scores, as_type(b, mask, scores.dtype)]), may_be_empty


def _does_nothing(mask: Array) -> bool:
    return bool(mask.all() if mask.dtype == bool else not mask.any())


def _hides_all_keys(mask: Array) -> bool:
    """Whether some query sees no key."""
    seen = mask if mask.dtype == bool else mask > -math.inf
    return not seen.any(axis=-1).all()
