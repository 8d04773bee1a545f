"""How generated kernels are started: a value that goes with their code, into files too.

    Launches((Launch("C", 64, 256, 8192, (0, 1, 2)),), scratch=(), text="...")

The buffers of a program are numbered: its inputs, then its outputs, then the memory between its kernels (`scratch`). Every launch
gets the buffers that it names, in that order, as pointers. Grid and block have one dimension. Launches run one after the other,
each when the one before it is done.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tensorsmith.errors import UserError


@dataclass(frozen=True)
class Launch:
    """One kernel and how it is started."""

    kernel: str  # the name of its entry in the code
    grid: int  # blocks
    block: int  # threads of a block
    shared_bytes: int  # that a block has; declared in the code itself, so that nothing is to be given at the launch
    arguments: tuple[int, ...]  # numbers of buffers


@dataclass(frozen=True)
class Launches:
    """The kernels of a program in order, and their code: OpenCL C or PTX, as drivers take it, or for AMD's LLVM's object in base64,
    which is linked where it is loaded."""

    launches: tuple[Launch, ...]
    scratch: tuple[int, ...]  # bytes of each buffer between kernels
    text: str
    language: str = "opencl"  # of the text

    def to_bytes(self) -> bytes:
        return json.dumps({"version": 1, **asdict(self)}).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Launches:
        """Raises `UserError` on anything malformed."""
        try:
            form = json.loads(data)
            launches = tuple(
                Launch(
                    str(x["kernel"]), int(x["grid"]), int(x["block"]), int(x["shared_bytes"]), tuple(int(n) for n in x["arguments"])
                )
                for x in form["launches"]
            )
            found = Launches(launches, tuple(int(n) for n in form["scratch"]), str(form["text"]), str(form["language"]))
        except (ValueError, KeyError, TypeError) as problem:
            raise UserError(f"malformed GPU code: {type(problem).__name__}: {problem}") from problem
        return found

    def scratch_offsets(self) -> tuple[int, ...]:
        """Where each scratch buffer begins in one piece of memory, and behind them all of its size."""
        offsets = [0]
        for size in self.scratch:
            offsets.append(offsets[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
        return tuple(offsets)


ALIGNMENT = 256  # bytes: what every driver's own memory has at least
ARGUMENT_ALIGNMENT = 16  # bytes: what PTX expects of every pointer that it is given
