"""Vector math against wider arithmetic: errors in ulps, special values, lane counts, and what the machine code calls.

Run as a script it prints the table of errors that `vecmath`'s docstring shows.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import re
from collections.abc import Iterator

import llvmlite.binding as llvm
import numpy as np
import pytest

from tensorsmith.codegen import vecmath

DTYPES = {"f32": np.float32, "f64": np.float64}
INTS = {"f32": np.uint32, "f64": np.uint64}
WIDE = {"f32": np.float64, "f64": np.longdouble}
CASES = [(op, dtype) for op in vecmath.FUNCTIONS for dtype in DTYPES]
HAS_LONG_DOUBLE = np.finfo(np.longdouble).nmant > 60

# Largest error allowed, in ulps: what `measure` finds, rounded up. Results are the same on every machine.
LIMIT = {
    ("exp", "f32"): 3.0,
}

INF, NAN = math.inf, math.nan


# --- compile and run -------------------------------------------------------------------------------------------------


def loop_module(op: str, lanes: int, dtype: str) -> str:
    """`op` over arrays: void run(x, y, out, n), n a multiple of lanes."""
    text, declares = vecmath.definition(op, lanes, dtype)
    element = "float" if dtype == "f32" else "double"
    vector = element if lanes == 1 else f"<{lanes} x {element}>"
    align = 4 if dtype == "f32" else 8
    names = ("x", "y") if op == "pow" else ("x",)
    loads = "\n".join(
        f"  %p{v} = getelementptr {element}, ptr %{v}, i64 %i\n  %{v}v = load {vector}, ptr %p{v}, align {align}"
        for v in names
    )
    args = ", ".join(f"{vector} %{v}v" for v in names)
    return "\n".join(sorted(declares)) + f"""
{text}
define void @run(ptr %x, ptr %y, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{loads}
  %r = call {vector} @"{vecmath.function_name(op, lanes, dtype)}"({args})
  %pout = getelementptr {element}, ptr %out, i64 %i
  store {vector} %r, ptr %pout, align {align}
  %next = add i64 %i, {lanes}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}
"""


def optimised(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def host_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


@functools.cache
def engine(op: str, lanes: int, dtype: str) -> llvm.ExecutionEngine:
    machine = host_machine()
    jit = llvm.create_mcjit_compiler(optimised(loop_module(op, lanes, dtype), machine), machine)
    jit.finalize_object()
    return jit


def run(op: str, dtype: str, x: np.ndarray, y: np.ndarray | None = None, lanes: int = 8) -> np.ndarray:
    size = -(-x.size // lanes) * lanes
    x, y = (np.resize(np.asarray(v, DTYPES[dtype]), size) for v in (x, x if y is None else y))
    out = np.empty_like(x)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    signature(engine(op, lanes, dtype).get_function_address("run"))(x.ctypes.data, y.ctypes.data, out.ctypes.data, size)
    return out


def assembly(op: str, lanes: int, dtype: str, machine: llvm.TargetMachine) -> str:
    return machine.emit_assembly(optimised(loop_module(op, lanes, dtype), machine))


# --- references and errors -------------------------------------------------------------------------------------------


def reference_erf(x: np.ndarray) -> np.ndarray:
    """In x's own type. Series of positive terms: erf(x) = 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (1 3 5 ... (2n+1))."""
    a = np.minimum(np.abs(x), x.dtype.type(6.5))
    if x.dtype == np.float64:  # for f32: the C library is good enough, and faster
        y = np.where(a > 1e-5, 0.0, a * 1.1283791670955126)
        middle = (a > 1e-5) & (a < 4.5)
        y[middle] = list(map(math.erf, a[middle].tolist()))
        y[a >= 4.5] = 1.0 - 1e-10
    else:
        term = total = a
        for n in range(1, 220):
            term = term * (2 * a * a) / (2 * n + 1)
            total = total + term
        y = 2 / np.sqrt(np.arccos(x.dtype.type(-1))) * np.exp(-a * a) * total
    return np.copysign(np.where(np.isnan(x), x, y), x)


def reference_sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


REFERENCES = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": reference_sigmoid,
    "erf": reference_erf,
    "sin": np.sin,
    "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "pow": np.power,
}


def ulp_error(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in units of got's type at exact. Infinity counts as the power of two after the largest number."""
    info = np.finfo(got.dtype)
    wide = exact.dtype.type
    after = wide(2) ** info.maxexp
    exact = np.clip(exact, -after, after)
    numbers = np.clip(got.astype(exact.dtype), -after, after)
    exponent = np.clip(np.frexp(exact)[1] - 1, info.minexp, info.maxexp - 1)
    error = np.ldexp(np.abs(numbers - exact), -(exponent - info.nmant))
    error[numbers == exact] = 0
    nan = np.isnan(exact)
    error[nan] = 0
    error[nan != np.isnan(got)] = np.inf
    return error.astype(np.float64)


def patterns(dtype: str, step: int, start: int, stop: int) -> np.ndarray:
    return np.arange(start, stop, step, dtype=np.uint64).astype(INTS[dtype]).view(DTYPES[dtype])


def samples(op: str, dtype: str, step: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Blocks of arguments. f32: every step-th bit pattern. f64: random patterns and the range where the function bends."""
    rng = np.random.default_rng(7)
    if op == "pow":
        yield from pow_samples(dtype, rng)
    elif dtype == "f32":
        block = step << 19
        for start in range(0, 2**32, block):
            yield (patterns("f32", step, start, min(start + block, 2**32)),)
    else:
        yield (rng.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64),)
        for bound in (1e-3, 0.5, 1.5, 7, 40, 750, 1e5, 2.0**29):
            yield (rng.uniform(-bound, bound, 25_000),)
        yield (1 + rng.normal(size=20_000) * 1e-3,)
        multiples = np.round(rng.uniform(1, 1e9, 20_000)) * (np.pi / 2)
        yield (np.concatenate([multiples, multiples * 1e-7]),)


def pow_samples(dtype: str, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    count = 200_000 if dtype == "f32" else 50_000
    low, high = (-152, 129) if dtype == "f32" else (-1078, 1025)
    top = np.array(np.inf, DTYPES[dtype]).view(INTS[dtype])
    bases = rng.integers(1, top, count, dtype=INTS[dtype]).view(DTYPES[dtype])
    near_one = (1 + rng.normal(size=count) * 10.0 ** rng.uniform(-7, -1, count)).astype(DTYPES[dtype])
    plain = rng.uniform(0.01, 20, count).astype(DTYPES[dtype])
    with np.errstate(all="ignore"):
        for x in (bases, near_one, plain):
            exponents = rng.uniform(low, high, count) / np.log2(np.abs(x).astype(np.float64))
            yield x, exponents.astype(DTYPES[dtype])
    whole = np.round(rng.uniform(-40, 40, count)).astype(DTYPES[dtype])
    yield -plain, whole
    yield plain, whole / 2
    yield tuple(rng.integers(0, np.iinfo(INTS[dtype]).max, (2, count), dtype=INTS[dtype]).view(DTYPES[dtype]))


def worst(op: str, dtype: str, step: int = 257) -> tuple[float, tuple[float, ...]]:
    """The largest error over the samples, and where it was found."""
    found: tuple[float, tuple[float, ...]] = (0.0, ())
    for arguments in samples(op, dtype, step):
        with np.errstate(all="ignore"):
            exact = REFERENCES[op](*(a.astype(WIDE[dtype]) for a in arguments))
            error = ulp_error(run(op, dtype, *arguments)[: exact.size], exact)
        at = int(error.argmax())
        if error[at] > found[0]:
            found = float(error[at]), tuple(float(a[at]) for a in arguments)
    return found


def measure() -> None:
    for op in vecmath.FUNCTIONS:
        (single, at), (double, at_double) = worst(op, "f32"), worst(op, "f64")
        print(f"    {op:8} f32 {single:5.3f}   f64 {double:5.3f}      at {at} and {at_double}", flush=True)


if __name__ == "__main__":
    measure()
