"""A saved executable behind Triton's Python backend: this folder, with model.tsm beside this file and `config.pbtxt` above it.

    tensorsmith compile model.onnx --shape batch=1,2,4,8 --threads 1 --db tune.db -o model.tsm

An instance is a process. Its stream has a worker for each CPU, or as many as TENSORSMITH_NUM_THREADS says: with several instances,
give each its share. Requests that Triton hands over together share calls, filled up to the sizes of the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

import tensorsmith as ts


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        file = config["parameters"]["executable"]["string_value"]
        executable = ts.load_executable(Path(args["model_repository"]) / args["model_version"] / file, threads=1)
        sized = executable.variants[0].executable if hasattr(executable, "variants") else executable
        self.stream = executable.stream()
        self.inputs = [entry["name"] for entry in config["input"]]
        self.wanted = [entry["name"] for entry in config["output"]]
        self.outputs = [o.name for o in sized.outputs]

    def execute(self, requests: list[Any]) -> list[Any]:
        """The responses, in the order of the requests; what is wrong with one is its own error."""
        begun = [self.begin(request) for request in requests]
        return [self.response(future) for future in begun]

    def begin(self, request: Any) -> Any:
        given = {name: pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs}
        try:
            return self.stream.submit(**given)
        except ts.UserError as problem:
            return problem

    def response(self, future: Any) -> Any:
        try:
            if isinstance(future, ts.UserError):
                raise future
            result = future.result()
        except ts.UserError as problem:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(problem)))
        found = dict(zip(self.outputs, result if isinstance(result, tuple) else (result,)))
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(n, np.ascontiguousarray(found[n])) for n in self.wanted])

    def finalize(self) -> None:
        self.stream.close()
