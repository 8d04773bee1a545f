"""The other systems, each in every form that may be its fastest.

A framework chooses its layout: its inputs are in that layout before the clock starts, and its result stays in it. But
inputs and results are plain tensors, never packed into blocks. Constant weights may be packed beforehand, as ours are.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import peers_numpy
from tensorsmith.ops.catalogue import Case


@dataclass(frozen=True)
class Peer:
    """`run` is timed, with Python's call included. `output` runs it and gives the result in our layout."""

    name: str
    run: Callable[[], object]
    output: Callable[[], np.ndarray]


#: What is asked for by default, and the module that must be there.
FRAMEWORKS = {"torch": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}


def peers_for(
    case: Case,
    arrays: Sequence[np.ndarray],
    threads: int,
    frameworks: Sequence[str] = tuple(FRAMEWORKS),
    *,
    torch_compile: bool = False,
) -> list[Peer]:
    """All forms of the case in those of the frameworks ("numpy" is one, too) that are installed. `arrays` are the
    case's inputs in its own order. Run them, and `output`, inside `inference()`."""
    return list(_peers(case, arrays, threads, frameworks, torch_compile))


def _peers(
    case: Case, arrays: Sequence[np.ndarray], threads: int, frameworks: Sequence[str], torch_compile: bool
) -> Iterator[Peer]:
    for framework in frameworks:
        if framework == "numpy":
            yield from (Peer(*form) for form in peers_numpy.forms(case, arrays))
        elif importlib.util.find_spec(FRAMEWORKS[framework]) is None:
            continue
        elif framework == "torch":
            import peers_torch

            yield from (Peer(*form) for form in peers_torch.forms(case, arrays, threads, compiled=torch_compile))
        else:
            import peers_onnx

            yield from (Peer(*form) for form in peers_onnx.forms(case, arrays, threads, framework))
