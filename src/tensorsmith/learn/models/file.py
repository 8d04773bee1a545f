"""The file of a saved model: a line of JSON that says what it is, then text. Nothing in it is ever run.

{"format": "tensorsmith-model", "version": 1, "kind": "trees", "features": 3, "digest": "...", ...}
tree
version=v4
...
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorsmith.errors import UserError
from tensorsmith.files import replacing
from tensorsmith.learn.features.schema import Schema

_FORMAT, _VERSION = "tensorsmith-model", 1


def write(path: str | Path, schema: Schema, kind: str, more: Mapping[str, Any], text: str = "") -> None:
    """Writes a model in one step: whoever reads finds the old file or the new one, never half of one."""
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": kind,
        "features": schema.version,
        "names": _digest(" ".join(schema.names)),
        "digest": _digest(text),
        **more,
    }
    path = Path(path)
    try:
        with replacing(path) as stream:
            stream.write(f"{json.dumps(head)}\n{text}".encode())
    except OSError as problem:
        raise UserError(f"cannot write the model {path}: {problem}") from problem


def read(path: str | Path, schema: Schema, kind: str | None = None) -> tuple[dict[str, Any], str]:
    """The header and the text, checked: format, version, features, kind (if one is wanted), and that the text is whole."""
    head, text = _parts(path)
    if kind is not None and head.get("kind") != kind:
        raise UserError(f"{path} holds a model of kind {head.get('kind')!r}, not {kind!r}")
    if head.get("features") != schema.version or head.get("names") != _digest(" ".join(schema.names)):
        raise UserError(
            f"{path} was learned on version {head.get('features')!r} of the features, and this tensorsmith computes version "
            f"{schema.version}; learn it anew from the records"
        )
    if head.get("digest") != _digest(text):
        raise UserError(f"{path} is damaged: its text is not the one that was saved")
    return head, text


def _parts(path: str | Path) -> tuple[dict[str, Any], str]:
    """The header and the text of a file that is a model's, whatever it learned from."""
    try:
        line, _, text = Path(path).read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"cannot read the model {path}: {problem}") from problem
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise UserError(f"{path} is no model of tensorsmith; its first line is {line[:60]!r}")
    if head.get("version") != _VERSION:
        raise UserError(f"{path} is a model file of version {head.get('version')!r}; this tensorsmith reads version {_VERSION}")
    return head, text


def kind_of(path: str | Path) -> str:
    """What a file holds, by its header."""
    return str(_parts(path)[0].get("kind"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
