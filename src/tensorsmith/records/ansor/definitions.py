"""What a workload key stands for: the layer functions of published logs, those of TVM's own tests, and a user's.

A key is the name of a function and its arguments, `["matmul_layer", 128, 256, 512]`. TVM finds the computation by that name among
functions that the program has registered; so do we, among definitions that give tensors of ours.

    @ansor.define("my_dense")
    def my_dense(batch, inputs, outputs):
        x, w = ts.placeholder((batch, inputs), name="x"), ts.placeholder((outputs, inputs), name="w")
        k = ts.reduce_axis(inputs, name="k")
        return [x, w, ts.compute((batch, outputs), lambda i, j: ts.sum(x[i, k] * w[j, k], axis=k), name="dense")]

Stages are numbered as TVM numbers them: inputs before what reads them, in the order in which they are read first. A definition must
have the stages that TVM's has, also those that only copy (padding of width 0).
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang import words as lang
from tensorsmith.lang.define import Tensor
from tensorsmith.lang.workload import Workload
from tensorsmith.records.ansor.known import definitions_of, may_be_followed
from tensorsmith.records.ansor.layers import EPILOGUES, MOST_ELEMENTS, Definition, followed
from tensorsmith.records.ansor.networks import is_hash, of_shapes

_given: dict[str, Definition] = {}  # a user's, by name


def define(name: str) -> Callable[[Definition], Definition]:
    """Says what workloads of a name compute: a function of the key's other entries that gives tensors, inputs first, as for
    `ts.workload`. A name that is known already is taken over. The name of a task of a network is its hash, 32 hexadecimal digits;
    its arguments are the shapes of all tensors."""
    if not isinstance(name, str) or not name:
        raise UserError(f"a definition is for the name of a workload's function, a text; got {name!r}")

    def known(definition: Definition) -> Definition:
        _given[name] = definition
        meanings.cache_clear()
        return definition

    return known


def forget(name: str) -> None:
    """Takes a definition back."""
    _given.pop(name, None)
    meanings.cache_clear()


class Unknown(Exception):
    """Nothing known has the name of a key, or its definition does not take the arguments; `args[0]` says which."""


@dataclass(frozen=True)
class Meaning:
    """One of the computations that a key may stand for, made when it is asked for."""

    epilogue: str  # what follows the layer: "add relu"
    definition: Definition
    arguments: str  # the key's other entries, as JSON

    def workload(self) -> Workload:
        """Raises `Unknown`."""
        return _made(self.definition, self.arguments)


@functools.lru_cache(maxsize=4096)
def meanings(name: str, arguments: str) -> tuple[Meaning, ...]:
    """All that a key may stand for, the likeliest first. `arguments` are the key's other entries, as JSON. Raises `Unknown`."""
    if name in _given:
        return (Meaning("", _given[name], arguments),)
    if is_hash(name):
        return _of_network(arguments)
    found = definitions_of(name)
    if not found:
        raise Unknown("no definition of the workload")
    epilogues = EPILOGUES if may_be_followed(name) else ()
    plain = [Meaning("", d, arguments) for d in found]
    return (*plain, *(Meaning(e, functools.partial(followed, d, e), arguments) for d in found for e in epilogues))


def _of_network(arguments: str) -> tuple[Meaning, ...]:
    try:
        count = len(list(of_shapes(json.loads(arguments))))
    except (UserError, TypeError, ValueError, OverflowError) as problem:
        raise Unknown("a task of a network with shapes that no known computation has") from problem
    if not count:
        raise Unknown("a task of a network with shapes that no known computation has")
    return tuple(Meaning("", functools.partial(_one_of_shapes, n), arguments) for n in range(count))


def _one_of_shapes(number: int, *shapes: Any) -> Sequence[Tensor]:
    return next(itertools.islice(of_shapes(shapes), number, None))


@functools.lru_cache(maxsize=4096)
def _made(definition: Definition, arguments: str) -> Workload:
    return _workload(definition, json.loads(arguments))


def _workload(definition: Definition, given: Sequence[Any]) -> Workload:
    try:
        tensors = list(definition(*given))
        if sum(math.prod(t.shape) for t in tensors) > MOST_ELEMENTS:
            raise Unknown("a workload larger than any memory")
        return lang.workload(tensors)
    except Unknown:
        raise
    except (UserError, TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as problem:
        raise Unknown("arguments that the definition does not take") from problem
