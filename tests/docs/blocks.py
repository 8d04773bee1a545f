"""The fenced blocks of a page, with what the comment in front of each says about it.

A comment that begins with `snippet:` stands alone in the line before a block, and readers of the page do not see it:

    <!-- snippet: not run: REASON -->         it cannot run in a test; the tests count these
    <!-- snippet: torch -->                   it needs PyTorch: runs in `make test-peers` only
    <!-- snippet: model.onnx is NAME -->      from here on, model.onnx is that stand-in, and `x` fits it (`stand_ins.MODELS`)
    <!-- snippet: prints -->                  a text: just what the Python block before it printed
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^(\s*)```(\w*)\s*$")
_MARK = re.compile(r"^\s*<!-- snippet: (.+) -->\s*$")
_COMMANDS = ("tensorsmith", "python", "python3", "pip", "make", "git", "source")
_NOT_RUN = "not run: "


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is (`line` of its first line), what it is and says."""

    page: str
    line: int
    language: str  # "python", "shell", "text"
    text: str
    mark: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def why_not_run(self) -> str | None:
        """The reason that the page gives, if it says that this block cannot run."""
        return self.mark.removeprefix(_NOT_RUN) if self.mark.startswith(_NOT_RUN) else None

    @property
    def needs_torch(self) -> bool:
        return self.mark == "torch"

    @property
    def stand_in(self) -> str | None:
        """What `model.onnx` is from here on, if that changes."""
        return self.mark.removeprefix("model.onnx is ") if self.mark.startswith("model.onnx is ") else None

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block; those that end in a backslash go on in the next line."""
        return [c for c in re.sub(r"\\\n\s*", " ", self.text).splitlines() if c.strip() and not c.lstrip().startswith("#")]


def pages() -> list[str]:
    """README and all pages of the docs, by their paths from the root."""
    return ["README.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md")))]


def blocks_of(page: str, text: str | None = None) -> list[Block]:
    """The blocks of a page, from top to bottom. Raises if a fence or a mark has no block, or a mark means nothing."""
    lines = ((ROOT / page).read_text() if text is None else text).splitlines()
    found: list[Block] = []
    mark, n = "", 0
    while n < len(lines):
        said, fence = _MARK.match(lines[n]), _FENCE.match(lines[n])
        if fence is None:
            if mark and lines[n].strip():
                raise ValueError(f"{page}:{n + 1}: the mark {mark!r} has no block behind it")
            mark = said.group(1) if said else mark
            n += 1
            continue
        indent, language = fence.groups()
        end = next((m for m in range(n + 1, len(lines)) if lines[m].rstrip() == f"{indent}```"), None)
        if end is None:
            raise ValueError(f"{page}:{n + 1}: the block has no end")
        body = "\n".join(line.removeprefix(indent) for line in lines[n + 1 : end]) + "\n"
        found.append(_checked(Block(page, n + 2, _language(language, body), body, mark)))
        mark, n = "", end + 1
    return found


def _checked(block: Block) -> Block:
    known = block.why_not_run or block.needs_torch or block.stand_in or block.mark in ("", "prints")
    if not known:
        raise ValueError(f"{block}: the mark {block.mark!r} means nothing; see {__name__}")
    return block


def _language(given: str, body: str) -> str:
    """Blocks without a language are commands, if their first word is one of some programs."""
    if given in ("python", "text"):
        return given
    if given in ("sh", "shell", "bash", "console"):
        return "shell"
    first = body.split(maxsplit=1)
    return "shell" if not given and first and first[0] in _COMMANDS else "text"
