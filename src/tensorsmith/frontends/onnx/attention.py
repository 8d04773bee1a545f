"""Scaled dot-product attention, as products, masks and a softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import as_type, scalar
from tensorsmith.frontends.onnx.read import type_of
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import dtype


@onnx_operator("Attention", since=23)
def attention(node: OnnxNode, b: Builder) -> Sequence[Value]:
    """Y, then the keys and values with those of the past, then the scores at the point that qk_matmul_output_mode says."""
    given = [node.required(n) for n in range(3)]
    rank = len(given[0].shape)
    if rank not in (3, 4) or any(len(v.shape) != rank for v in given):
        raise UserError(
            f"{node}: Q, K and V have the shapes {', '.join(str(list(v.shape)) for v in given)}; expected all 3-D or all 4-D"
        )
    if rank == 3:
        heads = int(node.needed("q_num_heads")), int(node.needed("kv_num_heads")), int(node.needed("kv_num_heads"))
        given = [_split(node, b, v, n) for v, n in zip(given, heads)]
    for name, v in zip(("q_num_heads", "kv_num_heads"), given):  # of four dimensions the shapes say it as well
        if node.attribute(name, v.shape[1]) != v.shape[1]:
            raise UserError(f"{node}: {name} is {node.attribute(name)}, but the shape is {list(v.shape)}")
    query, key, value = given
    past = node.optional(4), node.optional(5)
    if (past[0] is None) != (past[1] is None):
        raise UserError(f"{node}: past_key and past_value must be given together")
    if past[0] is not None and past[1] is not None:
        key, value = b.add("concat", [past[0], key], axis=2), b.add("concat", [past[1], value], axis=2)
    batch, heads_q, queries, size = query.shape
    heads_kv, keys = key.shape[1:3]
    if heads_q % heads_kv:
        raise UserError(f"{node}: {heads_kv} heads of keys do not divide {heads_q} heads of queries")
    # the heads of queries that share keys are rows of one product
    rows = (batch, heads_kv, heads_q // heads_kv * queries)
    full = (batch, heads_q, queries, keys)

    scale = node.attribute("scale")
    scale = 1 / math.sqrt(size) if scale is None else float(scale)
    scores = _reshaped(b, _scaled_product(b, _reshaped(b, query, (*rows, size)), key, scale), full)
    stages = [scores]
    scores = _capped(b, scores, float(node.attribute("softcap", 0.0)))
    stages.append(scores)
    offset = past[0].shape[2] if past[0] is not None else 0
    scores, may_be_empty = _masked(node, b, scores, offset)
    stages.append(scores)
    precision = node.attribute("softmax_precision")
    wide = type_of(precision, f"{node}: softmax_precision") if precision else scores.dtype
    shares = b.add("masked_softmax" if may_be_empty else "softmax", [as_type(b, scores, wide)], axis=3)
    shares = as_type(b, shares, query.dtype)
    stages.append(shares)

    result = b.add("matmul", [_reshaped(b, shares, (*rows, keys)), value])
    result = _reshaped(b, result, (batch, heads_q, queries, value.shape[3]))
    if rank == 3:
        moved = b.add("transpose", [result], order=(0, 2, 1, 3))
        result = b.add("reshape", [moved], shape=(batch, queries, heads_q * value.shape[3]))
    return [result, key, value, stages[int(node.attribute("qk_matmul_output_mode", 0))]]


def _scaled_product(b: Builder, query: Value, key: Value, scale: float) -> Value:
    """query key^T scale. In f16 and bf16 both sides are scaled before, as ONNX asks for, so that the sums do not overflow."""
    if not dtype(query.dtype).is_half:
        scores = b.add("matmul", [query, key], transpose_b=True)
        return b.add("multiply", [scores, scalar(b, scale, scores)])
    factor = scalar(b, math.sqrt(scale), query)
    return b.add("matmul", [b.add("multiply", [query, factor]), b.add("multiply", [key, factor])], transpose_b=True)


def _reshaped(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    return x if x.shape == shape else b.add("reshape", [x], shape=shape)


def _split(node: OnnxNode, b: Builder, x: Value, heads: int) -> Value:
    """(batch, length, heads * size) -> (batch, heads, length, size)"""
    batch, length, width = x.shape
    if heads < 1 or width % heads:
        raise UserError(f"{node}: {heads} heads do not divide {list(x.shape)}")
    return b.add("transpose", [b.add("reshape", [x], shape=(batch, length, heads, width // heads))], order=(0, 2, 1, 3))


def _capped(b: Builder, scores: Value, cap: float) -> Value:
    """Between -cap and cap, smoothly; 0 is no cap."""
    if cap <= 0:
        return scores
    limit = scalar(b, cap, scores)
    return b.add("multiply", [b.add("tanh", [b.add("divide", [scores, limit])]), limit])


def _masked(node: OnnxNode, b: Builder, scores: Value, offset: int) -> tuple[Value, bool]:
    """The scores with -inf at keys that are not seen, and whether a query may see none at all."""
    mask, lengths = node.optional(3), node.optional(6)
    may_be_empty = False
    if mask is not None:
        missing = scores.shape[3] - mask.shape[-1]
        if missing > 0:
            pairs = (*[(0, 0)] * (len(mask.shape) - 1), (0, missing))
            mask = _padded(b, mask, pairs)
        if mask.dtype == "bool":
            scores = b.add("where", [mask, scores, scalar(b, -math.inf, scores)])
        else:
            scores = b.add("add", [scores, as_type(b, mask, scores.dtype)])
        may_be_empty = True
    limits = [
        None if node.attribute(side, -1) < 0 else int(node.attribute(side)) for side in ("left_window_size", "right_window_size")
    ]
    before, after = limits
    if node.attribute("is_causal", 0):
        after = 0
    if before is None and after is None and lengths is None:
        return scores, may_be_empty
    inputs = [scores] if lengths is None else [scores, lengths]
    scores = b.add("band_mask", inputs, offset=offset, before=before, after=after)
    return scores, may_be_empty or lengths is not None or before is not None


def _padded(b: Builder, mask: Value, pairs: tuple[tuple[int, int], ...]) -> Value:
    """Keys past the mask's end are not seen."""
    if mask.dtype != "bool":
        return b.add("pad", [mask], pairs=pairs, value=-math.inf)
    whole = b.add("pad", [b.add("cast", [mask], to="i32")], pairs=pairs, value=0)
    return b.add("cast", [whole], to="bool")
