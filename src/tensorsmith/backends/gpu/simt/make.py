"""From a loop program to kernels: one for each nest at the root.

The loops of a root nest that are bound become the numbers of block and thread:

    block i.0 < 4: thread j.0 < 32: ...         ->    let i.0 = block; let j.0 = thread

The loops of a nest attached inside that the threads share are dealt out to them:

    thread i.0 < 16: thread k.0 < 8: A   ->    for round < 2: let e = round * 64 + thread; let i.0 = e / 8, k.0 = e % 8

Virtual threads are played one after the other, but a loop that all threads of a block go through together (because something is
fetched in it) is gone through once, and the virtual threads are played inside of it, as another loop of each tile; each has
elements of its own in private arrays.

    vthread i.1 < 2: for k.0: { fetch A; for k.1: use A }    ->    for k.0: { fetch A; for k.1: for i.1 < 2: use A }

A barrier is put where a thread may read what another has stored since the last one, or store over what another may still read. In
loops, what was read and stored at the end of a round counts for the beginning of the next.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

from tensorsmith.backends.gpu.loops import grid_loops
from tensorsmith.backends.gpu.simt import ir
from tensorsmith.backends.gpu.simt.ahead import fetched_ahead, made_apart
from tensorsmith.backends.gpu.simt.barriers import Since
from tensorsmith.backends.gpu.simt.blocks import Blocks
from tensorsmith.backends.gpu.simt.dealing import dealt, steps_of
from tensorsmith.backends.gpu.simt.ir import Array, Barrier, For, If, Kernel, Let, Statement, Store
from tensorsmith.backends.gpu.simt.tiles import matrix_tiles
from tensorsmith.backends.gpu.simt.values import Values, number
from tensorsmith.errors import Refusal
from tensorsmith.lang.dtypes import dtype
from tensorsmith.lang.expr import Binary, Expr, Var, loads
from tensorsmith.program.ir import Block, Loop, LoopVar, Node, Program, blocks, loop_vars, own_block
from tensorsmith.space.sketch.loops import BLOCK, THREAD, VTHREAD
from tensorsmith.space.sketch.rewrite import identity

PLAIN_THREADS = 64  # of a block, in nests that say nothing of threads

MOST_STATEMENTS = 20_000  # laid out in one kernel; compilers take minutes for more
MOST_PRIVATE_BYTES = 16 << 10  # of one thread; what does not fit its registers is in device memory


def kernels(program: Program, apart: bool = False, ahead: bool = True) -> list[Kernel]:
    """The kernels of a program, in the order in which they run. Copies that fetch ahead may be made `apart`; without `ahead` none
    do, and second places for tiles are left unused."""
    return [_Maker(program, node, apart, ahead).kernel() for node in program.body]


class _Maker:
    def __init__(self, program: Program, root: Node, apart: bool, ahead: bool) -> None:
        self.program, self.root, self.apart, self.ahead = program, root, apart, ahead
        self.stage = own_block(root).stage
        self.loops = loop_vars(program)
        self.copies: dict[str, tuple[LoopVar, ...]] = {}
        self.values = Values(program, self.loops, self.copies)
        self.private: dict[str, Array] = {}
        self.own = [v for v in self.loops.values() if v.stage == self.stage.name]
        self.grid_loops = grid_loops(self.root, self.own)
        threads = [v for v in self._in_order() if v.bound == THREAD]
        self.threads = math.prod(int(v.count) for v in threads)
        given = program.decisions.get(f"{self.stage.name}.threads")
        if self.grid_loops or given is not None:
            self.threads = PLAIN_THREADS if given is None else int(given)
        self.dealt_own = given is not None and not self.grid_loops  # its reduction's steps, to as many threads as are given
        self.lets = [] if self.dealt_own else steps_of(ir.THREAD, threads)
        self.since = Since()

    # -- the whole -----------------------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        steps = [v for v in self._in_order() if v.bound == BLOCK]
        grid = math.prod(int(v.count) for v in steps)
        body = [*steps_of(ir.BLOCK, steps), *self.lets]
        if self.grid_loops:
            total = math.prod(int(v.count) for v in self.grid_loops)
            grid = -(-total // self.threads)
            body += self._dealt_to_all(total)
        else:
            body += self._nodes([self.root], ())
        used = {name for s in ir.walk(body) for name in _touched(s)}
        arrays = tuple(a for a in [*self._arguments(), *self._shared(), *self.private.values()] if a.name in used)
        kernel = Kernel(self.stage.name, grid, self.threads, arrays, tuple(body))
        if ir.laid_out(body) > MOST_STATEMENTS:
            raise Refusal("code too large", f"{kernel.name} has more than {MOST_STATEMENTS} statements")
        if kernel.private_bytes > MOST_PRIVATE_BYTES:
            raise Refusal("too many registers", f"{kernel.name} needs {kernel.private_bytes} bytes for each thread")
        return kernel

    def _in_order(self) -> list[LoopVar]:
        """The root nest's own loops, outermost first."""
        found, node = [], self.root
        while isinstance(node, Loop):
            found.append(node.var)
            node = node.body[-1]
        return [*found, *node.tile, *node.reduce]

    def _arguments(self) -> list[Array]:
        kinds = {"input": False, "constant": False, "output": True, "scratch": True}
        return [
            Array(b.name, b.dtype, self.values.elements(b), ir.GLOBAL, kinds[b.kind] and b.name == self.stage.name)
            for b in self.program.buffers.values()
            if b.kind in kinds
        ]

    def _shared(self) -> list[Array]:
        buffers = self.program.buffers.values()
        return [Array(b.name, b.dtype, self.values.elements(b), ir.SHARED) for b in buffers if b.kind == "shared"]

    # -- numbers of blocks and threads ---------------------------------------------------------------------------------

    def _dealt_to_all(self, total: int) -> list[Statement]:
        """The loops that threads of all blocks share, and what is inside of them."""
        name = f"{self.stage.name}.point"
        node = self.root
        inner: tuple[Node, ...] = ()
        for _ in self.grid_loops:
            assert isinstance(node, Loop)
            inner, node = node.body, node.body[-1]
        if any(self._cooperates(n) for n in inner):
            raise Refusal("cannot share", f"{self.stage.name} is computed by threads of all blocks, what is inside by those of one")
        point: Statement = Let(
            name,
            Binary("add", Binary("mul", ir.BLOCK, number(self.threads)), ir.THREAD),
            max(1, -(-total // self.threads) * self.threads),
        )
        body = [*steps_of(Var(name), self.grid_loops), *self._nodes(inner, ())]
        if total % self.threads == 0:
            return [point, *body]
        return [point, If(Binary("lt", Var(name), number(total)), tuple(body))]

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _cooperates(self, node: Node) -> bool:
        """Whether the threads of a block do something together below a node."""
        if isinstance(node, Loop):
            return (node.var.bound == THREAD and node.var.stage != self.stage.name) or any(map(self._cooperates, node.body))
        return any(v.bound == THREAD for v in node.reduce) or any(map(self._cooperates, node.before))

    def _nodes(self, nodes: Sequence[Node], playing: tuple[LoopVar, ...]) -> list[Statement]:
        """Nodes one after the other, all but the last attached there; `playing` are virtual threads not played yet."""
        found: list[Statement] = []
        for node in nodes:
            if own_block(node).stage is not self.stage:
                found += self._begin(node, playing)
            found += self._node(node, playing)
        return found

    def _begin(self, node: Node, playing: tuple[LoopVar, ...]) -> list[Statement]:
        """The memory of a nest that is computed by each thread for itself, and what sums in it start from."""
        block = own_block(node)
        buffer = self.program.buffers[block.stage.name]
        if buffer.kind != "local" or buffer.name in self.private:
            return []
        self.copies[buffer.name] = playing
        array = Array(buffer.name, buffer.dtype, self.values.elements(buffer), ir.PRIVATE)
        self.private[buffer.name] = array
        if not block.stage.reduction:
            return []
        name = f"{buffer.name}.element"
        start = Store(buffer.name, Var(name), identity(block.stage.reduction, buffer.dtype))
        return [For(name, array.elements, (start,), array.elements)]

    def _node(self, node: Node, playing: tuple[LoopVar, ...]) -> list[Statement]:
        if not self._cooperates(node):
            return self._alone(node, playing)
        if isinstance(node, Block):
            before = self._nodes(node.before, playing)
            if any(v.bound == THREAD for v in node.reduce):
                return [*before, *self._together(node)]
            return [*before, *self._waited(self._block(node, playing), [node])]
        if node.var.bound == VTHREAD:
            return self._nodes(node.body, (*playing, node.var))
        if node.var.bound == THREAD and node.var.stage != self.stage.name:
            return self._dealt(node)
        if node.var.bound or int(node.var.count) == 1:
            return self._nodes(node.body, playing)
        if self.ahead and self._fetches_ahead(node):
            return self._ahead(node, playing)
        return [self._loop(node, playing)]

    def _fetches_ahead(self, node: Loop) -> bool:
        """Whether all that is fetched in a loop has a second place."""
        first, own = _fetched_first(node)
        fetched = [self.program.buffers[own_block(n).stage.name] for n in first]
        return bool(fetched) and all(int(b.buffers) == 2 for b in fetched) and not self._cooperates(own)

    def _ahead(self, node: Loop, playing: tuple[LoopVar, ...]) -> list[Statement]:
        """A loop in which what the next round uses is fetched before this one is computed."""
        fetched, own = _fetched_first(node)
        fetch = [s for n in fetched if isinstance(n, Loop) for s in self._deal_nest(n)]
        sizes = {b.name: self.values.elements_of_one(b) for n in fetched for b in [self.program.buffers[own_block(n).stage.name]]}
        if self.apart:
            fetch = made_apart(fetch, {name: dtype(self.program.buffers[name].dtype).bytes for name in sizes})
        made = fetched_ahead(node.var.name, int(node.var.count), fetch, self._plain(own, playing), sizes)
        arrays = frozenset(sizes)
        waits = self.since.clashes(Since(stored=arrays))
        self.since = Since(arrays, arrays)
        return [Barrier(), *made] if waits else made

    def _loop(self, node: Loop, playing: tuple[LoopVar, ...]) -> Statement:
        """A loop that all threads go through together: a round begins with what was read and stored at the end of another."""
        before, private = self.since, dict(self.private)
        self._nodes(node.body, playing)
        self.since, self.private = self.since | before, private
        return For(node.var.name, int(node.var.count), tuple(self._nodes(node.body, playing)))

    def _alone(self, node: Node, playing: tuple[LoopVar, ...]) -> list[Statement]:
        """What each thread does for itself."""
        return self._waited(self._plain(node, playing), list(blocks(node)))

    def _block(self, block: Block, playing: tuple[LoopVar, ...]) -> list[Statement]:
        """A block for all virtual threads: as a larger tile, so that they share what they load."""
        whole = replace(block, tile=(*playing, *block.tile))
        if f"{block.stage.name}.matrix" in self.program.decisions:
            return matrix_tiles(whole, self.values, self.stage, self._in_order())
        return self._blocks().block(whole)

    def _plain(self, node: Node, playing: tuple[LoopVar, ...] = ()) -> list[Statement]:
        if isinstance(node, Block):
            before = [s for n in node.before for s in (*self._begin(n, playing), *self._plain(n, playing))]
            return [*before, *self._block(node, playing)]
        body = []
        for inner in node.body:
            if own_block(inner).stage is not own_block(node).stage:
                body += self._begin(inner, playing)
            body += self._plain(inner, playing)
        v = node.var
        if (v.bound and v.bound != VTHREAD and v.stage == self.stage.name) or int(v.count) == 1:
            return body
        private = self.program.buffers[own_block(node).stage.name].kind == "local"
        laid_out = v.bound == VTHREAD or (private and not v.reduce) or node.unrolled
        return [For(v.name, int(v.count), tuple(body), int(v.count) if laid_out else 1)]

    # -- what threads do together --------------------------------------------------------------------------------------

    def _dealt(self, node: Loop) -> list[Statement]:
        """A nest that the threads of the block share."""
        return self._waited(self._deal_nest(node), list(blocks(node)))

    def _deal_nest(self, node: Loop) -> list[Statement]:
        """The steps of a nest's loops, dealt out to the threads of the block."""
        loops, inner = [node.var], node.body
        while len(inner) == 1 and isinstance(inner[0], Loop) and inner[0].var.bound == THREAD:
            loops.append(inner[0].var)
            inner = inner[0].body
        if any(self._cooperates(n) for n in inner):
            raise Refusal("cannot share", f"loops of {node.var.stage} are shared by threads that share more inside of them")
        body = [s for n in inner for s in (*self._begin(n, ()), *self._plain(n))]
        total = math.prod(int(v.count) for v in loops)
        run = int(self.program.decisions.get(f"{node.var.stage}.run", 1))
        return dealt(self.threads, total, loops, body, f"{node.var.stage}.step", run)

    def _together(self, block: Block) -> list[Statement]:
        """A reduction that threads share: each reduces a part, and then they reduce what they have, two by two."""
        own = block.stage.name == self.stage.name and not self.dealt_own  # then its loops are numbers of threads already
        parts = self._blocks().block_parts(block, None if own else functools.partial(dealt, self.threads))
        lanes = math.prod(int(v.count) for v in block.reduce if v.bound == THREAD) if own else self.threads
        lane: Expr = ir.THREAD if lanes == self.threads else Binary("mod", ir.THREAD, number(lanes))
        name = f"{block.stage.name}.partial"
        self.private.setdefault(name, Array(name, block.stage.dtype, self.threads, ir.SHARED))
        found = self._waited(parts.compute, [block], stores=False)
        if self.since.clashes(Since(stored=frozenset({name}))):  # of the last round, which some threads may not have left
            found.append(Barrier())
        found += self._blocks().combine(block, parts, name, lanes, lane)
        self.since = Since(frozenset({name}), frozenset({name, block.stage.name}))
        return found

    def _waited(self, body: list[Statement], found: Sequence[Block], stores: bool = True) -> list[Statement]:
        """Statements that are made of blocks, behind a barrier if they need one."""
        shared = {b.name for b in self.program.buffers.values() if b.kind == "shared"}
        read = frozenset(x.tensor for b in found for x in b.stage.reads if x.tensor in shared)
        own = {b.stage.name for b in found}
        next_ = Since(read, frozenset(own & shared) if stores else frozenset())
        if self.since.clashes(next_):
            self.since = next_
            return [Barrier(), *body]
        self.since = self.since | next_
        return body

    def _blocks(self) -> Blocks:
        return Blocks(self.program, self.values, self.private)


def _fetched_first(node: Loop) -> tuple[tuple[Node, ...], Node]:
    """What is attached in a loop, and the loop's own: where it is the innermost, what is attached belongs to the block."""
    own = node.body[-1]
    if len(node.body) == 1 and isinstance(own, Block):
        return own.before, replace(own, before=())
    return node.body[:-1], own


def _touched(s: Statement) -> set[str]:
    """The arrays that a statement itself reads or stores to."""
    if isinstance(s, Store):
        return {s.array} | {x.tensor for e in (s.index, s.value) for x in loads(e)}
    if isinstance(s, ir.Move):
        return {s.array, s.source}
    if isinstance(s, ir.Multiply):
        return {s.array} | {x.tensor for x in (*s.left, *s.right)}
    return {x.tensor for x in loads(s.condition)} if isinstance(s, If) else set()
