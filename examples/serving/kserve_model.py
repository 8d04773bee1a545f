"""A saved executable behind KServe: `python kserve_model.py classifier model.tsm`, in an image with kserve and tensorsmith.

    tensorsmith compile model.onnx --shape batch=1,8 --threads 1 --db tune.db -o model.tsm

makes the file. Requests of the open inference protocol (v2) name inputs as the model does. A stream serves several requests at
once, a thread each, and those that wait share a call where the batch is open.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import kserve
import numpy as np

import tensorsmith as ts

#: what the protocol calls the types
DATATYPES = {
    "float32": "FP32", "float64": "FP64", "float16": "FP16", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
    "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "bool": "BOOL",
}  # fmt: skip


class TensorsmithModel(kserve.Model):  # type: ignore[misc]
    """Gives the outputs of an executable by their names."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        self.path = path
        self.ready = False

    def load(self) -> bool:
        self.executable = ts.load_executable(self.path, threads=1)
        self.stream = self.executable.stream()
        self.ready = True
        return self.ready

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        given = {tensor.name: tensor.as_numpy() for tensor in payload.inputs}
        found = await asyncio.wrap_future(self.stream.submit(**given))  # the server's loop goes on meanwhile
        outputs = []
        for name, array in zip(self.names(), found if isinstance(found, tuple) else (found,)):
            output = kserve.InferOutput(name=name, shape=list(array.shape), datatype=DATATYPES[array.dtype.name])
            output.set_data_from_numpy(np.ascontiguousarray(array), binary_data=False)
            outputs.append(output)
        return kserve.InferResponse(response_id=payload.id, model_name=self.name, infer_outputs=outputs)

    def names(self) -> list[str]:
        """Of the outputs: the same for all sizes of an open executable."""
        one = self.executable
        sized = one.variants[0].executable if hasattr(one, "variants") else one
        return [o.name for o in sized.outputs]

    def stop(self) -> None:
        self.stream.close()


if __name__ == "__main__":
    model = TensorsmithModel(*sys.argv[1:3])
    model.load()
    kserve.ModelServer().start([model])
