"""`-v`: what the package logs, on the error stream; normal output stays as it is."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tensorsmith.show.line import page

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)  # by how often -v is given


@contextmanager
def logged(verbose: int) -> Iterator[None]:
    """Shows the messages of the logger `tensorsmith`: with one -v what a run does, with two also every step of it."""
    if not verbose:
        yield
        return
    logger, handler = logging.getLogger("tensorsmith"), _Stderr()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    before = logger.level
    logger.setLevel(_LEVELS[min(verbose, len(_LEVELS) - 1)])
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Stderr(logging.Handler):
    """Writes to what is the error stream at the time: the live line of a run puts another one in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        print(page(self.format(record)), file=sys.stderr, flush=True)
