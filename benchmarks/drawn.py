"""Operators and subgraphs that nobody has looked at, tuned and untuned, against peers.

    python benchmarks/drawn.py --seed N [--count 60] [--trials 64] [--seconds S] [--timing T] [--peers A,B] [--list] [--json FILE]

The cases are drawn with the seed from layers of networks that are in no table of ours (`unseen.py`), and from what is near them:
other batch sizes, other and odd image sizes and lengths, other widths. What equals a case of the catalogue, or a workload that the
packaged cost model learned from, is passed over. Every search starts with an empty database. A seed that is new for every release
keeps default schedules and models from being fitted to what is shown; it is part of the file of results. `--list` shows the cases.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from random import Random

from collect import workloads
from contest import Settings, quiet_machine
from frameworks import FRAMEWORKS
from learning_draw import is_small
from ops import Search, closing, row
from report import Report
from subgraphs import BUILDERS
from tensorsmith.lang.define import Tensor
from tensorsmith.ops import catalogue
from tensorsmith.ops.catalogue import Case
from tensorsmith.targets.target import native
from unseen import NETWORKS, Layer

MOST_FLOPS = 3e9  # of a case: some hundredths of a second
LEARNED_FROM = 320  # workloads of `collect.py` that the packaged model has seen, at most
_BATCHES = (1, 1, 1, 1, 2, 4, 8)
_SCALES = (1.0, 1.0, 6 / 7, 8 / 7, 10 / 7)  # of an image's side: 192, 256 and 320 pixels for 224
_WIDTHS = (1.0, 1.0, 1.0, 0.75, 1.25)
_SHIFTS = (0, 0, 0, -1, 1, 3)  # of a side or a length

#: of each operator: how many sides or lengths its shape begins with, and how many widths follow
_PARTS = {
    "C1D": (1, 2), "C2D": (2, 2), "C3D": (3, 2), "GRP": (2, 2), "DIL": (2, 2), "DEP": (2, 1), "T2D": (2, 2), "ConvLayer": (2, 2),
    "Residual": (2, 2), "DepLayer": (2, 1), "Dense": (1, 2), "TBS": (1, 0), "Attention": (1, 0), "GMM": (2, 1), "softmax": (1, 1),
    "layer_norm": (1, 1),
}  # fmt: skip


def builders() -> dict[str, Callable[..., list[Tensor]]]:
    """Of the catalogue's operators, and of the subgraphs that it does not have."""
    known = {case.operator: case.build for case in reversed(catalogue.everything().values())}
    return known | BUILDERS


def near(layer: Layer, rng: Random) -> tuple[int, ...]:
    """The shape of a case, batch first: the layer's own, or another resolution, length or width."""
    operator, shape = layer
    sides, widths = _PARTS[operator]
    scale, shift, width = rng.choice(_SCALES), rng.choice(_SHIFTS), rng.choice(_WIDTHS)
    least = shape[sides + widths] if operator in ("C1D", "C2D", "C3D", "GRP", "DIL", "DEP", "T2D", "ConvLayer", "DepLayer") else 1
    groups = shape[-1] if operator == "GRP" else 1
    changed = [max(least, round(side * scale) + shift) if side > 1 else side for side in shape[:sides]]
    changed += [_width(channels, width, groups) for channels in shape[sides : sides + widths]]
    batch = rng.choice(_BATCHES)
    if operator in ("softmax", "layer_norm"):  # rows are all that there is
        return (batch * changed[0], *changed[1:])
    return (batch, *changed, *shape[sides + widths :])


def _width(channels: int, factor: float, groups: int) -> int:
    """Few channels are colours or classes and stay."""
    return channels if channels < 8 else max(1, round(channels * factor / groups)) * groups


@functools.cache
def looked_at() -> frozenset[str]:
    """Keys of the workloads that somebody has looked at, or that the packaged model has learned from."""
    cases = [case.workload() for case in catalogue.everything().values()]
    learned = [workload for _, workload in itertools.islice(workloads(0), LEARNED_FROM)]
    return frozenset(workload.canonical_key for workload in (*cases, *learned))


def drawn(seed: int) -> Iterator[Case]:
    """Cases without end, no two alike; the same for the same seed. All networks have had a turn before one has a second."""
    rng, make = Random(seed), builders()
    seen = set(looked_at())
    while True:
        for network in rng.sample(sorted(NETWORKS), len(NETWORKS)):
            operator, _ = layer = rng.choice(NETWORKS[network])
            case = Case("", operator, near(layer, rng), make[operator])
            workload = case.workload()
            if workload.canonical_key in seen or not is_small(workload, MOST_FLOPS):
                continue
            seen.add(workload.canonical_key)
            yield Case(f"{network}: {case.title}", operator, case.shape, case.build)


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 if a row has an error."""
    given = arguments(words)
    cases = list(itertools.islice(drawn(given.seed), given.count))
    if given.list:
        print(*(case.name for case in cases), sep="\n")
        return 0
    settings = Settings(native().cores, given.timing, given.peers)
    section = f"{given.count} cases drawn with seed {given.seed}, {given.trials} trials"
    report = Report()
    report.run["drawn_with_seed"] = given.seed
    report.begin()
    with quiet_machine():
        for case in cases:
            report.add(section, case.name, row(case, Search(given.trials, given.seconds, None), settings))
            report.write(given.json)
    report.print(section)
    for line in closing(report.rows()):
        report.console.print(line, highlight=False)
    return 1 if report.errors else 0


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """Checked: what cannot work fails before anything is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True, help="of the draw; a new one for every release")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seconds", type=float, help="of search per case, at most")
    parser.add_argument("--timing", type=float, default=5.0, help="seconds of timing per case")
    parser.add_argument("--peers", type=lambda text: tuple(filter(None, text.split(","))), default=tuple(FRAMEWORKS))
    parser.add_argument("--list", action="store_true", help="show the cases; nothing is measured")
    parser.add_argument("--json")
    given = parser.parse_args(words)
    for name in given.peers:
        if name not in FRAMEWORKS:
            parser.error(f"there is no peer {name!r}; there are {', '.join(FRAMEWORKS)}")
    if given.count < 1 or given.trials < 1:
        parser.error("--count and --trials are 1 or more")
    return given


if __name__ == "__main__":
    raise SystemExit(main())
