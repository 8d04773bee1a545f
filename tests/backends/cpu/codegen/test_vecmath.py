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

from tensorsmith.backends.cpu.codegen import vecmath

DTYPES = {"f32": np.float32, "f64": np.float64}
INTS = {"f32": np.uint32, "f64": np.uint64}
WIDE = {"f32": np.float64, "f64": np.longdouble}
CASES = [(op, dtype) for op in vecmath.FUNCTIONS for dtype in DTYPES]
HAS_LONG_DOUBLE = np.finfo(np.longdouble).nmant > 60

# Largest error allowed in f32 and f64, in ulps: what `measure` finds with denser samples, rounded up.
LIMITS = {
    "exp": (0.9, 1.0),
    "expm1": (1.7, 2.5),
    "log": (1.0, 0.9),
    "log1p": (1.8, 1.6),
    "tanh": (2.7, 2.7),
    "sigmoid": (2.5, 2.5),
    "erf": (1.4, 1.6),
    "sin": (1.7, 2.5),
    "cos": (1.7, 2.5),
    "rsqrt": (1.5, 1.5),
    "pow": (0.6, 1.3),
}


# --- compile and run -------------------------------------------------------------------------------------------------


def loop_module(op: str, lanes: int, dtype: str) -> str:
    """`op` over arrays: void run(x, y, out, n), n a multiple of lanes."""
    text, declares = vecmath.definition(op, lanes, dtype)
    element = "float" if dtype == "f32" else "double"
    vector = element if lanes == 1 else f"<{lanes} x {element}>"
    align = 4 if dtype == "f32" else 8
    names = ("x", "y") if op == "pow" else ("x",)
    loads = "\n".join(
        f"  %p{v} = getelementptr {element}, ptr %{v}, i64 %i\n  %{v}v = load {vector}, ptr %p{v}, align {align}" for v in names
    )
    args = ", ".join(f"{vector} %{v}v" for v in names)
    return (
        "\n".join(sorted(declares))
        + f"""
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
    )


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
    """erf(x) = 2/sqrt(pi) exp(-x^2) times the sum of 2^n x^(2n+1) / (1 3 5 ... (2n+1)): no cancellation."""
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
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
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
    """Blocks of arguments. f32: every step-th bit pattern. f64: random patterns, and ranges where functions bend."""
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


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_error(op: str, dtype: str) -> None:
    if dtype == "f64" and not HAS_LONG_DOUBLE:
        pytest.skip("long double is no wider than double here: no reference")
    error, at = worst(op, dtype)
    assert error <= LIMITS[op][dtype == "f64"], f"{op} {dtype}: {error} ulp at {at}"


# --- special values --------------------------------------------------------------------------------------------------

INF, NAN = math.inf, math.nan
TINY = {"f32": 2.0**-149, "f64": 2.0**-1074}
LARGEST = {"f32": float(np.finfo(np.float32).max), "f64": float(np.finfo(np.float64).max)}

# (argument, exact result); "tiny" and "largest" are the smallest and the largest positive number of the type.
SPECIALS: dict[str, list[tuple[float | str, float | str]]] = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0), ("largest", INF)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (1e4, INF), (-1e4, -1.0), ("tiny", "tiny"), ("largest", INF)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (-1.0, -INF), (-1.5, NAN), (-1e30, NAN), ("tiny", "tiny")],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (INF, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (30.0, 1.0), ("tiny", "tiny"), ("largest", 1.0)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), ("largest", 1.0), (-1e4, 0.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (7.0, 1.0), ("tiny", "tiny"), ("largest", 1.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), ("tiny", "tiny")],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), ("tiny", 1.0)],
    "rsqrt": [(1.0, 1.0), (0.0, INF), (INF, 0.0), (-1.0, NAN), (0.25, 2.0)],
}

POW_SPECIALS = [
    (0.0, 0.0, 1.0), (NAN, 0.0, 1.0), (INF, -0.0, 1.0), (1.0, NAN, 1.0), (1.0, INF, 1.0), (1.0, 7.5, 1.0),
    (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (-1.0, NAN, NAN), (2.0, NAN, NAN), (NAN, 1.0, NAN),
    (-2.0, 3.0, -8.0), (-2.0, 2.0, 4.0), (-2.0, -1.0, -0.5), (-2.0, 0.5, NAN), (-1.0, 0.5, NAN), (-8.0, 1 / 3, NAN),
    (0.0, -1.0, INF), (-0.0, -1.0, -INF), (-0.0, -2.0, INF), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 0.5, 0.0),
    (0.0, 1e-30, 0.0), (0.0, INF, 0.0), (0.0, -INF, INF), (-0.0, -0.5, INF),
    (INF, 1.0, INF), (INF, -1.0, 0.0), (INF, 1e-30, INF), (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF),
    (-INF, -3.0, -0.0), (-INF, -2.0, 0.0), (-INF, -0.5, 0.0), (0.5, INF, 0.0), (0.5, -INF, INF), (2.0, INF, INF),
    (2.0, -INF, 0.0), (-0.5, INF, 0.0), (-2.0, INF, INF), (INF, INF, INF), (-INF, INF, INF), (INF, -INF, 0.0),
    (2.0, 10.0, 1024.0), (3.0, 1.0, 3.0), (3.0, 2.0, 9.0), (10.0, 3.0, 1000.0), (4.0, 0.5, 2.0), (2.0, 1e5, INF),
    (2.0, -1e5, 0.0), (-2.0, 100001.0, -INF), (-2.0, -100001.0, -0.0),
]  # fmt: skip


def assert_same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal, NaN with NaN, and zeros of the same sign."""
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", SPECIALS)
def test_specials(op: str, dtype: str, lanes: int) -> None:
    named = {"tiny": TINY[dtype], "largest": LARGEST[dtype]}
    pairs = [tuple(named[v] if isinstance(v, str) else v for v in pair) for pair in [*SPECIALS[op], (NAN, NAN)]]
    x, expected = np.array(pairs, DTYPES[dtype]).T
    assert_same(run(op, dtype, x, lanes=lanes)[: x.size], expected)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pow_specials(dtype: str, lanes: int) -> None:
    x, y, expected = np.array(POW_SPECIALS, DTYPES[dtype]).T
    assert_same(run("pow", dtype, x, y, lanes=lanes)[: x.size], expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pow_edges_agree_with_numpy(dtype: str) -> None:
    edges = [0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 2.0**24 + 2, 2.0**53, TINY[dtype], LARGEST[dtype], INF]
    values = np.array([*edges, *(-v for v in edges), NAN], DTYPES[dtype])
    x, y = (np.array(v, DTYPES[dtype]) for v in zip(*itertools.product(values, values)))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(WIDE[dtype]), y.astype(WIDE[dtype]))
        got = run("pow", dtype, x, y)[: x.size]
        assert ulp_error(got, exact).max() <= LIMITS["pow"][dtype == "f64"]
        expected = exact.astype(DTYPES[dtype])
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", DTYPES)
def test_denormal_results_and_arguments(dtype: str) -> None:
    """Gradual underflow is right to the rounding, and so is the logarithm of denormals."""
    low = -104.0 if dtype == "f32" else -745.5
    x = np.linspace(low, low + 20, 4001).astype(DTYPES[dtype])
    denormals = np.geomspace(1, 2.0**22, 999).round().astype(INTS[dtype]).view(DTYPES[dtype])
    with np.errstate(all="ignore"):
        both_signs = np.concatenate([denormals, -denormals])
        for op, values in (
            ("exp", x), ("sigmoid", x), ("log", denormals), ("sin", denormals), ("rsqrt", denormals), ("log1p", both_signs),
            ("expm1", both_signs),
        ):  # fmt: skip
            exact = REFERENCES[op](values.astype(WIDE[dtype]))
            assert ulp_error(run(op, dtype, values)[: exact.size], exact).max() <= LIMITS[op][dtype == "f64"], op


@pytest.mark.parametrize("op", ["sin", "cos"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_closest_to_a_multiple_of_half_pi(op: str, dtype: str) -> None:
    """Each float or double here cancels more of its bits against a multiple of pi/2 than almost any other does."""
    hardest = [16367173 * 2.0**72] if dtype == "f32" else [6381956970095103 * 2.0**797, 5.319372648326541e255]
    x = np.array([*hardest, *(-v for v in hardest), LARGEST[dtype], 22.0, 355.0, 1e22], DTYPES[dtype])
    exact = REFERENCES[op](x.astype(WIDE[dtype]))
    assert ulp_error(run(op, dtype, x)[: x.size], exact).max() <= LIMITS[op][dtype == "f64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["tanh", "sigmoid", "erf", "sin", "cos"])
def test_never_above_one(op: str, dtype: str) -> None:
    for (x,) in samples(op, dtype, 257 * 16 + 1):
        assert not (np.abs(run(op, dtype, x)) > 1).any()


# --- lanes and machine code ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_lane_counts_agree(op: str, dtype: str) -> None:
    """The same bits with 1, 4, 8 and 16 lanes, and whatever stands in the lanes beside."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, np.iinfo(INTS[dtype]).max, 4096, dtype=INTS[dtype]).view(DTYPES[dtype])
    x[::3] = rng.normal(size=x[::3].size) * 5
    y = np.roll(x, 1)
    expected = run(op, dtype, x, y, lanes=1)
    for lanes in (4, 8, 16):
        np.testing.assert_array_equal(run(op, dtype, x, y, lanes=lanes), expected)


MACHINES = {
    "avx2": ("x86_64-unknown-linux-gnu", "haswell"),
    "avx512": ("x86_64-unknown-linux-gnu", "znver4"),
    "neon": ("aarch64-unknown-linux-gnu", "neoverse-n1"),
}
CALL = re.compile(r"^\s*(?:call|callq|bl|blr)\s.*$", re.MULTILINE)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_calls(name: str, dtype: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple, cpu = MACHINES[name]
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
    for op in vecmath.FUNCTIONS:
        text = assembly(op, 8, dtype, machine)
        assert re.search(r"^run:", text, re.MULTILINE)
        assert not CALL.findall(text), f"{op} on {cpu}"


def test_exp_is_short() -> None:
    """On the host: no call, and the loop that holds exp of 8 floats has at most 30 instructions."""
    text = assembly("exp", 8, "f32", host_machine())
    assert not CALL.findall(text)
    if re.search("%ymm", text):
        loop = text[text.index(".LBB0_1:") : text.index("\tjb\t")]
        assert len(re.findall(r"^\t[a-z]", loop, re.MULTILINE)) <= 30


def test_definition_text() -> None:
    text, declares = vecmath.definition("exp", 8, "f32")
    assert text.startswith('define internal <8 x float> @"ts.exp.v8f32"(<8 x float> %x) alwaysinline nounwind {')
    assert declares == {"declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)"}
    text, _ = vecmath.definition("pow", 1, "f64")
    assert text.startswith('define internal double @"ts.pow.v1f64"(double %x, double %y) alwaysinline nounwind {')


def measure() -> None:
    for op in vecmath.FUNCTIONS:
        (single, at), (double, at_double) = worst(op, "f32"), worst(op, "f64")
        print(f"    {op:8} f32 {single:5.3f}   f64 {double:5.3f}      at {at} and {at_double}", flush=True)


if __name__ == "__main__":
    measure()
