"""One network: our executables and the peers on the same inputs, checked against ONNX Runtime, then timed side by side
(`tensorsmith.measure.referee`) in slots that are longer than those of single operators."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import ours_networks
import peers_networks
from contest import Settings, hold
from frameworks import Unavailable
from models import Network
from ours import same_program
from ours_networks import Budget, Search, contestant
from peers_networks import REFERENCE, NetworkPeer
from rows import OURS, UNTUNED, Row, row
from tensorsmith.measure.referee import Comparison
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from tensorsmith.runtime.profile import Profile
from ways import Array

UNTUNED_TO_REFERENCE = f"untuned_ratio_to_{REFERENCE}"  # a figure of a row
TOLERANCE = 1e-3  # of the largest output: f32 gives 1e-6 to 1e-4, bf16 1e-2
NEAR_ENOUGH = 0.5  # of ONNX Runtime's speed: what default schedules should reach on any network
SLOT_SECONDS = 50e-3
MIN_ROUNDS = 5


class Entry:
    """What is known of one network: our executables, who takes part, and what went wrong."""

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network, self.settings = network, settings
        self.executables: dict[str, Executable] = {}
        self.search = Search()
        self.same_program = False  # ours are the default schedules
        self.errors: list[str] = []
        self.notes: dict[str, str] = {}  # why a peer takes no part
        self.differences: dict[str, float] = {}
        self.preparing: dict[str, float] = {}  # seconds that a peer took to load the network and to compile it

    @property
    def ours(self) -> Executable | None:
        return self.executables.get(OURS)

    def prepare(self, budget: Budget | None, others: Mapping[str, Budget] | None = None) -> None:
        """Makes our executables; without a budget the default schedules alone. Whatever goes wrong is an error of the row, not the
        end of the run. `others` are found by other policies, and take part as peers do."""
        try:
            model = ours_networks.load(self.network)
            untuned = ours_networks.tuned(model, Budget())[0]
            self.executables = {OURS: untuned}
            if budget is not None:
                self.executables[OURS], self.search = ours_networks.tuned(model, budget)
            self.same_program = same_program(self.executables[OURS], untuned)
            if not self.same_program:
                self.executables[UNTUNED] = untuned
            self.executables |= {name: ours_networks.tuned(model, other)[0] for name, other in (others or {}).items()}
        except Exception as problem:
            self.errors.append(f"{type(problem).__name__}: {problem}")

    def measure(self) -> Row:
        """The row of the report. Inside `contest.quiet_machine()`."""
        with with_threads(self.settings.threads):
            right = self.check(self.contestants())
            result = self._compare(right) if right else Comparison({})
        entry = row(
            result,
            flops=ours_networks.flops(self.ours) if self.ours else 0,
            same_program=self.same_program,
            threads=self.settings.threads,
            difference={name: d for name, d in self.differences.items() if np.isfinite(d)},
            kernels=ours_networks.schedules(self.ours) if self.ours else None,
            trials=self.search.trials,
            seconds_searching=self.search.seconds,
            curve=self.search.curve or None,
            seconds_preparing=self.preparing or None,
            notes=self.notes or None,
            error="; ".join(self.errors) or None,
        )
        return entry | _untuned_to_reference(result, OURS if self.same_program else UNTUNED)

    def profiles(self, entry: Row) -> Iterator[tuple[str, Profile]]:
        """The profile of whichever of ours the row says is behind: ours behind the best peer, the default schedules far behind
        ONNX Runtime."""
        behind = {OURS: entry.get("ratio_to_best_peer", 1.0) < 1.0}
        if entry.get(UNTUNED_TO_REFERENCE, 1.0) < NEAR_ENOUGH:
            behind[OURS if self.same_program else UNTUNED] = True
        for name in behind:
            if behind[name] and name in self.executables:
                yield name, self.profile(name)

    def profile(self, name: str) -> Profile:
        return self.executables[name].profile(threads=self.settings.threads, **self.network.inputs)

    def contestants(self) -> list[NetworkPeer]:
        """All of ours, and all forms of all peers that can take part."""
        found = [contestant(name, exe, self.network.inputs) for name, exe in self.executables.items()]
        for framework in self.settings.frameworks:
            start = time.perf_counter()
            try:
                found += peers_networks.forms(framework, self.network, self.settings.threads)
                self.preparing[framework] = time.perf_counter() - start
            except Unavailable as why:
                self.notes[framework] = str(why)
        return found

    def check(self, contestants: Sequence[NetworkPeer]) -> list[NetworkPeer]:
        """Those whose answers are right; every other is an error."""
        want = self._want(contestants)
        right = []
        for one in contestants:
            try:
                worst = self.differences[one.name] = difference(one.outputs(), want)
            except Exception as problem:
                self.errors.append(f"{one.name}: {type(problem).__name__}: {problem}")
                continue
            if worst <= TOLERANCE:
                right.append(one)
            else:
                self.errors.append(f"wrong answer: {one.name} is off by {worst:.1e} of the largest output")
        return right

    def _want(self, contestants: Sequence[NetworkPeer]) -> list[Array]:
        """ONNX Runtime's answer, also where it is not asked for its time; without it that of our reference evaluator."""
        asked = [one for one in contestants if one.name.split()[0] == REFERENCE]
        try:
            reference = asked or peers_networks.forms(REFERENCE, self.network, self.settings.threads)
        except Unavailable as why:
            self.notes[REFERENCE] = str(why)
            return list(ours_networks.load(self.network).evaluate(self.network.inputs).values())
        return reference[0].outputs()

    def _compare(self, contestants: Sequence[NetworkPeer]) -> Comparison:
        runs = {one.name: one.run for one in contestants}
        return hold(runs, (OURS, UNTUNED), self.network.name, self.settings, min_rounds=MIN_ROUNDS, slot_seconds=SLOT_SECONDS)


def difference(got: Sequence[Array], want: Sequence[Array]) -> float:
    """The largest deviation of any output, relative to the largest value of that output. Infinite where number or shapes differ,
    and where one is not a number and the other is."""
    if [array.shape for array in got] != [array.shape for array in want]:
        return float("inf")
    return max((_difference(g.astype(np.float64), w.astype(np.float64)) for g, w in zip(got, want)), default=0.0)


def _difference(got: Array, want: Array) -> float:
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - want[finite]).max() / (np.abs(want[finite]).max() or 1.0))


def _untuned_to_reference(result: Comparison, ours: str) -> Row:
    """The default schedules, which ran under the name `ours`, against ONNX Runtime in the better of its ways."""
    reference = [timing.best for name, timing in result.peers.items() if name.split()[0] == REFERENCE]
    if not reference or ours not in result.timings:
        return {}
    return {UNTUNED_TO_REFERENCE: min(reference) / result[ours].best}
