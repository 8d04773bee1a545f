"""`torch.compile(module, backend="tensorsmith")`: PyTorch finds this by the entry point `torch_dynamo_backends`.

PyTorch hands over a graph whose parameters are inputs like any others. Here they are constants: those that are packed into an
executable are remembered by their memory and their version, and every call looks whether they are still the same.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx

from tensorsmith.errors import UserError
from tensorsmith.frontends.torch.export import export, signature
from tensorsmith.frontends.torch.fallback import FallbackWarning, say
from tensorsmith.frontends.torch.importer import UnsupportedNodes, import_graph
from tensorsmith.frontends.torch.options import Options
from tensorsmith.frontends.torch.partition import Build, Network, partitioned, views_of_inputs
from tensorsmith.runtime.constants import Constants

_MOST_SETS = 64  # of parameters that one graph is compiled for: with more of them, they are inputs
Run = Callable[[Sequence[Any]], Any]

# Every call looks at all parameters, of which there are hundreds: nothing but a C function is called for each.
_ADDRESS = torch.Tensor.data_ptr
_VERSION = operator.attrgetter("_version")


def backend(
    module: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """What PyTorch calls with every graph it captures."""
    chosen = Options.of(options)
    if mode is not None:
        raise UserError(f"mode={mode!r} means nothing to the backend tensorsmith; give options={{'effort': ...}}")
    return compiled(module, example_inputs, chosen)


def compiled(module: fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """A captured graph as a function: of ours where it can be, else PyTorch's own, with a warning that says why."""
    why = _eager_because(module, example_inputs)
    if why is not None:
        say(f"it runs in PyTorch: {why}")
        return module.forward
    return _Compiled(module, example_inputs, options)


def _eager_because(module: fx.GraphModule, example_inputs: Sequence[Any]) -> str | None:
    """Why a graph cannot be compiled at all; None if it can."""
    tensors = [x for x in (*example_inputs, *module.parameters(), *module.buffers()) if isinstance(x, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "gradients are recorded; call it under torch.no_grad() or torch.inference_mode()"
    for node in module.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if name == "_set_grad_enabled" and node.args and node.args[0] is True:
            return "it records gradients in a part"
        if name == "_enter_autocast" and (len(node.args) < 3 or node.args[2]):
            return "it uses autocast"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    for t in tensors:
        if t.device.type != "cpu":
            return f"a tensor is on the device {t.device}"
        if t.layout is not torch.strided:
            return f"a tensor is {t.layout}"
    return None


def _is_fixed(x: Any) -> bool:
    """Whether a graph's input is a parameter or a buffer of a module: PyTorch marks what always lies at the same address."""
    if not isinstance(x, torch.Tensor):
        return False
    return isinstance(x, torch.nn.Parameter) or getattr(x, "_dynamo_static_input_type", None) is not None


@dataclass
class _Variant:
    """An executable for one set of parameters and, where shapes vary, one set of shapes. `watched` are the numbers of those
    parameters that are constants in it, `versions` theirs when they were packed; `kept` holds on to the memory, so that no other
    tensor comes to lie there. `used` grows from call to call."""

    run: Run
    watched: tuple[int, ...]
    versions: list[int]
    kept: list[torch.Tensor]
    used: int = 0
    ours: bool = True  # else PyTorch runs it


_Key = tuple[tuple[int, ...], tuple[Any, ...]]  # the memory of the parameters; shapes and sizes, where they vary


class _Compiled:
    """A captured graph, compiled when it is called."""

    def __init__(self, module: fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> None:
        self._module, self._options = module, options
        self._own = [*module.parameters(), *module.buffers()]
        self._fixed = [n for n, x in enumerate(example_inputs) if _is_fixed(x)]
        self._open = any(not isinstance(x, torch.Tensor) for x in example_inputs)  # sizes are inputs: shapes may vary
        self._variants: dict[_Key, _Variant] = {}
        self._changed: set[int] = set()
        self._lock = threading.Lock()
        self._clock = itertools.count(1)
        self._constants = Constants() if self._open else None  # weights that are packed alike for several shapes are there once

    def __call__(self, *args: Any) -> Any:
        fixed = [args[n] for n in self._fixed] + self._own
        key = self._key(args, fixed)
        variant = self._variants.get(key)
        if variant is None or _versions(fixed, variant.watched) != variant.versions:
            with self._lock:
                variant = self._renewed(args, fixed, key)
        variant.used = next(self._clock)
        try:
            return variant.run(args)
        except Exception as problem:
            if not variant.ours:
                raise
            return self._handed_over(variant, args, problem)

    def _handed_over(self, variant: _Variant, args: Sequence[Any], problem: Exception) -> Any:
        """What PyTorch makes of a call that failed in code of ours. Nothing is written to arguments before all results are there,
        so they are as the caller gave them. Where PyTorch raises an error too, that is the caller's; else it has this graph from
        now on."""
        result = self._module(*args)
        variant.run, variant.ours = self._in_pytorch, False
        say(f"it runs in PyTorch from now on: {type(problem).__name__}: {problem}")
        return result

    def _in_pytorch(self, args: Sequence[Any]) -> Any:
        return self._module(*args)

    def _key(self, args: Sequence[Any], fixed: Sequence[torch.Tensor]) -> _Key:
        """What a variant is for."""
        shapes = tuple([x.shape if isinstance(x, torch.Tensor) else x for x in args]) if self._open else ()
        return tuple(map(_ADDRESS, fixed)), shapes

    def _renewed(self, args: Sequence[Any], fixed: list[torch.Tensor], key: _Key) -> _Variant:
        """A variant for these arguments. A parameter that changes for the second time is an input from then on."""
        old = self._variants.get(key)
        if old is not None and _versions(fixed, old.watched) == old.versions:
            return old  # another thread was faster
        if old is not None:
            now = _versions(fixed, old.watched)
            different = {n for n, a, b in zip(old.watched, now, old.versions) if a != b}
            again = different & self._changed
            self._changed |= different
            del self._variants[key]
            if any(n >= len(self._fixed) for n in again):
                say("it runs in PyTorch from now on: tensors of its own change again and again")
                return self._keep(key, self._pytorch_s(fixed))
            if again:
                return self._with_inputs([place for n, place in enumerate(self._fixed) if n not in again], args)
        sets = {parameters for parameters, _ in self._variants}
        if len(sets) >= _MOST_SETS and key[0] not in sets and self._fixed:
            return self._with_inputs([], args)
        return self._keep(key, self._build(args, fixed))

    def _with_inputs(self, fixed: list[int], args: Sequence[Any]) -> _Variant:
        """Only `fixed` are constants from now on; the others are inputs."""
        self._fixed, self._changed = fixed, set()
        self._variants.clear()
        tensors = [args[n] for n in fixed] + self._own
        return self._keep(self._key(args, tensors), self._build(args, tensors))

    def _keep(self, key: _Key, variant: _Variant) -> _Variant:
        """Of one set of parameters the last few shapes stay."""
        variant.used = next(self._clock)
        self._variants[key] = variant
        same = sorted((k for k in self._variants if k[0] == key[0]), key=lambda k: self._variants[k].used)
        for other in same[: max(0, len(same) - self._options.keep)]:
            del self._variants[other]
        return variant

    def _build(self, args: Sequence[Any], fixed: list[torch.Tensor]) -> _Variant:
        with torch.inference_mode(False), torch.no_grad():
            try:
                frozen = _Frozen(self._module, self._fixed, args)
                run, state = _runner(frozen, partial(self._options.build, constants=self._constants))
            except FallbackWarning:
                raise  # somebody wants it as an error
            except Exception as problem:  # a graph that we cannot have, for whatever reason, is run as it is
                say(f"it runs in PyTorch: {type(problem).__name__}: {problem}")
                return self._pytorch_s(fixed)
        watched = tuple(n for n in range(len(fixed)) if n not in state)
        return _Variant(run, watched, _versions(fixed, watched), [t.detach() for t in fixed])

    def _pytorch_s(self, fixed: list[torch.Tensor]) -> _Variant:
        return _Variant(self._in_pytorch, (), [], fixed, ours=False)


def _versions(tensors: Sequence[torch.Tensor], watched: Sequence[int]) -> list[int]:
    """How often each of the tensors was written to; those made in inference mode do not know."""
    chosen = tensors if len(watched) == len(tensors) else [tensors[n] for n in watched]
    try:
        return list(map(_VERSION, chosen))
    except RuntimeError:
        return [0 if t.is_inference() else t._version for t in chosen]


class _Frozen(torch.nn.Module):
    """A captured graph whose fixed inputs are parameters of its own: `fixed_3` is input 3."""

    def __init__(self, module: fx.GraphModule, fixed: Sequence[int], args: Sequence[Any]) -> None:
        super().__init__()
        self.graph = module
        self.count = len(args)
        self.places = list(fixed)  # of the fixed inputs, then of the free ones
        self.free = [n for n in range(len(args)) if n not in fixed]
        for n in fixed:
            self.register_buffer(f"fixed_{n}", args[n].clone() if args[n].is_inference() else args[n].detach())
        self.examples = [_example(args[n]) for n in self.free]

    def forward(self, *free: Any) -> Any:
        args: list[Any] = [None] * self.count
        for n in self.places:
            args[n] = getattr(self, f"fixed_{n}")
        for n, x in zip(self.free, free):
            args[n] = x
        return self.graph(*args)


def _example(x: Any) -> Any:
    """Something like an input, of no particular content."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype) if isinstance(x, torch.Tensor) else x


def _runner(frozen: _Frozen, build: Build) -> tuple[Run, set[int]]:
    """What runs a graph, and the numbers, among its fixed inputs, of those that it changes."""
    program = export(frozen, frozen.examples)
    given = signature(program)
    if given.effects:
        raise UserError("it does more than to compute its results")
    sources: dict[str, int | torch.Tensor] = dict(zip(given.inputs, frozen.free))  # of inputs: an argument, or a tensor held
    state: set[int] = set()
    for name, target in given.state.items():
        if target.startswith("fixed_"):
            sources[name] = int(target.removeprefix("fixed_"))
            state.add(frozen.places.index(int(target.removeprefix("fixed_"))))
        else:
            sources[name] = frozen.get_buffer(target)
            state |= {len(frozen.places) + n for n, t in enumerate(_own(frozen)) if t is sources[name]}
    name = "graph"
    views = views_of_inputs(program.graph, {*sources, *given.constants})
    targets = [sources[c] for c in given.changes]
    try:
        imported = import_graph(program.graph, given.constants, name, as_they_lie=True)
    except UnsupportedNodes as problem:
        say(_what_is_left(problem, program.graph), problem.counts)
        left = {*problem.reasons, *views}
    else:
        left = views
        if not views and not any(n.op == "placeholder" for n in _output(program.graph).all_input_nodes):
            network = Network(imported, build(imported.graph))
            taken = [sources[n] for n in imported.inputs]
            return _finished(lambda args: network([args[s] if isinstance(s, int) else s for s in taken]), targets), state
    parts = partitioned(program.graph_module, left, given.constants, name, build)
    names = [n.name for n in parts.graph.nodes if n.op == "placeholder"]
    lifted = [given.constants[n].detach() if n in given.constants else sources.get(n) for n in names]

    def run(args: Sequence[Any]) -> Sequence[Any]:
        with torch.no_grad():
            return parts(*[args[s] if isinstance(s, int) else s for s in lifted])

    return _finished(run, targets), state


def _own(frozen: _Frozen) -> list[torch.Tensor]:
    return [*frozen.graph.parameters(), *frozen.graph.buffers()]


def _output(graph: fx.Graph) -> fx.Node:
    (output,) = (node for node in graph.nodes if node.op == "output")
    return output


def _finished(run: Callable[[Sequence[Any]], Sequence[Any]], targets: Sequence[int | torch.Tensor]) -> Run:
    """Runs a graph, writes the first of its outputs back to the tensors that they replace, and gives the others."""
    if not targets:
        return run

    def whole(args: Sequence[Any]) -> Sequence[Any]:
        results = run(args)
        replaced: dict[int, torch.Tensor] = {}
        with torch.no_grad():
            for target, result in zip(targets, results):
                replaced[id(result)] = (args[target] if isinstance(target, int) else target).copy_(result)
        return [replaced.get(id(r), r) for r in results[len(targets) :]]  # who gives a tensor that it changed gives that tensor

    return whole


def _what_is_left(problem: UnsupportedNodes, graph: fx.Graph) -> str:
    listed = ", ".join(f"{name} x{n}" for name, n in Counter(problem.counts).most_common())
    total = sum(node.op == "call_function" for node in graph.nodes)
    reason = next(iter(problem.reasons.values()))
    return f"{len(problem.reasons)} of {total} operators run in PyTorch: {listed} ({reason})"
