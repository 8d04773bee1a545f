"""`tensorsmith records FILE ...`: what a record file holds, why a record is missing, export, import, rescue.

The file may come from a stranger: its texts are shown without markup and without control characters.
"""

from __future__ import annotations

import datetime
import sys
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tensorsmith.cli.computation import load
from tensorsmith.cli.show import console, plain
from tensorsmith.errors import UserError
from tensorsmith.lang.flops import flops
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Record, Store, Summary, Timing
from tensorsmith.records import recover as recover_file
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import native

_SHORTEST_KEY = 4  # characters of a workload's key that may stand for it

Name = Annotated[
    str, typer.Argument(metavar="WORKLOAD", help="its key in the file (or the beginning), a catalogue name, a .py file")
]

app = typer.Typer(
    invoke_without_command=True, no_args_is_help=True, help="Shows what a record file holds; exports, imports, rescues."
)


@app.callback()
def records(context: typer.Context, file: Annotated[str, typer.Argument(metavar="FILE", help="a record file")]) -> None:
    """Shows what a record file holds: without a command, a line for each workload."""
    context.obj = file
    if context.invoked_subcommand is not None:
        return
    with Store.open(file, read_only=True) as store:
        table = Table("key", "workload", "target", "timing", "trials", "failed", "best", "GFLOP/s", "last trial")
        for s in store.workloads():
            rate = _rate(s.workload, s.best) if s.best else "-"
            cells = [s.workload.key, s.title, s.target.key, s.timing, s.trials, s.failed, _time(s.best), rate, _when(s.last)]
            table.add_row(*map(_plain, cells))
        _show(table)
        _complain(store)


@app.command()
def best(context: typer.Context, workload: Name) -> None:
    """The fastest program of a workload, for each target and timing."""
    with Store.open(context.obj, read_only=True) as store:
        for summary in _summaries(store, workload):
            _heading(summary)
            record = store.best(summary.workload, summary.target, summary.timing)
            if record is None:
                _say(store.why_missing(summary.workload, summary.target, summary.timing))
                continue
            t = record.trial
            _say(f"{_time(t.seconds)} (spread {t.spread:.1%}), {_rate(record.workload, t.seconds)} GFLOP/s")
            _say(f"measured {_when(record.created)}, candidate {record.key}")
            _describe(record.candidate)
        _complain(store)


@app.command()
def top(context: typer.Context, workload: Name, k: Annotated[int, typer.Option("-k", min=1, help="how many")] = 10) -> None:
    """The fastest candidates of a workload, one line each."""
    with Store.open(context.obj, read_only=True) as store:
        for summary in _summaries(store, workload):
            _heading(summary)
            table = Table("place", "time", "to the best", "spread", "GFLOP/s", "candidate", "decisions")
            found = store.top(summary.workload, summary.target, summary.timing, k)
            for place, record in enumerate(found, 1):
                ratio = f"{_seconds(record) / _seconds(found[0]):.2f}x"
                rate = _rate(record.workload, record.seconds)
                cells = [place, _time(record.seconds), ratio, f"{record.trial.spread:.1%}", rate, record.key]
                table.add_row(*map(_plain, [*cells, _decisions(record.candidate)]))
            _show(table)
        _complain(store)


@app.command()
def history(
    context: typer.Context, workload: Name, last: Annotated[int, typer.Option(min=0, help="only the last so many; 0: all")] = 0
) -> None:
    """Every trial of a workload in the order of their making."""
    with Store.open(context.obj, read_only=True) as store:
        for summary in _summaries(store, workload):
            _heading(summary)
            table = Table("trial", "when", "run", "status", "time", "best so far", "candidate", "cause")
            best_so_far: float | None = None
            rows = []
            for number, record in enumerate(store.history(summary.workload, summary.target, summary.timing), 1):
                t = record.trial
                if t.seconds is not None and not t.at_least:
                    best_so_far = min(t.seconds, best_so_far or t.seconds)
                time = ("at least " if t.at_least else "") + _time(t.seconds)
                cells = [number, _when(record.created), record.run, t.status.value, time, _time(best_so_far), record.key, t.cause]
                rows.append(cells)
            for cells in rows[-last:]:
                table.add_row(*map(_plain, cells))
            _show(table)
        _complain(store)


@app.command()
def failures(
    context: typer.Context,
    workload: Annotated[str, typer.Argument(metavar="[WORKLOAD]", help="of one workload; otherwise of all")] = "",
) -> None:
    """What failed, by cause, the most frequent first, with an example of each."""
    with Store.open(context.obj, read_only=True) as store:
        summaries = _summaries(store, workload) if workload else store.workloads()
        for summary in summaries:
            found = store.failures(summary.workload, summary.target, summary.timing)
            if not found:
                continue
            _heading(summary)
            for (status, cause), (count, example) in found.items():
                _say(f"{count} x {status.value}{': ' + cause if cause else ''}")
                if example is not None:
                    _say(f"  for example candidate {example.key}:")
                    _describe(example.candidate, "    ")
        if not any(s.failed for s in summaries):
            _say("nothing failed")
        _complain(store)


@app.command()
def why(
    context: typer.Context,
    workload: Name,
    cache: Annotated[str, typer.Option(help="warm, streamed, cold or network")] = "warm",
    threads: Annotated[int, typer.Option(help="of the timed program; 0: all cores")] = 0,
) -> None:
    """Why no record is found for a workload on this machine: each part of the key, and what the file has instead."""
    target = native()
    timing = Timing(cache, threads or target.cores)
    with Store.open(context.obj, read_only=True) as store:
        wanted = _workload(store, workload)
        table = Table("part of the key", "wanted", "records", "there is instead")
        for part in store.key_parts(wanted, target, timing):
            table.add_row(*map(_plain, [part.name, part.value, part.records, part.others]))
        _show(table)
        found = store.best(wanted, target, timing)
        reason = store.why_missing(wanted, target, timing)
        _say(f"no record is found: {reason}" if found is None else f"found: {_time(found.seconds)}, candidate {found.key}")
        _complain(store)


@app.command()
def export(context: typer.Context, lines: Annotated[str, typer.Argument(help="a new file; -: standard output")]) -> None:
    """Writes all records as JSON lines."""
    with Store.open(context.obj, read_only=True) as store:
        counts = store.export(sys.stdout if lines == "-" else lines)
    skipped = "".join(f"; {n} x {reason}" for reason, n in counts.skipped.most_common(5))
    _warn(f"{counts.added} records written, {counts.skipped.total()} skipped{skipped}")


@app.command("import")
def import_(context: typer.Context, lines: Annotated[str, typer.Argument(help="a file of JSON lines; -: standard input")]) -> None:
    """Adds the records of JSON lines that are valid and not there yet; makes FILE if need be."""
    with Store.open(context.obj) as store:
        _say(str(store.import_(sys.stdin if lines == "-" else lines)))


@app.command()
def merge(context: typer.Context, other: Annotated[str, typer.Argument(help="another record file, which stays as it is")]) -> None:
    """Adds the records of another record file that are valid and not there yet; makes FILE if need be."""
    with Store.open(context.obj) as store:
        _say(str(store.merge(other)))


@app.command()
def recover(context: typer.Context, new: Annotated[str, typer.Argument(help="a new record file")]) -> None:
    """Saves what can still be read of a damaged FILE to a new one."""
    _say(str(recover_file(context.obj, new)))


def _workload(store: Store, text: str) -> Workload:
    """The workload of the file whose key begins like that, or the one of that name."""
    if len(text) >= _SHORTEST_KEY:
        found = {s.workload.key: s.workload for s in store.workloads() if s.workload.key.startswith(text)}
        if len(found) > 1:
            raise UserError(f"{text} is the beginning of {len(found)} keys in {store.path}: {', '.join(found)}")
        if found:
            return next(iter(found.values()))
    try:
        return load(text)
    except UserError as problem:
        raise UserError(f"no workload in {store.path} has a key that begins with {text!r}; {problem}") from problem


def _summaries(store: Store, text: str) -> list[Summary]:
    """What the file has of a workload, for each target and timing. Raises `UserError` if it has nothing."""
    wanted = _workload(store, text)
    found = [s for s in store.workloads() if s.workload.canonical_key == wanted.canonical_key]
    if not found:
        target = native()
        why = store.why_missing(wanted, target, Timing("warm", target.cores))
        raise UserError(f"{store.path} has no record of {text}: {why}")
    return found


# -- showing -------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Text:
    return Text(_line(value))


def _line(value: Any) -> str:
    """What a file of records says, on one line: it cannot pass for a line of ours."""
    return plain(value).replace("\n", " ")


def _show(table: Table) -> None:
    console().print(table)


def _say(text: str) -> None:
    print(_line(text))


def _warn(text: str) -> None:
    print(_line(text), file=sys.stderr)


def _heading(summary: Summary) -> None:
    _say(f"{summary.title} ({summary.workload.key}) on {summary.target.key}, {summary.timing}: {summary.trials} trials")


def _describe(candidate: Candidate, indent: str = "") -> None:
    for line in [*candidate.sketch.brief().splitlines(), _decisions(candidate)]:
        _say(indent + line)


def _decisions(candidate: Candidate) -> str:
    return " ".join(f"{hole}={value}" for hole, value in candidate.decisions.items())


def _complain(store: Store) -> None:
    """Say what was left out of the answers."""
    for reason, count in store.skipped.most_common(5):
        _warn(f"left out: {count} x {reason}")


def _seconds(record: Record) -> float:
    return record.seconds or float("nan")


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:,.1f} us"


def _rate(workload: Workload, seconds: float | None) -> str:
    return f"{flops(workload) / seconds / 1e9:,.1f}" if seconds else "-"


def _when(seconds: Any) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError, TypeError):
        return "?"
