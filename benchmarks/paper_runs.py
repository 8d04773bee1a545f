"""The runs behind the paper's figures: each system searches each case with the same number of measured programs, then all of them
run side by side (`contest`, `network_contest`).

A search has a record file and a log for each system and seed, a case a file with its times: what is there is not made again. A
system that cannot take part in a case, or that has tried all of its space, is noted; the others go on.

What `tune` hands out is never slower than our default schedule. That is ours alone: of the other systems the best program that they
found themselves takes part, by their own times (`found_alone`).

    out/records/GMM-1-b1/ansor-0.db, .log      a search
    out/records/GMM-1-b1/ansor-0.own.db        what it found itself
    out/rows/GMM-1-b1.json                     the case, timed
"""

from __future__ import annotations

import gc
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import models
import models_table
import ours_networks
import paper_results
import tensorsmith as ts
from contest import Settings, contest, quiet_machine
from curves import Curve, Machine, Named, attempted, text
from models import Network
from network_contest import Entry
from ours_networks import Budget
from paper_figures import Grid, Line, Timed, of_curves, of_outcomes
from resume import Log, Outcome, Tell, kept
from rows import OURS, UNTUNED, Row
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.ops.catalogue import Case
from tensorsmith.records.keys import Timing
from tensorsmith.records.record import FINALS
from tensorsmith.records.store import Store
from tensorsmith.runtime.executable import Executable
from tensorsmith.search.policy import POLICIES, programs_of
from tensorsmith.targets.target import native

#: systems that are policies here, other than ours, and which policy each is: AutoTVM as the paper's authors ran it
POLICY_OF = {"halide": "halide", "flextensor": "flextensor", "autotvm": "autotvm-paper", "ansor": "ansor"}
#: stands under every table with such a system: none of them is the published one
OTHERS = (
    "ansor: our implementation of Ansor's policy on our code generator; halide, flextensor, autotvm and the others likewise. "
    "What differs from the papers: docs/policies.md"
)
ABLATION = "C2D-4-b16"  # figure 7: the last convolution of ResNet-50
ABLATED = (OURS, "ansor", "ansor-nofinetune", "ansor-limited", "beam", "random")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What a run of the paper consists of. `budget` is what results depend on: others are made anew."""

    out: Path
    trials: int = 64
    seeds: int = 1
    systems: tuple[str, ...] = (*POLICY_OF, OURS)
    peers: tuple[str, ...] = ("torch",)
    network_systems: tuple[str, ...] = ("autotvm", "ansor", OURS)
    network_trials: int = 1000
    timing: float = 3.0  # seconds of side by side timing of a case
    say: Say = field(default=print, compare=False)

    def __post_init__(self) -> None:
        assert OURS in self.systems and OURS in self.network_systems

    @property
    def bars(self) -> tuple[str, ...]:
        """Who has a bar in figures 6 and 8."""
        return (*self.peers, *self.systems)

    @property
    def network_bars(self) -> tuple[str, ...]:
        return (*self.peers, *self.network_systems)


def policy_of(system: str) -> str:
    """The policy that a system is here."""
    name = POLICY_OF.get(system, system)
    if name not in POLICIES.names():
        raise SystemExit(f"there is no system {system!r}; there are {', '.join([*POLICY_OF, *POLICIES.names()])}")
    return name


def formulations_of(system: str) -> str:
    """Winograd's convolution is ours alone: the others compute what is written down."""
    return "all" if system == OURS else "direct"


# -- operators and subgraphs -----------------------------------------------------------------------------------------------


def search_workload(plan: Plan, name: str, workload: Workload, system: str, seed: int) -> Outcome:
    """A search of one case, in full or for the rest of its trials. One that fails says why."""
    place = plan.out / "records" / name / f"{system}-{seed}"
    place.parent.mkdir(parents=True, exist_ok=True)

    def go(left: int, tell: Tell) -> str | None:
        done = 0

        def noted(progress: Any) -> None:
            nonlocal done
            done = progress.trials
            tell(progress.trials, progress.elapsed, progress.best_seconds, 0.0)

        try:
            ts.tune(
                workload,
                trials=left,
                policy=policy_of(system),
                seed=seed,
                database=place.with_suffix(".db"),
                formulations=formulations_of(system),
                early_stop=False,  # all systems have the same budget
                on_progress=noted,
            )
        except Exception as problem:
            return _failure(problem)
        return None if done >= left else _ended(workload, system, plan.trials - left + done, plan.trials)

    return Log(place.with_suffix(".log")).search(plan.trials, go)


def _failure(problem: Exception) -> str:
    return f"failed: {type(problem).__name__}: {(str(problem).splitlines() or [''])[0]}"


def _ended(workload: Workload, system: str, done: int, trials: int) -> str:
    """Why a search came to less trials than it might have had: most likely its space is small."""
    programs = programs_of(Named(policy_of(system)).policy(workload, 0))
    space = "" if programs is None else f", of a space of {programs:,} programs"
    return f"ended after {done} of {trials} trials{space}"


def found_alone(database: Path) -> Path:
    """A copy of a record file without finals, where programs meet our default schedule."""
    own = database.with_suffix(".own.db")
    if not database.exists() or (own.exists() and own.stat().st_mtime >= database.stat().st_mtime):
        return own
    own.unlink(missing_ok=True)
    every = io.StringIO()
    with Store.open(database, read_only=True) as store:
        store.export(every)
    proposed = [line for line in every.getvalue().splitlines() if json.loads(line).get("run") not in FINALS]
    with Store.open(own) as store:
        store.import_(io.StringIO("\n".join(proposed)))
    return own


def records_of(plan: Plan, name: str, system: str, seed: int) -> Path:
    """The records that a system's program is chosen by."""
    database = plan.out / "records" / name / f"{system}-{seed}.db"
    return database if system == OURS else found_alone(database)


def _best(plan: Plan, name: str, workload: Workload, system: str, seed: int, outcome: Outcome) -> float | None:
    """The seconds of what a search has found."""
    if system == OURS or outcome.best is None:
        return outcome.best
    with Store.open(records_of(plan, name, system, seed), read_only=True) as store:
        record = store.best(workload, native(), Timing("warm", native().cores))
    return None if record is None else record.seconds


def middle(best: Sequence[float | None]) -> int | None:
    """The seed of the median run, by the best that each has found; None if none found anything."""
    ranked = sorted((seconds, seed) for seed, seconds in enumerate(best) if seconds is not None)
    return ranked[(len(ranked) - 1) // 2][1] if ranked else None


def timed_case(plan: Plan, case: Case) -> Timed:
    """All systems and peers on one case; from its file, if it is there."""
    of = {"trials": plan.trials, "seeds": plan.seeds, "systems": plan.systems, "peers": plan.peers, "timing": plan.timing}
    form = kept(plan.out / "rows" / f"{case.name}.json", of, lambda: asdict(_time_case(plan, case)))
    return Timed(**form)


def _time_case(plan: Plan, case: Case) -> Timed:
    workload = case.workload()
    notes: dict[str, str] = {}
    winners: dict[str, Callable[[], Executable]] = {}
    for system in plan.systems:
        outcomes = [search_workload(plan, case.name, workload, system, seed) for seed in range(plan.seeds)]
        said = dict.fromkeys(o.note for o in outcomes if o.note)
        notes |= {system: "; ".join(said)} if said else {}
        best = [_best(plan, case.name, workload, system, seed, outcome) for seed, outcome in enumerate(outcomes)]
        seed = middle(best)
        if seed is not None:
            took = f"{(best[seed] or 0) * 1e6:,.1f} us"
            plan.say(f"{case.name} {system}: {took}" + (f" ({notes[system]})" if system in notes else ""))
            winners[system] = _compiled(plan, case.name, workload, system, seed)
        else:
            plan.say(f"{case.name} {system}: nothing ({notes.get(system, 'no program ran')})")
    settings = Settings(native().cores, plan.timing, plan.peers, trials=plan.trials)
    untuned = lambda: ts.compile(workload)  # noqa: E731  built where problems are noted
    ours = winners.pop(OURS, untuned)
    with quiet_machine():
        row = contest(case, workload, ours, settings, untuned=untuned, others=winners, operator=case.operator)
    return timed(case.name, case.operator, row, plan.bars, notes)


def _compiled(plan: Plan, name: str, workload: Workload, system: str, seed: int) -> Callable[[], Executable]:
    database = records_of(plan, name, system, seed)
    return lambda: ts.compile(workload, database=database, formulations=formulations_of(system))


def timed(name: str, group: str, row: Row, systems: Sequence[str], notes: Mapping[str, str]) -> Timed:
    """What a row of a contest says of each system: a framework in its fastest form. Ours untuned is there, too."""
    seconds: dict[str, float] = {}
    for who, took in row.get("seconds", {}).items():
        system = who if who.startswith(OURS) else who.split()[0]
        if system in (*systems, UNTUNED):
            seconds[system] = min(took, seconds.get(system, took))
    if row.get("same_program") and OURS in seconds:
        seconds[UNTUNED] = seconds[OURS]
    said = {**notes, **row.get("notes", {}), **({OURS: row["error"]} if "error" in row else {})}
    if "disturbed" in row:
        said["timing"] = f"{row['disturbed']:.0%} of the slots were disturbed"
    return Timed(name, group, seconds, said)


# -- the ablation ----------------------------------------------------------------------------------------------------------


def curves_of(
    out: Path, name: str, workload: Workload, systems: Mapping[str, Named], trials: int, seeds: int, say: Say
) -> dict[str, list[Curve]]:
    """The runs of several policies on one workload, seed by seed, so that what disturbs the machine disturbs all alike; in an order
    drawn for every seed, so that no one is always the first to measure what others ask for, too."""
    found: dict[str, list[Curve]] = {system: [] for system in systems}
    place = out / "records"
    place.mkdir(parents=True, exist_ok=True)
    with Store.open(place / f"{name}.db") as store:
        machine = Machine(workload, store)
        try:
            for seed in range(seeds):
                for system in random.Random(f"{name} {seed}").sample(list(systems), len(systems)):
                    who = systems[system]
                    of = {"policy": who.name, "school": who.school, "trials": trials, "seed": seed}
                    file = out / "runs" / name / f"{system}-{trials}-{seed}.json"
                    made = kept(file, of, lambda who=who, seed=seed: attempted(workload, who, trials, seed, machine).to_json())
                    curve = Curve.from_json(made, machine.known)
                    found[system].append(curve)
                    last = curve.at(trials)
                    best = f"{last * 1e6:,.1f} us" if last else "nothing"
                    say(f"{name} seed {seed} {system}: {best}" + (f" ({curve.note})" if curve.note else ""))
        finally:
            machine.close()
    return found


def timed_again(
    out: Path, name: str, workload: Workload, curves: Mapping[str, Sequence[Curve]], shown: Sequence[int], say: Say
) -> dict[str, float]:
    """The seconds of all programs that lead a run after one of the `shown` numbers of trials, by their texts: timed in turns."""
    led = [c.leader(n) for runs in curves.values() for c in runs for n in shown]
    leaders = {text(candidate): candidate for candidate in led if candidate is not None}

    def make() -> dict[str, float]:
        say(f"{name}: {len(leaders)} programs in turns")
        with Store.open(out / "records" / f"{name}.db") as store:
            machine = Machine(workload, store)
            try:
                return machine.again(list(leaders.values()))
            finally:
                machine.close()

    found: dict[str, float] = kept(out / "again" / f"{name}.json", sorted(leaders), make)
    return found


def ablation(plan: Plan, systems: Sequence[str] = ABLATED, case: str = ABLATION) -> list[Line]:
    """Figure 7: a line for each variant."""
    workload = catalogue.get(case).workload()
    found = curves_of(plan.out, case, workload, {s: Named(s) for s in systems}, plan.trials, plan.seeds, plan.say)
    return [of_curves(system, curves) for system, curves in found.items()]


# -- networks --------------------------------------------------------------------------------------------------------------


def search_network(plan: Plan, network: Network, name: str, system: str, seed: int) -> Outcome:
    place = plan.out / "records" / name / f"{system}-{seed}"
    place.parent.mkdir(parents=True, exist_ok=True)

    def go(left: int, tell: Tell) -> str | None:
        def noted(progress: Any) -> None:
            tell(progress.trials, progress.elapsed, progress.latencies[0], progress.first[0])

        try:
            ts.tune(
                ours_networks.load(network),
                trials=left,
                policy=policy_of(system),
                seed=seed,
                database=place.with_suffix(".db"),
                formulations=formulations_of(system),
                early_stop=False,  # all systems have the same budget
                on_progress=noted,
            )
        except Exception as problem:
            return _failure(problem)
        return None  # the log says if there were fewer trials

    return Log(place.with_suffix(".log")).search(plan.network_trials, go)


def _budget(plan: Plan, name: str, system: str, seed: int) -> Budget:
    """What a search has found, and no search."""
    database = str(records_of(plan, name, system, seed))
    return Budget(database=database, policy=policy_of(system), seed=seed, formulations=formulations_of(system))


def outcomes_of_network(plan: Plan, name: str, batch: int) -> dict[str, list[Outcome]]:
    """The searches of one network, by system."""
    network = models.get(name, batch)
    found: dict[str, list[Outcome]] = {}
    for system in plan.network_systems:
        found[system] = [search_network(plan, network, f"{name}-b{batch}", system, seed) for seed in range(plan.seeds)]
        best = [o.best for o in found[system] if o.best is not None]
        said = f"{min(best) * 1e3:.3f} ms estimated" if best else found[system][0].note
        plan.say(f"{name}-b{batch} {system}: {said}, {max(o.trials for o in found[system])} trials")
    return found


def timed_network(plan: Plan, name: str, batch: int) -> Timed:
    """Figure 9: one network."""
    case = f"{name}-b{batch}"
    of = {
        "trials": plan.network_trials, "seeds": plan.seeds, "systems": plan.network_systems, "peers": plan.peers,
        "timing": plan.timing,
    }  # fmt: skip
    return Timed(**kept(plan.out / "rows" / f"{case}.json", of, lambda: asdict(_time_network(plan, name, batch))))


def _time_network(plan: Plan, name: str, batch: int) -> Timed:
    case = f"{name}-b{batch}"
    outcomes = outcomes_of_network(plan, name, batch)
    notes = {system: o.note for system, found in outcomes.items() for o in found if o.note}
    seeds = {system: middle([o.best for o in found]) for system, found in outcomes.items()}
    budgets = {system: _budget(plan, case, system, seed) for system, seed in seeds.items() if seed is not None}
    entry = Entry(models.get(name, batch), Settings(native().cores, plan.timing, plan.peers))
    with quiet_machine():
        entry.prepare(budgets.pop(OURS, None), budgets)
        row = entry.measure()
    del entry
    gc.collect()
    return timed(case, name, row, plan.network_bars, notes)


def network_lines(plan: Plan, name: str, batch: int) -> list[Line]:
    """Figure 10: how the estimated latency of a network came down, in each system."""
    return [of_outcomes(system, found) for system, found in outcomes_of_network(plan, name, batch).items()]


# -- cost models -----------------------------------------------------------------------------------------------------------


def cost_models(plan: Plan, names: Sequence[str] = ()) -> Grid:
    """Section 7.5: every cost model on the programs that this run has measured, of all systems together."""
    merged = plan.out / "models.db"
    for rest in plan.out.glob(f"{merged.name}*"):
        rest.unlink()
    with Store.open(merged) as store:
        for file in sorted((plan.out / "records").rglob("*.db")):
            store.merge(file)
        programs = models_table.read(store, native())
    columns = ("model", "pairwise accuracy", "recall at 30", "R2", "workloads", "programs")
    paper = paper_results.COST_MODEL
    rows = [("the paper's, ResNet-50", *(f"{paper[key]:.3f}" for key in ("pairwise", "recall_at_30", "r2")), "-", "25,000")]
    if programs:
        learned, tested = models_table.divided(programs, "programs", 0)
        count = sum(map(len, learned)) + sum(map(len, tested))
        for name in names or models_table.NAMES:
            found = models_table.figures(name, learned, tested, native(), "programs")
            enough = min(map(len, tested)) > models_table.BEST  # else all of them are among the best
            recall = _number(found["recall_at_30"]) if enough else "-"
            rows.append((name, _number(found["pairwise"]), recall, _number(found["r2"]), f"{found['workloads']:.0f}", f"{count:,}"))
    title = "cost models on held-out programs" if programs else "cost models: no workload has enough measured programs yet"
    return Grid(title, columns, tuple(rows))


def _number(value: float) -> str:
    return f"{value:.3f}" if value == value else "-"
