"""Which statements are the same in several structures, found without lowering: statements of equal keys have equal numbers.

Structures of a population differ in a choice or two, so most of their statements were seen before in others. A key stands for all
that the loops and accesses of a statement depend on, as a number:

    region    of an attached stage: what its readers need in the loops around, hence their keys and that of the stage it is in
    bound     the region, split by the nest into loops
    statement bound, the bounds of what is read where that is attached or laid out in loop order, which tensors lie dense in memory,
              and which loops threads share
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorsmith.program.grouping import lane_bytes
from tensorsmith.program.layout import dense_tensors
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Sketch


class StatementKeys:
    """Keys, over all structures seen."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def number(self, *parts: Any) -> int:
        return self._numbers.setdefault(parts, len(self._numbers))

    def of(self, sketch: Sketch) -> dict[str, int]:
        """The key of the statement of each stage, in the order in which they run."""
        return _StructureKeys(self, sketch).statements()


class _StructureKeys:
    """The keys of one structure."""

    def __init__(self, known: StatementKeys, sketch: Sketch) -> None:
        self.known, self.sketch = known, sketch
        self.workload = sketch.rewritten
        self.dense = dense_tensors(self.workload)
        self.nests = {n.stage: n for n in sketch.nests}
        self.targets = {n.stage: n.at for n in sketch.nests}
        self.inside: dict[tuple[str, int], list[Nest]] = {}
        for stage in self.workload.stages:  # producers first
            target = self.targets[stage.name]
            if target is not None:
                self.inside.setdefault(target, []).append(self.nests[stage.name])
        self._bounds: dict[str, int] = {}

    def statements(self) -> dict[str, int]:
        roots = [s.name for s in self.workload.stages if self.targets[s.name] is None]
        return {stage: self._statement(stage, root) for root in roots for stage in self._order(self.nests[root])}

    def _order(self, nest: Nest) -> Iterator[str]:
        """Stages in the order in which their blocks run, as the lowering nests them."""
        for depth in range(min(1, len(nest.outer)), len(nest.outer) + 1):
            for inner in self.inside.get((nest.stage, depth), ()):
                yield from self._order(inner)
        yield nest.stage

    def _bound(self, stage: str) -> int:
        if stage not in self._bounds:
            nest, target = self.nests[stage], self.targets[stage]
            needs: list[int] = []
            if target is not None or nest.follows is not None:
                needs = [self._bound(reader) for reader in self.workload.consumers[stage]]
            if target is not None:
                needs.append(self._bound(target[0]))
            self._bounds[stage] = self.known.number(self.workload.stage(stage), nest, *needs)
        return self._bounds[stage]

    def _statement(self, name: str, root: str) -> int:
        stage = self.workload.stage(name)
        reads: list[Any] = []
        for tensor in dict.fromkeys(load.tensor for load in stage.reads):
            nest = self.nests.get(tensor)
            if nest is None:
                reads.append((self.workload.buffers[tensor], self.workload.consumers[tensor]))
            elif nest.at is None and nest.follows is None:
                reads.append((self.workload.buffers[tensor].shape, tensor in self.dense))
            else:
                reads.append((self._bound(tensor), tensor in self.dense))
        # loops are shared among threads down to the first in which something is attached
        loops = len(self.nests[root].outer)
        apart = min((depth for stage, depth in self.inside if stage == root), default=loops)
        bound, readers = self._bound(name), self.workload.consumers[name]
        lanes = lane_bytes(self.workload, stage)
        return self.known.number(bound, tuple(reads), readers, name in self.dense, root, min(apart, loops), lanes)
