"""`tensorsmith records`: what a record file holds."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tensorsmith.records.store import Store


def records(database: Annotated[str, typer.Argument(help="a record file")]) -> None:
    """Lists the workloads of a record file with their best times and failures."""
    with Store.open(database, read_only=True) as store:
        rows = store.workloads()
    table = Table("workload", "target", "timing", "trials", "failed", "best")
    for r in rows:
        best = f"{r.best * 1e6:,.1f} us" if r.best is not None else "-"
        table.add_row(r.title, r.target.cpu, str(r.timing), str(r.trials), str(r.failed), best)
    Console().print(table)
