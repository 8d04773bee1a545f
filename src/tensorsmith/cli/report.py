"""`tensorsmith report`: what a record file knows, as one HTML file to look at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import check_writable
from tensorsmith.cli.computation import Loading, load_fixed
from tensorsmith.cli.options import AsJson, DrawSeed, Outputs, Shapes
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.records import Store
from tensorsmith.report import collect, render
from tensorsmith.report.candidates import Candidates
from tensorsmith.report.data import Report
from tensorsmith.report.watch import watch as follow
from tensorsmith.runtime.device import measure_peak
from tensorsmith.show.line import many
from tensorsmith.targets.target import native

_PAGE = "report.html"


def report(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A record file of `tensorsmith tune`.")],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page to write.", show_default=f"{_PAGE}; with --json none"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="The model that was tuned (MODEL.onnx, FILE.py:FUNCTION): names its tasks, and their calls."
        ),
    ] = None,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    measure: Annotated[
        bool, typer.Option("--measure-peak", help="Measure this machine's roof for the roofline, instead of estimating it.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow a running tuning: write the page again as records come, until Ctrl-C.")
    ] = False,
    every: Annotated[float, typer.Option(min=1.0, help="Seconds between two looks of --watch.")] = 5.0,
    json: AsJson = False,
) -> None:
    """Writes a report to one HTML file that needs no network: where the time goes, tuning curves, roofline, programs, failures.

    With --json it prints all that the page shows instead, and writes the page only if -o names it.
    """
    if json and watch:
        raise UserError("--watch writes a page again and again; --json answers once: give one of the two")
    if output is None and not json:
        output = _PAGE
    if output is not None:
        check_writable(output)
        render.library()  # better now than after the work
    with show.apart(json):
        maker = _Maker(
            file, output, load_fixed(model, Loading.of(shape, outputs, draw_seed)) if model is not None else None, measure
        )
    if not watch:
        with show.apart(json):
            made = maker.make()
        show.answer({**render.to_json(made), "page": output} if json else made, json, lambda _: show.say(_said(made, output)))
        return
    show.say(f"following {file}; {output} is written again as records come, until Ctrl-C")
    try:
        follow(Path(file), lambda: maker.make_if_any(every), every)
    except KeyboardInterrupt:
        show.say(_said(maker.make(), output))


class _Maker:
    """Makes the same report again and again."""

    def __init__(self, file: str, output: str | None, model: Model | None, measure: bool) -> None:
        self._file, self._output, self._model = file, output, model
        self._candidates = Candidates()
        with Store.open(file, read_only=True) as store:
            self._peak = _measured(store) if measure else None

    def make(self, refresh: float | None = None) -> Report:
        with Store.open(self._file, read_only=True) as store:
            found = collect.of_records(store, model=self._model, peak=self._peak, candidates=self._candidates)
        if self._output is not None:
            render.write(found, self._output, refresh)
        return found

    def make_if_any(self, refresh: float) -> None:
        """Nothing is written before the first record is there."""
        with Store.open(self._file, read_only=True) as store:
            if not store.workloads():
                return
        self.make(refresh)


def _measured(store: Store) -> tuple[str, Mapping[str, float]]:
    """The roof of this machine, if the records are of it."""
    here, there = native().key, {s.target.key for s in store.workloads()}
    if there and here not in there:
        raise UserError(f"--measure-peak: the records are of {', '.join(sorted(there))}, this machine is {here}")
    return here, measure_peak()


def _said(made: Report, output: str | None) -> str:
    assert output is not None
    tasks, trials = sum(len(s.tasks) for s in made.settings), sum(s.trials for s in made.settings)
    return f"{output}: {many(tasks, 'task')}, {many(trials, 'trial')}, {Path(output).stat().st_size / 2**20:.1f} MiB"
