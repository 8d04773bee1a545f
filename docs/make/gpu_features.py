"""Writes the table of GPU features into docs/gpu-model.md.

python docs/make/gpu_features.py
"""

from __future__ import annotations

from pathlib import Path

from tensorsmith.backends.gpu.features.schema import SCHEMA

PAGE = Path(__file__).parents[1] / "gpu-model.md"
BEGIN = "<!-- the table: made by docs/make/gpu_features.py -->\n\n"


def with_table(text: str) -> str:
    """The page with the table of now at its end. "Statement" is "kernel" here: a row is a launch."""
    head = text.split(BEGIN)[0]
    return head + BEGIN + SCHEMA.markdown().replace("features per statement", "features per kernel")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
