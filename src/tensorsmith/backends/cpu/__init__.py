"""CPUs: facts, default schedules, features and prior, LLVM code. `backend` has the record of all of it.

target, named, detect     the facts of a CPU                     codegen/          loop programs to LLVM IR
default, default_tile     the schedule that needs no search      llvm, half_ir     LLVM IR to object code
features/, prior, rates   what is known before measuring         link, symbols     object code into memory
explain, outlook          the same in words                      device, peak      what runs here, and how fast it can
rules/, tactics/          sets of rules; what the space asks     memory            what programs ask of memory

Nothing is imported here: loading a saved executable needs `target`, `device` and `link` alone.
"""
