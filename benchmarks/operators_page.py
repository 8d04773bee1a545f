"""The page of supported operators, docs/operators.md: tables that `tensorsmith ops` prints, and a run of ONNX's test suite.

python benchmarks/onnx_suite.py --all --page docs/operators.md    # all of it
python benchmarks/operators_page.py docs/operators.md             # the tables of `tensorsmith ops` alone, in a page that is there
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import onnx

from tensorsmith.cli import show
from tensorsmith.cli.ops import table_of
from tensorsmith.errors import UserError
from tensorsmith.frontends.operators import operators

_HEAD = """# Supported operators

`tensorsmith ops` prints these tables, `tensorsmith ops conv` those of its lines that have a word in them, and
`tensorsmith ops --json` the same for programs. The results of ONNX's own backend tests (onnx {version}) are from
`python benchmarks/onnx_suite.py --all --page docs/operators.md`: {figures}.
Do not edit this page by hand.

A refusal is an error of one line that says what is not supported, and where. Everything that a file or a module says is heeded or
refused: an attribute, an input or an argument that is not read is an error, not a default.

## Operators of ONNX

"From opset" is the first version of the operator set that is supported, "by definition" an operator that is laid out by ONNX's own
definition of it in terms of others. The types are those of the first tensor: what ONNX allows there, as far as it is supported.

{onnx}

## Operators of PyTorch

By `ts.from_torch` and `torch.compile(backend="tensorsmith")`: ATen's operators and their overloads. The types are those of
tensors, as far as the operator itself takes them.

{torch}

## ONNX's own tests

Tests of models with several operators are counted in one line at the end. Operators without tests of their own are part of
other tests.

| operator | tests passed | refused there |
| --- | --- | --- |
"""
_NOT_HERE = "(made without PyTorch: `tensorsmith ops --system torch --markdown` prints the table)"


def page(counts: Mapping[str, Counter[str]], reasons: Mapping[str, Counter[str]]) -> str:
    """The page, from the outcomes and the reasons of the refusals, both by operator."""
    total = sum(counts.values(), Counter())
    figures = (
        f"{total['passed']} of {sum(total.values())} pass, {total['rounding']} differ from ONNX's numbers by rounding only, "
        f"{total['refused']} are refused, {total['wrong']} wrong, {total['internal']} errors"
    )
    names = supported()
    rest = sorted(kind for kind in counts if kind not in names and kind != "(several)")
    missing = [f"| {kind} | {_reasons(reasons.get(kind, Counter()))} |" for kind in rest]
    several = "models of several operators"
    rows = [_row(kind, counts.get(kind, Counter()), reasons.get(kind, Counter())) for kind in names]
    rows.append(_row(several, counts["(several)"], reasons.get("(several)", Counter())))
    head = _HEAD.format(version=onnx.__version__, figures=figures, onnx=section("onnx"), torch=section("torch"))
    tail = ["", "## Operators with tests, but without support", "", "| operator | why |", "| --- | --- |", *missing, ""]
    return head + "\n".join([*rows, *tail])


def supported() -> list[str]:
    """The names of ONNX's operators, without their domains, as its tests know them."""
    return sorted(o.operator.rpartition(".")[2] for o in operators("onnx") if not o.operator.startswith("com."))


def section(system: str) -> str:
    """The table of a system between two marks; a note where the system is not installed."""
    try:
        text = show.markdown(*table_of(system, operators(system)))
    except UserError:
        text = _NOT_HERE
    return f"{_begin(system)}\n\n{text}\n\n{_END}"


def in_page(text: str, system: str) -> str:
    """The table that a page has."""
    return text.split(f"{_begin(system)}\n\n")[1].split(f"\n\n{_END}")[0]


def refreshed(text: str) -> str:
    """A page with the tables as they are now; one that cannot be made here stays."""
    for system in ("onnx", "torch"):
        made = section(system)
        if _NOT_HERE not in made:
            before, _, rest = text.partition(_begin(system))
            text = before + made + rest.partition(_END)[2]
    return text


_END = "<!-- end of the table -->"


def _begin(system: str) -> str:
    return f"<!-- printed by: tensorsmith ops --system {system} --markdown -->"


def _row(kind: str, own: Counter[str], why: Counter[str]) -> str:
    tests = f"{own['passed']} of {sum(own.values())}" if own else ""
    rounding = f", {own['rounding']} differ by rounding" if own["rounding"] else ""
    return f"| {kind} | {tests}{rounding} | {_reasons(why)} |"


def _reasons(found: Counter[str]) -> str:
    """The reasons in one line, the most frequent first; those that differ in an element type are one."""
    types: dict[str, list[str]] = {}
    for reason, _ in found.most_common():
        before, word, after = reason.partition("element type ")
        types.setdefault(before + word, []).append(after)
    return "; ".join(start + ", ".join(ends) for start, ends in types.items()).replace("|", "\\|")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(refreshed(path.read_text()))
