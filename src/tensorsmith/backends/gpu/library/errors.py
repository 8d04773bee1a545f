"""A function of a driver that failed, as users are told of it."""

from __future__ import annotations

from tensorsmith.errors import UserError

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE, NOT_FOUND, NOT_READY = 0, 1, 2, 100, 500, 600  # of CUDA and HIP alike

#: of results that have the same numbers in all of them: what is the matter, and what to do
COMMON_MEANINGS = {
    2: "the device has no memory left; close what else uses it, or run smaller sizes",
    209: "the code is for another architecture than the device's",
    700: "a kernel touched memory that is not its own; the process has to be started anew",
    701: "a kernel needs more registers or threads than the device has",
    702: "a kernel did not end in the time that the system gives it, and was stopped; the process has to be started anew",
    719: "a kernel failed; the process has to be started anew",
}


class DriverError(UserError):
    """`code` is the function's result; `meaning`: what is the matter, and what to do."""

    def __init__(self, what: str, code: int, name: str, meaning: str = "", more: str = "") -> None:
        self.code = code
        super().__init__(
            f"{what} failed with {name or f'result {code}'}{f': {meaning}' if meaning else ''}{f' ({more})' if more else ''}"
        )


class DriverOutOfMemory(DriverError, MemoryError):
    """There is not as much device memory."""
