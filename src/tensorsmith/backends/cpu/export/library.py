"""A folder with everything that a C program needs to run a network.

    NAME.h, NAME.c, NAME_pool.h    create, run, destroy; the steps; the thread pool
    objects/                       an object for each kernel, and one with the weights
    NAME.weights                   the weights instead, if they are to be in a file of their own
    libNAME_kernels.a              all objects in one archive (Linux and WebAssembly)
    CMakeLists.txt, main.c         how it is built, and an example
    libNAME.a, libNAME.so          the whole, if there is a C compiler for that machine (WebAssembly: without the second)

All names begin with the library's own, so that several can be linked into one program.
"""

from __future__ import annotations

import hashlib
import itertools
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tensorsmith.backends.cpu.export.names import is_free, library_name
from tensorsmith.backends.cpu.export.objects import Object, archive, is_elf, joined, kernel_object, weights_object
from tensorsmith.backends.cpu.export.source import Weights, files
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import UserError
from tensorsmith.runtime.buffers import as_bytes, round_up
from tensorsmith.runtime.built import Network
from tensorsmith.runtime.device import Export
from tensorsmith.show.line import plain

EMBEDDED, IN_FILE = WEIGHTS = ("embedded", "file")
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra")


def export(network: Network, wanted: Export) -> list[Path]:
    """Writes the folder; gives the files. `compiler`: None is the system's `cc`, if that is there and makes code for the target."""
    target, folder, weights = network.target, wanted.folder, wanted.weights
    assert isinstance(target, CpuTarget)
    _check(network, target, folder, wanted.name, weights)
    name = wanted.name or library_name(network.name)
    data = [as_bytes(array) for array in network.constants]
    block = _block(data, weights)
    objects = [kernel_object(kernel, f"{name}_k{n}") for n, kernel in enumerate(network.kernels)]
    if block.size and weights == EMBEDDED:
        objects.append(weights_object(data, f"{name}_weights", target))
    contents: dict[str, bytes] = {f"objects/{o.name}": o.data for o in objects}
    if weights == IN_FILE:
        contents[f"{name}.weights"] = joined(data) + block.digest
    if is_elf(target) or target.is_wasm:
        contents[f"lib{name}_kernels.a"] = archive(objects)
    symbols = [o.symbol for o in objects[: len(network.kernels)]]
    texts = files(network, name, block, symbols, [f"objects/{o.name}" for o in objects], wanted.guard)
    contents |= {file: text.encode() for file, text in texts.items()}
    written = _write(folder, contents)
    found = wanted.compiler or _own_compiler(target)
    return written + (_build(folder, name, objects, found, target) if found else [])


def _check(network: Network, target: CpuTarget, folder: Path, name: str | None, weights: str) -> None:
    network.check_bound("exported")
    if weights not in WEIGHTS:
        raise UserError(f'weights are "embedded" or in a "file", {weights!r} given')
    if weights == IN_FILE and target.is_wasm:
        raise UserError('WebAssembly maps no files into memory; give weights="embedded"')
    if weights == EMBEDDED and not is_elf(target) and not target.is_wasm:
        raise UserError(f'weights cannot be embedded into objects for {target.triple}; give weights="file"')
    if name is not None and not is_free(name):
        raise UserError(f"{name!r} is no name that C takes, or is the system's or ours; {library_name(name)!r} would be one")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give a folder to write to")


def _block(data: Sequence[bytes | memoryview], weights: str) -> Weights:
    *offsets, size = itertools.accumulate((round_up(len(part)) for part in data), initial=0)
    if weights == EMBEDDED:
        return Weights(offsets, size, b"")
    digest = hashlib.sha256()
    for part in data:
        digest.update(part)
    return Weights(offsets, size, digest.digest())


def _write(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    try:
        (folder / "objects").mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            (folder / file).write_bytes(content)
    except OSError as problem:
        raise UserError(f"{folder} cannot be written: {problem.strerror or problem}") from problem
    return [folder / file for file in contents]


def _own_compiler(target: CpuTarget) -> str | None:
    """The compiler of this machine, if the code is for machines of its kind."""
    same = platform.system() == "Linux" and target.triple.startswith(f"{platform.machine()}-") and "linux" in target.triple
    return shutil.which("cc") if same else None


def _build(folder: Path, name: str, objects: Sequence[Object], compiler: str, target: CpuTarget) -> list[Path]:
    """What the compiler makes of it: a library to link, and one to load where there is such a thing."""
    if shutil.which(compiler) is None:
        raise UserError(f"there is no compiler {compiler!r}; everything else is in {folder}, and its CMakeLists.txt builds it")
    flags = (*_FLAGS, f"--target={target.triple}") if target.is_wasm else _FLAGS
    built = [folder / "objects" / f"{name}.o", folder / f"lib{name}.a"]
    try:
        _run([compiler, *flags, "-c", f"{name}.c", "-o", f"objects/{name}.o"], folder)
        glue = Object(f"{name}.o", f"{name}_create", (folder / "objects" / f"{name}.o").read_bytes())
        (folder / f"lib{name}.a").write_bytes(archive([glue, *objects]))
        if not target.is_wasm:
            parts = [f"objects/{o.name}" for o in (glue, *objects)]
            _run([compiler, "-shared", "-o", f"lib{name}.so", *parts, "-lm", "-lpthread"], folder)
            built.append(folder / f"lib{name}.so")
    except OSError as problem:
        raise UserError(f"{folder} cannot be written: {problem.strerror or problem}") from problem
    return built


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{command[0]} failed in {folder}: {_reason(done.stderr) or f'exit status {done.returncode}'}")


def _reason(said: str) -> str:
    """The first error of what a compiler or linker says: lines in front of it tell only where it was looking."""
    lines = said.strip().splitlines()
    wrong = [line for line in lines if re.search(r"\berror\b|undefined|cannot|No such", line, re.IGNORECASE)]
    return plain((wrong or lines or [""])[0])
