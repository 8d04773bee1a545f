"""What weights in fewer bits change: the outputs of a network with them beside those of the network as it was imported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensorsmith.elements import kind_of
from tensorsmith.errors import UserError
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Array, Graph
from tensorsmith.show.line import line, many, plain
from tensorsmith.show.units import size


@dataclass(frozen=True)
class OutputError:
    """How far an output is off: the root mean square of the differences as a share of the output's own, and the largest one beside
    the largest number of the output. Of integers and bools, `share` is how many of them differ."""

    name: str
    share: float
    largest: float
    largest_value: float

    def __str__(self) -> str:
        most = f"at most {self.largest:.3g} where the largest number is {self.largest_value:.3g}"
        return f"{plain(self.name)} is off by {self.share:.2%}, {most}"

    def __repr__(self) -> str:
        return line(self, self)


@dataclass(frozen=True)
class WeightsError:
    """What storing weights in fewer bits saves, in bytes of all constants, and what it costs on some sample inputs."""

    weights: str
    bytes_before: int
    bytes_after: int
    samples: int
    outputs: tuple[OutputError, ...]

    def __str__(self) -> str:
        what = f"weights as {self.weights}: {size(self.bytes_after)} of constants, not {size(self.bytes_before)}"
        return "\n".join([what, *(f"  {o}" for o in self.outputs)])

    def __repr__(self) -> str:
        worst = max((o.share for o in self.outputs), default=0)
        return line(self, f"{self.weights}, {many(len(self.outputs), 'output')}", f", off by {worst:.2%}")


def measured(source: Graph, narrowed: Graph, weights: str, samples: Sequence[Mapping[str, Array]]) -> WeightsError:
    """The outputs of two graphs on the samples, by the reference evaluator."""
    if not samples:
        raise UserError("samples is empty; give one or more sets of inputs, or None for random ones")
    pairs = [(evaluate(source, s), evaluate(narrowed, s)) for s in samples]
    outputs = tuple(_error(name, [(want[name], got[name]) for want, got in pairs]) for name, _ in source.outputs)
    before, after = (sum(a.nbytes for a in graph.constants.values()) for graph in (source, narrowed))
    return WeightsError(weights, before, after, len(samples), outputs)


def _error(name: str, pairs: Sequence[tuple[Array, Array]]) -> OutputError:
    want, got = (np.concatenate([np.ravel(p[n]).astype(np.float64) for p in pairs]) for n in (0, 1))
    off = np.abs(got - want)
    if not want.size:
        return OutputError(name, 0.0, 0.0, 0.0)
    if kind_of(pairs[0][0].dtype) != "f":
        return OutputError(name, float(np.mean(off != 0)), float(off.max()), float(np.abs(want).max()))
    own = math.sqrt(float(np.mean(np.square(want))))
    share = math.sqrt(float(np.mean(np.square(off)))) / own if own else float(off.max())
    return OutputError(name, share, float(off.max()), float(np.abs(want).max()))
