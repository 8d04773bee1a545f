"""Fusion: which nodes become one kernel, in the manner of Relay (kinds and post-dominators).

    conv -> add -> relu -> conv            {conv add relu} {conv}
    matmul -> reshape -> transpose -> matmul   {matmul} view {transpose matmul}
    add -> layer_norm                      {add layer_norm}

Every group has one *root*, whose value is all that leaves it, and every path from a member leads to the root: such groups can
never wait for each other in a circle. In this order:

1. A product (convolution, matmul) takes the elementwise nodes behind it that have its shape, through diamonds too, and at most one
   transpose that leaves the last dimension last: the product is then written in that order at once.
2. A reduction takes the elementwise nodes behind it, and then those before it that only it reads.
3. Both take the transposes and slices before them, which cost nothing but another way to read. One that several groups
   read is in each of them, if that leaves no other reader. So are bytes that are made real numbers where they are read.
4. What is left, elementwise or movement, is fused along post-dominators; where a value of such a group is read elsewhere as well,
   two small groups of one shape become one with two outputs (the cell and the state of a recurrent layer).

A `reshape` is a *view*: the same memory under another shape. It belongs to no group, unless it stands between movements of
step 3. So is a slice that is one piece of memory, of a value that is in memory anyway; and where the parts of a concat are such
pieces, each is written to its place at once (`graph.pieces`). The steps of a recurrence, which differ in such places alone, are
then calls of one kernel. Work is never multiplied by much: an expensive function stays out of what would evaluate it for an element
more than once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorsmith.errors import InternalError
from tensorsmith.graph.dominators import post_dominators
from tensorsmith.graph.facts import facts_of, reads
from tensorsmith.graph.graph import Graph, Value
from tensorsmith.graph.memory import View, placed
from tensorsmith.graph.operators import Kind
from tensorsmith.graph.pieces import MANY, cut, joined

_LARGEST = 48  # nodes of a group: beyond it code grows, and compiling it, but nothing is saved
_SMALL = 1 << 14  # elements up to which starting another kernel costs more than what it does
_MOST_OUTPUTS = 4  # of a group: each is a nest of its own, and groups of many are seldom equal, so that each has to be compiled
_FEW_CHANNELS = 16  # of an image, say: so few may lie far apart in memory
_FEW_READS = 4  # of one element by a reduction: up to here an expensive producer is worth its repetition


@dataclass(frozen=True)
class Group:
    """Nodes of one kernel by their place in the graph. `copied` ones are movements that other groups contain as well."""

    nodes: tuple[int, ...]
    copied: frozenset[int]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Fusion:
    """Groups in an order in which each follows those it reads, and the views with the values whose memory they share."""

    groups: tuple[Group, ...]
    views: dict[str, View]


def fuse(graph: Graph) -> Fusion:
    """The groups of a graph."""
    making = _Fuser(graph)
    making.behind(Kind.COMPLEX)
    making.behind(Kind.REDUCTION)
    making.pieces()
    making.before_reductions()
    making.movements()
    making.rest()
    making.together()
    return making.fusion()


class _Fuser:
    """Groups in the making: `owner` is the group of each node that has one, a group being known by its first node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.facts = facts_of(graph)
        self.place = {v.name: n for n, node in enumerate(graph.nodes) for v in node.outputs}
        self.readers: list[list[int]] = [[] for _ in graph.nodes]
        for n, node in enumerate(graph.nodes):
            for name in dict.fromkeys(node.inputs):
                if name in self.place and n not in self.readers[self.place[name]]:
                    self.readers[self.place[name]].append(n)
        self.leaves = [any(v.name in graph.returned for v in node.outputs) for node in graph.nodes]
        self.post = post_dominators(self.readers, self.leaves)
        self.owner: dict[int, int] = {}
        self.members: dict[int, list[int]] = {}
        self.copies: dict[int, set[int]] = {}  # of each group, the movements copied into it
        self.holders: dict[int, list[int]] = {}  # of each such movement, the groups; these are products and reductions, and final
        self._cut_often: dict[int, bool] = {}
        self.cuts: dict[int, int] = {}  # the slices that are views, and where each begins, in bytes
        self.joins: dict[int, list[tuple[str, int]]] = {}  # the concats whose parts are written in place, and where each begins

    # -- the steps -------------------------------------------------------------------------------------------------

    def behind(self, kind: Kind) -> None:
        """Products, or reductions, with what follows them."""
        for n, facts in enumerate(self.facts):
            if facts.kind is not kind:
                continue
            self._start(n)
            last, turned = n, False
            while (goal := self.post[last]) is not None:
                path = self._path(last, goal)
                if path is None or any(m in self.owner for m in path) or len(self.members[n]) + len(path) > _LARGEST:
                    break
                if all(self._maps(m, self._value(last)) for m in path):
                    pass
                elif kind is Kind.COMPLEX and path == [goal] and not turned and self._turns(goal):
                    turned = True
                else:
                    break
                for m in path:
                    self._join(m, n)
                last = goal
            self._leave_bytes(n)

    def _leave_bytes(self, group: int) -> None:
        """Bytes that were made real numbers last leave a group as bytes: whoever reads them makes them real again."""
        while (last := self._root(group)) != group and self._widens(last) and not self.leaves[last]:
            self.members[group].remove(last)
            del self.owner[last]

    def pieces(self) -> None:
        """Slices that are views, and concats that their parts are written into."""
        taken: set[str] = set()
        for n, node in enumerate(self.nodes):
            if node.operator == "concat" and (parts := self._parts(n, taken)) is not None:
                self.joins[n] = parts
                taken.update(name for name, _ in parts)
            elif node.operator == "slice" and not self.leaves[n] and (start := cut(self.graph, node)) is not None:
                if self._in_memory(node.inputs[0]) or self._often_cut(node.inputs[0]):
                    self.cuts[n] = start

    def _parts(self, n: int, taken: set[str]) -> list[tuple[str, int]] | None:
        """The values that a concat may be written by, and where each begins in it; None if it takes a kernel.

        The value is the one that has the memory, where a part is a reshape of it. Those that have a place already are `taken`.
        """
        found = [(self._unreshaped(name), start) for name, start in joined(self.graph, self.nodes[n]) or ()]
        names = {name for name, _ in found}
        computed = all(name in self.place and self.place[name] not in self.cuts for name in names)
        if not found or not computed or len(names) < len(found) or names & taken:
            return None
        return found if len(found) > MANY or all(self._in_memory(name) for name in names) else None

    def _unreshaped(self, name: str) -> str:
        while name in self.place and self.nodes[self.place[name]].operator == "reshape":
            name = self.nodes[self.place[name]].inputs[0]
        return name

    def _in_memory(self, name: str) -> bool:
        """Whether a value, or what it is a reshape of, is in the network's own memory whatever reads it: not in the caller's, which
        kernels are given as a whole."""
        n = self.place.get(self._unreshaped(name))
        if n is None or n in self.joins or n in self.cuts:
            return n is not None
        if self.leaves[n]:
            return False
        return n == self._root(self.owner[n]) if n in self.owner else self.facts[n].kind > Kind.INJECTIVE

    def _often_cut(self, name: str) -> bool:
        """Whether so many slices are taken of a value that each would be another kernel's."""
        source = self.place.get(name)
        if source is None or len(self.readers[source]) <= MANY:
            return False
        if source not in self._cut_often:
            slices = [self.nodes[m] for m in self.readers[source] if self.nodes[m].operator == "slice"]
            self._cut_often[source] = sum(cut(self.graph, node) is not None for node in slices) > MANY
        return self._cut_often[source]

    def before_reductions(self) -> None:
        """Elementwise nodes that only one reduction reads."""
        for group in [n for n in self.members if self.facts[n].kind is Kind.REDUCTION]:
            todo = list(self.members[group])
            while todo:
                reader = todo.pop()
                for name in self.nodes[reader].inputs:
                    n = self.place.get(name)
                    if n is None or n in self.owner or self.facts[n].kind is not Kind.ELEMENTWISE or self.leaves[n]:
                        continue
                    alone = all(self.owner.get(m) == group for m in self.readers[n])
                    if alone and len(self.members[group]) < _LARGEST and self._worth_repeating(n, reader, name):
                        self._join(n, group)
                        todo.append(n)

    def movements(self) -> None:
        """Transposes and slices, which products and reductions read through."""
        taken: dict[int, set[int]] = {}
        for n in reversed(range(len(self.nodes))):
            if n in self.owner or n in self.cuts or self.leaves[n] or not self.readers[n]:
                continue
            if not self.facts[n].moves and not (self._widens(n) and self._only_mapped(n)):
                continue
            if any(self._far_apart(n, m) for m in self.readers[n]):
                continue
            groups = [{self.owner[m]} if m in self.owner else taken.get(m) for m in self.readers[n]]
            known = [g for g in groups if g is not None]
            if len(known) == len(groups):
                taken[n] = set().union(*known)
        for n, groups_of in taken.items():
            for group in groups_of:
                self.copies[group].add(n)
        for group in self.members:
            self._release_views(group)
        for group, copied in self.copies.items():
            for n in copied:
                self.holders.setdefault(n, []).append(group)

    def _release_views(self, group: int) -> None:
        """A reshape of what comes from outside stays outside."""
        for n in sorted(self.copies[group]):
            source = self.place.get(self.nodes[n].inputs[0])
            if self.nodes[n].operator == "reshape" and source not in self.copies[group]:
                self.copies[group].discard(n)

    def rest(self) -> None:
        """Elementwise nodes and movements among themselves."""
        copied = set().union(*self.copies.values()) if self.copies else set()
        for n in range(len(self.nodes)):
            if n not in self.owner and (n not in copied or self._needed_outside(n)) and not self._is_view(n):
                self._start(n)
        for n in range(len(self.nodes)):
            goal = self.post[n]
            if goal is None or not self._light(n):
                continue
            path = self._path(n, goal)
            if path is None:
                continue
            groups = {self.owner[m] for m in path if m in self.owner} | {self.owner[n]}
            if not all(self._light(m) for m in path) or sum(len(self.members[g]) for g in groups) > _LARGEST:
                continue
            inner = [n, *(m for m in path if m != goal)]
            if any(not self._follows(m, r) for m in inner for r in self.readers[m]):
                continue
            self._unite(groups, self.owner[goal])

    def together(self) -> None:
        """Two small elementwise groups of one shape, one of which reads the other: one kernel with two outputs."""
        farthest = self._farthest()
        for n in sorted(self.members, key=self._root):
            if n not in self.members or not self._all_light(n) or self._value(self._root(n)).elements > _SMALL:
                continue
            for reader in sorted({self.owner[m] for m in self.readers[self._root(n)] if m in self.owner}):
                if reader == n or not self._all_light(reader) or len(self.members[n]) + len(self.members[reader]) > _LARGEST:
                    continue
                if self._shape(self._root(n)) != self._shape(self._root(reader)) or not self._only_maps((n, reader)):
                    continue
                if self._outputs(n, reader) <= _MOST_OUTPUTS and not self._around(n, reader, farthest):
                    for m in range(min(self.members[n]), self._root(reader)):
                        farthest[m] = max(farthest[m], self._root(reader))
                    self._unite({n, reader}, reader)
                    break

    # -- groups ----------------------------------------------------------------------------------------------------

    def _is_view(self, n: int) -> bool:
        """Whether a node moves nothing, and so is in no group of its own."""
        return n in self.cuts or n in self.joins or self.nodes[n].operator == "reshape"

    def _start(self, n: int) -> None:
        self.owner[n] = n
        self.members[n] = [n]
        self.copies[n] = set()

    def _join(self, n: int, group: int) -> None:
        self.owner[n] = group
        self.members[group].append(n)

    def _unite(self, groups: set[int], kept: int) -> None:
        for g in groups - {kept}:
            for m in self.members.pop(g):
                self._join(m, kept)
            self.copies[kept] |= self.copies.pop(g)

    def _root(self, group: int) -> int:
        return max(self.members[group])

    def _needed_outside(self, n: int) -> bool:
        """Whether some reader of a movement does not have a copy of it (it reads a view that was released, say)."""
        for m in self.readers[n]:
            groups = [self.owner[m]] if m in self.owner else self.holders.get(m, [])
            if not groups or any(n not in self.copies[g] for g in groups):
                return True
        return self.leaves[n]

    # -- conditions ------------------------------------------------------------------------------------------------

    def _value(self, n: int) -> Value:
        return self.nodes[n].outputs[0]

    def _shape(self, n: int) -> tuple[int, ...]:
        return self._value(n).shape

    def _path(self, start: int, goal: int) -> list[int] | None:
        """All nodes on the ways from `start` (not included) to `goal` (included); None if they are more than a group may have."""
        found: set[int] = set()
        todo = list(self.readers[start])
        while todo:
            n = todo.pop()
            if n not in found:
                found.add(n)
                if len(found) > _LARGEST:
                    return None
                if n != goal:
                    todo += self.readers[n]
        return sorted(found)

    def _widens(self, n: int) -> bool:
        """Whether a node makes real numbers of bytes: reading the bytes instead costs less."""
        node = self.nodes[n]
        return node.operator == "dequantize" and self.graph.values[node.inputs[0]].dtype in ("i8", "u8")

    def _only_mapped(self, n: int) -> bool:
        """Whether all that read a node go through it once, element by element."""
        return all(self._maps(m, self._value(n)) for m in self.readers[n])

    def _maps(self, n: int, source: Value) -> bool:
        return self.facts[n].kind is Kind.ELEMENTWISE and self._shape(n) == source.shape

    def _turns(self, n: int) -> bool:
        """A transpose that leaves the last dimension last."""
        node = self.nodes[n]
        return (
            node.operator == "transpose"
            and bool(node.attributes["order"])
            and node.attributes["order"][-1] == len(self._shape(n)) - 1
        )

    def _far_apart(self, n: int, reader: int) -> bool:
        """Whether a convolution would read, through a transpose, many channels that lie far apart in memory; of bytes, several of
        which are taken at once, any."""
        if self.nodes[n].operator != "transpose" or self._turns(n) or "conv" not in self.nodes[reader].operator:
            return False
        return self._shape(n)[-1] > _FEW_CHANNELS or self.nodes[reader].operator == "integer_conv"

    def _light(self, n: int) -> bool:
        """A node of a group of elementwise nodes and movements."""
        return n in self.owner and self._all_light(self.owner[n])

    def _all_light(self, group: int) -> bool:
        return all(self.facts[m].kind <= Kind.INJECTIVE and len(self.nodes[m].outputs) == 1 for m in self.members[group])

    def _only_maps(self, groups: Sequence[int]) -> bool:
        shape = self._shape(self._root(groups[0]))
        maps = [m for g in groups for m in self.members[g] if self.facts[m].kind is Kind.ELEMENTWISE]
        return (
            all(self._shape(m) == shape for m in maps) and bool(maps) and self.facts[self._root(groups[0])].kind is Kind.ELEMENTWISE
        )

    def _follows(self, n: int, reader: int) -> bool:
        """Whether evaluating a node where its reader needs it costs no more than evaluating it once."""
        if not self.facts[n].expensive:
            return True
        once = self._value(reader).elements <= self._value(n).elements
        return once and (self.facts[reader].kind is Kind.ELEMENTWISE or self.facts[reader].moves)

    def _worth_repeating(self, n: int, reader: int, name: str) -> bool:
        if not self.facts[n].expensive or self.facts[reader].kind is not Kind.REDUCTION:
            return self._value(n).elements >= self._value(reader).elements or not self.facts[n].expensive
        return reads(self.graph, self.nodes[reader], name) <= _FEW_READS

    def _outputs(self, *groups: int) -> int:
        """How many values leave groups, if they become one."""
        inside = {m for g in groups for m in self.members[g]}
        return sum(self.leaves[m] or any(r not in inside for r in self.readers[m]) for m in inside)

    def _farthest(self) -> list[int]:
        """For each node the last one of all groups that begin no later."""
        found, last = [], 0
        for n in range(len(self.nodes)):
            groups = [*self.holders.get(n, []), *([self.owner[n]] if n in self.owner else [])]
            last = max([last, n, *map(self._root, groups)])
            found.append(last)
        return found

    def _around(self, first: int, second: int, farthest: list[int]) -> bool:
        """Whether a path leads from one group to another through a third."""
        end = self._root(second)  # from behind it, no path leads back, as no group lies on both sides
        while farthest[end] > end:
            end = farthest[end]
        todo = [m for n in self.members[first] for m in self.readers[n] if self.owner.get(m) not in (first, second)]
        seen: set[int] = set()
        while todo:
            n = todo.pop()
            if self.owner.get(n) == second:
                return True
            if n not in seen and n <= end:
                seen.add(n)
                whole = self.members[self.owner[n]] if n in self.owner else [n]
                holders = [m for g in self.holders.get(n, []) for m in self.members[g]]
                todo += [r for m in (*whole, *holders) for r in self.readers[m]] + holders
        return False

    # -- the result ------------------------------------------------------------------------------------------------

    def fusion(self) -> Fusion:
        inputs = {g: self._inputs(g) for g in self.members}
        needed = set(self.graph.returned).union(*inputs.values()) if inputs else set(self.graph.returned)
        views: dict[str, View] = {}
        for n in reversed(range(len(self.nodes))):
            node = self.nodes[n]
            if n not in self.owner and node.outputs[0].name in needed:
                if not self._is_view(n):
                    raise InternalError(f"fusion lost `{node}`")
                if n in self.joins:
                    views |= {name: View(node.outputs[0].name, start) for name, start in self.joins[n]}
                else:
                    views[node.outputs[0].name] = View(node.inputs[0], self.cuts.get(n, 0))
                needed.update(node.inputs)
        groups = []
        for g in self._ordered(inputs):
            nodes = sorted({*self.members[g], *self.copies[g]})
            outputs = [v.name for m in sorted(self.members[g]) for v in self.nodes[m].outputs if v.name in needed]
            outputs = [name for name in outputs if self._read_outside(name, g)]
            groups.append(Group(tuple(nodes), frozenset(self.copies[g]), tuple(outputs)))
        return Fusion(tuple(groups), {name: placed(name, views) for name in reversed(views)})

    def _inputs(self, group: int) -> list[str]:
        inside = {v.name for m in (*self.members[group], *self.copies[group]) for v in self.nodes[m].outputs}
        return [name for m in (*self.members[group], *self.copies[group]) for name in self.nodes[m].inputs if name not in inside]

    def _read_outside(self, name: str, group: int) -> bool:
        inside = {*self.members[group], *self.copies[group]}
        return name in self.graph.returned or any(m not in inside for m in self.readers[self.place[name]])

    def _ordered(self, inputs: dict[int, list[str]]) -> Iterator[int]:
        """Groups so that each follows those it reads: of those that may come next, the one whose root is first."""
        writers: dict[int, frozenset[int]] = {}  # of each view, the groups that write what it shows
        for n, node in enumerate(self.nodes):
            if n not in self.owner and self._is_view(n):
                writers[n] = frozenset().union(*(self._writers(name, writers) for name in node.inputs))
        behind: dict[int, list[int]] = {g: [] for g in inputs}
        waiting: dict[int, int] = {}
        for g, names in inputs.items():
            before = frozenset().union(*(self._writers(name, writers) for name in names))
            waiting[g] = len(before)
            for other in before:
                behind[other].append(g)
        ready = [(self._root(g), g) for g, count in waiting.items() if not count]
        heapq.heapify(ready)
        done = 0
        while ready:
            _, g = heapq.heappop(ready)
            yield g
            done += 1
            for reader in behind[g]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (self._root(reader), reader))
        if done < len(inputs):
            raise InternalError(f"fusion: groups of {self.graph.name} wait for each other")

    def _writers(self, name: str, writers: dict[int, frozenset[int]]) -> frozenset[int]:
        """The groups that write a value."""
        n = self.place.get(name)
        if n is None:
            return frozenset()
        if n in self.owner:
            return frozenset((self.owner[n],))
        return writers.get(n, frozenset())  # nobody writes what is only read through
