"""Dialects of C for GPUs: a table, no branches. What is the same in all of them is in `c.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Dialect:
    """How one family of compilers wants its C. `{...}` are filled in by the printer."""

    name: str
    head: str  # in front of everything
    kernel: str  # {name}, {threads}, {parameters}
    parameter: str  # {const}, {type}, {name}, {number}
    pointer: str  # a line in the kernel that makes {name} of its parameter; "": the parameter is it
    shared: str  # {type}, {name}, {elements}
    barrier: str
    block: str
    thread: str
    move: str  # {to}, {from_}, {index}, {start}, {width}, {vector}, and where both are: {to_space}, {from_space}
    types: Mapping[str, str]  # of element types, as they lie in memory
    long: str  # a whole number of 64 bits
    unsigned: Mapping[str, str]  # of the same bits, for sums that wrap around
    load_half: str  # {pointer}, {index}, {space}
    store_half: str  # {pointer}, {index}, {value}, {space}
    bitcasts: Mapping[tuple[str, str], str]  # by the types from and to: a function
    suffix: str  # of the functions of <math.h> in f32
    extensions: Mapping[str, str] = field(default_factory=dict)  # lines in front, by a type that is used
    spaces: Mapping[str, str] = field(default_factory=dict)  # words for scopes of memory
    helper: str = "static __device__ inline"  # in front of functions that kernels call
    numbers: str = ""  # parameters that give the numbers of block and thread
    missing: frozenset[str] = frozenset()  # functions of <math.h> that there are not
    vectors: Mapping[int, str] = field(default_factory=dict)  # types of so many bytes, for moves
    move_apart: str = ""  # {to}, {from_}, {index}, {start}, {bytes}; "": moves are made at once
    wait: str = ""  # for these moves
    meet: str = ""  # the lanes of a warp go on together
    multiply: str = ""  # a matrix instruction: {sums}, {left}, {right}; "": there is none
    pair: tuple[str, str] = ("", "")  # two f16 in a register: neighbours, {pointer}, {index}; any, {first}, {second}


_OPENCL_TYPES = {
    "f16": "ushort", "f32": "float", "f64": "double", "i8": "char", "u8": "uchar", "i32": "int", "i64": "long", "bool": "uchar",
}  # fmt: skip

_CUDA_TYPES = {
    "f16": "__half", "f32": "float", "f64": "double", "i8": "signed char", "u8": "unsigned char", "i32": "int", "i64": "long long",
    "bool": "unsigned char",
}  # fmt: skip

#: pieces of one buffer may begin anywhere, and buffers that begin in others only where devices allow it: so a parameter is a buffer
#: and a number of bytes
OPENCL = Dialect(
    name="opencl",
    head="",
    kernel="__kernel __attribute__((reqd_work_group_size({threads}, 1, 1)))\nvoid {name}({parameters})",
    parameter="__global {const}char* restrict buffer_{name}, const ulong offset_{name}",
    pointer="__global {const}{type}* restrict {name} = (__global {const}{type}*)(buffer_{name} + offset_{name});",
    shared="__local {type} {name}[{elements}] __attribute__((aligned(16)));",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    block="(int)get_group_id(0)",
    thread="(int)get_local_id(0)",
    move="vstore{width}(vload{width}(0, {from_} + {start}), 0, {to} + {index});",
    types=_OPENCL_TYPES,
    long="long",
    unsigned={"i32": "uint", "i64": "ulong"},
    load_half="vload_half({index}, ({space} const half*){pointer})",
    store_half="vstore_half({value}, {index}, ({space} half*){pointer});",
    bitcasts={("f32", "i32"): "as_int", ("i32", "f32"): "as_float", ("f64", "i64"): "as_long", ("i64", "f64"): "as_double"},
    suffix="",
    extensions={"f64": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"},
    spaces={"global": "__global", "shared": "__local", "private": "__private"},
    helper="static inline",
)

CUDA = Dialect(
    name="cuda",
    head="#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n#endif\n",
    kernel='extern "C" __global__ void __launch_bounds__({threads}, 1) {name}({parameters})',
    parameter="{const}{type}* __restrict__ {name}",
    pointer="",
    shared="__shared__ __align__(16) {type} {name}[{elements}];",
    barrier="__syncthreads();",
    block="(int)blockIdx.x",
    thread="(int)threadIdx.x",
    move="*({vector}*)({to} + {index}) = *(const {vector}*)({from_} + {start});",
    types=_CUDA_TYPES,
    long="long long",
    unsigned={"i32": "unsigned", "i64": "unsigned long long"},
    load_half="__half2float({pointer}[{index}])",
    store_half="{pointer}[{index}] = __float2half({value});",
    bitcasts={
        ("f32", "i32"): "__float_as_int",
        ("i32", "f32"): "__int_as_float",
        ("f64", "i64"): "__double_as_longlong",
        ("i64", "f64"): "__longlong_as_double",
    },
    suffix="f",
    extensions={"f16": "#include <cuda_fp16.h>"},
    vectors={2: "short", 4: "int", 8: "int2", 16: "int4"},
    move_apart='asm volatile("cp.async.ca.shared.global [%0], [%1], {bytes};" :: '
    '"r"((unsigned)__cvta_generic_to_shared({to} + ({index}))), "l"({from_} + ({start})) : "memory");',
    wait='asm volatile("cp.async.wait_all;" ::: "memory");',
    meet="__syncwarp();",
    multiply='asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 '
    '{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};" : {sums} : {left}, {right});',
    pair=(
        "*(const unsigned*)({pointer} + ({index}))",
        "((unsigned)__half_as_ushort({first}) | (unsigned)__half_as_ushort({second}) << 16)",
    ),
)

HIP = replace(
    CUDA,
    name="hip",
    head="#include <hip/hip_runtime.h>\n",
    extensions={"f16": "#include <hip/hip_fp16.h>"},
    move_apart="",
    wait="",
    meet="",
    multiply="",
)

_METAL_TYPES = {
    "f16": "half", "f32": "float", "i8": "char", "u8": "uchar", "i32": "int", "i64": "long", "bool": "uchar",
}  # fmt: skip

#: the Metal Shading Language, which is C++ with scopes of memory, and has no f64
METAL = Dialect(
    name="metal",
    head="#include <metal_stdlib>\nusing namespace metal;\n",
    kernel="[[max_total_threads_per_threadgroup({threads})]]\nkernel void {name}({parameters})",
    parameter="device {const}{type}* {name} [[buffer({number})]]",
    pointer="",
    shared="alignas(16) threadgroup {type} {name}[{elements}];",
    barrier="threadgroup_barrier(mem_flags::mem_threadgroup);",
    block="(int)block_number",
    thread="(int)thread_number",
    numbers=", uint block_number [[threadgroup_position_in_grid]], uint thread_number [[thread_position_in_threadgroup]]",
    move="*({to_space} {vector}*)({to} + {index}) = *({from_space} const {vector}*)({from_} + {start});",
    types=_METAL_TYPES,
    long="long",
    unsigned={"i32": "uint", "i64": "ulong"},
    load_half="(float){pointer}[{index}]",
    store_half="{pointer}[{index}] = (half)({value});",
    bitcasts={("f32", "i32"): "as_type<int>", ("i32", "f32"): "as_type<float>"},
    suffix="",
    vectors=CUDA.vectors,
    spaces={"global": "device", "shared": "threadgroup", "private": "thread"},
    helper="static inline",
    missing=frozenset({"erf", "expm1", "log1p"}),
)

DIALECTS = {d.name: d for d in (OPENCL, CUDA, HIP, METAL)}
