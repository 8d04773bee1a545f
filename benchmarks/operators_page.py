"""The page of supported operators, docs/operators.md, from a run of ONNX's test suite.

python benchmarks/onnx_suite.py --all --page docs/operators.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import onnx

from tensorsmith.frontends.onnx.chance import RANDOM
from tensorsmith.frontends.onnx.table import table

_HEAD = """# Supported operators of ONNX

Made by `python benchmarks/onnx_suite.py --all --page docs/operators.md` from ONNX's own backend tests (onnx {version}): {figures}.
Do not edit it by hand.

A refusal is an error of one line that says what is not supported, and where. Everything that a file says is heeded or refused: an
attribute or an input that the importer does not read is an error, not a default.

## Operators

"From" is the first version of the operator set that is supported; "body" marks operators that are laid out by ONNX's own definition
of them in terms of others. Tests of models with several operators are counted in one line at the end. Operators without tests of
their own are part of other tests.

| operator | from | tests passed | refused there |
| --- | --- | --- | --- |
"""


def page(counts: Mapping[str, Counter[str]], reasons: Mapping[str, Counter[str]]) -> str:
    """The page, from the outcomes and the reasons of the refusals, both by operator."""
    total = sum(counts.values(), Counter())
    figures = (
        f"{total['passed']} of {sum(total.values())} pass, {total['rounding']} differ from ONNX's numbers by rounding only, "
        f"{total['refused']} are refused, {total['wrong']} wrong, {total['internal']} errors"
    )
    supported = handled()
    bodies = {kind: "body" for kind in with_body() if kind not in supported and counts.get(kind, Counter())["passed"]}
    lines = [_row(kind, first, counts, reasons) for kind, first in sorted({**supported, **bodies}.items())]
    rest = sorted(kind for kind in counts if kind not in supported and kind not in bodies and kind != "(several)")
    missing = [f"| {kind} | {_reasons(reasons.get(kind, Counter()))} |" for kind in rest]
    several = _row("models of several operators", "", {"models of several operators": counts["(several)"]}, {
        "models of several operators": reasons.get("(several)", Counter())
    })  # fmt: skip
    head = _HEAD.format(version=onnx.__version__, figures=figures)
    tail = ["", "## Operators with tests, but without support", "", "| operator | why |", "| --- | --- |", *missing, ""]
    return head + "\n".join([*lines, several, *tail])


def handled() -> dict[str, str]:
    """The operators that have a handler, each with the first version that ONNX and we have it in; random ones are refused."""
    first: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            first[schema.name] = min(schema.since_version, first.get(schema.name, schema.since_version))
    return {kind: str(max(min(versions), first[kind])) for (_, kind), versions in table().items() if kind not in RANDOM}


def listed(text: str) -> dict[str, str]:
    """The operators that a page says are supported, each with the version it is from."""
    rows = text.split("## Operators\n")[1].split("## Operators with tests")[0].splitlines()
    cells = [[c.strip() for c in row.split("|")[1:-1]] for row in rows if row.startswith("| ")]
    return {c[0]: c[1] for c in cells[1:] if c[1] and c[0] != "---"}


def _row(kind: str, first: str, counts: Mapping[str, Counter[str]], reasons: Mapping[str, Counter[str]]) -> str:
    own = counts.get(kind, Counter())
    tests = f"{own['passed']} of {sum(own.values())}" if own else ""
    rounding = f", {own['rounding']} differ by rounding" if own["rounding"] else ""
    return f"| {kind} | {first} | {tests}{rounding} | {_reasons(reasons.get(kind, Counter()))} |"


def _reasons(found: Counter[str]) -> str:
    """The reasons in one line, the most frequent first; those that differ in an element type are one."""
    types: dict[str, list[str]] = {}
    for reason, _ in found.most_common():
        before, word, after = reason.partition("element type ")
        types.setdefault(before + word, []).append(after)
    return "; ".join(start + ", ".join(ends) for start, ends in types.items()).replace("|", "\\|")


def with_body() -> Iterable[str]:
    """The operators that ONNX defines by others."""
    for schema in onnx.defs.get_all_schemas():
        if schema.has_function or schema.has_context_dependent_function:
            yield schema.name
