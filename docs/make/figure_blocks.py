"""The blocks of figures that pages have between markers: which files each is made from, and its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import contest_blocks as contests
import other_blocks as others
from figure_texts import table
from standing import COLUMNS, cells, standing

Result = Mapping[str, Any]
Found = Mapping[str, Result]  # the files that there are, by table

MISSING = "*Not measured yet on this version; `make figures` fills it.*"


@dataclass(frozen=True)
class Block:
    """`files` are the tables it is made from; `text` gets those that there are."""

    files: tuple[str, ...]
    text: Callable[[Found], str]


def of_one(text: Callable[[Result], str], name: str) -> Block:
    return Block((name,), lambda found: text(found[name]))


SUMMARY = {
    "drawn": "{n} operators and subgraphs drawn from networks that are in no table here, seed {seed} "
    "([drawn](docs/benchmarks.md#drawn))",
    "operators-b1": "the {n} cases of the Ansor paper, batch 1 ([operators](docs/benchmarks.md#batch-1)); the packaged cost model "
    "has learned from them",
    "operators-b16": "the same {n} at batch 16 ([operators](docs/benchmarks.md#batch-16)); the packaged cost model has not",
    "networks": "the {n} networks of the paper, batch 1 ([networks](docs/networks.md#figures))",
    "int8-networks": "{n} int8 networks, against ONNX Runtime and OpenVINO ([small types](docs/small-types.md#int8-networks))",
}


def summary(found: Found) -> str:
    """README's table: a line for tuned and one for untuned of each set of cases, drawn ones first."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for name, what in SUMMARY.items():
        if name not in found:
            lines.append((" ".join(what.format(n="", seed="").split()), MISSING, *("",) * (len(COLUMNS) - 2)))
            continue
        rows = found[name]["cases"]
        title = what.format(n=len(rows), seed=seed_of(found[name]))
        stood = {"tuned": standing(rows, True), "untuned": standing(rows, False)}
        there = {kind: one for kind, one in stood.items() if one is not None}
        lines += [cells(f"**{kind}**" if n else f"{title}: **{kind}**", one) for n, (kind, one) in enumerate(there.items())]
    return table(lines)


def seed_of(result: Result) -> str:
    """Of a draw: it is in the command."""
    words = result["command"].split()
    return words[words.index("--seed") + 1] if "--seed" in words else ""


BLOCKS: dict[str, Block] = {
    "summary": Block(tuple(SUMMARY), summary),
    "drawn": of_one(contests.contest, "drawn"),
    "operators-b1": of_one(contests.contest, "operators-b1"),
    "operators-b16": of_one(contests.contest, "operators-b16"),
    "networks": of_one(contests.networks, "networks"),
    "torch": of_one(contests.torch_modules, "torch"),
    "int8-layers": of_one(contests.int8, "int8-layers"),
    "int8-networks": of_one(contests.int8, "int8-networks"),
    "int8-avx2": Block(("int8-avx2", "int8-avx2-small"), contests.int8_without_dots),
    "outside": of_one(contests.outside, "outside"),
    "weights": of_one(
        others.steps(
            "weights",
            {
                "us, best": ("seconds", "{:.0f}", 1e6),
                "us, median": ("median", "{:.0f}", 1e6),
                "times f32": ("times_f32", "{:.2f}", 1),
                "by medians": ("by_medians", "{:.2f}", 1),
                "off by (RMS)": ("error", "{:.2%}", 1),
            },
        ),
        "weights",
    ),
    "gpt2": of_one(
        others.steps(
            "steps",
            {
                "ms, best": ("seconds", "{:.2f}", 1e3),
                "ms, median": ("median", "{:.2f}", 1e3),
                "times onnxruntime": ("times_onnxruntime", "{:.2f}", 1),
                "first score off by": ("error", "{:.2%}", 1),
                "same tokens": ("same_tokens", "{:.0f}", 1),
            },
        ),
        "gpt2",
    ),
    "bf16": of_one(others.bf16, "bf16"),
    "call-overhead": of_one(others.calls, "call-overhead"),
    "compile-times": of_one(others.compile_times, "compile-times"),
    "bounds": of_one(others.bounds, "bounds"),
    "no-trial": of_one(others.no_trial, "no-trial"),
    "policies": of_one(others.policies, "policies"),
    "parts": of_one(others.policies, "parts"),
    "paper": of_one(others.paper, "paper"),
}
