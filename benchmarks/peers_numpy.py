"""NumPy's forms of the operators that memory limits. It computes all else far too slowly to be a peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tensorsmith.ops.catalogue import Case

Form = tuple[str, Callable[[], object], Callable[[], np.ndarray]]
EPSILON = 1e-5  # of layer_norm, the same in all frameworks


def forms(case: Case, arrays: Sequence[np.ndarray]) -> Iterator[Form]:
    """Name, what to run, and its result."""
    make = {"add": _add, "softmax": _softmax, "layer_norm": _layer_norm, "NRM": _norm}.get(case.operator)
    if make is not None:
        run = make(*arrays)
        yield "numpy", run, run


def _add(a: np.ndarray, b: np.ndarray) -> Callable[[], np.ndarray]:
    out = np.empty_like(a)
    return lambda: np.add(a, b, out=out)


def _softmax(x: np.ndarray) -> Callable[[], np.ndarray]:
    out = np.empty_like(x)

    def run() -> np.ndarray:
        np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
        np.exp(out, out=out)
        return np.divide(out, out.sum(axis=-1, keepdims=True), out=out)

    return run


def _layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> Callable[[], np.ndarray]:
    out = np.empty_like(x)

    def run() -> np.ndarray:
        np.subtract(x, x.mean(axis=-1, keepdims=True), out=out)
        squares = np.einsum("ij,ij->i", out, out)[:, None]
        np.multiply(out, 1 / np.sqrt(squares / x.shape[-1] + EPSILON), out=out)
        np.multiply(out, scale, out=out)
        return np.add(out, shift, out=out)

    return run


def _norm(x: np.ndarray) -> Callable[[], np.ndarray]:
    rows = x.reshape(len(x), -1)
    return lambda: np.sqrt(np.array([row @ row for row in rows], x.dtype))
