"""Every peer computes what the definition says, on small odd shapes."""

import pytest
import torch

from contest import WrongAnswer, check
from formulations import case_of
from frameworks import FRAMEWORKS
from peers import peers_for
from tensorsmith.errors import UserError
from tensorsmith.lang.compare import difference, random_inputs
from tensorsmith.lang.evaluate import evaluate
from tensorsmith.ops import catalogue

pytestmark = pytest.mark.peers

SMALL = catalogue.small()
MEMORY = ("add-small", "softmax-small", "layer_norm-small")
OPERATORS = (*catalogue.OPERATORS, "matmul")
NAMES = [
    *(name for name, case in SMALL.items() if case.operator in OPERATORS),
    *MEMORY,
    "NRM(1, 13, 17)",  # batch 1 is another form for some
    "GMM(1, 13, 17, 7)",
    "TBS(1, 13, 3, 7)",
    "C1D(1, 17, 7, 13, 3, 2, 1)",
]


def outputs(case: catalogue.Case, framework: str) -> None:
    workload = case.workload()
    inputs = random_inputs(workload)
    want = evaluate(workload, inputs, precise=True)[workload.outputs[0]]
    with torch.inference_mode():
        peers, notes = peers_for(case, [inputs[b.name] for b in workload.inputs], 2, [framework])
        assert not notes
        wrong = {p.name: difference(workload, workload.outputs[0], p.output(), want) for p in peers}
    assert wrong
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("framework", ["torch", "onnxruntime", "openvino"])
@pytest.mark.parametrize("name", NAMES)
def test_outputs_agree_with_the_definition(name, framework):
    outputs(case_of(name), framework)


@pytest.mark.long  # it compiles C++, for seconds each
@pytest.mark.parametrize("name", NAMES)
def test_outputs_of_torch_compile(name):
    outputs(case_of(name), "torch.compile")


def forms(name: str, *framework: str) -> tuple[set[str], dict[str, str]]:
    case = case_of(name)
    workload = case.workload()
    inputs = random_inputs(workload)
    with torch.inference_mode():
        peers, notes = peers_for(case, [inputs[b.name] for b in workload.inputs], 2, framework)
    return {peer.name for peer in peers}, notes


def test_everyone_is_called_in_each_of_its_ways():
    small = "C2D(1, 9, 9, 7, 13, 3, 1, 1)"
    assert forms(small, "onnxruntime")[0] == {"onnxruntime run", "onnxruntime bound"}
    ways = {"openvino call", "openvino infer", "openvino async"}
    assert forms(small, "openvino")[0] == ways | {f"{way} last" for way in ways}


def test_who_cannot_take_part_is_noted_and_the_others_run(monkeypatch):
    monkeypatch.setitem(FRAMEWORKS, "openvino", "no_such_module")
    monkeypatch.setattr("about.compiler", lambda: None)
    monkeypatch.setattr("peers_onnx.onnxruntime_session", lambda *given: 1 / 0)
    found, notes = forms("GMM(1, 13, 17, 7)", "torch", "torch.compile", "onnxruntime", "openvino")
    assert found == {"torch", "torch columns"}
    assert notes == {
        "torch.compile": "torch.compile needs a C++ compiler, and there is none",
        "onnxruntime": "ZeroDivisionError: division by zero",
        "openvino": "no_such_module is not installed",
    }


@pytest.mark.parametrize("name", [*MEMORY, "NRM-small"])
def test_numpy_outputs(name):
    outputs(SMALL[name], "numpy")


def test_a_wrong_answer_is_an_error():
    case = SMALL["add-small"]
    workload = case.workload()
    want = evaluate(workload, random_inputs(workload))[workload.outputs[0]]
    check(workload, want, {"right": lambda: want})
    with pytest.raises(WrongAnswer, match="broken: add: 1 of 221"):
        check(workload, want, {"right": lambda: want, "broken": lambda: want + (want == want.max())})


def test_case_of():
    assert case_of("C2D-3-b16").shape == (16, 14, 14, 256, 256, 3, 1, 1)
    other = case_of("C2D(1, 28, 28, 8, 16, 3, 1, 1)")
    assert (other.operator, other.workload().stages[-1].shape) == ("C2D", (1, 28, 28, 16))
    with pytest.raises(UserError, match="no case is called"):
        case_of("nothing(1, 2)")
