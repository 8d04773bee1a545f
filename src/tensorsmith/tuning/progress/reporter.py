"""What a run says while it goes on: one live line on a terminal, a bar in a notebook, now and then a line elsewhere, or a callback
and no text.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tensorsmith.runtime.device import peak_round
from tensorsmith.show.line import page, plain
from tensorsmith.show.notebook import Display, in_notebook
from tensorsmith.show.table import block
from tensorsmith.tuning.progress.workload import Paced

if TYPE_CHECKING:
    from rich.console import Console

_EVERY = 5.0  # seconds between two lines of text
_PEAK_ROUNDS = 10  # of some milliseconds; the best one counts, as others may be disturbed


class Reporter(Protocol):
    """`update` while the run goes on, with where it stands; `say` for people, `warn` for what no program must miss,
    `close` at the end.
    """

    def update(self, progress: Paced) -> None: ...

    def say(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def close(self) -> None: ...


def make_reporter(on_progress: Callable[[Any], None] | None) -> Reporter:
    if on_progress is not None:
        return Callback(on_progress)
    if in_notebook():
        return NotebookBar()
    return LiveLine() if sys.stdout.isatty() else PlainLines()


class Callback:
    """Calls a function, and prints nothing."""

    def __init__(self, on_progress: Callable[[Any], None]) -> None:
        self.update = on_progress

    def say(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        warnings.warn(page(text), RuntimeWarning, stacklevel=4)

    def close(self) -> None:
        pass


class PlainLines:
    """A line every few seconds, and the last one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._printed = clock()
        self._unprinted: object = None

    def update(self, progress: Paced) -> None:
        self._unprinted = progress
        if self._clock() - self._printed >= _EVERY:
            self._print()

    def say(self, text: str) -> None:
        self._print()
        print(page(text), flush=True)

    warn = say

    def close(self) -> None:
        self._print()

    def _print(self) -> None:
        if self._unprinted is not None:
            print(plain(self._unprinted), flush=True)
            self._unprinted, self._printed = None, self._clock()


class LiveLine:
    """One line that is written over. It has no thread of its own: nothing is drawn while a kernel is timed."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=console or Console(highlight=False), auto_refresh=False)
        self._live.start()

    def update(self, progress: Paced) -> None:
        from rich.text import Text

        text = plain(progress.line(self._live.console.width))
        self._live.update(Text(text, overflow="ellipsis", no_wrap=True), refresh=True)

    def say(self, text: str) -> None:
        self._live.console.print(page(text), markup=False)

    warn = say

    def close(self) -> None:
        self._live.stop()


class NotebookBar:
    """A bar in the output of a notebook's cell, with a line of text; what is said for people is printed below it."""

    def __init__(self) -> None:
        self._display = Display()

    def update(self, progress: Paced) -> None:
        share = f'<progress max="1" value="{progress.share_done:.4f}" style="width: 20em"></progress>'
        self._display.show(block("", f"{share} {progress.share_done:.0%}", str(progress)))

    def say(self, text: str) -> None:
        print(page(text), flush=True)

    warn = say

    def close(self) -> None:
        pass


@functools.cache
def quick_peak(cores: int) -> float:
    """An estimate of the FMA peak in operations per second: that of one core times their number, in a tenth of a second, once.

    One core is found undisturbed now and then even on a busy machine, all of them at once are not.
    """
    return new_peak(cores)


def new_peak(cores: int) -> float:
    """The same, measured now."""
    return cores * max(peak_round(1) for _ in range(_PEAK_ROUNDS))
