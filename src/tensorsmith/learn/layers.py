"""Small networks of dense layers in plain NumPy: enough for some thousand samples, and nothing to install.

net = Layers((164, 64, 1), rng)
out = net.forward(x)                  relu between the layers, none behind the last
steps.apply(net.backward(slope))      gradients of the last `forward`, by Adam or Adadelta
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


_ALONE = 1 << 18  # multiplications up to which the library of products starts no threads


def product(a: Array, b: Array) -> Array:
    """`a @ b`, on one core: threads of a library would wait for each other, and for all that else runs here."""
    rows = max(1, _ALONE // max(1, b.shape[0] * b.shape[1]))
    if len(a) <= rows:
        return np.asarray(a @ b)
    return np.concatenate([a[n : n + rows] @ b for n in range(0, len(a), rows)])


class Layers:
    """Weights and biases of dense layers; `gain`: the variance that weights begin with, times the inputs of their layer."""

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator, gain: float = 2.0) -> None:
        self.sizes = tuple(sizes)
        self.parameters: list[Array] = []
        for of, to in itertools.pairwise(sizes):
            self.parameters += [rng.normal(0, np.sqrt(gain / max(1, of)), (of, to)).astype(np.float32), np.zeros(to, np.float32)]
        self._inputs: list[Array] = []

    def forward(self, x: Array, keep: bool = False) -> Array:
        """What the last layer gives for each row; with `keep`, `backward` can follow."""
        inputs = []
        count = len(self.parameters) // 2
        for n in range(count):
            inputs.append(x)
            x = product(x, self.parameters[2 * n]) + self.parameters[2 * n + 1]
            if n < count - 1:
                x = np.maximum(x, 0)
        if keep:
            self._inputs = inputs
        return x

    def backward(self, slope: Array) -> tuple[list[Array], Array]:
        """The gradients of all parameters, and of the input, of the last `forward` that was kept."""
        found: list[Array] = [np.empty(0)] * len(self.parameters)
        for n in reversed(range(len(self._inputs))):
            found[2 * n], found[2 * n + 1] = product(self._inputs[n].T, slope), slope.sum(axis=0)
            slope = product(slope, self.parameters[2 * n].T)
            if n:
                slope = slope * (self._inputs[n] > 0)
        return found, slope

    def copy(self) -> Layers:
        new = Layers((), np.random.default_rng(0))
        new.sizes, new.parameters = self.sizes, [p.copy() for p in self.parameters]
        return new


class Adam:
    """Steps of Adam on parameters, in place."""

    def __init__(
        self,
        parameters: Sequence[Array],
        rate: float,
        first: float = 0.9,
        second: float = 0.999,
        least: float = 1e-8,
    ) -> None:
        self.parameters, self.rate = parameters, rate
        self.first, self.second, self.least = first, second, least
        self.means = [np.zeros_like(p) for p in parameters]
        self.squares = [np.zeros_like(p) for p in parameters]
        self.steps = 0

    def apply(self, gradients: Sequence[Array]) -> None:
        self.steps += 1
        for p, g, m, v in zip(self.parameters, gradients, self.means, self.squares):
            m += (1 - self.first) * (g - m)
            v += (1 - self.second) * (g * g - v)
            step = m / (1 - self.first**self.steps)
            p -= (self.rate * step / (np.sqrt(v / (1 - self.second**self.steps)) + self.least)).astype(p.dtype)


class Adadelta:
    """Steps of Adadelta on parameters, in place."""

    def __init__(self, parameters: Sequence[Array], rate: float, keep: float = 0.9, least: float = 1e-6) -> None:
        self.parameters, self.rate, self.keep, self.least = parameters, rate, keep, least
        self.squares = [np.zeros_like(p) for p in parameters]
        self.moved = [np.zeros_like(p) for p in parameters]

    def apply(self, gradients: Sequence[Array]) -> None:
        for p, g, v, d in zip(self.parameters, gradients, self.squares, self.moved):
            v += (1 - self.keep) * (g * g - v)
            step = np.sqrt(d + self.least) / np.sqrt(v + self.least) * g
            d += (1 - self.keep) * (step * step - d)
            p -= (self.rate * step).astype(p.dtype)
