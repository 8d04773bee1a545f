"""What runs generated code; knows nothing of the compiler.

jit         LLVM IR text to machine code in memory
pool        the thread pool that parallel regions run on; its code is LLVM IR, in pool_ir
peak        what this machine can do: FMA and memory throughput, measured
buffers     aligned arrays, and views of other libraries' tensors
executable  the callable: argument checks, scratch memory, bound constants, timing
network     the callable of many kernels: tables of steps, the arena between them
driver      the compiled loop that runs those steps, its version with a clock, the call's and the pool's code
call        calls that need nothing but checks, made by compiled code; it is LLVM IR, in call_ir
profile     where the time of a network goes
file        executables in files
single      one kernel as a network, for its file
"""
