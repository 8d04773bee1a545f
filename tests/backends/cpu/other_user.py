"""`python -m tests.backends.cpu.other_user`: the machine code that llvmlite gives to somebody who knows nothing of us."""

from __future__ import annotations

import llvmlite.binding as llvm

#: LLVM's loop strength reduction changes its addresses.
LOOP = """
define void @f(ptr %a, ptr %b, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %k = mul i64 %i, 12
  %p = getelementptr float, ptr %a, i64 %k
  %q = getelementptr float, ptr %b, i64 %k
  %v = load float, ptr %p
  store float %v, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def theirs() -> str:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=llvm.get_host_cpu_name(), opt=3, reloc="pic")
    module = llvm.parse_assembly(LOOP, llvm.create_context())
    module.triple = triple
    return machine.emit_assembly(module)


if __name__ == "__main__":
    print(theirs(), end="")
