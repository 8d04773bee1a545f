"""The benchmarks are scripts next to each other, not a package: they import each other by plain name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
