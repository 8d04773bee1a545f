"""The picture of README and docs: how much faster than the best peer, operator by operator, from the table of docs/benchmarks.md.

python docs/make/picture.py        writes docs/images/operators.svg
"""

from __future__ import annotations

import math
import re
from pathlib import Path

DOCS = Path(__file__).parents[1]
PAGE, PICTURE = DOCS / "benchmarks.md", DOCS / "images" / "operators.svg"
HEADING = "### Batch 1\n"

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
SUBTITLE = "batch 1, 64 trials of tuning, two cores; geometric mean of the cases of each kind; docs/benchmarks.md"
WIDTH, ROW, TOP, LEFT, RIGHT, SCALE = 760, 24, 56, 240, 40, 2.6  # pixels; SCALE: the largest ratio of the axis


def ratios(page: str) -> dict[str, float]:
    """Of each kind of operator, the geometric mean of its cases' ratios to the best peer."""
    table = page.partition(HEADING)[2].partition("\n#")[0]
    found: dict[str, list[float]] = {}
    for kind, ratio in re.findall(r"^\| (\w+)-\d+-b1 \| ([\d.]+) \|", table, re.MULTILINE):
        found.setdefault(kind, []).append(float(ratio))
    return {kind: math.exp(math.fsum(map(math.log, some)) / len(some)) for kind, some in found.items()}


def draw(of: dict[str, float]) -> str:
    """An SVG: a bar for each kind, longest first, and a line at 1, the best peer."""
    order = sorted(of, key=lambda kind: -of[kind])
    height = TOP + ROW * len(order) + 30

    def x(ratio: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ratio / SCALE

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="15" font-weight="bold">{TITLE}</text>',
        f'<text x="16" y="43" fill="#555555">{SUBTITLE}</text>',
    ]
    for n, kind in enumerate(order):
        y = TOP + ROW * n
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{NAMES[kind]}</text>',
            f'<rect x="{LEFT}" y="{y + 3}" width="{x(of[kind]) - LEFT:.1f}" height="{ROW - 7}" fill="#3f51b5"/>',
            f'<text x="{x(of[kind]) + 5:.1f}" y="{y + 15}">{of[kind]:.2f}x</text>',
        ]
    bottom = TOP + ROW * len(order)
    lines += [
        f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{TOP}" y2="{bottom}" stroke="#d84315" stroke-width="2"/>',
        f'<text x="{x(1):.1f}" y="{bottom + 18}" text-anchor="middle" fill="#d84315">the best of the four</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(ratios(PAGE.read_text())))
    print(f"{PICTURE}: {ratios(PAGE.read_text())}")
