"""Names of a model in C libraries: data, never code, and never in the way of a name that is somebody else's."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backends.cpu.export.test_export import WARNINGS, needs_compiler, run
from tests.hostile import HOSTILE, NAMES

import tensorsmith as ts
from tensorsmith.backends.cpu.export.library import export
from tensorsmith.backends.cpu.export.names import LONGEST, argument_names, c_string, is_free, library_name
from tensorsmith.backends.cpu.export.source import Weights, files
from tensorsmith.runtime.built import Guard, Network
from tensorsmith.runtime.device import Export

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@pytest.fixture(scope="module")
def plain() -> Network:
    A = ts.placeholder((4, 8), name="A")
    return ts.compile([A, ts.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="C")]).network


def named(network: Network, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Network:
    """A network of that name, with as many inputs and outputs as there are names; all but the first are never used."""
    (given,), (made,) = network.inputs, network.outputs
    return dataclasses.replace(
        network,
        name=name,
        inputs=tuple(dataclasses.replace(given, name=n) for n in inputs),
        outputs=tuple(dataclasses.replace(made, name=n) for n in outputs),
    )


def written(network: Network, folder: Path) -> list[Path]:
    return export(network, Export(folder, None, "embedded", None, None))


@needs_compiler
def test_names_of_inputs_and_outputs_are_data(plain: Network, tmp_path: Path) -> None:
    """All of them at once, as inputs and as outputs; strict compilers of C and C++ take what comes out."""
    written(named(plain, "all", NAMES, NAMES), tmp_path)
    flags = ["-Wno-overlength-strings"]
    run(
        ["cc", *WARNINGS, *flags, "-Wtrigraphs", "main.c", "net_all.c", "libnet_all_kernels.a", "-o", "main", "-lm", "-lpthread"],
        tmp_path,
    )
    run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c++", "net_all.h"], tmp_path)
    library = ctypes.CDLL(str(tmp_path / "libnet_all.so"))
    for ask in (library.net_all_input_name, library.net_all_output_name):
        ask.restype = ctypes.c_char_p
        assert [ask(n) for n in range(len(NAMES))] == [name.encode().split(b"\0")[0] for name in NAMES]
        assert ask(-1) is None and ask(len(NAMES)) is None
    assert not hasattr(library, "pwn")
    defined = {line.split()[-1] for line in run(["nm", "--defined-only", "libnet_all.so"], tmp_path).splitlines()}
    assert not any("pwn" in symbol for symbol in defined)


@needs_compiler
@pytest.mark.parametrize("name", ["x", "r", "time", "clock", "size", "é", HOSTILE[0], "x" * 300, "../../pwn"])
def test_a_library_is_built_whatever_its_graph_is_called(name: str, plain: Network, tmp_path: Path) -> None:
    files = written(named(plain, name, ("A",), ("C",)), tmp_path / "here")
    own = library_name(name)
    assert {f"{own}.h", f"lib{own}.so"} <= {f.name for f in files}
    assert all(tmp_path / "here" in f.resolve().parents for f in files)
    run(["cc", *WARNINGS, "main.c", f"{own}.c", f"lib{own}_kernels.a", "-o", "main", "-lm", "-lpthread"], tmp_path / "here")


def every_file(network: Network) -> dict[str, str]:
    """The texts of a library with all that one can have: weights in a file, and checks of indices."""
    name = library_name(network.name)
    return files(network, name, Weights([], 64, bytes(32)), [f"{name}_k0"], [f"objects/{name}_k0.o"], Guard(1, ((0, 8, 4),)))


@needs_compiler
@pytest.mark.parametrize("part", range(4))
def test_graph_input_and_output_of_one_name_compile(part: int, plain: Network, tmp_path: Path) -> None:
    for n, name in enumerate(NAMES[part::4]):
        made = every_file(named(plain, name, (name,), (name,)))
        folder = tmp_path / str(n)
        folder.mkdir()
        for file, text in made.items():
            (folder / file).write_text(text)
        own = library_name(name)
        run(["cc", *WARNINGS, "-Wno-overlength-strings", "-fsyntax-only", "main.c", f"{own}.c"], folder)


STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


@given(st.text(), st.text(), st.text())
def test_nothing_but_identifiers_and_strings(plain: Network, graph: str, one: str, other: str) -> None:
    """Two models that differ in names alone give files that are equal but for identifiers and the strings of the names."""
    made, usual = (every_file(named(plain, *names)) for names in ((graph, (one,), (other,)), ("g", ("a",), ("b",))))
    kept = [library_name(graph), *argument_names([one], [other])]
    plain_ones = [library_name("g"), *argument_names(["a"], ["b"])]
    for own, text, expected in zip(made, made.values(), usual.values(), strict=True):
        assert IDENTIFIER.fullmatch(Path(own).stem)
        text = text.replace(f"{c_string(one)},\n", '"a",\n', 1).replace(f"{c_string(other)},\n", '"b",\n', 1)
        assert _identifiers(text, kept) == _identifiers(expected, plain_ones)


def _identifiers(text: str, names: list[str]) -> str:
    """The text with these identifiers, in upper case too, replaced by numbers."""
    found = {name: str(n) for n, name in enumerate(names)} | {name.upper(): str(n) for n, name in enumerate(names)}
    words = "|".join(map(re.escape, sorted(found, key=len, reverse=True)))
    return re.sub(rf"(?<![A-Za-z0-9])(?:lib)?({words})(?![A-Za-z0-9])", lambda m: f"<{found[m[1]]}>", text)


@given(st.lists(st.text(), max_size=6), st.lists(st.text(), max_size=6))
def test_identifiers(inputs: list[str], outputs: list[str]) -> None:
    names = argument_names(inputs, outputs)
    assert len({n.upper() for n in names}) == len(names) == len(inputs) + len(outputs)
    assert all(IDENTIFIER.fullmatch(n) and len(n) < LONGEST + 12 for n in names)
    assert all(is_free(library_name(n)) for n in (*inputs, *outputs))


def test_names_stay_recognisable() -> None:
    assert argument_names(["image", "a.b", "a_b", "A:B", "größe", "", "é"], ["image", "1st"]) == [
        "in_image", "in_a_b", "in_a_b_2", "in_A_B_3", "in_gr_e", "in_5", "in_6", "out_image", "out_1st",
    ]  # fmt: skip
    assert [library_name(n) for n in ("resnet50", "my-net", "é")] == ["net_resnet50", "net_my_net", "net"]


@given(st.text())
def test_strings_say_what_they_said(text: str) -> None:
    written = c_string(text)
    assert STRING.fullmatch(written) and "??" not in written and written.isascii()
    assert re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), written[1:-1].encode()) == text.encode("utf-8", "replace")


@pytest.mark.parametrize(
    "name", ["time", "x", "timer", "pthread", "size", "m", "class", "main", "test", "ts_pool", "in", "a__b", "é", ""]
)
def test_names_that_a_library_cannot_have(name: str, plain: Network, tmp_path: Path) -> None:
    """By the name that its user gives: what it would hide, or what is ours."""
    with pytest.raises(
        ts.UserError, match=f"is no name that C takes, or is the system's or ours; '{library_name(name)}' would be one"
    ):
        export(plain, Export(tmp_path, name, "embedded", None, None))
    assert is_free(library_name(name))


@needs_compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
@pytest.mark.parametrize("name", [")\nexecute_process(COMMAND pwn)\n", "test", "${CMAKE_COMMAND}"])
def test_cmake_takes_it(name: str, plain: Network, tmp_path: Path) -> None:
    written(named(plain, name, (name,), (name,)), tmp_path)
    run(["cmake", "-B", "build"], tmp_path)


def test_what_the_compiler_says_is_said(plain: Network, tmp_path: Path) -> None:
    """Its reason, not the line that says in which function it was found; and nothing that it says reaches a terminal as it is."""
    compiler = tmp_path / "cc"
    said = "net.c: In function 'net_run':\nnet.c:1:2: error: \x1b[31mthis is the reason\nnet.c:3: note: more"
    compiler.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(ts.UserError, match=r"cc failed in .*lib: net\.c:1:2: error: \?\[31mthis is the reason$"):
        export(plain, Export(tmp_path / "lib", "net", "embedded", str(compiler), None))


@pytest.mark.parametrize("part", range(4))
def test_kernels_of_any_name_compile(part: int) -> None:
    """As input, stage and output: LLVM takes the code."""
    for name in NAMES[part::4]:
        check_kernel(name)


def check_kernel(name: str) -> None:
    A = ts.placeholder((4, 8), name=name)
    k = ts.reduce_axis(8, name="k")
    S = ts.compute((4,), lambda i: ts.sum(A[i, k], axis=k), name=f"{name}s")
    kernel = ts.compile([A, ts.compute((4,), lambda i: S[i] * 2.0, name=f"{name}o")], target="x86-64-v3")
    text = kernel.source("llvm")
    assert re.fullmatch(r"[\x20-\x7e\n\t]*", text) and "pwn" not in text
