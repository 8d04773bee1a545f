"""What is built: code, constants and the plan of a network, as values. Nothing here has an address.

    Code       what a backend made of a program, or of the driver's text
    Kernel     the code of one program, and what it needs to run
    Network    kernels, the steps that call them, constants, the size of the arena; a single kernel is a network of one step

Such a value can be saved, sent to another process and made for another machine. What runs is an `Executable` of it.

Every argument of a step lies at a *place*: an input or an output of the network (the caller's own memory), a constant, or an offset
in the arena, which is planned so that values which never live together share memory. Values of their own begin at multiples of 64
bytes there, pieces of them at any element.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorsmith.errors import InternalError, UserError
from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.buffers import aligned_copy, round_up
from tensorsmith.show import units
from tensorsmith.show.line import line, many, plain, short_digest
from tensorsmith.targets.host import MOST_THREADS
from tensorsmith.targets.target import Target

INPUT, OUTPUT, CONSTANT, ARENA = KINDS = ("input", "output", "constant", "arena")

#: Makes a constant as the code wants it of the constant as the user has it.
Packer = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Code:
    """Generated code. `data` is what its backend can load: a CPU's is object code."""

    target: Target
    symbols: frozenset[str]  # the functions it exports
    data: bytes = field(repr=False)
    texts: Mapping[str, Callable[[], str]] = field(
        default_factory=dict, repr=False
    )  # by kind, as "llvm", "asm"; made when asked for
    seconds: Mapping[str, float] = field(default_factory=dict)  # that the compiler took, by step
    made_from: str = ""  # the key of its text, where code from elsewhere has to agree with this version's

    def __repr__(self) -> str:
        functions = ", ".join(sorted(self.symbols))
        return line(self, f"{functions} for {self.target.key}: {units.size(len(self.data))}", f" {self.digest}")

    @functools.cached_property
    def digest(self) -> str:
        """Eight digits that differ where code does."""
        return hashlib.sha256(self.data).hexdigest()[:8]

    def source(self, kind: str) -> str:
        """Its text of one kind."""
        if not self.texts:
            raise UserError("this code was loaded as machine code; compile its model again to see its text")
        if kind not in self.texts:
            raise UserError(f"code for {self.target.name} has no text {kind!r}; there is {', '.join(self.texts)}")
        return self.texts[kind]()


@dataclass(frozen=True)
class Kernel:
    """The code that steps run. `argument_bytes` is how much it may touch of each argument: `reads` inputs, then outputs.

    `replaceable` are the numbers of the inputs whose memory its one output may take; `packers` say by number how the constants are
    packed that the code wants in another layout.
    """

    name: str
    code: Code
    argument_bytes: tuple[int, ...]
    reads: int
    scratch_bytes: int = 0
    scratch_bytes_per_thread: int = 0
    flops: int = 0
    result: str = ""  # type and shape of what it gives, for people
    schedule: str = ""  # from where: "record", "carried" (from another size), "model" (no trial), "estimated", "default" or "plain"
    program: Callable[[], str] | None = None
    replaceable: frozenset[int] = frozenset()
    packers: Mapping[int, Packer] = field(default_factory=dict)
    found: Any = field(default=None, repr=False, compare=False)  # what it was built of, for those who build; files do not have it

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", plain(self.name))  # it is shown everywhere, and may come from a stranger's file

    def __repr__(self) -> str:
        how = f", {self.schedule}" if self.schedule else ""
        return line(self, self.name, f"{how}, {units.size(len(self.code.data))} of code {self.code.digest}")

    def scratch_for(self, threads: int) -> int:
        """Bytes of scratch memory that so many threads need."""
        return round_up(self.scratch_bytes) + threads * round_up(self.scratch_bytes_per_thread)

    @property
    def symbol(self) -> str:
        """The name of its entry: the one function that it exports."""
        (symbol,) = self.code.symbols
        return symbol


@dataclass(frozen=True)
class Place:
    """Where an argument lies: `at` is the number of an input, output or constant, or an offset in the arena."""

    kind: str
    at: int


@dataclass(frozen=True)
class Step:
    """One call of a kernel; a step without one copies `copied_bytes` from its first place to its second."""

    kernel: int | None
    places: tuple[Place, ...]
    copied_bytes: int = 0


@dataclass(frozen=True)
class Guard:
    """What a network's first `steps` are for: they find how far indices from data go, and the others run only if all are in bounds.

    Each of the `limits` says where in the arena the least and the largest index are (i64), and how many indices there are.
    """

    steps: int
    limits: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Network:
    """Everything a network needs to run.

    Its inputs may be constants that are not bound yet (`unbound`); `bind` makes a network of the remaining inputs. Until then those
    with a packer are packed on every call.
    """

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    constants: tuple[np.ndarray, ...]  # packed; each 64-byte aligned
    arena_bytes: int
    arena_threads: int = 0  # up to so many threads have their scratch memory at the beginning of the arena
    unbound: Mapping[str, Packer | None] = field(default_factory=dict)  # inputs that are constants, and how they are packed
    bound: Mapping[str, int] = field(default_factory=dict)  # numbers of the constants that were inputs
    driver: Code | None = None  # the code that runs the steps, where it came along
    threads: int | None = None  # that run it; None: as many as the process uses

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", plain(self.name))

    def __repr__(self) -> str:
        return line(self, signature(self), f": {made_of(self)}")

    @functools.cached_property
    def target(self) -> Target:
        """What its kernels were compiled for."""
        if self.kernels:
            return self.kernels[0].code.target
        return self.driver.target if self.driver else Target.native()

    def bind(self, constants: Mapping[str, np.ndarray]) -> Network:
        """The network of the remaining inputs. The arrays, of the inputs' types and shapes, are packed or copied now."""
        arrays, bound = list(self.constants), dict(self.bound)
        for name, array in constants.items():
            packer = self.unbound[name]
            bound[name] = len(arrays)
            arrays.append(aligned_copy(array if packer is None else packer(array)))
        left = [n for n, a in enumerate(self.inputs) if a.name not in constants]
        moved = {Place(INPUT, n): Place(INPUT, at) for at, n in enumerate(left)}
        moved |= {Place(INPUT, n): Place(CONSTANT, bound[a.name]) for n, a in enumerate(self.inputs) if a.name in constants}
        return replace(
            self,
            inputs=tuple(self.inputs[n] for n in left),
            steps=tuple(replace(s, places=tuple(moved.get(p, p) for p in s.places)) for s in self.steps),
            constants=tuple(arrays),
            unbound={name: packer for name, packer in self.unbound.items() if name not in constants},
            bound=bound,
        )

    def check_bound(self, done: str) -> None:
        """Raises `UserError` if it has constants that are packed on every call: what is to be `done` with it needs them packed."""
        packed = [name for name, packer in self.unbound.items() if packer is not None]
        if packed:
            first = packed[0]
            raise UserError(f"{', '.join(packed)} of {self.name} must be bound before it can be {done}: kernel.bind({first}=...)")

    def scratch_for(self, threads: int) -> int:
        """Bytes of scratch memory beyond the arena: none, if that was planned for as many threads."""
        if threads <= self.arena_threads:
            return 0
        return max((kernel.scratch_for(threads) for kernel in self.kernels), default=0)

    def check(self) -> Network:
        """Itself, if no step touches memory outside of what its places have, and none writes to an input or a constant."""
        sizes: dict[str, list[float]] = {
            INPUT: [float("inf") if self.unbound.get(a.name) else a.bytes for a in self.inputs],  # what a packer makes is as wanted
            OUTPUT: [argument.bytes for argument in self.outputs],
            CONSTANT: [array.nbytes for array in self.constants],
        }
        if not 0 <= self.arena_threads <= MOST_THREADS:
            raise InternalError(f"the arena is said to have room for {self.arena_threads} threads")
        for number, step in enumerate(self.steps):
            needed: tuple[int, ...]
            scratch = 0
            if step.kernel is None:
                needed, reads = (step.copied_bytes,) * 2, 1
            elif 0 <= step.kernel < len(self.kernels):
                kernel = self.kernels[step.kernel]
                needed, reads = kernel.argument_bytes, kernel.reads
                scratch = kernel.scratch_for(self.arena_threads) if self.arena_threads else 0
                if scratch > self.arena_bytes:
                    raise InternalError(f"step {number} needs {scratch} bytes of scratch memory, the arena has {self.arena_bytes}")
            else:
                raise InternalError(f"step {number} runs kernel {step.kernel}; there are {len(self.kernels)}")
            if len(step.places) != len(needed):
                raise InternalError(f"step {number} has {len(step.places)} arguments, its kernel takes {len(needed)}")
            for n, (place, size) in enumerate(zip(step.places, needed)):
                if place.kind == ARENA:
                    fits = size == 0 or (place.at >= scratch and place.at + size <= self.arena_bytes)
                else:
                    fits = 0 <= place.at < len(sizes[place.kind]) and size <= sizes[place.kind][place.at]
                if not fits or size < 0:
                    raise InternalError(f"argument {n} of step {number} needs {size} bytes, {place.kind} {place.at} has not")
                if n >= reads and place.kind in (INPUT, CONSTANT):
                    raise InternalError(f"step {number} writes to {place.kind} {place.at}")
        return self


def signature(network: Network) -> str:
    """`dense(x: f32[4, 8]) -> y: f32[4, 16]`"""
    return f"{network.name}({', '.join(map(str, network.inputs))}) -> {', '.join(map(str, network.outputs))}"


def made_of(network: Network) -> str:
    """`3 kernels in 5 steps for znver4 1a2b3c4d`; the digits are of all its code."""
    digest = short_digest("".join(kernel.code.digest for kernel in network.kernels))
    counts = f"{many(len(network.kernels), 'kernel')} in {many(len(network.steps), 'step')}"
    return f"{counts} for {network.target.name} {digest}"


def of_one_kernel(
    kernel: Kernel, inputs: Sequence[Argument], outputs: Sequence[Argument], constants: frozenset[str] = frozenset()
) -> Network:
    """The network that is a single call of a kernel. The inputs named in `constants`, and those it packs, may be bound."""
    packers = {a.name: kernel.packers.get(n) for n, a in enumerate(inputs)}
    places = [Place(INPUT, n) for n in range(len(inputs))] + [Place(OUTPUT, n) for n in range(len(outputs))]
    unbound = {name: packer for name, packer in packers.items() if packer is not None or name in constants}
    step = Step(0, tuple(places))
    return Network(kernel.name, tuple(inputs), tuple(outputs), (kernel,), (step,), (), 0, unbound=unbound)
