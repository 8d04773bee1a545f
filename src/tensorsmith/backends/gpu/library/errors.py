"""A function of a driver that failed, as users are told of it."""

from __future__ import annotations

from tensorsmith.errors import UserError

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE, NOT_FOUND, NOT_READY = 0, 1, 2, 100, 500, 600  # of CUDA and HIP alike


class DriverError(UserError):
    """`code` is the function's result; `meaning`: what is the matter, and what to do."""

    def __init__(self, what: str, code: int, name: str, meaning: str = "", more: str = "") -> None:
        self.code = code
        super().__init__(
            f"{what} failed with {name or f'result {code}'}{f': {meaning}' if meaning else ''}{f' ({more})' if more else ''}"
        )


class DriverOutOfMemory(DriverError, MemoryError):
    """There is not as much device memory."""
