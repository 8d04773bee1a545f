"""Products with a matrix as it is stored: in 32 or 16 bits, in 8 with a scale for each row, or in blocks."""

from __future__ import annotations

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Value
from tensorsmith.lang.dtypes import TABLE
from tensorsmith.language.blocks import FORMATS, Unpacked, unpacked
from tensorsmith.language.weight import Weight
from tensorsmith.ops.block_formats import FORMATS as INTEGER_FORMATS

#: what `weights` may be: as they lie in the file, or in one of these
WEIGHTS = ("f32", "f16", "bf16", "int8", "q8_0", "q4_0")


def check_weights(weights: object) -> str | None:
    """What weights are to be stored as."""
    if weights is not None and weights not in WEIGHTS:
        raise UserError(f"weights is {weights!r}; give one of {', '.join(WEIGHTS)}, or None to keep them as the file has them")
    return weights


def product(b: Builder, x: Value, weight: Weight, stored: str | None) -> Value:
    """x (rows, inputs) times the transpose of a weight (outputs, inputs), in f32; `stored` says in which format, None as it is."""
    if stored == "int8":
        return _by_rows(b, x, weight)
    wanted = weight if stored is None else weight.as_format(stored)
    if FORMATS[wanted.format].unpack is None:
        matrix = np.ascontiguousarray(wanted.stored).view(TABLE[wanted.format].numpy)
        return b.add("matmul", [x, b.constant(matrix, wanted.name)], transpose_b=True)
    return _by_integers(b, x, wanted) if wanted.format in INTEGER_FORMATS else _by_blocks(b, x, wanted)


def _by_integers(b: Builder, x: Value, weight: Weight) -> Value:
    """In integers: rows of x are quantised in blocks too, once for all products that read them."""
    quantised = b.add_all("quantize_blocks", [x])
    fields = [b.constant(field, weight.name) for field in INTEGER_FORMATS[weight.format].split(weight.stored)]
    return b.add("integer_block_matmul", [*quantised, *fields], format=weight.format)


def _by_rows(b: Builder, x: Value, weight: Weight) -> Value:
    """The largest number of a row is 127 or -127, and its scale is multiplied with the sum."""
    array = weight.array()
    scale = np.abs(array).max(axis=1, keepdims=True) / np.float32(127)
    scale[scale < np.finfo(np.float32).tiny] = 1
    q = b.constant(np.rint(array / scale).astype(np.int8), weight.name)
    return b.add("multiply", [b.add("matmul", [x, q], transpose_b=True), b.constant(scale[:, 0], f"{weight.name}_scale")])


def _by_blocks(b: Builder, x: Value, weight: Weight) -> Value:
    found = unpacked(weight.stored, weight.format)
    bits = FORMATS[weight.format].bits
    zero = _zero(found) if found.minimum is not None else None
    middle = 8 if bits == 4 and zero is None else 0
    turned = np.ascontiguousarray((found.q + np.int8(middle)).transpose(1, 2, 0))  # (parts, weights of a part, outputs)
    if bits == 4:
        low, high = turned[:, ::2].view(np.uint8), turned[:, 1::2].view(np.uint8)
        turned = low | high << 4
    operands = [b.constant(turned, weight.name), b.constant(np.ascontiguousarray(found.scale.T), f"{weight.name}_scale")]
    if zero is not None:
        operands.append(b.constant(np.ascontiguousarray(zero.T), f"{weight.name}_zero"))
    return b.add("block_matmul", [x, *operands], bits=bits, middle=middle)


def _zero(found: Unpacked) -> np.ndarray:
    """Minima as zero points: q s - m = (q - m / s) s. Where s is 0, what is stored changes so that the weight is -m: (0 - 1) m."""
    assert found.minimum is not None
    none = found.scale == 0
    zero = np.divide(found.minimum, found.scale, out=np.ones_like(found.scale), where=~none)
    found.q[none] = 0
    found.scale[none] = found.minimum[none]
    return zero
