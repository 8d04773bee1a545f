"""The entry point of the command `tensorsmith`, beside the package: it is there before the package is loaded, which takes a second.

Ctrl-C ends the command in that second too, without a word.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130  # what shells give for a program that Ctrl-C ended


def main() -> None:
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where it is ignored, as under nohup
    if heeded:
        signal.signal(signal.SIGINT, _leave)  # an exception would pass through half-loaded libraries, some of which swallow it
    from tensorsmith.cli import main as command

    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
