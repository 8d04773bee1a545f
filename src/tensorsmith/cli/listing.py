"""`tensorsmith workloads` and `tensorsmith targets`: the names that other commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.options import AsJson
from tensorsmith.errors import UserError
from tensorsmith.lang.flops import flops
from tensorsmith.ops import catalogue
from tensorsmith.targets.target import native
from tensorsmith.targets.target import targets as named


def workloads(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Those whose names begin so, such as C2D or GMM-3; else all.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Lists the catalogue: the workloads of the Ansor paper at batch 1 and 16, and every operator at a small, odd size.

    Their names can be given to `tune` and `sketches`.
    """
    found = [case for case in catalogue.everything().values() if not names or case.name.startswith(tuple(names))]
    if not found:
        raise UserError(f"no workload's name begins with {' or '.join(names or ())}; `tensorsmith workloads` lists all")
    rows = [((case.name, case.operator, case.title), flops(case.workload())) for case in found]
    texts = ("name", "operator", "title")
    if json:
        show.as_json((*texts, "flops"), [(*row, count) for row, count in rows])
    else:
        show.table((*texts, "MFLOP"), [(*row, f"{count / 1e6:,.2f}") for row, count in rows], texts)


def targets(json: AsJson = False) -> None:
    """Lists the machines that can be generated for by name (`--target`), and this one."""
    found = {"native": native(), **named()}
    columns = ("name", "kind", "machine", "cores", "key")
    rows = [[name, t.kind, t.name, t.cores, t.key] for name, t in found.items()]
    if json:
        show.as_json(columns, rows)
    else:
        show.table(columns, rows, ("name", "kind", "machine", "key"))
