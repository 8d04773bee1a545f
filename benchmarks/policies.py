"""All policies side by side on eight workloads, and ours without each of its parts.

    python benchmarks/policies.py --trials 256 --seeds 5 --out out/policies [--only tensorsmith,ansor] [--workloads GMM-3-b1,...]
                                  [--school FILE | --make-school N] [--json FILE] [--plot]

Best so far over trials and over seconds, the median of the seeds: the convolution of the paper's ablation, five other cases of the
paper, a task of MobileNet-V2 and one of BERT; or workloads drawn at random (`drawn-0`, ...), on which there is more to find. The
table has the speed after 16, 64 and 256 trials, relative to the best of all, as a geometric mean over the workloads; then on how
many workloads ours is ahead of, or equal to (within 1 %), every other policy. Its times were taken after all searches: the programs
that led a search after so many trials run in turns, in one process.

Everybody searches the computation as it is written (no Winograd), and begins with nothing. With a `--school`, a record file of
other workloads, policies that learn from such do: that is what `tensorsmith-notransfer` is compared by, and without a school it is
left out. `--make-school N` tunes the school's workloads with N trials each, into `--out`: other shapes of the same operators.

Runs share what was measured, and seconds are what each would have taken alone (`curves.py`). All of it is kept under `--out`: the
same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import about
import drawing
import models
import ours_networks
import tensorsmith as ts
from curves import Curve, Named
from learning_draw import drawn
from paper_figures import Curves, Line, best_of_all, of_curves, of_leaders
from paper_runs import OTHERS, curves_of, timed_again
from resume import ending_at_ctrl_c, write_whole
from rows import geometric_mean
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.ops import catalogue
from tensorsmith.records.keys import Timing
from tensorsmith.records.store import Store
from tensorsmith.search.policy import POLICIES, as_preset
from tensorsmith.targets.target import native

OURS = "tensorsmith"
NO_TRANSFER = f"{OURS}-notransfer"
SHOWN = (16, 64, 256)  # trials
EQUAL = 0.01  # of a speed: what two timings of the same program differ by, too
CASES = ("C2D-4-b16", "GMM-3-b1", "C2D-4-b1", "GRP-2-b1", "DEP-1-b1", "TBS-1-b1")
TASKS = {"mobilenet_v2": "MobileNet-V2's costliest", "bert_base": "BERT's costliest"}
DRAWN = "drawn-"  # with a number: random workloads, others than those of `collect.py`
_SEED, _MOST_FLOPS = 78, 6e7  # of these
SCHOOL = ("C2D-3-b16", "GMM-2-b1", "C2D-3-b1", "GRP-3-b1", "DEP-2-b1", "TBS-2-b1")  # other shapes of the same operators


def workload_of(name: str) -> Workload:
    """A case of the catalogue, the task of a network that has most to compute, all its calls together, or one drawn at random."""
    if name.startswith(DRAWN):
        return next(itertools.islice(drawn(_SEED, _MOST_FLOPS), int(name.removeprefix(DRAWN)), None))[1]
    if name not in TASKS:
        return catalogue.get(name).workload()
    tasks = [task for task in ours_networks.load(models.get(name)).tasks() if task.tunable]
    return max(tasks, key=lambda task: task.weight * flops(task.workload)).workload


# -- what the runs say -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """The speed of each policy on each workload after so many trials, relative to the best program of all."""

    trials: int
    speeds: Mapping[str, Mapping[str, float]]  # by policy and workload

    def mean(self, policy: str) -> float | None:
        """The geometric mean over the workloads; None unless there is a speed on each."""
        found = self.speeds.get(policy, {})
        everywhere = {w for speeds in self.speeds.values() for w in speeds}
        return geometric_mean(found.values()) if found and set(found) == everywhere else None

    def ahead(self, policy: str, other: str) -> tuple[int, int]:
        """On how many workloads a policy is ahead of another one, and on how many equal."""
        mine, theirs = self.speeds.get(policy, {}), self.speeds.get(other, {})
        ratios = [mine[w] / theirs[w] if w in theirs else 2.0 for w in mine]  # what found nothing is behind
        return sum(r > 1 + EQUAL for r in ratios), sum(abs(r - 1) <= EQUAL for r in ratios)


def standing(panels: Mapping[str, Sequence[Line]], trials: int) -> Standing:
    """After so many trials; a search that ended earlier stays with what it has."""
    speeds: dict[str, dict[str, float]] = {}
    for workload, lines in panels.items():
        best = best_of_all(lines)
        for line in lines:
            at = line.at(trials)
            speeds.setdefault(line.system, {})
            if at is not None:
                speeds[line.system][workload] = best / at
    return Standing(trials, speeds)


def verdict(standings: Sequence[Standing], workloads: int) -> list[str]:
    """Of ours against each other policy and against itself without each part, after each number of trials."""
    lines = []
    for s in standings:
        own = s.mean(OURS)
        others = [p for p in s.speeds if p != OURS]
        behind = [f"{p} {mean:.3f}" for p in others if (mean := s.mean(p)) is not None and own is not None and mean > own]
        score = f"geometric mean {own:.3f}" if own is not None else "no speed on some workload"
        lines.append(f"{OURS} after {s.trials} trials: {score}; ahead of it: {', '.join(behind) or 'none'}")
        groups = {
            "every other policy": [p for p in others if not p.startswith(OURS)],
            "itself without any one part": [p for p in others if p.startswith(OURS)],
        }
        for what, chosen in groups.items():
            worst = min(chosen, key=lambda p, s=s: sum(s.ahead(OURS, p)), default=None)
            if worst is not None:
                ahead, equal = s.ahead(OURS, worst)
                score = f"on at least {ahead + equal} of {workloads} ({worst}: ahead {ahead}, equal {equal})"
                lines.append(f"  ahead of or equal to {what} {score}")
    return lines


def table(standings: Sequence[Standing], lines: Mapping[str, Sequence[Line]], programs: Mapping[str, str]) -> Table:
    columns = (
        "policy",
        *(f"at {s.trials}" for s in standings),
        *(f"ours ahead, equal at {s.trials}" for s in standings),
        "seconds",
        "",
    )
    found = Table(*columns, caption=OTHERS, caption_justify="left")
    names = sorted(standings[-1].speeds, key=lambda p: -(standings[-1].mean(p) or 0.0))
    for policy in names:
        means = [s.mean(policy) for s in standings]
        against = ["" if policy == OURS else "{}, {}".format(*s.ahead(OURS, policy)) for s in standings]
        spent = [line.seconds[-1] for per in lines.values() for line in per if line.system == policy and line.seconds]
        cells = ["-" if mean is None else f"{mean:.3f}" for mean in means]
        found.add_row(policy, *cells, *against, f"{sum(spent):.0f}", programs.get(policy, ""))
    return found


def endings(curves: Mapping[str, Mapping[str, Sequence[Curve]]]) -> dict[str, str]:
    """By policy: on which workloads it ended early or failed, in a few words."""
    found: dict[str, list[str]] = {}
    for workload, by_policy in curves.items():
        for policy, runs in by_policy.items():
            said = next((c for c in runs if c.note), None)
            if said is not None:
                size = f", of {said.programs:,} programs" if said.programs is not None else ""
                found.setdefault(policy, []).append(f"{workload}: {said.note}{size}")
    return {policy: "; ".join(said) for policy, said in found.items()}


# -- the command -----------------------------------------------------------------------------------------------------------


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=SHOWN[-1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", type=_names, default=tuple(POLICIES.names()), help="policies (default: all)")
    parser.add_argument(
        "--workloads",
        type=_names,
        default=(*CASES, *TASKS),
        help="cases of the catalogue, tasks of networks (mobilenet_v2), drawn-0, drawn-1, ...",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for everything; what is there is built upon")
    parser.add_argument("--school", help="record file of other workloads to learn from")
    parser.add_argument("--make-school", type=int, default=0, metavar="N", help="make one, with N trials of each of its workloads")
    parser.add_argument("--json", help="write the figures to this file, too")
    parser.add_argument("--plot", action="store_true", help="draw the curves into --out")
    given = parser.parse_args(words)
    for name in given.only:
        if name not in POLICIES.names():
            parser.error(f"there is no policy {name!r}; there are {', '.join(POLICIES.names())}")
    if given.trials < 1 or given.seeds < 1:
        parser.error("--trials and --seeds are 1 or more")
    if given.school and given.make_school:
        parser.error("give a --school or make one, not both")
    if given.school and not Path(given.school).is_file():
        parser.error(f"there is no file {given.school}")
    if not given.school and not given.make_school:
        given.only = tuple(name for name in given.only if name != NO_TRANSFER)
    return given


def make_school(out: Path, trials: int, say: Callable[[str], None]) -> str:
    """The record file of the school's workloads, each tuned with so many trials; what is there counts."""
    path = out / "school.db"
    out.mkdir(parents=True, exist_ok=True)
    for name in SCHOOL:
        workload = workload_of(name)
        with Store.open(path) as store:
            done = len(store.history(workload, native(), Timing("warm", native().cores)))
        if done < trials:
            say(f"school: {name}")
            ts.tune(
                workload,
                trials=trials - done,
                database=path,
                formulations="direct",
                early_stop=False,
                on_progress=lambda progress: None,
            )
    return str(path)


def main(words: Sequence[str] | None = None) -> int:
    given = arguments(words)
    console = Console(width=190, soft_wrap=True)
    run = about.about()
    console.print(about.text(run), markup=False, highlight=False)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)

    with ending_at_ctrl_c(given.out):
        school = make_school(given.out, given.make_school, say) if given.make_school else given.school
        systems = {name: Named(name, school if as_preset(name).transfer else None) for name in given.only}
        shown = [n for n in SHOWN if n < given.trials] + [given.trials]
        curves, again = {}, {}
        for name in given.workloads:
            workload = workload_of(name)
            curves[name] = curves_of(given.out, name, workload, systems, given.trials, given.seeds, say)
            again[name] = timed_again(given.out, name, workload, curves[name], shown, say)
    panels = {name: tuple(of_curves(p, runs) for p, runs in found.items()) for name, found in curves.items()}
    figure = Curves("policies", "the best program found", panels, {name: best_of_all(lines) for name, lines in panels.items()})
    in_turns = {name: [of_leaders(p, runs, again[name], shown) for p, runs in found.items()] for name, found in curves.items()}
    standings = [standing(in_turns, n) for n in shown]
    report = {
        "run": run,
        "curves": figure.to_json(),
        "speeds": {str(s.trials): s.speeds for s in standings},
        "means": {str(s.trials): {p: s.mean(p) for p in s.speeds} for s in standings},
        "endings": endings(curves),
    }
    for path in (given.out / "policies.json", *([Path(given.json)] if given.json else [])):
        write_whole(path, report)
    console.print(table(standings, panels, endings(curves)))
    for line in verdict(standings, len(panels)):
        say(line)
    if given.plot:
        try:
            for path in drawing.draw_curves(figure, given.out / "policies"):
                say(f"drawn: {path}")
        except drawing.NoLibrary as problem:
            say(str(problem))
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


if __name__ == "__main__":
    raise SystemExit(main())
