"""Records as JSON lines: one record to a line, each complete by itself, so that files can be cut, joined and searched."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tensorsmith.records import faults
from tensorsmith.records.record import Invalid

_SQLITE = "SQLite format 3"
_LONGEST_LINE = 1 << 24  # characters; a record takes some thousand


@dataclass
class Counts:
    """What became of records that were moved: newly written, there already, or left out, by reason."""

    added: int = 0
    present: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        text = f"{self.added} records added, {self.present} there already, {self.skipped.total()} skipped"
        reasons = [f"{n} x {reason}" for reason, n in self.skipped.most_common(5)]
        return text + (f" ({'; '.join(reasons)})" if reasons else "")


def write(forms: Iterable[dict[str, Any] | Invalid], stream: TextIO) -> Counts:
    counts = Counts()
    for form in forms:
        try:
            if isinstance(form, Invalid):
                raise form
            line = json.dumps(form, separators=(",", ":"), allow_nan=False)
        except (Invalid, ValueError, TypeError) as problem:
            counts.skipped[str(problem)] += 1
            continue
        stream.write(line + "\n")
        counts.added += 1
    return counts


def read(stream: TextIO) -> Iterator[Any]:
    """The JSON value of each line, or why there is none. A line without a uid gets one made of its content."""
    for line in _lines(stream):
        if isinstance(line, Invalid):
            yield line
            continue
        if line.startswith(_SQLITE):
            raise faults.StoreError("other", "this is a record file, not JSON lines: merge it instead of importing it")
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            yield Invalid("the line is not JSON")
            continue
        if isinstance(data, dict):
            data.setdefault("uid", hashlib.sha256(line.strip().encode("utf-8", "replace")).hexdigest()[:16])
        yield data


def _lines(stream: TextIO) -> Iterator[str | Invalid]:
    """Line by line; one that is no record's, so long that it might not fit into memory, is passed over without being kept."""
    while line := stream.readline(_LONGEST_LINE):
        if len(line) < _LONGEST_LINE or line.endswith("\n"):
            yield line
            continue
        while line and not line.endswith("\n"):
            line = stream.readline(_LONGEST_LINE)
        yield Invalid(f"the line is longer than {_LONGEST_LINE} characters")


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """A text file that appears under its name only when it is complete; never replaces another."""
    with faults.explained(path):
        if path.exists():
            raise faults.StoreError("exists", f"{path} exists already and is left as it is; give another path")
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
