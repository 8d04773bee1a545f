"""Our search judged from outside: Kernel Tuner's simulation mode replays spaces that were measured in full, with our search over
knobs (`knob_search.py`) as a strategy beside its own. Needs `pip install '.[outside]'`; nothing is measured.

    python benchmarks/outside_kernel_tuner.py --caches FOLDER [--evaluations 100] [--repeats 100] [--strategies a,b] [--json FILE]

FOLDER has a folder for each space, with its conditions (`T1.json`) and a cache for each device (`DEVICE.json` or `.json.gz`). It
prints the mean over repeats of the space's best time over the best that was found.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knob_search import Point, search

BUILT_IN = (
    "random_sample", "genetic_algorithm", "simulated_annealing", "greedy_ils", "greedy_mls", "mls", "pso", "diff_evo",
    "firefly_algorithm", "dual_annealing", "basinhopping", "hybrid_vndx", "adaptive_tabu_greywolf",
)  # fmt: skip
OURS = "tensorsmith"


class Space:
    """A cache file and its conditions, unpacked for Kernel Tuner."""

    def __init__(self, cache: Path, folder: Path) -> None:
        data = gzip.decompress(cache.read_bytes()) if cache.suffix == ".gz" else cache.read_bytes()
        self.name = f"{cache.parent.name}/{cache.name.split('.')[0]}"
        self.cache = folder / f"{self.name.replace('/', '-')}.json"
        self.cache.write_bytes(data)
        found = json.loads(data)
        self.kernel, self.size = found["kernel_name"], tuple(found["problem_size"])
        self.parameters: dict[str, list[Any]] = {k: found["tune_params"][k] for k in found["tune_params_keys"]}
        times = [row["time"] for row in found["cache"].values()]
        self.best = min(t for t in times if isinstance(t, (int, float)))
        space = json.loads((cache.parent / "T1.json").read_text())
        self.conditions = [c["Expression"] for c in space["ConfigurationSpace"].get("Conditions", [])]


def spaces(folder: str | Path, unpacked: Path, only: str = "") -> list[Space]:
    """All of a folder whose names begin so."""
    files = sorted(p for p in Path(folder).glob("*/*.json*") if p.name != "T1.json" and "_T4" not in p.name)
    return [s for s in (Space(p, unpacked) for p in files) if s.name.startswith(only)]


class Points:
    """Kernel Tuner's space, as our search wants it."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def drawn(self, count: int) -> list[Point]:
        return [tuple(p) for p in self.given.get_random_sample(min(count, self.given.size))]

    def neighbours(self, point: Point) -> list[Point]:
        return [tuple(p) for p in self.given.get_neighbors(point, neighbor_method="Hamming")]

    def __contains__(self, point: Point) -> bool:
        return bool(self.given.is_param_config_valid(point))


def ours(seed: int) -> Any:
    """Our search as a strategy."""
    from kernel_tuner.strategies.wrapper import OptAlg, OptAlgWrapper

    class Ours(OptAlg):  # type: ignore[misc]
        def __call__(self, func: Any, searchspace: Any) -> None:
            search(Points(searchspace), func, np.random.default_rng(seed))

    return OptAlgWrapper(Ours())


def found(space: Space, strategy: str, evaluations: int, seed: int) -> float:
    """The best time that a strategy finds with so many evaluations."""
    import random

    import kernel_tuner

    random.seed(seed)
    np.random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            space.kernel, f"__global__ void {space.kernel}() {{}}", space.size, [], space.parameters,
            restrictions=space.conditions, lang="CUDA", cache=str(space.cache), simulation_mode=True,
            strategy=ours(seed) if strategy == OURS else strategy, strategy_options={"max_fevals": evaluations},
        )  # fmt: skip
    times = [r["time"] for r in results if isinstance(r["time"], (int, float))]
    return min(times, default=float("inf"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caches", required=True, help="a folder of spaces")
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--strategies", default=",".join((OURS, *BUILT_IN)), help=f"of Kernel Tuner, or {OURS}")
    parser.add_argument("--only", default="", help="how the names of the spaces begin")
    parser.add_argument("--json", help="a file for programs")
    options = parser.parse_args(arguments)
    shown: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for space in spaces(options.caches, Path(folder), options.only):
            rows = shown[space.name] = {}
            for strategy in options.strategies.split(","):
                rows[strategy] = [space.best / found(space, strategy, options.evaluations, n) for n in range(options.repeats)]
                mean, error = np.mean(rows[strategy]), np.std(rows[strategy]) / len(rows[strategy]) ** 0.5
                print(f"{space.name:<28} {strategy:<24} {mean:.3f} +- {error:.3f}, least {min(rows[strategy]):.3f}", flush=True)
    for strategy in options.strategies.split(",") if shown else ():
        print(f"{'mean of all spaces':<28} {strategy:<24} {np.mean([np.mean(rows[strategy]) for rows in shown.values()]):.3f}")
    if options.json:
        Path(options.json).write_text(json.dumps(shown, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
