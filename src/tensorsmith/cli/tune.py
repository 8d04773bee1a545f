"""`tensorsmith tune`: search for fast programs of a workload, or of every task of one or several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from tensorsmith.cli import show
from tensorsmith.cli.arrays import check_writable
from tensorsmith.cli.compile import Saved, save, show_saved
from tensorsmith.cli.computation import EXECUTABLE, Loading, is_model, load_any, parse_shapes
from tensorsmith.cli.executables import Kernels
from tensorsmith.cli.options import AsJson, DrawSeed, OpenShapes, Outputs, Runner, TargetName, Threads, Weights
from tensorsmith.cli.recorded import ModelRecords
from tensorsmith.cli.verbose import logged
from tensorsmith.errors import UserError
from tensorsmith.frontends.load import open_names
from tensorsmith.graph.model import Model
from tensorsmith.graph.open_model import OpenModel
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Store
from tensorsmith.report.collect import standing
from tensorsmith.runtime.device import device_of
from tensorsmith.runtime.executable import Benchmark, Executable
from tensorsmith.runtime.variants.executable import OpenExecutable
from tensorsmith.show.line import many
from tensorsmith.targets.target import Target
from tensorsmith.tune import tune as search
from tensorsmith.tuning.budget import duration

_NAMED = "the whole program, alone, without a call from Python: "  # not the sum of its kernels, nor their times in a final
_Computation = Workload | Model | OpenModel


@dataclass(frozen=True)
class TunedVariant:
    """What became of a model at one of its named sizes, as in `Tuned`."""

    model: str
    sizes: Mapping[str, int]
    kernels: Kernels
    time: Benchmark | None
    records: tuple[ModelRecords, ...]


@dataclass(frozen=True)
class Tuned:
    """What became of a workload or a model. `time` is that of a call, measured at the end, in seconds.

    A model of open dimensions has `variants`, one for each named size; then there is no one time, `kernels` are those of all of
    them, and the records are with the variants.
    """

    name: str  # as it was given
    model: str | None  # its own name; None: it is a workload
    kernels: Kernels
    time: Benchmark | None
    saved: Saved | None  # None: without -o
    program: str | None  # the loops of a workload
    records: tuple[ModelRecords, ...]  # the best records of a model's tasks on this machine, for each way of timing
    variants: tuple[TunedVariant, ...] = ()


def tune(
    computations: Annotated[
        list[str],
        typer.Argument(
            metavar="COMPUTATION",
            help="A model (MODEL.onnx, or FILE.py:FUNCTION, a function that gives a PyTorch module and its example inputs) or "
            "several that share the budget; or a workload of the catalogue (C2D-3-b1), or a Python file with `tensors = [...]`.",
        ),
    ],
    trials: Annotated[
        int | None,
        typer.Option(help="Candidates to measure in this run, over all tasks of all models.", show_default="as --effort quick"),
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
    db: Annotated[
        str, typer.Option(metavar="FILE", help="File that keeps every measurement; a run continues from what is there.")
    ] = "tune.db",
    seed: Annotated[int, typer.Option(help="Of the search: same seed and same times give the same candidates.")] = 0,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who searches: tensorsmith, ansor, autotvm, flextensor, halide, metaschedule, random and their variants, "
            "or one of your own (module:Name, file.py:Name).",
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
            help="The cost model: trees, mlp, halide, prior, random, the file of a saved one, or one of your own.",
            show_default="that of the policy",
        ),
    ] = None,
    formulations: Annotated[
        str | None,
        typer.Option(
            metavar="WHICH",
            help="all, or direct: compute as it is written, without Winograd's convolutions, whose weights take more memory.",
            show_default="those of the policy: all, of other systems' direct",
        ),
    ] = None,
    policy_only: Annotated[
        bool,
        typer.Option(
            "--policy-only",
            help="Answer with the best that the policy itself found in this run, also where the default schedule is faster.",
        ),
    ] = False,
    target: TargetName = None,
    runner: Runner = None,
    threads: Threads = None,
    early_stop: Annotated[
        bool, typer.Option("--early-stop/--no-early-stop", help="End when the best is within 3 % of what this machine allows.")
    ] = True,
    weights: Weights = None,
    cold: Annotated[bool, typer.Option("--cold", help="Measure runs that find none of their arrays in the caches.")] = False,
    shape: OpenShapes = None,
    outputs: Outputs = None,
    draw_seed: DrawSeed = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"Executable to write (model{EXECUTABLE}): one for each model, in their order, or a folder for all of them.",
        ),
    ] = None,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            help="Say at the end where the time went, and log what the run does; -vv: every step.",
            show_default=False,
        ),
    ] = 0,
    json: AsJson = False,
) -> None:
    """Searches for fast programs and keeps every measurement. Shows the loops of a workload, or a line for each task of a model.

    Several models are tuned together: a task that they share is tuned once, and time and trials go where they shorten the sum of
    the models' times most. A --shape goes to every model that has an input or a dimension of that name.

    Ctrl-C ends the run, keeps what is measured and shows the best so far; pressed twice, it ends at once.
    """
    options = {
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
        "fallback": not policy_only,
        "target": target,
        "runner": "local" if not runner else runner[0] if len(runner) == 1 else runner,
        "early_stop": early_stop,
        "weights": weights,
        "threads": threads,
        "verbose": bool(verbose),
    }
    with show.apart(json):
        loaded = _load(computations, Loading.of(shape, outputs, draw_seed))
        files = _files(computations, loaded, output or ())
        with logged(verbose):
            found = _search(loaded, options)
        saved = [None if file is None else save(executable, file) for executable, file in zip(found, files)]
        of_records = db if json else None
        tuned = [_tuned(*one, of_records) for one in zip(computations, loaded, found, saved)]
    show.answer(tuned, json, _show)


def _tuned(name: str, what: _Computation, executable: Executable | OpenExecutable, saved: Saved | None, db: str | None) -> Tuned:
    """The answer, with the records of a file if one is given."""
    variants: tuple[TunedVariant, ...] = ()
    if isinstance(executable, OpenExecutable):
        assert isinstance(what, OpenModel)
        variants = tuple(
            TunedVariant(
                model=v.executable.name,
                sizes=v.sizes,
                kernels=Kernels.of(v.executable),
                time=_time(v.executable),
                records=_records(what.model(v.key), db, v.executable.network.target),
            )
            for v in executable.variants
        )
    return Tuned(
        name=name,
        model=None if isinstance(what, Workload) else what.name,
        kernels=Kernels.of(executable),
        time=_time(executable) if isinstance(executable, Executable) else None,
        saved=saved,
        program=executable.program if isinstance(what, Workload) and isinstance(executable, Executable) else None,
        records=_records(what, db, executable.network.target)
        if isinstance(what, Model) and isinstance(executable, Executable)
        else (),
        variants=variants,
    )


def _load(names: Sequence[str], given: Loading) -> list[_Computation]:
    """What is to be tuned. Of several models each gets those of the shapes that it has a name for."""
    if len(names) == 1:
        return [load_any(names[0], given)]
    if given.outputs:
        raise UserError(f"--outputs {','.join(given.outputs)} is for one model; tune the models one by one")
    shapes = given.shapes
    if len(set(names)) < len(names):
        raise UserError(f"{next(n for n in names if names.count(n) > 1)} is given twice")
    parse_shapes(shapes)  # what is no shape is said as such
    fitting = {name: _fitting(name, shapes) for name in names}
    stray = [text for text in shapes if not any(text in texts for texts in fitting.values())]
    if stray:
        raise UserError(f"--shape {stray[0]}: none of the models has an input or a dimension {stray[0].rpartition('=')[0]!r}")
    loaded = [load_any(name, Loading(tuple(fitting[name]), seed=given.seed if is_model(name) else None)) for name in names]
    for name, what in zip(names, loaded):
        if isinstance(what, OpenModel):
            one = f"give one size, --shape {what.symbols[0]}=8, or " if is_model(name) else ""  # shapes go to files alone
            raise UserError(f"{name} has open dimensions ({', '.join(what.symbols)}): {one}tune it by itself")
        if not isinstance(what, Model):
            raise UserError(f"{name} is a workload: several computations can be tuned together if all of them are models")
    return loaded


def _fitting(name: str, shapes: Sequence[str]) -> list[str]:
    """The shapes that a model has a name for; those of a PyTorch module are fixed by its example inputs."""
    if not shapes or not is_model(name) or not Path(name).is_file():
        return []
    known = open_names(name)
    return [text for text in shapes if text.rpartition("=")[0] in known]


def _files(names: Sequence[str], loaded: Sequence[_Computation], outputs: Sequence[str]) -> list[str | None]:
    """Where each executable is to be written, if at all; that it can be is checked before the search."""
    if not outputs:
        return [None] * len(names)
    if isinstance(loaded[0], Workload):
        raise UserError(f"-o {outputs[0]}: only a model can be written; `kernel.bind(...).save(path)` does it for a workload")
    if len(outputs) == 1 and (Path(outputs[0]).is_dir() or (len(names) > 1 and outputs[0].endswith("/"))):
        files = [str(Path(outputs[0]) / f"{_stem(name)}{EXECUTABLE}") for name in names]
    else:
        files = list(outputs)
    if len(files) != len(names):
        raise UserError(f"-o: {len(outputs)} given for {many(len(names), 'model')}; give one for each, in their order, or a folder")
    if len(set(files)) < len(files):
        twice = next(f for f in files if files.count(f) > 1)
        raise UserError(f"-o: two models would be written to {twice}; give one file for each, in the order of the models")
    for file in files:
        check_writable(file)
    return list(files)


def _stem(name: str) -> str:
    """`model` of `folder/model.onnx`, `make` of `file.py:make`."""
    return Path(name.rpartition(":")[2]).stem


def _search(loaded: Sequence[_Computation], options: dict[str, Any]) -> Sequence[Executable | OpenExecutable]:
    models = [what for what in loaded if isinstance(what, Model)]
    if len(models) > 1:
        return search(models, **options)
    found = search(loaded[0], **options)
    assert isinstance(found, (Executable, OpenExecutable))
    return [found]


def _time(executable: Executable) -> Benchmark | None:
    """What a call takes here; None if it is for another machine."""
    target = executable.network.target
    return executable.benchmark() if device_of(target.kind).why_not(target) is None else None


def _records(model: Model, db: str | None, target: Target) -> tuple[ModelRecords, ...]:
    """What the record file knows now of a model on a machine."""
    if db is None or not Path(db).exists():
        return ()
    with Store.open(db, read_only=True) as store:
        return tuple(ModelRecords.of(model, s) for s in standing(store, model) if s.target == target.key)


def _show(found: Sequence[Tuned]) -> None:
    for t in found:
        if t.saved is not None:
            show_saved(t.saved)
        elif t.model is not None:
            show.say(f"{t.model}: {t.kernels}")
        else:
            show.say(t.program)
        for v in t.variants:
            facts = [str(fact) for fact in (None if t.saved else v.kernels, v.time) if fact is not None]
            show.say(f"{v.model}: {'; '.join(facts)}")
        if t.time is not None:
            show.say(f"{t.model}: {_NAMED}{t.time}" if len(found) > 1 else f"{_NAMED}{t.time}")
