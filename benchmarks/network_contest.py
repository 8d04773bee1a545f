"""One network: our executables and the peers on the same inputs, checked against ONNX Runtime, then timed side by side.

Every contestant gets a block of consecutive runs in each round: its threads may spin between its own operators as they like, and
are asleep before the next one's block begins with a run that is not timed (`harness`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

import ours_networks
import peers_networks
from contest import Settings
from harness import Comparison, Timing, compare, wait_for_quiet
from models import Network
from ours_networks import Budget, Search, contestant
from peers_networks import REFERENCE, Array, NetworkPeer, Unavailable
from report import OURS, Row, row
from tensorsmith.runtime.network import NetworkExecutable
from tensorsmith.runtime.peak import peak_kernel
from tensorsmith.runtime.pool import with_threads
from tensorsmith.runtime.profile import Profile

UNTUNED = f"{OURS} untuned"
UNTUNED_TO_REFERENCE = f"untuned_ratio_to_{REFERENCE}"  # a figure of a row
TOLERANCE = 1e-3  # of the largest output: f32 gives 1e-6 to 1e-4, bf16 1e-2
NEAR_ENOUGH = 0.5  # of ONNX Runtime's speed: what default schedules should reach on any network
BLOCK_SECONDS = 50e-3
MIN_ROUNDS = 5


class Entry:
    """What is known of one network: our executables, who takes part, and what went wrong."""

    def __init__(self, network: Network, settings: Settings) -> None:
        self.network, self.settings = network, settings
        self.executables: dict[str, NetworkExecutable] = {}
        self.search = Search()
        self.errors: list[str] = []
        self.notes: dict[str, str] = {}  # why a peer takes no part
        self.differences: dict[str, float] = {}
        self.preparing: dict[str, float] = {}  # seconds that a peer took to load the network and to compile it

    @property
    def ours(self) -> NetworkExecutable | None:
        return self.executables.get(OURS)

    def prepare(self, budget: Budget | None) -> None:
        """Makes our executables; without a budget the default schedules alone. Whatever goes wrong is an error of the row, not the
        end of the run."""
        try:
            model = ours_networks.load(self.network)
            untuned = ours_networks.tuned(model, Budget())[0]
            if budget is None:
                self.executables = {OURS: untuned}
            else:
                self.executables = {UNTUNED: untuned}
                self.executables[OURS], self.search = ours_networks.tuned(model, budget)
        except Exception as problem:
            self.errors.append(f"{type(problem).__name__}: {problem}")

    def measure(self) -> Row:
        """The row of the report. Inside `contest.quiet_machine()`."""
        with with_threads(self.settings.threads):
            right = self.check(self.contestants())
            result = self._compare(right) if right else Comparison({})
        others = {name: timing for name, timing in result.timings.items() if name != UNTUNED}
        entry = row(
            Comparison(others, result.peak, result.disturbed),
            flops=ours_networks.flops(self.ours) if self.ours else 0,
            threads=self.settings.threads,
            median_ratio_to_best_peer=_median_ratio(others),
            difference={name: d for name, d in self.differences.items() if np.isfinite(d)},
            kernels=ours_networks.schedules(self.ours) if self.ours else None,
            trials=self.search.trials,
            seconds_searching=self.search.seconds,
            curve=self.search.curve or None,
            seconds_preparing=self.preparing or None,
            notes=self.notes or None,
            error="; ".join(self.errors) or None,
        )
        if UNTUNED in result.timings:
            untuned = result[UNTUNED]
            entry["seconds"][UNTUNED], entry["median_seconds"][UNTUNED] = untuned.best, untuned.median
        return entry | _untuned_ratios(result, entry.get("best_peer"), UNTUNED if UNTUNED in self.executables else OURS)

    def profiles(self, entry: Row) -> Iterator[tuple[str, Profile]]:
        """The profile of whichever of ours the row says is behind: ours behind the best peer, the default schedules far behind
        ONNX Runtime."""
        behind = {OURS: entry.get("ratio_to_best_peer", 1.0) < 1.0}
        if entry.get(UNTUNED_TO_REFERENCE, 1.0) < NEAR_ENOUGH:
            behind[UNTUNED if UNTUNED in self.executables else OURS] = True
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
        asked = [one for one in contestants if one.name == REFERENCE]
        try:
            reference = asked or peers_networks.forms(REFERENCE, self.network, self.settings.threads)
        except Unavailable as why:
            self.notes[REFERENCE] = str(why)
            return list(ours_networks.load(self.network).evaluate(self.network.inputs).values())
        return reference[0].outputs()

    def _compare(self, contestants: Sequence[NetworkPeer]) -> Comparison:
        if self.settings.patience:
            wait_for_quiet(self.settings.patience)
        runs: dict[str, Callable[[], object]] = {one.name: one.run for one in contestants}
        fma = peak_kernel()
        return compare(
            runs,
            seconds=self.settings.seconds,
            min_rounds=MIN_ROUNDS,
            slot_seconds=BLOCK_SECONDS,
            keep=[OURS, UNTUNED],
            peak=lambda seconds: fma.run_once(self.settings.threads, seconds),
        )


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


def _untuned_ratios(result: Comparison, best_peer: str | None, ours: str) -> Row:
    """The default schedules against the best peer and against ONNX Runtime; `ours` is the name under which they ran."""
    peers = {"untuned_ratio_to_best_peer": best_peer, UNTUNED_TO_REFERENCE: REFERENCE}
    return {key: result[p].best / result[ours].best for key, p in peers.items() if p in result.timings and ours in result.timings}


def _median_ratio(timings: Mapping[str, Timing]) -> float | None:
    """As `ratio_to_best_peer`, of the medians."""
    medians = {name: timing.median for name, timing in timings.items()}
    ours = medians.pop(OURS, None)
    return min(medians.values()) / ours if ours and medians else None
