"""Networks as C libraries: whether they give what the Python executable gives, bit by bit, and how fast they are.

    python benchmarks/libraries.py [--models resnet50,mobilenet_v2,minilm,silero_vad] [--rounds 5] [--repeats 30] [--json FILE]

Every network is compiled with default schedules, exported, built by the system's C compiler, and its example run in a process of
its own. The two are timed in turns, in an order drawn anew each round; a ratio above 1 says that the library is faster. The Python
executable is called from compiled code (`prepare().repeat`), so that both sides are timed without Python.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import models
import tensorsmith as ts
from tensorsmith.targets.target import native


def measure(name: str, rounds: int, repeats: int) -> dict[str, float | bool]:
    network = models.get(name)
    exe = ts.compile(ts.load(network.path, shapes={n: a.shape for n, a in network.inputs.items()}))
    inputs = [np.ascontiguousarray(network.inputs[a.name]) for a in exe.inputs]
    wanted = exe(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        begun = time.perf_counter()
        exe.export(folder, name="net")
        seconds = time.perf_counter() - begun
        subprocess.run(["cc", "-O2", "main.c", "libnet.a", "-o", "main", "-lm", "-lpthread"], cwd=folder, check=True)
        for n, array in enumerate(inputs):
            array.tofile(folder / f"in{n}")
        words = [*(f"in{n}" for n in range(len(inputs))), *(f"out{n}" for n in range(len(wanted)))]

        def in_c() -> float:
            command = ["./main", str(native().cores), str(repeats), *words]
            said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
            found = re.search(r"([\d.]+) s", said)
            assert found, said
            return float(found[1])

        prepared = exe.prepare(*inputs)

        def in_python() -> float:
            return min(prepared.seconds(1) for _ in range(repeats + 1))

        ratios = []
        for _ in range(rounds):
            took = {}
            for way in random.sample([in_c, in_python], 2):
                took[way] = way()
            ratios.append(took[in_python] / took[in_c])
        got = [np.fromfile(folder / f"out{n}", a.numpy_dtype).reshape(a.shape) for n, a in enumerate(exe.outputs)]
        needs = subprocess.run(["ldd", "libnet.so"], cwd=folder, capture_output=True, text=True, check=True).stdout
        library = (folder / "libnet.so").stat().st_size
    return {
        "equal": all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True)),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "seconds_exporting": seconds,
        "library_bytes": library,
        "needs_others": bool(re.search(r"lib(?!c\.|m\.|pthread\.)\w+\.so", needs.replace("linux-vdso", ""))),
    }


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet50,mobilenet_v2,minilm,silero_vad")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json")
    given = parser.parse_args(words)
    rows = {name: measure(name, given.rounds, given.repeats) for name in given.models.split(",")}
    heads = (
        "network",
        "equal bit by bit",
        "speed to Python's",
        "of the rounds",
        "needs more than libc, libm",
        "s to export",
        "MiB",
    )
    table = Table(*heads)
    for name, row in rows.items():
        spread = f"{row['least']:.3f}-{row['most']:.3f}"
        yes = {True: "yes", False: "no"}
        table.add_row(
            name, yes[bool(row["equal"])], f"{row['ratio']:.3f}", spread, yes[bool(row["needs_others"])],
            f"{row['seconds_exporting']:.1f}", f"{row['library_bytes'] / 2**20:.0f}",
        )  # fmt: skip
    Console().print(table)
    if given.json:
        Path(given.json).write_text(json.dumps(rows))
    return 0 if all(row["equal"] for row in rows.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
