"""The ways in which users call a system that takes ONNX files. Each is a contestant of its own, and the best counts.

onnxruntime run      `session.run` with a dictionary of arrays: results are allocated
onnxruntime bound    inputs and results are bound beforehand, so a call copies nothing
openvino call        the compiled model is called with the arrays, which are shared, and so are the results
openvino infer       the same on a request that knows its inputs
openvino async       such a request is started and waited for: less Python than `infer`, which looks through its arguments
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Way:
    """`run` is timed. `outputs` runs it, and gives its results where they are."""

    name: str
    run: Callable[[], object]
    outputs: Callable[[], list[Array]]


def onnxruntime_ways(session: Any, inputs: Mapping[str, Array]) -> Iterator[Way]:
    import onnxruntime

    def run() -> list[Array]:
        return session.run(None, inputs)

    yield Way("run", run, run)
    value_of = onnxruntime.OrtValue.ortvalue_from_numpy
    given = {name: value_of(array) for name, array in inputs.items()}
    results = {value.name: value_of(array) for value, array in zip(session.get_outputs(), run())}
    binding = session.io_binding()
    for name, value in given.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in results.items():
        binding.bind_ortvalue_output(name, value)

    def bound() -> object:
        return session.run_with_iobinding(binding)

    def outputs() -> list[Array]:
        bound()
        return [value.numpy() for value in results.values()]

    yield Way("bound", bound, outputs)


def openvino_ways(compiled: Any, arrays: Sequence[Array]) -> Iterator[Way]:
    """The `arrays` are the model's inputs in its own order."""
    import openvino

    count = len(compiled.outputs)

    def call() -> Any:
        return compiled(arrays, share_inputs=True, share_outputs=True)

    yield Way("call", call, lambda: [call()[n] for n in range(count)])
    request = compiled.create_infer_request()
    for n, array in enumerate(arrays):
        request.set_input_tensor(n, openvino.Tensor(array, shared_memory=True))

    def infer() -> Any:
        return request.infer(share_outputs=True)

    yield Way("infer", infer, lambda: [infer()[n] for n in range(count)])

    def start_and_wait() -> None:
        request.start_async()
        request.wait()

    def outputs() -> list[Array]:
        start_and_wait()
        return [request.get_output_tensor(n).data for n in range(count)]

    yield Way("async", start_and_wait, outputs)
