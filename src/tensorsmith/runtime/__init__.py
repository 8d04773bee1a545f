"""What runs what was built; knows nothing of the compiler.

built       code, kernels and networks as values: what is saved and sent; nothing in it has an address
device      what runs the code of one kind of target, and the kinds there are
executable  the callable: checks, bound constants, timing, texts      arguments   what its arguments must be
running     a network in memory: tables of steps, frames, the arena   profile     where the time of a network goes
file, load  networks in files, and executables back from them         buffers     aligned arrays, views of other libraries' tensors
pool        the thread pool that parallel regions run on; its code is LLVM IR, in pool_ir
driver      the compiled loop that runs a network's steps, its version with a clock, the call's and the pool's code
stream      calls side by side, each on one thread
trace       what each thread did when; its code is LLVM IR, in trace_ir
call        calls that need nothing but checks, made by compiled code; it is LLVM IR, in call_ir
"""
