"""The task scheduler: which task of some networks gets the next trials. Asked and told; no I/O.

    scheduler.next()              (task, trials), None if nothing can be gained any more
    scheduler.begin(task, 16)     those are on their way
    scheduler.tell(task, 16, s)   they are done; the task's best is s seconds

First a warm-up: every task that may matter gets a few trials, the one with the largest share of the time first. Then the gradient
of the objective f decides (the paper's section 6). With g the best seconds of task i after t rounds of trials, for each round

    df/dg * (alpha * (g(t) - g(t - window)) / window  +  (1 - alpha) * max(bound - g, min(-(g - bound) / t, beta * C / V - g)))

the first term being what the task gained lately, the second a guess of what it may gain: as much per round as it would take to
reach its bound in t rounds more, or what brings it within a factor beta of the best operations per second, V, of similar tasks, C
being its own operations. The paper's bound is 0. Here it is the least time that the machine allows, so that a task
near it gets no more trials however large it is. Its third parameter, gamma, has no part in the paper's formula, nor here.
"""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tensorsmith.errors import InternalError, UserError, whole_number
from tensorsmith.search.objectives import Objective, Targets, slopes, total, value

Strategy = Literal["gradient", "round-robin"]
STRATEGIES: tuple[Strategy, ...] = ("gradient", "round-robin")

_IMPROVEMENT = 0.99  # of the seconds, or less, counts as one


@dataclass(frozen=True)
class Schedule:
    """Knobs of the scheduler."""

    strategy: Strategy = "gradient"
    alpha: float = 0.2  # the paper's: how much the past counts against the guess
    beta: float = 2.0  # the paper's: how far behind similar tasks is too far
    window: int = 3  # rounds that the past is
    epsilon: float = 0.05  # share of the steps that go to any task at random
    round: int = 16  # trials of a step: the paper's 64, for budgets of minutes instead of hours
    warm_up: int = 4  # trials of each task at first: the default schedule, and what was good for similar workloads
    negligible: float = 0.005  # share of the estimated time below which a task needs no warm-up
    near: float | None = 0.03  # within this share of its bound, a task cannot gain any more; None: it always can
    patience: int | None = None  # trials of a task without an improvement by 1 %, after which it gets no more; None: no end

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UserError(f"there is no scheduling strategy {self.strategy!r}; it is one of {', '.join(STRATEGIES)}")
        for name in ("window", "round", "warm_up", "patience"):
            number = getattr(self, name)
            if number is not None and (whole_number(number) or 0) < 1:
                raise UserError(f"{name} of the schedule is {number!r}; give a whole number, 1 or more")
        for name in ("alpha", "epsilon", "negligible"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} of the schedule is {getattr(self, name)!r}; give a share, from 0 to 1")


SCHEDULE = Schedule()


@dataclass(frozen=True)
class TaskFacts:
    """What is known of a task beforehand."""

    weights: tuple[float, ...]  # how often each network runs it
    estimate: float  # seconds, rough: what it may take, relative to the other tasks
    flops: float = 0.0
    group: Hashable = None  # tasks of the same group are similar; None: this one is like no other


@dataclass
class Standing:
    """Where a task stands. `curve`: the best seconds after so many trials."""

    facts: TaskFacts
    trials: int = 0
    pending: int = 0
    best: float | None = None
    bound: float = 0.0  # seconds; nothing can be faster
    unimproved: int = 0  # trials since the last improvement that counts
    exhausted: bool = False  # there is nothing left to try
    curve: list[tuple[int, float]] = field(default_factory=list)
    yardstick: float | None = None  # the best at the last improvement that counts


class Scheduler:
    """Distributes trials over tasks. The same seed and the same answers give the same choices."""

    def __init__(
        self, tasks: Sequence[TaskFacts], objective: Objective = total, schedule: Schedule = SCHEDULE, *, seed: int = 0
    ) -> None:
        if len({len(t.weights) for t in tasks}) > 1:
            raise InternalError("tasks with weights for different numbers of networks")
        self.objective, self.schedule = objective, schedule
        self.tasks = [Standing(t) for t in tasks]
        self._rng = np.random.default_rng(seed)
        self._last = -1  # the task that the round-robin chose last
        if tasks:
            self.value()  # an objective that is wrong is found out before any work is done

    # -- asked and told ------------------------------------------------------------------------------------------------

    def next(self) -> tuple[int, int] | None:
        """The task to go on with, and how many trials it should get; None if there is nothing to gain any more."""
        if not self._live() or self._satisfied():
            return None
        cold = self.cold()
        if cold:
            return max(cold, key=self._weighted), self.schedule.warm_up
        chosen = self._cyclic() if self.schedule.strategy == "round-robin" else self._steepest()
        return chosen, self.schedule.round

    def begin(self, task: int, trials: int) -> None:
        """Trials of a task are on their way; so many of them count as done for the next choice."""
        self.tasks[task].pending += trials

    def tell(self, task: int, trials: int, best: float | None) -> None:
        """Trials of a task are done; its best seconds now, None if nothing ran. Without any trials: what was told is corrected."""
        t = self.tasks[task]
        if not trials and best is not None and t.best is not None:
            t.best = t.yardstick = best
            t.curve = [(n, max(seconds, best)) for n, seconds in t.curve]
            return
        t.trials += trials
        t.pending = max(0, t.pending - trials)
        t.unimproved += trials
        if best is None or (t.best is not None and best >= t.best):
            return
        t.best = best
        t.curve.append((t.trials, best))
        if t.yardstick is None or best <= _IMPROVEMENT * t.yardstick:
            t.yardstick, t.unimproved = best, 0

    def drop_pending(self, task: int) -> None:
        """What was on its way does not come."""
        self.tasks[task].pending = 0

    def exhaust(self, task: int) -> None:
        """There is nothing left to try for a task."""
        self.tasks[task].exhausted = True

    # -- facts -----------------------------------------------------------------------------------------------------------

    def cold(self) -> list[int]:
        """Tasks that the warm-up has yet to come to."""
        least = [self.schedule.negligible * latency for latency in self.latencies()]
        new = [n for n in self._live() if not self._rounds(n) and self.tasks[n].best is None]
        return [n for n in new if any(w * self.seconds(n) >= s for w, s in zip(self.tasks[n].facts.weights, least))]

    def can_gain(self, task: int) -> bool:
        """Whether trials of a task may still make it faster."""
        t = self.tasks[task]
        patience = self.schedule.patience
        return not (t.exhausted or self.is_near(task) or (patience is not None and t.unimproved >= patience))

    def is_near(self, task: int) -> bool:
        """Whether the best of a task is about what the machine allows."""
        t, near = self.tasks[task], self.schedule.near
        return near is not None and t.best is not None and t.best <= (1 + near) * t.bound

    def seconds(self, task: int) -> float:
        """The best of a task; if nothing is measured, its estimate, in proportion to the tasks that are measured."""
        t = self.tasks[task]
        return t.best if t.best is not None else t.facts.estimate * self._proportion()

    def latencies(self) -> list[float]:
        """Of each network: the weighted sum over its tasks."""
        seconds = [self.seconds(n) for n in range(len(self.tasks))]
        return [sum(w * s for w, s in zip(column, seconds)) for column in zip(*(t.facts.weights for t in self.tasks))]

    def value(self) -> float:
        """The objective's value."""
        return value(self.objective, self.latencies())

    def gradients(self) -> list[float]:
        """Of every task: what the objective may gain by one more round of it, as a number that is never above 0."""
        steep = slopes(self.objective, self.latencies())
        found = []
        for n, t in enumerate(self.tasks):
            chain = sum(w * s for w, s in zip(t.facts.weights, steep))
            found.append(min(0.0, chain * self._gain(n)) if self.can_gain(n) else 0.0)
        return found

    # -- the formula -----------------------------------------------------------------------------------------------------

    def _gain(self, task: int) -> float:
        """dg/dt: seconds for one more round, negative."""
        t, s = self.tasks[task], self.schedule
        g = self.seconds(task)
        guess = -(g - t.bound) / max(1.0, self._rounds(task))
        fastest = self._speed_of_similar(task)
        if fastest:
            guess = min(guess, s.beta * t.facts.flops / fastest - g)
        return s.alpha * self._past(task) + (1 - s.alpha) * max(guess, t.bound - g)

    def _past(self, task: int) -> float:
        """What the last rounds gained, per round; 0 if there were not enough of them."""
        t, s = self.tasks[task], self.schedule
        then = t.trials - s.window * s.round
        at = bisect.bisect_right(t.curve, then, key=lambda point: point[0])
        return (t.curve[-1][1] - t.curve[at - 1][1]) / s.window if at else 0.0

    def _speed_of_similar(self, task: int) -> float:
        """The best operations per second of the other tasks of its group."""
        group = self.tasks[task].facts.group
        if group is None:
            return 0.0
        others = (t for n, t in enumerate(self.tasks) if n != task and t.facts.group == group)
        return max((t.facts.flops / t.best for t in others if t.best), default=0.0)

    # -- choices -----------------------------------------------------------------------------------------------------------

    def _steepest(self) -> int:
        live = self._live()
        if self._rng.random() < self.schedule.epsilon:
            return int(self._rng.choice(live))
        gradients = self.gradients()
        steepest = min(gradients[n] for n in live)
        best = [n for n in live if gradients[n] == steepest]
        return best[0] if len(best) == 1 else int(self._rng.choice(best))

    def _cyclic(self) -> int:
        live = self._live()
        self._last = next((n for n in live if n > self._last), live[0])
        return self._last

    def _live(self) -> list[int]:
        return [n for n in range(len(self.tasks)) if self.can_gain(n)]

    def _satisfied(self) -> bool:
        """Whether all networks that can still gain have their target latencies, by what is measured."""
        measured = all(t.best is not None or t.exhausted for t in self.tasks)
        return isinstance(self.objective, Targets) and measured and not any(self.gradients())

    # -- small things ------------------------------------------------------------------------------------------------------

    def _rounds(self, task: int) -> float:
        t = self.tasks[task]
        return (t.trials + t.pending) / self.schedule.round

    def _weighted(self, task: int) -> float:
        return sum(self.tasks[task].facts.weights) * self.seconds(task)

    def _proportion(self) -> float:
        """Measured seconds to estimated ones."""
        return statistics.median(
            [t.best / t.facts.estimate for t in self.tasks if t.best is not None and t.facts.estimate] or [1.0]
        )
