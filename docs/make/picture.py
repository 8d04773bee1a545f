"""The picture of README and docs: how much faster than the best peer, operator by operator, from the file of results of the paper's
operators at batch 1. `docs/make/figures.py` writes it.

A bar is the geometric mean by best samples, the tick on it the one by medians. Kinds whose cases are mostly shorter than 20 us say
so: there the cost of a call is most of what is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from figure_texts import mean
from standing import is_small, name_of, ratio

DOCS = Path(__file__).parents[1]
PICTURE = DOCS / "images" / "operators.svg"
TABLE = "operators-b1"

NAMES = {
    "C1D": "convolution, 1D",
    "C2D": "convolution, 2D",
    "C3D": "convolution, 3D",
    "GMM": "matrix product",
    "GRP": "grouped convolution",
    "DIL": "dilated convolution",
    "DEP": "depthwise convolution",
    "T2D": "transposed convolution",
    "CAP": "capsule convolution",
    "NRM": "matrix norm",
    "ConvLayer": "convolution, batch norm, ReLU",
    "TBS": "attention scores, softmax",
}

TITLE = "Speed relative to the best of PyTorch, torch.compile, ONNX Runtime, OpenVINO"
WIDTH, ROW, TOP, LEFT, RIGHT = 760, 24, 56, 240, 170  # pixels

Kind = tuple[float, float, bool]  # by best samples, by medians, whether most cases are small


def kinds(cases: Mapping[str, Mapping[str, Any]]) -> dict[str, Kind]:
    """Of each kind of operator, tuned."""
    found: dict[str, Kind] = {}
    for kind in dict.fromkeys(row["operator"] for row in cases.values() if "operator" in row):
        own = [row for row in cases.values() if row.get("operator") == kind]
        by = [[r for row in own if (r := ratio(row, name_of(row, True), key))] for key in ("seconds", "median_seconds")]
        if by[0] and by[1]:
            found[kind] = mean(by[0]), mean(by[1]), sum(map(is_small, own)) * 2 > len(own)
    return found


def made(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The SVG; without figures it says so."""
    if TABLE not in results:
        return draw({}, "not measured yet on this version; make figures fills it")
    result = results[TABLE]
    where = f"{result['machine']['cores']} cores, commit {result['commit'][:12]}"
    return draw(kinds(result["cases"]), f"batch 1, tuned; geometric mean of each kind, tick: by medians; {where}")


def draw(of: Mapping[str, Kind], subtitle: str) -> str:
    """A bar for each kind, longest first, and a line at 1, the best peer."""
    order = sorted(of, key=lambda kind: -of[kind][0])
    height, most = TOP + ROW * len(order) + 30, 1.05 * max((max(best, median) for best, median, _ in of.values()), default=1.0)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / most

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="15" font-weight="bold">{TITLE}</text>',
        f'<text x="16" y="43" fill="#555555">{subtitle}</text>',
    ]
    for n, kind in enumerate(order):
        y, (best, median, small) = TOP + ROW * n, of[kind]
        colour = "#9fa8da" if small else "#3f51b5"
        label = f"{best:.2f}x, medians {median:.2f}x{', under 20 us' if small else ''}"
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{NAMES.get(kind, kind)}</text>',
            f'<rect x="{LEFT}" y="{y + 3}" width="{x(best) - LEFT:.1f}" height="{ROW - 7}" fill="{colour}"/>',
            f'<line x1="{x(median):.1f}" x2="{x(median):.1f}" y1="{y + 2}" y2="{y + ROW - 3}" stroke="#000000" stroke-width="2"/>',
            f'<text x="{x(max(best, median)) + 5:.1f}" y="{y + 15}">{label}</text>',
        ]
    bottom = TOP + ROW * len(order)
    if order:
        lines += [
            f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{TOP}" y2="{bottom}" stroke="#d84315" stroke-width="2"/>',
            f'<text x="{x(1):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#d84315">the best of the four</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"
