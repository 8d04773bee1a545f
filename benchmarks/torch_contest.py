"""One PyTorch module: eager, `torch.compile` with inductor and with us, on the same inputs; checked against eager, then timed side
by side (`tensorsmith.measure.referee`).

tensorsmith               `torch.compile(module, backend="tensorsmith")`, called as the module is
tensorsmith from_torch    `ts.compile(ts.from_torch(module, inputs))`, called as the module is
eager, eager last         the module itself; a network of convolutions with its channels last, too
inductor, inductor last   `torch.compile(module)`, as it comes; a network of convolutions with its channels last, too
inductor frozen           with constant weights, which it packs, and whose convolutions it gives channels last by itself
inductor autotuned        with all that its makers advise for latency (`frameworks.INDUCTOR`): frozen, tried in several ways, C++
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

import tensorsmith as ts
from contest import Settings, hold
from frameworks import INDUCTOR_WAYS, Unavailable, failure, require
from network_contest import MIN_ROUNDS, SLOT_SECONDS, difference
from peers_networks import last_format
from rows import OURS, Row, row
from tensorsmith.frontends.torch.backend import compiled
from tensorsmith.frontends.torch.fallback import FallbackWarning
from tensorsmith.frontends.torch.options import Options
from tensorsmith.graph.graph import Graph
from tensorsmith.measure.referee import Comparison
from tensorsmith.runtime.constants import Constants
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from ways import Array
from zoo.architectures import Architecture

FROM_TORCH = f"{OURS} from_torch"
PEERS = ("eager", "inductor", "inductor frozen", "inductor autotuned")
PLAIN = ("eager", "inductor")  # as they come, without a setting
TOLERANCE = 1e-4  # of the largest output
RATIO_TO_PLAIN = "ratio_to_eager_and_inductor"  # a figure of a row

Call = Callable[[], Any]


@dataclass
class Split:
    """What `torch.compile` with our backend made of a module: how many graphs, and what of them runs in PyTorch."""

    graphs: int = 0
    kernels: int = 0  # of our executables of them
    left: Counter[str] = field(default_factory=Counter)  # operators without a place in our graphs, and how often
    whole: list[str] = field(default_factory=list)  # why graphs run in PyTorch altogether

    @property
    def falls_back(self) -> bool:
        return bool(self.left or self.whole)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Inside, what our backend warns of is noted here."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for message in (w.message for w in caught if isinstance(w.message, FallbackWarning)):
            self.left.update(message.operators)
            self.whole += [] if message.operators else [str(message)]

    def backend(self, database: str | None) -> Callable[..., Any]:
        """Our backend, which counts the graphs that it gets and the kernels that it makes of them."""
        options = _Counting(database, split=self)

        def counting(module: Any, inputs: Sequence[Any]) -> Any:
            self.graphs += 1
            return compiled(module, inputs, options)

        return counting


@dataclass(frozen=True)
class _Counting(Options):
    """Options that count the kernels of what is built with them."""

    split: Split = field(default_factory=Split)

    def build(self, graph: Graph, constants: Constants | None = None) -> Executable:
        executable = super().build(graph, constants)
        self.split.kernels += sum(step.kernel is not None for step in executable.network.steps)
        return executable


class Entry:
    """What is known of one architecture: who takes part, and what went wrong."""

    def __init__(self, architecture: Architecture, settings: Settings, database: str | None = None) -> None:
        self.architecture, self.settings, self.database = architecture, settings, database
        self.split = Split()
        self.errors: list[str] = []
        self.notes: dict[str, str] = {}  # why a peer takes no part
        self.differences: dict[str, float] = {}
        self.preparing: dict[str, float] = {}  # seconds until the first result, by contestant

    def measure(self, timed: bool = True) -> Row:
        """The row of the report; without times where nothing is `timed`. Inside `contest.quiet_machine()`."""
        torch.set_num_threads(self.settings.threads)
        torch._dynamo.reset()  # what was compiled for others counts against the most that it compiles of one function
        with with_threads(self.settings.threads):
            right = self.check(self.contestants(timed))
            result = self._compare(right) if timed and right else Comparison({})
        entry = row(
            result,
            threads=self.settings.threads,
            parameters=self.architecture.parameters,
            difference={name: d for name, d in self.differences.items() if np.isfinite(d)},
            graphs=self.split.graphs,
            kernels=self.split.kernels,
            left=dict(self.split.left) or None,
            left_whole=self.split.whole or None,
            seconds_preparing=self.preparing or None,
            notes=self.notes or None,
            error="; ".join(self.errors) or None,
        )
        return entry | _to_plain(result)

    def contestants(self, timed: bool = True) -> dict[str, Call]:
        """Everyone that can take part, called once: what has to be compiled is compiled. Where nothing is `timed`, ours alone."""
        found: dict[str, Call] = {}
        for name in (OURS, FROM_TORCH, *self.settings.frameworks) if timed else (OURS,):
            start = time.perf_counter()
            try:
                for form, call in self._made(name):
                    call()
                    found[form] = call
            except Unavailable as why:
                self.notes[name] = str(why)
            except Exception as problem:
                self._failed(name, problem)
            else:
                self.preparing[name] = time.perf_counter() - start
        return found

    def _made(self, name: str) -> Iterator[tuple[str, Call]]:
        module, inputs = self.architecture.module, self.architecture.inputs
        if name == OURS:
            compiled = torch.compile(module, backend=self.split.backend(self.database), dynamic=False)
            with self.split.noted():
                compiled(**inputs)
            yield name, lambda: compiled(**inputs)
        elif name == FROM_TORCH:
            executable = ts.compile(ts.from_torch(module, inputs), database=self.database)
            yield name, lambda: executable(**inputs)
        elif name in PLAIN:
            for layout, made, given in _layouts(module, inputs):
                call = functools.partial(made, **given) if name == "eager" else _inductor(made, given, {})
                yield " ".join(filter(None, (name, layout))), call
        else:
            yield name, _inductor(module, inputs, INDUCTOR_WAYS["frozen" if name == "inductor frozen" else ""])

    def _failed(self, name: str, problem: Exception) -> None:
        """Our failure is an error of the row; a peer's is the reason why it takes no part."""
        if name in (OURS, FROM_TORCH):
            self.errors.append(f"{name}: {type(problem).__name__}: {problem}")
        else:
            self.notes[name] = str(failure(problem))

    def check(self, contestants: Mapping[str, Call]) -> dict[str, Call]:
        """Those who give what eager gives; every other is an error, or a note if it is a peer's."""
        want = results(self.architecture.module(**self.architecture.inputs))
        right: dict[str, Call] = {}
        for name, call in contestants.items():
            worst = self.differences[name] = difference(results(call()), want)
            if worst <= TOLERANCE:
                right[name] = call
                continue
            said = f"wrong answer: {name} is off by {worst:.1e} of the largest output"
            if name in (OURS, FROM_TORCH):
                self.errors.append(said)
            else:
                self.notes[name] = said
        return right

    def _compare(self, contestants: Mapping[str, Call]) -> Comparison:
        how = {"min_rounds": MIN_ROUNDS, "slot_seconds": SLOT_SECONDS}
        return hold(contestants, (OURS, FROM_TORCH), self.architecture.name, self.settings, **how)


def warm_up(frameworks: Sequence[str]) -> None:
    """Compiles something small by everyone, so that nobody's first network has to wait for what is imported and started once."""
    architecture = Architecture("warm-up", "", nn.Linear(16, 16).requires_grad_(False), {"input": torch.ones(1, 16)})
    Entry(architecture, Settings(1, frameworks=frameworks)).measure(timed=False)


def results(given: Any) -> list[Array]:
    """The tensors of a result, in order, in memory of their own."""
    return [np.array(leaf.numpy(), order="C") for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]


def _layouts(module: nn.Module, inputs: Mapping[str, Any]) -> Iterator[tuple[str, nn.Module, Mapping[str, Any]]]:
    """The module as it is; one of convolutions with its channels last, too."""
    yield "", module, inputs
    last = last_format(module)
    if last is not None:
        rank, layout = last
        with torch.inference_mode(False):
            other = copy.deepcopy(module).to(memory_format=layout)
        images = {name: x.contiguous(memory_format=layout) if x.ndim == rank else x for name, x in inputs.items()}
        yield "last", other, images


def _inductor(module: nn.Module, inputs: Mapping[str, Any], settings: Mapping[str, Any]) -> Call:
    """It compiles here, with these settings; given as `options` of `torch.compile` they would come too late to freeze anything."""
    require("torch.compile")
    import torch._inductor.config as config
    from torch._inductor.compile_fx import compile_fx

    def another(graph: Any, examples: Sequence[Any]) -> Any:
        """A backend of its own: what was compiled by the same one with other settings would be taken for what is wanted."""
        return compile_fx(graph, examples)

    compiled = torch.compile(module, backend=another if settings else "inductor", dynamic=False)
    with config.patch(dict(settings)), contextlib.redirect_stderr(io.StringIO()):  # it tells what it tried
        compiled(**inputs)
        compiled(**inputs)  # the second call may compile once more
    return lambda: compiled(**inputs)


def _to_plain(result: Comparison) -> Row:
    """Ours against the better of eager and inductor as they come."""
    plain = [result[name].best for name in PLAIN if name in result.timings]
    if len(plain) < len(PLAIN) or OURS not in result.timings:
        return {}
    return {RATIO_TO_PLAIN: min(plain) / result[OURS].best}
