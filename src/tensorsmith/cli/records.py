"""`tensorsmith records FILE ...`: what a record file holds, why a record is missing, export, import, rescue.

The file may come from a stranger: its texts are shown without markup and without control characters.
"""

from __future__ import annotations

import contextlib
import datetime
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from tensorsmith.cli import recorded, show
from tensorsmith.cli.command import Command, Group
from tensorsmith.cli.computation import Loading
from tensorsmith.cli.options import AsJson, DrawSeed, Outputs, Shapes
from tensorsmith.errors import UserError
from tensorsmith.records import Store, Timing, ansor
from tensorsmith.records import recover as recover_file
from tensorsmith.records.lines import Counts
from tensorsmith.show.line import many
from tensorsmith.targets.target import native

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A workload: its key in the file (or the beginning), a catalogue name, a .py file; or a model: MODEL.onnx, "
        "FILE.py:FUNCTION.",
    ),
]


_NO_FILE = "-"  # where a log is only looked at


class _AfterTheFile(Group):
    """Takes `FILE --json`, as one writes it, for `--json FILE`: what follows an argument is else the name of a command. `import LOG
    --from SYSTEM` without a file looks at a log and stores nothing."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        system = any(a == "--from" or a.startswith("--from=") for a in arguments)
        if arguments[:1] == ["import"] and arguments[1:2] != ["import"] and system:
            arguments = [_NO_FILE, *arguments]
        if arguments[1:2] == ["--json"]:
            arguments = ["--json", arguments[0], *arguments[2:]]
        return super().parse_args(context, arguments)


app = typer.Typer(
    cls=_AfterTheFile,
    invoke_without_command=True,
    no_args_is_help=True,
    help="Shows what a record file holds; exports, imports, rescues.",
)


@dataclass(frozen=True)
class _File:
    """What the command's own arguments say: the file, and whether JSON is wanted."""

    path: str
    json: bool


@app.callback()
def records(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A record file of `tensorsmith tune`.")],
    json: AsJson = False,
) -> None:
    """Shows what a record file holds: without a command, a line for each workload."""
    context.obj = _File(file, json)
    if context.invoked_subcommand is not None:
        return
    with _reading(context) as store:
        found = [recorded.Kept.of(s) for s in store.workloads()]
        show.answer(found, json, _show_summary)


@app.command(cls=Command)
def best(
    context: typer.Context,
    name: Name,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    json: AsJson = False,
) -> None:
    """The fastest program of a workload, for each target and timing; of a model, the best record of every task and its share."""
    json = json or context.obj.json
    with _reading(context) as store:
        with show.apart(json):
            model = recorded.model_of(name, Loading.of(shape, outputs, draw_seed))
        if model is not None:
            show.answer(recorded.best_of_model(store, model), json, _show_models)
        else:
            found = [recorded.best_of(store, s) for s in recorded.summaries_of(store, name)]
            show.answer(found, json, _show_best)


@app.command(cls=Command)
def top(
    context: typer.Context,
    name: Name,
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 10,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    json: AsJson = False,
) -> None:
    """The fastest candidates of a workload, or of each task of a model, one line each."""
    json = json or context.obj.json
    with _reading(context) as store:
        with show.apart(json):
            summaries = recorded.summaries_of(store, name, Loading.of(shape, outputs, draw_seed))
        show.answer([recorded.top_of(store, s, k) for s in summaries], json, _show_top)


@app.command(cls=Command)
def history(
    context: typer.Context,
    name: Name,
    last: Annotated[int, typer.Option(min=0, help="Only the last so many; 0: all.")] = 0,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    json: AsJson = False,
) -> None:
    """Every trial of a workload, or of each task of a model, in the order of their making."""
    json = json or context.obj.json
    with _reading(context) as store:
        with show.apart(json):
            summaries = recorded.summaries_of(store, name, Loading.of(shape, outputs, draw_seed))
        show.answer([recorded.history_of(store, s, last) for s in summaries], json, _show_history)


@app.command(cls=Command)
def failures(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Of one workload, or of a model's tasks; otherwise of all.")] = "",
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    json: AsJson = False,
) -> None:
    """What failed, by cause, the most frequent first, with an example of each."""
    json = json or context.obj.json
    with _reading(context) as store:
        with show.apart(json):
            summaries = recorded.summaries_of(store, name, Loading.of(shape, outputs, draw_seed)) if name else store.workloads()
        found = [recorded.failures_of(store, s) for s in summaries]
        show.answer([f for f in found if f.failures], json, _show_failures)


@app.command(cls=Command)
def why(
    context: typer.Context,
    name: Name,
    cache: Annotated[str, typer.Option(help="warm, streamed, cold or network")] = "warm",
    threads: Annotated[int, typer.Option(min=0, help="Of the timed program; 0: all cores.")] = 0,
    shape: Shapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    json: AsJson = False,
) -> None:
    """Why no record is found for a workload, or for each task of a model, on this machine.

    Shows each part of the key that records are found by, and what the file has instead.
    """
    json = json or context.obj.json
    timing = Timing(cache, threads or native().cores)
    with _reading(context) as store:
        with show.apart(json):
            wanted = recorded.workloads_of(store, name, Loading.of(shape, outputs, draw_seed))
        show.answer([recorded.why_of(store, w, timing) for w in wanted], json, _show_why)


@app.command(cls=Command)
def export(
    context: typer.Context,
    lines: Annotated[str, typer.Argument(metavar="LINES", help="A new file; -: standard output.")],
) -> None:
    """Writes all records as JSON lines, a record each."""
    with Store.open(context.obj.path, read_only=True) as store:
        counts = store.export(sys.stdout if lines == "-" else lines)
    skipped = "".join(f"; {n} x {reason}" for reason, n in counts.skipped.most_common(5))
    show.warn(f"{many(counts.added, 'record')} written, {counts.skipped.total()} skipped{skipped}")


@app.command("import", cls=Command)
def import_(
    context: typer.Context,
    lines: Annotated[str, typer.Argument(metavar="LINES", help="A file of JSON lines; -: standard input.")],
    system: Annotated[
        str,
        typer.Option("--from", help="Whose lines they are: ours, or ansor (TVM's auto_scheduler; .xz and .gz too)."),
    ] = "ours",
    check: Annotated[bool, typer.Option(help="Of another system's: lower each program and compare it with its steps.")] = False,
    json: AsJson = False,
) -> None:
    """Adds the records of JSON lines that are valid and not there yet; makes FILE if need be.

    Programs of another system are kept as hints for searches, their times apart from ours; without FILE they are only looked at.
    """
    if system not in ("ours", "ansor"):
        raise UserError(f"--from is {system!r}; known are ours, ansor")
    if system == "ansor":
        show.answer(_from_ansor(context.obj.path, lines, check), json or context.obj.json, _show_ansor)
        return
    with Store.open(context.obj.path) as store:
        counts = store.import_(sys.stdin if lines == "-" else lines)
    show.answer(counts, json or context.obj.json, _show_counts)


def _from_ansor(path: str, log_path: str, check: bool) -> dict[str, Any]:
    log = ansor.read(log_path)
    found = log.counts()
    if check:
        found["lowered_otherwise"] = log.lowered_otherwise()
    if path != _NO_FILE:
        with Store.open(path) as store:
            counts = store.add_foreign(ansor.foreign(log))
        found |= {"added": counts.added, "present": counts.present}
    return found


def _show_ansor(found: dict[str, Any]) -> None:
    _say(f"{many(found['records'], 'record')}: {found['valid']} ran, {found['failed']} failed")
    _say(f"{found['placed']} of those that ran are candidates of ours, {found['but_for_one_step']} but for one step")
    for title, reasons in (("no candidate", found["not_placed"]), ("failed", found["failures"]), ("no record", found["malformed"])):
        for reason, count in reasons.items():
            _say(f"  {title}: {count} x {reason}")
    if "lowered_otherwise" in found:
        _say(f"{found['lowered_otherwise']} lowered to other loops than their steps describe")
    if "added" in found:
        _say(f"{many(found['added'], 'program')} kept as hints, {found['present']} there already")


@app.command(cls=Command)
def merge(
    context: typer.Context,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another record file, which stays as it is.")],
    json: AsJson = False,
) -> None:
    """Adds the records of another record file that are valid and not there yet; makes FILE if need be."""
    with Store.open(context.obj.path) as store:
        counts = store.merge(other)
    show.answer(counts, json or context.obj.json, _show_counts)


@app.command(cls=Command)
def recover(
    context: typer.Context,
    new: Annotated[str, typer.Argument(metavar="NEW_FILE", help="A new record file.")],
    json: AsJson = False,
) -> None:
    """Saves what can still be read of a damaged FILE to a new one."""
    show.answer(recover_file(context.obj.path, new), json or context.obj.json, _show_counts)


@contextlib.contextmanager
def _reading(context: typer.Context) -> Iterator[Store]:
    """The open file; what had to be left out of the answers is said at the end, on the error stream."""
    with Store.open(context.obj.path, read_only=True) as store:
        yield store
    for reason, count in store.skipped.most_common(5):
        show.warn(f"left out: {count} x {reason}")


# -- showing -------------------------------------------------------------------------------------------------------


def _show_summary(found: Sequence[recorded.Kept]) -> None:
    columns = ("key", "workload", "target", "timing", "trials", "failed", "best", "GFLOP/s", "last trial")
    rows = [
        (k.key, k.workload, k.target, k.timing, k.trials, k.failed, _time(k.best_seconds), _rate(k), _when(k.last_trial))
        for k in found
    ]
    texts = ("key", "workload", "target", "timing", "last trial")
    show.table(columns, rows, texts, ("last trial", "failed", "GFLOP/s", "target", "timing"))


def _show_models(found: Sequence[recorded.ModelRecords]) -> None:
    columns = ("calls", "best", "share", "trials", "GFLOP/s", "speed-up", "task", "shapes", "time is", "candidate", "key")
    for m in found:
        gain = f", {m.default_seconds / m.seconds:.2f}x" if m.seconds else ""
        _say(
            f"{m.model} on {m.target}, {m.timing}: {many(m.trials, 'trial')}; "
            f"{show.time(m.default_seconds)} without a search, {show.time(m.seconds)} now{gain}"
        )
        rows = [
            (
                t.calls, show.time(t.seconds), show.share(t.share), t.trials, show.rate(t.flops, t.seconds),
                f"{t.speed_up:.2f}x" if t.speed_up else "-", t.task, t.shapes, t.source, t.candidate or "-", t.key,
            )
            for t in m.tasks
        ]  # fmt: skip
        texts = ("task", "shapes", "time is", "candidate", "key")
        show.table(columns, rows, texts, ("key", "time is", "candidate", "shapes", "GFLOP/s", "trials"))


def _show_best(found: Sequence[recorded.Best]) -> None:
    for b in found:
        _heading(b.kept)
        if b.best is None:
            _say(b.why)
            continue
        _say(f"{_time(b.best.seconds)} (spread {b.best.spread:.1%}), {show.rate(b.kept.flops, b.best.seconds)} GFLOP/s")
        note = f" ({b.best.note})" if b.best.note else ""
        _say(f"measured {_when(b.best.measured)}{note}, candidate {b.best.candidate.key}")
        _describe(b.best.candidate)


def _show_top(found: Sequence[recorded.Top]) -> None:
    columns = ("place", "time", "to the best", "spread", "GFLOP/s", "candidate", "decisions")
    for t in found:
        _heading(t.kept)
        rows = [
            (
                place, _time(c.seconds), f"{(c.seconds or float('nan')) / (t.candidates[0].seconds or float('nan')):.2f}x",
                f"{c.spread:.1%}", show.rate(t.kept.flops, c.seconds), c.candidate.key, _decisions(c.candidate),
            )
            for place, c in enumerate(t.candidates, 1)
        ]  # fmt: skip
        show.table(columns, rows, ("candidate", "decisions"), ("decisions", "spread", "GFLOP/s"), {"decisions": 60})


def _show_history(found: Sequence[recorded.History]) -> None:
    columns = ("trial", "when", "run", "status", "time", "best so far", "candidate", "cause")
    for h in found:
        _heading(h.kept)
        rows = [
            (
                t.number, _when(t.made), t.run, t.status, ("at least " if t.at_least else "") + _time(t.seconds),
                _time(t.best_seconds), t.candidate, t.cause,
            )
            for t in h.trials
        ]  # fmt: skip
        show.table(columns, rows, ("when", "run", "status", "candidate", "cause"), ("run", "when", "candidate"))


def _show_failures(found: Sequence[recorded.Failures]) -> None:
    for f in found:
        _heading(f.kept)
        for failed in f.failures:
            _say(f"{failed.count} x {failed.status}{': ' + failed.cause if failed.cause else ''}")
            if failed.example is not None:
                _say(f"  for example candidate {failed.example.key}:")
                _describe(failed.example, "    ")
    if not found:
        _say("nothing failed")


def _show_why(found: Sequence[recorded.Why]) -> None:
    columns = ("part of the key", "wanted", "records", "there is instead")
    for w in found:
        show.table(columns, [(p.name, p.value, p.records, p.others) for p in w.parts], (columns[0], columns[1], columns[3]))
        _say(f"no record is found: {w.reason}" if w.reason else f"found: {_time(w.seconds)}, candidate {w.candidate}")


def _show_counts(counts: Counts) -> None:
    _say(counts)


def _say(text: object) -> None:
    show.prose(text)


def _heading(k: recorded.Kept) -> None:
    _say(f"{k.workload} ({k.key}) on {k.target}, {k.timing}: {many(k.trials, 'trial')}")


def _describe(candidate: recorded.Described, indent: str = "") -> None:
    for line in [*candidate.sketch.splitlines(), _decisions(candidate)]:
        _say(indent + line)


def _decisions(candidate: recorded.Described) -> str:
    return " ".join(f"{hole}={value}" for hole, value in candidate.decisions.items())


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:,.1f} us"


def _rate(kept: recorded.Kept) -> str:
    return f"{kept.flops / kept.best_seconds / 1e9:,.1f}" if kept.best_seconds else "-"


def _when(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError, TypeError):
        return "?"
