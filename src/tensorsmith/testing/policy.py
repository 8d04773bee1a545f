"""The promises of a policy (`tensorsmith.search.policy`), each checked on its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tensorsmith.backends import backend_of, space_of
from tensorsmith.errors import Refusal
from tensorsmith.lang.workload import Workload
from tensorsmith.learn.models.registry import as_model
from tensorsmith.program.lower import lower
from tensorsmith.search.policy import MakePolicy, Policy, Preset, as_preset, never
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.population.embed import Programs
from tensorsmith.space.population.population import Space
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target, native
from tensorsmith.testing.promise import again, calling, demand, matmul, returning, text, tiny

_BATCH = 8
_MOST_ASKS = 200  # of a space of a few programs
_MOST_LOOKS = 100_000  # at `stop`, in one search of such a space


def check_policy(policy: str | Preset | MakePolicy, *, workload: Workload | None = None, target: Target | None = None) -> None:
    """Raises `BrokenPromise` if a policy breaks a promise; `policy` is what `ts.tune(policy=...)` takes.

    It is tried on a small `workload` of our own, unless one of a hundred programs or more is given, and on one of a few programs;
    for this machine, unless a `target` is given.

        check_policy(MyPolicy)
    """
    suite = _Suite(as_preset(policy), workload or matmul(), target or native())
    for check in (
        suite.asks_for_what_it_should,
        suite.asks_for_nothing_twice,
        suite.asks_for_nothing_that_was_told,
        suite.heeds_stop,
        suite.survives_failures,
        suite.passes_over_other_workloads,
        suite.is_repeatable,
        suite.knows_the_best,
        suite.takes_hints,
        suite.ends,
    ):
        check()


class _Suite:
    def __init__(self, preset: Preset, workload: Workload, target: Target) -> None:
        self.preset, self.workload, self.target = preset, workload, target
        self.model = as_model(preset.model, backend_of(target).schema)
        self.space = space_of(workload, target, preset.rules)

    def make(self, seed: int = 0, hints: Sequence[Candidate] = (), space: Space | None = None) -> Policy:
        where = space or self.space
        return calling(
            "a policy is made of (space, seed, hints, model)",
            lambda: self.preset.make(where, seed=seed, hints=hints, model=self.model.fork(seed)),
        )

    def rounds(self, policy: Policy, count: int = 3) -> list[Candidate]:
        """What it asks for in some rounds of asking and telling, and at the end."""
        found: list[Candidate] = []
        for _ in range(count):
            asked = calling("ask gives candidates", policy.ask, _BATCH, never)
            calling("tell takes the results of what was asked for", policy.tell, [_measured(c) for c in asked])
            found += asked
        return found + calling("finish gives candidates", policy.finish, _BATCH)

    # -- promises ------------------------------------------------------------------------------------------------------------

    def asks_for_what_it_should(self) -> None:
        policy = self.make()
        for word in ("ask", "finish"):
            found = calling(f"{word} gives candidates", getattr(policy, word), *((_BATCH, never) if word == "ask" else (_BATCH,)))
            demand(isinstance(found, list), f"{word} gives a list of candidates", f"it gave {type(found).__name__}")
            demand(len(found) <= _BATCH, f"{word}(count) gives at most count candidates", f"{len(found)} for {_BATCH}")
            demand(word == "finish" or bool(found), "ask gives candidates of a space that was not searched yet", "it gave none")
            for candidate in found:
                self._is_a_candidate(word, candidate)
            calling("tell takes the results of what was asked for", policy.tell, [_measured(c) for c in found])

    def _is_a_candidate(self, word: str, candidate: object) -> None:
        demand(isinstance(candidate, Candidate), f"{word} gives candidates", f"there is a {type(candidate).__name__} among them")
        assert isinstance(candidate, Candidate)
        key = candidate.sketch.workload.key
        demand(key == self.workload.key, f"{word} gives candidates of the workload of its space", f"one is of {key}")
        demand(not candidate.sketch.choices, f"{word} gives candidates that are complete", "one has a structure with open choices")
        try:
            calling(f"the candidates of {word} can be lowered, or are refused", lower, candidate)
        except Exception as problem:
            if not isinstance(problem.__cause__, Refusal):
                raise

    def asks_for_nothing_twice(self) -> None:
        asked = self.rounds(self.make())
        self._are_different(asked, "a program is asked for once")

    def asks_for_nothing_that_was_told(self) -> None:
        done = self.rounds(self.make(), 2)
        policy = self.make()
        calling("tell takes the results of earlier runs", policy.tell, [_measured(again(c)) for c in done])
        self._are_different([*done, *self.rounds(policy, 2)], "what an earlier run has measured is not asked for again")

    def _are_different(self, candidates: Sequence[Candidate], promise: str) -> None:
        programs, seen = Programs(), dict[int, int]()
        for n, candidate in enumerate(candidates):
            first = seen.setdefault(programs.key(candidate), n)
            demand(first == n, promise, f"candidate {n} is the program of candidate {first}")

    def heeds_stop(self) -> None:
        policy, looks, many = self.make(), 0, 1000

        def stop() -> bool:
            nonlocal looks
            looks += 1
            return True

        found = calling("ask(count, stop) ends when stop() is true", policy.ask, many, stop)
        demand(looks > 0, "ask(count, stop) asks whether to stop", "it never called stop")
        few = len(found) < many
        demand(few, "ask(count, stop) ends with what it has when stop() is true", f"it gave all {many} candidates")
        demand(bool(policy.ask(_BATCH, never)), "a search that was stopped goes on when it is asked again", "it gave no candidate")

    def survives_failures(self) -> None:
        policy = self.make()
        statuses = [s for s in Status if s is not Status.OK]
        for _ in range(3):
            asked = calling("a policy goes on after failures", policy.ask, _BATCH, never)
            trials = [Trial(c, statuses[n % len(statuses)], cause="made up") for n, c in enumerate(asked)]
            calling("tell takes trials that failed", policy.tell, trials)
        demand(policy.best_seconds is None, "best_seconds is None where everything failed", f"it is {policy.best_seconds!r}")
        near = calling("finish goes on where everything failed", policy.finish, _BATCH)
        demand(bool(near or policy.ask(_BATCH, never)), "a policy goes on after failures", "it gave no candidate any more")

    def passes_over_other_workloads(self) -> None:
        policy, other = self.make(), tiny()
        stranger = backend_of(self.target).default_candidate(other, self.target)
        calling("tell passes over trials of other workloads", policy.tell, [Trial(stranger, Status.OK, 1e-9)])
        best = policy.best_seconds
        demand(best is None, "tell passes over trials of other workloads", f"best_seconds is {best!r} after one of them")
        demand(
            bool(policy.ask(_BATCH, never)), "tell passes over trials of other workloads", "no candidate was asked for afterwards"
        )

    def is_repeatable(self) -> None:
        first, second = (list(map(text, self.rounds(self.make(seed=3)))) for _ in range(2))
        same = sum(a == b for a, b in zip(first, second))
        promise = "the same seed and the same results give the same candidates"
        demand(first == second, promise, f"{same} of {len(first)} are the same")

    def knows_the_best(self) -> None:
        policy = self.make()
        demand(policy.best_seconds is None, "best_seconds is None before anything is told", f"it is {policy.best_seconds!r}")
        trials = [_measured(c) for c in policy.ask(_BATCH, never)]
        policy.tell(trials)
        least = min(t.seconds for t in trials if t.seconds is not None)
        found = policy.best_seconds
        demand(found == least, "best_seconds is the least time that was told", f"it is {found!r}, {least!r} was told")

    def takes_hints(self) -> None:
        default = backend_of(self.target).default_candidate
        hints = [default(w, self.target) for w in (self.workload, matmul(9, 40, 5), tiny())]
        policy = self.make(hints=hints)
        found = calling("hints of this workload and of others do no harm", policy.ask, _BATCH, never)
        demand(bool(found), "hints of this workload and of others do no harm", "it gave no candidate")
        for candidate in found:
            self._is_a_candidate("ask", candidate)

    def ends(self) -> None:
        small = tiny()
        policy = self.make(space=space_of(small, self.target, self.preset.rules))
        promise = "a space of a few programs is exhausted after a while, and ask gives no candidate then"
        looks, asked = 0, 0

        def stop() -> bool:
            nonlocal looks
            looks += 1
            return looks > _MOST_LOOKS

        for _ in range(_MOST_ASKS):
            looks = 0
            found = returning(promise, policy.ask, _BATCH, stop)
            demand(looks <= _MOST_LOOKS, promise, "it searches on until it is stopped")
            if not found:
                return
            asked += len(found)
            policy.tell([_measured(c) for c in found])
        demand(False, promise, f"it has given {asked} candidates")


def _measured(candidate: Candidate) -> Trial:
    """A time that depends on the candidate alone: some tens of microseconds, or now and then a failure."""
    number = int(hashlib.sha256(text(candidate).encode()).hexdigest()[:8], 16)
    if number % 13 == 0:
        return Trial(candidate, Status.CRASHED, cause="made up")
    return Trial(candidate, Status.OK, 1e-6 * (20 + number % 100))
