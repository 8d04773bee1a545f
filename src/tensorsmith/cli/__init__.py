"""The command line: `tensorsmith doctor`, and what else there is (`tensorsmith --help`)."""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer

from tensorsmith.cli import show
from tensorsmith.cli.bench import bench
from tensorsmith.cli.command import Command, Group
from tensorsmith.cli.compile import compile
from tensorsmith.cli.demo import demo
from tensorsmith.cli.doctor import doctor
from tensorsmith.cli.export import export
from tensorsmith.cli.fleet import app as fleet
from tensorsmith.cli.generate import generate, serve
from tensorsmith.cli.listing import targets, workloads
from tensorsmith.cli.lock import check_lock, lock
from tensorsmith.cli.ops import ops
from tensorsmith.cli.records import app as records
from tensorsmith.cli.report import report
from tensorsmith.cli.run import run
from tensorsmith.cli.sketches import sketches
from tensorsmith.cli.tasks import tasks
from tensorsmith.cli.tune import tune
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.show.line import plain

_INTERRUPTED = 130  # what shells give for a program that Ctrl-C ended

#: what programs can tell from how a command ended
_EXITS = (
    "Exit codes: 0, done; 1, done, but a result is wrong (doctor, demo, bench), or nobody reads the output, or a bug of ours (with "
    "a traceback); 2, something that was given is wrong, said on the error stream; 130, ended by Ctrl-C."
)


class Commands(Group):
    """The commands, each of which Ctrl-C, or a reader that has seen enough (`| head -1`), ends without a word."""

    def invoke(self, context: Any) -> Any:
        try:
            result = super().invoke(context)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            raise SystemExit(_INTERRUPTED) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
            raise SystemExit(1) from None


app = typer.Typer(
    name="tensorsmith",
    cls=Commands,
    help="Finds, by search, programs for a tensor computation or a whole network that are as fast as the machine allows.",
    epilog=_EXITS,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    doctor,
    demo,
    workloads,
    targets,
    ops,
    tasks,
    sketches,
    tune,
    compile,
    export,
    run,
    bench,
    lock,
    check_lock,
    report,
    generate,
    serve,
):
    app.command(cls=Command)(command)
app.add_typer(records, name="records")
app.add_typer(fleet, name="fleet")


def _show_version(wanted: bool) -> None:
    if wanted:
        show.say(f"tensorsmith {version('tensorsmith')}")
        raise typer.Exit


@app.callback()
def options(
    wanted: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point; a user's mistake is one line on the error stream, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a name that the stream cannot hold is no reason to end
    try:
        app()
    except UserError as problem:
        print(f"tensorsmith: {plain(' '.join(told(problem).split()))}", file=sys.stderr)
        raise SystemExit(2) from problem
