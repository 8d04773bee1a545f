"""Runs kernels: lanes, branches, barriers, memory."""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence

import numpy as np
from tests.backends.gpu.ptx import operations
from tests.backends.gpu.ptx.memory import UNSET, Memory, Watched
from tests.backends.gpu.ptx.operations import TYPES, Array
from tests.backends.gpu.ptx.parse import Instruction, Kernel, PtxError

from tensorsmith.backends.gpu.features.warp import sectors, wavefronts

WARP = 32
LANES = 1 << 14  # at once, in whole blocks
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_NOTHING = {"membar", "fence", "griddepcontrol", "discard", "prefetch", "nop"}
_ONE = {"neg", "abs", "not", "sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh", "popc", "clz"}


def run(
    kernel: Kernel,
    memory: Memory,
    grid: int,
    block: int,
    arguments: Sequence[int],
    *,
    only: Sequence[int] | None = None,
    steps: int | None = None,
) -> collections.Counter[str]:
    """Runs a launch (of the blocks `only`), and counts instructions of warps, sectors and wavefronts. Raises `PtxError` on races,
    on accesses out of bounds, on barriers that not all threads reach, and after that many `steps` of a group of blocks."""
    if kernel.threads is not None and block > kernel.threads:
        raise PtxError(f"{kernel.name} was compiled for {kernel.threads} threads at most, and is started with {block}")
    if len(arguments) != len(kernel.parameters):
        raise PtxError(f"{kernel.name} takes {len(kernel.parameters)} arguments, not {len(arguments)}")
    counts: collections.Counter[str] = collections.Counter()
    numbers = list(range(grid) if only is None else only)
    constants = {name: memory.put(np.frombuffer(data, np.uint8)) for name, data in kernel.constants.items()}
    watched = Watched(memory.end // 4, "device")
    together = max(1, LANES // block)
    for n in range(0, len(numbers), together):
        _Group(kernel, memory, watched, constants, numbers[n : n + together], grid, block, arguments, counts).run(steps)
    return counts


class _Group:
    """Some blocks that run at once."""

    def __init__(
        self,
        kernel: Kernel,
        memory: Memory,
        watched: Watched,
        constants: dict[str, int],
        blocks: list[int],
        grid: int,
        block: int,
        arguments: Sequence[int],
        counts: collections.Counter[str],
    ) -> None:
        self.kernel, self.memory, self.watched, self.counts = kernel, memory, watched, counts
        self.count = count = len(blocks) * block
        self.arguments = dict(zip((name for name, _ in kernel.parameters), arguments))
        self.block_threads = block
        thread = np.tile(np.arange(block), len(blocks))
        self.place = np.repeat(np.arange(len(blocks)), block)  # of a lane's block among these
        number = np.repeat(np.array(blocks), block)
        self.id = number * block + thread
        self.warp = self.place * -(-block // WARP) + thread // WARP
        self.lane = thread % WARP
        self.special = {"%tid.x": thread, "%ctaid.x": number, "%laneid": self.lane}
        self.special |= {"%ntid.x": np.full(count, block), "%nctaid.x": np.full(count, grid)}
        for axis in "yz":
            self.special |= {f"%tid.{axis}": 0 * thread, f"%ctaid.{axis}": 0 * thread}
            self.special |= {f"%ntid.{axis}": 0 * thread + 1, f"%nctaid.{axis}": 0 * thread + 1}
        self.symbols = {**kernel.shared, **constants}
        self.shared_bytes = -(-max(kernel.shared_bytes, 4) // 16) * 16
        self.shared = np.full(len(blocks) * self.shared_bytes, UNSET, np.uint8)
        small = any(i.words[0] in ("ld", "st") and "shared" in i.words[1:2] and i.type[1:] in ("8", "16") for i in kernel.code)
        self.unit = 1 if small else 4  # bytes that are watched together
        self.shared_watched = Watched(len(self.shared) // self.unit, "shared")
        self.epoch = np.zeros(len(blocks), np.int64)
        self.registers: dict[str, Array] = {}
        self.literals: dict[tuple[str, str], Array] = {}
        self.pc = np.zeros(count, np.int64)
        self.together: int | None = 0  # where all lanes are, if they are at one place
        self.warps = len(np.unique(self.warp))
        self.waiting = np.zeros(count, bool)
        self.meeting = np.zeros(count, bool)  # lanes that wait for the rest of their warp
        self.pending: list[list[tuple[Array, Array, Array, int]]] = [[]]  # groups of copies under way
        self.end = len(kernel.code)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, steps: int | None) -> None:
        """All lanes at the same place, which is usual, run without looking for those that are furthest behind."""
        done, everyone = 0, np.ones(self.count, bool)
        while True:
            if self.together is None:
                ready = (self.pc < self.end) & ~self.waiting & ~self.meeting
                if not ready.any():
                    if self.meeting.any():
                        raise PtxError("some lanes of a warp never come to where the others wait for them")
                    if not self.waiting.any():
                        return
                    self._release()
                    continue
                at = int(self.pc[ready].min())
                mask = ready & (self.pc == at)
                if mask.all():
                    self.together = at
                    continue
                self.pc[mask] += 1
            elif self.together >= self.end:
                return
            else:
                at, mask = self.together, everyone
                self.together += 1
            instruction = self.kernel.code[at]
            if instruction.predicate is not None:
                mask = mask & (self.registers[instruction.predicate] ^ instruction.negated)
            done += 1
            if steps is not None and done > steps:
                raise PtxError(f"{self.kernel.name} has not ended after {steps} steps")
            if mask is everyone or mask.any():
                try:
                    with np.errstate(all="ignore"):
                        self._execute(instruction, mask)
                except (KeyError, ValueError, IndexError) as problem:
                    raise PtxError(f"not known here: {instruction.text} ({type(problem).__name__}: {problem})") from problem

    def _go(self, mask: Array, to: int) -> None:
        """Some lanes go on elsewhere."""
        if self.together is not None:
            if mask.all():
                self.together = to
                return
            self._apart()
        self.pc[mask] = to

    def _apart(self) -> None:
        """From now on each lane is where it is."""
        if self.together is not None:
            self.pc[:] = self.together
            self.together = None

    def _release(self) -> None:
        """All that can wait for something do: everyone of a block has to be at the same barrier."""
        for block in np.unique(self.place[self.waiting]):
            own = self.place == block
            if not self.waiting[own].all() or np.ptp(self.pc[own]):
                raise PtxError(f"divergent barrier: only {int(self.waiting[own].sum())} of {int(own.sum())} threads reach it")
            self.epoch[block] += 1
        self.waiting[:] = False

    def _meet(self, mask: Array) -> None:
        """Lanes of a warp wait for the rest of it."""
        if mask.all():
            return
        self._apart()
        self.meeting |= mask
        for warp in np.unique(self.warp[mask]):
            own = self.warp == warp
            if self.meeting[own].all() and not np.ptp(self.pc[own]):
                self.meeting[own] = False

    def _execute(self, i: Instruction, mask: Array) -> None:
        name, o = i.words[0], i.operands
        kind = f"{name}.{i.words[1]}" if name in ("ld", "st") else name
        self.counts[kind] += self.warps if mask.all() else int(np.count_nonzero(np.bincount(self.warp[mask])))
        if name in ("bra", "ret", "exit", "trap"):
            if name == "trap":
                raise PtxError(f"trap in {self.kernel.name}")
            self._go(mask, self.kernel.labels[o[0]] if name == "bra" else self.end)
        elif name in ("bar", "barrier"):
            if "warp" in i.words:
                self._meet(mask)
                return
            self._apart()
            self.waiting[mask] = True
        elif name in ("ld", "st"):
            self._memory(i, mask)
        elif name == "cp":
            self._copy(i, mask)
        elif name == "atom" or name == "red":
            self._atomic(i, mask)
        elif name == "shfl":
            self._shuffle(i, mask)
        elif name == "mma":
            self._matrix(i, mask)
        elif name == "ldmatrix":
            self._load_matrix(i, mask)
        elif name == "setp":
            self._compare(i, mask)
        elif name == "selp":
            a, b = self.value(o[1], i.type), self.value(o[2], i.type)
            self.put(o[0], np.where(self.registers[o[3]], a, b), mask)
        elif name == "mov":
            self._move(i, mask)
        elif name in ("cvta", "isspacep"):
            self.put(o[0], self.value(o[1], i.type), mask)
        elif name == "cvt":
            source = [w for w in i.words if w in TYPES][-1]
            if i.words[1:] == ("rn", "f16x2", "f32"):
                high, low = (self.value(x, source).astype(np.float16).view(np.uint16) for x in o[1:])
                self.put(o[0], high.astype(np.uint32) << np.uint32(16) | low, mask)
                return
            if i.words[-1].endswith("x2") or "f16x2" in i.words:
                raise PtxError(f"not known here: {i.text}")
            self.put(o[0], operations.converted(i, self.value(o[1], source)), mask)
        elif name in ("shl", "shr"):
            self.put(o[0], operations.shifted(i, self.value(o[1], i.type), self.value(o[2], "u32")), mask)
        elif name in ("fma", "mad"):
            self._fused(i, mask)
        elif name == "bfe":
            value, start, length = self.value(o[1], i.type), self.value(o[2], "u32"), self.value(o[3], "u32")
            self.put(o[0], operations.field(value, start, length), mask)
        elif name == "bfi":
            a, b = self.value(o[1], i.type), self.value(o[2], i.type)
            self.put(o[0], operations.inserted(a, b, self.value(o[3], "u32"), self.value(o[4], "u32")), mask)
        elif name in _NOTHING:
            pass
        elif name in _ONE:
            self.put(o[0], self._halves(i, [o[1]], lambda a: operations.one(i, a)), mask)
        else:
            self.put(o[0], self._halves(i, [o[1], o[2]], lambda a, b: operations.two(i, a, b)), mask)

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self, operand: str, kind: str) -> Array:
        """What an operand is in each lane, as a type."""
        to = TYPES[kind]
        if operand in self.registers:
            found = self.registers[operand]
        elif operand in self.special:
            found = self.special[operand].astype(np.uint32)
        elif operand in self.symbols:
            found = np.full(self.count, self.symbols[operand], np.uint64)
        elif operand == "WARP_SZ":
            found = np.full(self.count, WARP, np.uint32)
        elif (operand, kind) in self.literals:
            return self.literals[operand, kind]
        elif re.fullmatch(r"0[fF][0-9a-fA-F]{8}", operand):
            found = np.full(self.count, int(operand[2:], 16), np.uint32)
        elif re.fullmatch(r"0[dD][0-9a-fA-F]{16}", operand):
            found = np.full(self.count, int(operand[2:], 16), np.uint64)
        elif re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", operand):
            bits = 8 * np.dtype(to).itemsize
            number = np.full(self.count, int(operand.rstrip("U"), 0) % (1 << bits), _UNSIGNED[bits // 8]).view(to)
            return self.literals.setdefault((operand, kind), number)
        else:
            raise PtxError(f"{operand} is read before it is written, or is not known here")
        if found.dtype == np.bool_ or to is np.bool_:
            return found if to is np.bool_ else found.astype(to)
        if found.dtype.itemsize == np.dtype(to).itemsize:
            return found.view(to)
        return found.astype(_UNSIGNED[np.dtype(to).itemsize]).view(to)

    def put(self, name: str, value: Array, mask: Array) -> None:
        """A register's new value in some lanes."""
        if name == "_":
            return
        if value.dtype != np.bool_:
            value = np.ascontiguousarray(value).view(_UNSIGNED[value.dtype.itemsize])
        before = self.registers.get(name)
        if mask.all() or before is None or before.dtype != value.dtype:
            self.registers[name] = value.copy()
        else:
            self.registers[name] = np.where(mask, value, before)

    def _halves(self, i: Instruction, operands: list[str], compute: object) -> Array:
        """An operation, on pairs of f16 in one register too."""
        assert callable(compute)
        if not i.type.endswith("x2"):
            found = compute(*(self.value(x, i.type) for x in operands))
            assert isinstance(found, np.ndarray)
            return found
        pairs = [np.ascontiguousarray(self.value(x, "b32")).view(np.float16) for x in operands]
        return np.ascontiguousarray(compute(*pairs)).view(np.uint32)

    def _fused(self, i: Instruction, mask: Array) -> None:
        o = i.operands
        if "wide" in i.words:
            third = "u64" if i.type.endswith("32") else "u32"
            found = operations.three(i, self.value(o[1], i.type), self.value(o[2], i.type), self.value(o[3], third))
        else:
            found = self._halves(i, [o[1], o[2], o[3]], lambda a, b, c: operations.three(i, a, b, c))
        self.put(o[0], found, mask)

    def _compare(self, i: Instruction, mask: Array) -> None:
        o = i.operands
        found = operations.compare(i.words, self.value(o[1], i.type), self.value(o[2], i.type))
        if i.words[2] in ("and", "or", "xor"):
            other = self.registers[o[3].lstrip("!")]
            found = operations.combined(i.words, found, ~other if o[3][0] == "!" else other)
        for n, name in enumerate(o[0].split("|")):
            self.put(name, ~found if n else found, mask)

    def _move(self, i: Instruction, mask: Array) -> None:
        """A register, or several as the parts of a wider one."""
        to, source = i.operands
        if to[0] == "{":
            parts = _names(to)
            size = int(i.type[1:]) // 8 // len(parts)
            whole = np.ascontiguousarray(self.value(source, i.type)).view(_UNSIGNED[size]).reshape(self.count, len(parts))
            for n, part in enumerate(parts):
                self.put(part, whole[:, n].copy(), mask)
        elif source[0] == "{":
            parts = _names(source)
            kind = f"b{int(i.type[1:]) // len(parts)}"
            whole = np.stack([self.value(x, kind) for x in parts], axis=1)
            self.put(to, np.ascontiguousarray(whole).view(TYPES[i.type]).reshape(-1), mask)
        else:
            self.put(to, self.value(source, i.type), mask)

    # -- memory --------------------------------------------------------------------------------------------------------

    def _address(self, operand: str) -> Array:
        base, _, offset = operand[1:-1].partition("+")
        return self.value(base.strip(), "s64") + int(offset or 0)

    def _memory(self, i: Instruction, mask: Array) -> None:
        load = i.words[0] == "ld"
        names = _names(i.operands[0] if load else i.operands[1])
        if i.words[1] == "param":
            base, _, offset = i.operands[1][1:-1].partition("+")
            given = self.arguments[base.strip()] >> 8 * int(offset or 0)
            self.put(names[0], np.full(self.count, given % (1 << int(i.type[1:])), TYPES[f"u{i.type[1:]}"]), mask)
            return
        size = int(i.type[1:]) // 8
        address = self._address(i.operands[1] if load else i.operands[0])[mask]
        space = i.words[1] if i.words[1] in ("shared", "global", "const", "local") else "global"
        self._count(space, load, address, mask, size * len(names))
        if space == "shared":
            address = self._shared_address(address, mask, size * len(names), i)
            data = self.shared
        else:
            self.memory.check(address, size * len(names), i.text)
            data = self.memory.data
        if space in ("shared", "global"):
            self._watch(space, load, address, mask, size * len(names))
        words = data.view(_UNSIGNED[size])
        for n, name in enumerate(names):
            at = address // size + n
            if load:
                value = np.zeros(self.count, _UNSIGNED[size])
                value[mask] = words[at]
                self.put(name, self._widened(name, value, i), mask)
            else:
                words[at] = self.value(name, f"u{8 * size}")[mask]

    def _widened(self, name: str, value: Array, i: Instruction) -> Array:
        """Bytes are loaded into wider registers, with their sign if they have one."""
        if value.dtype.itemsize > 1:
            return value
        return value.view(np.int8).astype(np.int16) if i.type[0] == "s" else value.astype(np.uint16)

    def _shared_address(self, address: Array, mask: Array, size: int, i: Instruction) -> Array:
        if (address % size).any():
            raise PtxError(f"misaligned: {i.text}")
        if ((address < 0) | (address + size > self.kernel.shared_bytes)).any():
            bad = address[(address < 0) | (address + size > self.kernel.shared_bytes)]
            raise PtxError(f"out of bounds: {i.text} at {int(bad[0])} of {self.kernel.shared_bytes} bytes of shared memory")
        return address + self.place[mask] * self.shared_bytes

    def _watch(self, space: str, load: bool, address: Array, mask: Array, size: int) -> None:
        watched, unit = (self.shared_watched, self.unit) if space == "shared" else (self.watched, 4)
        count = max(1, size // unit)
        units = (address[:, None] // unit + np.arange(count)).reshape(-1)
        if unit == 4 and size < 4:  # neighbours in one word of device memory are told apart by nobody
            return
        thread, epoch = np.repeat(self.id[mask], count), np.repeat(self.epoch[self.place[mask]], count)
        same = watched.writer[units] // self.block_threads == thread // self.block_threads
        (watched.read if load else watched.write)(units, thread, epoch, same)

    def _count(self, space: str, load: bool, address: Array, mask: Array, size: int) -> None:
        """Sectors and wavefronts of an access, warp by warp."""
        if space not in ("shared", "global"):
            return
        warps, row = np.unique(self.warp[mask], return_inverse=True)
        start, there = np.zeros((len(warps), WARP), np.int64), np.zeros((len(warps), WARP), bool)
        start[row, self.lane[mask]], there[row, self.lane[mask]] = address, True
        first = there.argmax(axis=1)[:, None]
        start = np.where(there, start, np.take_along_axis(start, first, 1))  # lanes that are not there do as the first that is
        word = "load" if load else "store"
        if space == "shared":
            self.counts[f"{word} wavefronts"] += int(wavefronts(start, np.ones_like(there), np.array(size)).sum())
        else:
            self.counts[f"{word} sectors"] += int(sectors(start, np.ones_like(there), np.array(size)).sum())

    def _copy(self, i: Instruction, mask: Array) -> None:
        """Copies that go on while threads do: nothing has arrived before it is waited for."""
        if "commit_group" in i.words:
            self.pending.append([])
        elif "wait_group" in i.words or "wait_all" in i.words:
            left = int(i.operands[0]) if "wait_group" in i.words else 0
            keep = len(self.pending) - 1 - left if "wait_group" in i.words else len(self.pending)
            for group in self.pending[: max(0, keep)]:
                for lanes, to, source, size in group:
                    self._arrive(i, lanes, to, source, size)
                group.clear()
        else:
            size = int(i.operands[2])
            to, source = self._address(i.operands[0])[mask], self._address(i.operands[1])[mask]
            self._count("global", True, source, mask, size)
            self.memory.check(source, size, i.text)
            self.pending[-1].append((mask, self._shared_address(to, mask, size, i), source, size))

    def _arrive(self, i: Instruction, mask: Array, to: Array, source: Array, size: int) -> None:
        self._watch("shared", False, to, mask, size)
        for n in range(size):
            self.shared[to + n] = self.memory.data[source + n]

    def _atomic(self, i: Instruction, mask: Array) -> None:
        """Lane by lane; `add`, `max` and `min`."""
        red = i.words[0] == "red"
        where, value = i.operands[0 if red else 1], i.operands[1 if red else 2]
        address, size = self._address(where)[mask], int(i.type[1:]) // 8
        shared = "shared" in i.words
        if shared:
            address = self._shared_address(address, mask, size, i)
        else:
            self.memory.check(address, size, i.text)
        data = (self.shared if shared else self.memory.data).view(TYPES[i.type])
        given, old = self.value(value, i.type), np.zeros(self.count, TYPES[i.type])
        compute = next(f for w, f in (("add", np.add), ("max", np.maximum), ("min", np.minimum)) if w in i.words)
        for lane, at in zip(np.flatnonzero(mask), address // size):
            old[lane] = data[at]
            data[at] = compute(data[at], given[lane])
        if not red:
            self.put(i.operands[0], old, mask)

    # -- what the threads of a warp do together ------------------------------------------------------------------------

    def _shuffle(self, i: Instruction, mask: Array) -> None:
        """`shfl.sync`: a value of another lane of the warp."""
        o = i.operands
        to, _, predicate = o[0].partition("|")
        given, by, clamp = self.value(o[1], "b32"), self.value(o[2], "s32"), self.value(o[3], "s32")
        segment = (clamp >> 8) & 31
        low, high = self.lane & segment, (self.lane & segment) | ((clamp & 31) & ~segment)
        mode = i.words[2]
        source = {
            "up": self.lane - by, "down": self.lane + by, "bfly": self.lane ^ by, "idx": low | (by & ~segment & 31),
        }[mode]  # fmt: skip
        inside = source >= high if mode == "up" else source <= high
        source = np.where(inside, source, self.lane)
        at = np.arange(self.count) - self.lane + source
        if (at >= self.count).any() or not mask[at[mask]].all():
            raise PtxError(f"a lane that takes no part is asked: {i.text}")
        self.put(to, given[at], mask)
        if predicate:
            self.put(predicate, inside, mask)

    def _load_matrix(self, i: Instruction, mask: Array) -> None:
        """`ldmatrix.m8n8`: pieces of 8 x 8 f16, each from eight rows of 16 bytes that eight lanes name. Each is a wavefront at
        least; lanes whose rows no piece needs name nothing."""
        to = _names(i.operands[0])
        pieces = {"x1": 1, "x2": 2, "x4": 4}[next(w for w in i.words if w in ("x1", "x2", "x4"))]
        if i.words[-1] != "b16" or len(to) != pieces:
            raise PtxError(f"not known here: {i.text}")
        if self.block_threads % WARP or not all(mask[self.warp == w].all() for w in np.unique(self.warp[mask])):
            raise PtxError(f"not all lanes of a warp take part: {i.text}")
        row, group, within = self.lane // 8, self.lane // 4, self.lane % 4
        address = self._address(i.operands[1])
        for n, name in enumerate(to):
            named = mask & (row == n)
            start = self._shared_address(address[named], named, 16, i)
            warps = start.reshape(-1, 8)
            self.counts["load wavefronts"] += int(wavefronts(warps, np.ones_like(warps, bool), np.array(16)).sum())
            self._watch("shared", True, start, named, 16)
            halves = self.shared.view(np.uint16)[warps[:, :, None] // 2 + np.arange(8)]  # [warps, rows, elements]
            value = np.zeros(self.count, np.uint32)
            for half in range(2):
                places = (2 * within + half, group) if "trans" in i.words else (group, 2 * within + half)
                own = halves[np.repeat(np.arange(len(warps)), WARP), places[0][mask], places[1][mask]]
                value[mask] |= own.astype(np.uint32) << np.uint32(16 * half)
            self.put(name, value, mask)
        self.counts["ld.shared"] += self.warps if mask.all() else int(np.count_nonzero(np.bincount(self.warp[mask])))

    def _matrix(self, i: Instruction, mask: Array) -> None:
        if "m16n8k16" not in i.words or i.words[-4:] != ("f32", "f16", "f16", "f32"):
            raise PtxError(f"not known here: {i.text}")
        if self.block_threads % WARP or not all(mask[self.warp == w].all() for w in np.unique(self.warp[mask])):
            raise PtxError(f"not all lanes of a warp take part: {i.text}")
        to, *given = (_names(x) for x in i.operands)
        a, b = ([self.value(x, "b32").reshape(-1, WARP) for x in names] for names in given[:2])
        c = [self.value(x, "f32").reshape(-1, WARP) for x in given[2]]
        for name, value in zip(to, operations.matrix_product(a, b, c)):
            self.put(name, value.reshape(-1), mask)


def _names(operand: str) -> list[str]:
    return [x.strip() for x in operand.strip("{}").split(",")]
