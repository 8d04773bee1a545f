"""CPUs at run time: what code for them can run here, and how it gets into memory. Nothing of the compiler is loaded for that."""

from __future__ import annotations

import functools
from pathlib import Path

from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import UserError, needed_for
from tensorsmith.runtime.built import Code, Network
from tensorsmith.runtime.device import Device, Driver, Export, Loaded, Peak
from tensorsmith.runtime.driver import driver_ir, source_key
from tensorsmith.targets.target import Target

#: Number of Linux's futex system call, by machine.
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}


@functools.lru_cache(maxsize=64)
def why_not(target: Target) -> str | None:
    """What this machine lacks that code for the target needs."""
    here = Target.native()
    assert isinstance(target, CpuTarget) and isinstance(here, CpuTarget)
    wanted, given = (t.triple.split("-") for t in (target, here))
    if wanted[0] != given[0] or wanted[2:3] != given[2:3]:
        return f"was compiled for {target.name} ({target.triple}), this is {here.name} ({here.triple})"
    missing = [f for f in target.needed_features if not here.has(f)]
    if missing:
        needs = f"needs the CPU features {', '.join(missing)}"
        return f"was compiled for {target.name} and {needs}, which this machine ({here.name}) lacks"
    if target.scalable_bytes not in (0, here.scalable_bytes):
        length = 8 * here.scalable_bytes or "at most 128"
        return f"was compiled for {target.name} with vectors of {8 * target.scalable_bytes} bits, this machine's have {length}"
    return None


def _link(code: Code) -> Loaded:
    from tensorsmith.backends.cpu.link import link  # which who only asks `why_not` need not load

    why = why_not(code.target)
    if why is not None:  # the linker would take it, and the process would end in the middle of its first instructions
        raise UserError(f"code {why}")
    return link(code)


def _driver_text(target: Target) -> str:
    assert isinstance(target, CpuTarget)
    if target.is_x86:
        pause = "call void @llvm.x86.sse2.pause()"
    elif target.is_aarch64:
        pause = "call void @llvm.aarch64.hint(i32 1)"
    else:
        pause = ""
    return driver_ir(pause, _FUTEX.get(target.triple.split("-")[0]) if "linux" in target.triple else None)


@functools.cache
def _compiled_driver(target: Target) -> Code:
    return _assembled(_driver_text(target), target)


def _assembled(text: str, target: Target) -> Code:
    with needed_for("compiling"):
        from tensorsmith.backends.cpu.llvm import compile_ir  # the compiler: files bring their driver along

    assert isinstance(target, CpuTarget)
    return compile_ir(text, target, made_from=source_key(text))


def _measure_peak() -> dict[str, float]:
    with needed_for("measuring the peak"):
        from tensorsmith.backends.cpu.peak import measure_peak  # compiles

    return measure_peak()


def _peak_round(threads: int, seconds: float) -> float:
    with needed_for("measuring the peak"):
        from tensorsmith.backends.cpu.peak import peak_kernel  # compiles

    return peak_kernel().run_once(threads, seconds)


def _export(network: Network, wanted: Export) -> list[Path]:
    with needed_for("exporting a C library"):
        from tensorsmith.backends.cpu.export.library import export  # compiles

    return export(network, wanted)


DEVICE = Device(
    "cpu",
    why_not,
    _link,
    driver=Driver(_driver_text, _compiled_driver, _assembled),
    peak=Peak(_measure_peak, _peak_round),
    export=_export,
)
