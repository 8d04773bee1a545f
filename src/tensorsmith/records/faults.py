"""What can go wrong with a record file, as errors that say what happened and what to do.

Whatever is raised here, the rows stored before are still in the file: a transaction that fails leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tensorsmith.errors import Action, Part, UserError

_LITTLE_SPACE = 1 << 20  # free bytes below which a failed write is put down to a full disk


class StoreError(UserError):
    """A record file cannot be used. `kind` is "full", "write failed", "corrupt", "not a record file", "newer", "read-only",
    "locked", "missing", "exists" or "other". After "full", "write failed" and "locked" the same call may be tried again.
    """

    def __init__(self, kind: str, *parts: Part) -> None:
        super().__init__(*parts)
        self.kind = kind

    def __reduce__(self) -> tuple[type[StoreError], tuple[Part, ...]]:
        return StoreError, (self.kind, *self.parts)


@contextlib.contextmanager
def explained(path: Path, patience: float = 0.0) -> Iterator[None]:
    """Turns SQLite's and the system's errors into a `StoreError` about that file."""
    try:
        yield
    except sqlite3.Error as problem:
        raise _from_sqlite(path, problem, patience) from problem
    except OSError as problem:
        raise _from_system(path, problem) from problem


def corrupt(path: Path, detail: str) -> StoreError:
    return StoreError(
        "corrupt",
        f"the record file {path} is damaged ({detail}). It was left as it is. Move it (and {path.name}-wal, if there is one) "
        "away and start a new file; what is readable is saved by: ",
        _rescue(path),
    )


def not_records(path: Path, detail: str) -> StoreError:
    return StoreError("not a record file", f"{path} is not a record file: {detail}. It was left as it is; give another path")


def read_only(path: Path, detail: str) -> StoreError:
    return StoreError(
        "read-only",
        f"cannot write to the record file {path}: {detail}. Make the file and its folder writable (SQLite keeps {path.name}-wal "
        f"and {path.name}-shm beside it), copy it to a folder that is, or open it for reading only",
    )


def full(path: Path) -> StoreError:
    return StoreError(
        "full", f"the disk is full: nothing was added to {path}; what was stored before is safe. Free some space and try again"
    )


def _rescue(path: Path) -> Action:
    return Action("records {} recover NEW_FILE", "tensorsmith.records.recover({}, new_path)", (str(path),))


def is_lock(problem: sqlite3.Error) -> bool:
    return any(word in str(problem) for word in ("locked", "locking protocol", "busy"))


def _from_sqlite(path: Path, problem: sqlite3.Error, patience: float) -> StoreError:
    text = str(problem)  # the texts of sqlite3_errstr, the same in every version; Python 3.10 has no error codes
    if is_lock(problem):
        return StoreError(
            "locked",
            f"the record file {path} was locked by another process for {patience:g} seconds; nothing was changed. Other tuners "
            f"hold it for milliseconds only, so look for a program that keeps a transaction open, or a file system without locks",
        )
    if "full" in text:
        return full(path)
    if "disk I/O error" in text:
        with contextlib.suppress(OSError):
            if shutil.disk_usage(path.parent).free < _LITTLE_SPACE:
                return full(path)
        return StoreError(
            "write failed",
            f"the system refused to read or write the record file {path} ({text}): a quota, a limit on the size of files, or a "
            f"failing disk. What was stored before is safe; mend that and try again",
        )
    if "malformed" in text:
        return corrupt(path, text)
    if "not a database" in text:
        return StoreError(
            "not a record file",
            f"{path} is not a record file, or its first page is damaged: it does not begin like an SQLite database. It was left "
            "as it is; give another path. If it was one, what is readable is saved by: ",
            _rescue(path),
        )
    if "readonly" in text or "unable to open" in text:
        return read_only(path, text)
    return StoreError("other", f"the record file {path} cannot be used: {type(problem).__name__}: {text}")


def _from_system(path: Path, problem: OSError) -> StoreError:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return full(path)
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return read_only(path, os.strerror(problem.errno))
    if problem.errno == errno.ENOENT:
        return StoreError("missing", f"there is no file {path}")
    return StoreError("other", f"cannot use {path}: {problem}")
