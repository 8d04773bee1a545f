"""`tensorsmith workloads` and `tensorsmith targets`: the names that other commands take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from tensorsmith.cli import show
from tensorsmith.cli.options import AsJson
from tensorsmith.errors import UserError
from tensorsmith.lang.flops import flops
from tensorsmith.ops import catalogue
from tensorsmith.targets.target import native
from tensorsmith.targets.target import targets as named


@dataclass(frozen=True)
class NamedWorkload:
    """A workload of the catalogue. `operator` is its kind, `title` what it is, with its sizes."""

    name: str
    operator: str
    title: str
    flops: int


@dataclass(frozen=True)
class NamedTarget:
    """A machine that can be generated for. `key` is what records are found by."""

    name: str
    kind: str
    machine: str
    cores: int
    key: str


def workloads(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Those whose names begin so, such as C2D or GMM-3; else all.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Lists the catalogue: the workloads of the Ansor paper at batch 1 and 16, and every operator at a small, odd size.

    Their names can be given to `tune`, `sketches` and `records FILE best`.
    """
    cases = [case for case in catalogue.everything().values() if not names or case.name.startswith(tuple(names))]
    if not cases:
        raise UserError(f"no workload's name begins with {' or '.join(names or ())}; `tensorsmith workloads` lists all")
    found = [NamedWorkload(case.name, case.operator, case.title, flops(case.workload())) for case in cases]
    show.answer(found, json, _show_workloads)


def _show_workloads(found: Sequence[NamedWorkload]) -> None:
    texts = ("name", "operator", "title")
    show.table((*texts, "MFLOP"), [(w.name, w.operator, w.title, f"{w.flops / 1e6:,.2f}") for w in found], texts)


def targets(json: AsJson = False) -> None:
    """Lists the machines that can be generated for by name (`compile --target`), and this one, `native`."""
    known = {"native": native(), **named()}
    show.answer([NamedTarget(name, t.kind, t.name, t.cores, t.key) for name, t in known.items()], json, _show_targets)


def _show_targets(found: Sequence[NamedTarget]) -> None:
    columns = ("name", "kind", "machine", "cores", "key")
    show.table(columns, [(t.name, t.kind, t.machine, t.cores, t.key) for t in found], ("name", "kind", "machine", "key"))
