"""The other systems by name: whether they can take part, and how each is set up for latency, as its makers advise."""

from __future__ import annotations

import environment  # noqa: F401  before OpenVINO

import contextlib  # isort: skip
import importlib.util
import io
from collections.abc import Callable, Sequence
from typing import Any

import about

#: What is asked for by default, and the module that must be there.
FRAMEWORKS = {"torch": "torch", "torch.compile": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}
#: Systems that search for programs, as their makers ship them: only where they are asked for, for they take minutes a case.
OUTSIDE = {"halide-wheel": "halide", "tvm-wheel": "tvm"}
#: Settings of `torch.compile`, for all that it does: given as its `options` they would come too late to freeze anything.
INDUCTOR = {"freezing": True, "max_autotune": True, "cpp_wrapper": True, "compile_threads": 1}  # 1: no processes that would stay
#: `torch.compile` in its three ways: with all that its makers advise, with constant weights alone, and as it comes.
INDUCTOR_WAYS: dict[str, dict[str, Any]] = {
    "": INDUCTOR,
    "frozen": {"freezing": True, "compile_threads": 1},
    "stock": {"compile_threads": 1},
}


class Unavailable(Exception):
    """Why a peer takes no part."""


def require(framework: str) -> None:
    """Raises `Unavailable` where a framework is not installed, or needs a C++ compiler and there is none."""
    module = {**FRAMEWORKS, **OUTSIDE}[framework]
    if importlib.util.find_spec(module) is None:
        raise Unavailable(f"{module} is not installed")
    if framework == "torch.compile" and about.compiler() is None:
        raise Unavailable("torch.compile needs a C++ compiler, and there is none")


def failure(problem: Exception) -> Unavailable:
    """A framework's own failure as the reason why it takes no part: it is not ours to repair."""
    lines = str(problem).strip().splitlines() or [""]
    return Unavailable(f"{type(problem).__name__}: {lines[0]}")


def onnxruntime_session(model: bytes | str, threads: int) -> Any:
    """An ONNX Runtime session with all optimisations; its threads spin between operators, as they do by default."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def openvino_model(model: bytes, threads: int, change: Callable[[Any], Any] = lambda network: network) -> Any:
    """A model compiled by OpenVINO, in f32: on some machines it would choose bf16 by itself."""
    import openvino

    core = openvino.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }  # fmt: skip
    return core.compile_model(change(core.read_model(model)), "CPU", settings)


def torch_compiled(function: Callable[..., Any], tensors: Sequence[Any], way: str = "") -> Callable[[], Any]:
    """`torch.compile` of a module or function on these tensors, for inference with static shapes, in one of `INDUCTOR_WAYS`. With
    all that its makers advise: frozen weights, so that it folds batch norms, packs weights and has convolutions work with channels
    last whatever the input; matrix products tried in its own form and in MKL's; C++ instead of Python from kernel to kernel. It
    compiles here, not when it is timed, which takes seconds."""
    import torch
    import torch._inductor.config as config
    from torch._inductor.compile_fx import compile_fx

    def another(graph: Any, examples: Sequence[Any]) -> Any:
        """A backend of its own: what was compiled by the same one with other settings would be taken for what is wanted."""
        return compile_fx(graph, examples)

    compiled = torch.compile(function, backend=another, dynamic=False)
    with config.patch(INDUCTOR_WAYS[way]), contextlib.redirect_stderr(io.StringIO()):  # it tells what it tried
        for _ in range(2):  # the second call may compile once more
            compiled(*tensors)
    return lambda: compiled(*tensors)
