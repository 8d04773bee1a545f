"""`tensorsmith tune`: search for a fast program of a workload."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorsmith.cli.computation import load
from tensorsmith.tune import tune as tune_workload


def tune(
    computation: Annotated[str, typer.Argument(help="a workload of the catalogue (C2D-3-b1) or a Python file that defines one")],
    trials: Annotated[int, typer.Option(help="candidates to measure")] = 64,
    db: Annotated[str, typer.Option(help="file to keep every measurement in; a run continues from what is there")] = "tune.db",
    time: Annotated[float, typer.Option(help="seconds after which to stop; 0: no limit")] = 0.0,
    seed: Annotated[int, typer.Option(help="same seed and same times give the same candidates")] = 0,
) -> None:
    """Searches for a fast program, keeps every measurement, and shows the best."""
    kernel = tune_workload(load(computation), trials=trials, seconds=time or None, database=db, seed=seed)
    print(kernel.program)
    print(kernel.benchmark())
