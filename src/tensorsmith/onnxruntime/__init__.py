"""Sessions of ONNX Runtime that run on our code: an execution provider, without a compiler and without C++.

    import onnxruntime as ort
    import tensorsmith.onnxruntime as t

    session = ort.InferenceSession("model.onnx", t.session_options())

library    the shared library that ONNX Runtime opens, written byte by byte
api        its C interface
reading    a graph of ONNX Runtime as ONNX
models     part of a graph as a model of ours
parts      which nodes we take
compute    parts in the form in which compiled code runs them
compiled   parts in models that ONNX Runtime writes, loaded without the compiler
options    what a session asks of the provider
provider   what ONNX Runtime calls
session    what users call
"""

from tensorsmith.onnxruntime.session import NAME, device, session_options

__all__ = ["NAME", "device", "session_options"]
