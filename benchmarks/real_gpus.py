"""How well prior and trees order programs that were measured on real GPUs. Nothing is measured here.

    python benchmarks/real_gpus.py --logs FOLDER [--only v100.conv2d] [--first 64] [--trees] [--json FILE]

The logs are those of TVM's auto_scheduler (`real_gpus_data.py`); their programs are placed in our space by `records.read_ansor`. Of
each device and kind of operator it prints, as means over tasks (the least in brackets): Spearman's rank correlation of expected
and measured times on the first programs of each search, which are drawn at random, and on whole tasks; how near the best of the
programs that the model puts first comes to the best of the log, beside as many drawn at random (the median of 300 draws); and how
many of the fastest twentieth it puts into the slower half.

`--trees`: forests learned from the searches of all other devices ("device left out"), and from those of all other kinds of
operators on all devices ("kind left out").
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from a100 import SETTINGS, at_random, reached, spearman
from real_gpus_data import Array, Search, read
from tensorsmith.learn.models.ensemble import EnsembleModel, EnsembleSettings
from tensorsmith.learn.models.model import Samples

Row = dict[str, float]
LEAST = 10  # programs that a search must have, to say anything
LEARNED = 48  # programs of each search that trees learn from, the first half of them drawn at random


def slow_of_the_fast(seconds: Array, expected: Array) -> float:
    """The share of the fastest twentieth that is expected to be in the slower half."""
    fast = seconds <= np.quantile(seconds, 0.05)
    return float((expected[fast] > np.median(expected)).mean())


def early(seconds: Array, expected: Array) -> Row:
    """On programs drawn at random."""
    order = np.argsort(expected, kind="stable")
    return {"spearman": spearman(seconds, expected), "top5": reached(seconds, order, 5), "random5": at_random(seconds, 5)}


def whole(seconds: Array, expected: Array) -> Row:
    """On all programs of a search."""
    order = np.argsort(expected, kind="stable")
    found = {f"top{n}": reached(seconds, order, n) for n in (1, 10, 64)}
    return {
        "spearman": spearman(seconds, expected), **found, "random1": at_random(seconds, 1), "random10": at_random(seconds, 10),
        "random64": at_random(seconds, 64), "slow_of_fast": slow_of_the_fast(seconds, expected),
    }  # fmt: skip


def tasks(searches: Iterable[Search]) -> list[Search]:
    """The searches of each task as one. Times are taken relative to the best of each source, because machines and clocks differ."""
    found: dict[tuple[str, str, str], list[Search]] = {}
    for s in searches:
        found.setdefault((s.device, s.kind, s.task), []).append(s)
    joined = []
    for (device, kind, task), parts in found.items():
        seconds = np.concatenate([p.seconds for p in parts])
        expected = np.concatenate([p.expected for p in parts])
        rows = [row for p in parts for row in p.rows]
        joined.append(Search(device, kind, task, "", seconds, expected, rows, np.arange(len(seconds))))
    return joined


Opinion = Callable[[Search], Array]  # what seconds a model expects, up to a factor


def compared(searches: Sequence[Search], opinion: Opinion, first: int) -> dict[str, dict[str, Row]]:
    """By search and task: the figures of `early` and `whole`."""
    found: dict[str, dict[str, Row]] = {"early": {}, "whole": {}}
    for s in searches:
        one = s.first(first)
        if s.at_random and len(one.seconds) >= LEAST:
            found["early"][s.name] = early(one.seconds, opinion(one))
    for s in tasks(searches):
        if len(s.seconds) >= LEAST:
            found["whole"][s.name] = whole(s.seconds, opinion(s))
    return found


def learned(searches: Sequence[Search], settings: EnsembleSettings) -> EnsembleModel:
    """Trees that know some programs of each of these searches."""
    samples = Samples()
    for s in searches:
        best = s.seconds.min()
        count = len(s.seconds)
        half = min(LEARNED // 2, count)
        at = np.unique(np.concatenate([np.arange(half), np.linspace(0, count - 1, half).astype(int)]))
        for n in at.tolist():
            samples.add(s.rows[n], best / s.seconds[n], s.name, -np.log2(s.expected[n]))
    model = EnsembleModel(settings)
    model.update(samples)
    return model


def by_trees(model: EnsembleModel) -> Opinion:
    def opinion(s: Search) -> Array:
        base = -np.log2(s.expected)
        kernels = max(len(row) for row in s.rows)
        found = np.empty(len(s.rows))
        for n in range(1, kernels + 1):
            at = np.array([len(row) == n for row in s.rows])
            if at.any():
                found[at] = model.predict(np.stack([row for row, take in zip(s.rows, at) if take]), base[at])
        return -found

    return opinion


def left_out(
    searches: Sequence[Search], which: str, first: int, settings: EnsembleSettings = SETTINGS
) -> dict[str, dict[str, Row]]:
    """Trees on each device, or on each kind of operator, that they have not seen."""
    found: dict[str, dict[str, Row]] = {"early": {}, "whole": {}}
    for value in dict.fromkeys(getattr(s, which) for s in searches):
        known = [s for s in searches if getattr(s, which) != value]
        if not known:
            continue
        model = learned(known, settings)
        if model.ready():
            for part, rows in compared([s for s in searches if getattr(s, which) == value], by_trees(model), first).items():
                found[part] |= rows
    return found


def table(title: str, found: dict[str, dict[str, Row]], searches: Sequence[Search]) -> str:
    """For people: a line for each device and kind of operator."""
    lines = [title, f"{'device and kind':<24}{'first':>6}{'spearman':>17}{'top 5':>15}{'random':>8}  |{'tasks':>6}{'spearman':>17}"
             f"{'top 1':>7}{'top 10':>15}{'random':>8}{'top 64':>8}{'slow of fast':>14}"]  # fmt: skip
    for device, kind in dict.fromkeys((s.device, s.kind) for s in searches):
        start = f"{device} {kind} "
        first = [row for name, row in found["early"].items() if name.startswith(start)]
        all_ = [row for name, row in found["whole"].items() if name.startswith(start)]
        text = f"{device + ' ' + kind:<24}{len(first):>6}"
        text += _both(first, "spearman", 17) + _both(first, "top5", 15) + _mean(first, "random5")
        text += f"  |{len(all_):>6}" + _both(all_, "spearman", 17) + _mean(all_, "top1", 7)
        text += _both(all_, "top10", 15) + _mean(all_, "random10") + _mean(all_, "top64") + _mean(all_, "slow_of_fast", 14)
        lines.append(text)
    return "\n".join(lines)


def _mean(rows: Sequence[Row], name: str, width: int = 8) -> str:
    return f"{np.mean([r[name] for r in rows]):>{width}.3f}" if rows else " " * width


def _both(rows: Sequence[Row], name: str, width: int) -> str:
    values = [r[name] for r in rows]
    return (f"{np.mean(values):.3f} ({min(values):.3f})" if values else "").rjust(width)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", required=True, help="a folder with files DEVICE.KIND.jsonl, packed by xz or gzip or not")
    parser.add_argument("--only", default="", help="how the names of the files to read begin")
    parser.add_argument("--first", type=int, default=64, help="programs of each search that count as drawn at random")
    parser.add_argument("--trees", action="store_true", help="learn trees, too")
    parser.add_argument("--json", help="a file for programs")
    options = parser.parse_args(arguments)
    given = read(options.logs, options.only)
    found = {"prior": compared(given.searches, lambda s: s.expected, options.first)}
    print(table("the prior", found["prior"], given.searches))
    if options.trees:
        for which in ("device", "kind"):
            found[which] = left_out(given.searches, which, options.first)
            print(table(f"\ntrees, {which} left out", found[which], given.searches))
    if given.left_out:
        print("\nleft out:")
        for reason, count in given.left_out.most_common():
            print(f"  {count:>7}  {reason}")
    if options.json:
        Path(options.json).write_text(json.dumps({**found, "left_out": given.left_out}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
