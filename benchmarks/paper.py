"""The Ansor paper's evaluation by one command: its figures with our systems, the paper's own numbers beside them.

    python benchmarks/paper.py --quick --out out/                                    # ten minutes or so: small cases, few trials
    python benchmarks/paper.py --figure 6,7,8,9,10,table --trials 1000 --seeds 3 --out out/
                               [--only C2D,GMM-3-b1] [--batch 1,16] [--networks resnet50,dcgan] [--network-trials 10000]
                               [--systems autotvm,ansor] [--peers torch,onnxruntime] [--timing 3] [--redraw]

    6       ten operators, four shapes each, batch 1 and 16
    7       the ablation: best so far over trials, on one convolution
    8       the two subgraphs
    9       five networks
    10      networks over trials, relative to AutoTVM's result, and what it took to match that (the paper's table 3)
    table   the cost models, on the programs that this run has measured

AutoTVM, FlexTensor, Halide and Ansor are policies of ours on our code generator (docs/policies.md): what differs is what they
search and how. Every system measures the same number of programs in each case; with several seeds, the median run takes part in the
timing, which is side by side in one process. Frameworks are peers, as in `ops.py`; Halide and TVM themselves take part where their
wheels are installed and they can express a case (`--peers torch,halide-wheel,tvm-wheel`).

Everything is kept under `--out`: a run that is stopped goes on with the same command. The data of a figure is a JSON file
(figure6.json), written before its picture is drawn; `--redraw` draws what is there and measures nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import about
import drawing
import models
import paper_results
import paper_runs
from frameworks import FRAMEWORKS, OUTSIDE
from paper_figures import Bars, Curves, Figure, Grid, Line, Timed, best_of_all, from_json, match
from paper_runs import ABLATION, OTHERS, POLICY_OF, Plan
from report import RUN
from resume import ending_at_ctrl_c, write_whole
from rows import OURS
from tensorsmith.lang.flops import flops
from tensorsmith.ops import catalogue
from tensorsmith.ops.catalogue import Case

FIGURES = ("6", "7", "8", "9", "10", "table")
SUBGRAPHS = ("ConvLayer", "TBS")
BATCHES = (1, 16)

#: `--quick`: the cheapest shape of each operator at batch 1, two small networks; about ten minutes on two cores
QUICK = {"trials": 16, "seeds": 1, "network_trials": 96, "timing": 1.0}
QUICK_NETWORKS = ("mobilenet_v2", "dcgan")


def main(words: Sequence[str] | None = None) -> int:
    given = arguments(words)
    console = Console(width=150, soft_wrap=True)
    run = about.about()
    console.print(about.text(run), markup=False, highlight=False)
    found: dict[str, Any] = {}
    paper = Paper(given, lambda said: console.print(said, markup=False, highlight=False))
    with ending_at_ctrl_c(given.out):
        for figure in given.figure:
            try:
                parts = paper.stored(figure) if given.redraw else paper.make(figure)
            except FileNotFoundError:
                console.print(f"figure {figure}: there is no data in {given.out} yet", markup=False)
                continue
            if not given.redraw:
                write_whole(given.out / f"figure{figure}.json", {"run": run, "parts": {k: f.to_json() for k, f in parts.items()}})
            for name, part in parts.items():
                show(console, part)
                found[f"{figure} {name}"] = {"figure": figure, **shown(part)}
            try:
                for path in draw(figure, parts, given.out):
                    console.print(f"drawn: {path}", markup=False, highlight=False)
            except drawing.NoLibrary as problem:
                console.print(f"{problem}", markup=False)
    if given.json:
        write_whole(Path(given.json), {RUN: run, **found})
    return 0


class Paper:
    """All figures of one run, as data."""

    def __init__(self, given: argparse.Namespace, say: Callable[[str], None]) -> None:
        self.given = given
        self.plan: Plan = replace(given.plan, say=say)

    def stored(self, figure: str) -> dict[str, Figure]:
        """What an earlier run has written."""
        form = json.loads((self.given.out / f"figure{figure}.json").read_text(encoding="utf-8"))
        return {name: from_json(part) for name, part in form["parts"].items()}

    def make(self, figure: str) -> dict[str, Figure]:
        makers: Mapping[str, Callable[[], dict[str, Figure]]] = {
            "6": lambda: self.operators(False),
            "7": self.ablation,
            "8": lambda: self.operators(True),
            "9": self.networks,
            "10": self.matching,
            "table": lambda: {"models": paper_runs.cost_models(self.plan)},
        }
        return makers[figure]()

    def operators(self, subgraphs: bool) -> dict[str, Figure]:
        """Figures 6 and 8: for each batch size ours, and the paper's for the same cases."""
        found: dict[str, Figure] = {}
        for batch in self.given.batch:
            chosen = [c for c in self.given.cases if c.batch == batch and (c.operator in SUBGRAPHS) == subgraphs]
            cases = tuple(paper_runs.timed_case(self.plan, case) for case in chosen)
            if cases:
                title = f"batch {batch}, {self.plan.trials} trials each"
                found[f"batch {batch}"] = Bars(title, self.plan.bars, cases)
                found[f"batch {batch}, the paper"] = _paper_bars(batch, chosen)
        return found

    def ablation(self) -> dict[str, Figure]:
        lines = tuple(paper_runs.ablation(self.plan))
        name = f"{ABLATION} ({catalogue.get(ABLATION).title})"
        what = "the best program found"
        return {"curves": Curves("ablation", what, {name: lines}, {name: best_of_all(lines)})}

    def networks(self) -> dict[str, Figure]:
        found: dict[str, Figure] = {}
        for batch in self.given.batch:
            cases = tuple(paper_runs.timed_network(self.plan, name, batch) for name in self.given.networks)
            if cases:
                title = f"networks, batch {batch}, {self.plan.network_trials} trials each"
                found[f"batch {batch}"] = Bars(title, self.plan.network_bars, cases)
                theirs = paper_results.networks()
                known = tuple(Timed(c.name, c.group, theirs[c.name]) for c in cases if c.name in theirs)
                found[f"batch {batch}, the paper"] = Bars(
                    f"batch {batch}, {paper_results.MACHINE}", paper_results.NETWORK_SYSTEMS, known
                )
        return found

    def matching(self) -> dict[str, Figure]:
        """Figure 10 and table 3, at batch 1."""
        panels: dict[str, tuple[Line, ...]] = {}
        reference: dict[str, float] = {}
        rows: list[tuple[str, ...]] = []
        for name in self.given.networks:
            lines = tuple(paper_runs.network_lines(self.plan, name, 1))
            autotvm = next((line for line in lines if line.system == "autotvm"), None)
            last = autotvm.last if autotvm else None
            panels[name], reference[name] = lines, last if last is not None else best_of_all(lines)
            found = [match(name, line.system, autotvm, line) for line in lines if autotvm and line is not autotvm]
            rows += [m.cells for m in found if m is not None]
            if name in paper_results.SEARCH_SECONDS:
                theirs, ansors = paper_results.SEARCH_SECONDS[name]
                rows.append((name, "ansor, the paper", f"{theirs:,}", f"{ansors:,}", f"{theirs / ansors:.1f}x", "-", "-", "-"))
        columns = ("network", "system", "AutoTVM s", "to match s", "saving", "AutoTVM trials", "to match", "saving")
        return {
            "curves": Curves("estimated latency of a network", "AutoTVM's result", panels, reference),
            "matches": Grid("search until AutoTVM's result is matched", columns, tuple(rows)),
        }


def _paper_bars(batch: int, cases: Sequence[Case]) -> Bars:
    theirs = paper_results.operators()
    known = tuple(Timed(c.name, c.operator, theirs[c.name]) for c in cases if c.name in theirs)
    return Bars(f"batch {batch}, {paper_results.MACHINE}", paper_results.OPERATOR_SYSTEMS, known)


# -- what is shown ---------------------------------------------------------------------------------------------------------


def shown(figure: Figure) -> dict[str, Any]:
    """The numbers of a figure as a table has them: of bars their heights by group, of curves each line's last speed by panel."""
    if isinstance(figure, Bars):
        return {"title": figure.title, "groups": {group: figure.of(group) for group in figure.groups}}
    if isinstance(figure, Curves):
        last = {panel: {name: speeds[-1] for name, speeds in figure.speeds(panel).items() if speeds} for panel in figure.panels}
        return {"title": figure.title, "groups": last}
    return {"title": figure.title, "columns": figure.columns, "rows": figure.rows}


def show(console: Console, figure: Figure) -> None:
    """As a table, with what there is to say of each case."""
    if isinstance(figure, Bars):
        legend = None if paper_results.MACHINE in figure.title else OTHERS
        title = f"{figure.title}: speed, the best of a group is 1"
        table = Table("", *figure.systems, title=title, title_justify="left", caption=legend, caption_justify="left")
        for group in figure.groups:
            heights = figure.of(group)
            table.add_row(group, *(f"{heights[s]:.2f}" if s in heights else "-" for s in figure.systems))
        console.print(table)
        for case in figure.cases:
            for system, said in case.notes.items():
                console.print(f"  {case.name}, {system}: {said}", markup=False, highlight=False)
    elif isinstance(figure, Curves):
        for panel, lines in figure.panels.items():
            table = Table("", "trials", "seconds", "best us", "speed", "", title=f"{figure.title}: {panel}", title_justify="left")
            table.caption, table.caption_justify = OTHERS, "left"
            for line in lines:
                last = line.last
                cells = (str(line.trials[-1]), f"{line.seconds[-1]:.0f}", f"{last * 1e6:,.1f}") if last else ("-",) * 3
                table.add_row(line.system, *cells, f"{figure.reference[panel] / last:.3f}" if last else "-", line.note)
            console.print(table)
    else:
        table = Table(*figure.columns, title=figure.title, title_justify="left")
        for row in figure.rows:
            table.add_row(*row)
        console.print(table)


def draw(name: str, parts: Mapping[str, Figure], out: Path) -> list[Path]:
    """The pictures of a figure: bars with the paper's own below them; tables have none."""
    bars = [part for part in parts.values() if isinstance(part, Bars) and part.cases]
    made: list[Path] = []
    if bars:
        made += drawing.draw_bars([[part] for part in bars], out / f"figure{name}")
    for part in parts.values():
        if isinstance(part, Curves) and any(line.best for lines in part.panels.values() for line in lines):
            made += drawing.draw_curves(part, out / f"figure{name}")
    return made


# -- the command -----------------------------------------------------------------------------------------------------------


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Checked: what cannot work fails before anything is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=_names, default=FIGURES, help=",".join(FIGURES))
    parser.add_argument("--trials", type=int, help="measured programs of a case, for every system")
    parser.add_argument("--network-trials", type=int, help="of a network (default: ten times --trials)")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--out", type=Path, required=True, help="folder for everything; what is there is built upon")
    parser.add_argument("--quick", action="store_true", help="ten minutes: small cases, few trials")
    parser.add_argument("--only", type=_names, default=(), help="operators or cases, such as C2D,GMM-3-b1")
    parser.add_argument("--batch", type=_names, help="1,16")
    parser.add_argument("--networks", type=_names, help=f"of {','.join(models.PAPER)}")
    parser.add_argument("--systems", type=_names, default=tuple(POLICY_OF), help="besides ours: policies; by default the paper's")
    parser.add_argument("--peers", type=_names, default=("torch",), help=f"of {','.join([*FRAMEWORKS, *OUTSIDE])}")
    parser.add_argument("--timing", type=float, help="seconds of timing per case")
    parser.add_argument("--redraw", action="store_true", help="draw the data that is there; nothing is measured")
    parser.add_argument("--json", help="the numbers of all figures in one file")
    given = parser.parse_args(words)
    quick = QUICK if given.quick else {}
    for kind, wanted, known in (
        ("figure", given.figure, FIGURES),
        ("peer", given.peers, (*FRAMEWORKS, *OUTSIDE)),
        ("network", given.networks or (), models.PAPER),
    ):
        for name in wanted:
            if name not in known:
                parser.error(f"there is no {kind} {name!r}; there are {', '.join(known)}")
    for name in given.systems:
        paper_runs.policy_of(name)
    given.batch = _batches(parser, given.batch or (("1",) if given.quick else ("1", "16")))
    given.networks = given.networks or (QUICK_NETWORKS if given.quick else models.PAPER)
    given.cases = _cases(parser, given.only, given.batch, given.quick)
    trials = quick.get("trials", 64) if given.trials is None else given.trials
    seeds = quick.get("seeds", 1) if given.seeds is None else given.seeds
    if trials < 1 or seeds < 1:
        parser.error("--trials and --seeds are 1 or more")
    theirs = tuple(name for name in given.systems if name != OURS)
    in_networks = tuple(name for name in theirs if name not in ("halide", "flextensor"))  # as in the paper
    given.plan = Plan(
        given.out,
        trials,
        seeds,
        (*theirs, OURS),
        given.peers,
        (*in_networks, OURS),
        given.network_trials or quick.get("network_trials", 10 * trials),
        given.timing or quick.get("timing", 3.0),
    )
    return given


def _batches(parser: argparse.ArgumentParser, given: Sequence[str]) -> tuple[int, ...]:
    for word in given:
        if word not in map(str, BATCHES):
            parser.error(f"--batch is of {', '.join(map(str, BATCHES))}, {word!r} given")
    return tuple(int(word) for word in given)


def _cases(parser: argparse.ArgumentParser, only: Sequence[str], batches: Sequence[int], quick: bool) -> list[Case]:
    every = [case for batch in batches for case in catalogue.cases(batch).values()]
    known = {word for case in every for word in (case.name, case.operator)}
    for name in only:
        if name not in known:
            parser.error(f"there is no case or operator {name!r}; there are {', '.join(sorted(known))}")
    chosen = [case for case in every if not only or {case.name, case.operator} & set(only)]
    if not quick:
        return chosen
    work = {case.name: flops(case.workload()) for case in chosen}
    cheapest = [
        min((c for c in chosen if c.operator == o), key=lambda c: work[c.name]) for o in dict.fromkeys(c.operator for c in chosen)
    ]
    return [case for case in cheapest if case.batch == min(batches)]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


if __name__ == "__main__":
    raise SystemExit(main())
