"""The examples for servers, run as plain Python: the servers' own modules are stand-ins with the names that the examples use."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import sys
from collections.abc import Coroutine, Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.cli.models import write_dense

import tensorsmith as ts

SERVING = Path(__file__).parents[2] / "examples" / "serving"
X = np.random.default_rng(2).uniform(-1, 1, (8, 8)).astype(np.float32)


def imported(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def file(tmp_path: Path) -> Path:
    model = ts.load(write_dense(tmp_path / "dense.onnx", ("batch", 8)), shapes={"batch": [1, 2, 8]})
    ts.compile(model, threads=1).save(tmp_path / "model.tsm")
    return tmp_path / "model.tsm"


# -- KServe ------------------------------------------------------------------------------------------------------------


class Tensor:
    """A tensor of a request or a response of the protocol."""

    def __init__(self, name: str, shape: list[int], datatype: str) -> None:
        self.name, self.shape, self.datatype = name, shape, datatype

    def set_data_from_numpy(self, array: np.ndarray, binary_data: bool = True) -> None:
        assert list(array.shape) == self.shape
        self.array = array

    def as_numpy(self) -> np.ndarray:
        return self.array


class KserveModel:
    def __init__(self, name: str) -> None:
        self.name = name


def request(array: np.ndarray) -> SimpleNamespace:
    tensor = Tensor("x", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return SimpleNamespace(id="7", inputs=[tensor])


async def at_once(calls: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    return await asyncio.gather(*calls)


def test_kserve(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("kserve")
    module.__dict__.update(Model=KserveModel, InferOutput=Tensor, InferResponse=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "kserve", module)
    model = imported(SERVING / "kserve_model.py").TensorsmithModel("classifier", str(file))
    assert not model.ready and model.load() and model.ready

    want = ts.load_executable(file)(X)
    for n, response in enumerate(asyncio.run(at_once(model.predict(request(X[n : n + 2])) for n in range(6)))):
        assert (response.response_id, response.model_name) == ("7", "classifier")
        assert [(o.name, o.datatype) for o in response.infer_outputs] == [("y", "FP32"), ("sum", "FP32")]
        for output, whole in zip(response.infer_outputs, want):
            np.testing.assert_allclose(output.array, whole[n : n + 2], rtol=1e-5, atol=1e-5)
    with pytest.raises(ts.UserError, match="must have shape"):
        asyncio.run(model.predict(request(X[:, :5].copy())))
    model.stop()


# -- Triton ------------------------------------------------------------------------------------------------------------


class TritonTensor:
    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name, self.array = name, array

    def as_numpy(self) -> np.ndarray:
        return self.array


class Response:
    def __init__(self, output_tensors: list[TritonTensor] | None = None, error: str | None = None) -> None:
        self.tensors, self.error = output_tensors, error


def test_triton(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("triton_python_backend_utils")
    named = {"get_input_tensor_by_name": lambda request, name: request[name]}
    module.__dict__.update(Tensor=TritonTensor, InferenceResponse=Response, TritonError=str, **named)
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", module)
    shutil.copytree(SERVING / "triton", tmp_path / "triton")
    version = tmp_path / "triton" / "classifier" / "1"
    shutil.copy(file, version / "model.tsm")
    model = imported(version / "model.py").TritonPythonModel()
    config = {"input": [{"name": "x"}], "output": [{"name": "y"}], "parameters": {"executable": {"string_value": "model.tsm"}}}
    model.initialize({"model_config": json.dumps(config), "model_repository": str(version.parent), "model_version": "1"})
    given = [X[:1], X[1:3], X[:2, :5], X[3:4]]
    first, second, wrong, last = model.execute([{"x": TritonTensor("x", x)} for x in given])
    want, _ = ts.load_executable(file)(X)
    for response, rows in ((first, want[:1]), (second, want[1:3]), (last, want[3:4])):
        (tensor,) = response.tensors
        assert tensor.name == "y" and response.error is None
        np.testing.assert_allclose(tensor.array, rows, rtol=1e-5, atol=1e-5)
    assert wrong.tensors is None and "must have shape" in wrong.error
    model.finalize()


def test_the_configuration_names_what_the_example_reads() -> None:
    text = (SERVING / "triton" / "classifier" / "config.pbtxt").read_text()
    assert 'key: "executable"' in text and 'backend: "python"' in text
    assert text.count("{") == text.count("}") and text.count("[") == text.count("]")
