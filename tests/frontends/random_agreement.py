"""Whether a random model gives what ONNX Runtime gives: as imported, after the passes, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tests.frontends.random_graphs import Array, Case

import tensorsmith as ts
from tensorsmith.graph.evaluate import evaluate
from tensorsmith.runtime.executable import Executable

_RELATIVE = 2e-5  # besides the tolerance of each output, which is absolute


def disagreements(case: Case, compiler: Callable[[ts.Model], Executable] = ts.compile) -> list[str]:
    """What is wrong with our results, one line for each way of computing them that is; nothing if all is well."""
    want = case.expected()
    model = ts.load(case.model, shapes=case.shapes)
    found = _compare("as imported", case, list(model.evaluate(case.inputs).values()), want)
    found += _compare("after the passes", case, list(evaluate(model.graph, case.inputs).values()), want)
    executable = compiler(model)
    results = outputs_of(executable, case.inputs)
    found += _compare("compiled", case, results, want)
    outputs_of(executable, {name: np.ones_like(array) for name, array in case.inputs.items()})
    if not identical(results, outputs_of(executable, case.inputs)):
        found.append("compiled: another result when called again")
    return found


def outputs_of(executable: Executable, inputs: dict[str, Array]) -> list[Array]:
    """The outputs, always as a list."""
    return list(executable.run(inputs).values())


def identical(a: Sequence[Array], b: Sequence[Array]) -> bool:
    """To the last bit."""
    return len(a) == len(b) and all(x.tobytes() == y.tobytes() for x, y in zip(a, b))


def _compare(way: str, case: Case, got: Sequence[Array], want: Sequence[Array]) -> list[str]:
    if len(got) != len(want):
        return [f"{way}: {len(got)} outputs, expected {len(want)}"]
    found = []
    for output, mine, theirs, tolerance in zip(case.model.graph.output, got, want, case.tolerances):
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            found.append(f"{way}: {output.name} is {mine.dtype}{list(mine.shape)}, expected {theirs.dtype}{list(theirs.shape)}")
        elif not np.allclose(mine, theirs, rtol=_RELATIVE if mine.dtype.kind == "f" else 0, atol=tolerance, equal_nan=True):
            a, b = np.asarray(mine, np.float64), np.asarray(theirs, np.float64)
            wrong = ~np.isclose(a, b, rtol=_RELATIVE, atol=tolerance, equal_nan=True)
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            found.append(
                f"{way}: {output.name} differs in {wrong.sum()} of {wrong.size} elements by more than {tolerance:.1e}, "
                f"at {list(where)} it is {mine[where]!r}, expected {theirs[where]!r}"
            )
    return found


def outputs_like(way: str, case: Case, results: Sequence[Array]) -> list[str]:
    """What is wrong with results that were computed in some other way, as in `disagreements`."""
    return _compare(way, case, results, case.expected())
