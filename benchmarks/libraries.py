"""Networks as C libraries: whether they give what the Python executable gives, bit by bit, and how fast they are.

    python benchmarks/libraries.py [--models resnet50,mobilenet_v2,minilm,silero_vad] [--seconds 20] [--json FILE]

Every network is compiled with default schedules, exported, built by the system's C compiler, and loaded into this process. The two
are timed side by side, in an order drawn anew each round, each after the threads of the other have gone to sleep
(`tensorsmith.measure.referee`); both are repeated by compiled code, without Python between the calls. A ratio above 1 says that the
library is faster: by the best samples of both, by their medians, and between which quartiles the ratios of the rounds lie. Slots
are disturbed where others wanted the cores meanwhile.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import models
import tensorsmith as ts
from tensorsmith.measure.referee import Comparison, Repeated, compare
from tensorsmith.runtime.executable import Executable
from tensorsmith.targets.target import native

LIBRARY, PYTHON = "library", "python"
_REPEAT = """
#include "net.h"
int repeat(net_t *model, long count, void **a) {
    int code = NET_OK;
    while (count-- > 0 && code == NET_OK) code = net_run(model, ARGUMENTS);
    return code;
}
"""


@dataclass(frozen=True)
class Result:
    """Of one network. The ratios are Python's time over the library's."""

    equal: bool  # all outputs, bit by bit
    ratio: float  # of the best samples
    median_ratio: float
    lower: float  # quartile of the ratios of the rounds
    upper: float
    rounds: int
    disturbed: float  # share of the slots
    needs_others: bool  # libraries but libc and libm
    seconds_exporting: float
    library_bytes: int


class Library:
    """An exported network in this process, on given inputs."""

    def __init__(self, exe: Executable, inputs: Sequence[np.ndarray], folder: Path) -> None:
        begun = time.perf_counter()
        exe.export(folder, name="net")
        self.seconds_exporting = time.perf_counter() - begun
        self.file = folder / "libnet.so"
        found = exe(*inputs)  # arrays as the executable's own, of which only the contents change
        self.outputs = list(found) if isinstance(found, tuple) else [found]
        for array in self.outputs:
            array.reshape(-1).view(np.uint8).fill(0xFF)  # what is not written is noticed
        arrays = [*inputs, *self.outputs]
        (folder / "repeat.c").write_text(_REPEAT.replace("ARGUMENTS", ", ".join(f"a[{n}]" for n in range(len(arrays)))))
        command = ["cc", "-O2", "-shared", "-fPIC", "repeat.c", str(self.file), "-o", "repeat.so", "-Wl,-rpath,$ORIGIN"]
        subprocess.run(command, cwd=folder, check=True)
        self._code = ctypes.CDLL(str(folder / "repeat.so"))
        self._pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        self._model = ctypes.c_void_p()
        self._kept = arrays
        self._check(self._code.net_create(ctypes.byref(self._model), native().cores))

    def repeat(self, count: int) -> None:
        self._check(self._code.repeat(self._model, ctypes.c_long(count), self._pointers))

    def close(self) -> None:
        self._code.net_destroy(self._model)

    def needs_others(self) -> bool:
        listed = subprocess.run(["ldd", str(self.file)], capture_output=True, text=True, check=True).stdout
        return bool(re.search(r"lib(?!c\.|m\.|pthread\.)\w+\.so", listed))

    def _check(self, code: int) -> None:
        if code:
            raise SystemExit(f"the library failed with code {code}")


def measure(exe: Executable, inputs: Sequence[np.ndarray], seconds: float) -> Result:
    """A network as an executable and as a library, on the same inputs."""
    wanted = exe(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    with tempfile.TemporaryDirectory() as place:
        library = Library(exe, inputs, Path(place))
        library.repeat(1)
        equal = all(a.tobytes() == b.tobytes() for a, b in zip(library.outputs, wanted, strict=True))
        ways = {LIBRARY: Repeated(library.repeat), PYTHON: Repeated(exe.prepare(*inputs).repeat)}
        compared = compare(ways, ours=(LIBRARY,), seconds=seconds, rounds=10_000)
        size, needs_others = library.file.stat().st_size, library.needs_others()
        library.close()
    return _result(compared, equal, needs_others, library.seconds_exporting, size)


def _result(compared: Comparison, equal: bool, needs_others: bool, seconds: float, size: int) -> Result:
    ratio, median, quartiles = compared.ratio(LIBRARY), compared.median_ratio(LIBRARY), compared.quartiles(LIBRARY)
    assert ratio is not None and median is not None and quartiles is not None
    rounds = len(compared[LIBRARY].slots)
    return Result(equal, ratio, median, *quartiles, rounds, compared.disturbed, needs_others, seconds, size)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet50,mobilenet_v2,minilm,silero_vad")
    parser.add_argument("--seconds", type=float, default=20.0, help="of timing for each network")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    rows: dict[str, Result] = {}
    for name in given.models.split(","):
        network = models.get(name)
        exe = ts.compile(ts.load(network.path, shapes={n: a.shape for n, a in network.inputs.items()}))
        rows[name] = measure(exe, [np.ascontiguousarray(network.inputs[a.name]) for a in exe.inputs], given.seconds)
    heads = ("network", "equal bit by bit", "speed to Python's", "by medians", "quartiles", "rounds, disturbed", "needs")
    table = Table(*heads, "s to export", "MiB")
    for name, row in rows.items():
        table.add_row(
            name, "yes" if row.equal else "no", f"{row.ratio:.3f}", f"{row.median_ratio:.3f}", f"{row.lower:.3f}-{row.upper:.3f}",
            f"{row.rounds}, {row.disturbed:.0%}", "more than libc, libm" if row.needs_others else "libc, libm",
            f"{row.seconds_exporting:.1f}", f"{row.library_bytes / 2**20:.0f}",
        )  # fmt: skip
    Console().print(table)
    if given.json:
        given.json.write_text(json.dumps({name: asdict(row) for name, row in rows.items()}))
    return 0 if all(row.equal for row in rows.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
