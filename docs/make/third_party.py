"""The list of what Tensorsmith depends on and under which licences, from the metadata of what is installed.

python docs/make/third_party.py        writes THIRD_PARTY.md
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = Path(__file__).parents[2] / "THIRD_PARTY.md"
EXTRAS = ("onnx", "report")  # `torch` brings dozens of packages of PyTorch's own choice

HEAD = """# Licences of others

Tensorsmith itself is under the Apache License 2.0 (`LICENSE`). A wheel of it contains no code of others. This page lists what `pip`
installs beside it, as the packages themselves say it, and the one thing that is copied into files that Tensorsmith writes. Made by
`python docs/make/third_party.py`.

## Installed beside it

| package | licence | needed by |
| --- | --- | --- |
"""

TORCH = """
With the extra `torch`, PyTorch (BSD-3-Clause) and what it needs are installed; with `bench`, `dev`, `dist` and `docs`, tools that
no user needs.

LLVM is a part of llvmlite's wheel (Apache-2.0 WITH LLVM-exception). The machine code that it makes from your definitions contains
nothing of it.
"""

COPIED = """
## Copied into files

A report (`tensorsmith report`, `ts.report`) is one HTML file into which plotly.js is copied from the installed `plotly` package,
with the copyright notice at its head. Its licence:

```text
{text}
```
"""


def needed(package: str, extras: tuple[str, ...] = ()) -> list[str]:
    """The packages that one needs directly, here, by their canonical names."""
    found = []
    for text in metadata.requires(package) or ():
        requirement = Requirement(text)
        wanted = requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in ("", *extras))
        if wanted:
            found.append(canonicalize_name(requirement.name))
    return sorted(set(found))


def licence(package: str) -> str:
    """What a package says about itself, in a few words."""
    said = metadata.metadata(package)
    short = said.get("License-Expression") or said.get("License") or ""
    if not short or len(short.splitlines()) > 1 or len(short) > 60:
        classified = [c.rpartition(" :: ")[2] for c in said.get_all("Classifier") or () if c.startswith("License ::")]
        short = ", ".join(classified) or short.splitlines()[0]
    return short.strip()


def table() -> dict[str, tuple[str, str]]:
    """By package: its licence, and who needs it."""
    found: dict[str, tuple[str, str]] = {}
    todo = [(name, "tensorsmith") for name in needed("tensorsmith")]
    todo += [(n, f"tensorsmith[{e}]") for e in EXTRAS for n in needed("tensorsmith", (e,)) if n not in needed("tensorsmith")]
    while todo:
        name, by = todo.pop(0)
        if name not in found:
            found[name] = licence(name), by
            todo += [(n, name) for n in needed(name)]
    return found


def main() -> None:
    rows = [f"| {name} | {text} | {by} |" for name, (text, by) in sorted(table().items())]
    (plotly,) = [f for f in metadata.files("plotly") or () if f.name in ("LICENSE.txt", "LICENSE")][:1]
    copied = COPIED.format(text=plotly.read_text().strip())
    FILE.write_text(HEAD + "\n".join(rows) + "\n" + TORCH + copied)
    print(f"{FILE}: {len(rows)} packages")


if __name__ == "__main__":
    main()
