"""The C files of a library, from the texts in `c/`: their `$WORDS$` are replaced by what a network says.

No name of a model is written into them but as a C string: `names` makes identifiers for all that a model names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import PackageNotFoundError, version

from tensorsmith.backends.cpu.arm import kernel_bits
from tensorsmith.backends.cpu.export.names import argument_names, c_string
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.elements import TABLE
from tensorsmith.errors import InternalError
from tensorsmith.runtime.arguments import Argument
from tensorsmith.runtime.built import CONSTANT, KINDS, Guard, Network

_KIND_NAMES = dict(zip(KINDS, ("TS_INPUT", "TS_OUTPUT", "TS_WEIGHT", "TS_ARENA")))
#: features of x86 that compilers can ask a processor for; all others come with one of these
_ASKED = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16")


@dataclass(frozen=True)
class Weights:
    """Where the weights lie: offsets of the constants in one block, its size, and in a file of them what it ends with."""

    offsets: Sequence[int]
    size: int
    digest: bytes  # of a file; none: they are in the library


def c_type(argument: Argument) -> str:
    """How C calls the type of an argument's elements."""
    if argument.dtype not in TABLE:
        raise InternalError(f"elements of type {argument.dtype} have no name in C")
    return TABLE[argument.dtype].c


def files(
    network: Network, name: str, weights: Weights, symbols: Sequence[str], objects: Sequence[str], guard: Guard | None
) -> dict[str, str]:
    """The text of each file of a library that is not an object."""
    words = _words(network, name, weights, symbols) | _guard(guard, name.upper())
    words |= {"VERSION": _version(), "OBJECTS": "".join(f"  ${{CMAKE_CURRENT_SOURCE_DIR}}/{o}\n" for o in objects)}
    return {
        f"{name}.h": _filled("model.h", words),
        f"{name}.c": _filled("model.c", words),
        f"{name}_pool.h": _filled("pool.h", words),
        "main.c": _filled("main.c", words),
        "CMakeLists.txt": _filled("CMakeLists.txt", words),
    }


def _version() -> str:
    try:
        return version("tensorsmith")
    except PackageNotFoundError:  # from a folder of sources
        return "(unknown version)"


def _filled(file: str, words: Mapping[str, str]) -> str:
    text = (resources.files("tensorsmith.backends.cpu.export") / "c" / file).read_text()
    return re.sub(r"\$([A-Z_]+)\$", lambda m: words[m[1]], text)


def _words(network: Network, name: str, weights: Weights, symbols: Sequence[str]) -> dict[str, str]:
    inputs, outputs = network.inputs, network.outputs
    upper = name.upper()
    names = argument_names([a.name for a in inputs], [a.name for a in outputs])
    parameters = [f"{'const ' if n < len(inputs) else ''}{c_type(a)} *{names[n]}" for n, a in enumerate((*inputs, *outputs))]
    in_file = bool(weights.digest)
    places = [(place, step) for step in network.steps for place in step.places]
    first = [0]
    for step in network.steps:
        first.append(first[-1] + len(step.places))
    return {
        "NAME": name,
        "UPPER": upper,
        "FOLDER": name,
        "TARGET": re.sub(r"[^A-Za-z0-9.+-]+", "_", network.target.name),
        "SHAPES": "".join(map(_shape, (upper,) * len(names), names, (*inputs, *outputs))),
        "PARAMETERS": ", ".join(parameters),
        "ARGUMENT_NAMES": ", ".join(names),
        "ANY_NULL": " || ".join(f"!{n}" for n in names),
        "INPUT_POINTERS": ", ".join(f"(void *)(uintptr_t){n}" for n in names[: len(inputs)]) or "NULL",
        "OUTPUT_POINTERS": ", ".join(names[len(inputs) :]) or "NULL",
        "INPUT_COUNT": str(len(inputs)),
        "OUTPUT_COUNT": str(len(outputs)),
        "INPUT_NAMES": _names(inputs),
        "OUTPUT_NAMES": _names(outputs),
        "KERNELS": _kernels(symbols),
        "SCRATCHES": _rows(f"{{{k.scratch_bytes}, {k.scratch_bytes_per_thread}}}" for k in network.kernels),
        "STEPS": _rows(
            f"{{{-1 if s.kernel is None else s.kernel}, {at}, {s.copied_bytes}}}" for s, at in zip(network.steps, first)
        ),
        "PLACES": _rows(f"{{{_KIND_NAMES[p.kind]}, {weights.offsets[p.at] if p.kind == CONSTANT else p.at}}}" for p, _ in places),
        "STEP_COUNT": str(len(network.steps)),
        "PLACE_COUNT": str(len(places)),
        "KERNEL_COUNT": str(len(network.kernels)),
        "ARENA_BYTES": str(network.arena_bytes),
        "ARENA_THREADS": str(network.arena_threads),
        "WEIGHT_BYTES": str(weights.size),
        **_machine(network.target),
        **_weights(name, upper, weights, in_file),
        **_example(names, inputs, outputs, in_file),
    }


def _shape(upper: str, name: str, argument: Argument) -> str:
    label = f"{upper}_{name.upper()}"
    sizes = ", ".join(map(str, argument.shape)) or "1"
    what = f"/* {name}: {argument.dtype}{list(argument.shape)} */"
    figures = {"RANK": len(argument.shape), "SHAPE": f"{{{sizes}}}", "ELEMENTS": math.prod(argument.shape)}
    return what + "\n" + "".join(f"#define {label}_{figure} {value}\n" for figure, value in figures.items())


def _kernels(symbols: Sequence[str]) -> str:
    declared = "".join(f"void {s}(void **arguments, void *scratch, void *pool, ts_parallel_for parallel_for);\n" for s in symbols)
    return f"{declared}static const ts_entry ts_kernels[] = {{{', '.join(symbols) or 'NULL'}}};\n"


def _names(arguments: Iterable[Argument]) -> str:
    """What a model calls them, as data."""
    return "".join(f"        {c_string(a.name)},\n" for a in arguments) or "        NULL,\n"


def _rows(rows: Iterable[str]) -> str:
    return "".join(f"    {row},\n" for row in rows) or "    {0},\n"


def _machine(target: object) -> dict[str, str]:
    """What finds out whether a processor has what the code needs, where it can be asked."""
    assert isinstance(target, CpuTarget)
    if target.is_x86:
        asked = [name for name in _ASKED if name in target.needed_features]
        checks = "".join(f'    if (!__builtin_cpu_supports("{name}"))\n        return 0;\n' for name in asked)
        return {
            "MACHINE_INCLUDES": "",
            "MACHINE": f"#if defined(__x86_64__) && defined(__GNUC__)\n    __builtin_cpu_init();\n{checks}#endif\n",
        }
    if target.is_aarch64:
        checks = "".join(
            f"    if (~getauxval({word}) & 0x{bits:x}ul)\n        return 0;\n"
            for word, bits in zip(("AT_HWCAP", "AT_HWCAP2"), kernel_bits(target.needed_features))
            if bits
        )
        if target.scalable_bytes:  # 51: PR_SVE_GET_VL, which older headers lack
            checks += f"    if ((prctl(51, 0, 0, 0, 0) & 0xffff) != {target.scalable_bytes})\n        return 0;\n"
        return {
            "MACHINE_INCLUDES": "\n#if defined(__linux__)\n#include <sys/auxv.h>\n#include <sys/prctl.h>\n#endif\n",
            "MACHINE": f"#if defined(__aarch64__) && defined(__linux__)\n{checks}#endif\n",
        }
    return {"MACHINE_INCLUDES": "", "MACHINE": ""}


def _guard(guard: Guard | None, upper: str) -> dict[str, str]:
    """What looks at indices before they are used."""
    if guard is None:
        return {"GUARD": "", "GUARD_CALL": ""}
    rows = _rows(f"{{{least}, {most}, {extent}}}" for least, most, extent in guard.limits)
    return {
        "GUARD": f"""
/* Where the first steps leave the least and the largest index that a dimension is read at, and how many it has. */
struct ts_limit {{
    int64_t least, most, extent;
}};
static const struct ts_limit ts_limits[] = {{
{rows}}};

/* Nothing is read if the largest lies before the least. */
static int ts_in_bounds(const char *arena) {{
    for (size_t n = 0; n < sizeof ts_limits / sizeof *ts_limits; n++) {{
        int64_t least = *(const int64_t *)(const void *)(arena + ts_limits[n].least);
        int64_t most = *(const int64_t *)(const void *)(arena + ts_limits[n].most);
        if (least <= most && (least < 0 || most >= ts_limits[n].extent))
            return 0;
    }}
    return 1;
}}
""",
        "GUARD_CALL": f"""        if (n == {guard.steps} && !ts_in_bounds(model->arena)) {{
            code = {upper}_BAD_INDEX;
            break;
        }}
""",
    }


def _weights(name: str, upper: str, weights: Weights, in_file: bool) -> dict[str, str]:
    empty = {
        "INCLUDES": "", "WEIGHTS": "", "WEIGHTS_OPEN": "", "WEIGHTS_CLOSE": "", "WEIGHTS_PARAMETER": "", "WEIGHTS_MISSING": "",
        "WEIGHTS_EXAMPLE": "",
    }  # fmt: skip
    if not in_file:
        if not weights.size:
            return empty
        return {
            **empty,
            "WEIGHTS": f"\nextern const char {name}_weights[];\n",
            "WEIGHTS_OPEN": f"    made->weights = {name}_weights;\n",
        }
    digest = ", ".join(map(str, weights.digest))
    return {
        "INCLUDES": "\n#include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/stat.h>\n",
        "WEIGHTS": f"""
/* What a file with the weights of just this model ends with. */
static const unsigned char ts_mark[] = {{{digest}}};

/* The file in memory, which processes that run the same model share; NULL if it is not the right one. */
static const char *ts_open_weights(const char *path) {{
    struct stat about;
    int file = open(path, O_RDONLY);
    void *memory = MAP_FAILED;
    if (file < 0)
        return NULL;
    if (fstat(file, &about) == 0 && about.st_size == (off_t)(TS_WEIGHT_BYTES + sizeof ts_mark))
        memory = mmap(NULL, TS_WEIGHT_BYTES + sizeof ts_mark, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return NULL;
    if (memcmp((const char *)memory + TS_WEIGHT_BYTES, ts_mark, sizeof ts_mark) != 0) {{
        munmap(memory, TS_WEIGHT_BYTES + sizeof ts_mark);
        return NULL;
    }}
    return memory;
}}
""",
        "WEIGHTS_OPEN": f"""    made->weights = ts_open_weights(weights);
    if (!made->weights) {{
        {name}_destroy(made);
        *model = NULL;
        return {upper}_BAD_WEIGHTS;
    }}
""",
        "WEIGHTS_CLOSE": """    if (model->weights)
        munmap((void *)(uintptr_t)model->weights, TS_WEIGHT_BYTES + sizeof ts_mark);
""",
        "WEIGHTS_PARAMETER": ", const char *weights",
        "WEIGHTS_MISSING": " || !weights",
        "WEIGHTS_EXAMPLE": f', "{name}.weights"',
    }


def _example(names: Sequence[str], inputs: Sequence[Argument], outputs: Sequence[Argument], in_file: bool) -> dict[str, str]:
    read, write = "", ""
    for n, (name, argument) in enumerate(zip(names, (*inputs, *outputs))):
        kind, bytes_ = c_type(argument), f"{argument.bytes}u"
        if n < len(inputs):
            read += f"    {kind} *{name} = read_file(words[{3 + n}], {bytes_});\n"
        else:
            read += f"    {kind} *{name} = take({bytes_});\n"
            write += f"    write_file(words[{3 + n}], {name}, {bytes_});\n"
        write += f"    free({name});\n"
    count = 3 + len(names)
    return {
        "READ": read,
        "WRITE": write,
        "WORDS": str(count + in_file),
        "FILES_USAGE": "".join(f" {name.upper()}" for name in names),
        "WEIGHTS_USAGE": " WEIGHTS" if in_file else "",
        "WEIGHTS_WORD": f", words[{count}]" if in_file else "",
    }
