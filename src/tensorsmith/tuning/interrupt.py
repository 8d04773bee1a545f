"""Ctrl-C during a run: the first asks it to end, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class CtrlC:
    """A `with` block in which the first Ctrl-C is only noted in `came`, and the second raises `KeyboardInterrupt`.

    Does nothing outside the main thread, or where the program has its own way with Ctrl-C.
    """

    def __init__(self) -> None:
        self.came = False
        self._installed = False

    def __enter__(self) -> CtrlC:
        ours = threading.current_thread() is threading.main_thread()
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._installed = True
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
