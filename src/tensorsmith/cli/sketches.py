"""`tensorsmith sketches`: the sketches of a workload, as loops with holes."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorsmith.cli.computation import load
from tensorsmith.errors import UserError
from tensorsmith.space import registry


def sketches(
    computation: Annotated[str, typer.Argument(help="a workload of the catalogue (C2D-3-b1) or a Python file that defines one")],
    rules: Annotated[str, typer.Option(help="default or ansor")] = "default",
    only: Annotated[int, typer.Option(help="show just this one, counted from 0")] = -1,
) -> None:
    """Shows the sketches that the rules derive for a workload."""
    workload = load(computation)
    found = registry.sketches(workload, rules)
    if only >= len(found):
        raise UserError(f"{computation} has {len(found)} sketches, counted from 0; there is no {only}")
    print(workload)
    for number, sketch in enumerate(found):
        if only in (-1, number):
            print(f"\n--- sketch {number} of {len(found)}")
            print(sketch)
