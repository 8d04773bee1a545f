"""GPUs as LLVM knows them: a table, no branches."""

from __future__ import annotations

from dataclasses import dataclass

from tensorsmith.backends.gpu.launch import ARGUMENT_ALIGNMENT


@dataclass(frozen=True)
class Machine:
    """How one of LLVM's targets wants its kernels. `{...}` are filled in by the printer."""

    name: str
    triple: str
    cpu: str  # where the target does not say
    features: tuple[tuple[str, str], ...]  # by architecture: what its code needs switched on; "" is that of all others
    kernel: str  # in front of the function's name
    attributes: str  # behind its parameters; {threads}
    block: str  # the instruction that gives the number of the block, {bits} wide
    thread: str
    number_type: str  # of what these give
    barrier: tuple[str, ...]  # instructions
    declarations: tuple[str, ...]
    private_space: int  # the address space of a thread's own memory
    divide: tuple[str, str]  # quotient and remainder of numbers that are not negative
    pointer: str = "ptr addrspace(1) noalias"  # a parameter
    matrix: str = ""  # the function of `gpu/matrix.py`; "": there is none
    load_matrix: str = ""  # the function that loads {pieces} of its operands from rows; {across}. "": lanes load their own elements
    across: str = ""  # what it is called for rows that are dealt out across
    meet: str = ""  # a call: the lanes of a warp go on together
    copy_apart: str = ""  # a call; {bytes}, {to}, {from_}. "": copies are made at once
    wait: tuple[str, ...] = ()  # for these copies
    flags: tuple[str, ...] = ()  # of the module, at its end
    level: int = 2  # of LLVM's passes
    used_once: bool = False  # LLVM's objects for it keep what they know of a module, and end the process at the next


#: one block of a multiprocessor is enough: otherwise ptxas spills now and then, with most registers unused, so that more blocks fit
NVPTX = Machine(
    name="ptx",
    pointer=f"ptr addrspace(1) noalias align {ARGUMENT_ALIGNMENT}",
    triple="nvptx64-nvidia-cuda",
    cpu="sm_80",
    features=(
        ("", "+ptx70"),
        ("sm_86", "+ptx71"),
        ("sm_87", "+ptx74"),
        ("sm_89", "+ptx78"),
        ("sm_90", "+ptx78"),
        ("sm_100", "+ptx86"),
        ("sm_120", "+ptx87"),
    ),
    kernel="ptx_kernel",
    attributes='"nvvm.maxntid"="{threads},1,1" "nvvm.minctasm"="1"',
    block="call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
    thread="call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
    number_type="i32",
    barrier=("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)",),
    declarations=(
        "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
        "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
        "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent",
    ),
    matrix="llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
    load_matrix="llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{pieces}{across}.b16.p3",
    across=".trans",
    meet="call void @llvm.nvvm.bar.warp.sync(i32 -1)",
    copy_apart="call void @llvm.nvvm.cp.async.ca.shared.global.{bytes}({to}, {from_})",
    wait=("call void @llvm.nvvm.cp.async.wait.all()",),
    private_space=0,
    divide=("udiv", "urem"),
)

#: kernels are protected, as those of AMD's compiler: their descriptors point to them, which no other object may change. Version 5
#: of code objects is what ROCm has written since 6.0, and what newer ones take too
AMDGCN = Machine(
    name="amdgcn",
    triple="amdgcn-amd-amdhsa",
    cpu="gfx90a",
    features=(),
    kernel="protected amdgpu_kernel",
    attributes='"amdgpu-flat-work-group-size"="{threads},{threads}"',
    block="call i32 @llvm.amdgcn.workgroup.id.x()",
    thread="call i32 @llvm.amdgcn.workitem.id.x()",
    number_type="i32",
    barrier=(
        'fence syncscope("workgroup") release',
        "call void @llvm.amdgcn.s.barrier()",
        'fence syncscope("workgroup") acquire',
    ),
    declarations=(
        "declare i32 @llvm.amdgcn.workgroup.id.x()",
        "declare i32 @llvm.amdgcn.workitem.id.x()",
        "declare void @llvm.amdgcn.s.barrier() convergent",
    ),
    flags=("!llvm.module.flags = !{!0}", '!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}'),
    private_space=5,
    divide=("udiv", "urem"),
)

#: drivers that take SPIR-V refuse divisions of numbers without sign; and they optimise themselves: Intel's computes some kernels
#: wrongly that LLVM's passes have been over, and rightly without
SPIRV = Machine(
    name="spirv",
    triple="spirv64-unknown-unknown",
    cpu="",
    features=(),
    kernel="spir_kernel",
    attributes="",
    block="call spir_func i64 @_Z12get_group_idj(i32 0)",
    thread="call spir_func i64 @_Z12get_local_idj(i32 0)",
    number_type="i64",
    barrier=("call spir_func void @_Z7barrierj(i32 1)",),
    declarations=(
        "declare spir_func i64 @_Z12get_local_idj(i32)",
        "declare spir_func i64 @_Z12get_group_idj(i32)",
        "declare spir_func void @_Z7barrierj(i32) convergent",
    ),
    private_space=0,
    divide=("sdiv", "srem"),
    level=0,
    used_once=True,
)

MACHINES = {m.name: m for m in (NVPTX, AMDGCN, SPIRV)}
