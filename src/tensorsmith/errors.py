"""The three kinds of error, so that a caller can tell whose fault it is.

`UserError`   what was given is wrong; the message names what, where, and what would be right.
`Refusal`     a candidate cannot be lowered or compiled; cheap, expected during search, counted with its cause.
`InternalError`  a bug of ours.
"""

from __future__ import annotations


class TensorsmithError(Exception):
    """Base of every error raised on purpose."""


class UserError(TensorsmithError, ValueError):
    """The input is wrong; the message says what would be right."""


class OutOfMemory(UserError, MemoryError):
    """What was given needs more memory than there is. `what` is the tensor or the part of a program that needs `size` bytes."""

    def __init__(self, what: str, size: int) -> None:
        super().__init__(f"{what} needs {size:,} bytes ({_in_words(size)}), more memory than there is; make it smaller")


def _in_words(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} PiB"


class Refusal(TensorsmithError):
    """This candidate cannot be built. `cause` is a short stable word under which refusals are counted."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause


class InternalError(TensorsmithError):
    """A bug in Tensorsmith."""
