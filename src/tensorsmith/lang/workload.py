"""A workload: a DAG of stages, each a tensor computation, between inputs and outputs.

A workload is closed and self-contained: loads name tensors, axes are named per stage, shapes are numbers. It prints
readably, round-trips through JSON, and has a stable content key. `Workload.check` proves every load in bounds.

Names of tensors and axes are the author's, and say nothing about the computation. Its `canonical` form has names by place: two
workloads with one `canonical_key` are the same computation, under other names perhaps.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.lang.check import check
from tensorsmith.lang.dtypes import canonical
from tensorsmith.lang.expr import Axis
from tensorsmith.lang.expr_json import body_from_json, body_to_json, whole
from tensorsmith.lang.stage import Buffer as Buffer
from tensorsmith.lang.stage import Stage as Stage
from tensorsmith.lang.stage import renamed
from tensorsmith.lang.stage import topological as topological
from tensorsmith.show.line import cut, line, many, plain, typed
from tensorsmith.show.table import text

FORMAT = 1  # version of the JSON form
_LONGEST_OPERATORS = 80  # characters


@dataclass(frozen=True)
class Workload:
    """Stages in an order in which each comes after those it reads."""

    inputs: tuple[Buffer, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]
    operators: str = field(default="", compare=False)  # of a network that it stands for, "conv+add+relu"; no part of its identity

    @property
    def title(self) -> str:
        """What people call it, in lists, records, profiles and reports: `conv+relu f32[1, 56, 56, 64]`, or `D f32[512, 512]`.

        Several workloads may have one title; they differ in their keys.
        """
        found = [self.buffers[name] for name in self.outputs]
        if self.operators:
            return plain(f"{self.operators} {', '.join(typed(b.dtype, b.shape) for b in found)}")
        return plain(", ".join(f"{b.name} {typed(b.dtype, b.shape)}" for b in found))

    @functools.cached_property
    def buffers(self) -> dict[str, Buffer]:
        """Every tensor by name: inputs, then stages."""
        return {b.name: b for b in (*self.inputs, *(s.buffer() for s in self.stages))}

    def stage(self, name: str) -> Stage:
        return self._stages[name]

    def is_stage(self, name: str) -> bool:
        return name in self._stages

    @functools.cached_property
    def _stages(self) -> dict[str, Stage]:
        return {s.name: s for s in self.stages}

    @functools.cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """The stages that read each tensor, in order."""
        found: dict[str, list[str]] = {name: [] for name in self.buffers}
        for stage in self.stages:
            for name in dict.fromkeys(x.tensor for x in stage.reads):
                found[name].append(stage.name)
        return {name: tuple(readers) for name, readers in found.items()}

    @functools.cached_property
    def key(self) -> str:
        """A stable identity of the content: 16 hex digits over structure, shapes, types and constants."""
        content = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @functools.cached_property
    def canonical(self) -> Workload:
        """The workload with names by place: tensors t0, t1, ... (inputs, then stages), the axes of each stage i0, i1, ..."""
        tensors = [f"t{n}" for n in range(len(self.buffers))]
        return self.with_names(tensors, [[f"i{n}" for n in range(len(s.all_axes))] for s in self.stages])

    @functools.cached_property
    def canonical_key(self) -> str:
        """The key of the computation, whatever its tensors and axes are called."""
        return self.canonical.key

    def named_like(self, other: Workload) -> Workload:
        """The workload with the names of another one, which has as many inputs and stages with as many axes: place by place."""
        return self.with_names(list(other.buffers), [[a.name for a in s.all_axes] for s in other.stages])

    def with_names(self, tensors: Sequence[str], axes: Sequence[Sequence[str]]) -> Workload:
        """The workload with these names of its tensors (inputs, then stages) and of the axes of each stage."""
        names = dict(zip(self.buffers, tensors, strict=True))
        inputs = tuple(Buffer(names[b.name], b.shape, b.dtype, b.constant) for b in self.inputs)
        stages = tuple(renamed(stage, names, own) for stage, own in zip(self.stages, axes, strict=True))
        return Workload(inputs, stages, tuple(names[name] for name in self.outputs))

    def __repr__(self) -> str:
        return line(self, self.title, f": {many(len(self.stages), 'stage')}, key {self.key[:8]}")

    def _repr_html_(self) -> str:
        return text(str(self), title=self.title, note=f"key {self.key}")

    def __reduce__(self) -> tuple[object, ...]:
        return Workload.from_json, (self.to_json(),)

    def __str__(self) -> str:
        lines = [*(str(b) for b in self.inputs), *(str(s) for s in self.stages), f"return {', '.join(self.outputs)}"]
        return "\n".join(map(plain, lines))

    def check(self) -> Workload:
        """Raises `UserError` where names clash or a load is out of bounds, of the wrong rank or type; gives itself."""
        check(self.inputs, self.stages, self.outputs)
        return self

    def to_json(self) -> dict[str, Any]:
        return self._content() | ({"operators": self.operators} if self.operators else {})

    def _content(self) -> dict[str, Any]:
        """What makes it the workload it is, as JSON."""
        return {
            "format": FORMAT,
            "inputs": [[b.name, list(b.shape), b.dtype, *(["constant"] if b.constant else [])] for b in self.inputs],
            "stages": [
                {
                    "name": s.name,
                    "axes": [[a.name, a.extent] for a in s.axes],
                    **({"reduce": [s.reduction, [[a.name, a.extent] for a in s.reduce_axes]]} if s.reduction else {}),
                    **body_to_json(s.body),
                }
                for s in self.stages
            ],
            "outputs": list(self.outputs),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Workload:
        """The workload of a JSON form; raises `UserError` on anything malformed. Safe on data from strangers."""
        try:
            if data["format"] != FORMAT:
                raise UserError(f"workload format {data['format']!r} is not known; this version reads {FORMAT}")
            inputs = tuple(
                Buffer(str(name), tuple(map(whole, shape)), canonical(kind), "constant" in rest)
                for name, shape, kind, *rest in data["inputs"]
            )
            stages = []
            for s in data["stages"]:
                reduction, reduce_axes = s.get("reduce", (None, []))
                stages.append(
                    Stage(
                        str(s["name"]),
                        tuple(Axis(str(n), whole(e)) for n, e in s["axes"]),
                        body_from_json(s),
                        reduction,
                        tuple(Axis(str(n), whole(e)) for n, e in reduce_axes),
                    )
                )
            operators = cut(plain(data.get("operators", "")), _LONGEST_OPERATORS)
            return Workload(inputs, tuple(stages), tuple(map(str, data["outputs"])), operators).check()
        except UserError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as problem:
            raise UserError(f"malformed workload: {type(problem).__name__}: {problem}") from problem
