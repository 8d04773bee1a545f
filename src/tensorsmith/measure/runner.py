"""What a runner is: it measures the candidates of any number of measurers, here or elsewhere.

    runner.prepare(subject)          a workload is going to be measured; its setup and its reference are made
    runner.submit(jobs)              candidates of it
    runner.collect(subject, stop)    wait until some are done: each has its trial, and is in its subject's `finished`
    runner.compare(contest, stop)    candidates against each other, all on one machine
    runner.nodes()                   who is there, what it does, and why somebody is idle

`measure.workshop.Workshop` is the first: processes of this machine. `measure.fleet` has those that measure elsewhere, and
`measure.places` the names that `ts.tune(runner=...)` takes. `tensorsmith.testing.check_runner` tells whether a runner keeps what is
promised here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tensorsmith.errors import Parameter, UserError, compile_for
from tensorsmith.measure.job import Job
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.subject import Subject
from tensorsmith.targets.target import Target

if TYPE_CHECKING:
    from tensorsmith.measure.contest import Contest


@dataclass(frozen=True)
class NodeStatus:
    """A machine of a runner, as people are told of it."""

    name: str
    state: str  # "ready", "joining", "set apart", "lost"
    does: str = ""  # what it is at
    why: str = ""  # it is idle, set apart or lost
    target: str = ""  # the key of the machine's own target
    version: str = ""  # of the package there
    trials: int = 0  # that came from it and were kept
    load: float | None = None  # programs that want its cores, by the system over there
    celsius: float | None = None  # its warmest part
    calibration: float | None = None  # seconds of the calibration kernel, the last ones
    emulated: str = ""  # by what, if it is no machine but an emulator


def cannot_measure(target: Target, why_not: str) -> UserError:
    """What to do where a runner cannot run programs for a target; `why_not` is the runner's."""
    return UserError(
        f"programs for {target.name} cannot be measured here: what {why_not}. To measure on such a machine give ",
        Parameter("runner"),
        ', as in "ssh board"; without a search, ',
        *compile_for(target.name),
    )


class Runner(Protocol):
    """Measures. Not for several threads at once.

    Every job that was submitted and not cancelled is finished once, whatever happens to the machines that are tried for it; what
    happens to its program is a result like any other. Raises `UserError` where nothing can be measured any more.
    """

    limits: Limits
    workers: int  # processes that build side by side

    @property
    def places(self) -> int:
        """Programs that can be timed at the same time: machines."""

    def why_not(self, target: Target) -> str | None:
        """Why code for a target cannot run where this measures ("was compiled for ..., this is ..."); None: it can."""

    def start(self) -> None:
        """What takes long before anything can be measured begins now; returns at once."""

    def prepare(self, subject: Subject) -> None:
        """A subject has got its setup and its reference, and will have jobs."""

    def set_up(self, subject: Subject) -> None:
        """Let the machines get ready for a subject; returns at once."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take jobs. They may be begun at once, or when somebody waits."""

    def go_ahead(self) -> None:
        """Begin with what was submitted, while the caller computes; returns at once."""

    def collect(self, subject: Subject, stop: Callable[[], bool]) -> None:
        """Wait until jobs of a subject are finished, if it has any; or until `stop()`, which is asked some times a second.

        Jobs of other subjects may be finished meanwhile.
        """

    def wait(self, stop: Callable[[], bool]) -> None:
        """Wait until a job of any subject is finished, or until `stop()`. It is only asked of runners of several places."""

    def pending(self, subject: Subject) -> int:
        """Jobs of a subject that are not finished."""

    def compare(self, contest: Contest, stop: Callable[[], bool]) -> None:
        """Time the jobs of a contest in turns, all on one machine: each has its rounds and its trial then; or until `stop()`."""

    def cancel(self, subject: Subject) -> list[Job]:
        """Drop the jobs of a subject that are not finished, and say which those were."""

    def forget(self, subject: Subject) -> None:
        """Drop all that is left of a subject."""

    def nodes(self) -> tuple[NodeStatus, ...]:
        """Who is there."""

    @property
    def processes(self) -> tuple[int, ...]:
        """Process numbers of the workers on this machine."""

    def close(self) -> None:
        """Drop what is not measured yet, and let go of all machines. Safe to call twice."""
