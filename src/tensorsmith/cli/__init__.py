"""The command line: `tensorsmith doctor`, and what else there is (`tensorsmith --help`)."""

from __future__ import annotations

import sys

import typer

from tensorsmith.cli import show
from tensorsmith.cli.bench import bench
from tensorsmith.cli.compile import compile
from tensorsmith.cli.demo import demo
from tensorsmith.cli.doctor import doctor
from tensorsmith.cli.records import app as records
from tensorsmith.cli.run import run
from tensorsmith.cli.sketches import sketches
from tensorsmith.cli.tasks import tasks
from tensorsmith.cli.tune import tune
from tensorsmith.errors import UserError

app = typer.Typer(
    name="tensorsmith",
    help="Finds, by search, programs for a tensor computation or a whole network that are as fast as the machine allows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (doctor, demo, tasks, sketches, tune, compile, run, bench):
    app.command()(command)
app.add_typer(records, name="records")


def main() -> None:
    """The entry point; a user's mistake is one line on the error stream, not a traceback."""
    try:
        app()
    except UserError as problem:
        print(f"tensorsmith: {show.plain(' '.join(str(problem).split()))}", file=sys.stderr)
        raise SystemExit(2) from problem
