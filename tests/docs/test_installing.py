"""How the package is installed: nobody is told to fetch it from an index by its name, which is not ours there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tensorsmith.errors import install

ROOT = Path(__file__).parents[2]
TOLD = re.compile(r"""(pip3?|uv|pipx|conda|poetry)\s+(\w+\s+)?(install|add)\b[^\n]{0,60}?['" ](tensorsmith)\b(?!/)""")
PLACES = ("src", "docs", "examples", "benchmarks")


def problems(text: str) -> list[str]:
    return [m[0] for m in TOLD.finditer(text) if "checkout" not in m[0] and "python -m" not in m[0]]


def files() -> list[Path]:
    found = [
        p for place in PLACES for p in (ROOT / place).rglob("*") if p.suffix in (".py", ".md", ".ipynb", ".html", ".toml", ".js")
    ]
    return [*found, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "mkdocs.yml", ROOT / "pyproject.toml"]


def test_nobody_is_told_to_fetch_it_by_name() -> None:
    found = {str(p.relative_to(ROOT)): problems(p.read_text(errors="replace")) for p in files()}
    assert len(found) > 500 and not {name: words for name, words in found.items() if words}


@pytest.mark.parametrize(
    "text",
    ["pip install tensorsmith", "pip install 'tensorsmith[onnx]'", "pip install tensorsmith==0.1", "uv pip install tensorsmith"],
)
def test_what_is_noticed(text: str) -> None:
    assert problems(f"first: {text}\n") and not problems(install("onnx")) and not problems(install(version="0.1"))


def test_every_extra_that_is_named_exists() -> None:
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.M))
    named = {m for p in (ROOT / "src").rglob("*.py") for m in re.findall(r"install\(['\"](\w+)['\"]\)", p.read_text())}
    assert named and named <= extras
    assert install("onnx") == "pip install '.[onnx]' in a checkout of Tensorsmith"
    assert install(version="0.1.0") == "pip install . in a checkout of Tensorsmith 0.1.0"
