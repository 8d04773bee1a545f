"""Networks in files: machine code and packed weights, read without the compiler.

    magic, version, sizes, SHA-256 of header and body        96 bytes
    header                                                   JSON, filled up with spaces
    body                                                     object code of driver (the thread pool's too) and kernels,
                                                             constants; each 64-byte aligned

The version says what the header is: 4, one network; 5, several variants of a network with open dimensions, whose inputs, sizes and
networks it lists; 6, such variants of which some are bounded and serve all sizes up to theirs. Their constants and code lie in one
body, equal ones once. Who knows format 4 alone refuses a file of variants.

Everything is checked before it is used: the hashes, then every name, number and reference of the header. That guards against damage
and mistakes. It cannot guard against malice, because the file is code: load only files that you trust.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import mmap
import os
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import COMPILE, InternalError, UserError
from tensorsmith.files import replacing
from tensorsmith.runtime import driver
from tensorsmith.runtime.arguments import CALL_NUMBER, DTYPES, Argument
from tensorsmith.runtime.buffers import ALIGNMENT
from tensorsmith.runtime.buffers import as_bytes as bytes_of
from tensorsmith.runtime.built import KINDS, Code, Kernel, Network, Place, Step
from tensorsmith.runtime.variants.bounds import Bounds
from tensorsmith.targets.host import MOST_THREADS
from tensorsmith.targets.target import Target

MAGIC = b"\x89TSM\r\n\x1a\n"  # not text: an FTP or e-mail that treats it as such is noticed
VERSION, VARIANTS, BOUNDED = 4, 5, 6
_PROLOGUE = struct.Struct("<8sIIQQ32s32s")  # magic, version, 0, bytes of header and of body, their SHA-256
_LARGEST = 1 << 48  # of any size or number in a header
_MOST_DIMENSIONS = 32
_MOST_VARIANTS = 1 << 16
_PICKLE = Path("the pickled executable")  # stands for a path in what is said of its content


class _Damaged(Exception):
    """What a header says cannot be."""


OpenForm = tuple[str, tuple[int | str, ...], str]  # an input: its name, its dimensions (a size, or a symbol), its type
#: a variant: its sizes and its network; and, for one that serves all sizes up to those, what calls have of it
SizedNetwork = tuple[tuple[int, ...], Network, Bounds | None]


@dataclass(frozen=True)
class Varying:
    """Networks for several sizes of the open dimensions; sizes are in the order in which the inputs name the symbols."""

    name: str
    inputs: tuple[OpenForm, ...]
    variants: tuple[SizedNetwork, ...]


def given_path(path: str | Path, wanted: str) -> Path:
    """The path of a file that a caller gave."""
    try:
        found = Path(path)
    except TypeError:
        found = Path()
    if not found.name or "\0" in str(found):
        raise UserError(f"path is {path!r:.80}; give {wanted}")
    return found


# -- writing -----------------------------------------------------------------------------------------------------------


def save(network: Network, path: str | Path) -> None:
    """Writes a network to a file, which is there complete or not at all."""
    path = given_path(path, "the path of the file to write")
    _write(path, _parts(network, "saved"))


def save_variants(name: str, inputs: Sequence[OpenForm], variants: Sequence[SizedNetwork], path: str | Path) -> None:
    """Writes the networks of several sizes, all for one target, to one file."""
    path = given_path(path, "the path of the file to write")
    _write(path, _variants_parts(name, inputs, variants, "saved"))


def as_bytes(network: Network) -> bytes:
    """What `save` would write."""
    return b"".join(_parts(network, "pickled"))


def variants_as_bytes(name: str, inputs: Sequence[OpenForm], variants: Sequence[SizedNetwork]) -> bytes:
    """What `save_variants` would write."""
    return b"".join(_variants_parts(name, inputs, variants, "pickled"))


def _parts(network: Network, done: str) -> list[bytes | memoryview]:
    """The parts of a file, one after the other; `done`: what is to be done with them."""
    body = _Body()
    return _joined(VERSION, {"target": network.target.to_json(), **_network_form(network, body, done)}, body)


def _variants_parts(name: str, inputs: Sequence[OpenForm], variants: Sequence[SizedNetwork], done: str) -> list[bytes | memoryview]:
    body = _Body()
    header = {
        "name": name,
        "target": variants[0][1].target.to_json(),
        "inputs": [[n, list(dims), dtype] for n, dims, dtype in inputs],
        "variants": [_variant_form(*variant, body, done) for variant in variants],
    }
    return _joined(BOUNDED if any(bounds is not None for _, _, bounds in variants) else VARIANTS, header, body)


def _variant_form(sizes: Sequence[int], network: Network, bounds: Bounds | None, body: _Body, done: str) -> dict[str, Any]:
    form = {"sizes": list(sizes), "network": _network_form(network, body, done)}
    return form if bounds is None else {**form, "bounds": bounds.to_json()}


def _network_form(network: Network, body: _Body, done: str) -> dict[str, Any]:
    network.check_bound(done)
    code = network.driver or driver.driver_code(network.target)
    return {
        "name": network.name,
        "inputs": [_argument_form(a) for a in network.inputs],
        "outputs": [_argument_form(a) for a in network.outputs],
        "driver": None if code is None else _code_form(code, body),
        "driver_source": "" if code is None else code.made_from,
        "kernels": [_kernel_form(k, body) for k in network.kernels],
        "constants": [body.add(bytes_of(a)) for a in network.constants],
        "arena_bytes": network.arena_bytes,
        "arena_threads": network.arena_threads,
        "threads": network.threads,
        "steps": [
            {"kernel": s.kernel, "places": [[p.kind, p.at] for p in s.places], "copied_bytes": s.copied_bytes}
            for s in network.steps
        ],
    }


def _joined(version: int, header: dict[str, Any], body: _Body) -> list[bytes | memoryview]:
    """A prologue, the header as text, and the body."""
    text = json.dumps(header).encode()
    text += b" " * (-(_PROLOGUE.size + len(text)) % ALIGNMENT)
    prologue = _PROLOGUE.pack(MAGIC, version, 0, len(text), body.size, hashlib.sha256(text).digest(), body.digest())
    return [prologue, text, *body.parts]


class _Body:
    """The sections behind the header."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.size = 0
        self._known: dict[tuple[int, bytes], list[int]] = {}  # sections by content: variants share weights, and the driver

    def add(self, part: bytes | memoryview) -> list[int]:
        """The offset and size of a section, a new one unless there is one of that content."""
        key = (len(part), hashlib.sha256(part).digest())
        if key not in self._known:
            self._known[key] = [self.size, len(part)]
            padding = -len(part) % ALIGNMENT
            self.parts += [part, bytes(padding)]
            self.size += len(part) + padding
        return self._known[key]

    def digest(self) -> bytes:
        found = hashlib.sha256()
        for part in self.parts:
            found.update(part)
        return found.digest()


def _argument_form(a: Argument) -> list[Any]:
    return [a.name, list(a.shape), a.dtype]


def _code_form(code: Code, body: _Body) -> dict[str, Any]:
    return {"symbols": sorted(code.symbols), "code": body.add(code.data)}


def _kernel_form(kernel: Kernel, body: _Body) -> dict[str, Any]:
    own = ("name", "argument_bytes", "reads", "scratch_bytes", "scratch_bytes_per_thread", "flops", "result", "schedule")
    return {**{name: getattr(kernel, name) for name in own}, "module": _code_form(kernel.code, body)}


def _write(path: Path, parts: Sequence[bytes | memoryview]) -> None:
    try:
        with replacing(path) as stream:
            for part in parts:
                stream.write(part)
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem


# -- reading -----------------------------------------------------------------------------------------------------------


def read(path: str | Path) -> Network | Varying:
    """The network of a file that `save` wrote, or those of `save_variants`, whatever machine they are for. Raises `UserError` if
    the file is damaged, or of another version."""
    path = given_path(path, "the path of a file that `exe.save(path)` wrote")
    return _content(path, *_open(path))


def from_bytes(data: bytes) -> Network:
    """The network of what `as_bytes` gave, checked like a file."""
    found = _of_bytes(data)
    if not isinstance(found, Network):
        raise UserError(f"{_PICKLE} is damaged: it has variants")
    return found


def variants_from_bytes(data: bytes) -> Varying:
    """The networks of what `variants_as_bytes` gave, checked like a file."""
    found = _of_bytes(data)
    if not isinstance(found, Varying):
        raise UserError(f"{_PICKLE} is damaged: it has no variants")
    return found


def _of_bytes(data: bytes) -> Network | Varying:
    whole = mmap.mmap(-1, max(1, len(data)))  # memory that begins at a page, as a file's does
    whole[: len(data)] = data
    return _content(_PICKLE, *_checked(_PICKLE, whole, len(data)))


def _content(path: Path, whole: mmap.mmap, version: int, header: dict[str, Any], start: int) -> Network | Varying:
    try:
        target = Target.from_json(header.get("target"))
    except UserError as problem:
        raise UserError(f"{path}: {problem}") from problem
    with damage_named(path):
        reader = _Reader(whole, start, target)
        return reader.network(header).check() if version == VERSION else reader.varying(header)


@contextlib.contextmanager
def damage_named(path: str | Path) -> Iterator[None]:
    """What is wrong with the content of a file is said with its name."""
    try:
        yield
    except (_Damaged, InternalError) as problem:
        raise UserError(f"{path} is damaged: {problem}; make it again with ", COMPILE) from problem


def _open(path: Path) -> tuple[mmap.mmap, int, dict[str, Any], int]:
    """The file's memory, its version, its header, and where its body starts."""
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            _check_beginning(path, stream.read(_PROLOGUE.size), size)
            whole = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    return _checked(path, whole, size)


def _check_beginning(path: Path, beginning: bytes, size: int) -> None:
    if beginning[:8] != MAGIC[: len(beginning)] or not beginning:
        raise UserError(f"{path} is no executable of Tensorsmith; ", COMPILE, " writes one")
    if len(beginning) < _PROLOGUE.size:
        raise UserError(f"{path} is cut short: it has {size} bytes")


def _checked(path: Path, whole: mmap.mmap, size: int) -> tuple[mmap.mmap, int, dict[str, Any], int]:
    """The memory, once more, with its version, its header, and where its body starts; all hashes are right."""
    beginning = whole[: _PROLOGUE.size][:size]
    _check_beginning(path, beginning, size)
    _, version, zero, header_bytes, body_bytes, header_hash, body_hash = _PROLOGUE.unpack(beginning)
    if version not in (VERSION, VARIANTS, BOUNDED):
        known = f"this version reads formats {VERSION} to {BOUNDED}"
        raise UserError(f"{path} has format {version}, {known}; make it again with ", COMPILE)
    start = _PROLOGUE.size + header_bytes
    if zero or start + body_bytes != size or start % ALIGNMENT:
        raise UserError(f"{path} is damaged or cut short: it has {size} bytes, {start + body_bytes} expected")
    text = whole[_PROLOGUE.size : start]
    with memoryview(whole) as view, view[start:] as body:
        if hashlib.sha256(text).digest() != header_hash or hashlib.sha256(body).digest() != body_hash:
            raise UserError(f"{path} is damaged: its checksum is wrong; copy it again, or make it again with ", COMPILE)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is damaged: its header is not JSON: {problem}") from problem
    if not isinstance(header, dict):
        raise UserError(f"{path} is damaged: its header is no JSON object")
    return whole, version, header, start


class _Reader:
    """The parts of an executable from their JSON forms, each checked."""

    def __init__(self, whole: mmap.mmap, start: int, target: Target) -> None:
        self.whole, self.start, self.target = whole, start, target

    def network(self, header: dict[str, Any]) -> Network:
        return Network(
            _field(header, "name", str),
            self._arguments(header, "inputs"),
            self._arguments(header, "outputs"),
            tuple(self._kernel(k) for k in _forms(header, "kernels")),
            tuple(self._step(s) for s in _forms(header, "steps")),
            tuple(self._section(c) for c in _field(header, "constants", list)),
            _size(header, "arena_bytes"),
            _size(header, "arena_threads"),
            driver=self._driver(header),
            threads=_threads(header),
        )

    def varying(self, header: dict[str, Any]) -> Varying:
        inputs = tuple(_open_argument(form) for form in _field(header, "inputs", list))
        symbols = tuple(dict.fromkeys(d for _, dims, _ in inputs for d in dims if isinstance(d, str)))
        forms = _forms(header, "variants")
        if not symbols or not 0 < len(forms) <= _MOST_VARIANTS:
            raise _Damaged(f"it has {len(symbols)} open dimensions and {len(forms)} variants")
        found: dict[tuple[tuple[int, ...], bool], SizedNetwork] = {}
        for form in forms:
            sizes = tuple(_whole(n, "sizes") for n in _field(form, "sizes", list))
            network = self.network(_field(form, "network", dict)).check()
            bounds = None if "bounds" not in form else Bounds.from_json(form["bounds"], sizes, network.outputs)
            if len(sizes) != len(symbols) or (sizes, bounds is None) in found:
                raise _Damaged(f"the sizes of a variant are {list(sizes)}")
            by_name = dict(zip(symbols, sizes))
            wanted = [(n, tuple(by_name[d] if isinstance(d, str) else d for d in dims), dtype) for n, dims, dtype in inputs]
            wanted += [(a.name, a.shape, a.dtype) for a in (bounds.inputs if bounds is not None else [])]
            if [(a.name, a.shape, a.dtype) for a in network.inputs if a.name != CALL_NUMBER] != wanted:
                raise _Damaged(f"the variant of the sizes {list(sizes)} has other inputs")
            found[sizes, bounds is None] = sizes, network, bounds
        return Varying(_field(header, "name", str), inputs, tuple(found.values()))

    def _driver(self, header: dict[str, Any]) -> Code | None:
        """The code that runs the steps; files for kinds that are no hosts have none."""
        source = _field(header, "driver_source", str)
        if header.get("driver") is None and self.target.kind != "cpu":
            return None
        code = self._code(_field(header, "driver", dict), source)
        if code.symbols != driver.SYMBOLS:
            raise _Damaged(f"the driver has {', '.join(sorted(code.symbols))}")
        return code

    def _arguments(self, header: dict[str, Any], key: str) -> tuple[Argument, ...]:
        found = tuple(_argument(form) for form in _field(header, key, list))
        if len({a.name for a in found}) != len(found):
            raise _Damaged(f"two {key} have the same name")
        return found

    def _kernel(self, form: dict[str, Any]) -> Kernel:
        sizes = tuple(_whole(n, "argument_bytes") for n in _field(form, "argument_bytes", list))
        kernel = Kernel(
            name=_field(form, "name", str),
            code=self._code(_field(form, "module", dict)),
            argument_bytes=sizes,
            reads=_size(form, "reads"),
            scratch_bytes=_size(form, "scratch_bytes"),
            scratch_bytes_per_thread=_size(form, "scratch_bytes_per_thread"),
            flops=_size(form, "flops"),
            result=_field(form, "result", str),
            schedule=_field(form, "schedule", str),
        )
        if len(kernel.code.symbols) != 1 or kernel.reads > len(sizes):
            counts = f"{len(kernel.code.symbols)} entries, {len(sizes)} arguments, {kernel.reads} of them read"
            raise _Damaged(f"kernel {kernel.name} has {counts}")
        return kernel

    def _code(self, form: dict[str, Any], made_from: str = "") -> Code:
        exported = frozenset(_symbol(s) for s in _field(form, "symbols", list))
        data = self._section(_field(form, "code", list)).tobytes()
        return Code(self.target, exported, data, made_from=made_from)

    def _step(self, form: dict[str, Any]) -> Step:
        kernel = form.get("kernel")
        places = tuple(_place(p) for p in _field(form, "places", list))
        return Step(None if kernel is None else _whole(kernel, "kernel"), places, _size(form, "copied_bytes"))

    def _section(self, form: Any) -> np.ndarray:
        if not isinstance(form, list) or len(form) != 2:
            raise _Damaged(f"a section is {form!r}")
        offset, size = (_whole(n, "section") for n in form)
        if offset % ALIGNMENT or self.start + offset + size > len(self.whole):
            raise _Damaged(f"the section of {size} bytes at {offset} is not inside the file")
        return np.frombuffer(self.whole, np.uint8, size, self.start + offset)


def _argument(form: Any) -> Argument:
    if not isinstance(form, list) or len(form) != 3 or not isinstance(form[0], str) or not isinstance(form[1], list):
        raise _Damaged(f"an argument is {form!r}")
    name, shape, dtype = form
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise _Damaged(f"the type of {name} is {dtype!r}")
    if len(shape) > _MOST_DIMENSIONS:
        raise _Damaged(f"{name} has {len(shape)} dimensions")
    argument = Argument(name, tuple(_whole(n, f"shape of {name}") for n in shape), dtype)
    if math.prod(argument.shape) > _LARGEST:
        raise _Damaged(f"the shape of {name} is {list(argument.shape)}")
    return argument


def _open_argument(form: Any) -> OpenForm:
    """An input whose dimensions may be names."""
    if not isinstance(form, list) or len(form) != 3 or not isinstance(form[1], list):
        raise _Damaged(f"an argument is {form!r}")
    if any(isinstance(d, str) and not d for d in form[1]):
        raise _Damaged(f"a dimension of {form[0]!r} has no name")
    checked = _argument([form[0], [0 if isinstance(d, str) else d for d in form[1]], form[2]])
    return checked.name, tuple(d if isinstance(d, str) else n for d, n in zip(form[1], checked.shape)), checked.dtype


def _place(form: Any) -> Place:
    if not isinstance(form, list) or len(form) != 2 or form[0] not in KINDS:
        raise _Damaged(f"a place is {form!r}")
    return Place(form[0], _whole(form[1], "place"))


def _symbol(form: Any) -> str:
    if not isinstance(form, str) or not re.fullmatch(r"[A-Za-z_.$][A-Za-z0-9_.$]*", form):
        raise _Damaged(f"a function is called {form!r}")
    return form


def _forms(form: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = _field(form, key, list)
    if not all(isinstance(f, dict) for f in found):
        raise _Damaged(f"{key} are not all objects")
    return found


def _size(form: dict[str, Any], key: str) -> int:
    return _whole(form.get(key), key)


def _threads(form: dict[str, Any]) -> int | None:
    """How many threads run it, where that was said; files of earlier versions do not."""
    value = form.get("threads")
    if value is not None and not 1 <= _whole(value, "threads") <= MOST_THREADS:
        raise _Damaged(f"threads is {value!r}")
    return value


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise _Damaged(f"{what} is {value!r}")
    return value


def _field(form: dict[str, Any], key: str, kind: type) -> Any:
    value = form.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Damaged(f"{key} is {value!r:.80}")
    return value
