"""C libraries: built by the system's compiler, run, and compared with the executable bit by bit."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import struct
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.cli.models import write_dense, write_wide
from tests.graph.networks import Network

import tensorsmith as ts
from tensorsmith.backends.cpu.export.objects import Object, archive, joined, weights_object
from tensorsmith.backends.cpu.symbols import SECTION
from tensorsmith.graph.model import Model
from tensorsmith.runtime.executable import Executable

WARNINGS = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def product(rows: int = 48, target: str | None = None) -> Executable:
    """A kernel with a bound constant and a region for several threads."""
    A = ts.placeholder((rows, 40), name="A")
    B = ts.placeholder((40, 64), name="B", constant=True)
    k = ts.reduce_axis(40, name="k")
    C = ts.compute((rows, 64), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = ts.compute((rows, 64), lambda i, j: ts.tanh(C[i, j]), name="D")
    return ts.compile([A, B, D], target=target).bind(B=np.random.default_rng(1).random((40, 64), dtype="f4"))


def network(target: str | None = None) -> Executable:
    """Several kernels, an arena, and an output that is the input as it came."""
    n = Network()
    x = n.input(1, 8, 16, 16, name="image-1")
    y = n.conv(n.op("relu", n.conv(x, 16, 3, bias=True)), 16, 3, stride=2)
    y = n.op("softmax", n.op("reshape", n.global_pool(y), shape=(1, 16)), axis=1)
    return ts.compile(Model(n.graph(y, n.op("reshape", x, shape=(8, 256)))), target=target)


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def built(folder: Path, name: str, *flags: str, library: str = "static") -> None:
    """The example, by the strictest rules; with the source file, so that all of the C is seen by them."""
    run(["cc", *WARNINGS, *flags, "main.c", f"{name}.c", f"lib{name}_kernels.a", "-o", "main", "-lm", "-lpthread"], folder)


def outputs(exe: Executable, folder: Path, *extra: str, threads: int = 2, prefix: tuple[str, ...] = ()) -> list[np.ndarray]:
    """What the example writes for random inputs."""
    inputs = exe.random_inputs()
    words = []
    for n, array in enumerate(inputs):
        array.tofile(folder / f"in{n}")
        words.append(f"in{n}")
    words += [f"out{n}" for n in range(len(exe.outputs))]
    run([*prefix, "./main", str(threads), "3", *words, *extra], folder)
    return [np.fromfile(folder / f"out{n}", a.numpy_dtype).reshape(a.shape) for n, a in enumerate(exe.outputs)]


def expected(exe: Executable) -> list[np.ndarray]:
    found = exe(*exe.random_inputs())
    return list(found) if isinstance(found, tuple) else [found]


def check_same(exe: Executable, got: list[np.ndarray]) -> None:
    for a, b in zip(got, expected(exe), strict=True):
        np.testing.assert_array_equal(a, b)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("make", [product, network])
def test_the_library_gives_what_the_executable_gives(make, threads: int, tmp_path: Path) -> None:
    exe = make()
    exe.export(tmp_path, name="net")
    built(tmp_path, "net")
    check_same(exe, outputs(exe, tmp_path, threads=threads))


@needs_compiler
def test_without_threads(tmp_path: Path) -> None:
    exe = network()
    exe.export(tmp_path, name="net")
    built(tmp_path, "net", "-DTS_SERIAL")
    check_same(exe, outputs(exe, tmp_path))


@needs_compiler
def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    exe = network()
    exe.export(tmp_path, name="net", weights="file")
    built(tmp_path, "net")
    check_same(exe, outputs(exe, tmp_path, "net.weights"))
    (tmp_path / "other").write_bytes(bytes((tmp_path / "net.weights").stat().st_size))
    for wrong in ("missing", "other", "main.c"):
        done = subprocess.run(["./main", "1", "0", "in0", "out0", "out1", wrong], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1 and "the weights cannot be read, or are not those of net" in done.stderr


@needs_compiler
def test_two_libraries_in_one_program(tmp_path: Path) -> None:
    first, second = product(16), product(32)
    first.export(tmp_path / "a", name="first")
    second.export(tmp_path / "b", name="second")
    (tmp_path / "both.c").write_text("""
#include "first.h"
#include "second.h"
#include <stdio.h>
static float a[SECOND_IN_A_ELEMENTS], d[FIRST_OUT_D_ELEMENTS], e[SECOND_OUT_D_ELEMENTS];
int main(void) {
    first_t *one; second_t *two; int shape[SECOND_OUT_D_RANK] = SECOND_OUT_D_SHAPE;
    if (first_create(&one, 2) || second_create(&two, 2)) return 1;
    for (int n = 0; n < SECOND_IN_A_ELEMENTS; n++) a[n] = (float)(n % 7) / 7;
    if (first_run(one, a, d) || second_run(two, a, e)) return 2;
    if (first_run(one, a, 0) != FIRST_BAD_ARGUMENT || first_create(&one, -1) != FIRST_BAD_ARGUMENT) return 3;
    for (int n = 0; n < FIRST_OUT_D_ELEMENTS; n++) if (d[n] != e[n]) return 4;
    second_destroy(two); second_destroy(0);
    printf("%d %d %s", shape[0], shape[1], first_message(FIRST_BUSY));
    return 0;
}
""")
    libraries = ["-Ia", "-Ib", "both.c", "a/libfirst.a", "b/libsecond.a", "-lm", "-lpthread"]
    run(["cc", *WARNINGS, *libraries, "-o", "both"], tmp_path)
    assert run(["./both"], tmp_path) == "32 64 another call with this handle is running"


@needs_compiler
def test_two_networks_in_one_program(tmp_path: Path) -> None:
    """Called in turns, from two threads each: neither has anything of the other."""
    ways = {"seen": network(), "said": ts.compile(ts.load(write_wide(tmp_path / "wide.onnx")))}
    for name, exe in ways.items():
        exe.export(tmp_path / name, name=name)
        exe.random_inputs()[0].tofile(tmp_path / f"{name}.in")
    (tmp_path / "both.c").write_text("""
#include "said.h"
#include "seen.h"
#include <stdio.h>
static float image[SEEN_IN_IMAGE_1_ELEMENTS], classes[SEEN_OUT_Y0_ELEMENTS], same[SEEN_OUT_Y1_ELEMENTS];
static float x[SAID_IN_X_ELEMENTS], y[SAID_OUT_Y_ELEMENTS];
static int read_all(const char *name, float *to, size_t count) {
    FILE *file = fopen(name, "rb");
    return !file || fread(to, sizeof *to, count, file) != count || fclose(file);
}
static int write_all(const char *name, const float *from, size_t count) {
    FILE *file = fopen(name, "wb");
    return !file || fwrite(from, sizeof *from, count, file) != count || fclose(file);
}
int main(void) {
    seen_t *one; said_t *two;
    if (read_all("seen.in", image, SEEN_IN_IMAGE_1_ELEMENTS) || read_all("said.in", x, SAID_IN_X_ELEMENTS)) return 1;
    if (seen_create(&one, 2) || said_create(&two, 2)) return 2;
    for (int n = 0; n < 3; n++) if (seen_run(one, image, classes, same) || said_run(two, x, y)) return 3;
    seen_destroy(one); said_destroy(two);
    return write_all("seen.out", classes, SEEN_OUT_Y0_ELEMENTS) || write_all("said.out", y, SAID_OUT_Y_ELEMENTS);
}
""")
    libraries = ["-Isaid", "-Iseen", "both.c", "said/libsaid.a", "seen/libseen.a", "-lm", "-lpthread"]
    run(["cc", *WARNINGS, *libraries, "-o", "both"], tmp_path)
    run(["./both"], tmp_path)
    for name, exe in ways.items():
        want = expected(exe)[0]
        np.testing.assert_array_equal(np.fromfile(tmp_path / f"{name}.out", "f4").reshape(want.shape), want)


@needs_compiler
def test_the_shared_library_needs_nothing_but_libc_and_libm(tmp_path: Path) -> None:
    network().export(tmp_path, name="net")
    listed = run(["ldd", "libnet.so"], tmp_path)
    names = {line.split()[0].split("/")[-1].split(".so")[0] for line in listed.splitlines()}
    assert names <= {"linux-vdso", "libc", "libm", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}
    wanted = {s.split()[-1] for s in run(["nm", "-D", "--defined-only", "libnet.so"], tmp_path).splitlines()}
    assert all(name.startswith("net_") for name in wanted)


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two CPUs")
def test_woken_workers_are_barred_from_the_callers_cpu(tmp_path: Path) -> None:
    exe = network()
    exe.export(tmp_path, name="net")
    library = ctypes.CDLL(str(tmp_path / "libnet.so"))
    arrays = [*exe.random_inputs(), *expected(exe)]
    everywhere, before = os.sched_getaffinity(0), set(os.listdir("/proc/self/task"))
    model = ctypes.c_void_p()
    assert library.net_create(ctypes.byref(model), 2) == 0
    (worker,) = set(os.listdir("/proc/self/task")) - before
    try:
        for cpu in sorted(everywhere)[:2]:
            os.sched_setaffinity(threading.get_native_id(), {cpu})
            for _ in range(100):  # a worker that has not gone to sleep yet is not woken
                time.sleep(0.01)
                assert library.net_run(model, *(ctypes.c_void_p(a.ctypes.data) for a in arrays)) == 0
                if os.sched_getaffinity(int(worker)) == everywhere - {cpu}:
                    break
            else:
                pytest.fail(f"it may still run on {os.sched_getaffinity(int(worker))}, the caller on {cpu}")
    finally:
        os.sched_setaffinity(threading.get_native_id(), everywhere)
        library.net_destroy(model)


@needs_compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_cmake_builds_it(tmp_path: Path) -> None:
    exe = product()
    exe.export(tmp_path, name="net")
    run(["cmake", "-B", "build", "-DCMAKE_BUILD_TYPE=Release"], tmp_path)
    run(["cmake", "--build", "build"], tmp_path)
    shutil.copy(tmp_path / "build" / "main", tmp_path / "main")
    check_same(exe, outputs(exe, tmp_path))


@needs_compiler
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "cortex-a53", "neoverse-v1"])
def test_other_machines(target: str, tmp_path: Path) -> None:
    exe = network(target)
    files = exe.export(tmp_path, name="net")
    machine = {0x3E: "x86", 0xB7: "cortex neoverse"}
    (number,) = struct.unpack_from("<H", (tmp_path / "objects/net_k0.o").read_bytes(), 18)
    assert target.split("-")[0] in machine[number]
    assert {f.name for f in files} >= {"net.c", "net.h", "libnet_kernels.a", "CMakeLists.txt", "main.c"}
    assert struct.unpack_from("<H", (tmp_path / "objects/net_weights.o").read_bytes(), 18) == (number,)


def test_objects_of_other_systems_have_their_weights_beside_them(tmp_path: Path) -> None:
    exe = product(target="apple-m1")
    with pytest.raises(ts.UserError, match='give weights="file"'):
        exe.export(tmp_path)
    files = exe.export(tmp_path, name="net", weights="file")
    assert {f.name for f in files} == {"net_k0.o", "net.weights", "net.h", "net.c", "net_pool.h", "main.c", "CMakeLists.txt"}


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    A = ts.placeholder((8, 8), name="A")
    B = ts.placeholder((8, 64), name="B", constant=True)
    k = ts.reduce_axis(8, name="k")
    unbound = ts.compile([A, B, ts.compute((8, 64), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")])
    with pytest.raises(ts.UserError, match=r"B of C must be bound before it can be exported: kernel.bind\(B=\.\.\.\)"):
        unbound.export(tmp_path)
    exe = product()
    with pytest.raises(ts.UserError, match="'in file' given"):
        exe.export(tmp_path, weights="in file")
    with pytest.raises(ts.UserError, match=r"'my-net' is no name that C takes, .*; 'net_my_net' would be one"):
        exe.export(tmp_path, name="my-net")
    with pytest.raises(ts.UserError, match="there is no compiler 'no-such-cc'"):
        exe.export(tmp_path, compiler="no-such-cc")
    (tmp_path / "file").write_text("")
    with pytest.raises(ts.UserError, match="file is a file; give a folder"):
        exe.export(tmp_path / "file")
    exe.save(tmp_path / "exe.tsm")
    with pytest.raises(ts.UserError, match="compile its model again"):
        ts.load_executable(tmp_path / "exe.tsm").export(tmp_path)


@needs_compiler
def test_linkers_read_the_archive(tmp_path: Path) -> None:
    """Members of odd and even sizes, long names; `ar` and `nm` see what was put in."""
    exe = product()
    exe.export(tmp_path, name="a_name_longer_than_fifteen")
    data = (tmp_path / "objects/a_name_longer_than_fifteen_k0.o").read_bytes()
    objects = [Object("one.o", "one", data + b"\0"), Object("a_long_name_of_an_object.o", "two", data)]
    (tmp_path / "lib.a").write_bytes(archive(objects))
    assert run(["ar", "t", "lib.a"], tmp_path).split() == ["one.o", "a_long_name_of_an_object.o"]
    assert "a_name_longer_than_fifteen_k0" in run(["nm", "--print-armap", "liba_name_longer_than_fifteen.a"], tmp_path)


def test_weights_say_how_they_are_aligned() -> None:
    """Kernels load whole vectors from them: each part begins at a multiple of 64 bytes, and linkers are told to keep that."""
    data = weights_object([b"abc", bytes(65), b"d"], "net_weights", ts.Target.named("x86-64-v3")).data
    (start,) = struct.unpack_from("<Q", data, 0x28)
    _, kind, _, _, offset, size, _, _, alignment, _ = SECTION.unpack_from(data, start + SECTION.size)
    assert (kind, offset % 64, alignment, size) == (1, 0, 64, 64 + 128 + 64)
    assert (data[offset : offset + 3], data[offset + 64 + 128 : offset + 64 + 128 + 1]) == (b"abc", b"d")
    wasm = joined([b"abc", b"d"])
    assert len(wasm) == 128 and wasm[64:65] == b"d"


@needs_compiler
@pytest.mark.parametrize("before", [1, 3, 63, 65])
def test_linked_weights_are_aligned(before: int, tmp_path: Path) -> None:
    """Whatever lies in front of them."""
    (tmp_path / "w.o").write_bytes(weights_object([b"abc"], "net_weights", ts.Target.native()).data)
    (tmp_path / "a.c").write_text(f"const char before[{before}] = {{1}};")
    run(["cc", "-shared", "-fPIC", "a.c", "w.o", "-o", "lib.so"], tmp_path)
    library = ctypes.CDLL(str(tmp_path / "lib.so"))
    assert ctypes.addressof(ctypes.c_char.in_dll(library, "net_weights")) % 64 == 0


@needs_compiler
def test_from_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from tensorsmith.cli import app

    model = write_dense(tmp_path / "dense.onnx")
    done = CliRunner().invoke(app, ["export", model, "-o", str(tmp_path / "lib"), "--name", "dense"])
    assert done.exit_code == 0 and "dense.h" in done.stdout and "libdense.so" in done.stdout
    exe = ts.compile(ts.load(model))
    built(tmp_path / "lib", "dense")
    check_same(exe, outputs(exe, tmp_path / "lib"))


@needs_compiler
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_no_memory_is_lost_or_misused(tmp_path: Path) -> None:
    """For SSE: valgrind knows no vectors of 512 bits."""
    exe = network("x86-64-v2")
    exe.export(tmp_path, name="net", compiler="cc")
    built(tmp_path, "net", "-g")
    check = ("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all")
    got = outputs(exe, tmp_path, prefix=check)
    for a, b in zip(got, expected(exe), strict=True):
        np.testing.assert_array_equal(a, b)


# -- for another machine than it was compiled for ---------------------------------------------------------------------------


def machine_of(file: Path) -> int:
    """The number of the machine that an ELF object is for."""
    (number,) = struct.unpack_from("<H", file.read_bytes(), 18)
    return int(number)


def test_for_another_target_it_is_compiled_anew(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).random((40, 64), dtype="f4")
    A, B = ts.placeholder((48, 40), name="A"), ts.placeholder((40, 64), name="B", constant=True)
    k = ts.reduce_axis(40, name="k")
    C = ts.compute((48, 64), lambda i, j: ts.sum(A[i, k] * B[k, j], axis=k), name="C")
    kernel = ts.compile([A, B, C]).bind(B=weights)
    kernel.export(tmp_path / "arm", name="net", target="cortex-a53")
    assert machine_of(tmp_path / "arm/objects/net_k0.o") == machine_of(tmp_path / "arm/objects/net_weights.o") == 0xB7
    direct = ts.compile([A, B, C], target="cortex-a53").bind(B=weights)
    direct.export(tmp_path / "direct", name="net")
    for file in ("objects/net_k0.o", "objects/net_weights.o", "net.c", "net.h"):
        assert (tmp_path / "arm" / file).read_bytes() == (tmp_path / "direct" / file).read_bytes()
    del weights
    with pytest.raises(ts.UserError, match=r"the array that B of C was bound to is gone; keep it, or use ts\.compile"):
        kernel.export(tmp_path / "again", target="cortex-a53")


def test_a_model_is_not_kept_for_that(tmp_path: Path) -> None:
    model = ts.load(write_dense(tmp_path / "dense.onnx"))
    exe = ts.compile(model)
    exe.export(tmp_path / "lib", name="net", target="rv64gcv")
    assert machine_of(tmp_path / "lib/objects/net_k0.o") == 0xF3
    del model
    gc.collect()
    with pytest.raises(ts.UserError, match=r"is gone; keep it .* or use ts.compile\(..., target='cortex-a53'\) and export that"):
        exe.export(tmp_path / "lib", target="cortex-a53")
    exe.save(tmp_path / "exe.tsm")
    with pytest.raises(ts.UserError, match=r"does not know what it was compiled from; .* target='rv64gcv'"):
        ts.load_executable(tmp_path / "exe.tsm").export(tmp_path / "lib", target="rv64gcv")
    with pytest.raises(ts.UserError, match="there is no target 'cortex-a54', did you mean"):
        exe.export(tmp_path / "lib", target="cortex-a54")


def test_weights_in_fewer_bits_are_so_on_the_other_machine_too(tmp_path: Path) -> None:
    """The user keeps the model as it was loaded; the one with the weights in fewer bits is nobody's."""
    model = ts.load(write_wide(tmp_path / "wide.onnx"))
    exe = ts.compile(model, weights="bf16")
    gc.collect()
    exe.export(tmp_path / "lib", name="net", target="cortex-a53")
    ts.compile(model, weights="bf16", target="cortex-a53").export(tmp_path / "direct", name="net")
    for file in ("objects/net_k0.o", "objects/net_weights.o", "net.c", "net.h"):
        assert (tmp_path / "lib" / file).read_bytes() == (tmp_path / "direct" / file).read_bytes()
    ts.compile(model, target="cortex-a53").export(tmp_path / "full", name="net")
    assert (tmp_path / "lib/objects/net_weights.o").stat().st_size < (tmp_path / "full/objects/net_weights.o").stat().st_size


def test_objects_for_webassembly(tmp_path: Path) -> None:
    files = product(target="wasm32").export(tmp_path, name="net")
    names = {f.name for f in files}
    assert {"net_k0.o", "net_weights.o", "libnet_kernels.a"} <= names and "libnet.so" not in names
    assert all((tmp_path / "objects" / name).read_bytes()[:4] == b"\0asm" for name in ("net_k0.o", "net_weights.o"))


# -- indices ----------------------------------------------------------------------------------------------------------------


def rows_of_a_table(constant: bool, check: bool = True) -> Executable:
    """Rows of a table, by two indices of which the second is one of the first: both are checked."""
    table = ts.placeholder((6, 16), name="T")
    order = ts.placeholder((5,), name="O", dtype="i64", constant=constant)
    index = ts.placeholder((8,), name="I", dtype="i64")
    rows = ts.compute((8, 16), lambda i, j: table[order[index[i]], j], name="R")
    exe = ts.compile([table, order, index, rows], check_indices=check)
    return exe.bind(O=np.array([0, 5, 2, 3, 1])) if constant else exe


@needs_compiler
@pytest.mark.parametrize("constant", [False, True])
def test_a_library_checks_indices_if_the_executable_does(constant: bool, tmp_path: Path) -> None:
    exe = rows_of_a_table(constant)
    exe.export(tmp_path, name="net")
    built(tmp_path, "net")
    given = {"T": np.random.default_rng(0).random((6, 16), dtype="f4"), "O": np.array([0, 5, 2, 3, 1])}
    names = [a.name for a in exe.inputs]

    def ran(**arrays: np.ndarray) -> tuple[int, str]:
        for name in names:
            {**given, **arrays}[name].tofile(tmp_path / name)
        done = subprocess.run(["./main", "2", "1", *names, "out"], cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stderr

    right = np.array([0, 1, 2, 3, 4, 0, 4, 1])
    assert ran(I=right) == (0, "")
    got = np.fromfile(tmp_path / "out", np.float32).reshape(8, 16)
    np.testing.assert_array_equal(got, given["T"][given["O"][right]])
    refused = (1, "an index in the data is out of bounds\n")
    assert ran(I=np.array([0, 1, 2, 3, 5, 0, 4, 1])) == ran(I=np.array([0, -1, 2, 3, 4, 0, 4, 1])) == refused
    if not constant:
        assert ran(I=right, O=np.array([0, 6, 2, 3, 1])) == refused
    assert ran(I=right) == (0, "")


def test_a_library_that_clamps_has_no_such_check(tmp_path: Path) -> None:
    rows_of_a_table(constant=True, check=False).export(tmp_path, name="net")
    assert "ts_in_bounds" not in (tmp_path / "net.c").read_text()
