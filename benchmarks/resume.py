"""Long runs that may be stopped: what is done is on disk, and the same command again does what is missing.

`kept` is for results that are made at once, `Log` for searches, which are noted line by line while they go on: a search that was
stopped goes on with the trials that its budget has left, upon its record file.
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Point = tuple[int, float, float]  # trials, seconds, and the best after them


def write_whole(path: Path, content: Any) -> None:
    """A JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(path.name + ".part")
    half.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    half.replace(path)


def kept(path: Path, of: Any, make: Callable[[], Any]) -> Any:
    """What the file has, if it was made of the same; else it is made and written. `of` is all that the result depends on."""
    of = json.loads(json.dumps(of))  # as it comes back from a file
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        form = json.loads(path.read_text(encoding="utf-8"))
        if form["of"] == of:
            return form["result"]
    result = make()
    write_whole(path, {"of": of, "result": result})
    return json.loads(json.dumps(result))


@dataclass(frozen=True)
class Outcome:
    """A search: how it went, and why it ended before its budget, if it did."""

    points: tuple[Point, ...] = ()
    note: str = ""

    @property
    def trials(self) -> int:
        return self.points[-1][0] if self.points else 0

    @property
    def seconds(self) -> float:
        return self.points[-1][1] if self.points else 0.0

    @property
    def best(self) -> float | None:
        return self.points[-1][2] if self.points else None

    def at(self, trials: int) -> float | None:
        """The best after so many trials."""
        return next((best for n, _, best in reversed(self.points) if n <= trials), None)

    def to_reach(self, best: float) -> tuple[int, float] | None:
        """Trials and seconds until it was as good as that; None: it never was."""
        return next(((n, seconds) for n, seconds, reached in self.points if reached <= best), None)


Tell = Callable[[int, float, "float | None", float], None]
Go = Callable[[int, Tell], "str | None"]


class Log:
    """A search in a file of lines, one for each time it told how it stands; the last one says that it is over.

    A network comes to its tasks one after the other. What it has with the default schedules of those that were looked at, the
    `base`, grows until all were; a point is what it would be with the base of the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[tuple[int, float, float, float]] = []  # trials, seconds, best, base
        self.note: str | None = None  # None: it is not over
        self.wanted = 0  # trials that it was over with
        self._torn = False  # whether the last line of the file is half of one: that of a process that was killed
        with contextlib.suppress(FileNotFoundError):
            text = path.read_text(encoding="utf-8")
            self._torn = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                with contextlib.suppress(ValueError):
                    self._read(json.loads(line))

    def _read(self, form: Any) -> None:
        if isinstance(form, dict):
            self.note, self.wanted = form["over"], int(form["of"])
        else:
            n, seconds, best, base = form
            self.told.append((int(n), float(seconds), float(best), float(base)))

    @property
    def outcome(self) -> Outcome:
        last = self.told[-1][3] if self.told else 0.0
        return Outcome(tuple((n, seconds, best + last - base) for n, seconds, best, base in self.told), self.note or "")

    def search(self, trials: int, go: Go) -> Outcome:
        """What came out of a search of so many trials. `go` is given how many are left and what to tell: trials, seconds, best and
        base of this process; it gives a word if it ended early, and is not called if all is done."""
        done = self.told[-1][0] if self.told else 0
        if done > trials:
            raise SystemExit(f"{self.path} is of {done} trials, and {trials} are wanted now: give another folder")
        if self.note is not None and self.wanted >= trials:
            return self.outcome
        self.path.parent.mkdir(parents=True, exist_ok=True)
        before_trials, before_seconds = done, self.told[-1][1] if self.told else 0.0

        def tell(done: int, seconds: float, best: float | None, base: float = 0.0) -> None:
            if best is not None:
                self._add((before_trials + done, before_seconds + seconds, best, base))

        said = go(trials - before_trials, tell) if trials > before_trials else None
        done = self.told[-1][0] if self.told else 0
        self.note = said or (f"ended after {done} of {trials} trials" if done < trials else "")
        self.wanted = trials
        self._write({"over": self.note, "of": trials})
        return self.outcome

    def _add(self, point: tuple[int, float, float, float]) -> None:
        if not self.told or point[2:] != self.told[-1][2:] or point[0] != self.told[-1][0]:
            self.told.append(point)
            self._write(point)

    def _write(self, form: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if self._torn else "") + json.dumps(form) + "\n")
        self._torn = False


@contextlib.contextmanager
def ending_at_ctrl_c(kept_in: object | None) -> Iterator[None]:
    """Ctrl-C ends the script: `ts.tune` would end its search, and the result of half a search would count as one of the whole."""
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    except KeyboardInterrupt:
        what = (
            "the same command does what is missing"
            if kept_in
            else "with a folder to keep them in, finished runs would have been kept"
        )
        raise SystemExit(f"stopped; {what}") from None
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: object) -> None:
    raise KeyboardInterrupt
