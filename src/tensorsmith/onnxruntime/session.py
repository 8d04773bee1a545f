"""What users call: options for a session that runs on our code."""

from __future__ import annotations

import functools
from os import PathLike
from typing import Any

from tensorsmith.errors import UserError, install
from tensorsmith.onnxruntime.library import opened
from tensorsmith.onnxruntime.options import checked
from tensorsmith.onnxruntime.provider import NAME, create_factories, release_factory

_FIRST = (1, 23)  # version of ONNX Runtime that has what is needed
_keep: list[object] = []  # the library, open


def session_options(
    *,
    database: str | PathLike[str] | None = None,
    threads: int | None = None,
    effort: str | None = None,
    trust_compiled: bool = False,
    options: Any = None,
) -> Any:
    """An `onnxruntime.SessionOptions` with our provider in front of ONNX Runtime's own kernels.

    `database`, `threads` and `effort` are those of `ts.compile`. ONNX Runtime runs what we leave to it on one thread, so that its
    threads and ours do not fight for the cores; to have it the other way round, give `threads=1` and set `intra_op_num_threads`
    afterwards. `options` of your own are added to, and given back.

    A compiled model has machine code in it. It is loaded with `trust_compiled=True` only: be sure that you know who made it.

        session = ort.InferenceSession("model.onnx", t.session_options(database="tune.db"))
    """
    ort = _onnxruntime()
    texts = checked(database, threads, effort, trust_compiled).texts()
    if options is None:
        options = ort.SessionOptions()
    elif not isinstance(options, ort.SessionOptions):
        raise UserError(f"options is {options!r}; give an onnxruntime.SessionOptions, or none")
    options.intra_op_num_threads = 1
    options.add_provider_for_devices([device()], texts)
    return options


@functools.cache
def device() -> Any:
    """Our device, an `onnxruntime.OrtEpDevice`, for those who choose devices themselves. Registers the provider once."""
    ort = _onnxruntime()
    path, held = opened((create_factories, release_factory))
    _keep.append(held)
    ort.register_execution_provider_library(NAME, path)
    found = [d for d in ort.get_ep_devices() if d.ep_name == NAME]
    if not found:
        raise UserError("ONNX Runtime knows no CPU here that the provider could run on")
    return found[0]


def _onnxruntime() -> Any:
    try:
        import onnxruntime as ort
    except ImportError as problem:
        raise UserError(f"the execution provider needs the package onnxruntime: {install('onnxruntime')}") from problem
    number = tuple(int(n) for n in ort.__version__.split(".")[:2])
    if number < _FIRST or not hasattr(ort, "register_execution_provider_library"):
        raise UserError(f"the execution provider needs onnxruntime 1.23 or newer; this is {ort.__version__}")
    return ort
