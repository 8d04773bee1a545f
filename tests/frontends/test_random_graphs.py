"""Random ONNX graphs: imported, optimised, compiled without tuning, and compared with ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from tests.frontends.random_agreement import disagreements, identical, outputs_of
from tests.frontends.random_graphs import Case, Refused, random_case
from tests.frontends.random_operators import OPERATORS
from tests.random_draws import SOURCES, many

import tensorsmith as ts


def case_of(seed: int) -> Case:
    return random_case(Random(seed), OPERATORS)


def run(source: str, examples: int, repeatable: bool = True) -> Counter[str]:
    """Checks random graphs, the same ones every time if `repeatable`. The operators they were made of."""
    operators: Counter[str] = Counter()

    @many(examples, repeatable)
    @given(SOURCES[source])
    def check(rng: Random) -> None:
        try:
            case = random_case(rng, OPERATORS)
        except Refused:
            return
        problems = disagreements(case)
        assert not problems, "\n".join(["", *problems, case.listing])
        operators.update(node.op_type for node in case.model.graph.node)

    check()
    return operators


@pytest.mark.parametrize("source, examples", [("shrinking", 15), ("seeded", 45)])
def test_random_graphs_agree_with_onnxruntime(source: str, examples: int) -> None:
    operators = run(source, examples)
    assert sum(operators.values()) > 5 * examples  # they are graphs, not single nodes


@pytest.mark.long
@pytest.mark.parametrize("source, examples", [("shrinking", 500), ("seeded", 3000)])
def test_many_random_graphs(source: str, examples: int) -> None:
    operators = run(source, examples, repeatable=False)
    assert len(operators) > 80


@pytest.mark.parametrize("seed", range(3))
def test_a_saved_executable_gives_the_same_bits(seed: int, tmp_path: Path) -> None:
    case = case_of(seed)
    executable = ts.compile(ts.load(case.model, shapes=case.shapes))
    executable.save(tmp_path / "model.tsm")
    loaded = ts.load_executable(tmp_path / "model.tsm")
    assert identical(outputs_of(executable, case.inputs), outputs_of(loaded, case.inputs)), case.listing


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_tuned_executables_agree_too(seed: int, tmp_path: Path) -> None:
    case = case_of(seed)
    problems = disagreements(case, lambda model: ts.tune(model, trials=12, database=tmp_path / "tune.db"))
    assert not problems, "\n".join(["", *problems, case.listing])
