"""`tensorsmith demo`: a small network tuned for a minute, and the table against ONNX Runtime."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tensorsmith.cli import show, smallnet
from tensorsmith.cli.arrays import inputs_for
from tensorsmith.cli.bench import Notes, Race, make_peers, show_race, side_by_side
from tensorsmith.cli.computation import load_fixed
from tensorsmith.cli.options import AsJson
from tensorsmith.cli.tasks import show_tasks, tasks_of
from tensorsmith.compile import compile
from tensorsmith.errors import InternalError
from tensorsmith.lang.dtypes import Array
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.load import load as load_executable
from tensorsmith.tune import tune

_MEASURING = 8.0  # seconds of the comparison


@dataclass(frozen=True)
class Shown:
    """How the network did, untuned, tuned and in ONNX Runtime. `file_bytes` is the size of the saved executable."""

    race: Race
    file_bytes: int
    notes: tuple[str, ...]


def demo(
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to tune.")] = 60.0,
    json: AsJson = False,
) -> None:
    """Tunes a small network for about a minute, compares it with ONNX Runtime side by side, saves it and loads it again.

    Exits with 1 if outputs differ by more than rounding.
    """
    with show.apart(json), tempfile.TemporaryDirectory(prefix="tensorsmith-demo-") as folder:
        path = Path(folder) / "smallnet.onnx"
        smallnet.write(path)
        found = _demo(path, seconds)
    show.answer(found, json, lambda found: None)  # people have seen it come
    if not found.race.fine:
        raise typer.Exit(1)


def _demo(path: Path, seconds: float) -> Shown:
    model, notes = load_fixed(str(path)), Notes()
    show.say(f"{path.name}: an image classifier of {len(model.source.nodes)} operators, made on the spot. Its tasks:\n")
    show_tasks(tasks_of(model))
    untuned = compile(model)
    inputs = inputs_for(untuned, ())
    show.say(f"\nuntuned: {untuned.benchmark(*inputs.values())}")
    show.say(f"\ntuning for {seconds:.0f} seconds; Ctrl-C ends it early and keeps what was found")
    tuned = tune(model, seconds=seconds, database=path.with_name("tune.db"))
    assert isinstance(tuned, Executable)
    show.say("\nside by side, in turns:")
    others = make_peers(["onnxruntime"], str(path), inputs, notes, tuned.threads)
    race = side_by_side({"untuned": untuned, "tuned": tuned}, others, inputs, _MEASURING)
    show_race(race)
    size = _save_and_load(tuned, path.with_name("smallnet.tsm"), inputs)
    return Shown(race, size, tuple(notes.found))


def _save_and_load(executable: Executable, path: Path, inputs: dict[str, Array]) -> int:
    """How large the file is."""
    executable.save(path)
    again = load_executable(path)
    for name, array in again.run(inputs).items():
        if not np.array_equal(array, executable.run(inputs)[name]):
            raise InternalError(f"{name} differs after the executable was saved and loaded")
    size = path.stat().st_size
    show.say(f"saved to {path.name} ({size / 2**20:.1f} MiB), loaded without the compiler: the same outputs, bit by bit")
    return size
