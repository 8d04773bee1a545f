"""ONNX's backend interface: `prepare`, `run_model`, `run_node`, `supports_device`, as functions of this module and as a class.

    import tensorsmith.frontends.onnx.backend as backend
    (y,) = backend.prepare(onnx.load("model.onnx")).run([x])

Shapes are fixed when a model is compiled, so it is compiled when the first inputs are given, and again for other shapes. Inputs
whose values an operator must know (the shape of a Reshape, say) are taken as constants from what is given, and the model is
compiled again when they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tensorsmith.compile import compile
from tensorsmith.errors import UserError
from tensorsmith.frontends.onnx.importer import UnsupportedOperators, load_onnx
from tensorsmith.frontends.onnx.read import UnsupportedType, numbers
from tensorsmith.frontends.onnx.table import NeedsConstant
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.graph.graph import Array, Graph
from tensorsmith.graph.model import Model
from tensorsmith.show.line import many

Runner = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def _reference(graph: Graph) -> Runner:
    return lambda inputs: evaluate(graph, inputs)


def _compiled(graph: Graph) -> Runner:
    """The graph as machine code, by the default schedules."""
    executable = compile(Model(graph))
    names = [name for name, _ in graph.outputs]

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        results = executable(*(np.asarray(inputs[v.name], order="C") for v in graph.inputs))
        return dict(zip(names, results if len(names) > 1 else [results]))

    return run


def _not_supported(problem: Exception) -> Exception:
    """What ONNX's test suite takes for "this backend does not do that"."""
    from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt  # ONNX's test suite, which few have a use for

    return BackendIsNotSupposedToImplementIt(str(problem))


class PreparedModel(BackendRep):
    """A model that compiles itself for the inputs it is given. `reference` runs it by the reference evaluator instead."""

    def __init__(self, model: ModelProto, reference: bool = False) -> None:
        self._model, self._reference = model, reference
        given = {t.name for t in model.graph.initializer}
        self._inputs = [v.name for v in model.graph.input if v.name not in given]
        self._outputs = [v.name for v in model.graph.output]
        self._constants: set[str] = set()  # inputs whose values must be known
        self._compiled: dict[object, tuple[Runner, list[str]]] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, by position and by name, for the inputs as a list or by name."""
        try:
            arrays = {name: numbers(np.asarray(a), f"input {name}") for name, a in self._named(inputs).items()}
            runner, names = self._prepared(arrays)
        except (UnsupportedOperators, UnsupportedType) as problem:
            raise _not_supported(problem) from problem
        results = runner({name: a for name, a in arrays.items() if name not in self._constants})
        made = [np.asarray(results[name]) for name in names]
        return namedtupledict("Outputs", self._outputs)(*made) if len(set(self._outputs)) == len(made) else tuple(made)

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        items = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if len(items) != len(self._inputs):
            raise UserError(f"the model takes {many(len(self._inputs), 'input')} ({', '.join(self._inputs)}), {len(items)} given")
        for name, item in zip(self._inputs, items):
            if item is None or isinstance(item, (list, tuple)):
                raise UnsupportedType(f"input {name} is {'left out' if item is None else 'a sequence'}; only tensors are supported")
        return dict(zip(self._inputs, items))

    def _prepared(self, arrays: Mapping[str, Array]) -> tuple[Runner, list[str]]:
        """What runs these inputs: the model with their shapes, and with the values of those that must be known."""
        while True:
            constants = {name: a for name, a in arrays.items() if name in self._constants}
            shapes = {name: a.shape for name, a in arrays.items() if name not in constants}
            key = (tuple(shapes.items()), tuple((name, a.shape, a.tobytes()) for name, a in constants.items()))
            if key in self._compiled:
                return self._compiled[key]
            try:
                graph = load_onnx(self._model, shapes, constants)
            except NeedsConstant as problem:
                if not set(problem.sources) - self._constants:
                    raise
                self._constants.update(problem.sources)
                continue
            runner = _reference(graph) if self._reference else _compiled(graph)
            self._compiled[key] = runner, [name for name, _ in graph.outputs]
            return self._compiled[key]


class TensorsmithBackend(Backend):
    """ONNX's backend interface."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the device is there; what the model needs is only known with its inputs."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """A model to run. With `reference=True` it is evaluated by definition, not compiled."""
        if not cls.supports_device(device):
            raise UserError(f"there is no device {device!r}; there is CPU")
        return PreparedModel(model, bool(kwargs.get("reference", False)))

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The results of one node. `opset_version` says which definition of the operator is meant, the newest by default."""
        items = (
            list(inputs.values()) if isinstance(inputs, Mapping) else [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        )
        names = [name for name in node.input if name]
        arrays = {name: np.asarray(a) for name, a in zip(names, (a for a in items if a is not None))}
        version = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        graph = helper.make_graph(
            [node],
            node.name or node.op_type,
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in arrays.items()],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """There is the CPU."""
        return device.split(":")[0] == "CPU"


is_compatible = TensorsmithBackend.is_compatible
prepare = TensorsmithBackend.prepare
run_model = TensorsmithBackend.run_model
run_node = TensorsmithBackend.run_node
supports_device = TensorsmithBackend.supports_device
