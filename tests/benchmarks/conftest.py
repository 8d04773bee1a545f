"""The benchmarks are scripts next to each other, not a package: they import each other by plain name."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """benchmarks/networks.py; `import networks` is the package of the PyTorch modules."""
    specification = importlib.util.spec_from_file_location("networks_script", BENCHMARKS / "networks.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
