"""What `drawn.py` draws: the same for a seed, other for another, none of it looked at or learned from, and everyone computes it."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import drawn
import models
from contest import check, quiet_machine
from peers import peers_for
from subgraphs import BUILDERS
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.lang.flops import flops
from tensorsmith.ops import catalogue
from tensorsmith.ops.catalogue import Case
from unseen import NETWORKS

SMALL = {
    "Dense": (2, 5, 24, 40), "Attention": (2, 9, 3, 8), "Residual": (1, 9, 9, 8, 12, 3, 1, 1), "DepLayer": (1, 11, 11, 16, 5, 2, 2),
}  # fmt: skip


def some(seed: int, count: int = 60) -> list[Case]:
    return list(itertools.islice(drawn.drawn(seed), count))


def test_a_seed_draws_the_same_cases_and_another_one_others() -> None:
    one, again, other = some(5), some(5), some(6)
    assert [c.name for c in one] == [c.name for c in again]
    assert len({c.title for c in one} & {c.title for c in other}) < 12


def test_cases_are_different_not_too_long_and_of_many_networks() -> None:
    cases = some(7)
    keys = {c.workload().canonical_key for c in cases}
    assert len(keys) == 60 and all(flops(c.workload()) <= drawn.MOST_FLOPS for c in cases)
    assert len({c.name.split(": ")[0] for c in cases}) > 25 and len({c.operator for c in cases}) >= 9


def test_nothing_is_drawn_that_was_looked_at_or_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The learned ones are among those that are looked at, and what is in that set is passed over."""
    known = drawn.looked_at()
    assert {c.workload().canonical_key for c in catalogue.cases(1).values()} <= known
    assert len(known) > 400
    first = some(8, 1)[0]
    monkeypatch.setattr(drawn, "looked_at", lambda: frozenset({first.workload().canonical_key}))
    assert first.title not in {c.title for c in some(8, 80)}


def test_no_network_of_a_table_is_drawn_from() -> None:
    """By name: those of the benchmarks' networks and of the PyTorch modules, whose file is read, since it needs PyTorch."""
    there = (Path(drawn.__file__).parent / "zoo" / "architectures.py").read_text(encoding="utf-8")
    titles = re.findall(r'^@_architecture\("([^"]+)"\)', there, re.MULTILINE)
    assert len(titles) == 18

    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "", name.lower())

    tables = {plain(name) for name in (*models.MODELS, *titles)}
    assert not tables & {plain(name) for name in NETWORKS}


def test_every_layer_of_every_network_can_be_built() -> None:
    make = drawn.builders()
    for layers in NETWORKS.values():
        for operator, shape in layers:
            batch = () if operator in ("softmax", "layer_norm") else (1,)
            assert make[operator](*batch, *shape)


@pytest.mark.parametrize("operator", BUILDERS)
def test_subgraphs_are_what_they_say(operator: str) -> None:
    """Our own definition by the reference evaluator, against ONNX Runtime's answer to the nodes."""
    case = Case(operator, operator, SMALL[operator], BUILDERS[operator])
    workload = case.workload()
    inputs = random_inputs(workload)
    want = evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    found, notes = peers_for(case, [inputs[b.name] for b in workload.inputs], 2, ["onnxruntime"])
    assert not notes and len(found) == 2
    for peer in found:
        assert difference(workload, workload.outputs[0], np.asarray(peer.output()), want, 4.0) is None


@pytest.mark.peers
@pytest.mark.long  # it compiles C++, for seconds each
@pytest.mark.parametrize("operator", BUILDERS)
def test_all_peers_compute_subgraphs(operator: str) -> None:
    case = Case(operator, operator, SMALL[operator], BUILDERS[operator])
    workload = case.workload()
    inputs = random_inputs(workload)
    want = evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    with quiet_machine():
        found, notes = peers_for(case, [inputs[b.name] for b in workload.inputs], 2)
        check(workload, want, {peer.name: peer.output for peer in found})
    names = {peer.name for peer in found}
    assert not notes and any(n.startswith("torch.compile stock") for n in names) and any(n.startswith("openvino") for n in names)
    assert ("openvino infer last" in names) == (operator in ("Residual", "DepLayer"))


def test_the_list_is_printed_and_wrong_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert drawn.main(["--seed", "3", "--count", "4", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    with pytest.raises(SystemExit):
        drawn.main(["--seed", "3", "--peers", "nobody"])
    assert "there is no peer 'nobody'" in capsys.readouterr().err
