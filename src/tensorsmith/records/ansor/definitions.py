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
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang import words as lang
from tensorsmith.lang.workload import Workload
from tensorsmith.records.ansor.layers import EPILOGUES, KNOWN, MOST_ELEMENTS, OF_TESTS, WITH_EPILOGUE, Definition, followed
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
        _made.cache_clear()
        return definition

    return known


def forget(name: str) -> None:
    """Takes a definition back."""
    _given.pop(name, None)
    _made.cache_clear()


class Unknown(Exception):
    """Nothing known has the name of a key, or its definition does not take the arguments; `args[0]` says which."""


def computations(key: str, arguments: str) -> tuple[tuple[str, Workload], ...]:
    """All that a key may stand for, the likeliest first, each with the epilogue that it has. `arguments` is the key as JSON.
    Raises `Unknown`."""
    return _made(key, arguments)


@functools.lru_cache(maxsize=4096)
def _made(name: str, arguments: str) -> tuple[tuple[str, Workload], ...]:
    given = json.loads(arguments)
    if name in _given:
        return (("", _workload(_given[name], given, name)),)
    if is_hash(name):
        return _of_network(given)
    word = plain(name)
    if name not in OF_TESTS and word not in KNOWN:
        raise Unknown("no definition of the workload")
    definition = OF_TESTS.get(name) or KNOWN[word]
    found = [("", _workload(definition, given, name))]
    if word in WITH_EPILOGUE:
        for epilogue in EPILOGUES:
            found.append((epilogue, _workload(functools.partial(followed, definition, epilogue), given, name)))
    return tuple(found)


def _of_network(shapes: Sequence[Any]) -> tuple[tuple[str, Workload], ...]:
    try:
        found = tuple(("", lang.workload(tensors)) for tensors in of_shapes(shapes))
    except (UserError, TypeError, ValueError, OverflowError) as problem:
        raise Unknown("a task of a network with shapes that no known computation has") from problem
    if not found:
        raise Unknown("a task of a network with shapes that no known computation has")
    return found


def _workload(definition: Definition, given: Sequence[Any], name: str) -> Workload:
    try:
        tensors = list(definition(*given))
        if sum(math.prod(t.shape) for t in tensors) > MOST_ELEMENTS:
            raise Unknown("a workload larger than any memory")
        return lang.workload(tensors)
    except Unknown:
        raise
    except (UserError, TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as problem:
        raise Unknown("arguments that the definition does not take") from problem


def plain(name: str) -> str:
    """A function's name without the words that say whose it is: `ansor_mm`, `matmul_layer`, `conv2d_auto_scheduler_test`."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return "_".join(w for w in words if w not in ("layer", "ansor", "auto", "scheduler", "autoscheduler", "test", "tvm", "op", ""))
