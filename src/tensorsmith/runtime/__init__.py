"""What runs generated code; knows nothing of the compiler.

jit         LLVM IR text to machine code in memory
pool        the thread pool that parallel regions run on, itself written in LLVM IR
peak        what this machine can do: FMA and memory throughput, measured
buffers     aligned arrays, and views of other libraries' tensors
executable  the callable: argument checks, scratch memory, bound constants, timing
"""
