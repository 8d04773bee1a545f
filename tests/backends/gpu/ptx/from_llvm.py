"""LLVM IR to PTX, for tests of what reads PTX."""

from __future__ import annotations

import functools

import llvmlite.binding as llvm


@functools.cache
def _started() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def ptx(ir: str, architecture: str = "sm_80", level: int = 3) -> str:
    """What LLVM makes of a module of kernels."""
    _started()
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=architecture, features="+ptx70", opt=level)
    module = llvm.parse_assembly(f'target triple = "nvptx64-nvidia-cuda"\n{ir}')
    module.verify()
    if level:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=level))
        builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


def product(n: int, k: int, tile: int) -> str:
    """IR of a matrix product: blocks of tile x tile threads, a result each, operand tiles in shared memory."""
    across = n // tile
    steps = "".join(
        f"""
  %xi{q} = add i32 %rt, {q}
  %xp{q} = getelementptr float, ptr addrspace(3) @a, i32 %xi{q}
  %x{q} = load float, ptr addrspace(3) %xp{q}
  %yi{q} = add i32 %c, {q * tile}
  %yp{q} = getelementptr float, ptr addrspace(3) @b, i32 %yi{q}
  %y{q} = load float, ptr addrspace(3) %yp{q}
  %s{q + 1} = call float @llvm.fma.f32(float %x{q}, float %y{q}, float %s{q})"""
        for q in range(tile)
    )
    return f"""
@a = internal addrspace(3) global [{tile * tile} x float] undef, align 16
@b = internal addrspace(3) global [{tile * tile} x float] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent
declare float @llvm.fma.f32(float, float, float)
define ptx_kernel void @product(ptr addrspace(1) %A, ptr addrspace(1) %B, ptr addrspace(1) %C) "nvvm.maxntid"="{tile * tile},1,1" {{
begin:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = udiv i32 %block, {across}
  %bx = urem i32 %block, {across}
  %r = udiv i32 %t, {tile}
  %c = urem i32 %t, {tile}
  %i0 = mul i32 %by, {tile}
  %i = add i32 %i0, %r
  %j0 = mul i32 %bx, {tile}
  %j = add i32 %j0, %c
  %row = mul i32 %i, {k}
  %rt = mul i32 %r, {tile}
  %pa = getelementptr float, ptr addrspace(3) @a, i32 %t
  %pb = getelementptr float, ptr addrspace(3) @b, i32 %t
  br label %loop
loop:
  %k = phi i32 [0, %begin], [%k2, %loop]
  %s0 = phi float [0.0, %begin], [%s{tile}, %loop]
  %ia0 = add i32 %row, %k
  %ia = add i32 %ia0, %c
  %ga = getelementptr float, ptr addrspace(1) %A, i32 %ia
  %va = load float, ptr addrspace(1) %ga
  store float %va, ptr addrspace(3) %pa
  %kr = add i32 %k, %r
  %ib0 = mul i32 %kr, {n}
  %ib = add i32 %ib0, %j
  %gb = getelementptr float, ptr addrspace(1) %B, i32 %ib
  %vb = load float, ptr addrspace(1) %gb
  store float %vb, ptr addrspace(3) %pb
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
{steps}
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %k2 = add i32 %k, {tile}
  %more = icmp slt i32 %k2, {k}
  br i1 %more, label %loop, label %end
end:
  %ic0 = mul i32 %i, {n}
  %ic = add i32 %ic0, %j
  %gc = getelementptr float, ptr addrspace(1) %C, i32 %ic
  store float %s{tile}, ptr addrspace(1) %gc
  ret void
}}
"""
