"""An interpreter of PTX on NumPy: right values, races, accesses out of bounds, and what accesses cost, without a GPU.

    kernel = parse(text)["mm"]
    memory = Memory(); a = memory.put(array); c = memory.room(1024)
    counts = run(kernel, memory, grid=4, block=128, arguments=[a, c])
    memory.get(c, np.float32, 256)

All threads of some blocks are the lanes of NumPy arrays. Of those that are furthest behind, all run the same instruction at once,
so that threads which took different branches meet again.

parse      text to instructions           machine    lanes, branches, barriers
memory     device and shared memory       operations what each instruction computes
"""
