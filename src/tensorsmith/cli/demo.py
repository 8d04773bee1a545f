"""`tensorsmith demo`: a small network tuned for a minute, and the table against ONNX Runtime."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tensorsmith.cli import show, smallnet
from tensorsmith.cli.arrays import inputs_for
from tensorsmith.cli.bench import make_peers, side_by_side
from tensorsmith.cli.computation import load_fixed
from tensorsmith.cli.tasks import show_tasks
from tensorsmith.compile import compile
from tensorsmith.errors import InternalError
from tensorsmith.lang.dtypes import Array
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.load import load as load_executable
from tensorsmith.tune import tune

_MEASURING = 8.0  # seconds of the comparison


def demo(
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to tune.")] = 60.0,
) -> None:
    """Tunes a small network for about a minute, compares it with ONNX Runtime side by side, saves it and loads it again."""
    with tempfile.TemporaryDirectory(prefix="tensorsmith-demo-") as folder:
        path = Path(folder) / "smallnet.onnx"
        smallnet.write(path)
        fine = _demo(path, seconds)
    if not fine:
        raise typer.Exit(1)


def _demo(path: Path, seconds: float) -> bool:
    model = load_fixed(str(path))
    show.say(f"{path.name}: an image classifier of {len(model.source.nodes)} operators, made on the spot. Its tasks:\n")
    show_tasks(model)
    untuned = compile(model)
    inputs = inputs_for(untuned, ())
    show.say(f"\nuntuned: {untuned.benchmark(*inputs.values())}")
    show.say(f"\ntuning for {seconds:.0f} seconds; Ctrl-C ends it early and keeps what was found")
    tuned = tune(model, seconds=seconds, database=path.with_name("tune.db"))
    assert isinstance(tuned, Executable)
    show.say("\nside by side, in turns:")
    fine, _ = side_by_side({"untuned": untuned, "tuned": tuned}, make_peers(["onnxruntime"], str(path), inputs), inputs, _MEASURING)
    _save_and_load(tuned, path.with_name("smallnet.tsm"), inputs)
    return fine


def _save_and_load(executable: Executable, path: Path, inputs: dict[str, Array]) -> None:
    executable.save(path)
    again = load_executable(path)
    for name, array in again.run(inputs).items():
        if not np.array_equal(array, executable.run(inputs)[name]):
            raise InternalError(f"{name} differs after the executable was saved and loaded")
    show.say(
        f"saved to {path.name} ({path.stat().st_size / 2**20:.1f} MiB), loaded without the compiler: the same outputs, bit by bit"
    )
