"""How long a run may go on: trials, seconds, patience; and the presets of `effort`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from tensorsmith.errors import Parameter, UserError, whole_number

#: trials, and patience, of each effort
EFFORTS: dict[str, tuple[int, int | None]] = {"quick": (64, None), "normal": (256, 128), "thorough": (1000, 300)}

_SETTLING = 0.15  # share of the seconds that is kept for timing the finalists again,
_MOST_SETTLING = 3.0  # seconds at most: what programs of 30 ms need
_MOST_RESERVED = 0.5  # share of the seconds, where the programs turn out to need more
_MOST_KEPT = 0.4  # share of the seconds that is kept for what comes after a run
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}


@dataclass(frozen=True)
class Budget:
    """`trials` of the run, None: as many as the `seconds` allow. `patience`: trials without an improvement by more than 1 %."""

    trials: int | None
    seconds: float | None = None
    patience: int | None = None

    @staticmethod
    def of(effort: str | None, trials: int | None, seconds: float | None, patience: int | None, tasks: float = 1) -> Budget:
        """The preset of an effort, and whatever is given besides in place of its part. Nothing at all is the effort "quick".

        The presets are those of one workload; `tasks` multiplies them.
        """
        if trials is not None and ((given := whole_number(trials)) is None or given < 0):
            raise UserError(Parameter("trials"), f" is {trials!r}; give a whole number, 0 or more")
        if seconds is not None and not (isinstance(seconds, (int, float)) and seconds >= 0):
            raise UserError(Parameter("seconds"), f" is {seconds!r}; give a number, 0 or more")
        if patience is not None and ((given := whole_number(patience)) is None or given < 0):
            raise UserError(Parameter("patience"), f" is {patience!r}; give a number of trials, or 0 for none")
        if effort is not None and effort not in EFFORTS:
            raise UserError(Parameter("effort"), f": there is no effort {effort!r}; it is one of {', '.join(EFFORTS)}")
        if effort is None and trials is None and seconds is None:
            effort = "quick"
        if effort is not None:
            preset_trials, preset_patience = (n and round(n * tasks) for n in EFFORTS[effort])
            trials = preset_trials if trials is None else trials
            patience = preset_patience if patience is None else patience
        return Budget(whole_number(trials), seconds, whole_number(patience) or None)

    def left(self, trials: int) -> int | None:
        """Trials still to do after so many; None: no limit."""
        return None if self.trials is None else max(0, self.trials - trials)


class Clock:
    """The time of a run that has begun: when to stop searching, when to stop settling, and when all has to be done.

    begun |  search  |  finals  |  what comes after the run: `keep`  | end
    """

    def __init__(
        self,
        seconds: float | None,
        most_settling: float = _MOST_SETTLING,
        settling: float = _SETTLING,
        now: Callable[[], float] | None = None,
        begun: float | None = None,
    ) -> None:
        """`settling` is the share of the seconds, up to `most_settling` seconds, that is kept for the finals. `begun`: when the
        user began to wait, if that is earlier than now."""
        self._now = now or time.monotonic
        self.begun = self._now() if begun is None else begun
        self._end = None if seconds is None else self.begun + seconds
        self._settling = 0.0 if seconds is None else min(most_settling, settling * seconds)
        self._most_reserved = 0.0 if seconds is None else _MOST_RESERVED * seconds
        self._kept, self._most_kept = 0.0, 0.0 if seconds is None else _MOST_KEPT * seconds

    def keep(self, seconds: float) -> None:
        """So much is needed after the run, to compare its programs in their network and to compile the result; of a short run only
        a share is kept, so that there is a search at all."""
        self._kept = min(seconds, self._most_kept)

    def reserve(self, seconds: float) -> None:
        """The finals need so much, as far as the programs measured by now tell: the search ends earlier, if more is needed than was
        kept for them. Half of the time is left to the search."""
        self._settling = max(self._settling, min(seconds, self._most_reserved))

    @property
    def elapsed(self) -> float:
        return self._now() - self.begun

    @property
    def left(self) -> float | None:
        """Seconds left for the search; None: no limit."""
        return None if self._end is None else self._end - self._kept - self._settling - self._now()

    def proposing(self, first: bool) -> Callable[[], bool]:
        """Comes true when it is time to propose what was found: for the `first` candidates when half of the time left now is over,
        so that they are measured too; later ones are only looked for where that was seen to be quick enough.
        """
        left = self.left
        if left is None or not first:
            return lambda: self.searched
        end = self._now() + left / 2
        return lambda: self._now() >= end

    @property
    def rest(self) -> float | None:
        """Seconds left for the search and the finals; None: no limit."""
        return None if self._end is None else self._end - self._kept - self._now()

    @property
    def whole_rest(self) -> float | None:
        """Seconds left for everything; None: no limit."""
        return None if self._end is None else self._end - self._now()

    @property
    def searched(self) -> bool:
        """The search has had its time."""
        return self.left is not None and self.left <= 0

    @property
    def over(self) -> bool:
        """The run has had its time: what comes after it is next."""
        return self.rest is not None and self.rest <= 0


def duration(text: str) -> float:
    """Seconds of "90", "90s", "10m", "1h30m"."""
    text = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d*)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d*)?)([hms])", text)
    if not parts or "".join(n + unit for n, unit in parts) != text:
        raise UserError(f"{text!r} is no time; write it as 90s, 10m, 1h or 1h30m")
    return sum(float(n) * _UNITS[unit] for n, unit in parts)
