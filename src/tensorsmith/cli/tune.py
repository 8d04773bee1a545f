"""`tensorsmith tune`: search for a fast program of a workload, or of every task of a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import check_writable
from tensorsmith.cli.compile import save
from tensorsmith.cli.computation import load_any
from tensorsmith.cli.executables import kernels
from tensorsmith.cli.options import Formulations, OpenShapes
from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.rewrites.formulations import ALL
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.tune import tune as search
from tensorsmith.tuning.budget import duration


def tune(
    computation: Annotated[
        str,
        typer.Argument(
            help="A model (MODEL.onnx, or FILE.py:FUNCTION, a function that gives a PyTorch module and its example inputs), "
            "a workload of the catalogue (C2D-3-b1), or a Python file with `tensors = [...]` in it."
        ),
    ],
    trials: Annotated[
        int | None,
        typer.Option(help="Candidates to measure in this run, over all tasks of a model.", show_default="as --effort quick"),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Time after which the run ends, such as 90s, 10m or 1h30m; without --trials, the only limit.")
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(
            help="quick (64 trials), normal (256 trials, patience 128) or thorough (1000 trials, patience 300); "
            "for a model a quarter of that per task; --trials and --patience win over it."
        ),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="End after so many trials that did not improve the best by more than 1 %; 0: never.")
    ] = None,
    db: Annotated[str, typer.Option(help="File that keeps every measurement; a run continues from what is there.")] = "tune.db",
    seed: Annotated[int, typer.Option(help="Of the search: same seed and same times give the same candidates.")] = 0,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Who searches: tensorsmith, ansor, random, or one of your own (module:Name, file.py:Name)."
        ),
    ] = "tensorsmith",
    rules: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The space: default, ansor, or rules of your own.", show_default="those of the policy"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The cost model: trees, prior, random, the file of a saved one, or one of your own.",
            show_default="that of the policy",
        ),
    ] = None,
    formulations: Formulations = ALL,
    cold: Annotated[bool, typer.Option("--cold", help="Measure runs that find none of their arrays in the caches.")] = False,
    shape: OpenShapes = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Executable of a model to write (model.tsm).")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say at the end where the time went.")] = False,
) -> None:
    """Searches for fast programs and keeps every measurement. Shows the loops of a workload, or a line for each task of a model.

    Ctrl-C ends the run, keeps what is measured and shows the best so far; pressed twice, it ends at once.
    """
    loaded = load_any(computation, shape or ())
    if output is not None:
        if not isinstance(loaded, (Model, OpenModel)):
            raise UserError(f"-o {output}: only a model can be written; `kernel.bind(...).save(path)` does it for a workload")
        check_writable(output)
    options: dict[str, Any] = {
        "trials": trials,
        "seconds": None if time is None else duration(time),
        "patience": patience,
        "effort": cast(Literal["quick", "normal", "thorough"] | None, effort),  # it is checked there
        "database": db,
        "seed": seed,
        "cache": "cold" if cold else None,
        "policy": policy,
        "rules": rules,
        "model": model,
        "formulations": formulations,
        "verbose": verbose,
    }
    found = search(loaded, **options)
    if output is not None:
        save(found, output)
    if isinstance(found, OpenExecutable):
        for variant in found.variants:
            show.say(f"{variant.executable.name}: {kernels(variant.executable)}; {variant.executable.benchmark()}")
        return
    if isinstance(loaded, Model):
        if output is None:
            show.say(f"{found.name}: {kernels(found)}")
    else:
        print(found.program)
    print(found.benchmark())
