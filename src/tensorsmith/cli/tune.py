"""`tensorsmith tune`: search for a fast program of a workload."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from tensorsmith.cli.computation import load
from tensorsmith.tune import tune as tune_workload
from tensorsmith.tuning.budget import duration


def tune(
    computation: Annotated[
        str, typer.Argument(help="A workload of the catalogue (C2D-3-b1), or a Python file with `tensors = [...]` in it.")
    ],
    trials: Annotated[int | None, typer.Option(help="Candidates to measure in this run.", show_default="64")] = None,
    time: Annotated[
        str | None, typer.Option(help="Time after which the run ends, such as 90s, 10m or 1h30m; without --trials, the only limit.")
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(
            help="quick (64 trials), normal (256 trials, patience 128) or thorough (1000 trials, patience 300); "
            "--trials and --patience win over it."
        ),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="End after so many trials that did not improve the best by more than 1 %; 0: never.")
    ] = None,
    db: Annotated[str, typer.Option(help="File that keeps every measurement; a run continues from what is there.")] = "tune.db",
    seed: Annotated[int, typer.Option(help="Of the search: same seed and same times give the same candidates.")] = 0,
    cold: Annotated[bool, typer.Option("--cold", help="Measure runs that find none of their arrays in the caches.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say at the end where the time went.")] = False,
) -> None:
    """Searches for a fast program, keeps every measurement, and shows the best.

    Ctrl-C ends the run, keeps what is measured and shows the best so far; pressed twice, it ends at once.
    """
    kernel = tune_workload(
        load(computation),
        trials=trials,
        seconds=None if time is None else duration(time),
        patience=patience,
        effort=cast(Literal["quick", "normal", "thorough"] | None, effort),  # it is checked there
        database=db,
        seed=seed,
        cache="cold" if cold else "warm",
        verbose=verbose,
    )
    print(kernel.program)
    print(kernel.benchmark())
