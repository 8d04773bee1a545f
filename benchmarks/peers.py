"""The other systems, each in every form that may be its fastest.

A framework chooses its layout: its inputs are in that layout before the clock starts, and its result stays in it. But
inputs and results are plain tensors, never packed into blocks. Constant weights may be packed beforehand, as ours are.
Everyone's inputs begin at a cache line: nobody is lucky or unlucky with an allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

import peers_numpy
from frameworks import FRAMEWORKS, Unavailable, failure, require
from tensorsmith.ops.catalogue import Case

Form = tuple[str, Callable[[], object], Callable[[], np.ndarray]]


@dataclass(frozen=True)
class Peer:
    """`run` is timed, with Python's call included. `output` runs it and gives the result in our layout."""

    name: str
    run: Callable[[], object]
    output: Callable[[], np.ndarray]


def peers_for(
    case: Case, arrays: Sequence[np.ndarray], threads: int, frameworks: Sequence[str] = tuple(FRAMEWORKS), trials: int = 64
) -> tuple[list[Peer], dict[str, str]]:
    """All forms of the case in those of the frameworks ("numpy" is one, too) that can take part, and why the others cannot.
    `arrays` are the case's inputs in its own order; `trials` are for those that search. Run them, and `output`, inside
    `torch.inference_mode()`."""
    found: list[Peer] = []
    notes: dict[str, str] = {}
    for framework in frameworks:
        try:
            found += [Peer(*form) for form in _forms(framework, case, arrays, threads, trials)]
        except Unavailable as why:
            notes[framework] = str(why)
    return found, notes


def _forms(framework: str, case: Case, arrays: Sequence[np.ndarray], threads: int, trials: int) -> Iterable[Form]:
    if framework == "numpy":
        return list(peers_numpy.forms(case, arrays))
    require(framework)
    try:
        if framework == "torch":
            import peers_torch

            return list(peers_torch.forms(case, arrays, threads))
        if framework == "torch.compile":
            import peers_torch_compile

            return list(peers_torch_compile.forms(case, arrays, threads))
        if framework == "halide-wheel":
            import peers_halide

            return list(peers_halide.forms(case, arrays, threads))
        if framework == "tvm-wheel":
            import peers_tvm

            return list(peers_tvm.forms(case, arrays, threads, trials))
        import peers_onnx

        return list(peers_onnx.forms(case, arrays, threads, framework))
    except Unavailable:
        raise
    except Exception as problem:
        raise failure(problem) from problem
