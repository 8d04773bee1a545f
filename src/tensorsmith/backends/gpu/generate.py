"""From a loop program to code: kernels, checked against the target's limits, printed for its driver."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Sequence

from tensorsmith.backends.backend import KernelCode
from tensorsmith.backends.gpu.launch import Launch, Launches
from tensorsmith.backends.gpu.printers.c import source
from tensorsmith.backends.gpu.printers.dialects import DIALECTS
from tensorsmith.backends.gpu.printers.machines import MACHINES
from tensorsmith.backends.gpu.printers.names import entry
from tensorsmith.backends.gpu.simt.ir import Kernel
from tensorsmith.backends.gpu.simt.make import kernels as make_kernels
from tensorsmith.backends.gpu.simt.text import show
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.errors import Refusal
from tensorsmith.program.ir import Program
from tensorsmith.runtime.built import Code

_MOST_BLOCKS = (1 << 31) - 1
_MOST_THREADS = (1 << 32) - 1  # of a launch, as HIP counts them; no other counts fewer
_MOST_ELEMENTS = 1 << 31  # of an array; addresses are counted in 32 bits


def generate(program: Program, target: GpuTarget) -> KernelCode:
    """The code of a program. Raises `Refusal` where a kernel needs more than the target has."""
    kernels = make_kernels(program, target.copies_apart, target.fetches_ahead)
    for kernel in kernels:
        check_limits(kernel, target)
    launches = launches_of(program, kernels, target)
    texts: dict[str, Callable[[], str]] = {"kernels": functools.partial(_shown, kernels)}
    for name, dialect in DIALECTS.items():
        texts[name] = functools.partial(source, kernels, dialect)
    for name in MACHINES:
        texts[name] = functools.partial(_assembly, kernels, name, target)
    texts["llvm"] = functools.partial(_llvm, kernels)
    code = Code(target, frozenset({launches.launches[-1].kernel}), launches.to_bytes(), texts)
    return KernelCode(code)


def check_limits(kernel: Kernel, target: GpuTarget) -> None:
    """Raises `Refusal` if no block of a kernel can run."""
    if kernel.block > target.threads:
        raise Refusal("too many threads", f"{kernel.name} has blocks of {kernel.block}, {target.name} takes {target.threads}")
    if kernel.shared_bytes > target.shared_bytes:
        raise Refusal("shared memory", f"{kernel.name} needs {kernel.shared_bytes} bytes, {target.name} has {target.shared_bytes}")
    if kernel.grid > _MOST_BLOCKS or kernel.grid * kernel.block > _MOST_THREADS:
        raise Refusal("too many blocks", f"{kernel.name} has {kernel.grid}")
    large = [a.name for a in kernel.arrays if a.elements >= _MOST_ELEMENTS]
    if large:
        raise Refusal("too large", f"{large[0]} has more elements than 32 bits can count")


def launches_of(program: Program, kernels: Sequence[Kernel], target: GpuTarget) -> Launches:
    """How the kernels are started, with their text."""
    workload = program.workload
    scratch = [b for b in program.buffers.values() if b.kind == "scratch"]
    names = [*(b.name for b in workload.inputs), *workload.outputs, *(b.name for b in scratch)]
    numbers = {name: n for n, name in enumerate(names)}
    starts = tuple(
        Launch(entry(k.name), k.grid, k.block, k.shared_bytes, tuple(numbers[a.name] for a in k.arguments)) for k in kernels
    )
    sizes = {a.name: a.bytes for k in kernels for a in k.arguments}
    language, text = _DRIVERS_TAKE[target.dialect]
    return Launches(starts, tuple(sizes.get(b.name, 0) for b in scratch), text(kernels, target), language)


def _opencl(kernels: Sequence[Kernel], target: GpuTarget) -> str:
    return source(kernels, DIALECTS["opencl"])


def _ptx(kernels: Sequence[Kernel], target: GpuTarget) -> str:
    return _assembly(kernels, "ptx", target)


def _object(kernels: Sequence[Kernel], target: GpuTarget) -> str:
    from tensorsmith.backends.gpu.printers.llvm import object_file

    return base64.b64encode(object_file(kernels, MACHINES["amdgcn"], target.architecture)).decode()


#: what is given to drivers, by the target's dialect: the language and what writes it
_DRIVERS_TAKE: dict[str, tuple[str, Callable[[Sequence[Kernel], GpuTarget], str]]] = {
    "opencl": ("opencl", _opencl),
    "cuda": ("ptx", _ptx),
    "amd": ("amdgpu", _object),
}

#: the dialect whose targets' architectures each of LLVM's machines knows
_ARCHITECTURES_OF = {"ptx": "cuda", "amdgcn": "amd"}


def _assembly(kernels: Sequence[Kernel], name: str, target: GpuTarget) -> str:
    from tensorsmith.backends.gpu.printers.llvm import assembly  # LLVM, which OpenCL needs not

    own = target.architecture if _ARCHITECTURES_OF.get(name) == target.dialect else ""
    return assembly(kernels, MACHINES[name], own)


def _llvm(kernels: Sequence[Kernel]) -> str:
    from tensorsmith.backends.gpu.printers.llvm import ir

    return ir(kernels, MACHINES["ptx"])


def _shown(kernels: Sequence[Kernel]) -> str:
    return "\n\n".join(map(show, kernels))
