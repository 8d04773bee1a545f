"""The command line: `tensorsmith doctor`, and what else there is (`tensorsmith --help`)."""

from __future__ import annotations

import sys

import typer

from tensorsmith.cli.demo import demo
from tensorsmith.cli.doctor import doctor
from tensorsmith.cli.records import app as records
from tensorsmith.cli.sketches import sketches
from tensorsmith.cli.tune import tune
from tensorsmith.errors import UserError

app = typer.Typer(
    name="tensorsmith",
    help="Finds, by search, a program for a tensor computation that is as fast as the machine allows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(doctor)
app.command()(demo)
app.command()(sketches)
app.command()(tune)
app.add_typer(records, name="records")


def main() -> None:
    """The entry point; a user's mistake is one line on the error stream, not a traceback."""
    try:
        app()
    except UserError as problem:
        print(f"tensorsmith: {problem}", file=sys.stderr)
        raise SystemExit(2) from problem
