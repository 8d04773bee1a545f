"""safetensors files: a JSON header, then the data, mapped into memory."""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.language.blocks import FORMATS
from tensorsmith.language.weight import Weight

_FORMATS = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
_LONGEST = 100 << 20  # bytes of a header; the format's own limit
INDEX = "model.safetensors.index.json"


def read_folder(folder: Path) -> dict[str, Weight]:
    """The tensors of all files of a folder: those of the index if there is one, else of the one file."""
    index = folder / INDEX
    if index.is_file():
        names = _json(index.read_bytes(), index).get("weight_map")
        if not isinstance(names, dict) or not all(isinstance(f, str) for f in names.values()):
            raise UserError(f"{index} has no weight_map from names to files")
        files = sorted(set(names.values()))
        if outside := [f for f in files if Path(f).name != f or f in ("", ".", "..")]:
            raise UserError(f"{index} names the file {outside[0]!r}, which is not one of its folder")
    else:
        names, files = None, sorted(p.name for p in folder.glob("*.safetensors"))
        if len(files) > 1:
            raise UserError(f"{folder} has {len(files)} files of weights and no {INDEX} that says what is where")
    if not files:
        raise UserError(f"{folder} has no *.safetensors file; other files of weights are not read")
    found: dict[str, Weight] = {}
    for file in files:
        found |= read_safetensors(folder / file)
    if missing := sorted(set(names or ()) - set(found)):
        raise UserError(
            f"{index} names {missing[0]!r}, which is in no file" + (f"; {len(missing)} are missing" if len(missing) > 1 else "")
        )
    return found


def read_safetensors(path: Path) -> dict[str, Weight]:
    """The floating-point tensors of a file; others are left out."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 8:
            raise UserError(f"{path} has {size} bytes; a safetensors file has 8 at least")
        data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > min(size - 8, _LONGEST):
        raise UserError(f"{path} says that its header has {length} bytes; the file has {size}. Is it truncated?")
    header = _json(data[8 : 8 + length].tobytes(), path)
    body = data[8 + length :]
    return {n: one for n, about in header.items() if n != "__metadata__" and (one := _tensor(path, n, about, body)) is not None}


def _tensor(path: Path, name: str, about: Any, body: np.ndarray) -> Weight | None:
    try:
        kind, shape, (begin, end) = str(about["dtype"]), tuple(about["shape"]), about["data_offsets"]
        sound = all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end))
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise UserError(f"{path}: {name!r} is described by {str(about)[:100]!r}; expected dtype, shape and data_offsets")
    if kind not in _FORMATS:
        return None
    format = _FORMATS[kind]
    wanted = math.prod(shape) * FORMATS[format].bytes
    if not begin <= end <= len(body) or end - begin != wanted:
        raise UserError(
            f"{path}: {name!r} is {kind} {list(shape)}, {wanted} bytes, and is at {begin} to {end} of {len(body)}. Is it truncated?"
        )
    if not shape or not all(shape):
        return None
    return Weight(name, shape, format, body[begin:end].reshape(*shape[:-1], -1))


def _json(text: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is no JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise UserError(f"{path} is no JSON object")
    return found
