"""The runner over nodes: jobs of measurers go to a dispatcher, its leases to nodes, and what counts of the answers to the jobs.

It has no threads: nodes are spoken to while a caller waits for results, submits, or asks who is there. Nodes work meanwhile on what
they have been given ahead.
"""

from __future__ import annotations

import dataclasses
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from types import TracebackType

import tensorsmith
from tensorsmith.backends import backend_of
from tensorsmith.errors import UserError
from tensorsmith.measure.contest import Contest
from tensorsmith.measure.crew import never
from tensorsmith.measure.fleet import forms
from tensorsmith.measure.fleet.answers import Answer, Cannot, Hello, Measured, read_answer
from tensorsmith.measure.fleet.dispatch import Dispatcher, Outcome
from tensorsmith.measure.fleet.fields import Malformed
from tensorsmith.measure.fleet.greeting import malformed, other_version
from tensorsmith.measure.fleet.jobs import Jobs
from tensorsmith.measure.fleet.members import Lease, Member, Rules, State
from tensorsmith.measure.fleet.status import status
from tensorsmith.measure.fleet.transport import Event, Transport
from tensorsmith.measure.job import Job
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.runner import NodeStatus
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.wire import Message
from tensorsmith.targets.target import Target

log = logging.getLogger(__name__)

_POLL = 0.1  # seconds between two looks at whether to stop
_FIND = 2.0  # seconds between two looks for new nodes
_HOT = 80.0  # degrees from which on many boards slow their clocks down

_UNKNOWN = Hello()  # of a node that has not answered yet

Warn = Callable[[str], None]


class FleetRunner:
    """Measures on the nodes of a transport."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        target: Target,
        *,
        limits: Limits | None = None,
        warn: Warn = warnings.warn,
        rules: Rules | None = None,
        clock: Callable[[], float] = time.monotonic,
        publish: Callable[[FleetRunner], None] = lambda runner: None,
    ) -> None:
        """`name`: what the user called it. `publish` is called now and then, for those who want to look on."""
        self.name, self.target, self.limits, self.workers = name, target, limits or Limits(), 1
        self._transport, self._warn, self._clock, self._publish = transport, warn, clock, publish
        self.dispatch = Dispatcher(rules)
        self._facts: dict[str, Hello] = {}  # what each node said of itself, by its name
        self._jobs = Jobs()
        self._looked: float | None = None  # for nodes
        self._closed = False

    # -- who is there --------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def places(self) -> int:
        return max(1, sum(m.works or m.state is State.JOINING for m in self.dispatch.members.values()))

    @property
    def processes(self) -> tuple[int, ...]:
        return self._transport.processes

    def why_not(self, target: Target) -> str | None:
        """Nodes say by themselves whether they can run its code, when they are greeted."""
        return None if target.key == self.target.key else f"is for {target.key}, and {self.name} is for {self.target.key}"

    def nodes(self) -> tuple[NodeStatus, ...]:
        queued, silent = self.dispatch.queued, self._transport.silent_because
        return tuple(status(m, self._facts.get(m.name, _UNKNOWN), queued, silent) for m in self.dispatch.members.values())

    # -- jobs ----------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._act()

    def prepare(self, subject: Subject) -> None:
        self.dispatch.submit(self._jobs.prepared(subject))

    def set_up(self, subject: Subject) -> None:
        self._act()

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.dispatch.submit(self._jobs.add(job))

    def go_ahead(self) -> None:
        self._act()

    def collect(self, subject: Subject, stop: Callable[[], bool] = never) -> None:
        while self.pending(subject) and not subject.finished and not stop():
            self._act(_POLL)

    def wait(self, stop: Callable[[], bool] = never) -> None:
        before = len(self._jobs)
        while self._jobs and len(self._jobs) >= before and not stop():
            self._act(_POLL)

    def pending(self, subject: Subject) -> int:
        return self._jobs.pending(subject)

    def compare(self, contest: Contest, stop: Callable[[], bool] = never) -> None:
        """The contest is one item: all of it is done by one node, and by another from the beginning if that is lost."""
        item = self._jobs.add_contest(contest)
        self.dispatch.submit([item], first=True)
        while self._jobs.has_contest(item.number) and not stop():
            self._act(_POLL)
        if self._jobs.cancel_contest(item.number):
            self.dispatch.drop([item.number])

    def cancel(self, subject: Subject) -> list[Job]:
        dropped = self._jobs.cancel(subject)
        self.dispatch.drop(job.number for job in dropped)
        return dropped

    def forget(self, subject: Subject) -> None:
        self.cancel(subject)
        self._jobs.forget(subject)
        for member in self.dispatch.members.values():
            if subject.number in member.groups:
                member.groups.discard(subject.number)
                self._transport.send(member.name, {"do": "forget", "bench": subject.number})

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._transport.close()
            self._publish(self)
        self._jobs.clear()

    def __enter__(self) -> FleetRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- one round of speaking and listening -----------------------------------------------------------------------------------

    def _act(self, seconds: float = 0.0) -> None:
        """Call who is missing, hand out what waits, hear what came; waits at most so long for that."""
        self._call()
        self._hand_out()
        for event in self._transport.poll(seconds):
            if event.node not in self.dispatch.members:
                continue
            if event.message is None:
                self._lose(event.node, event.why, event.for_good)
            else:
                self._hear(event)
        for node, why in self.dispatch.overdue(self._clock()):
            self._transport.end(node)
            self._lose(node, why if self.dispatch.members[node].there else why + self._transport.silent_because)
        self._hand_out()
        self._publish(self)
        if self.dispatch.open and self.dispatch.members and self.dispatch.hopeless:
            raise self._nobody()

    def _call(self) -> None:
        now = self._clock()
        new: list[str] = []
        if self._looked is None or now - self._looked >= _FIND:
            self._looked = now
            new = [node for node in self._transport.find() if node not in self.dispatch.members]
        for node in (*new, *self.dispatch.to_call(now)):
            self.dispatch.called(node, now)
            self._transport.call(node)
            self._transport.send(node, self._greeting())

    def _greeting(self) -> Message:
        return {
            "do": "hello",
            "version": tensorsmith.__version__,
            "target": self.target.to_json(),
            "backend": backend_of(self.target).module,
            "limits": dataclasses.asdict(self.limits),
        }

    def _hand_out(self) -> None:
        while (lease := self.dispatch.next(self._clock())) is not None:
            member = self.dispatch.members[lease.node]
            for message in self._messages(lease, member):
                self._transport.send(lease.node, message)

    def _messages(self, lease: Lease, member: Member) -> list[Message]:
        """A lease, and what has to be set up before it."""
        contest, jobs = self._jobs.of(lease.items)
        subjects = {job.subject.number: job.subject for job in jobs}
        found = [self._jobs.setup(s) for n, s in subjects.items() if n not in member.groups]
        member.groups |= set(subjects)
        message: Message = {"lease": lease.number, "jobs": [forms.job_to_form(job) for job in jobs]}
        if contest is not None:
            return [*found, message | {"do": "compare", "turns": forms.turns_to_form(contest.how)}]
        incumbents = [s.incumbent for s in subjects.values() if s.incumbent is not None]
        calibrate = not lease.items or len(self.dispatch.members) > 1
        return [*found, message | {"do": "measure", "incumbent": min(incumbents, default=None), "calibrate": calibrate}]

    # -- what came ---------------------------------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        node, now = event.node, self._clock()
        self.dispatch.heard(node, now)
        try:
            self._heed(node, read_answer(event.message), now)
        except Malformed as problem:  # it is no node of ours, or a broken one: whatever it brings cannot be relied on
            self._transport.end(node)
            self._lose(node, malformed(problem), blame=False)

    def _heed(self, node: str, answer: Answer, now: float) -> None:
        if node in self._facts:
            news = {name: getattr(answer, name) for name in ("load", "celsius") if getattr(answer, name) is not None}
            self._facts[node] = dataclasses.replace(self._facts[node], **news)
        for said in answer.said:
            self._warn(f"{node}: {said}")
        if isinstance(answer, Hello):
            self._greeted(node, answer, now)
        elif isinstance(answer, Cannot):
            self._transport.end(node)
            self._lose(node, answer.why, for_good=True)
        elif isinstance(answer, Measured):
            self._take(node, answer, now)

    def _take(self, node: str, answer: Measured, now: float) -> None:
        """The results of a lease."""
        lease, contests = self.dispatch.lease(answer.lease), []
        if lease is not None:
            if lease.node != node:
                raise Malformed(f"the lease {answer.lease} is another node's")
            _, jobs = self._jobs.of(lease.items)
            lacking = [job.number for job in jobs if job.number not in answer.results]
            if lacking:  # its node is lost, and in the end given up: else it would be asked for them again and again
                raise Malformed(f"{len(lacking)} of {len(jobs)} results are missing")
            contests = [item.number for item in lease.items if self._jobs.has_contest(item.number)]
        outcome = self.dispatch.returned(answer.lease, contests or answer.results.keys(), answer.calibration, now)
        emulated = bool(self._facts.get(node, _UNKNOWN).emulated)
        for number in outcome.accepted:
            self._jobs.finish(number, answer.results, emulated)
        self._tell(outcome)

    def _greeted(self, node: str, hello: Hello, now: float) -> None:
        why = hello.why_not
        if not hello.same_version:
            why = other_version(hello.version)
        elif why is not None:
            why = f"it cannot run programs for {self.target.key}: what {why}"
        if why is not None:
            self._transport.end(node)
            return self._lose(node, why, for_good=True)
        new = node not in self._facts
        self._facts[node] = hello
        self.dispatch.joined(node, now)
        log.info("%s is there: %s", node, hello.key)
        if new and hello.emulated:
            self._warn(
                f"{node} is emulated ({hello.emulated}): its times say nothing about a machine, and none is stored as a record"
            )
        elif new and (hello.load or 0.0) > 0.3 * hello.cores + 0.3:
            self._warn(f"{node} is busy: {hello.load:.1f} programs want its {hello.cores} cores. Its times are less sure")
        if new and (hello.celsius or 0.0) >= _HOT:
            self._warn(f"{node} is hot, {hello.celsius:.0f} degrees: it may slow its clock down, and times with it")

    def _lose(self, node: str, why: str, for_good: bool = False, blame: bool = True) -> None:
        self._tell(self.dispatch.lost(node, why, self._clock(), for_good, blame))

    def _tell(self, outcome: Outcome) -> None:
        for number in outcome.given_up:
            self._jobs.give_up(number, "its machines were lost, again and again")
        for text in outcome.said:
            log.warning("%s", text)
            if not self.dispatch.hopeless:  # else it is said by the error
                self._warn(text)

    def _nobody(self) -> UserError:
        members = list(self.dispatch.members.values())
        if len(members) == 1:
            return UserError(f"runner {self.name!r}: {members[0].why}")
        return UserError(f"no node of runner {self.name!r} is left: " + "; ".join(f"{m.name}: {m.why}" for m in members))
