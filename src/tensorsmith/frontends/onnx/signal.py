"""Fourier transforms as products with a matrix: the lengths are known, and those of speech and audio models are short."""

from __future__ import annotations

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.frontends.common.values import LARGEST_MADE, reshaped, transposed
from tensorsmith.frontends.onnx.table import OnnxNode, onnx_operator
from tensorsmith.graph.builder import Builder
from tensorsmith.graph.graph import Array, Value
from tensorsmith.lang.dtypes import dtype
from tensorsmith.ops.common import normal_axis

_LARGEST = 1 << 12  # above this length the matrix would take more time and room than any model's file


def _matrix(node: OnnxNode, taken: int, length: int, bins: int, parts: int, inverse: bool) -> Array:
    """(taken * parts, bins * 2): from the first elements, real or complex, to the first bins of a transform of a length."""
    _check_length(node, max(taken, length))
    angle = 2 * np.pi * np.outer(np.arange(taken), np.arange(bins)) / length * (1 if inverse else -1)
    turn = np.exp(1j * angle) / (length if inverse else 1)
    full = np.empty((taken, parts, bins, 2))
    full[:, 0, :, 0], full[:, 0, :, 1] = turn.real, turn.imag
    if parts == 2:
        full[:, 1, :, 0], full[:, 1, :, 1] = -turn.imag, turn.real
    return full.reshape(taken * parts, bins * 2)


def _matrix_to_real(node: OnnxNode, taken: int, length: int, parts: int) -> Array:
    """(taken * parts, length): from the first bins of a one-sided spectrum back to real elements.

    The bins that are left out are conjugates of those that are there, so these count twice; the first one, and the middle one of
    an even length, have no partner.
    """
    _check_length(node, max(taken, length))
    places = np.arange(taken)
    angle = 2 * np.pi * np.outer(places, np.arange(length)) / length
    weight = np.where((places == 0) | (2 * places == length), 1, 2)[:, None] / length
    full = np.stack([np.cos(angle), -np.sin(angle)][:parts], axis=1) * weight[:, None]
    return np.asarray(full.reshape(taken * parts, length))


def _check_length(node: OnnxNode, length: int) -> None:
    if length > _LARGEST:
        raise UserError(f"{node}: transforms of {length} elements are not supported; the longest are of {_LARGEST}")


@onnx_operator("DFT", since=17)
def dft_by_attribute(node: OnnxNode, b: Builder) -> Value:
    return _dft(node, b, node.attribute("axis", 1))


@onnx_operator("DFT", since=20)
def dft(node: OnnxNode, b: Builder) -> Value:
    axis = node.optional_constant(2, "the axis")
    return _dft(node, b, -2 if axis is None else int(axis.reshape(())))


def _dft(node: OnnxNode, b: Builder, axis: int) -> Value:
    """The last dimension of the input holds the real and, if it is 2, the imaginary part."""
    x = node.required(0)
    axis, parts = normal_axis(axis, len(x.shape), str(node)), x.shape[-1]
    inverse, one_sided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    if parts not in (1, 2) or axis == len(x.shape) - 1:
        raise UserError(f"{node}: {x} must end in a dimension of 1 (real) or 2 (complex), which is not the one transformed")
    to_real = inverse and one_sided
    given = node.optional_constant(1, "the length")
    length = int(given.reshape(())) if given is not None else 2 * (x.shape[axis] - 1) if to_real else x.shape[axis]
    if length < 1:
        raise UserError(f"{node}: the length is {length}")
    taken = min(length // 2 + 1 if to_real else length, x.shape[axis])
    if taken < x.shape[axis]:
        sizes = tuple(taken if d == axis else n for d, n in enumerate(x.shape))
        x = b.add("slice", [x], starts=(0,) * len(sizes), sizes=sizes)
    others = [d for d in range(len(x.shape) - 1) if d != axis]
    rows = reshaped(b, transposed(b, x, [*others, axis, len(x.shape) - 1]), (*(x.shape[d] for d in others), taken * parts))
    if to_real:
        made, results = _matrix_to_real(node, taken, length, parts), (length, 1)
    else:
        bins = length // 2 + 1 if one_sided else length
        made, results = _matrix(node, taken, length, bins, parts, inverse), (bins, 2)
    matrix = b.constant(made.astype(dtype(x.dtype).numpy))
    result = reshaped(b, b.add("matmul", [rows, matrix]), (*(x.shape[d] for d in others), *results))
    order = [*others, axis]
    return transposed(b, result, [*(order.index(d) for d in range(len(order))), len(order)])


@onnx_operator("STFT", since=17)
def stft(node: OnnxNode, b: Builder) -> Value:
    """Frames of the signal, one every step, each times the window and transformed."""
    x, window = node.required(0), node.optional_constant(2, "the window")
    step = int(node.constant(1, "the step between frames").reshape(()))
    given = node.optional_constant(3, "the length of a frame")
    if given is None and window is None:
        raise UserError(f"{node}: neither a window nor the length of a frame is given")
    length = int(given.reshape(())) if given is not None else len(window) if window is not None else 0
    parts = x.shape[2] if len(x.shape) == 3 else 1
    if len(x.shape) not in (2, 3) or parts not in (1, 2) or step < 1 or not 1 <= length <= x.shape[1]:
        raise UserError(f"{node}: frames of {length}, one every {step}, do not fit the signal {x}")
    if window is not None and window.shape != (length,):
        raise UserError(f"{node}: the window has the shape {list(window.shape)}; a frame has {length} elements")
    count = (x.shape[1] - length) // step + 1
    if count * length > LARGEST_MADE:
        raise UserError(f"{node}: {count} frames of {length} elements are more than is possible")
    bins = length // 2 + 1 if node.attribute("onesided", 1) else length
    matrix = _matrix(node, length, length, bins, parts, inverse=False)
    if window is not None:
        matrix = matrix * np.repeat(window.astype(np.float64), parts)[:, None]
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = b.add("gather", [x, b.constant(places.astype(np.int64))], axis=1)
    rows = reshaped(b, frames, (x.shape[0], count, length * parts))
    result = b.add("matmul", [rows, b.constant(matrix.astype(dtype(x.dtype).numpy))])
    return reshaped(b, result, (x.shape[0], count, bins, 2))
