"""GPUs by name: facts from their makers' documents, for generating code and estimating times where there is none.

`shared_bytes` is what a block may have without asking the driver for more: 48 KB on every NVIDIA GPU (CUDA C++ Programming Guide,
"Compute Capabilities", table of technical specifications per compute capability; so too are all limits of threads, blocks and
registers below, and the 1 KB of each block that the system keeps from compute capability 8.0 on). Registers are given to warps in
units of 256, four schedulers start an instruction a cycle each (on Kepler two, of which one counts), and memory is fetched in
sectors of 32 bytes on all of them (the same guide and the tuning guide of each architecture). Matrix instructions of 16 x 8 x 16
and copies to shared memory that go on while threads do are there from compute capability 8.0 on (PTX ISA, `mma` and `cp.async`);
`matrix_flops` is without sparsity. The rate at which programs get data from the second cache is published by no maker of these: it
is our estimate, three times that of device memory where no comment says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tensorsmith.backends.gpu.target import GpuTarget

#: limits by compute capability: threads, blocks and shared bytes of a multiprocessor, and what the system keeps of each block's;
#: bytes of its first cache, with shared memory where that is part of it
_CAPABILITY = {
    "sm_37": (2048, 16, 112 << 10, 0, 16 << 10),
    "sm_70": (2048, 32, 96 << 10, 0, 128 << 10),
    "sm_75": (1024, 16, 64 << 10, 0, 96 << 10),
    "sm_80": (2048, 32, 164 << 10, 1024, 192 << 10),
    "sm_86": (1536, 16, 100 << 10, 1024, 128 << 10),
    "sm_87": (1536, 16, 164 << 10, 1024, 192 << 10),
    "sm_89": (1536, 24, 100 << 10, 1024, 128 << 10),
    "sm_90": (2048, 32, 228 << 10, 1024, 256 << 10),
    "sm_120": (1536, 24, 100 << 10, 1024, 128 << 10),
}


def nvidia(device: str, architecture: str, **facts: Any) -> GpuTarget:
    """A GPU of one of the compute capabilities above."""
    threads, blocks, shared, reserved, first = _CAPABILITY[architecture]
    limits: dict[str, Any] = {
        "shared_bytes": 48 << 10,
        "shared_bytes_per_multiprocessor": shared,
        "shared_bytes_reserved": reserved,
        "first_cache_bytes": first,
        "threads_per_multiprocessor": threads,
        "blocks_per_multiprocessor": blocks,
    }
    limits["copies_apart"] = int(architecture.removeprefix("sm_")) >= 80
    if "bytes_per_second" in facts:
        limits["l2_bytes_per_second"] = 3 * facts["bytes_per_second"]
    return GpuTarget(device, "cuda", architecture, **{**limits, **facts})


def word(name: str) -> str:
    """A device's name as one word, for keys and command lines."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "device"


NAMED: Mapping[str, GpuTarget] = {
    # NVIDIA, "Tesla V100 GPU Architecture" (WP-08608): 80 SMs, 6 MB, 1530 MHz (SXM2), 15.7 TFLOP/s, 900 GB/s.
    "v100": nvidia("v100", "sm_70", multiprocessors=80, l2_bytes=6 << 20, clock=1.53e9, flops=15.7e12, bytes_per_second=900e9),
    # NVIDIA, data sheet of "Tesla V100" (DS-841): the PCIe board has 14 TFLOP/s, which is 1370 MHz.
    "v100-pcie": nvidia(
        "v100-pcie", "sm_70", multiprocessors=80, l2_bytes=6 << 20, clock=1.37e9, flops=14.0e12, bytes_per_second=900e9,
        board="pcie",
    ),
    # NVIDIA, "Tesla K80 board specification" (BD-07317) and "Kepler GK110/210" white paper, one of its two GPUs: 13 SMX with 192
    # lanes and 128 K registers each, 1.5 MB, 240 GB/s, 562 to 875 MHz. The clock here is 824 MHz, at which boards keep their
    # power limit in products ("NVIDIA GPU Boost for Tesla", WP-06767, has it among the supported clocks).
    "k80": nvidia(
        "k80", "sm_37", multiprocessors=13, registers=131072, registers_per_block=65536, l2_bytes=1536 << 10, clock=0.824e9,
        flops=4.11e12, bytes_per_second=240e9,
    ),
    # NVIDIA, "Turing GPU Architecture" (WP-09183) and the data sheet of T4: 40 SMs, 4 MB, 1590 MHz, 8.1 TFLOP/s, 320 GB/s.
    "t4": nvidia("t4", "sm_75", multiprocessors=40, l2_bytes=4 << 20, clock=1.59e9, flops=8.1e12, bytes_per_second=320e9),
    # NVIDIA, "A100 Tensor Core GPU Architecture": 108 SMs, 40 MB, 1410 MHz, 19.5 TFLOP/s, 312 by tensor cores, 1555 GB/s (40 GB).
    # Its second cache can give 5120 bytes a cycle, which is 7.2 TB/s; half of that is taken, because it is in two halves and data
    # cross over.
    "a100": nvidia(
        "a100", "sm_80", multiprocessors=108, l2_bytes=40 << 20, clock=1.41e9, flops=19.5e12,
        matrix_flops=312e12, bytes_per_second=1555e9, l2_bytes_per_second=3.6e12,
    ),
    # NVIDIA, "Ampere GA102 GPU Architecture": 82 SMs, 6 MB, 1695 MHz, 35.6 TFLOP/s, 71 by tensor cores, 936 GB/s.
    "rtx3090": nvidia(
        "rtx3090", "sm_86", multiprocessors=82, l2_bytes=6 << 20, clock=1.695e9, flops=35.6e12, matrix_flops=71e12,
        bytes_per_second=936e9,
    ),
    # NVIDIA, "Ampere GA102 GPU Architecture" and its page of the GeForce RTX 3080: 10 GB: 68 SMs, 5 MB, 1710 MHz, 29.8 TFLOP/s,
    # 59.5 by tensor cores, 760 GB/s; 12 GB: 70 SMs, 6 MB, 1710 MHz, 30.6 TFLOP/s, 61.3, 912 GB/s.
    "rtx3080": nvidia(
        "rtx3080", "sm_86", multiprocessors=68, l2_bytes=5 << 20, clock=1.71e9, flops=29.8e12, matrix_flops=59.5e12,
        bytes_per_second=760e9,
    ),
    "rtx3080-12gb": nvidia(
        "rtx3080-12gb", "sm_86", multiprocessors=70, l2_bytes=6 << 20, clock=1.71e9, flops=30.6e12, matrix_flops=61.3e12,
        bytes_per_second=912e9,
    ),
    # NVIDIA, "Jetson AGX Orin Series Technical Brief": 2048 cores in 16 SMs, 4 MB, 1.3 GHz, 5.3 TFLOP/s, 204.8 GB/s;
    # 170 TOP/s in sparse INT8 by tensor cores, a quarter of it in f16 without sparsity.
    "jetson-orin": nvidia(
        "jetson-orin", "sm_87", multiprocessors=16, l2_bytes=4 << 20, clock=1.3e9, flops=5.3e12, matrix_flops=42.5e12,
        bytes_per_second=204.8e9,
    ),
    # NVIDIA, data sheet of L4 and "Ada GPU Architecture": 58 SMs (7424 cores), 48 MB, 2040 MHz, 30.3 TFLOP/s, 121 by tensor cores,
    # 300 GB/s.
    "l4": nvidia(
        "l4", "sm_89", multiprocessors=58, l2_bytes=48 << 20, clock=2.04e9, flops=30.3e12, matrix_flops=121e12,
        bytes_per_second=300e9,
    ),
    # NVIDIA, "Ada GPU Architecture": 128 SMs, 72 MB, 2520 MHz, 82.6 TFLOP/s, 165.2 by tensor cores, 1008 GB/s.
    "rtx4090": nvidia(
        "rtx4090", "sm_89", multiprocessors=128, l2_bytes=72 << 20, clock=2.52e9, flops=82.6e12, matrix_flops=165.2e12,
        bytes_per_second=1008e9,
    ),
    # NVIDIA, "H100 Tensor Core GPU Architecture": 132 SMs (SXM5), 50 MB, 66.9 TFLOP/s at 1980 MHz, 3352 GB/s;
    # 989.4 TFLOP/s by its own matrix instructions, of four warps. What `mma.sync` gives is in no document of its maker: 0.6 of that
    # is our estimate.
    "h100": nvidia(
        "h100", "sm_90", multiprocessors=132, l2_bytes=50 << 20, clock=1.98e9, flops=66.9e12, matrix_flops=0.6 * 989.4e12,
        bytes_per_second=3352e9,
    ),
    # NVIDIA, "RTX Blackwell GPU Architecture": 170 SMs, 96 MB, 2407 MHz, 104.8 TFLOP/s, 209.5 by tensor cores, 1792 GB/s.
    "rtx5090": nvidia(
        "rtx5090", "sm_120", multiprocessors=170, l2_bytes=96 << 20, clock=2.407e9, flops=104.8e12, matrix_flops=209.5e12,
        bytes_per_second=1792e9,
    ),
    # AMD, "CDNA 3 Instruction Set Architecture" (512 registers of a thread, given by eights; eight waves of 64 threads on each of
    # four units; 64 KB of LDS) and data sheet of MI300X: 304 compute units, 2100 MHz, 163.4 TFLOP/s, 5.3 TB/s. The last cache of
    # 256 MB gives 17.2 TB/s ("CDNA 3" white paper).
    "mi300x": GpuTarget(
        "mi300x", "amd", "gfx942", warp=64, multiprocessors=304, registers=131072, registers_per_thread=512, register_unit=512,
        shared_bytes=64 << 10, shared_bytes_per_multiprocessor=64 << 10, threads_per_multiprocessor=2048,
        blocks_per_multiprocessor=16, sector_bytes=64, l2_bytes=256 << 20, clock=2.1e9, flops=163.4e12, bytes_per_second=5.3e12,
        l2_bytes_per_second=17.2e12,
    ),
    # AMD, "Vega 7nm Instruction Set Architecture" (256 registers of a thread, given by fours; ten waves of 64 threads on each of
    # four units; 64 KB of LDS) and data sheet of MI50: 60 compute units, 4 MB, 1725 MHz, 13.3 TFLOP/s, 1.024 TB/s; 64 bytes a cycle
    # from each of 16 channels of the second cache.
    "mi50": GpuTarget(
        "mi50", "amd", "gfx906", warp=64, multiprocessors=60, registers=65536, registers_per_thread=256, register_unit=256,
        shared_bytes=64 << 10, shared_bytes_per_multiprocessor=64 << 10, threads_per_multiprocessor=2560,
        blocks_per_multiprocessor=40, sector_bytes=64, l2_bytes=4 << 20, clock=1.725e9, flops=13.3e12, bytes_per_second=1.024e12,
        l2_bytes_per_second=1.77e12,
    ),
    # AMD, "CDNA 2 Instruction Set Architecture" and data sheet of MI250X, one of its two dies: 110 compute units, 8 MB, 1700 MHz,
    # 23.95 TFLOP/s, 1.6 TB/s; 128 bytes a cycle from each of 32 slices of the second cache.
    "mi250x": GpuTarget(
        "mi250x", "amd", "gfx90a", warp=64, multiprocessors=110, registers=131072, registers_per_thread=512, register_unit=512,
        shared_bytes=64 << 10, shared_bytes_per_multiprocessor=64 << 10, threads_per_multiprocessor=2048,
        blocks_per_multiprocessor=16, sector_bytes=64, l2_bytes=8 << 20, clock=1.7e9, flops=23.95e12, bytes_per_second=1.6e12,
        l2_bytes_per_second=6.9e12,
    ),
    # AMD, "RDNA 3 Instruction Set Architecture" (256 registers of a thread, given by 24s of 1536; sixteen waves of 32 threads on
    # each of two units) and data sheet of RX 7900 XTX: 96 compute units, 6 MB, 2500 MHz, 61.4 TFLOP/s, 960 GB/s.
    "rx7900xtx": GpuTarget(
        "rx7900xtx", "amd", "gfx1100", warp=32, multiprocessors=96, registers=98304, registers_per_thread=256, register_unit=768,
        shared_bytes=64 << 10, shared_bytes_per_multiprocessor=64 << 10, threads_per_multiprocessor=1024,
        blocks_per_multiprocessor=16, schedulers=2, sector_bytes=64, l2_bytes=6 << 20, clock=2.5e9, flops=61.4e12,
        bytes_per_second=960e9, l2_bytes_per_second=2.88e12,
    ),
    # No one device: what every OpenCL device of the full profile has (OpenCL Specification, "Querying Devices": 32 KB of local
    # memory) and 256 work-items in a group, which every GPU of today takes. Rates of a small GPU, for comparing programs.
    "opencl": GpuTarget("opencl", "opencl", multiprocessors=8, threads=256, threads_per_multiprocessor=1024, l2_bytes=1 << 20),
}  # fmt: skip
