"""HIP: AMD's runtime library, of ROCm.

interface   its functions and results by name      facts   a device as a target      driver   the device that is here
link        from LLVM's objects to the code objects that it loads, by AMD's library or by LLVM's linker
"""
