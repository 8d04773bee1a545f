"""The runner over nodes: jobs of measurers go to a dispatcher, its leases to nodes, and what counts of the answers to the jobs.

It has no threads: nodes are spoken to while a caller waits for results, submits, or asks who is there. Nodes work meanwhile on what
they have been given ahead.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from types import TracebackType

import tensorsmith
from tensorsmith.backends import backend_of
from tensorsmith.errors import InternalError, UserError
from tensorsmith.measure.contest import Contest
from tensorsmith.measure.crew import never
from tensorsmith.measure.fleet import forms
from tensorsmith.measure.fleet.dispatch import Dispatcher, Outcome
from tensorsmith.measure.fleet.greeting import other_version
from tensorsmith.measure.fleet.members import Item, Lease, Member, Rules, State
from tensorsmith.measure.fleet.transport import Event, Transport
from tensorsmith.measure.job import Job, JobState
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.runner import NodeStatus
from tensorsmith.measure.subject import Subject
from tensorsmith.measure.wire import Message
from tensorsmith.search.trial import Status, Trial
from tensorsmith.targets.target import Target

log = logging.getLogger(__name__)

_POLL = 0.1  # seconds between two looks at whether to stop
_FIND = 2.0  # seconds between two looks for new nodes
_CONTEST = 8  # candidates that one of a contest counts for: it is timed in many rounds
_HOT = 80.0  # degrees from which on many boards slow their clocks down

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
        self._facts: dict[str, Message] = {}  # what each node said of itself, by its name
        self._jobs: dict[int, Job] = {}  # not finished, by number
        self._pending: dict[int, int] = {}  # of them, how many each subject has
        self._contests: dict[int, Contest] = {}  # by the number of the item
        self._outputs: dict[int, Message] = {}  # of subjects that are prepared: their references as text
        self._early: dict[int, list[Item]] = {}  # of subjects that are not prepared yet
        self._contest_numbers = itertools.count(-1, -1)
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
        return tuple(self._status(member) for member in self.dispatch.members.values())

    def _status(self, member: Member) -> NodeStatus:
        facts = self._facts.get(member.name, {})
        held = sum(lease.weight for lease in member.leases)
        does = f"measures {held} candidates" if held else "is calibrated" if member.leases else ""
        why = member.why or ("" if does else self._why_idle(member))
        return NodeStatus(
            name=member.name,
            state=member.state.value,
            does=does,
            why=why,
            target=facts.get("key", ""),
            version=facts.get("version", ""),
            trials=member.kept,
            load=facts.get("load"),
            celsius=facts.get("celsius"),
            calibration=member.typical,
            emulated=facts.get("emulated", ""),
        )

    def _why_idle(self, member: Member) -> str:
        if member.state is State.JOINING:
            return f"it was called and has not answered yet{self._transport.silent_because}"
        if member.doubts:
            return "its calibration differs from its peers'; it is calibrated again"
        return (
            "nothing is left to hand out: the search has not asked for more"
            if not self.dispatch.queued
            else "the others join first"
        )

    # -- jobs ----------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._act()

    def prepare(self, subject: Subject) -> None:
        if subject.setup is None:
            raise InternalError("a subject without a setup")
        self._outputs[subject.number] = forms.arrays_to_form(subject.reference)
        self.dispatch.submit(self._early.pop(subject.number, ()))

    def set_up(self, subject: Subject) -> None:
        self._act()

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._jobs[job.number] = job
            self._pending[job.subject.number] = self._pending.get(job.subject.number, 0) + 1
            item = Item(job.number, job.subject.number)
            if job.subject.number in self._outputs:
                self.dispatch.submit([item])
            else:
                self._early.setdefault(job.subject.number, []).append(item)

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
        return self._pending.get(subject.number, 0)

    def compare(self, contest: Contest, stop: Callable[[], bool] = never) -> None:
        """The contest is one item: all of it is done by one node, and by another from the beginning if that is lost."""
        number = next(self._contest_numbers)
        self._contests[number] = contest
        self.dispatch.submit([Item(number, number, _CONTEST * len(contest.jobs), trial=False)], first=True)
        while number in self._contests and not stop():
            self._act(_POLL)
        if self._contests.pop(number, None) is not None:
            self.dispatch.drop([number])

    def cancel(self, subject: Subject) -> list[Job]:
        dropped = [job for job in self._jobs.values() if job.subject is subject]
        self.dispatch.drop(job.number for job in dropped)
        for job in dropped:
            del self._jobs[job.number]
        self._pending.pop(subject.number, None)
        self._early.pop(subject.number, None)
        return dropped

    def forget(self, subject: Subject) -> None:
        self.cancel(subject)
        self._outputs.pop(subject.number, None)
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
        self._pending.clear()

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
        contest = next((self._contests[i.number] for i in lease.items if i.number in self._contests), None)
        jobs = contest.jobs if contest is not None else [self._jobs[i.number] for i in lease.items if i.number in self._jobs]
        subjects = {job.subject.number: job.subject for job in jobs}
        found = [self._setup(s) for n, s in subjects.items() if n not in member.groups]
        member.groups |= set(subjects)
        message: Message = {"lease": lease.number, "jobs": [forms.job_to_form(job) for job in jobs]}
        if contest is not None:
            return [*found, message | {"do": "compare", "turns": forms.turns_to_form(contest.how)}]
        incumbents = [s.incumbent for s in subjects.values() if s.incumbent is not None]
        calibrate = not lease.items or len(self.dispatch.members) > 1
        return [*found, message | {"do": "measure", "incumbent": min(incumbents, default=None), "calibrate": calibrate}]

    def _setup(self, subject: Subject) -> Message:
        if subject.setup is None:
            raise InternalError("a subject without a setup")
        return subject.setup | {"outputs": self._outputs[subject.number]}

    # -- what came ---------------------------------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        node, m, now = event.node, event.message or {}, self._clock()
        self.dispatch.heard(node, now)
        if node in self._facts:
            self._facts[node] |= {word: m[word] for word in ("load", "celsius") if word in m}
        for said in m.get("said", ()):
            self._warn(f"{node}: {said}")
        if m["did"] == "hello":
            self._greeted(node, m, now)
        elif m["did"] == "cannot":
            self._transport.end(node)
            self._lose(node, m["why"], for_good=True)
        elif m["did"] in ("measure", "compare"):
            answers = {form["id"]: form for form in m["trials"]}
            lease = self.dispatch.lease(m["lease"])
            contests = [i.number for i in lease.items if i.number in self._contests] if lease is not None else []
            outcome = self.dispatch.returned(m["lease"], contests or answers.keys(), m["calibration"], now)
            emulated = bool(self._facts.get(node, {}).get("emulated"))
            for number in outcome.accepted:
                if number in self._contests:
                    self._end_contest(number, answers, emulated)
                else:
                    self._finish(self._jobs.pop(number), answers[number], emulated)
            self._tell(outcome)

    def _greeted(self, node: str, m: Message, now: float) -> None:
        why = m["why_not"]
        if m["version"] != tensorsmith.__version__:
            why = other_version(m["version"])
        elif why is not None:
            why = f"it cannot run programs for {self.target.key}: what {why}"
        if why is not None:
            self._transport.end(node)
            return self._lose(node, why, for_good=True)
        new = node not in self._facts
        self._facts[node] = m
        self.dispatch.joined(node, now)
        log.info("%s is there: %s", node, m["key"])
        if new and m["emulated"]:
            self._warn(
                f"{node} is emulated ({m['emulated']}): its times say nothing about a machine, and none is stored as a record"
            )
        elif new and (m["load"] or 0.0) > 0.3 * m["cores"] + 0.3:
            self._warn(f"{node} is busy: {m['load']:.1f} programs want its {m['cores']} cores. Its times are less sure")
        if new and (m["celsius"] or 0.0) >= _HOT:
            self._warn(f"{node} is hot, {m['celsius']:.0f} degrees: it may slow its clock down, and times with it")

    def _lose(self, node: str, why: str, for_good: bool = False) -> None:
        self._tell(self.dispatch.lost(node, why, self._clock(), for_good))

    def _tell(self, outcome: Outcome) -> None:
        for number in outcome.given_up:
            jobs = self._contests.pop(number).jobs if number in self._contests else [self._jobs.pop(number)]
            for job in jobs:
                self._end(job, Trial(job.candidate, Status.CRASHED, cause="its machines were lost, again and again"))
        for text in outcome.said:
            log.warning("%s", text)
            if not self.dispatch.hopeless:  # else it is said by the error
                self._warn(text)

    def _finish(self, job: Job, form: Message, emulated: bool) -> None:
        trial = forms.trial_of_form(form, job.candidate, emulated)
        subject = job.subject
        if trial.seconds is not None and not trial.at_least and (subject.incumbent is None or trial.seconds < subject.incumbent):
            subject.incumbent = trial.seconds
        subject.times.build += trial.build_seconds
        subject.times.run += trial.run_seconds
        self._end(job, trial)

    def _end(self, job: Job, trial: Trial) -> None:
        job.trial, job.step = trial, JobState.DONE
        if job.subject.number in self._pending and not job.keep:
            self._pending[job.subject.number] -= 1
            job.subject.times.trials += 1
            job.subject.finished.append(job)

    def _end_contest(self, number: int, answers: dict[int, Message], emulated: bool) -> None:
        for job in self._contests.pop(number).jobs:
            form = answers[job.number]
            job.rounds, job.cut = forms.rounds_of_form(form["rounds"]), form["cut"]
            self._end(job, forms.trial_of_form(form, job.candidate, emulated))

    def _nobody(self) -> UserError:
        members = list(self.dispatch.members.values())
        if len(members) == 1:
            return UserError(f"runner {self.name!r}: {members[0].why}")
        return UserError(f"no node of runner {self.name!r} is left: " + "; ".join(f"{m.name}: {m.why}" for m in members))
