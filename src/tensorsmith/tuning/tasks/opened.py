"""The tunings that are open: made when they are first needed, closed when there are too many, made again from the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tensorsmith.tuning.progress.failures import Failures
from tensorsmith.tuning.tasks.task import TaskTuning

_MOST = 40  # of some 10 MB each; to make one again takes up to a few seconds


class OpenTunings:
    """Tunings by the number of their task. `promise()` gives a number for each task, the lowest where most is to be gained."""

    def __init__(self, make: Callable[[int], TaskTuning], promise: Callable[[], Sequence[float]], most: int = _MOST) -> None:
        self._make, self._promise, self._most = make, promise, most
        self._open: dict[int, TaskTuning] = {}
        self._failures, self._times = Failures(), Counter[str]()  # of those that are closed

    def get(self, task: int) -> TaskTuning:
        if task not in self._open:
            self._make_room()
            self._open[task] = self._make(task)
        return self._open[task]

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._open))

    def close(self) -> None:
        for task in self:
            self._close(task)

    @property
    def failures(self) -> Failures:
        """What failed, in all tunings there ever were."""
        total = Failures()
        total.include(self._failures)
        for tuning in self._open.values():
            total.include(tuning.failures)
        return total

    @property
    def times(self) -> dict[str, float]:
        """Seconds by activity, of all tunings there ever were."""
        total = Counter(self._times)
        for tuning in self._open.values():
            total.update(tuning.times)
        return dict(total)

    def _make_room(self) -> None:
        promise = self._promise() if len(self._open) >= self._most else ()
        for task in sorted(self._open, key=lambda n: -promise[n] if promise else 0.0):
            if len(self._open) < self._most:
                break
            if not self._open[task].pending:
                self._close(task)

    def _close(self, task: int) -> None:
        tuning = self._open.pop(task)
        self._failures.include(tuning.failures)
        self._times.update(tuning.times)
        tuning.close()
