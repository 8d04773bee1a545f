"""Attention against ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest
from tests.frontends.onnx_nodes import by_reference, check, kinds, model_of, random

from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import load_onnx
from tensorsmith.graph.evaluate import evaluate

BATCH, QUERIES, KEYS, SIZE, VALUES = 2, 3, 5, 8, 6


def attention(heads=(4, 4), flat=False, mask=None, past=0, lengths=None, outputs=1, opset=24, queries=QUERIES, **attributes):
    heads_q, heads_kv = heads
    q, k, v = random(BATCH, heads_q, queries, SIZE), random(BATCH, heads_kv, KEYS, SIZE), random(BATCH, heads_kv, KEYS, VALUES)
    if flat:
        q, k, v = (a.transpose(0, 2, 1, 3).reshape(BATCH, a.shape[2], -1) for a in (q, k, v))
        attributes |= {"q_num_heads": heads_q, "kv_num_heads": heads_kv}
    arrays = [q, k, v, mask]
    arrays += [random(BATCH, heads_kv, past, n, seed=3) if past else None for n in (SIZE, VALUES)]
    arrays.append(lengths)
    while arrays[-1] is None:
        arrays.pop()
    return check("Attention", arrays, peer=by_reference, outputs=outputs, opset=opset, **attributes)


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1), (1, 1)])
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"softcap": 2.0}, {"is_causal": 1}], ids=str)
def test_attention(options, heads, flat, opset):
    attention(heads, flat, opset=opset, **options)


def masks():
    generator = np.random.default_rng(0)
    for shape in [
        (QUERIES, KEYS),
        (1, KEYS),
        (4, QUERIES, KEYS),
        (BATCH, 1, QUERIES, KEYS),
        (BATCH, 4, QUERIES, KEYS),
        (QUERIES, KEYS - 2),
    ]:
        yield generator.uniform(-2, 2, shape).astype("f4")
        seen = generator.uniform(0, 1, shape) < 0.6
        seen[..., 0] = True
        yield seen


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", list(masks()), ids=lambda m: f"{m.dtype}{m.shape}")
def test_masks(mask, causal):
    if causal and mask.shape == (1, KEYS):
        mask = np.repeat(mask, QUERIES, axis=0)  # the reference would take the causal mask of one query for all
    attention((4, 2), mask=mask, is_causal=causal, softcap=1.5)


def test_one_mask_for_all_queries_of_causal_attention():
    mask = random(1, KEYS)
    results = []
    for m in (mask, np.repeat(mask, QUERIES, axis=0)):
        arrays = [random(1, 2, QUERIES, SIZE), random(1, 2, KEYS, SIZE, seed=1), random(1, 2, KEYS, SIZE, seed=2), m]
        model, inputs = model_of("Attention", arrays, opset=23, is_causal=1)
        results += evaluate(load_onnx(model), inputs).values()
    np.testing.assert_array_equal(results[0], results[1])


def test_half_precision():
    arrays = [random(2, 3, 4, 8, seed=n).astype(np.float16) for n in range(3)]
    check("Attention", arrays, peer=by_reference, opset=23, rtol=2e-3, atol=1e-3)


def test_queries_that_see_nothing_give_zeros():
    mask = np.ones((QUERIES, KEYS), bool)
    mask[1] = False
    attention(mask=mask)
    attention(mask=mask, outputs=4, qk_matmul_output_mode=3)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_past(causal, flat):
    attention((4, 2), flat, past=3, outputs=3, is_causal=causal)


@pytest.mark.parametrize("causal", [0, 1])
def test_lengths(causal):
    attention(lengths=np.array([2, 4], "i8"), is_causal=causal)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_scores(mode):
    attention(mask=random(QUERIES, KEYS), softcap=2.0, outputs=4, qk_matmul_output_mode=mode)


@pytest.mark.parametrize("mode", [0, 3])
def test_scores_without_a_cap(mode):
    attention(mask=random(QUERIES, KEYS), outputs=4, qk_matmul_output_mode=mode)


@pytest.mark.parametrize(("left", "right"), [(1, 1), (2, 0), (-1, 1), (0, -1)])
@pytest.mark.parametrize("causal", [0, 1])
def test_windows(left, right, causal):
    attention(opset=25, left_window_size=left, right_window_size=right, is_causal=causal)


def test_heads_that_share_keys_are_rows_of_one_product():
    graph = attention((4, 2))
    shapes = [n.output.shape for n in graph.nodes if n.operator == "matmul"]
    assert shapes == [(BATCH, 2, 2 * QUERIES, KEYS), (BATCH, 2, 2 * QUERIES, VALUES)]


def test_plain_causal_attention_has_a_plain_softmax():
    assert "softmax" in kinds(attention(is_causal=1))


@pytest.mark.parametrize("mask", [None, np.tri(QUERIES, KEYS, dtype=bool)], ids=["none", "mask"])
def test_generated_code(mask):
    attention((4, 2), mask=mask, is_causal=1, compiled=True)


def test_refusals():
    q, k = random(2, 3, 8), random(2, 5, 8)
    for arrays, attributes, message in [
        ([q, k, k], {}, "'q_num_heads' is missing"),
        ([q, k, k], {"q_num_heads": 3, "kv_num_heads": 3}, "3 heads do not divide"),
        ([q, k, random(2, 1, 5, 8)], {}, "all 3-D or all 4-D"),
        ([q, k, k], {"q_num_heads": 2, "kv_num_heads": 4}, "4 heads of keys do not divide 2"),
    ]:
        model, _ = model_of("Attention", arrays, opset=23, **attributes)
        with pytest.raises(UserError, match=message):
            load_onnx(model)
